//! Trusted folders, and the exact settings that the user approved.
//!
//! Trust applies to the content of settings, not to a folder: the store has a hash of every entry that
//! needs trust. If an entry is added, changed or removed, the user must review the folder again.
//! Comments, layout, and ask and deny rules can change freely. Files that hooks use are hashed
//! separately: if such a file changes, its hook fails and denies calls until the next review. Ignoring
//! the hook instead would let anyone with write access to the file disable it. Trust does not extend to
//! subfolders. A folder whose settings need no trust can be trusted too, since language servers, which
//! may execute project code, start only in trusted folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zero_runtime::HookFile;
use zero_sandbox::journal::sha256;
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, config_file};

use crate::{SettingsEntry, hooks};

/// Name of the trust store in the state folder.
const TRUST_FILE: &str = "trust.json";
/// Lock file held while the store changes.
const LOCK: &str = "trust.lock";
/// Largest trust store, in bytes; enough for about ten thousand folders.
const FILE_BYTES_MAX: u64 = 16_000_000;

/// The folders that the user trusts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustStore {
    /// Records by canonical path.
    folders: BTreeMap<String, TrustRecord>,
}

/// Why the trust store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file is not a valid trust store.
    #[error(
        "the trust store `{}` is damaged: {error}; remove it and trust your folders again",
        file.display()
    )]
    Damaged {
        /// The trust store.
        file: PathBuf,
        /// The parse error.
        error: serde_json::Error,
    },
    /// It could not be read.
    #[error(
        "could not read the trust store `{}`: {error}; remove it and trust your folders again",
        file.display()
    )]
    Unreadable {
        /// The trust store.
        file: PathBuf,
        /// Why it could not be read.
        error: ConfigFileError,
    },
    /// It could not be changed.
    #[error("could not change `{}`: {error}", file.display())]
    Unchangeable {
        /// The trust store.
        file: PathBuf,
        /// Why it could not be changed.
        error: ConfigFileError,
    },
    /// It could not be written as JSON.
    #[error("could not write the trust store: {0}")]
    Encode(serde_json::Error),
}

/// Hashes of the approved settings of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// Time of the approval.
    pub since: Timestamp,
    /// SHA-256 over the hashes of all entries that need trust.
    pub digest: String,
    /// SHA-256 of each entry, to find new ones later. Entries may contain secrets, so only hashes are stored.
    entries: Vec<String>,
    /// SHA-256 of each hook with the content of the files it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<String>,
}

/// Trust state of a folder.
#[derive(Clone, Debug, PartialEq)]
pub enum TrustState {
    /// Trusted with its current settings.
    Trusted {
        /// Time of the approval.
        since: Timestamp,
    },
    /// Never trusted.
    Never,
    /// Trusted earlier, but its settings have changed since.
    Changed {
        /// Time of the approval.
        since: Timestamp,
        /// Entries that are new or changed.
        new: Vec<SettingsEntry>,
        /// Number of entries that were removed.
        missing_count: usize,
        /// Whether only files used by hooks changed. All settings then still apply, and these hooks fail.
        only_files: bool,
    },
}

impl TrustState {
    /// Whether all settings of the folder apply, and its language servers may start.
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Trusted { .. } | Self::Changed { only_files: true, .. })
    }

    /// Trusted state for evaluations that assume approval.
    pub fn assumed() -> Self {
        Self::Trusted { since: Timestamp::UNIX_EPOCH }
    }
}

impl TrustStore {
    /// Reads the store. A missing file is an empty store; an unreadable one is an error.
    pub fn load(state: &StateDir) -> Result<Self, TrustError> {
        let file = trust_file(state);
        match file.read(FILE_BYTES_MAX) {
            Ok(None) => Ok(Self::default()),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes)
                .map_err(|error| TrustError::Damaged { file: file.path(), error }),
            Err(error) => Err(TrustError::Unreadable { file: file.path(), error }),
        }
    }

    /// Trust state of a folder, given its canonical path and its current entries that need trust.
    pub fn trust_state(&self, folder: &Path, gated: &[SettingsEntry]) -> TrustState {
        let trusted = folder.to_str().and_then(|folder| self.folders.get(folder));
        let Some(trusted) = trusted else { return TrustState::Never };
        let (since, hashed) = (trusted.since, hash_entries(gated));
        let hashes = collect_hashes(&hashed);
        let is_new = |one: &&HashedEntry<'_>| {
            let is_seen = |hook: &String| trusted.hooks.contains(hook);
            !trusted.entries.contains(&one.words) || !one.with_files.iter().all(is_seen)
        };
        let new: Vec<SettingsEntry> =
            hashed.iter().filter(is_new).map(|one| one.entry.clone()).collect();
        let only_files = hash_all(&hashes) == trusted.digest;
        if only_files && new.is_empty() {
            return TrustState::Trusted { since };
        }
        let missing_count = trusted.entries.iter().filter(|entry| !hashes.contains(entry)).count();
        TrustState::Changed { since, new, missing_count, only_files }
    }

    /// Whether the folder with this canonical path was ever trusted, with any settings.
    pub fn has_folder(&self, folder: &Path) -> bool {
        folder.to_str().is_some_and(|folder| self.folders.contains_key(folder))
    }

    /// All trusted folders with their records.
    pub fn folders(&self) -> impl Iterator<Item = (&str, &TrustRecord)> {
        self.folders.iter().map(|(folder, trusted)| (folder.as_str(), trusted))
    }

    /// Trusts a folder with exactly these entries, which the user has seen.
    pub fn add(state: &StateDir, folder: &str, seen: &[SettingsEntry]) -> Result<(), TrustError> {
        let hashed = hash_entries(seen);
        let entries = collect_hashes(&hashed);
        let hooks = hashed.into_iter().filter_map(|one| one.with_files).collect();
        let trusted =
            TrustRecord { since: current_time(), digest: hash_all(&entries), entries, hooks };
        Self::update(state, |store| store.folders.insert(folder.to_owned(), trusted)).map(drop)
    }

    /// Revokes trust. Returns whether the folder was trusted; if not, nothing is written.
    pub fn revoke(state: &StateDir, folder: &str) -> Result<bool, TrustError> {
        if !Self::load(state)?.folders.contains_key(folder) {
            return Ok(false);
        }
        Ok(Self::update(state, |store| store.folders.remove(folder))?.is_some())
    }

    fn update<T>(state: &StateDir, change: impl FnOnce(&mut Self) -> T) -> Result<T, TrustError> {
        let failed = |error: ConfigFileError| {
            let file = trust_file(state).path();
            TrustError::Unchangeable { file, error }
        };
        let _lock = config_file::lock(state, LOCK).map_err(failed)?;
        let mut store = Self::load(state)?;
        let result = change(&mut store);
        let text = serde_json::to_string_pretty(&store).map_err(TrustError::Encode)? + "\n";
        trust_file(state).write(text.as_bytes()).map_err(failed)?;
        Ok(result)
    }
}

fn trust_file(state: &StateDir) -> ConfigFile {
    ConfigFile::Own(state.path().join(TRUST_FILE))
}

/// Current time to the second, which is precise enough for display.
fn current_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Sorted hashes of the entries, independent of their position in the files.
fn collect_hashes(hashed: &[HashedEntry<'_>]) -> Vec<String> {
    let mut hashes: Vec<String> = hashed.iter().map(|one| one.words.clone()).collect();
    hashes.sort();
    hashes.dedup();
    hashes
}

fn hash_all(hashes: &[String]) -> String {
    sha256(hashes.join("\n").as_bytes())
}

/// A settings entry with its hashes.
struct HashedEntry<'a> {
    entry: &'a SettingsEntry,
    /// Hash of layer, key and value.
    words: String,
    /// For hooks: hash of the same and of the files that the hook uses.
    with_files: Option<String>,
}

/// Hashes each entry. Its position does not matter, except for hooks, which run in order.
fn hash_entries(entries: &[SettingsEntry]) -> Vec<HashedEntry<'_>> {
    let mut hooks = 0;
    let hashed = entries.iter().map(|entry| {
        let identity = json!([entry.layer.as_str(), entry.key, sort_keys(&entry.value)]);
        let (mut identity, mut with_files) = (identity.to_string(), None);
        if hooks::LISTS.contains(&entry.key.as_str()) {
            hooks += 1;
            identity.push_str(&format!(" #{hooks}"));
            let files = entry.files.iter().filter_map(HookFile::identity);
            let parts: Vec<String> = std::iter::once(identity.clone()).chain(files).collect();
            with_files = Some(sha256(parts.join("\n").as_bytes()));
        }
        HashedEntry { entry, words: sha256(identity.as_bytes()), with_files }
    });
    hashed.collect()
}

/// Sorts the fields of all objects by name. Settings are nested at most 64 levels deep.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, Value> =
                fields.iter().map(|(name, field)| (name, sort_keys(field))).collect();
            Value::Object(sorted.into_iter().map(|(name, field)| (name.clone(), field)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sort_keys).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use zero_runtime::HookFileReader;
    use zero_sandbox::Workspace;

    use super::*;
    use crate::{SettingsLayer, SettingsLayerKind, WorkspaceSettings};

    const TRUSTED_SETTINGS: &str = r#"{"permissions": {"allow": ["Read", "Grep"], "deny": ["Bash"]}, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#;

    fn parse_entries(kind: SettingsLayerKind, text: &str) -> Vec<SettingsEntry> {
        WorkspaceSettings::filter_needing_trust(&[SettingsLayer::parse(
            kind,
            "f".to_owned(),
            text.as_bytes(),
        )
        .unwrap()])
    }

    #[track_caller]
    fn check(now: &str, expected: &str) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        TrustStore::add(&state, "/w", &parse_entries(SettingsLayerKind::Project, TRUSTED_SETTINGS))
            .unwrap();
        let store = TrustStore::load(&state).unwrap();
        let trust_state =
            store.trust_state(Path::new("/w"), &parse_entries(SettingsLayerKind::Project, now));
        let shown = match trust_state {
            TrustState::Changed { new, missing_count: gone, .. } => {
                let new: Vec<String> =
                    new.iter().map(|entry| format!("{} {}", entry.key, entry.value)).collect();
                format!("changed: new {new:?}, gone {gone}")
            }
            TrustState::Trusted { .. } => "trusted".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(shown, expected, "{now}");
    }

    #[test]
    fn trust_ends_when_trusted_entries_change() {
        check(TRUSTED_SETTINGS, "trusted");
        check(
            "// hello\n{\"mcpServers\": {\"a\": {\"args\": [\"y\"], \"command\": \"x\"}}, \"permissions\": {\"allow\": [\"Grep\",\n\"Read\"], \"deny\": [], \"ask\": [\"Edit\"]}}",
            "trusted",
        );
        check(r#"{"permissions": {"allow": ["Read"]}}"#, "changed: new [], gone 2");
        check(
            &TRUSTED_SETTINGS.replace("Grep", "Bash(curl:*)"),
            r#"changed: new ["permissions.allow \"Bash(curl:*)\""], gone 1"#,
        );
        check(
            &TRUSTED_SETTINGS.replace("\"y\"", "\"z\""),
            r#"changed: new ["mcpServers.a {\"command\":\"x\",\"args\":[\"z\"]}"], gone 1"#,
        );
        check(r#"{"permissions": {"deny": ["Bash"]}}"#, "changed: new [], gone 3");
    }

    #[test]
    fn hook_trust_covers_all_words_and_order() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let settings = |hooks: &str| {
            parse_entries(
                SettingsLayerKind::Project,
                &format!(r#"{{"hooks": {{"PreToolUse": [{hooks}]}}}}"#),
            )
        };
        let [a, b] = [r#"{"command": "a"}"#, r#"{"command": "b", "match": "Bash"}"#];
        TrustStore::add(&state, "/w", &settings(&format!("{a}, {b}"))).unwrap();
        let store = TrustStore::load(&state).unwrap();
        for (now, expected) in [
            (format!("{a},\n{b}"), true),
            (format!("{b}, {a}"), false),
            (a.to_owned(), false),
            (format!("{a}, {a}, {b}"), false),
            (format!("{a}, {}", b.replace("Bash", "Edit")), false),
            (format!("{}, {b}", a.replace("\"a\"", "\"a2\"")), false),
            (format!(r#"{a}, {{"command": "b", "match": "Bash", "access": "write"}}"#), false),
        ] {
            let trust_state = store.trust_state(Path::new("/w"), &settings(&now));
            assert_eq!(trust_state.is_trusted(), expected, "{now}: {trust_state:?}");
        }
    }

    #[test]
    fn hook_trust_covers_named_files() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("w");
        let state = StateDir::new(temp.path().join("state"));
        let script = ConfigFile::Own(root.join("check"));
        script.write(b"one").unwrap();
        let text = r#"{"hooks": {"PreToolUse": [{"command": "sh ./check --fast"}]}}"#;
        let looked = || {
            let mut entries = parse_entries(SettingsLayerKind::Project, text);
            let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
            let words = ["sh", "./check", "--fast"].map(str::to_owned);
            entries[0].files = HookFileReader::new(&workspace).read_files(&words);
            entries
        };
        TrustStore::add(&state, "/w", &looked()).unwrap();
        let store = TrustStore::load(&state).unwrap();
        let check = |expected: &[&str]| {
            let trust_state = store.trust_state(Path::new("/w"), &looked());
            assert!(trust_state.is_trusted(), "its words are the same: {trust_state:?}");
            let strange = match &trust_state {
                TrustState::Changed { new, missing_count: 0, only_files: true, .. } => &new[..],
                _ => &[],
            };
            let strange: Vec<&str> = strange.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(strange, expected, "{trust_state:?}");
        };
        check(&[]);
        script.write(b"two").unwrap();
        check(&["hooks.PreToolUse"]);
        script.write(b"one").unwrap();
        check(&[]);
    }

    #[test]
    fn trust_is_per_folder_and_file() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let seen = parse_entries(SettingsLayerKind::Project, TRUSTED_SETTINGS);
        TrustStore::add(&state, "/w", &seen).unwrap();
        let store = TrustStore::load(&state).unwrap();
        for other in ["/w/sub", "/", "/w2"] {
            assert_eq!(store.trust_state(Path::new(other), &seen), TrustState::Never, "{other}");
        }
        let moved = parse_entries(SettingsLayerKind::Local, TRUSTED_SETTINGS);
        assert!(!store.trust_state(Path::new("/w"), &moved).is_trusted());
        assert!(TrustStore::revoke(&state, "/w").unwrap());
        assert!(!TrustStore::revoke(&state, "/w").unwrap());
        let store = TrustStore::load(&state).unwrap();
        assert_eq!(store.trust_state(Path::new("/w"), &seen), TrustState::Never);
    }

    #[test]
    fn damaged_trust_file_trusts_nothing() {
        for text in ["", "{", "[]", r#"{"folders": {}, "all": true}"#] {
            let temp = tempfile::tempdir().unwrap();
            let state = StateDir::new(temp.path());
            trust_file(&state).write(text.as_bytes()).unwrap();
            let error = TrustStore::load(&state).unwrap_err().to_string();
            assert!(error.contains("is damaged"), "{text}: {error}");
        }
    }
}
