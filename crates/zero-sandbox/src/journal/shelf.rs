//! Where records and earlier states lie: numbered files in zero's own folder.
//!
//! A change `N` is `N.json` (the record), `N.before` (the bytes that stood there), `N.undone` once
//! it was taken back, and `N.pending` while it is under way. `N.pending` is made first, which
//! claims the number, and removed last; what is still there after a crash shows where to clean up.

use std::io::{self, Read, Write};
use std::time::Duration;

use zero_core::{ByteSize, Reason, ToolError};

use super::record::{Record, sha256};
use crate::file_error;
use crate::lock::{self, LockFailure};
use crate::state_dir::StateDir;

/// Changes kept per workspace.
const ENTRIES_MAX: usize = 1_000;
/// Bytes of earlier states kept per workspace.
const KEPT_BYTES_MAX: ByteSize = ByteSize::megabytes(500);
/// Age at which a number that was claimed without a record is taken to be left over.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(60);

/// Where records and earlier states lie.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    dir: StateDir,
}

impl Shelf {
    pub(super) fn new(dir: StateDir) -> Self {
        Self { dir }
    }

    /// Numbers of the recorded changes, oldest first.
    pub(super) fn ids(&self) -> Result<Vec<u64>, ToolError> {
        self.numbers(".json").map_err(|error| self.failed("list", &error))
    }

    /// Takes the next free number, and drops what is too old or too much. One process at a time: a
    /// number must not be taken between another's claim and its record.
    pub(super) fn claim(&self) -> Result<u64, ToolError> {
        let failed = |error: &io::Error| self.failed("write", error);
        let lock = self.dir.lock_file("lock").map_err(|error| failed(&error))?;
        let _held = lock::wait(lock, || Ok(())).map_err(|failure| match failure {
            LockFailure::System(error) => failed(&error),
            LockFailure::Held | LockFailure::NotWanted(_) => {
                ToolError::failed(Reason::Busy, "the journal is in use by somebody else; try again")
            }
        })?;
        self.try_claim().map_err(|error| failed(&error))
    }

    fn try_claim(&self) -> io::Result<u64> {
        // In this order: a change that settles in between has its record by the second look.
        let claimed = self.numbers(".pending")?;
        let ids = self.numbers(".json")?;
        let mut kept_bytes = 0;
        for (age, id) in ids.iter().rev().enumerate() {
            kept_bytes += self.dir.size(&format!("{id}.before")).unwrap_or(0);
            if age + 1 >= ENTRIES_MAX || kept_bytes > KEPT_BYTES_MAX.get() {
                self.forget(*id);
            }
        }
        let id = ids.last().max(claimed.last()).map_or(1, |last| last + 1);
        self.dir.create_new(&format!("{id}.pending"))?;
        Ok(id)
    }

    /// Puts a record and the bytes that stood there safely on disk.
    pub(super) fn keep(&self, record: &Record, before: Option<&[u8]>) -> Result<(), ToolError> {
        self.try_keep(record, before).map_err(|error| {
            self.forget(record.id);
            self.failed("write", &error)
        })
    }

    fn try_keep(&self, record: &Record, before: Option<&[u8]>) -> io::Result<()> {
        let id = record.id;
        if let Some(bytes) = before {
            let mut blob = self.dir.create_new(&format!("{id}.before"))?;
            blob.write_all(bytes)?;
            blob.sync_all()?;
        }
        self.write_record(record)
    }

    fn write_record(&self, record: &Record) -> io::Result<()> {
        let id = record.id;
        let mut json = self.dir.create_new(&format!("{id}.tmp"))?;
        json.write_all(&serde_json::to_vec(record)?)?;
        json.sync_all()?;
        self.dir.rename(&format!("{id}.tmp"), &format!("{id}.json"))?;
        self.dir.sync()
    }

    /// Corrects a record of a change under way.
    pub(super) fn amend(&self, record: &Record) {
        // If this fails, it says what was meant, and whoever undoes it is told that something else
        // stands there.
        let _ = self.write_record(record);
    }

    /// The change is complete: nothing is left to clean up after a crash.
    pub(super) fn settle(&self, id: u64) {
        // If this fails, recovery finds nothing to remove; the change itself is safe.
        let _ = self.dir.remove(&format!("{id}.pending"));
    }

    /// Leaves no trace of a change.
    pub(super) fn forget(&self, id: u64) {
        for suffix in ["json", "tmp", "before", "undone", "pending"] {
            let _ = self.dir.remove(&format!("{id}.{suffix}"));
        }
    }

    /// Numbers claimed by changes that have not settled.
    pub(super) fn pending(&self) -> Result<Vec<u64>, ToolError> {
        self.numbers(".pending").map_err(|error| self.failed("list", &error))
    }

    /// Whether a change has not settled.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.pending")).is_ok()
    }

    /// Whether a number without a record was claimed long ago.
    pub(super) fn is_left_over(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.pending")).is_ok_and(|age| age > CLAIM_AGE_MAX)
    }

    /// One record.
    pub(super) fn record(&self, id: u64) -> Result<Record, ToolError> {
        let mut text = String::new();
        let file = self.dir.open(&format!("{id}.json"));
        match file.and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) => serde_json::from_str(&text).map_err(|error| {
                ToolError::failed(
                    Reason::Io,
                    format!("change {id} in the journal is damaged: {error}"),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("there is no change {id} in the journal");
                Err(ToolError::not_found(Reason::Io, message).with("id", id))
            }
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// The bytes that stood there before change `id`, checked.
    pub(super) fn before(&self, id: u64, expected: &str) -> Result<Vec<u8>, ToolError> {
        let mut bytes = Vec::new();
        let file = self.dir.open(&format!("{id}.before"));
        file.and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|error| self.failed("read", &error))?;
        if sha256(&bytes) != expected {
            let message =
                format!("what the journal kept for change {id} is damaged; nothing was restored");
            return Err(ToolError::failed(Reason::Io, message));
        }
        Ok(bytes)
    }

    pub(super) fn is_undone(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.undone")).is_ok()
    }

    /// Remembers that a change was undone, so that the next undo goes one further back. Undoing an
    /// undo brings the first change back to life.
    pub(super) fn mark_undone(&self, record: &Record) -> Result<(), ToolError> {
        let failed = |error: io::Error| self.failed("write", &error);
        if let Some(revived) = record.undoes {
            self.dir.remove(&format!("{revived}.undone")).map_err(failed)?;
        }
        match self.dir.create_new(&format!("{}.undone", record.id)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(()),
        }
    }

    fn numbers(&self, suffix: &str) -> io::Result<Vec<u64>> {
        let names = self.dir.names()?;
        let mut ids: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(suffix)?.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn failed(&self, verb: &str, source: &io::Error) -> ToolError {
        let path = self.dir.path().display().to_string();
        file_error::from_io(&format!("{verb} the journal in"), &path, source)
    }
}
