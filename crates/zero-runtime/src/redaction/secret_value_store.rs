//! The secret values of a workspace that outlive a process.
//!
//! A file that one process renamed is read by the next, which has to find its values in it. Finding
//! needs the values themselves: hashes would not do. They are kept as they are, in a file with mode
//! 0600 in zero's state folder, which is closed to tools and hidden from commands. The journal keeps
//! earlier contents of files in the same way. Encryption with a key in the same folder would not
//! protect them from a process that can read the folder.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zero_core::SecretValue;
use zero_sandbox::path_survey::{self, ChangeStamp};
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, config_file};

use super::secret_values::{VALUE_BYTES_MAX, VALUES_MAX};
use super::workspace_key::{STATE_FOLDER, workspace_key};

const LOCK: &str = "lock";
/// How many days a value is kept that no secret file has any more.
const DAYS_MAX: u64 = 30;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Most values. The other half of the room is for values of files that change.
const STORED_VALUES_MAX: usize = VALUES_MAX / 2;
const STORED_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;
/// Largest file: JSON may need six bytes for one.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most files: the values of a workspace, and the record of its last search.
const FILES_MAX: usize = 2_048;

/// The file with the values of one workspace.
pub(super) struct SecretValueStore {
    folder: StateDir,
    name: String,
    /// The file as it was read last.
    stamp: Option<ChangeStamp>,
    is_swept: bool,
}

/// What the file contains.
#[derive(Default, Serialize, Deserialize)]
struct StoreContent {
    values: Vec<StoreEntry>,
}

/// A value, and when a secret file had it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoreEntry {
    name: String,
    text: String,
    /// Days since 1970.
    seen: u64,
}

/// Whether all values found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreRoom {
    Enough,
    Full,
}

impl SecretValueStore {
    /// The store of the workspace with this folder. Nothing is read or created yet.
    pub(super) fn new(state: &StateDir, root: &Path) -> Self {
        let name = format!("{}.json", workspace_key(root));
        Self { folder: state.child(STATE_FOLDER), name, stamp: None, is_swept: false }
    }

    /// The values, if the file may have changed since they were read last.
    pub(super) fn read_changed(&mut self) -> Result<Option<Vec<SecretValue>>, ConfigFileError> {
        let stamp = path_survey::read_stamp(&self.folder.path().join(&self.name));
        let is_same = stamp == self.stamp && stamp.is_none_or(|stamp| stamp.is_stable());
        if is_same {
            return Ok(None);
        }
        let content = self.load()?;
        self.stamp = stamp;
        let today = days_since_epoch();
        let values = content.values.into_iter().filter(|entry| entry.is_fresh(today));
        Ok(Some(values.map(|StoreEntry { name, text, .. }| SecretValue { name, text }).collect()))
    }

    /// Adds the values that secret files have now.
    pub(super) fn save(&mut self, current: &[&SecretValue]) -> Result<StoreRoom, ConfigFileError> {
        let exists = path_survey::exists(&self.folder.path().join(&self.name));
        if current.is_empty() && !exists {
            return Ok(StoreRoom::Enough);
        }
        // Two processes may learn values at the same time.
        let _lock = config_file::lock(&self.folder, LOCK)?;
        if !std::mem::replace(&mut self.is_swept, true) {
            self.sweep();
        }
        let before = self.load()?;
        let (values, room) = merge(before.values.clone(), current, days_since_epoch());
        if values != before.values {
            let bytes = serde_json::to_vec(&StoreContent { values }).unwrap_or_default();
            self.file().write(&bytes)?;
        }
        Ok(room)
    }

    fn load(&self) -> Result<StoreContent, ConfigFileError> {
        let bytes = self.file().read(FILE_BYTES_MAX)?;
        let content = bytes.map(|bytes| serde_json::from_slice(&bytes));
        Ok(content
            .transpose()
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "the stored secret values are damaged and are replaced");
                None
            })
            .unwrap_or_default())
    }

    fn file(&self) -> ConfigFile {
        ConfigFile::Own(self.folder.path().join(&self.name))
    }

    /// Removes the values of workspaces that were not used for long.
    fn sweep(&self) {
        let names = self.folder.list_names().unwrap_or_default();
        let mut aged: Vec<(Duration, String)> = names
            .into_iter()
            .filter(|name| *name != self.name && name != LOCK)
            .map(|name| (self.folder.age(&name).unwrap_or_default(), name))
            .collect();
        aged.sort();
        let is_over = |(at, (age, _)): &(usize, (Duration, String))| {
            *at >= FILES_MAX - 1 || age.as_secs() / DAY.as_secs() > DAYS_MAX
        };
        for (_, (_, name)) in aged.into_iter().enumerate().filter(is_over) {
            if let Err(error) = self.folder.remove(&name) {
                tracing::warn!(%error, name, "cannot remove old secret values");
            }
        }
    }
}

impl StoreEntry {
    fn is_fresh(&self, today: u64) -> bool {
        today.saturating_sub(self.seen) <= DAYS_MAX
    }
}

/// The entries with the current values, without those that were not seen for long. A value that has
/// no room does not take the place of another.
fn merge(
    mut entries: Vec<StoreEntry>,
    current: &[&SecretValue],
    today: u64,
) -> (Vec<StoreEntry>, StoreRoom) {
    entries.retain(|entry| entry.is_fresh(today));
    let mut store_capacity = StoreRoom::Enough;
    let mut bytes: usize = entries.iter().map(|entry| entry.text.len()).sum();
    let mut places: HashMap<String, usize> =
        entries.iter().enumerate().map(|(at, entry)| (entry.text.clone(), at)).collect();
    // One with very much text does not take the places of others.
    let mut current = current.to_vec();
    current.sort_by_key(|value| value.text.len());
    for value in current {
        if let Some(entry) = places.get(&value.text).and_then(|at| entries.get_mut(*at)) {
            entry.seen = today;
            continue;
        }
        if entries.len() >= STORED_VALUES_MAX || bytes + value.text.len() > STORED_BYTES_MAX {
            store_capacity = StoreRoom::Full;
            continue;
        }
        bytes += value.text.len();
        places.insert(value.text.clone(), entries.len());
        entries.push(StoreEntry {
            name: value.name.clone(),
            text: value.text.clone(),
            seen: today,
        });
    }
    (entries, store_capacity)
}

pub(super) fn days_since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() / DAY.as_secs()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn value(text: &str) -> SecretValue {
        SecretValue { name: "A".to_owned(), text: text.to_owned() }
    }

    fn texts(entries: &[StoreEntry]) -> Vec<&str> {
        entries.iter().map(|entry| &*entry.text).collect()
    }

    #[test]
    fn value_expires_thirty_days_after_it_was_seen_last() {
        let [old, new] = [value("old-9fK2mQ4x"), value("new-9fK2mQ4x")];
        let (entries, _) = merge(Vec::new(), &[&old, &new], 100);
        let (entries, _) = merge(entries, &[&new], 100 + DAYS_MAX);
        assert_eq!(texts(&entries), ["old-9fK2mQ4x", "new-9fK2mQ4x"]);
        let (entries, _) = merge(entries, &[], 101 + DAYS_MAX);
        assert_eq!(texts(&entries), ["new-9fK2mQ4x"]);
    }

    #[test]
    fn full_store_keeps_earlier_values() {
        let first = value("first-9fK2mQ4x");
        let many: Vec<SecretValue> =
            (0..STORED_VALUES_MAX).map(|n| value(&format!("decoy-{n}-9fK2mQ4x"))).collect();
        let (entries, room) = merge(Vec::new(), &[&first], 1);
        assert_eq!(room, StoreRoom::Enough);
        let (entries, room) = merge(entries, &many.iter().collect::<Vec<_>>(), 1);
        assert_eq!((entries.len(), room), (STORED_VALUES_MAX, StoreRoom::Full));
        assert_eq!(entries[0].text, first.text);
        let huge = value(&"x".repeat(STORED_BYTES_MAX + 1));
        assert_eq!(merge(Vec::new(), &[&huge], 1), (Vec::new(), StoreRoom::Full));
    }

    #[test]
    fn file_is_private_and_damage_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let mut store = SecretValueStore::new(&state, Path::new("/w"));
        store.save(&[]).unwrap();
        assert!(!state.path().exists(), "nothing to keep");
        let first = value("first-9fK2mQ4x");
        store.save(&[&first]).unwrap();
        let path = store.file().path();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(store.folder.path())), (0o600, 0o700));
        let mut other = SecretValueStore::new(&state, Path::new("/other"));
        assert_eq!(other.read_changed().unwrap(), None);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(store.read_changed().unwrap(), Some(Vec::new()));
        store.save(&[&first]).unwrap();
        assert_eq!(store.read_changed().unwrap(), Some(vec![first]));
    }

    #[test]
    fn old_workspaces_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let first = value("first-9fK2mQ4x");
        let mut old = SecretValueStore::new(&state, Path::new("/old"));
        old.save(&[&first]).unwrap();
        let long_ago = SystemTime::now() - DAY * 40;
        std::fs::File::open(old.file().path()).unwrap().set_modified(long_ago).unwrap();
        let mut store = SecretValueStore::new(&state, Path::new("/w"));
        store.save(&[&first]).unwrap();
        assert_eq!(
            state.child(STATE_FOLDER).list_names().unwrap(),
            [store.name.clone(), LOCK.to_owned()]
        );
    }
}
