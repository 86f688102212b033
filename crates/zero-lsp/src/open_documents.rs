//! The files that a server has open, with the text that the person sees.
//!
//! A server believes what it was told of an open file and not the disk. So what is open is little,
//! is told anew when it changes, and is closed when somebody else changed it or nobody asked about
//! it for a while. Pure: it says what to tell the server, and somebody else does.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_sandbox::path_survey::ChangeStamp;

use crate::uri;

/// Most files that are open at a time.
pub const OPEN_MAX: usize = 50;
/// How long a file stays open that nobody asks about.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// What a server is told of a file on disk: that it was changed.
const FILE_CHANGED: u64 = 2;

/// Something to tell the server.
pub type LspNotification = (&'static str, Value);

/// A text as it is to be known to the server.
#[derive(Clone, Copy, Debug)]
pub struct DocumentText<'a> {
    /// The file.
    pub path: &'a Path,
    /// What its language is called.
    pub language: &'a str,
    /// All of it.
    pub text: &'a str,
    /// Whether it differs from what is on disk, because an editor has not saved it.
    pub is_unsaved: bool,
}

/// Which state of a file the server was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// The number of that state; each is larger than all before.
    pub version: i64,
    /// What had been published about any file by then.
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
    told: DocumentVersion,
    text: u64,
    length: usize,
    is_unsaved: bool,
    stamp: Option<ChangeStamp>,
    used: Instant,
}

impl OpenDocuments {
    /// Sees to it that the server knows a text: what to tell it, and which state that is. `since`
    /// counts what was published so far; `stamp` tells whether a file on disk is still the same.
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
            return (known.told, notifications);
        }
        self.version += 1;
        let told = DocumentVersion { version: self.version, since };
        let uri = uri::from_path(path);
        notifications.push(match self.open.contains_key(path) {
            true => (
                "textDocument/didChange",
                json!({
                    "textDocument": {"uri": uri, "version": told.version},
                    "contentChanges": [{"text": text}],
                }),
            ),
            false => (
                "textDocument/didOpen",
                json!({"textDocument": {
                    "uri": uri, "languageId": language, "version": told.version, "text": text,
                }}),
            ),
        });
        let (text, length, stamp) = (hash, text.len(), stamp(path));
        let document = OpenDocument { told, text, length, is_unsaved, stamp, used: now };
        self.open.insert(path.to_owned(), document);
        (told, notifications)
    }

    /// Whether a file is open.
    pub fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// The state of a file that the server was told of last.
    pub fn version(&self, path: &Path) -> Option<DocumentVersion> {
        self.open.get(path).map(|document| document.told)
    }

    /// Files that are open with a text which is not on disk.
    pub fn unsaved_files(&self) -> Vec<PathBuf> {
        let unsaved = self.open.iter().filter(|(_, document)| document.is_unsaved);
        unsaved.map(|(path, _)| path.clone()).collect()
    }

    /// Closes a file.
    pub fn close(&mut self, path: &Path) -> Option<LspNotification> {
        self.open.remove(path)?;
        Some(("textDocument/didClose", json!({"textDocument": {"uri": uri::from_path(path)}})))
    }

    /// Closes what somebody else changed on disk, what nobody asked about for long, and the one
    /// that was left alone longest where there is no room for `path`.
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
            let told = json!({ "changes": changes });
            notifications.push(("workspace/didChangeWatchedFiles", told));
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

    /// What a server is told of a file, in short.
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
        let (first, said) = tell("/a", "one", 7);
        assert_eq!(
            (first, summarize(&said)),
            (DocumentVersion { version: 1, since: 7 }, vec!["didOpen a one".to_owned()])
        );
        assert_eq!(tell("/a", "one", 9), (first, Vec::new()));
        let (second, said) = tell("/a", "two", 9);
        assert_eq!((second.version, summarize(&said)), (2, vec!["didChange a two".to_owned()]));
        assert_eq!(tell("/b", "one", 9).0.version, 3);
    }

    #[test]
    fn file_changed_by_others_is_closed() {
        #![expect(clippy::disallowed_methods, reason = "a stamp is a real file's")]
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
        let (_, said) = documents.sync(document_text("/b", "two", false), 0, now, |_| new);
        assert_eq!(summarize(&said), ["didClose a ", "didChangeWatchedFiles a", "didOpen b two"]);
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
        let (_, said) = documents.sync(document_text("/more", "x", false), 0, later, |_| None);
        assert_eq!(summarize(&said), ["didClose 0 ", "didOpen more x"]);
        let (_, said) =
            documents.sync(document_text("/more", "x", false), 0, later + 2 * IDLE_MAX, |_| None);
        assert_eq!(said.len(), OPEN_MAX - 1);
        assert_eq!(documents.open.len(), 1);
    }
}
