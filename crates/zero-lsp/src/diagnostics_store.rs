//! The diagnostics that a server published ([`DiagnosticsStore`]), and waiting for those of one
//! file.
//!
//! Servers publish when they have results, often in several steps: syntax errors first, type errors
//! later. So a waiter takes the first report about the version it asked for, and then waits until
//! no further report has arrived for a short time.

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

/// Most files with stored diagnostics, and most bytes for one file and for all files together. Only
/// the parts that grow with the reported text are counted.
const FILES_MAX: usize = 1_000;
const REPORT_BYTES_MAX: usize = 2 << 20;
const BYTES_MAX: usize = 16 << 20;
/// How long no further report may arrive after the first one: if the server names the version of
/// the file, and if it does not.
const QUIET_PERIODS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(600)];

/// The latest diagnostics of each file.
#[derive(Debug)]
pub struct DiagnosticsStore {
    files: Mutex<DiagnosticsTable>,
    /// Number of reports so far, for all files.
    count: watch::Sender<u64>,
}

/// The reports by file, and the bytes they take together.
#[derive(Debug, Default)]
struct DiagnosticsTable {
    reports: HashMap<PathBuf, FileDiagnostics>,
    bytes: usize,
}

/// The latest report about one file.
#[derive(Clone, Debug)]
pub struct FileDiagnostics {
    /// The version of the file that is meant, if the server names it.
    version: Option<i64>,
    /// Number of this report, counting all files.
    number: u64,
    at: Instant,
    /// Approximate size in memory, in bytes.
    bytes: usize,
    /// The diagnostics of the file.
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
    /// Stores the parameters of a `publishDiagnostics` notification. Returns false if they are
    /// malformed.
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

    /// Returns the number of reports so far, for all files.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Returns the report about a file in the given version or a later one, if there is one.
    pub fn get(&self, path: &Path, sent: DocumentVersion) -> Option<FileDiagnostics> {
        let report = self.lock().reports.get(path)?.clone();
        let is_meant = match report.version {
            Some(version) => version >= sent.version,
            None => report.number > sent.since,
        };
        is_meant.then_some(report)
    }

    /// Waits, at most `limit`, until reports about a file in the given version stop arriving.
    /// Returns `None` if there was none.
    pub async fn wait(
        &self,
        path: &Path,
        sent: DocumentVersion,
        limit: Duration,
    ) -> Option<FileDiagnostics> {
        let mut updates = self.count.subscribe();
        let end = Instant::now() + limit;
        loop {
            updates.mark_unchanged();
            let known = self.get(path, sent);
            let until =
                known.as_ref().map_or(end, |report| end.min(report.at + report.quiet_period()));
            if Instant::now() >= until {
                return known;
            }
            // After a timeout as well as after a report, the state is evaluated again.
            if let Ok(Err(_)) = tokio::time::timeout_at(until, updates.changed()).await {
                return self.get(path, sent);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, DiagnosticsTable> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiagnosticsTable {
    /// Stores the report about a file. The oldest reports are dropped if there is no space.
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
        let freed = self.reports.remove(path).map_or(0, |report| report.bytes);
        self.bytes = self.bytes.saturating_sub(freed);
    }
}

/// Returns as many diagnostics as are stored for one file, and their size in bytes.
fn truncate_diagnostics(
    mut found: BoundedList<LspDiagnostic>,
) -> (BoundedList<LspDiagnostic>, usize) {
    let (mut kept, mut bytes) = (0, 0);
    for problem in &found.items {
        let texts = [Some(&problem.message), problem.source.as_ref(), problem.code.as_ref()];
        let length: usize = texts.into_iter().flatten().map(String::len).sum();
        let with_it = bytes + length + size_of::<LspDiagnostic>();
        if with_it > REPORT_BYTES_MAX {
            break;
        }
        (kept, bytes) = (kept + 1, with_it);
    }
    found.items.truncate(kept);
    found.items.shrink_to_fit();
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
        Some(report?.found.items.into_iter().map(|found| found.message).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn latest_report_for_version_counts() {
        let published = DiagnosticsStore::default();
        let sent = DocumentVersion { version: 2, since: 0 };
        let limit = Duration::from_secs(5);
        let path = Path::new("/a");
        assert!(published.publish(&publish_params(Some(1), &["old"])));
        assert_eq!(messages(published.wait(path, sent, limit).await), None);
        let waiting = published.wait(path, sent, limit);
        let saying = async {
            published.publish(&publish_params(Some(2), &[]));
            tokio::time::sleep(QUIET_PERIODS[0] / 2).await;
            published.publish(&publish_params(Some(2), &["new"]));
        };
        let (found, ()) = tokio::join!(waiting, saying);
        assert_eq!(messages(found), Some(vec!["new".to_owned()]));
        // The report is old enough, so that there is nothing to wait for.
        let before = Instant::now();
        assert!(published.wait(path, sent, limit).await.is_some());
        tokio::time::sleep(QUIET_PERIODS[0]).await;
        let known = Instant::now();
        assert!(published.wait(path, sent, limit).await.is_some());
        assert_eq!(known, Instant::now());
        assert!(before <= known);
    }

    #[tokio::test(start_paused = true)]
    async fn report_without_version_counts_when_later() {
        let published = DiagnosticsStore::default();
        let path = Path::new("/a");
        published.publish(&publish_params(None, &["old"]));
        let sent = DocumentVersion { version: 9, since: published.count() };
        assert_eq!(messages(published.wait(path, sent, Duration::from_secs(1)).await), None);
        published.publish(&publish_params(None, &["new"]));
        let found = published.wait(path, sent, Duration::from_secs(1)).await;
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
            let mut params = publish_params(None, &messages);
            params["uri"] = json!(format!("file:///{number}"));
            assert!(published.publish(&params));
        }
        let files = published.lock();
        let sum: usize = files.reports.values().map(|report| report.bytes).sum();
        assert_eq!(files.bytes, sum);
        assert!(sum <= BYTES_MAX, "{sum}");
        let (last, first) = (Path::new("/19"), Path::new("/0"));
        let kept = &files.reports[last].found;
        assert!(kept.items.len() < messages.len() && kept.total == messages.len());
        assert!(!files.reports.contains_key(first));
        drop(files);
        // A new report about a file replaces the old one.
        for number in 0..20 {
            published.publish(&json!({"uri": format!("file:///{number}"), "diagnostics": []}));
        }
        assert!(published.lock().bytes < 1_000);
    }
}
