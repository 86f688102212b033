//! Moves committed changes from the write-ahead log into the file, on a separate thread.
//!
//! A checkpoint takes time. By default SQLite runs it on the writer, which blocks all writes
//! meanwhile. Here the writer does it only if the log became long anyway, and then little is left
//! to move.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::database_error::DatabaseError;
use super::database_file::{self, ConnectionAccess};
use crate::store::StoreError;

/// Number of changes between two checkpoints.
const CHECKPOINT_CHANGES: u64 = 1_000;
/// First interval for a new file, which doubles up to [`CHECKPOINT_CHANGES`]. A checkpoint syncs the
/// data and the new file itself to the disk. A concurrent write may prevent the first attempt. The
/// value is larger than the number of changes of an empty session.
const FIRST_CHECKPOINT_CHANGES: u64 = 16;

/// Handle to the thread, which ends when this is dropped.
pub(super) struct Checkpointer {
    /// `None` only during drop.
    trigger: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Number of changes at which the next checkpoint is requested.
    next: u64,
    /// Interval to the following checkpoint, in changes.
    step: u64,
    /// Whether the file itself, and not only its log, may not be on the disk yet.
    is_unsynced: bool,
}

impl Checkpointer {
    /// Starts the thread, which opens its own connection on first use.
    pub(super) fn start(path: &Arc<Path>, is_new: bool) -> Result<Self, StoreError> {
        // One pending request is enough, since a checkpoint moves everything.
        let (wanted, waiting) = sync_channel(1);
        let file = Arc::clone(path);
        let thread = std::thread::Builder::new()
            .name("zero-checkpoint".to_owned())
            .spawn(move || run_checkpoints(&waiting, &file))
            .map_err(|error| StoreError::Broken { verb: "open", why: error.to_string() })?;
        let next = if is_new { FIRST_CHECKPOINT_CHANGES } else { CHECKPOINT_CHANGES };
        Ok(Self {
            trigger: Some(wanted),
            thread: Some(thread),
            next,
            step: next,
            is_unsynced: is_new,
        })
    }

    /// Flushes a new file to the disk after its first durable commit: the log alone cannot restore
    /// it. A reader may be in the way; then the next durable commit tries again.
    pub(super) fn sync_new_file(&mut self, connection: &Connection) {
        if self.is_unsynced {
            let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                Ok(row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
            });
            self.is_unsynced = !moved.unwrap_or(false);
        }
    }

    /// Records a commit, given the total number of changes of its connection.
    pub(super) fn note_commit(&mut self, changes: u64) {
        if changes >= self.next
            && let Some(trigger) = &self.trigger
        {
            self.step = self.step.saturating_mul(2).min(CHECKPOINT_CHANGES);
            self.next = changes.saturating_add(self.step);
            // If a request is already pending, it covers these changes too.
            let _ = trigger.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.trigger = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread needs no handling here.
            let _ = thread.join();
        }
    }
}

fn run_checkpoints(trigger: &Receiver<()>, path: &Path) {
    let mut connection = None;
    while trigger.recv().is_ok() {
        if let Err(failure) = checkpoint_log(&mut connection, path) {
            let error = failure.into_store_error("tidy", path);
            tracing::warn!(%error, "the log could not be moved into the file");
        }
    }
}

/// Moves the log into the file, for a caller that makes it grow by few large changes.
pub(super) fn move_log(path: &Path) -> Result<(), DatabaseError> {
    checkpoint_log(&mut None, path)
}

fn checkpoint_log(connection: &mut Option<Connection>, path: &Path) -> Result<(), DatabaseError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(database_file::connect(path, ConnectionAccess::Write)?),
    };
    // A passive checkpoint does not wait for readers or writers; pages that it cannot move stay in
    // the log.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_new: bool, rows: u64, is_moved: bool) {
        let folder = tempfile::tempdir().unwrap();
        let opened = database_file::open(&folder.path().join("x.sqlite")).unwrap();
        let (path, writer): (Arc<Path>, _) = (opened.path.into(), opened.writer);
        writer.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let size = || path.metadata().unwrap().len();
        let before = size();
        let mut checkpoints = Checkpointer::start(&path, is_new).unwrap();
        for n in 0..rows {
            writer.execute("INSERT INTO t VALUES (?)", [n.cast_signed()]).unwrap();
            checkpoints.note_commit(writer.total_changes());
        }
        // The thread handles the pending request before it ends.
        drop(checkpoints);
        assert_eq!(size() > before, is_moved, "{is_new} {rows}");
    }

    #[test]
    fn checkpoint_runs_only_after_many_changes() {
        check(false, CHECKPOINT_CHANGES + 10, true);
        check(false, CHECKPOINT_CHANGES - 10, false);
    }

    #[test]
    fn new_file_is_moved_to_disk_at_first_durable_commit() {
        for is_new in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let opened = database_file::open(&folder.path().join("x.sqlite")).unwrap();
            let (path, writer): (Arc<Path>, _) = (opened.path.into(), opened.writer);
            writer.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
            let size = || path.metadata().unwrap().len();
            let before = size();
            let mut checkpoints = Checkpointer::start(&path, is_new).unwrap();
            checkpoints.sync_new_file(&writer);
            assert_eq!(size() > before, is_new);
            let before = size();
            writer.execute_batch("CREATE TABLE u (n INTEGER)").unwrap();
            checkpoints.sync_new_file(&writer);
            assert_eq!(size(), before, "once");
        }
    }

    #[test]
    fn new_file_is_checkpointed_early() {
        check(true, FIRST_CHECKPOINT_CHANGES, true);
        check(true, FIRST_CHECKPOINT_CHANGES - 1, false);
    }
}
