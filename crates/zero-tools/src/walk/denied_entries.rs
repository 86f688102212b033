//! Entries that a search found but may not read ([`DeniedEntries`]): left out and counted, never
//! named.
//!
//! The count must not disclose secret names either. It covers everything that was found and denied,
//! before any glob of the caller is applied. Otherwise a caller could guess a name by trying
//! patterns until the count changes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use zero_runtime::CallContext;
use zero_sandbox::{FinalLinkMode, path_survey};

use super::WalkEntryKind;
use crate::text_format::pluralize;

/// Entries that were left out because reading them is denied or needs approval. Only fingerprints
/// are stored: enough to count an entry found by two walks once, and nothing that could be
/// disclosed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DeniedEntries {
    files: HashSet<u64>,
    folders: HashSet<u64>,
}

impl DeniedEntries {
    fn add(&mut self, canonical: &Path, kind: WalkEntryKind) {
        let mut hasher = DefaultHasher::new();
        canonical.hash(&mut hasher);
        match kind {
            WalkEntryKind::File => self.files.insert(hasher.finish()),
            WalkEntryKind::Folder => self.folders.insert(hasher.finish()),
        };
    }

    /// Merges the entries of two walks.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self.folders.extend(other.folders);
        self
    }

    /// Returns the count, or `None` if there are none.
    pub(crate) fn count(&self) -> Option<u64> {
        let count = self.files.len() + self.folders.len();
        (count > 0).then_some(count as u64)
    }

    /// Returns the note for the reader.
    pub(crate) fn note(&self) -> Option<String> {
        let count = self.count()?;
        let files = pluralize(self.files.len() as u64, "file", "files");
        let folders = pluralize(self.folders.len() as u64, "folder", "folders");
        let what = match (self.files.is_empty(), self.folders.is_empty()) {
            (_, true) => files,
            (true, _) => folders,
            (false, false) => format!("{files} and {folders}"),
        };
        let them = if count == 1 { "it" } else { "them" };
        Some(format!("{what} left out: reading {them} is denied or needs approval"))
    }
}

/// Checks whether the entries below a folder may be read.
pub(crate) struct ReadFilter {
    cx: CallContext,
    /// The folder as the caller wrote it.
    written: PathBuf,
    denied: Mutex<DeniedEntries>,
    /// Identities of the denied files with several names, once one is needed.
    linked: OnceLock<Option<HashSet<(u64, u64)>>>,
}

impl ReadFilter {
    /// Creates a filter for the entries below a folder, or `None` if the policy never denies a
    /// read, so that there is no cost.
    pub(crate) fn new(written: &str, folder: &Path, cx: &CallContext) -> Option<Self> {
        let written = if written == "." { "" } else { written };
        cx.filters_reads_in(folder).then(|| Self {
            cx: cx.clone(),
            written: PathBuf::from(written),
            denied: Mutex::default(),
            linked: OnceLock::new(),
        })
    }

    /// Returns whether an entry that is not a link may be read. Denied ones are counted.
    pub(crate) fn allows(&self, relative: &Path, canonical: &Path, kind: WalkEntryKind) -> bool {
        self.check_read(relative, &[canonical], kind)
    }

    /// The same for a link: neither the link nor its target may be denied. If the target does not
    /// exist or cannot be examined, only the link is checked.
    pub(crate) fn allows_link(&self, relative: &Path, path: &Path) -> bool {
        let target = self.cx.workspace().resolve_path(path, FinalLinkMode::Follow);
        let leads_to = target.as_ref().map_or(path, |target| target.path());
        self.check_read(relative, &[path, leads_to], WalkEntryKind::File)
    }

    fn check_read(&self, relative: &Path, canonical: &[&Path], kind: WalkEntryKind) -> bool {
        let written = self.written.join(relative);
        let is_denied = |path: &&&Path| {
            !self.cx.may_read(&written, path)
                || (kind == WalkEntryKind::File && self.is_denied_by_other_name(path))
        };
        let denied = canonical.iter().find(is_denied);
        if let (Some(_), [own, ..]) = (denied, canonical) {
            self.denied.lock().unwrap_or_else(PoisonError::into_inner).add(own, kind);
        }
        denied.is_none()
    }

    /// Whether a file is a denied one by another name (a hard link).
    fn is_denied_by_other_name(&self, path: &Path) -> bool {
        let links = path_survey::read_hard_links(path).filter(|links| links.names > 1);
        links.is_some_and(|links| {
            let linked = self.linked.get_or_init(|| self.cx.linked_denied_files());
            linked.as_ref().is_none_or(|linked| linked.contains(&links.identity))
        })
    }

    /// Returns the entries denied so far.
    pub(crate) fn take_denied(&self) -> DeniedEntries {
        std::mem::take(&mut *self.denied.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use std::os::unix::fs::symlink;
    use zero_core::{ErrorReason, ResultDisplay, ToolResult};

    const FILES: [(&str, &str); 9] = [
        ("a.txt", "needle\n"),
        ("secret.txt", "needle in-secret\n"),
        ("sub/b.txt", "needle\n"),
        ("sub/secret.txt", "needle in-secret\n"),
        ("sub/vault/key3.txt", "needle in-secret\n"),
        ("vault/key1.txt", "needle in-secret\n"),
        ("vault/deep/key2.txt", "needle in-secret\n"),
        (".gitignore", "out/\n"),
        ("out/secret.txt", "needle in-secret\n"),
    ];

    /// Creates files, of which those named `secret.txt` and all in a `vault` may not be read, and
    /// links.
    fn sample_tree() -> TestHost {
        let host = TestHost::new().with_files(&FILES).with_denied(&["secret.txt", "vault"]);
        for (target, link) in [
            ("a.txt", "fine"),
            ("nowhere", "dangling"),
            ("loop", "loop"),
            ("secret.txt", "to-file"),
            ("vault", "to-folder"),
            ("vault/deep/key2.txt", "to-deep"),
            ("to-file", "to-link"),
            ("../secret.txt", "sub/to-above"),
        ] {
            symlink(target, host.path(link)).unwrap();
        }
        host
    }

    /// Returns all texts of a result as one text.
    fn all_text(result: &ToolResult) -> String {
        let ResultDisplay::Markdown { text } = &result.display else {
            panic!("{:?}", result.display)
        };
        format!("{:?}\n{text}\n{}\n{:?}", result.content, result.structured, result.locations)
    }

    /// Makes a call that must leave out so many entries, report it, and disclose nothing of them.
    /// Returns the paths found, from a list in its output.
    #[track_caller]
    fn find_paths(
        host: &TestHost,
        tool: &str,
        input: Value,
        note: &str,
        list: &str,
    ) -> Vec<String> {
        let shown = format!("{tool} {input}");
        let result = host.ok(tool, input);
        let text = all_text(&result);
        assert!(text.contains(&format!("{note} left out: reading ")), "{shown}: {text}");
        let numbers = note.split(' ').filter_map(|word| word.parse::<u64>().ok());
        assert_eq!(result.structured["left_out"], numbers.sum::<u64>(), "{shown}");
        for name in ["secret", "vault", "key", "deep", "to-"] {
            assert!(!text.contains(name), "{shown} gives {name} away: {text}");
        }
        let name = |entry: &Value| {
            let name = ["file", "name", "file_path"].iter().find_map(|key| entry.get(key));
            name.unwrap_or(entry).as_str().unwrap().to_owned()
        };
        let mut names: Vec<String> =
            result.structured[list].as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn glob_omits_denied_files() {
        let check = |input: Value, note: &str, expected: &[&str]| {
            assert_eq!(find_paths(&sample_tree(), "Glob", input, note, "files"), expected);
        };
        check(json!({"pattern": "**/*"}), "2 files and 2 folders", &["a.txt", "sub/b.txt"]);
        check(json!({"pattern": "*"}), "1 file", &["a.txt"]);
        check(json!({"pattern": "*", "path": "sub"}), "1 file", &["sub/b.txt"]);
        check(json!({"pattern": "**/*", "path": "sub"}), "1 file and 1 folder", &["sub/b.txt"]);
    }

    #[test]
    fn grep_omits_denied_files() {
        for mode in ["content", "files_with_matches", "count"] {
            let check = |mut input: Value, note: &str, expected: &[&str]| {
                input["output_mode"] = json!(mode);
                let host = sample_tree();
                assert_eq!(find_paths(&host, "Grep", input.clone(), note, "matches"), expected);
                let total = host.ok("Grep", input).structured["total_matches"].as_u64().unwrap();
                assert_eq!(total, expected.len() as u64, "{mode}");
            };
            let all = "2 files and 2 folders";
            check(json!({"pattern": "needle"}), all, &["a.txt", "sub/b.txt"]);
            check(json!({"pattern": "in-"}), all, &[]);
            check(json!({"pattern": "needle", "glob": "b*"}), all, &["sub/b.txt"]);
            check(
                json!({"pattern": "needle", "path": "sub"}),
                "1 file and 1 folder",
                &["sub/b.txt"],
            );
        }
    }

    #[test]
    fn ls_omits_denied_entries_and_links_to_them() {
        let check = |input: Value, note: &str, expected: &[&str]| {
            assert_eq!(find_paths(&sample_tree(), "LS", input, note, "entries"), expected);
        };
        let rest = [".gitignore", "a.txt", "dangling", "fine", "loop", "out", "sub"];
        check(json!({}), "5 files and 1 folder", &rest);
        check(json!({"path": "sub"}), "2 files and 1 folder", &["b.txt"]);
        let result = sample_tree().ok("LS", json!({}));
        assert_eq!(result.structured["count"], rest.len());
    }

    #[test]
    fn read_many_omits_denied_files_and_counts_them_once() {
        let check = |paths: &[&str], note: &str, expected: &[&str]| {
            let input = json!({"paths": paths});
            assert_eq!(find_paths(&sample_tree(), "ReadMany", input, note, "files"), expected);
        };
        check(&["**/*.txt"], "2 files and 2 folders", &["a.txt", "sub/b.txt"]);
        check(&["*.txt", "sub/*.txt"], "2 files and 1 folder", &["a.txt", "sub/b.txt"]);
        check(&["a.txt", "**/b.txt"], "2 files and 2 folders", &["a.txt", "sub/b.txt"]);
        let error = sample_tree().err("ReadMany", json!({"paths": ["**/k*.txt"]}));
        assert_eq!(error.details["left_out"], 4);
        assert_eq!(
            error.message,
            "none of the files could be read:\n- `**/k*.txt`: no file matches\n(2 files and 2 folders left out: reading them is denied or needs approval)"
        );
    }

    #[test]
    fn denied_count_is_independent_of_pattern() {
        let host = sample_tree();
        let left_out =
            |tool: &str, input: Value| host.ok(tool, input).structured["left_out"].as_u64();
        for pattern in ["**/secret.txt", "**/se*", "**/nothing", "**/key1.txt"] {
            assert_eq!(left_out("Glob", json!({"pattern": pattern})), Some(4), "{pattern}");
            let input = json!({"pattern": "x", "glob": pattern});
            assert_eq!(left_out("Grep", input), Some(4), "{pattern}");
            let input = json!({"pattern": "x", "exclude": [pattern]});
            assert_eq!(left_out("Grep", input), Some(4), "{pattern}");
        }
        for ignore in ["secret.txt", "vault", "*"] {
            assert_eq!(left_out("LS", json!({"ignore": [ignore]})), Some(6), "{ignore}");
        }
    }

    #[test]
    fn rule_on_written_path_applies() {
        let host = TestHost::new().with_files(&FILES).with_denied(&["alias/b.txt"]);
        symlink("sub", host.path("alias")).unwrap();
        for (tool, input) in [
            ("Glob", json!({"pattern": "b.*", "path": "alias"})),
            ("Grep", json!({"pattern": "needle", "path": "alias", "glob": "b.*"})),
            ("LS", json!({"path": "alias", "ignore": ["secret.txt", "vault"]})),
        ] {
            let result = host.ok(tool, input);
            assert_eq!(result.structured["left_out"], 1, "{tool}");
            assert!(!all_text(&result).contains("b.txt"), "{tool}: {:?}", result.content);
        }
        let result = host.ok("Glob", json!({"pattern": "b.*", "path": "sub"}));
        assert_eq!(result.structured, json!({"files": ["sub/b.txt"], "count": 1}));
    }

    #[test]
    fn named_denied_path_reveals_nothing() {
        let host = sample_tree();
        for (tool, input) in [
            ("Read", json!({"file_path": "vault/key1.txt"})),
            ("Read", json!({"file_path": "vault/nothing"})),
            ("Read", json!({"file_path": "to-link"})),
            ("ReadMany", json!({"paths": ["a.txt", "secret.txt"]})),
            ("Edit", json!({"file_path": "secret.txt", "old_string": "a", "new_string": "b"})),
            ("Edit", json!({"file_path": "vault/nothing", "old_string": "a", "new_string": "b"})),
            ("Write", json!({"file_path": "secret.txt", "content": "", "backup": true})),
            ("Grep", json!({"pattern": "x", "path": "secret.txt"})),
            ("LS", json!({"path": "vault"})),
        ] {
            let shown = format!("{tool} {input}");
            assert_eq!(host.err(tool, input).reason(), Some(ErrorReason::Denied), "{shown}");
        }
    }
}
