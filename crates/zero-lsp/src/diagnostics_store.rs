//! What a server published about files, and the wait for what it has to say about one.
//!
//! Servers say what is wrong when they have found out, often in several goes: first the grammar, then
//! the meaning. What is waited for is the first word about the state that was told, and then a moment
//! in which nothing more comes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::open_documents::DocumentVersion;
use crate::response::{self, BoundedList, LspDiagnostic};
use crate::uri;

/// Most files about which something is remembered, how much of one, and of all together: in bytes, as
/// far as they grow with what is said.
const FILES_MAX: usize = 1_000;
const REPORT_BYTES_MAX: usize = 2 << 20;
const BYTES_MAX: usize = 16 << 20;
/// How long nothing may come after the first word, where the server says which state it means, and
/// where it does not.
const QUIET_PERIODS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(600)];

/// What was published last about each file.
#[derive(Debug)]
pub struct DiagnosticsStore {
    files: Mutex<DiagnosticsTable>,
    /// How often anything was published.
    count: watch::Sender<u64>,
}

/// The files, and how much is kept of all.
#[derive(Debug, Default)]
struct DiagnosticsTable {
    reports: HashMap<PathBuf, FileDiagnostics>,
    bytes: usize,
}

/// What was published about a file.
#[derive(Clone, Debug)]
pub struct FileDiagnostics {
    /// Which state of it is meant, where the server says so.
    version: Option<i64>,
    /// How much had been published before and with it.
    number: u64,
    at: Instant,
    /// How much of memory it takes, about.
    bytes: usize,
    /// What is wrong.
    pub found: BoundedList<LspDiagnostic>,
}

impl FileDiagnostics {
    fn quiet_period(&self) -> Duration {
        if self.version.is_some() { QUIET_PERIODS[0] } else { QUIET_PERIODS[1] }
    }
}

impl Default for DiagnosticsStore {
    fn default() -> Self {
        Self { files: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl DiagnosticsStore {
    /// Takes what a server publishes. False when it makes no sense.
    pub fn publish(&self, params: &Value) -> bool {
        let uri = params.get("uri").and_then(Value::as_str);
        let list = params.get("diagnostics").and_then(Value::as_array);
        let (Some(path), Some(list)) = (uri.and_then(uri::to_path), list) else { return false };
        let number = *self.count.borrow() + 1;
        let version = params.get("version").and_then(Value::as_i64);
        let at = Instant::now();
        let (found, bytes) = truncate_diagnostics(response::parse_diagnostics(list));
        let bytes = bytes + path.as_os_str().len();
        self.lock().insert(path, FileDiagnostics { version, number, at, bytes, found });
        self.count.send_replace(number);
        true
    }

    /// How often anything was published.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// What is known of a file in that state.
    pub fn get(&self, path: &Path, told: DocumentVersion) -> Option<FileDiagnostics> {
        let report = self.lock().reports.get(path)?.clone();
        let is_meant = match report.version {
            Some(version) => version >= told.version,
            None => report.number > told.since,
        };
        is_meant.then_some(report)
    }

    /// Waits until a server has said what there is to say about a file in that state, and no longer
    /// than `limit`.
    pub async fn wait(
        &self,
        path: &Path,
        told: DocumentVersion,
        limit: Duration,
    ) -> Option<FileDiagnostics> {
        let mut news = self.count.subscribe();
        let end = Instant::now() + limit;
        loop {
            news.mark_unchanged();
            let known = self.get(path, told);
            let until =
                known.as_ref().map_or(end, |report| end.min(report.at + report.quiet_period()));
            if Instant::now() >= until {
                return known;
            }
            // Whether the time is up or something came, it is looked at anew.
            if let Ok(Err(_)) = tokio::time::timeout_at(until, news.changed()).await {
                return self.get(path, told);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, DiagnosticsTable> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiagnosticsTable {
    /// Takes in what was published about a file. What was published longest ago makes room for it.
    fn insert(&mut self, path: PathBuf, report: FileDiagnostics) {
        self.remove(&path);
        while self.reports.len() >= FILES_MAX || self.bytes + report.bytes > BYTES_MAX {
            let oldest = self.reports.iter().min_by_key(|(_, report)| report.number);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { break };
            self.remove(&oldest);
        }
        self.bytes += report.bytes;
        self.reports.insert(path, report);
    }

    fn remove(&mut self, path: &Path) {
        let gone = self.reports.remove(path).map_or(0, |report| report.bytes);
        self.bytes = self.bytes.saturating_sub(gone);
    }
}

/// The first of the problems, as many as are kept of one file, and how much of memory they take.
fn truncate_diagnostics(
    mut found: BoundedList<LspDiagnostic>,
) -> (BoundedList<LspDiagnostic>, usize) {
    let (mut kept, mut bytes) = (0, 0);
    for problem in &found.taken {
        let texts = [Some(&problem.message), problem.source.as_ref(), problem.code.as_ref()];
        let length: usize = texts.into_iter().flatten().map(String::len).sum();
        let with_it = bytes + length + size_of::<LspDiagnostic>();
        if with_it > REPORT_BYTES_MAX {
            break;
        }
        (kept, bytes) = (kept + 1, with_it);
    }
    found.taken.truncate(kept);
    found.taken.shrink_to_fit();
    (found, bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn publish_params(version: Option<i64>, messages: &[&str]) -> Value {
        let range = json!({"start": {"line": 0, "character": 0}});
        let list: Vec<Value> =
            messages.iter().map(|message| json!({"range": range, "message": message})).collect();
        match version {
            Some(version) => json!({"uri": "file:///a", "version": version, "diagnostics": list}),
            None => json!({"uri": "file:///a", "diagnostics": list}),
        }
    }

    fn messages(report: Option<FileDiagnostics>) -> Option<Vec<String>> {
        Some(report?.found.taken.into_iter().map(|found| found.message).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn latest_report_for_version_counts() {
        let published = DiagnosticsStore::default();
        let told = DocumentVersion { version: 2, since: 0 };
        let limit = Duration::from_secs(5);
        let path = Path::new("/a");
        assert!(published.publish(&publish_params(Some(1), &["old"])));
        assert_eq!(messages(published.wait(path, told, limit).await), None);
        let waiting = published.wait(path, told, limit);
        let saying = async {
            published.publish(&publish_params(Some(2), &[]));
            tokio::time::sleep(QUIET_PERIODS[0] / 2).await;
            published.publish(&publish_params(Some(2), &["new"]));
        };
        let (found, ()) = tokio::join!(waiting, saying);
        assert_eq!(messages(found), Some(vec!["new".to_owned()]));
        // Known for long: nobody waits.
        let before = Instant::now();
        assert!(published.wait(path, told, limit).await.is_some());
        tokio::time::sleep(QUIET_PERIODS[0]).await;
        let known = Instant::now();
        assert!(published.wait(path, told, limit).await.is_some());
        assert_eq!(known, Instant::now());
        assert!(before <= known);
    }

    #[tokio::test(start_paused = true)]
    async fn report_without_version_counts_when_later() {
        let published = DiagnosticsStore::default();
        let path = Path::new("/a");
        published.publish(&publish_params(None, &["old"]));
        let told = DocumentVersion { version: 9, since: published.count() };
        assert_eq!(messages(published.wait(path, told, Duration::from_secs(1)).await), None);
        published.publish(&publish_params(None, &["new"]));
        let found = published.wait(path, told, Duration::from_secs(1)).await;
        assert_eq!(messages(found), Some(vec!["new".to_owned()]));
    }

    #[test]
    fn invalid_reports_are_rejected_and_files_bounded() {
        let published = DiagnosticsStore::default();
        for wrong in
            [json!(null), json!({"uri": "x:y", "diagnostics": []}), json!({"uri": "file:///a"})]
        {
            assert!(!published.publish(&wrong), "{wrong}");
        }
        for number in 0..FILES_MAX + 10 {
            published.publish(&json!({"uri": format!("file:///{number}"), "diagnostics": []}));
        }
        assert_eq!(published.lock().reports.len(), FILES_MAX);
    }

    #[test]
    fn stored_diagnostics_are_bounded_in_bytes() {
        let published = DiagnosticsStore::default();
        let long = "x".repeat(1_900);
        let messages = vec![long.as_str(); 4_000];
        for number in 0..20 {
            let mut said = publish_params(None, &messages);
            said["uri"] = json!(format!("file:///{number}"));
            assert!(published.publish(&said));
        }
        let files = published.lock();
        let sum: usize = files.reports.values().map(|report| report.bytes).sum();
        assert_eq!(files.bytes, sum);
        assert!(sum <= BYTES_MAX, "{sum}");
        let (last, first) = (Path::new("/19"), Path::new("/0"));
        let kept = &files.reports[last].found;
        assert!(kept.taken.len() < messages.len() && kept.total == messages.len());
        assert!(!files.reports.contains_key(first));
        drop(files);
        // What is said anew about a file takes the place of what was.
        for number in 0..20 {
            published.publish(&json!({"uri": format!("file:///{number}"), "diagnostics": []}));
        }
        assert!(published.lock().bytes < 1_000);
    }
}
