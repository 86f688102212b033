//! The only way to change a file of the user, and to undo a change.
//!
//! A [`Journal`] changes a file in these steps: lock, read, decide, record, write a temporary file,
//! flush, rename, flush. The previous state is on disk before the first byte of the new state is
//! visible, so a crash at any point leaves the file either old or new, and [`Journal::undo`] can
//! restore the old one. No other code writes files, so no change can miss the journal.
//!
//! Another program may write the new state, such as an editor that has the file open
//! ([`ExternalWriter`]). The steps are the same except for the write: the journal reads what the
//! program wrote and records it as it is.

mod change_contents;
mod change_record;
mod change_recorder;
mod change_restore;
mod change_set;
mod command_changes;
mod content_digest;
mod file_copy;
mod file_snapshot;
mod git_index;
pub mod journal_expiry;
mod journal_rewind;
mod journal_store;
mod open_set;
mod path_state;
mod portable_path;
mod set_completion;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Stat};
use serde::Serialize;
use zero_core::{ByteSize, ErrorReason, ErrorType, ToolError};

use self::change_record::{ChangeRecord, RecordedState};
use self::journal_store::JournalStore;
use crate::canonical_path::FinalLinkMode;
use crate::file_attributes::FileAttributes;
use crate::file_error;
use crate::file_facts::{FileFacts, FileType};
use crate::file_lock::{self, LockError};
use crate::file_replacement::{FileReplacement, check_unchanged, remove, remove_empty_folder};
use crate::resolved_path::ResolvedPath;
use crate::state_dir::StateDir;
use crate::workspace::Workspace;

pub use self::change_contents::{ChangedFile, FileContents};
pub use self::change_recorder::ChangeRecorder;
pub use self::change_restore::ChangeConflict;
pub use self::change_set::{SetLimits, SetOrigin, SetSummary};
pub use self::content_digest::sha256;
pub use self::file_snapshot::FileSnapshot;
pub use self::journal_rewind::{PathRewind, RewindPlan, RewoundChange};

/// Where the journals are, in zero's own folder, by workspace.
const JOURNAL: &str = "journal";
/// Number of lock files. Two files that share one only wait for each other now and then.
const LOCK_SHARDS: usize = 64;
/// How long an external writer may take until the new state is on disk.
const EXTERNAL_WRITE_MAX: Duration = Duration::from_millis(500);
/// Interval between two checks of what it wrote.
const EXTERNAL_WRITE_PAUSE: Duration = Duration::from_millis(20);

/// What to do with a file.
#[derive(Debug)]
pub enum FileChange {
    /// Replace its contents, and keep its mode and owner.
    Replace(Vec<u8>),
    /// Make it a copy of another file.
    Copy {
        /// The contents of the other file.
        bytes: Vec<u8>,
        /// Mode and owner of the other file: a copy is as private as its original.
        attributes: FileAttributes,
    },
    /// Remove the file.
    Remove,
}

/// Which call changed a file, for the journal.
#[derive(Clone, Debug)]
pub struct ChangeOrigin {
    /// The name of the tool.
    pub tool: String,
    /// The ID of the call.
    pub call: String,
    /// The ID by which the session knows the call, to find the changes of a prompt.
    pub caller: Option<String>,
}

/// The result of a change.
#[derive(Debug)]
pub struct AppliedChange {
    /// The number of the change, for [`Journal::undo`].
    pub id: u64,
    /// What was there before.
    pub before: FileSnapshot,
    /// The facts of the file now; `None` if it was removed.
    pub after: Option<FileFacts>,
    /// Whether the file is as requested.
    pub landed: WriteOutcome,
}

/// Whether a new state was written as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The file is as requested.
    AsRequested,
    /// The external writer changed it: the file now has these contents.
    Altered(Vec<u8>),
    /// The external writer accepted it, but it is not on disk yet.
    Pending,
}

/// Writes the new contents of a file in place of zero. Returns whether it accepted them: if false,
/// zero writes the file itself; on an error, nothing is written.
pub type ExternalWriter<'a> = &'a dyn Fn(&[u8]) -> Result<bool, ToolError>;

/// The state of a recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// The file is as the change left it: the change can be undone.
    Applied,
    /// The file is as it was before the change: it was reverted by hand, or a crash came first.
    NotApplied,
    /// The file was changed again since.
    ChangedSince,
    /// The change was undone with [`Journal::undo`].
    Undone,
    /// The command that makes the changes still runs.
    InProgress,
}

/// A recorded change, as it is listed for users.
#[derive(Clone, Debug, Serialize)]
pub struct JournalEntry {
    /// The number of the change, for [`Journal::undo`].
    pub id: u64,
    /// When it was made, in UTC.
    pub time: String,
    /// The tool that made it.
    pub tool: String,
    /// The call that made it.
    pub call: String,
    /// The ID by which the session knows that call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The path of the file, as displayed.
    pub path: String,
    /// `create`, `change` or `remove`; `command` for the changes of a command, whose `path` is the
    /// command.
    pub action: &'static str,
    /// Whether it is still in effect.
    pub state: ChangeState,
    /// The number of the change that this one undid.
    pub undoes: Option<u64>,
    /// The totals, for the changes of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<SetSummary>,
}

/// Whether an undo may overwrite later changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoConflictPolicy {
    /// Refuse to undo.
    Refuse,
    /// Restore the old state anyway; the overwritten state is recorded in turn.
    Overwrite,
}

/// What undoes a change.
enum UndoOrigin<'a> {
    /// `zero undo`. The undo belongs to the call of the change.
    Undo,
    /// A rewind of a session, by its ID.
    Rewind(&'a str),
}

impl UndoOrigin<'_> {
    fn tool(&self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Rewind(_) => "rewind",
        }
    }

    fn caller(&self, recorded: Option<&str>) -> Option<String> {
        match self {
            Self::Undo => recorded.map(str::to_owned),
            Self::Rewind(id) => Some((*id).to_owned()),
        }
    }
}

/// The recorded changes of one workspace.
#[derive(Clone, Debug)]
pub struct Journal {
    workspace: Workspace,
    store: JournalStore,
    locks: StateDir,
    file_bytes_max: ByteSize,
}

/// The state of a path before a change, and why it will be changed.
struct PendingChange<'a> {
    target: &'a ResolvedPath,
    note: &'a ChangeOrigin,
    undoes: Option<u64>,
    before: FileSnapshot,
    stat: Option<Stat>,
}

/// The new state of a path.
enum NewFileState {
    File { bytes: Vec<u8>, attributes: Option<FileAttributes> },
    Link { points_at: PathBuf },
    Nothing,
}

/// The folder of all journals in a state folder. It contains hard links to files of workspaces.
pub fn locate_journals(state: &Path) -> PathBuf {
    state.join(JOURNAL)
}

/// The name of the journal of a workspace with that first folder.
fn journal_name(folder: &Path) -> String {
    let mut key = sha256(folder.as_os_str().as_bytes());
    key.truncate(16);
    key
}

impl Journal {
    /// Opens the journal of `workspace`, which is stored under `state`. Files larger than
    /// `file_bytes_max` are neither read nor changed.
    pub fn new(state: &StateDir, workspace: Workspace, file_bytes_max: ByteSize) -> Self {
        let name = journal_name(workspace.cwd());
        let store = JournalStore::new(state.child(JOURNAL).child(&name), workspace.cwd());
        Self { workspace, store, locks: state.child("locks"), file_bytes_max }
    }

    /// Reads a whole file, within the size limit.
    pub fn read(&self, target: &ResolvedPath) -> Result<FileSnapshot, ToolError> {
        self.take_snapshot(target).map(|(snapshot, _)| snapshot)
    }

    /// Changes a file. `decide` gets the current state and returns what to do; no other process
    /// changes the file through zero in between. `still_wanted` is called again at the last moment,
    /// so that a cancelled call changes nothing.
    pub fn change(
        &self,
        target: &ResolvedPath,
        note: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
        decide: impl FnOnce(&FileSnapshot) -> Result<FileChange, ToolError>,
    ) -> Result<AppliedChange, ToolError> {
        self.change_with_writer(None, target, note, still_wanted, decide)
    }

    /// Like [`Self::change`], but `writer` may write the new contents. If it does not accept them,
    /// or if the folder of the file does not exist yet, zero writes the file; on an error of
    /// `writer`, nothing is written.
    pub fn change_with_writer(
        &self,
        writer: Option<ExternalWriter<'_>>,
        target: &ResolvedPath,
        note: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
        decide: impl FnOnce(&FileSnapshot) -> Result<FileChange, ToolError>,
    ) -> Result<AppliedChange, ToolError> {
        let _lock = self.lock(target.path(), &still_wanted)?;
        let (before, stat) = self.take_snapshot(target)?;
        let new = match decide(&before)? {
            FileChange::Replace(bytes) => NewFileState::File { bytes, attributes: None },
            FileChange::Copy { bytes, attributes } => {
                NewFileState::File { bytes, attributes: Some(attributes) }
            }
            FileChange::Remove => NewFileState::Nothing,
        };
        self.apply(
            PendingChange { target, note, undoes: None, before, stat },
            new,
            writer,
            still_wanted,
        )
    }

    /// Undoes change `id`.
    pub fn undo(&self, id: u64, conflicts: UndoConflictPolicy) -> Result<AppliedChange, ToolError> {
        self.undo_as(id, conflicts, &UndoOrigin::Undo)
    }

    fn undo_as(
        &self,
        id: u64,
        conflicts: UndoConflictPolicy,
        origin: &UndoOrigin<'_>,
    ) -> Result<AppliedChange, ToolError> {
        let record = self.store.read_record(id)?;
        let target = self.resolve_target(&record.path.to_path())?;
        let always = || Ok(());
        let _lock = self.lock(target.path(), always)?;
        let (before, stat) = self.take_snapshot(&target)?;
        check_undoable(self.change_state(&record, &before), conflicts, id, target.display_path())?;
        let new = match &record.before {
            RecordedState::Absent => NewFileState::Nothing,
            RecordedState::Symlink { target } => NewFileState::Link { points_at: target.to_path() },
            RecordedState::File { sha256, attributes, .. } => {
                // An existing file keeps its current mode: the user may have made it private. A
                // link has none.
                let keeps = matches!(before, FileSnapshot::File { .. });
                let attributes = if keeps { None } else { *attributes };
                NewFileState::File { bytes: self.store.read_before(id, sha256)?, attributes }
            }
        };
        let (tool, caller) = (origin.tool(), origin.caller(record.caller.as_deref()));
        let note = ChangeOrigin { tool: tool.to_owned(), call: record.call.clone(), caller };
        let pending =
            PendingChange { target: &target, note: &note, undoes: Some(id), before, stat };
        let applied = self.apply(pending, new, None, always)?;
        self.remove_created_folders(&record);
        self.store.mark_undone(&record)?;
        Ok(applied)
    }

    /// The newest change that can be undone.
    pub fn newest_undoable(&self) -> Result<Option<JournalEntry>, ToolError> {
        for id in self.all_ids()?.into_iter().rev() {
            let entry = self.entry(id)?;
            let is_in_effect =
                matches!(entry.state, ChangeState::Applied | ChangeState::ChangedSince);
            if entry.undoes.is_none() && is_in_effect {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// All recorded changes, newest first.
    pub fn list(&self) -> Result<Vec<JournalEntry>, ToolError> {
        self.list_newest(usize::MAX).map(|(entries, _)| entries)
    }

    /// The newest recorded changes, newest first, and how many older ones there are. Each is compared
    /// with its files.
    pub fn list_newest(&self, most: usize) -> Result<(Vec<JournalEntry>, usize), ToolError> {
        let ids = self.all_ids()?;
        let older = ids.len().saturating_sub(most);
        let newest = ids.into_iter().skip(older).rev();
        Ok((newest.map(|id| self.entry(id)).collect::<Result<_, _>>()?, older))
    }

    /// Returns one recorded change.
    pub fn entry(&self, id: u64) -> Result<JournalEntry, ToolError> {
        if self.is_set(id) {
            return self.set_entry(id);
        }
        let record = self.store.read_record(id)?;
        let path = record.path.to_path();
        let state = match self.resolve_target(&path).and_then(|target| self.take_snapshot(&target))
        {
            Ok((now, _)) => self.change_state(&record, &now),
            Err(_) => ChangeState::ChangedSince,
        };
        let action = match (&record.before, &record.after) {
            (RecordedState::Absent, _) => "create",
            (_, RecordedState::Absent) => "remove",
            _ => "change",
        };
        Ok(JournalEntry {
            id,
            time: record.time,
            tool: record.tool,
            call: record.call,
            caller: record.caller,
            path: self.workspace.display_path(&path),
            action,
            state,
            undoes: record.undoes,
            totals: None,
        })
    }

    /// Cleans up after processes that died in the middle of a change: removes temporary files, and
    /// drops changes that did not happen. Returns the number of changes that were cleaned up.
    pub fn recover(&self) -> Result<usize, ToolError> {
        self.recover_beside(&|| false)
    }

    /// Like [`Self::recover`], but an undo that was interrupted is left for later if `is_busy` says
    /// that another process may be using the files that it moves.
    pub fn recover_beside(&self, is_busy: &dyn Fn() -> bool) -> Result<usize, ToolError> {
        let sets = self.recover_sets(is_busy);
        let mut completed = 0;
        for id in self.store.pending_ids()? {
            let Ok(record) = self.store.read_record(id) else {
                // Without a record, the crash came before the file was touched.
                if self.store.is_stale_claim(id) {
                    self.store.remove(id);
                    completed += 1;
                }
                continue;
            };
            let Some(_lock) = self.try_lock_abandoned(&record.path.to_path()) else { continue };
            // Before we got the lock, the change may have been finished and its number reused. A
            // process that changes this file holds the lock from before the claim until the commit.
            let is_left_over = || {
                self.store
                    .read_record(id)
                    .is_ok_and(|now| now.path == record.path && now.call == record.call)
            };
            if !self.store.is_pending(id) || !is_left_over() {
                continue;
            }
            // A backup that cannot be read now is kept: it may be the only copy of the old state.
            let Ok(is_whole) = self.has_complete_backup(&record) else { continue };
            self.store.remove_draft(id);
            if is_whole && self.was_applied(&record) {
                self.store.commit(id);
            } else {
                self.remove_created_folders(&record);
                self.store.remove(id);
            }
            completed += 1;
        }
        Ok(completed + sets?)
    }

    /// Whether the previous state was stored completely; the file is not touched before.
    fn has_complete_backup(&self, record: &ChangeRecord) -> Result<bool, ToolError> {
        match &record.before {
            RecordedState::File { sha256, .. } => {
                Ok(self.store.read_before_if_complete(record.id, sha256)?.is_some())
            }
            RecordedState::Absent | RecordedState::Symlink { .. } => Ok(true),
        }
    }

    /// Whether a change that a crash interrupted took place. Removes its temporary file; if that
    /// still exists, it was never renamed.
    fn was_applied(&self, record: &ChangeRecord) -> bool {
        let Ok(target) = self.resolve_target(&record.path.to_path()) else { return true };
        let temp = temp_name(record.pid, record.id);
        let was_pending = rustix::fs::unlinkat(target.folder(), temp, AtFlags::empty()).is_ok();
        let is_as_before =
            || self.take_snapshot(&target).is_ok_and(|(now, _)| record.before.matches(&now));
        !was_pending && !is_as_before()
    }

    fn remove_created_folders(&self, record: &ChangeRecord) {
        for folder in record.created_folders.iter().rev() {
            if let Ok(folder) = self.resolve_target(&folder.to_path()) {
                remove_empty_folder(&folder);
            }
        }
    }

    fn apply(
        &self,
        pending: PendingChange<'_>,
        new: NewFileState,
        writer: Option<ExternalWriter<'_>>,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<AppliedChange, ToolError> {
        let after = match &new {
            NewFileState::File { bytes, .. } => {
                check_size(pending.target.display_path(), bytes.len() as u64, self.file_bytes_max)?;
                RecordedState::from_bytes(bytes)
            }
            NewFileState::Link { points_at } => {
                RecordedState::Symlink { target: points_at.as_path().into() }
            }
            NewFileState::Nothing => RecordedState::Absent,
        };
        if pending.stat.is_some() && !matches!(new, NewFileState::Nothing) {
            pending.target.check_writable()?;
        }
        let record = self.write_record(&pending, after)?;
        let id = record.id;
        let done = still_wanted()
            .and_then(|()| check_unchanged(pending.target, pending.stat.as_ref()))
            .and_then(|()| match (writer, &new) {
                (Some(writer), NewFileState::File { bytes, .. })
                    if pending.target.missing_folders.is_empty() && writer(bytes)? =>
                {
                    Ok(self.await_external_write(&pending, record, bytes))
                }
                _ => write_new_state(&pending, id, &new)
                    .map(|after| (after, WriteOutcome::AsRequested)),
            });
        match done {
            Ok((after, landed)) => {
                self.store.commit(id);
                Ok(AppliedChange { id, before: pending.before, after, landed })
            }
            Err(error) => {
                self.store.remove(id);
                Err(error)
            }
        }
    }

    /// Waits for the result of an external writer that accepted new contents. Whatever is found,
    /// the change has been made, so nothing here can fail.
    fn await_external_write(
        &self,
        pending: &PendingChange<'_>,
        mut record: ChangeRecord,
        requested_content: &[u8],
    ) -> (Option<FileFacts>, WriteOutcome) {
        let until = Instant::now() + EXTERNAL_WRITE_MAX;
        let mut last = None;
        loop {
            let now = self.read(pending.target).ok();
            let is_last = Instant::now() >= until;
            match &now {
                Some(FileSnapshot::File { bytes, facts, .. }) if bytes == requested_content => {
                    return (Some(*facts), WriteOutcome::AsRequested);
                }
                // Read twice with the same result, it is not half-written.
                Some(FileSnapshot::File { bytes, facts, .. })
                    if now.as_ref() != Some(&pending.before) && (is_last || now == last) =>
                {
                    record.after = RecordedState::from_bytes(bytes);
                    self.store.amend(&record, pending.before.bytes());
                    return (Some(*facts), WriteOutcome::Altered(bytes.clone()));
                }
                Some(FileSnapshot::File { facts, .. }) if is_last => {
                    return (Some(*facts), WriteOutcome::Pending);
                }
                _ if is_last => return (None, WriteOutcome::Pending),
                _ => {}
            }
            last = now;
            std::thread::sleep(EXTERNAL_WRITE_PAUSE);
        }
    }

    /// Stores the previous state and a record of the new one safely on disk.
    fn write_record(
        &self,
        pending: &PendingChange<'_>,
        after: RecordedState,
    ) -> Result<ChangeRecord, ToolError> {
        let before = pending.before.bytes();
        // The message names the journal; the details say which file the call was about.
        let of_target = |error: ToolError| error.with_detail("file", pending.target.display_path());
        let claim = self.store.claim(before.map_or(0, <[u8]>::len) as u64).map_err(of_target)?;
        let path = pending.target.path();
        let made = pending.target.missing_folders.len();
        let mut created: Vec<_> = path.ancestors().skip(1).take(made).map(Into::into).collect();
        created.reverse();
        let record = ChangeRecord {
            id: claim.id,
            time: jiff::Timestamp::now().to_string(),
            tool: pending.note.tool.clone(),
            call: pending.note.call.clone(),
            caller: pending.note.caller.clone(),
            path: path.into(),
            before: RecordedState::from_snapshot(&pending.before, pending.stat.as_ref()),
            after,
            created_folders: created,
            undoes: pending.undoes,
            pid: std::process::id(),
        };
        self.store.store(claim, &record, before).map_err(of_target)?;
        Ok(record)
    }

    fn resolve_target(&self, path: &Path) -> Result<ResolvedPath, ToolError> {
        let target = self.workspace.resolve_path(path, FinalLinkMode::Keep)?;
        // Records contain canonical paths. If a path now leads elsewhere, it is not that file.
        if target.path() != path {
            let message = format!(
                "`{}` now points to `{}`; nothing was restored",
                path.display(),
                target.path().display()
            );
            return Err(ToolError::failed(ErrorReason::StaleFile, message));
        }
        Ok(target)
    }

    /// The current state of a target, and its stat.
    fn take_snapshot(
        &self,
        target: &ResolvedPath,
    ) -> Result<(FileSnapshot, Option<Stat>), ToolError> {
        let Some(stat) = target.stat()? else { return Ok((FileSnapshot::Absent, None)) };
        let facts = FileFacts::from_stat(&stat);
        let snapshot = if facts.file_type == FileType::Symlink {
            let points_at = rustix::fs::readlinkat(target.folder(), &target.name, Vec::new())
                .map_err(|errno| {
                    file_error::from_errno("read the link", target.display_path(), errno)
                })?;
            FileSnapshot::Symlink { target: PathBuf::from(OsStr::from_bytes(points_at.as_bytes())) }
        } else {
            let bytes =
                read_whole(target.open_file()?, target.display_path(), self.file_bytes_max)?;
            FileSnapshot::File { bytes, facts, attributes: FileAttributes::from_stat(&stat) }
        };
        Ok((snapshot, Some(stat)))
    }

    /// Waits until no other call changes this file through zero, in this process or another.
    fn lock(
        &self,
        path: &Path,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<File, ToolError> {
        let shown = path.display().to_string();
        let failed = |error: &io::Error| file_error::from_io("lock", &shown, error);
        let file = self.lock_file(path).map_err(|error| failed(&error))?;
        file_lock::wait_for_lock(file, still_wanted).map_err(|failure| match failure {
            LockError::Cancelled(error) => error,
            LockError::System(error) => failed(&error),
            LockError::Held => {
                let message = format!("`{shown}` is being changed by another process; try again");
                ToolError::failed(ErrorReason::Busy, message)
            }
        })
    }

    /// The lock file for changes of `path`.
    fn lock_file(&self, path: &Path) -> io::Result<File> {
        let bytes = path.as_os_str().as_bytes().iter();
        let sum =
            bytes.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        self.locks.lock_file(&(sum % LOCK_SHARDS).to_string())
    }

    /// Locks `path` if the lock is free: then the process that began a change of it is gone.
    fn try_lock_abandoned(&self, path: &Path) -> Option<File> {
        let file = self.lock_file(path).ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    fn change_state(&self, record: &ChangeRecord, now: &FileSnapshot) -> ChangeState {
        if self.store.is_undone(record.id) {
            ChangeState::Undone
        } else if record.after.matches(now) {
            ChangeState::Applied
        } else if record.before.matches(now) {
            ChangeState::NotApplied
        } else {
            ChangeState::ChangedSince
        }
    }
}

/// Makes the new state visible, in one step.
fn write_new_state(
    pending: &PendingChange<'_>,
    id: u64,
    new: &NewFileState,
) -> Result<Option<FileFacts>, ToolError> {
    let temp = temp_name(std::process::id(), id);
    let mut replacement = FileReplacement {
        target: pending.target,
        temp: &temp,
        old: pending.stat.as_ref(),
        attributes: None,
    };
    match new {
        NewFileState::File { bytes, attributes } => {
            replacement.attributes = *attributes;
            replacement.write(bytes).map(Some)
        }
        NewFileState::Link { points_at } => replacement.write_link(points_at).map(|()| None),
        NewFileState::Nothing => remove(pending.target).map(|()| None),
    }
}

fn check_undoable(
    state: ChangeState,
    conflicts: UndoConflictPolicy,
    id: u64,
    shown: &str,
) -> Result<(), ToolError> {
    match (state, conflicts) {
        (ChangeState::Applied, _) | (ChangeState::ChangedSince, UndoConflictPolicy::Overwrite) => {
            Ok(())
        }
        (ChangeState::ChangedSince, UndoConflictPolicy::Refuse) => {
            let message = format!(
                "`{shown}` was changed again after change {id}; undo the later changes first, or force the undo"
            );
            Err(ToolError::new(ErrorType::PermissionDenied, ErrorReason::StaleFile, message)
                .with_detail("id", id))
        }
        (ChangeState::NotApplied | ChangeState::Undone | ChangeState::InProgress, _) => {
            let message =
                format!("change {id} of `{shown}` is no longer in effect; nothing was done");
            Err(ToolError::invalid(ErrorReason::NoChange, message).with_detail("id", id))
        }
    }
}

/// The process ID is part of the name because two workspaces, each with its own journal, may change
/// files in one folder.
fn temp_name(pid: u32, id: u64) -> String {
    format!(".zero-{pid}-{id}.tmp")
}

fn check_size(shown: &str, size: u64, max: ByteSize) -> Result<(), ToolError> {
    if size <= max.get() {
        return Ok(());
    }
    let message =
        format!("`{shown}` has {}; files over {max} are not changed", ByteSize::bytes(size));
    Err(ToolError::invalid(ErrorReason::TooLarge, message).with_detail("file", shown))
}

fn read_whole(file: File, shown: &str, max: ByteSize) -> Result<Vec<u8>, ToolError> {
    let failed = |error: io::Error| file_error::from_io("read", shown, &error);
    let size = FileFacts::from_file(&file).map_err(failed)?.size;
    check_size(shown, size, max)?;
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(usize::try_from(size + 1).unwrap_or(usize::MAX));
    room.map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
    // A file that grows while it is read is noticed by its size, before memory runs out.
    file.take(max.get() + 1).read_to_end(&mut bytes).map_err(failed)?;
    check_size(shown, bytes.len() as u64, max)?;
    Ok(bytes)
}
