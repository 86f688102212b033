//! Removes recorded changes that are no longer kept, of all workspaces.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::journal_store::JournalStore;
use super::{JOURNAL, journal_name};
use crate::expiry::{self, ExpiryMode, ExpiryReport, ExpiryRules, StoredItem};
use crate::state_dir::StateDir;

/// Which recorded changes are no longer kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalExpiryRules {
    /// Changes of all workspaces.
    pub changes: ExpiryRules,
    /// How long the changes of commands are kept besides.
    pub command_age_max: Option<Duration>,
    /// How long the changes of a folder that does not exist any more are kept after the last of
    /// them. A folder may be on a disk that is not mounted now.
    pub vanished_age_max: Option<Duration>,
}

/// Removes the changes that the rules no longer keep. They cannot be undone then. Changes of the
/// folders that sessions work in are kept.
pub fn expire(
    state: &StateDir,
    rules: &JournalExpiryRules,
    mode: ExpiryMode,
    in_use: &[PathBuf],
) -> io::Result<ExpiryReport> {
    let journal = state.child(JOURNAL);
    let in_use: Vec<String> = in_use.iter().map(|folder| journal_name(folder)).collect();
    let mut items = Vec::new();
    for name in list_journals(&journal)? {
        let store = JournalStore::open(journal.child(&name));
        let changes = store.stored_changes()?;
        // A workspace is a share: journals do not know the owners of sessions.
        let share = store.folder_path().map_or_else(|| name.clone(), |it| it.display().to_string());
        let newest = changes.iter().map(|(_, age, _)| *age).min();
        let is_useless = rules.vanished_age_max.is_some_and(|most| {
            newest.is_some_and(|newest| newest > most) && store.has_vanished_folder()
        });
        let commands = store.set_ids()?;
        let is_old = |id: u64, age: Duration| {
            rules.command_age_max.is_some_and(|most| age > most) && commands.contains(&id)
        };
        items.extend(changes.into_iter().map(|(id, age, bytes)| StoredItem {
            key: (name.clone(), id),
            age,
            bytes,
            share: share.clone(),
            is_useless: is_useless || is_old(id, age),
            is_in_use: in_use.contains(&name),
        }));
    }
    let report = expiry::expire(items, &rules.changes, mode, |(name, id)| {
        JournalStore::open(journal.child(name)).remove_stored(*id)
    });
    if mode == ExpiryMode::Remove && report.removed.count > 0 {
        for name in list_journals(&journal)? {
            JournalStore::open(journal.child(&name)).remove_if_empty()?;
        }
    }
    Ok(report)
}

fn list_journals(journal: &StateDir) -> io::Result<Vec<String>> {
    let mut names = journal.list_names()?;
    names.retain(|name| journal.child(name).path().is_dir());
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::fs::File;
    use std::path::Path;
    use std::time::SystemTime;

    use zero_core::ByteSize;

    use super::super::change_set::END;
    use super::super::{Journal, SetLimits, SetOrigin};
    use super::*;
    use crate::workspace::Workspace;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Records changes of a folder with these ages in days.
    fn record(state: &StateDir, key: &str, folder: &Path, ages: &[u32]) {
        let store = JournalStore::new(state.child(JOURNAL).child(key), folder);
        for days in ages {
            let id = store.claim(10).unwrap().id;
            store.commit(id);
            let path = state.path().join(format!("{JOURNAL}/{key}/{id}.change"));
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(10).unwrap();
            file.set_modified(SystemTime::now() - DAY * *days).unwrap();
        }
    }

    /// Records the changes of commands in a folder with these ages in days.
    fn record_commands(state: &StateDir, folder: &Path, ages: &[u32]) -> Journal {
        let workspace = Workspace::open(&[folder.to_owned()], None).unwrap();
        let journal = Journal::new(state, workspace, ByteSize::megabytes(1));
        for days in ages {
            let id = record_command(&journal, folder, SetLimits::NONE);
            let end = journal.store.set_dir(id).path().join(END);
            let file = File::options().write(true).open(end).unwrap();
            file.set_modified(SystemTime::now() - DAY * *days).unwrap();
        }
        journal
    }

    fn record_command(journal: &Journal, folder: &Path, limits: SetLimits) -> u64 {
        let origin = SetOrigin {
            tool: "Bash".to_owned(),
            call: "call_1".to_owned(),
            caller: None,
            command: "touch".to_owned(),
            undoes: None,
            is_beside: false,
        };
        let file = folder.join("file");
        let mut recorder = journal.record_command(origin, limits).unwrap();
        recorder.record(&file);
        let size = file.metadata().map_or(0, |meta| meta.len());
        std::fs::write(&file, vec![b'x'; size as usize + 1]).unwrap();
        recorder.finish().unwrap().unwrap().0
    }

    #[test]
    fn changes_of_commands_expire_by_their_own_age() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let folder = temp.path().join("tree");
        std::fs::create_dir(&folder).unwrap();
        let journal = record_commands(&state, &folder, &[50, 20, 2]);
        record(&state, &journal_name(&folder), &folder, &[50]);
        let nothing = JournalExpiryRules::default();
        let rules = JournalExpiryRules { command_age_max: Some(DAY * 30), ..nothing };
        let report = expire(&state, &rules, ExpiryMode::Remove, &[]).unwrap();
        assert_eq!((report.removed.count, report.remaining.count), (1, 3));
        assert_eq!(
            journal.store.set_ids().unwrap(),
            [2, 3],
            "files changed by tools have no such age"
        );

        // The next command removes what is too old, too, however small it is.
        let limits = SetLimits { age_max: Some(DAY * 10), ..SetLimits::NONE };
        record_command(&journal, &folder, limits);
        let first = journal.store.set_ids().unwrap();
        assert_eq!(first.first(), Some(&3), "{first:?}");
    }

    fn left(state: &StateDir) -> Vec<(String, usize)> {
        let names = state.child(JOURNAL).list_names().unwrap();
        let count = |name: &String| {
            let store = JournalStore::open(state.child(JOURNAL).child(name));
            (name.clone(), store.stored_changes().unwrap().len())
        };
        names.iter().map(count).collect()
    }

    #[test]
    fn old_changes_and_those_of_vanished_folders_expire() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let gone = temp.path().join("gone");
        record(&state, "here", temp.path(), &[50, 20, 2]);
        record(&state, "gone", &gone, &[50, 20]);
        record(&state, "gone-lately", &gone, &[50, 5]);
        let nothing = JournalExpiryRules::default();
        let report = expire(&state, &nothing, ExpiryMode::Remove, &[]).unwrap();
        assert_eq!((report.removed.count, report.remaining.count), (0, 7));
        let vanished = JournalExpiryRules { vanished_age_max: Some(DAY * 10), ..nothing };
        let dry = expire(&state, &vanished, ExpiryMode::DryRun, &[]).unwrap();
        assert_eq!((dry.removed.count, dry.removed.bytes), (2, 20));
        assert_eq!(expire(&state, &vanished, ExpiryMode::Remove, &[]).unwrap(), dry);
        let expected = [("gone-lately".to_owned(), 2), ("here".to_owned(), 3)];
        assert_eq!(left(&state), expected, "the folder of an empty journal is removed");
        let changes = ExpiryRules { age_max: Some(DAY * 30), bytes_max: None };
        let old = JournalExpiryRules { changes, ..nothing };
        expire(&state, &old, ExpiryMode::Remove, &[]).unwrap();
        assert_eq!(left(&state), [("gone-lately".to_owned(), 1), ("here".to_owned(), 2)]);
        let changes = ExpiryRules { age_max: None, bytes_max: Some(20) };
        let large = JournalExpiryRules { changes, ..nothing };
        expire(&state, &large, ExpiryMode::Remove, &[]).unwrap();
        assert_eq!(left(&state), [("gone-lately".to_owned(), 1), ("here".to_owned(), 1)]);
        // A session works in the folder: its changes can be undone, however old they are.
        let changes = ExpiryRules { age_max: Some(DAY), bytes_max: Some(1) };
        let all = JournalExpiryRules { changes, vanished_age_max: Some(DAY), ..nothing };
        record(&state, &journal_name(temp.path()), temp.path(), &[50]);
        let used = [temp.path().to_owned()];
        let report = expire(&state, &all, ExpiryMode::Remove, &used).unwrap();
        assert_eq!((report.removed.count, report.remaining.count), (2, 1));
        expire(&state, &all, ExpiryMode::Remove, &[]).unwrap();
        // Recording goes on.
        record(&state, "here", temp.path(), &[0]);
        record(&state, "gone", &gone, &[0]);
        assert_eq!(left(&state).len(), 2);
    }
}
