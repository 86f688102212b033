//! The files that a server has open ([`OpenDocuments`]), with the text that the user sees in the
//! editor.
//!
//! For an open file, a server uses the text that it was sent and ignores the disk. So few files are
//! open at a time. Their text is sent again when it changes, and a file is closed when it changed
//! on disk or was not queried for a while. This module does no I/O: it returns the notifications
//! that the caller has to send.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_sandbox::path_survey::ChangeStamp;

use crate::uri;

/// Most files that are open at a time.
pub const OPEN_MAX: usize = 50;
/// How long a file that is not queried stays open.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// The `FileChangeType` for a file that was changed on disk.
const FILE_CHANGED: u64 = 2;

/// A notification for the server: method and parameters.
pub type LspNotification = (&'static str, Value);

/// The text that a server should have for a file.
#[derive(Clone, Copy, Debug)]
pub struct DocumentText<'a> {
    /// Absolute path of the file.
    pub path: &'a Path,
    /// LSP id of the language, such as `rust`.
    pub language: &'a str,
    /// The complete text of the file.
    pub text: &'a str,
    /// Whether the text differs from the file on disk, because an editor has not saved it.
    pub is_unsaved: bool,
}

/// A version of a file that was sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// Version number. It increases with every text sent, for all files together.
    pub version: i64,
    /// Number of diagnostics reports about any file before this version was sent.
    pub since: u64,
}

/// The files that a server has open.
#[derive(Debug, Default)]
pub struct OpenDocuments {
    open: HashMap<PathBuf, OpenDocument>,
    version: i64,
    hasher: RandomState,
}

#[derive(Debug)]
struct OpenDocument {
    sent: DocumentVersion,
    text: u64,
    length: usize,
    is_unsaved: bool,
    stamp: Option<ChangeStamp>,
    used: Instant,
}

impl OpenDocuments {
    /// Makes sure that the server has a text. Returns the version of that text and the
    /// notifications to send. `since` is the number of diagnostics reports so far; `stamp` returns
    /// a value that changes when the file on disk changes.
    pub fn sync(
        &mut self,
        text: DocumentText<'_>,
        since: u64,
        now: Instant,
        stamp: impl Fn(&Path) -> Option<ChangeStamp>,
    ) -> (DocumentVersion, Vec<LspNotification>) {
        let mut notifications = self.close_outdated(text.path, now, &stamp);
        let DocumentText { path, language, text, is_unsaved } = text;
        let hash = self.hasher.hash_one(text);
        if let Some(known) = self.open.get_mut(path)
            && (known.text, known.length) == (hash, text.len())
        {
            (known.used, known.is_unsaved, known.stamp) = (now, is_unsaved, stamp(path));
            return (known.sent, notifications);
        }
        self.version += 1;
        let sent = DocumentVersion { version: self.version, since };
        let uri = uri::from_path(path);
        notifications.push(match self.open.contains_key(path) {
            true => (
                "textDocument/didChange",
                json!({
                    "textDocument": {"uri": uri, "version": sent.version},
                    "contentChanges": [{"text": text}],
                }),
            ),
            false => (
                "textDocument/didOpen",
                json!({"textDocument": {
                    "uri": uri, "languageId": language, "version": sent.version, "text": text,
                }}),
            ),
        });
        let (text, length, stamp) = (hash, text.len(), stamp(path));
        let document = OpenDocument { sent, text, length, is_unsaved, stamp, used: now };
        self.open.insert(path.to_owned(), document);
        (sent, notifications)
    }

    /// Returns whether a file is open.
    pub fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// Returns the files that are open with a text that differs from the one on disk.
    pub fn unsaved_files(&self) -> Vec<PathBuf> {
        let unsaved = self.open.iter().filter(|(_, document)| document.is_unsaved);
        unsaved.map(|(path, _)| path.clone()).collect()
    }

    /// Closes a file. Returns the notification to send, if it was open.
    pub fn close(&mut self, path: &Path) -> Option<LspNotification> {
        self.open.remove(path)?;
        Some(("textDocument/didClose", json!({"textDocument": {"uri": uri::from_path(path)}})))
    }

    /// Closes files that changed on disk and files not queried for long. If `path` is new and the
    /// limit is reached, closes the one not queried for longest, too.
    fn close_outdated(
        &mut self,
        path: &Path,
        now: Instant,
        stamp: &impl Fn(&Path) -> Option<ChangeStamp>,
    ) -> Vec<LspNotification> {
        let others = self.open.iter().filter(|(other, _)| *other != path);
        let is_changed = |(other, document): &(&PathBuf, &OpenDocument)| {
            !document.is_unsaved && document.stamp != stamp(other)
        };
        let changed: Vec<PathBuf> =
            others.clone().filter(is_changed).map(|(other, _)| other.clone()).collect();
        let is_idle = |(_, document): &(&PathBuf, &OpenDocument)| now - document.used > IDLE_MAX;
        let idle: Vec<PathBuf> =
            others.clone().filter(is_idle).map(|(other, _)| other.clone()).collect();
        let mut notifications = Vec::new();
        for other in &changed {
            notifications.extend(self.close(other));
        }
        if !changed.is_empty() {
            let changes: Vec<Value> = changed
                .iter()
                .map(|other| json!({"uri": uri::from_path(other), "type": FILE_CHANGED}))
                .collect();
            let sent = json!({ "changes": changes });
            notifications.push(("workspace/didChangeWatchedFiles", sent));
        }
        for other in idle {
            notifications.extend(self.close(&other));
        }
        while !self.open.contains_key(path) && self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().min_by_key(|(_, document)| document.used);
            let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else { break };
            notifications.extend(self.close(&oldest));
        }
        notifications
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short form of each notification.
    fn summarize(notifications: &[LspNotification]) -> Vec<String> {
        let short = |(method, params): &LspNotification| {
            let name = |value: &Value| {
                value.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned()
            };
            let method = method.rsplit('/').next().unwrap_or_default();
            match method {
                "didChangeWatchedFiles" => {
                    format!("{method} {}", name(&params["changes"][0]["uri"]))
                }
                _ => {
                    let document = &params["textDocument"];
                    let text =
                        document["text"].as_str().or(params["contentChanges"][0]["text"].as_str());
                    format!("{method} {} {}", name(&document["uri"]), text.unwrap_or_default())
                }
            }
        };
        notifications.iter().map(short).collect()
    }

    fn document_text<'a>(path: &'a str, text: &'a str, is_unsaved: bool) -> DocumentText<'a> {
        DocumentText { path: Path::new(path), language: "c", text, is_unsaved }
    }

    #[test]
    fn unchanged_text_is_sent_once_with_growing_versions() {
        let (mut documents, now) = (OpenDocuments::default(), Instant::now());
        let mut tell = |path, content, since| {
            documents.sync(document_text(path, content, false), since, now, |_| None)
        };
        let (first, messages) = tell("/a", "one", 7);
        assert_eq!(
            (first, summarize(&messages)),
            (DocumentVersion { version: 1, since: 7 }, vec!["didOpen a one".to_owned()])
        );
        assert_eq!(tell("/a", "one", 9), (first, Vec::new()));
        let (second, messages) = tell("/a", "two", 9);
        assert_eq!((second.version, summarize(&messages)), (2, vec!["didChange a two".to_owned()]));
        assert_eq!(tell("/b", "one", 9).0.version, 3);
    }

    #[test]
    fn file_changed_by_others_is_closed() {
        #![expect(clippy::disallowed_methods, reason = "change stamps come from real files")]
        let temp = tempfile::tempdir().unwrap();
        let real = |name: &str| {
            std::fs::write(temp.path().join(name), "x").unwrap();
            zero_sandbox::path_survey::read_stamp(&temp.path().join(name))
        };
        let (old, new) = (real("old"), real("new"));
        let (mut documents, now) = (OpenDocuments::default(), Instant::now());
        documents.sync(document_text("/a", "one", false), 0, now, |_| old);
        documents.sync(document_text("/u", "mine", true), 0, now, |_| old);
        assert_eq!(documents.unsaved_files(), [PathBuf::from("/u")]);
        let (_, messages) = documents.sync(document_text("/b", "two", false), 0, now, |_| new);
        assert_eq!(
            summarize(&messages),
            ["didClose a ", "didChangeWatchedFiles a", "didOpen b two"]
        );
        assert!(documents.is_open(Path::new("/u")));
    }

    #[test]
    fn open_documents_are_bounded_and_expire() {
        let (mut documents, now) = (OpenDocuments::default(), Instant::now());
        for number in 0..OPEN_MAX {
            let path = format!("/{number}");
            let later = now + Duration::from_millis(number as u64);
            documents.sync(document_text(&path, "x", false), 0, later, |_| None);
        }
        let later = now + Duration::from_secs(1);
        let (_, messages) = documents.sync(document_text("/more", "x", false), 0, later, |_| None);
        assert_eq!(summarize(&messages), ["didClose 0 ", "didOpen more x"]);
        let (_, messages) =
            documents.sync(document_text("/more", "x", false), 0, later + 2 * IDLE_MAX, |_| None);
        assert_eq!(messages.len(), OPEN_MAX - 1);
        assert_eq!(documents.open.len(), 1);
    }
}
