//! The one way to change a file, and the way back.
//!
//! A change is: lock, look, decide, journal, write beside, flush, rename, flush. What was there
//! before is safe on disk before the first byte of the new state is visible, so a crash at any
//! point leaves the file either old or new, and [`Journal::undo`] can restore the old one. Since
//! there is no other way to write, nothing can forget the journal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zero_core::{ByteSize, ErrorType, Reason, ToolError};

use crate::file_error;
use crate::located::{FileFacts, FileType, Located};
use crate::metadata::{self, Attributes};
use crate::state_dir::StateDir;
use crate::workspace::{LastLink, Workspace};

/// Changes kept per workspace.
const ENTRIES_MAX: usize = 1_000;
/// Bytes of earlier states kept per workspace.
const KEPT_BYTES_MAX: ByteSize = ByteSize::megabytes(500);
/// How long a lock on a file is waited for.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two tries at a lock.
const LOCK_POLL: Duration = Duration::from_millis(2);
/// Lock files; files whose names fall together only wait for each other now and then.
const LOCK_SHARDS: u8 = 64;

/// What stands, or stood, at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// Nothing.
    Absent,
    /// An ordinary file.
    File {
        /// All of its bytes.
        bytes: Vec<u8>,
        /// What was known of it when they were read.
        facts: FileFacts,
    },
    /// A link.
    Symlink {
        /// What it points at, as written in it.
        target: PathBuf,
    },
}

/// What should become of a file.
#[derive(Debug)]
pub enum Change {
    /// It holds these bytes from now on.
    Replace(Vec<u8>),
    /// It is gone.
    Remove,
}

/// Who changed a file, for the journal.
#[derive(Clone, Debug)]
pub struct ChangeNote {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call: String,
}

/// What a change did.
#[derive(Debug)]
pub struct Applied {
    /// Names the change for [`Journal::undo`].
    pub id: u64,
    /// What stood there before.
    pub before: Snapshot,
    /// What is known of the file now; `None` when it was removed.
    pub after: Option<FileFacts>,
}

/// One side of a recorded change, without the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Side {
    Absent,
    File { bytes: u64, sha256: String, attributes: Option<Attributes> },
    Symlink { target: PortablePath },
}

/// A path in JSON: text where it is text, bytes where it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum PortablePath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for PortablePath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl PortablePath {
    fn to_path(&self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            Self::Bytes(bytes) => PathBuf::from(OsStr::from_bytes(bytes)),
        }
    }
}

/// A change as the journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    id: u64,
    time: String,
    tool: String,
    call: String,
    path: PortablePath,
    before: Side,
    after: Side,
    /// Folders that were made for the file, outermost first.
    created_folders: Vec<PortablePath>,
    /// Set when this change took back another one.
    undoes: Option<u64>,
    /// The process at work, so that what a crash left over can be told from what is under way.
    pid: u32,
}

/// What has become of a recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
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
pub struct Entry {
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
    pub state: EntryState,
    /// Set when this change took back another one.
    pub undoes: Option<u64>,
}

/// Whether an undo may overwrite what was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Refuse.
    Refuse,
    /// Restore all the same; the state lost is journaled in its turn.
    Overwrite,
}

/// The recorded changes of one workspace.
#[derive(Clone, Debug)]
pub struct Journal {
    workspace: Workspace,
    entries: StateDir,
    locks: StateDir,
    file_bytes_max: ByteSize,
}

impl Journal {
    /// The journal of `workspace`, kept under `state`.
    pub fn new(state: &StateDir, workspace: Workspace, file_bytes_max: ByteSize) -> Self {
        let key = sha256(workspace.cwd().as_os_str().as_bytes());
        let entries = state.child("journal").child(&key[..16]);
        Self { workspace, entries, locks: state.child("locks"), file_bytes_max }
    }

    /// Reads a file whole, within the size limit.
    pub fn read(&self, target: &Located) -> Result<Snapshot, ToolError> {
        self.snapshot(target).map(|(snapshot, _)| snapshot)
    }

    /// Changes a file. `decide` sees what stands there now and says what should; nobody else
    /// changes the file through zero in between. `still_wanted` is asked once more at the last
    /// moment, so that a cancelled call changes nothing.
    pub fn change(
        &self,
        target: &Located,
        note: &ChangeNote,
        still_wanted: impl Fn() -> Result<(), ToolError>,
        decide: impl FnOnce(&Snapshot) -> Result<Change, ToolError>,
    ) -> Result<Applied, ToolError> {
        let _lock = self.lock(target.path(), &still_wanted)?;
        let (before, stat) = self.snapshot(target)?;
        let change = decide(&before)?;
        self.apply(target, note, None, still_wanted, before, stat, change)
    }

    /// Takes change `id` back.
    pub fn undo(&self, id: u64, conflicts: Conflicts) -> Result<Applied, ToolError> {
        let record = self.record(id)?;
        let path = record.path.to_path();
        let target = self.target_of(&path)?;
        let always = || Ok(());
        let _lock = self.lock(target.path(), &always)?;
        let (now, stat) = self.snapshot(&target)?;
        match self.state_of(&record, &now) {
            EntryState::Applied => {}
            EntryState::ChangedSince if conflicts == Conflicts::Overwrite => {}
            EntryState::ChangedSince => {
                let message = format!(
                    "`{}` was changed again after change {id}; undo the later changes first, or pass --yes to restore it all the same",
                    target.shown()
                );
                return Err(ToolError::new(
                    ErrorType::PermissionDenied,
                    Reason::StaleFile,
                    message,
                )
                .with("id", id));
            }
            EntryState::NotApplied | EntryState::Undone => {
                let message =
                    format!("`{}` is already as it was before change {id}", target.shown());
                return Err(ToolError::invalid(Reason::NoChange, message).with("id", id));
            }
        }
        let note = ChangeNote { tool: "undo".to_owned(), call: record.call.clone() };
        let applied = match &record.before {
            Side::Absent => {
                self.apply(&target, &note, Some(id), always, now, stat, Change::Remove)?
            }
            Side::File { sha256: expected, attributes, .. } => {
                let bytes = self.blob(id, expected)?;
                let applied = self.apply(
                    &target,
                    &note,
                    Some(id),
                    always,
                    now,
                    stat,
                    Change::Replace(bytes),
                )?;
                if let Some(attributes) = attributes {
                    restore_attributes(&target, *attributes)?;
                }
                applied
            }
            Side::Symlink { target: points_at } => {
                self.restore_link(&target, &note, id, now, &points_at.to_path())?
            }
        };
        for folder in record.created_folders.iter().rev() {
            // A folder that is in use by now stays; that is what rmdir checks.
            if let Ok(folder) = self.target_of(&folder.to_path()) {
                let _ = rustix::fs::unlinkat(folder.folder(), &folder.name, AtFlags::REMOVEDIR);
            }
        }
        self.mark_undone(&record)?;
        Ok(applied)
    }

    /// The newest change that can be undone.
    pub fn newest(&self) -> Result<Option<Entry>, ToolError> {
        for id in self.ids()?.into_iter().rev() {
            let entry = self.entry(id)?;
            if entry.undoes.is_none()
                && matches!(entry.state, EntryState::Applied | EntryState::ChangedSince)
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// All recorded changes, newest first.
    pub fn list(&self) -> Result<Vec<Entry>, ToolError> {
        self.ids()?.into_iter().rev().map(|id| self.entry(id)).collect()
    }

    /// One recorded change.
    pub fn entry(&self, id: u64) -> Result<Entry, ToolError> {
        let record = self.record(id)?;
        let path = record.path.to_path();
        let state = match self.target_of(&path).and_then(|target| self.snapshot(&target)) {
            Ok((now, _)) => self.state_of(&record, &now),
            Err(_) => EntryState::ChangedSince,
        };
        let action = match (&record.before, &record.after) {
            (Side::Absent, _) => "create",
            (_, Side::Absent) => "remove",
            _ => "change",
        };
        Ok(Entry {
            id,
            time: record.time,
            tool: record.tool,
            call: record.call,
            path: self.workspace.shown(&path),
            action,
            state,
            undoes: record.undoes,
        })
    }

    /// Removes what a process that died in mid-change left behind: temporary files beside their
    /// targets and half-written records. Returns how many.
    pub fn recover(&self) -> Result<usize, ToolError> {
        let mut removed = 0;
        for name in self.entries.names().map_err(|e| self.journal_error("list", &e))? {
            let Some(id) = name.strip_suffix(".pending").and_then(|id| id.parse().ok()) else {
                continue;
            };
            match self.record(id) {
                Ok(record) if process_is_alive(record.pid) => continue,
                Ok(record) => {
                    if let Ok(target) = self.target_of(&record.path.to_path()) {
                        let _ = rustix::fs::unlinkat(
                            target.folder(),
                            temp_name(record.pid, id),
                            AtFlags::empty(),
                        );
                    }
                }
                // No record: the crash came before the file was touched.
                Err(_)
                    if self.entries.age(&name).is_ok_and(|age| age < Duration::from_secs(60)) =>
                {
                    continue;
                }
                Err(_) => {
                    let _ = self.entries.remove(&format!("{id}.before"));
                }
            }
            let _ = self.entries.remove(&name);
            removed += 1;
        }
        Ok(removed)
    }

    fn target_of(&self, path: &Path) -> Result<Located, ToolError> {
        let Some(text) = path.to_str() else {
            let message = format!("`{}` has a name that is not text", path.display());
            return Err(ToolError::invalid(Reason::BadPath, message));
        };
        let target = self.workspace.locate(text, LastLink::Keep)?;
        // The journal speaks of canonical paths. One that now leads elsewhere is not that file.
        if target.path() != path {
            let message = format!(
                "`{text}` now leads to `{}`; nothing was restored",
                target.path().display()
            );
            return Err(ToolError::failed(Reason::StaleFile, message));
        }
        Ok(target)
    }

    /// What stands at a target now, and its stat.
    fn snapshot(&self, target: &Located) -> Result<(Snapshot, Option<Stat>), ToolError> {
        let Some(stat) = target.stat()? else { return Ok((Snapshot::Absent, None)) };
        let facts = FileFacts::of(&stat);
        match facts.file_type {
            FileType::Symlink => {
                let points_at = rustix::fs::readlinkat(target.folder(), &target.name, Vec::new())
                    .map_err(|errno| {
                    file_error::from_errno("read the link", target.shown(), errno)
                })?;
                let points_at = PathBuf::from(OsStr::from_bytes(points_at.as_bytes()));
                Ok((Snapshot::Symlink { target: points_at }, Some(stat)))
            }
            _ => {
                let file = target.open_file()?;
                let bytes = read_whole(file, target.shown(), self.file_bytes_max)?;
                Ok((Snapshot::File { bytes, facts }, Some(stat)))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of a change, private and called twice")]
    fn apply(
        &self,
        target: &Located,
        note: &ChangeNote,
        undoes: Option<u64>,
        still_wanted: impl Fn() -> Result<(), ToolError>,
        before: Snapshot,
        stat: Option<Stat>,
        change: Change,
    ) -> Result<Applied, ToolError> {
        let after_side = match &change {
            Change::Replace(bytes) => {
                check_size(target.shown(), bytes.len() as u64, self.file_bytes_max)?;
                Side::File { bytes: bytes.len() as u64, sha256: sha256(bytes), attributes: None }
            }
            Change::Remove => Side::Absent,
        };
        let pending = self.begin(target, note, undoes, &before, stat.as_ref(), after_side)?;
        let done = still_wanted().and_then(|()| {
            unchanged(target, stat.as_ref())?;
            match &change {
                Change::Replace(bytes) => {
                    self.write(target, pending.id, bytes, stat.as_ref()).map(Some)
                }
                Change::Remove => remove(target).map(|()| None),
            }
        });
        match done {
            Ok(after) => {
                self.settle(pending.id);
                Ok(Applied { id: pending.id, before, after })
            }
            Err(error) => {
                self.forget(target, &pending);
                Err(error)
            }
        }
    }

    /// Puts what stands there now, and what is about to, safely on disk.
    fn begin(
        &self,
        target: &Located,
        note: &ChangeNote,
        undoes: Option<u64>,
        before: &Snapshot,
        stat: Option<&Stat>,
        after: Side,
    ) -> Result<Record, ToolError> {
        let fail = |e: &io::Error| self.journal_error("write", e);
        let id = self.claim_id().map_err(|e| fail(&e))?;
        let mut record = Record {
            id,
            time: jiff::Timestamp::now().to_string(),
            tool: note.tool.clone(),
            call: note.call.clone(),
            path: target.path().into(),
            before: side_of(before, stat),
            after,
            created_folders: Vec::new(),
            undoes,
            pid: std::process::id(),
        };
        let mut folder = target.path().to_owned();
        for _ in &target.missing_folders {
            folder.pop();
            record.created_folders.insert(0, folder.as_path().into());
        }
        let written = (|| {
            if let Snapshot::File { bytes, .. } = before {
                let mut blob = self.entries.create_new(&format!("{id}.before"))?;
                blob.write_all(bytes)?;
                blob.sync_all()?;
            }
            let mut json = self.entries.create_new(&format!("{id}.tmp"))?;
            json.write_all(&serde_json::to_vec(&record)?)?;
            json.sync_all()?;
            self.entries.rename(&format!("{id}.tmp"), &format!("{id}.json"))?;
            self.entries.sync()
        })();
        match written {
            Ok(()) => Ok(record),
            Err(error) => {
                self.forget(target, &record);
                Err(fail(&error))
            }
        }
    }

    /// Takes the next free number by making its `.pending` file, and drops what is too old.
    fn claim_id(&self) -> io::Result<u64> {
        let ids = self.ids_from(&self.entries.names()?);
        let mut kept_bytes = 0;
        for (age, old) in ids.iter().rev().enumerate() {
            kept_bytes += self.entries.size(&format!("{old}.before")).unwrap_or(0);
            if age + 1 >= ENTRIES_MAX || kept_bytes > KEPT_BYTES_MAX.get() {
                self.remove_entry(*old);
            }
        }
        let mut id = ids.last().map_or(1, |last| last + 1);
        loop {
            match self.entries.create_new(&format!("{id}.pending")) {
                Ok(_) => return Ok(id),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => id += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn remove_entry(&self, id: u64) {
        for suffix in ["json", "tmp", "before", "undone", "pending"] {
            let _ = self.entries.remove(&format!("{id}.{suffix}"));
        }
    }

    /// The change is complete: nothing is left to clean up after a crash.
    fn settle(&self, id: u64) {
        // If this fails, recovery finds nothing to remove; the change itself is safe.
        let _ = self.entries.remove(&format!("{id}.pending"));
    }

    /// The change did not happen: leaves no trace of it.
    fn forget(&self, target: &Located, record: &Record) {
        let _ = rustix::fs::unlinkat(
            target.folder(),
            temp_name(record.pid, record.id),
            AtFlags::empty(),
        );
        self.remove_entry(record.id);
    }

    fn write(
        &self,
        target: &Located,
        id: u64,
        bytes: &[u8],
        old: Option<&Stat>,
    ) -> Result<FileFacts, ToolError> {
        let fail = |errno: Errno| file_error::from_errno("write", target.shown(), errno);
        let fail_io = |e: &io::Error| file_error::from_io("write", target.shown(), e);
        let made;
        let folder = if target.missing_folders.is_empty() {
            target.folder()
        } else {
            made = make_folders(target).map_err(fail)?;
            made.as_fd()
        };
        let temp = temp_name(std::process::id(), id);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // 0666 lets the person's umask decide for a new file; an old file's mode is put back below.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let result = (|| {
            let mut file: File =
                rustix::fs::openat(folder, &temp, flags, Mode::from_raw_mode(mode))
                    .map_err(fail)?
                    .into();
            file.write_all(bytes).map_err(|e| fail_io(&e))?;
            if let Some(old) = old {
                let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                if let Ok(original) = rustix::fs::openat(folder, &target.name, read, Mode::empty())
                {
                    metadata::copy_xattrs(original, &file);
                }
                Attributes::of(old).apply(&file).map_err(fail)?;
            }
            file.sync_all().map_err(|e| fail_io(&e))?;
            verify(&mut file, bytes).map_err(|e| fail_io(&e))?;
            unchanged(target, old)?;
            // A new file never replaces one that somebody else made meanwhile.
            let how = if old.is_some() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            rename(folder, &temp, &target.name, how).map_err(fail)?;
            sync_folder(folder).map_err(fail)?;
            FileFacts::of_file(&file).map_err(|e| fail_io(&e))
        })();
        if result.is_err() {
            let _ = rustix::fs::unlinkat(folder, &temp, AtFlags::empty());
            remove_made_folders(target);
        }
        result
    }

    fn restore_link(
        &self,
        target: &Located,
        note: &ChangeNote,
        id: u64,
        now: Snapshot,
        points_at: &Path,
    ) -> Result<Applied, ToolError> {
        let after = Side::Symlink { target: points_at.into() };
        let stat = target.stat()?;
        let record = self.begin(target, note, Some(id), &now, stat.as_ref(), after)?;
        let temp = temp_name(record.pid, record.id);
        let restored = rustix::fs::symlinkat(points_at, target.folder(), &temp)
            .and_then(|()| {
                rustix::fs::renameat(target.folder(), &temp, target.folder(), &target.name)
            })
            .and_then(|()| sync_folder(target.folder()));
        match restored {
            Ok(()) => {
                self.settle(record.id);
                Ok(Applied { id: record.id, before: now, after: None })
            }
            Err(errno) => {
                self.forget(target, &record);
                Err(file_error::from_errno("restore the link", target.shown(), errno))
            }
        }
    }

    /// Waits until nobody else changes the same file through zero, in this process or another.
    fn lock(
        &self,
        path: &Path,
        still_wanted: &impl Fn() -> Result<(), ToolError>,
    ) -> Result<File, ToolError> {
        let shard = Sha256::digest(path.as_os_str().as_bytes())[0] % LOCK_SHARDS;
        let lock =
            self.locks.lock_file(&shard.to_string()).map_err(|e| self.journal_error("lock", &e))?;
        let mut waited = Duration::ZERO;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(std::fs::TryLockError::WouldBlock) if waited < LOCK_WAIT_MAX => {
                    still_wanted()?;
                    std::thread::sleep(LOCK_POLL);
                    waited += LOCK_POLL;
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    let message = format!(
                        "`{}` is being changed by somebody else; try again",
                        path.display()
                    );
                    return Err(ToolError::failed(Reason::Transient, message));
                }
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(self.journal_error("lock", &error));
                }
            }
        }
    }

    fn ids(&self) -> Result<Vec<u64>, ToolError> {
        let names = self.entries.names().map_err(|e| self.journal_error("list", &e))?;
        Ok(self.ids_from(&names))
    }

    fn ids_from(&self, names: &[String]) -> Vec<u64> {
        let mut ids: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }

    fn record(&self, id: u64) -> Result<Record, ToolError> {
        let mut text = String::new();
        let read =
            self.entries.open(&format!("{id}.json")).and_then(|mut f| f.read_to_string(&mut text));
        match read {
            Ok(_) => serde_json::from_str(&text).map_err(|error| {
                ToolError::failed(
                    Reason::Io,
                    format!("change {id} in the journal is damaged: {error}"),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "there is no change {id} in the journal; `zero undo --list` shows them"
                );
                Err(ToolError::not_found(Reason::Io, message).with("id", id))
            }
            Err(error) => Err(self.journal_error("read", &error)),
        }
    }

    /// The bytes that stood there before change `id`, checked.
    fn blob(&self, id: u64, expected: &str) -> Result<Vec<u8>, ToolError> {
        let mut bytes = Vec::new();
        self.entries
            .open(&format!("{id}.before"))
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|e| self.journal_error("read", &e))?;
        if sha256(&bytes) != expected {
            let message =
                format!("what the journal kept for change {id} is damaged; nothing was restored");
            return Err(ToolError::failed(Reason::Io, message));
        }
        Ok(bytes)
    }

    fn state_of(&self, record: &Record, now: &Snapshot) -> EntryState {
        if self.entries.age(&format!("{}.undone", record.id)).is_ok() {
            return EntryState::Undone;
        }
        if same(&record.after, now) {
            EntryState::Applied
        } else if same(&record.before, now) {
            EntryState::NotApplied
        } else {
            EntryState::ChangedSince
        }
    }

    /// Remembers that a change was undone, so that the next undo goes one further back. Undoing an
    /// undo brings the first change back to life.
    fn mark_undone(&self, record: &Record) -> Result<(), ToolError> {
        let fail = |e: io::Error| self.journal_error("write", &e);
        if let Some(revived) = record.undoes {
            self.entries.remove(&format!("{revived}.undone")).map_err(fail)?;
        }
        match self.entries.create_new(&format!("{}.undone", record.id)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(fail(error)),
            _ => Ok(()),
        }
    }

    fn journal_error(&self, verb: &str, source: &io::Error) -> ToolError {
        let path = self.entries.path().display().to_string();
        file_error::from_io(&format!("{verb} the journal in"), &path, source)
    }
}

/// SHA-256 in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The process is part of the name because two workspaces, each with a journal of its own, may
/// change files in one folder.
fn temp_name(pid: u32, id: u64) -> String {
    format!(".zero-{pid}-{id}.tmp")
}

fn side_of(snapshot: &Snapshot, stat: Option<&Stat>) -> Side {
    match snapshot {
        Snapshot::Absent => Side::Absent,
        Snapshot::File { bytes, .. } => Side::File {
            bytes: bytes.len() as u64,
            sha256: sha256(bytes),
            attributes: stat.map(Attributes::of),
        },
        Snapshot::Symlink { target } => Side::Symlink { target: target.as_path().into() },
    }
}

fn same(side: &Side, now: &Snapshot) -> bool {
    match (side, now) {
        (Side::Absent, Snapshot::Absent) => true,
        (Side::File { bytes: size, sha256: hash, .. }, Snapshot::File { bytes, .. }) => {
            *size == bytes.len() as u64 && *hash == sha256(bytes)
        }
        (Side::Symlink { target: a }, Snapshot::Symlink { target: b }) => a.to_path() == *b,
        _ => false,
    }
}

fn check_size(shown: &str, size: u64, max: ByteSize) -> Result<(), ToolError> {
    if size <= max.get() {
        return Ok(());
    }
    let message =
        format!("`{shown}` has {}; files over {max} are not changed", ByteSize::bytes(size));
    Err(ToolError::invalid(Reason::TooLarge, message).with("file", shown))
}

fn read_whole(file: File, shown: &str, max: ByteSize) -> Result<Vec<u8>, ToolError> {
    let fail = |e: io::Error| file_error::from_io("read", shown, &e);
    check_size(shown, FileFacts::of_file(&file).map_err(fail)?.size, max)?;
    let mut bytes = Vec::new();
    // A file that grows while it is read is caught by its size, not by running out of memory.
    file.take(max.get() + 1).read_to_end(&mut bytes).map_err(fail)?;
    check_size(shown, bytes.len() as u64, max)?;
    Ok(bytes)
}

/// Fails when the file is not the one that was decided about.
fn unchanged(target: &Located, seen: Option<&Stat>) -> Result<(), ToolError> {
    let now = target.stat()?;
    if now.as_ref().map(FileFacts::of) == seen.map(FileFacts::of) {
        return Ok(());
    }
    let message =
        format!("`{}` was changed by somebody else in this moment; read it again", target.shown());
    Err(ToolError::failed(Reason::StaleFile, message).with("file", target.shown()))
}

/// Reads back what was written: a disk that lies is noticed before the old file is given up.
fn verify(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    use std::io::Seek;
    file.rewind()?;
    let mut chunk = [0_u8; 64 * 1024];
    let mut rest = bytes;
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 && rest.is_empty() {
            return Ok(());
        }
        if count == 0 || rest.len() < count || rest[..count] != chunk[..count] {
            return Err(io::Error::other("what was written did not read back the same"));
        }
        rest = &rest[count..];
    }
}

/// Renames within a folder. A file system that knows no flags gets a plain rename.
fn rename(folder: BorrowedFd<'_>, from: &str, to: &OsStr, how: RenameFlags) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, how) {
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(folder, from, folder, to),
        renamed => renamed,
    }
}

fn remove(target: &Located) -> Result<(), ToolError> {
    rustix::fs::unlinkat(target.folder(), &target.name, AtFlags::empty())
        .and_then(|()| sync_folder(target.folder()))
        .map_err(|errno| file_error::from_errno("remove", target.shown(), errno))
}

/// Makes the folders a new file needs, each beneath the one before, and returns the innermost.
fn make_folders(target: &Located) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(target.folder(), ".", flags, Mode::empty())?;
    for name in &target.missing_folders {
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Takes back the folders of a write that failed; one that is in use by now stays.
fn remove_made_folders(target: &Located) {
    for depth in (1..=target.missing_folders.len()).rev() {
        let folder: PathBuf = target.missing_folders[..depth].iter().collect();
        let _ = rustix::fs::unlinkat(target.folder(), folder, AtFlags::REMOVEDIR);
    }
}

fn restore_attributes(target: &Located, attributes: Attributes) -> Result<(), ToolError> {
    let file = target.open_file()?;
    attributes
        .apply(&file)
        .map_err(|errno| file_error::from_errno("restore the mode of", target.shown(), errno))
}

fn sync_folder(folder: impl AsFd) -> Result<(), Errno> {
    // The handle may be a mere reference; syncing needs one that can be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    rustix::fs::fsync(readable)
}

fn process_is_alive(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}
