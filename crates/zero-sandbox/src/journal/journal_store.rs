//! Stores records and previous states as numbered files in zero's own folder.
//!
//! Change `N` is one file: the record as a line of JSON, followed by the previous contents. It is
//! named `N.pending` while the change is in progress, which claims the number, and `N.change` once
//! it is committed; a pending file after a crash shows where to clean up. `N.undone` exists as well
//! if the change was undone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_core::{ByteSize, ErrorReason, ToolError};

use super::change_record::ChangeRecord;
use super::change_set::{ChangeSet, END, SetLimits, UNDONE as SET_UNDONE};
use super::content_digest::sha256;
use crate::file_error;
use crate::locked_line::{LockedLine, LockedLineGuard};
use crate::path_survey;
use crate::state_dir::StateDir;

/// Most changes per workspace.
const ENTRIES_MAX: usize = 1_000;
/// Most commands per workspace whose changes are kept.
const SETS_MAX: usize = 500;
/// Most bytes of previous states per workspace.
const KEPT_BYTES_MAX: ByteSize = ByteSize::megabytes(500);
/// How many changes, and bytes of previous states, are added between two checks of the limits: a
/// check takes longer the more files there are.
const TIDY_CLAIMS: usize = 32;
const TIDY_BYTES: ByteSize = ByteSize::megabytes(50);
/// A set that holds less than this part of the limit is small.
const SMALL_SET_DIVISOR: u64 = 1_000;
/// A number that was claimed this long ago without a record is left over from a crash.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(60);

/// Longest record, in bytes: it contains the full path of each folder that had to be created.
const RECORD_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Suffix of the file of a committed change, and of one in progress.
const DONE: &str = "change";
const PENDING: &str = "pending";
/// Suffix of the file while it is rewritten.
const REWRITE: &str = "anew";
/// Suffix of the file that marks a change as undone.
const UNDONE: &str = "undone";
/// Suffix of the folder with the changes of a command; see [`super::change_set`].
const SET: &str = "set";

/// Locked while a number is claimed, and the counter.
const LOCK: &str = "lock";
/// Locked while the changes of a command are undone.
const UNDO_LOCK: &str = "undo.lock";
/// How often the lock is opened again if it was removed meanwhile.
const LOCK_TRIES_MAX: u32 = 8;
/// The file with the path of the workspace's first folder, and its longest content.
const FOLDER: &str = "folder";
const FOLDER_BYTES_MAX: u64 = 64 * 1024;

/// A claimed number, and the file of its change, which is still empty.
#[derive(Debug)]
pub(super) struct ChangeClaim {
    pub(super) id: u64,
    file: File,
}

/// The folder with the records and previous states of one workspace.
#[derive(Clone, Debug)]
pub(super) struct JournalStore {
    dir: StateDir,
    /// The workspace's first folder, if it is known.
    folder: Option<PathBuf>,
}

impl JournalStore {
    /// The journal of a workspace, given its first folder.
    pub(super) fn new(dir: StateDir, folder: &Path) -> Self {
        Self { dir, folder: Some(folder.to_owned()) }
    }

    /// The journal in a folder of zero's own, whatever its workspace.
    pub(super) fn open(dir: StateDir) -> Self {
        Self { dir, folder: None }
    }

    /// Number, age and size of the committed changes.
    pub(super) fn stored_changes(&self) -> io::Result<Vec<(u64, Duration, u64)>> {
        let facts = |id: u64| {
            let name = file_name(id, DONE);
            // Another process may have removed it meanwhile.
            Some((id, self.dir.age(&name).ok()?, self.dir.size(&name).ok()?))
        };
        let of_command = |id: u64| {
            let dir = self.set_dir(id);
            let (_, totals) = ChangeSet::read_summary(&dir).ok()?;
            Some((id, dir.age(END).ok()?, totals.held_bytes))
        };
        let files = self.ids_in_state(DONE)?.into_iter().filter_map(facts);
        Ok(files.chain(self.set_ids()?.into_iter().filter_map(of_command)).collect())
    }

    /// The workspace's first folder, if it is known.
    pub(super) fn folder_path(&self) -> Option<PathBuf> {
        let mut path = Vec::new();
        let file = self.dir.open(FOLDER).ok()?;
        file.take(FOLDER_BYTES_MAX).read_to_end(&mut path).ok()?;
        (!path.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
    }

    /// Whether the workspace's first folder is known, and does not exist.
    pub(super) fn has_vanished_folder(&self) -> bool {
        self.folder_path().is_some_and(|folder| path_survey::is_absent(&folder))
    }

    /// Removes a committed change.
    pub(super) fn remove_stored(&self, id: u64) -> io::Result<()> {
        let lock = LockedLine::open(&self.dir, LOCK)?;
        let _held = lock.lock()?;
        self.set_dir(id).remove_all()?;
        self.dir.remove(&file_name(id, DONE))?;
        self.dir.remove(&file_name(id, UNDONE))
    }

    /// Removes the folder of the journal if nothing is recorded in it.
    pub(super) fn remove_if_empty(&self) -> io::Result<()> {
        let lock = LockedLine::open(&self.dir, LOCK)?;
        // A process that waits for the lock makes the folder again.
        let _held = lock.lock()?;
        let is_empty = [PENDING, DONE, SET]
            .iter()
            .map(|state| self.ids_in_state(state))
            .try_fold(true, |is_empty, ids| ids.map(|ids| is_empty && ids.is_empty()))?;
        if is_empty { self.dir.remove_all() } else { Ok(()) }
    }

    /// Notes the workspace's folder, so that its journal can be removed when it is gone.
    fn note_folder(&self) {
        let Some(folder) = &self.folder else { return };
        if self.dir.age(FOLDER).is_ok() {
            return;
        }
        // If this fails, the journal is kept as long as that of an existing folder.
        let _ = self
            .dir
            .create_new(FOLDER)
            .and_then(|mut file| file.write_all(folder.as_os_str().as_bytes()));
    }

    /// The numbers of all recorded changes, oldest first, including those that were never
    /// committed, since they may have happened.
    pub(super) fn ids(&self) -> Result<Vec<u64>, ToolError> {
        let list =
            |state| self.ids_in_state(state).map_err(|error| self.store_error("list", &error));
        // In this order: a change that is committed in between is found by the second listing.
        let mut ids = list(PENDING)?;
        ids.retain(|id| self.read_record(*id).is_ok());
        ids.extend(list(DONE)?);
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Claims the next free number for a change with this many bytes of previous state, and removes
    /// old changes from time to time. One process at a time: no number may be claimed between
    /// another process's claim and its record.
    pub(super) fn claim(&self, before_bytes: u64) -> Result<ChangeClaim, ToolError> {
        self.try_claim_next(before_bytes).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => ToolError::failed(
                ErrorReason::Busy,
                "the journal is in use by another process; try again",
            ),
            _ => self.store_error("write", &error),
        })
    }

    /// Claims the next free number for the changes of a command, with a folder for them.
    pub(super) fn claim_set(&self) -> io::Result<(u64, StateDir)> {
        let create = |id: u64| {
            let dir = self.set_dir(id);
            dir.create().map(|()| (id, dir))
        };
        // The command may have changed files already: nothing is said about that.
        let failed = |error: io::Error| {
            let (folder, why) = (self.dir.path().display(), file_error::plain_message(&error));
            io::Error::new(
                error.kind(),
                format!("the journal in `{folder}` cannot be written: {why}"),
            )
        };
        self.try_claim_with(0, create).map_err(failed)
    }

    /// The folder of the changes of a command.
    pub(super) fn set_dir(&self, id: u64) -> StateDir {
        self.dir.child(&file_name(id, SET))
    }

    /// The numbers of the sets of changes, lowest first.
    pub(super) fn set_ids(&self) -> io::Result<Vec<u64>> {
        self.ids_in_state(SET)
    }

    /// Whether the limits are checked after a set that holds so many bytes: a check reads all sets. A
    /// small set is checked later, with others, unless the oldest is too old.
    pub(super) fn is_check_due(&self, newest: u64, held_bytes: u64, limits: &SetLimits) -> bool {
        let ids = self.set_ids().unwrap_or_default();
        let previous = ids.iter().rev().find(|id| **id < newest);
        let round = |id: u64| id / TIDY_CLAIMS as u64;
        held_bytes > limits.bytes_max.get() / SMALL_SET_DIVISOR
            || previous.is_none_or(|previous| round(*previous) != round(newest))
            || ids.first().is_some_and(|oldest| self.is_set_older(*oldest, limits.age_max))
    }

    fn is_set_older(&self, id: u64, age_max: Option<Duration>) -> bool {
        age_max.is_some_and(|most| self.set_dir(id).age(END).is_ok_and(|age| age > most))
    }

    /// Removes the oldest sets of changes beyond these limits, except `newest`, of which the user is
    /// told first.
    pub(super) fn expire_sets(&self, limits: &SetLimits, newest: Option<u64>) {
        let mut kept = 0_u64;
        for (newer, id) in self.set_ids().unwrap_or_default().into_iter().rev().enumerate() {
            let dir = self.set_dir(id);
            let Ok((_, totals)) = ChangeSet::read_summary(&dir) else { continue };
            let held = if dir.size(SET_UNDONE).is_err() { totals.held_bytes } else { 0 };
            let does_not_fit = kept.saturating_add(held) > limits.bytes_max.get();
            let is_old = self.is_set_older(id, limits.age_max);
            if newest == Some(id) && does_not_fit {
                // It takes nothing from the others, since it does not stay.
                continue;
            }
            if does_not_fit || is_old || newer >= SETS_MAX {
                self.remove_set(id);
            } else {
                kept += held;
            }
        }
    }

    /// Removes the newest set of changes if it is larger than the limit: the user was told.
    pub(super) fn expire_excess(&self, limits: &SetLimits) {
        let newest = self.set_ids().unwrap_or_default().pop();
        let Some(dir) = newest.map(|id| self.set_dir(id)) else { return };
        let is_excess = ChangeSet::read_summary(&dir)
            .is_ok_and(|(_, totals)| totals.held_bytes > limits.bytes_max.get());
        if is_excess && dir.size(SET_UNDONE).is_err() {
            self.expire_sets(limits, None);
        }
    }

    /// Removes a set of changes with its images.
    pub(super) fn remove_set(&self, id: u64) {
        // Its remains are removed with the next set that expires.
        let _ = self.set_dir(id).remove_all();
    }

    /// Opens the file that is locked while a set is undone, or recovered.
    pub(super) fn undo_lock(&self) -> io::Result<File> {
        self.dir.lock_file(UNDO_LOCK)
    }

    pub(super) fn set_error(&self, id: u64, source: &io::Error) -> ToolError {
        self.store_error(&format!("use change {id} of"), source)
    }

    /// zero's own folder, whose files are no part of a workspace.
    pub(super) fn own_folder(&self) -> &Path {
        self.dir.path().ancestors().nth(2).unwrap_or(self.dir.path())
    }

    fn try_claim_next(&self, before_bytes: u64) -> io::Result<ChangeClaim> {
        self.try_claim_with(before_bytes, |id| {
            let file = self.dir.create_new(&file_name(id, PENDING))?;
            Ok(ChangeClaim { id, file })
        })
    }

    /// Claims the next free number, for which `create` makes what claims it.
    fn try_claim_with<T>(
        &self,
        before_bytes: u64,
        create: impl Fn(u64) -> io::Result<T>,
    ) -> io::Result<T> {
        for _ in 0..LOCK_TRIES_MAX {
            let lock = LockedLine::open(&self.dir, LOCK)?;
            let line_guard = lock.lock()?;
            // Otherwise the journal was removed while this process waited; others use a new lock.
            if let Some(line) = line_guard.read()? {
                return self.claim_locked(&line_guard, &line, before_bytes, create);
            }
        }
        Err(io::Error::other("its folder is removed again and again"))
    }

    fn claim_locked<T>(
        &self,
        line_guard: &LockedLineGuard<'_>,
        line: &[u8],
        before_bytes: u64,
        create: impl Fn(u64) -> io::Result<T>,
    ) -> io::Result<T> {
        let count = match ClaimCounter::parse(line).filter(|count| self.is_free(count.last + 1)) {
            Some(count) if count.is_below_tidy_limit(before_bytes) => count,
            // The counter is missing, or it is time to check the limits.
            _ => {
                self.note_folder();
                ClaimCounter { last: self.prune()?, claims: 0, bytes: 0 }
            }
        };
        let count = ClaimCounter {
            last: count.last + 1,
            claims: count.claims + 1,
            bytes: count.bytes.saturating_add(before_bytes),
        };
        let created = create(count.last)?;
        line_guard.write(count.to_line().as_bytes())?;
        Ok(created)
    }

    /// Whether a number is unused. After a power cut, the counter may be older than the records.
    fn is_free(&self, id: u64) -> bool {
        [PENDING, DONE, SET].iter().all(|state| self.dir.age(&file_name(id, state)).is_err())
    }

    /// Removes changes beyond the limits, with room until the next check, and returns the highest
    /// number in use.
    fn prune(&self) -> io::Result<u64> {
        // In this order: a change that is committed in between is found by the second listing.
        let claimed = self.ids_in_state(PENDING)?;
        let ids = self.ids_in_state(DONE)?;
        let mut kept_bytes = 0;
        for (age, id) in ids.iter().rev().enumerate() {
            kept_bytes += self.dir.size(&file_name(*id, DONE)).unwrap_or(0);
            if age >= ENTRIES_MAX - TIDY_CLAIMS
                || kept_bytes > KEPT_BYTES_MAX.get() - TIDY_BYTES.get()
            {
                self.remove(*id);
            }
        }
        for id in self.ids_in_state(UNDONE)? {
            if ids.binary_search(&id).is_err() && claimed.binary_search(&id).is_err() {
                let _ = self.dir.remove(&file_name(id, UNDONE));
            }
        }
        let sets = self.set_ids()?;
        Ok(ids.last().max(claimed.last()).max(sets.last()).copied().unwrap_or(0))
    }

    /// Stores a record and the previous contents safely on disk.
    pub(super) fn store(
        &self,
        claim: ChangeClaim,
        record: &ChangeRecord,
        before: Option<&[u8]>,
    ) -> Result<(), ToolError> {
        let kept = write_change(claim.file, record, before).and_then(|()| self.dir.sync());
        kept.map_err(|error| {
            self.remove(claim.id);
            self.store_error("write", &error)
        })
    }

    /// Corrects the record of a change in progress.
    pub(super) fn amend(&self, record: &ChangeRecord, before: Option<&[u8]>) {
        let [rewrite, pending] = [REWRITE, PENDING].map(|state| file_name(record.id, state));
        let written =
            self.dir.create_new(&rewrite).and_then(|file| write_change(file, record, before));
        // If this fails, the record contains what was requested, and an undo reports that the file
        // was changed since.
        match written.and_then(|()| self.dir.rename(&rewrite, &pending)) {
            Ok(()) => drop(self.dir.sync()),
            Err(_) => drop(self.dir.remove(&rewrite)),
        }
    }

    /// Removes what a crash left of a correction.
    pub(super) fn remove_draft(&self, id: u64) {
        let _ = self.dir.remove(&file_name(id, REWRITE));
    }

    /// Marks a change as complete: there is nothing to clean up after a crash.
    pub(super) fn commit(&self, id: u64) {
        // If this fails, recovery finds that the change happened.
        let _ = self.dir.rename(&file_name(id, PENDING), &file_name(id, DONE));
    }

    /// Removes all files of a change.
    pub(super) fn remove(&self, id: u64) {
        for state in [DONE, REWRITE, UNDONE, PENDING] {
            let _ = self.dir.remove(&file_name(id, state));
        }
    }

    /// The numbers of changes that are not committed.
    pub(super) fn pending_ids(&self) -> Result<Vec<u64>, ToolError> {
        self.ids_in_state(PENDING).map_err(|error| self.store_error("list", &error))
    }

    /// Whether a change is not committed.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.dir.age(&file_name(id, PENDING)).is_ok()
    }

    /// Whether a number without a record was claimed long ago.
    pub(super) fn is_stale_claim(&self, id: u64) -> bool {
        self.dir.age(&file_name(id, PENDING)).is_ok_and(|age| age > CLAIM_AGE_MAX)
    }

    /// Reads the record of change `id`; fails if it is missing or damaged.
    pub(super) fn read_record(&self, id: u64) -> Result<ChangeRecord, ToolError> {
        match self.open_change(id).and_then(|mut file| read_record_line(&mut file)) {
            Ok(line) => serde_json::from_slice(&line).map_err(|error| {
                ToolError::failed(
                    ErrorReason::Io,
                    format!(
                        "change {id} in the journal is damaged and cannot be undone: {error}; `zero undo --list` shows the others"
                    ),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("there is no change {id} in the journal");
                Err(ToolError::not_found(ErrorReason::Io, message).with_detail("id", id))
            }
            Err(error) => Err(self.store_error("read", &error)),
        }
    }

    /// Reads the contents before change `id` and checks their hash.
    pub(super) fn read_before(&self, id: u64, expected: &str) -> Result<Vec<u8>, ToolError> {
        self.read_before_if_complete(id, expected)?.ok_or_else(|| {
            let message = format!(
                "the backup of change {id} in the journal is damaged; nothing was restored"
            );
            ToolError::failed(ErrorReason::Io, message)
        })
    }

    /// Like [`Self::read_before`], but returns `None` if the contents are incomplete or damaged.
    pub(super) fn read_before_if_complete(
        &self,
        id: u64,
        expected: &str,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let mut bytes = Vec::new();
        self.open_change(id)
            .and_then(|mut file| {
                read_record_line(&mut file).and_then(|_| file.read_to_end(&mut bytes))
            })
            .map_err(|error| self.store_error("read", &error))?;
        Ok((sha256(&bytes) == expected).then_some(bytes))
    }

    /// Opens the file of a change, committed or not.
    fn open_change(&self, id: u64) -> io::Result<BufReader<File>> {
        let opened = match self.dir.open(&file_name(id, DONE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // It may have been committed in between.
                self.dir
                    .open(&file_name(id, PENDING))
                    .or_else(|_| self.dir.open(&file_name(id, DONE)))
            }
            opened => opened,
        };
        opened.map(BufReader::new)
    }

    pub(super) fn is_undone(&self, id: u64) -> bool {
        self.dir.age(&file_name(id, UNDONE)).is_ok()
    }

    /// Records that a change was undone, so that the next undo goes one step further back. If the
    /// change was itself an undo, the change that it had undone is in effect again.
    pub(super) fn mark_undone(&self, record: &ChangeRecord) -> Result<(), ToolError> {
        let failed = |error: io::Error| self.store_error("write", &error);
        if let Some(revived) = record.undoes {
            self.dir.remove(&file_name(revived, UNDONE)).map_err(failed)?;
        }
        match self.dir.create_new(&file_name(record.id, UNDONE)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// The numbers of the changes in a state, lowest first.
    fn ids_in_state(&self, state: &str) -> io::Result<Vec<u64>> {
        let names = self.dir.list_names()?;
        let number = |name: &String| name.strip_suffix(state)?.strip_suffix('.')?.parse().ok();
        let mut ids: Vec<u64> = names.iter().filter_map(number).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn store_error(&self, verb: &str, source: &io::Error) -> ToolError {
        let path = self.dir.path().display().to_string();
        file_error::from_io(&format!("{verb} the journal in"), &path, source)
    }
}

fn file_name(id: u64, state: &str) -> String {
    format!("{id}.{state}")
}

fn write_change(mut file: File, record: &ChangeRecord, before: Option<&[u8]>) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.write_all(before.unwrap_or_default())?;
    file.sync_all()?;
    // A process that was suspended for long after its claim may have been taken for dead.
    match file.metadata()?.nlink() {
        0 => Err(io::Error::other("its entry in the journal was removed meanwhile; try again")),
        _ => Ok(()),
    }
}

/// Reads the record and nothing beyond it.
fn read_record_line(file: &mut BufReader<File>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    file.take(RECORD_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// The contents of the lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClaimCounter {
    /// The last claimed number.
    last: u64,
    /// Claims since the limits were checked, and the bytes they store.
    claims: usize,
    bytes: u64,
}

impl ClaimCounter {
    /// Returns `None` for anything else, such as the line of an older zero.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let mut next = || words.next()?.parse::<u64>().ok();
        let (last, claims, bytes) = (next()?, next()?, next()?);
        // The highest possible number has no successor.
        let is_last = last == u64::MAX || words.next().is_some();
        (!is_last).then_some(Self { last, claims: usize::try_from(claims).ok()?, bytes })
    }

    /// Formats a line that always has the same length.
    fn to_line(self) -> String {
        format!("{:020} {:020} {:020}\n", self.last, self.claims, self.bytes)
    }

    fn is_below_tidy_limit(self, before_bytes: u64) -> bool {
        self.claims < TIDY_CLAIMS && self.bytes.saturating_add(before_bytes) <= TIDY_BYTES.get()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::journal::change_record::RecordedState;

    fn open_store() -> (tempfile::TempDir, JournalStore) {
        let temp = tempfile::tempdir().unwrap();
        let store = JournalStore::new(StateDir::new(temp.path().join("journal")), temp.path());
        (temp, store)
    }

    /// A committed change with this many bytes of previous state on disk.
    fn commit_change(store: &JournalStore, bytes: u64) -> u64 {
        let ChangeClaim { id, file } = store.claim(bytes).unwrap();
        file.set_len(bytes).unwrap();
        store.commit(id);
        id
    }

    #[test]
    fn counter_line_round_trips_and_rejects_other_text() {
        let count = ClaimCounter { last: 7, claims: 3, bytes: 1_000 };
        assert_eq!(ClaimCounter::parse(count.to_line().as_bytes()), Some(count));
        for line in ["", "7 3 1000", "7 3\n", "7 3 1 0\n", "-1 0 0\n", "18446744073709551615 0 0\n"]
        {
            assert_eq!(ClaimCounter::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn claimed_ids_increase_whatever_counter_says() {
        let (_temp, store) = open_store();
        assert_eq!([commit_change(&store, 1), commit_change(&store, 1)], [1, 2]);
        let lock = store.dir.path().join("lock");
        // A lost counter, one of an older zero, and one older than the records.
        for (line, expected) in [(String::new(), 3), ("x".to_owned(), 4)] {
            std::fs::write(&lock, line).unwrap();
            assert_eq!(commit_change(&store, 1), expected);
        }
        std::fs::write(&lock, ClaimCounter { last: 1, claims: 1, bytes: 1 }.to_line()).unwrap();
        assert_eq!(commit_change(&store, 1), 5);
        // A change in progress counts, too.
        assert_eq!(store.claim(1).unwrap().id, 6);
        std::fs::remove_file(&lock).unwrap();
        assert_eq!(commit_change(&store, 1), 7);
    }

    fn sample_record(id: u64) -> ChangeRecord {
        ChangeRecord {
            id,
            time: String::new(),
            tool: String::new(),
            call: String::new(),
            caller: None,
            path: std::path::Path::new("/a").into(),
            before: RecordedState::from_bytes(b"old"),
            after: RecordedState::Absent,
            created_folders: Vec::new(),
            undoes: None,
            pid: 1,
        }
    }

    #[test]
    fn uncommitted_change_is_listed_and_unwritten_claim_is_not() {
        let (_temp, store) = open_store();
        let (claimed, written) = (store.claim(3).unwrap(), store.claim(3).unwrap());
        let id = written.id;
        store.store(written, &sample_record(id), Some(b"old")).unwrap();
        assert_eq!(store.ids().unwrap(), [id]);
        assert_eq!(store.pending_ids().unwrap(), [claimed.id, id]);
        store.commit(id);
        assert_eq!((store.ids().unwrap(), store.is_pending(id)), (vec![id], false));
        assert_eq!(store.read_before(id, &sha256(b"old")).unwrap(), b"old");
        let damaged = store.read_before_if_complete(id, &sha256(b"other")).unwrap();
        assert_eq!(damaged, None);
    }

    #[test]
    fn removed_claim_cannot_be_stored() {
        let (_temp, store) = open_store();
        let claim = store.claim(3).unwrap();
        store.remove(claim.id);
        let id = claim.id;
        let error = store.store(claim, &sample_record(id), Some(b"old")).unwrap_err();
        assert!(error.message.contains("removed meanwhile"), "{error}");
    }

    #[test]
    fn amended_record_replaces_old_one_without_leftovers() {
        let (_temp, store) = open_store();
        let claim = store.claim(3).unwrap();
        let mut record = sample_record(claim.id);
        store.store(claim, &record, Some(b"old")).unwrap();
        record.after = RecordedState::from_bytes(b"new");
        store.amend(&record, Some(b"old"));
        assert_eq!(store.read_record(record.id).unwrap().after, record.after);
        assert_eq!(store.read_before(record.id, &sha256(b"old")).unwrap(), b"old");
        assert_eq!(
            store.dir.list_names().unwrap(),
            [file_name(record.id, PENDING), FOLDER.to_owned(), LOCK.to_owned()]
        );
    }

    #[test]
    fn leftovers_of_removed_change_do_not_affect_reused_id() {
        let (_temp, store) = open_store();
        store.dir.create().unwrap();
        store.dir.create_new(&file_name(1, UNDONE)).unwrap();
        let id = commit_change(&store, 1);
        assert_eq!((id, store.is_undone(id)), (1, false));
    }

    #[test]
    fn entry_count_stays_within_limit() {
        let (_temp, store) = open_store();
        for _ in 0..ENTRIES_MAX + 3 * TIDY_CLAIMS {
            commit_change(&store, 1);
            assert!(store.ids().unwrap().len() <= ENTRIES_MAX);
        }
        assert!(store.ids().unwrap().len() >= ENTRIES_MAX - TIDY_CLAIMS);
    }

    #[test]
    fn stored_bytes_stay_within_limit() {
        let (_temp, store) = open_store();
        let each = ByteSize::megabytes(30).get();
        for _ in 0..40 {
            commit_change(&store, each);
            let kept = store.ids().unwrap().len() as u64 * each;
            assert!(kept <= KEPT_BYTES_MAX.get(), "{kept}");
        }
        assert!(store.ids().unwrap().len() > 10);
    }
}
