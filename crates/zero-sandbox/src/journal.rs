//! The one way to change a file, and the way back.
//!
//! A change is: lock, look, decide, journal, write beside, flush, rename, flush. What was there
//! before is safe on disk before the first byte of the new state is visible, so a crash at any
//! point leaves the file either old or new, and [`Journal::undo`] can restore the old one. Since
//! there is no other way to write, nothing can forget the journal.
//!
//! Somebody else may put the new state there, such as an editor that has the file open. The same
//! holds then, but for the one step: what they make of it is looked at, and recorded as it is.

mod change_record;
mod journal_store;

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
use crate::file_replacement::{
    FileReplacement, check_unchanged, check_writable, remove, remove_empty_folder,
};
use crate::resolved_path::ResolvedPath;
use crate::state_dir::StateDir;
use crate::workspace::Workspace;

pub use self::change_record::sha256;

/// Lock files; files whose names fall together only wait for each other now and then.
const LOCK_SHARDS: usize = 64;
/// How long somebody who took a new state may take to have it on disk.
const EXTERNAL_WRITE_MAX: Duration = Duration::from_millis(500);
/// Time between two looks at what they made of it.
const EXTERNAL_WRITE_PAUSE: Duration = Duration::from_millis(20);

/// What stands, or stood, at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSnapshot {
    /// Nothing.
    Absent,
    /// An ordinary file.
    File {
        /// All of its bytes.
        bytes: Vec<u8>,
        /// What was known of it when they were read.
        facts: FileFacts,
        /// Its mode and owner.
        attributes: FileAttributes,
    },
    /// A link.
    Symlink {
        /// What it points at, as written in it.
        target: PathBuf,
    },
}

impl FileSnapshot {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Absent | Self::Symlink { .. } => None,
        }
    }
}

/// What should become of a file.
#[derive(Debug)]
pub enum FileChange {
    /// It holds these bytes from now on, and keeps its mode and owner.
    Replace(Vec<u8>),
    /// It is a copy of another file from now on.
    Copy {
        /// The bytes.
        bytes: Vec<u8>,
        /// Mode and owner of the other file: a copy is as private as what it copies.
        attributes: FileAttributes,
    },
    /// It is gone.
    Remove,
}

/// Who changed a file, for the journal.
#[derive(Clone, Debug)]
pub struct ChangeOrigin {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call: String,
}

/// What a change did.
#[derive(Debug)]
pub struct AppliedChange {
    /// Names the change for [`Journal::undo`].
    pub id: u64,
    /// What stood there before.
    pub before: FileSnapshot,
    /// What is known of the file now; `None` when there is none.
    pub after: Option<FileFacts>,
    /// What has become of what was asked for.
    pub landed: WriteOutcome,
}

/// What has become of a new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is there, as it was asked for.
    AsRequested,
    /// Whoever put it there changed it on the way: these bytes stand there now.
    Altered(Vec<u8>),
    /// Somebody took it, and it is not on disk yet.
    Pending,
}

/// Somebody who puts bytes in the place of a file. Says whether they took them: if not, nothing was
/// written. Where they refuse it, nothing is.
pub type ExternalWriter<'a> = &'a dyn Fn(&[u8]) -> Result<bool, ToolError>;

/// What has become of a recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// The file is as the change left it: it can be undone.
    Applied,
    /// The file is as it was before: the change was undone by hand, or a crash came first.
    NotApplied,
    /// Something else changed the file since.
    ChangedSince,
    /// The change was undone.
    Undone,
}

/// A recorded change, for people.
#[derive(Clone, Debug, Serialize)]
pub struct JournalEntry {
    /// Names it for [`Journal::undo`].
    pub id: u64,
    /// When, in UTC.
    pub time: String,
    /// The tool that did it.
    pub tool: String,
    /// The call that did it.
    pub call: String,
    /// The file.
    pub path: String,
    /// `create`, `change` or `remove`.
    pub action: &'static str,
    /// What has become of it.
    pub state: ChangeState,
    /// Set when this change took back another one.
    pub undoes: Option<u64>,
}

/// Whether an undo may overwrite what was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoConflictPolicy {
    /// Refuse.
    Refuse,
    /// Restore all the same; the state lost is journaled in its turn.
    Overwrite,
}

/// The recorded changes of one workspace.
#[derive(Clone, Debug)]
pub struct Journal {
    workspace: Workspace,
    shelf: JournalStore,
    locks: StateDir,
    file_bytes_max: ByteSize,
}

/// A place as it was found, and why it will be changed.
struct PendingChange<'a> {
    target: &'a ResolvedPath,
    note: &'a ChangeOrigin,
    undoes: Option<u64>,
    before: FileSnapshot,
    stat: Option<Stat>,
}

/// What should stand at a place from now on.
enum NewFileState {
    File { bytes: Vec<u8>, attributes: Option<FileAttributes> },
    Link { points_at: PathBuf },
    Nothing,
}

impl Journal {
    /// The journal of `workspace`, kept under `state`.
    pub fn new(state: &StateDir, workspace: Workspace, file_bytes_max: ByteSize) -> Self {
        let key = sha256(workspace.cwd().as_os_str().as_bytes());
        let shelf = JournalStore::new(state.child("journal").child(&key[..16]));
        Self { workspace, shelf, locks: state.child("locks"), file_bytes_max }
    }

    /// Reads a file whole, within the size limit.
    pub fn read(&self, target: &ResolvedPath) -> Result<FileSnapshot, ToolError> {
        self.take_snapshot(target).map(|(snapshot, _)| snapshot)
    }

    /// Changes a file. `decide` sees what stands there now and says what should; nobody else
    /// changes the file through zero in between. `still_wanted` is asked once more at the last
    /// moment, so that a cancelled call changes nothing.
    pub fn change(
        &self,
        target: &ResolvedPath,
        note: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
        decide: impl FnOnce(&FileSnapshot) -> Result<FileChange, ToolError>,
    ) -> Result<AppliedChange, ToolError> {
        self.change_with_writer(None, target, note, still_wanted, decide)
    }

    /// The same, where somebody else puts the new bytes there. What they do not take is written as
    /// ever, and so is a file whose folder is not there yet; what they refuse is not.
    pub fn change_with_writer(
        &self,
        hand: Option<ExternalWriter<'_>>,
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
            hand,
            still_wanted,
        )
    }

    /// Takes change `id` back.
    pub fn undo(&self, id: u64, conflicts: UndoConflictPolicy) -> Result<AppliedChange, ToolError> {
        let record = self.shelf.read_record(id)?;
        let target = self.resolve_target(&record.path.to_path())?;
        let always = || Ok(());
        let _lock = self.lock(target.path(), always)?;
        let (before, stat) = self.take_snapshot(&target)?;
        check_undoable(self.change_state(&record, &before), conflicts, id, target.display_path())?;
        let new = match &record.before {
            RecordedState::Absent => NewFileState::Nothing,
            RecordedState::Symlink { target } => NewFileState::Link { points_at: target.to_path() },
            RecordedState::File { sha256, attributes, .. } => {
                // A file that is still there keeps the mode it has: somebody may have made it private.
                let attributes = if stat.is_some() { None } else { *attributes };
                NewFileState::File { bytes: self.shelf.read_before(id, sha256)?, attributes }
            }
        };
        let note = ChangeOrigin { tool: "undo".to_owned(), call: record.call.clone() };
        let site = PendingChange { target: &target, note: &note, undoes: Some(id), before, stat };
        let applied = self.apply(site, new, None, always)?;
        self.remove_created_folders(&record);
        self.shelf.mark_undone(&record)?;
        Ok(applied)
    }

    /// The newest change that can be undone.
    pub fn newest_undoable(&self) -> Result<Option<JournalEntry>, ToolError> {
        for id in self.shelf.ids()?.into_iter().rev() {
            let entry = self.entry(id)?;
            let standing = matches!(entry.state, ChangeState::Applied | ChangeState::ChangedSince);
            if entry.undoes.is_none() && standing {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// All recorded changes, newest first.
    pub fn list(&self) -> Result<Vec<JournalEntry>, ToolError> {
        self.shelf.ids()?.into_iter().rev().map(|id| self.entry(id)).collect()
    }

    /// One recorded change.
    pub fn entry(&self, id: u64) -> Result<JournalEntry, ToolError> {
        let record = self.shelf.read_record(id)?;
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
            path: self.workspace.display_path(&path),
            action,
            state,
            undoes: record.undoes,
        })
    }

    /// Settles what processes that died in mid-change left behind: temporary files are removed, and
    /// a change that never came to pass is forgotten. Returns how many there were.
    pub fn recover(&self) -> Result<usize, ToolError> {
        let mut settled = 0;
        for id in self.shelf.pending_ids()? {
            let Ok(record) = self.shelf.read_record(id) else {
                // No record: the crash came before the file was touched.
                if self.shelf.is_stale_claim(id) {
                    self.shelf.remove(id);
                    settled += 1;
                }
                continue;
            };
            let Some(_lock) = self.try_lock_abandoned(&record.path.to_path()) else { continue };
            // It may have settled, and its number may mean another change, before the lock was ours.
            // Whoever works on this file holds the lock from before the claim until it settles.
            let is_left_over = || {
                self.shelf
                    .read_record(id)
                    .is_ok_and(|now| now.path == record.path && now.call == record.call)
            };
            if !self.shelf.is_pending(id) || !is_left_over() {
                continue;
            }
            // What cannot be read now is not given up: it may be all there is of what stood there.
            let Ok(is_whole) = self.has_complete_backup(&record) else { continue };
            self.shelf.remove_draft(id);
            if is_whole && self.was_applied(&record) {
                self.shelf.commit(id);
            } else {
                self.remove_created_folders(&record);
                self.shelf.remove(id);
            }
            settled += 1;
        }
        Ok(settled)
    }

    /// Whether all was kept that stood there before; the file is not touched until then.
    fn has_complete_backup(&self, record: &ChangeRecord) -> Result<bool, ToolError> {
        match &record.before {
            RecordedState::File { sha256, .. } => {
                Ok(self.shelf.read_before_if_complete(record.id, sha256)?.is_some())
            }
            RecordedState::Absent | RecordedState::Symlink { .. } => Ok(true),
        }
    }

    /// Whether a change that was cut off by a crash took place; removes what it left beside the
    /// file. A temporary file that is still there was never renamed.
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
        site: PendingChange<'_>,
        new: NewFileState,
        hand: Option<ExternalWriter<'_>>,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<AppliedChange, ToolError> {
        let after = match &new {
            NewFileState::File { bytes, .. } => {
                check_size(site.target.display_path(), bytes.len() as u64, self.file_bytes_max)?;
                RecordedState::from_bytes(bytes)
            }
            NewFileState::Link { points_at } => {
                RecordedState::Symlink { target: points_at.as_path().into() }
            }
            NewFileState::Nothing => RecordedState::Absent,
        };
        if site.stat.is_some() && !matches!(new, NewFileState::Nothing) {
            check_writable(site.target)?;
        }
        let record = self.write_record(&site, after)?;
        let id = record.id;
        let done = still_wanted()
            .and_then(|()| check_unchanged(site.target, site.stat.as_ref()))
            .and_then(|()| match (hand, &new) {
                (Some(hand), NewFileState::File { bytes, .. })
                    if site.target.missing_folders.is_empty() && hand(bytes)? =>
                {
                    Ok(self.await_external_write(&site, record, bytes))
                }
                _ => {
                    write_new_state(&site, id, &new).map(|after| (after, WriteOutcome::AsRequested))
                }
            });
        match done {
            Ok((after, landed)) => {
                self.shelf.commit(id);
                Ok(AppliedChange { id, before: site.before, after, landed })
            }
            Err(error) => {
                self.shelf.remove(id);
                Err(error)
            }
        }
    }

    /// What somebody made of bytes that they took. It is done, whatever is found: nothing here can
    /// fail.
    fn await_external_write(
        &self,
        site: &PendingChange<'_>,
        mut record: ChangeRecord,
        asked: &[u8],
    ) -> (Option<FileFacts>, WriteOutcome) {
        let until = Instant::now() + EXTERNAL_WRITE_MAX;
        let mut last = None;
        loop {
            let now = self.read(site.target).ok();
            let is_last = Instant::now() >= until;
            match &now {
                Some(FileSnapshot::File { bytes, facts, .. }) if bytes == asked => {
                    return (Some(*facts), WriteOutcome::AsRequested);
                }
                // Seen twice, it is not half of what is being written.
                Some(FileSnapshot::File { bytes, facts, .. })
                    if now.as_ref() != Some(&site.before) && (is_last || now == last) =>
                {
                    record.after = RecordedState::from_bytes(bytes);
                    self.shelf.amend(&record, site.before.bytes());
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

    /// Puts what stands there now, and what is about to, safely on disk.
    fn write_record(
        &self,
        site: &PendingChange<'_>,
        after: RecordedState,
    ) -> Result<ChangeRecord, ToolError> {
        let before = site.before.bytes();
        let claim = self.shelf.claim(before.map_or(0, <[u8]>::len) as u64)?;
        let path = site.target.path();
        let made = site.target.missing_folders.len();
        let mut created: Vec<_> = path.ancestors().skip(1).take(made).map(Into::into).collect();
        created.reverse();
        let record = ChangeRecord {
            id: claim.id,
            time: jiff::Timestamp::now().to_string(),
            tool: site.note.tool.clone(),
            call: site.note.call.clone(),
            path: path.into(),
            before: RecordedState::from_snapshot(&site.before, site.stat.as_ref()),
            after,
            created_folders: created,
            undoes: site.undoes,
            pid: std::process::id(),
        };
        self.shelf.store(claim, &record, before)?;
        Ok(record)
    }

    fn resolve_target(&self, path: &Path) -> Result<ResolvedPath, ToolError> {
        let target = self.workspace.resolve_path(path, FinalLinkMode::Keep)?;
        // The journal speaks of canonical paths. One that now leads elsewhere is not that file.
        if target.path() != path {
            let message = format!(
                "`{}` now leads to `{}`; nothing was restored",
                path.display(),
                target.path().display()
            );
            return Err(ToolError::failed(ErrorReason::StaleFile, message));
        }
        Ok(target)
    }

    /// What stands at a target now, and its stat.
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

    /// Waits until nobody else changes the same file through zero, in this process or another.
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
                let message = format!("`{shown}` is being changed by somebody else; try again");
                ToolError::failed(ErrorReason::Busy, message)
            }
        })
    }

    /// The file whose lock whoever changes `path` holds.
    fn lock_file(&self, path: &Path) -> io::Result<File> {
        let bytes = path.as_os_str().as_bytes().iter();
        let sum =
            bytes.fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        self.locks.lock_file(&(sum % LOCK_SHARDS).to_string())
    }

    /// The lock on `path` if nobody holds it: whoever began a change of it is gone.
    fn try_lock_abandoned(&self, path: &Path) -> Option<File> {
        let file = self.lock_file(path).ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    fn change_state(&self, record: &ChangeRecord, now: &FileSnapshot) -> ChangeState {
        if self.shelf.is_undone(record.id) {
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
    site: &PendingChange<'_>,
    id: u64,
    new: &NewFileState,
) -> Result<Option<FileFacts>, ToolError> {
    let temp = temp_name(std::process::id(), id);
    let mut replacement = FileReplacement {
        target: site.target,
        temp: &temp,
        old: site.stat.as_ref(),
        attributes: None,
    };
    match new {
        NewFileState::File { bytes, attributes } => {
            replacement.attributes = *attributes;
            replacement.write(bytes).map(Some)
        }
        NewFileState::Link { points_at } => replacement.write_link(points_at).map(|()| None),
        NewFileState::Nothing => remove(site.target).map(|()| None),
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
                "`{shown}` was changed again after change {id}; undo the later changes first, or restore it all the same"
            );
            Err(ToolError::new(ErrorType::PermissionDenied, ErrorReason::StaleFile, message)
                .with_detail("id", id))
        }
        (ChangeState::NotApplied | ChangeState::Undone, _) => {
            let message =
                format!("change {id} of `{shown}` is not in force any more; nothing was done");
            Err(ToolError::invalid(ErrorReason::NoChange, message).with_detail("id", id))
        }
    }
}

/// The process is part of the name because two workspaces, each with a journal of its own, may
/// change files in one folder.
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
    // A file that grows while it is read is caught by its size, not by running out of memory.
    file.take(max.get() + 1).read_to_end(&mut bytes).map_err(failed)?;
    check_size(shown, bytes.len() as u64, max)?;
    Ok(bytes)
}
