//! Moves what was committed from the log into the file, beside the thread that writes.
//!
//! That takes a disk its time: a writer that does it itself, as SQLite has it do, keeps everybody
//! waiting meanwhile. Here it only has to when the log became long all the same, and then little is
//! left to be moved.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::database_error::DatabaseError;
use super::database_file::{self, ConnectionAccess};
use crate::store::StoreError;

/// Changes after which what was committed is moved.
const CHECKPOINT_CHANGES: u64 = 1_000;
/// The same for a new file at first, and twice as many each time after: what is moved is on the disk for
/// certain, and so is the file itself from then on. Whoever writes meanwhile may keep that from a first
/// try. More than an empty session takes.
const FIRST_CHECKPOINT_CHANGES: u64 = 16;

/// The way to the thread, which ends when this is dropped.
pub(super) struct Checkpointer {
    /// Gone only while this is dropped.
    wanted: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Changes that will have been made by the time it is next wanted.
    next: u64,
    /// Changes from there to the time after that.
    step: u64,
}

impl Checkpointer {
    /// Starts the thread, which makes a connection of its own when it is first wanted.
    pub(super) fn start(path: &Arc<Path>, is_new: bool) -> Result<Self, StoreError> {
        // One that waits is enough: it moves all there is.
        let (wanted, waiting) = sync_channel(1);
        let file = Arc::clone(path);
        let thread = std::thread::Builder::new()
            .name("zero-checkpoint".to_owned())
            .spawn(move || run_checkpoints(&waiting, &file))
            .map_err(|error| StoreError::Broken { verb: "open", why: error.to_string() })?;
        let next = if is_new { FIRST_CHECKPOINT_CHANGES } else { CHECKPOINT_CHANGES };
        Ok(Self { wanted: Some(wanted), thread: Some(thread), next, step: next })
    }

    /// Takes note of a commit, by the changes its connection has made in all.
    pub(super) fn note_commit(&mut self, changes: u64) {
        if changes >= self.next
            && let Some(wanted) = &self.wanted
        {
            self.step = self.step.saturating_mul(2).min(CHECKPOINT_CHANGES);
            self.next = changes.saturating_add(self.step);
            // When one waits already, it sees these too.
            let _ = wanted.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // It panicked or it did not; nobody is left to be told.
            let _ = thread.join();
        }
    }
}

fn run_checkpoints(wanted: &Receiver<()>, path: &Path) {
    let mut connection = None;
    while wanted.recv().is_ok() {
        if let Err(failure) = checkpoint_log(&mut connection, path) {
            let error = failure.into_store_error("tidy", path);
            tracing::warn!(%error, "the log could not be moved into the file");
        }
    }
}

fn checkpoint_log(connection: &mut Option<Connection>, path: &Path) -> Result<(), DatabaseError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(database_file::connect(path, ConnectionAccess::Write)?),
    };
    // Passive: it waits for nobody, and what it could not move stays in the log.
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
        // Does first what is wanted.
        drop(checkpoints);
        assert_eq!(size() > before, is_moved, "{is_new} {rows}");
    }

    #[test]
    fn checkpoint_runs_only_after_many_changes() {
        check(false, CHECKPOINT_CHANGES + 10, true);
        check(false, CHECKPOINT_CHANGES - 10, false);
    }

    #[test]
    fn new_file_is_checkpointed_early() {
        check(true, FIRST_CHECKPOINT_CHANGES, true);
        check(true, FIRST_CHECKPOINT_CHANGES - 1, false);
    }
}
