//! The single writer thread: commits all queued writes as one transaction.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::checkpoint::Checkpointer;
use super::database_error::DatabaseError;
use crate::store::StoreError;

/// Maximum number of queued writes.
const QUEUE_MAX: usize = 1024;
/// Maximum total size of queued writes, in bytes. A larger one is queued alone.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of writes per transaction.
const GROUP_MAX: usize = 512;
/// Number of writes within [`RUSH_TIME`], from several callers, that counts as a rush. In a rush,
/// larger groups are cheaper, and all callers are served sooner.
const RUSH_WRITES: usize = 64;
const RUSH_TIME: Duration = Duration::from_millis(16);
/// How long the first write of a group waits for others in a rush.
const GATHER_TIME: Duration = Duration::from_millis(2);
/// How long a caller waits for space in the queue.
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(30);
/// Attempts to begin a transaction while another process writes; each attempt waits for SQLite's
/// busy timeout.
const BEGIN_ATTEMPTS_MAX: u32 = 3;

/// Begins a write transaction, which takes the lock immediately.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// Handle to the thread. Dropping it ends the thread after all queued writes.
pub(super) struct WriterThread {
    /// `None` only during drop.
    queue: Option<mpsc::Sender<QueuedJob>>,
    thread: Option<JoinHandle<()>>,
    bytes: Arc<Semaphore>,
    path: Arc<Path>,
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteDurability {
    /// The death of the process.
    Process,
    /// A power cut as well: the log is flushed to the disk.
    Machine,
}

enum QueuedJob {
    Write(QueuedWrite),
    /// A read that waits for no other process, between two transactions.
    Read(Box<dyn FnOnce(&Connection) + Send>),
}

struct QueuedWrite {
    job: Box<dyn WriteJob>,
    durability: WriteDurability,
    _bytes: OwnedSemaphorePermit,
}

impl WriterThread {
    /// Starts the thread. With a write-ahead log it needs a checkpointer.
    pub(super) fn start(
        connection: Connection,
        checkpoints: Option<Checkpointer>,
        path: Arc<Path>,
    ) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let file = Arc::clone(&path);
        let thread = std::thread::Builder::new()
            .name("zero-store".to_owned())
            .spawn(move || run_writer(&connection, checkpoints, waiting, &file))
            .map_err(|error| StoreError::Broken { verb: "open", why: error.to_string() })?;
        let bytes = Arc::new(Semaphore::new(QUEUE_BYTES_MAX));
        Ok(Self { queue: Some(queue), thread: Some(thread), bytes, path })
    }

    /// Runs a write on the thread and returns once it is committed. A write may run again if
    /// another one in its group failed. A refused write must not have changed anything.
    pub(super) async fn write<T, W>(
        &self,
        verb: &'static str,
        bytes: usize,
        work: W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        self.write_with(WriteDurability::Process, verb, bytes, work).await
    }

    /// Like [`Self::write`], with a choice of what the write survives.
    pub(super) async fn write_with<T, W>(
        &self,
        durability: WriteDurability,
        verb: &'static str,
        bytes: usize,
        work: W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(ClosureWriteJob { work, done: None, answer });
        let queue = async {
            let bytes = u32::try_from(bytes.min(QUEUE_BYTES_MAX)).unwrap_or(u32::MAX);
            let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await.ok()?;
            let queued = QueuedJob::Write(QueuedWrite { job, durability, _bytes: bytes });
            self.queue.as_ref()?.send(queued).await.ok()
        };
        let stopped = || StoreError::Broken {
            verb,
            why: "the thread that writes has stopped; start zero again".to_owned(),
        };
        match tokio::time::timeout(QUEUE_WAIT_MAX, queue).await {
            Err(_) => return Err(StoreError::Busy),
            Ok(None) => return Err(stopped()),
            Ok(Some(())) => {}
        }
        let result = answered.await.map_err(|_| stopped())?;
        result.map_err(|failure: DatabaseError| failure.into_store_error(verb, &self.path))
    }

    /// Reads with the writing connection, outside of a transaction; `None` if that fails or the
    /// queue is full.
    pub(super) async fn read_idle<T, R>(&self, read: R) -> Option<T>
    where
        T: Send + 'static,
        R: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = QueuedJob::Read(Box::new(move |connection| {
            // The caller may no longer wait for it.
            let _ = answer.send(read(connection).ok());
        }));
        self.queue.as_ref()?.try_send(job).ok()?;
        answered.await.ok().flatten()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread needs no handling here.
            let _ = thread.join();
        }
    }
}

/// A write with its result type erased.
trait WriteJob: Send {
    /// Runs the write within a transaction. On failure the transaction cannot be committed.
    fn run(&mut self, connection: &Connection) -> Result<(), DatabaseError>;

    /// Sends the result to the caller after the commit.
    fn report_committed(self: Box<Self>);

    /// Sends the failure to the caller.
    fn report_failed(self: Box<Self>, failure: DatabaseError);
}

struct ClosureWriteJob<T, W> {
    work: W,
    done: Option<Result<T, DatabaseError>>,
    answer: oneshot::Sender<Result<T, DatabaseError>>,
}

impl<T, W> WriteJob for ClosureWriteJob<T, W>
where
    T: Send,
    W: Fn(&Connection) -> Result<T, DatabaseError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), DatabaseError> {
        let before = connection.total_changes();
        match (self.work)(connection) {
            // Other writes are not affected, since this one has changed nothing.
            Err(DatabaseError::Refused(error)) if connection.total_changes() == before => {
                self.done = Some(Err(DatabaseError::Refused(error)));
            }
            result => self.done = Some(Ok(result?)),
        }
        Ok(())
    }

    // The caller may no longer wait for the result.
    fn report_committed(self: Box<Self>) {
        if let Some(done) = self.done {
            let _ = self.answer.send(done);
        }
    }

    fn report_failed(self: Box<Self>, failure: DatabaseError) {
        let _ = self.answer.send(Err(failure));
    }
}

/// Processes the queue until all senders are gone.
fn run_writer(
    connection: &Connection,
    mut checkpoints: Option<Checkpointer>,
    mut queue: mpsc::Receiver<QueuedJob>,
    path: &Path,
) {
    let mut pace = ArrivalRate::new(Instant::now());
    while let Some(first) = queue.blocking_recv() {
        let first = match first {
            QueuedJob::Write(first) => first,
            QueuedJob::Read(read) => {
                read(connection);
                continue;
            }
        };
        if pace.is_rush(Instant::now()) {
            std::thread::sleep(GATHER_TIME);
        }
        let mut group = vec![first];
        while group.len() < GROUP_MAX {
            match queue.try_recv() {
                Ok(QueuedJob::Write(next)) => group.push(next),
                Ok(QueuedJob::Read(read)) => read(connection),
                Err(_) => break,
            }
        }
        pace.record_arrivals(group.len());
        let committed = commit(connection, &mut group);
        if let (Ok(()), Some(checkpoints), true) =
            (&committed, &mut checkpoints, is_durable(&group))
        {
            checkpoints.sync_new_file(connection);
        }
        match committed {
            Ok(()) => group.into_iter().for_each(|queued| queued.job.report_committed()),
            Err(failure) => {
                tracing::warn!(file = %path.display(), ?failure, group = group.len(), "sessions could not be written");
                commit_one_by_one(connection, group, failure);
            }
        }
        if let Some(checkpoints) = &mut checkpoints {
            checkpoints.note_commit(connection.total_changes());
        }
    }
}

/// Measures the rate of writes in consecutive intervals; the rate of the last one is known.
struct ArrivalRate {
    since: Instant,
    count: usize,
    groups: usize,
    was_rush: bool,
}

impl ArrivalRate {
    fn new(now: Instant) -> Self {
        Self { since: now, count: 0, groups: 0, was_rush: false }
    }

    /// Records writes that arrived together.
    fn record_arrivals(&mut self, count: usize) {
        self.count = self.count.saturating_add(count);
        self.groups = self.groups.saturating_add(1);
    }

    fn is_rush(&mut self, now: Instant) -> bool {
        let stretch = now.saturating_duration_since(self.since);
        if stretch >= RUSH_TIME {
            // A long interval contains a pause. With a single caller that waits for each result, no
            // other writes would arrive.
            self.was_rush = self.count >= RUSH_WRITES
                && self.count >= self.groups.saturating_mul(2)
                && stretch < RUSH_TIME * 2;
            (self.since, self.count, self.groups) = (now, 0, 0);
        }
        self.was_rush
    }
}

/// A write of the group failed; commits each alone, so that one does not affect the others.
fn commit_one_by_one(connection: &Connection, group: Vec<QueuedWrite>, failure: DatabaseError) {
    let is_alone = group.len() == 1;
    for mut queued in group {
        // If another process holds the lock, waiting again for each write is useless.
        let done = if is_alone || failure.is_busy() {
            Err(failure.clone())
        } else {
            commit(connection, std::slice::from_mut(&mut queued))
        };
        match done {
            Ok(()) => queued.job.report_committed(),
            Err(failure) => queued.job.report_failed(failure),
        }
    }
}

fn is_durable(group: &[QueuedWrite]) -> bool {
    group.iter().any(|queued| queued.durability == WriteDurability::Machine)
}

/// Commits a group as one transaction; on failure nothing was changed.
fn commit(connection: &Connection, group: &mut [QueuedWrite]) -> Result<(), DatabaseError> {
    if !is_durable(group) {
        return commit_group(connection, group);
    }
    // SQLite accepts the change outside of a transaction only.
    roll_back(connection)?;
    execute(connection, "PRAGMA synchronous = FULL")?;
    let done = commit_group(connection, group);
    // Later commits only take longer if this fails.
    let _ = execute(connection, "PRAGMA synchronous = NORMAL");
    done
}

fn commit_group(connection: &Connection, group: &mut [QueuedWrite]) -> Result<(), DatabaseError> {
    begin_transaction(connection)?;
    let done = group
        .iter_mut()
        .try_for_each(|queued| queued.job.run(connection))
        .and_then(|()| execute(connection, "COMMIT"));
    if done.is_err() {
        roll_back(connection)?;
    }
    done
}

fn begin_transaction(connection: &Connection) -> Result<(), DatabaseError> {
    roll_back(connection)?;
    for _ in 1..BEGIN_ATTEMPTS_MAX {
        match execute(connection, BEGIN) {
            Err(failure) if failure.is_busy() => {}
            begun => return begun,
        }
    }
    execute(connection, BEGIN)
}

fn execute(connection: &Connection, sql: &str) -> Result<(), DatabaseError> {
    connection.prepare_cached(sql)?.execute(())?;
    Ok(())
}

/// Rolls back an open transaction; SQLite rolls some back itself on failure.
fn roll_back(connection: &Connection) -> Result<(), DatabaseError> {
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use rusqlite::ErrorCode;

    use super::*;

    fn writer() -> Arc<WriterThread> {
        let connection = Connection::open_in_memory().unwrap();
        let set_up = "PRAGMA synchronous = NORMAL; CREATE TABLE t (n INTEGER UNIQUE)";
        connection.execute_batch(set_up).unwrap();
        Arc::new(WriterThread::start(connection, None, Path::new("/x.db").into()).unwrap())
    }

    fn insert(n: i64) -> impl Fn(&Connection) -> Result<i64, DatabaseError> + Send + 'static {
        move |db| {
            db.execute("INSERT INTO t VALUES (?)", [n])?;
            Ok(n)
        }
    }

    async fn read_all(writer: &WriterThread) -> Vec<i64> {
        let read = |db: &Connection| {
            let mut statement = db.prepare("SELECT n FROM t ORDER BY n")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        writer.write("read", 0, read).await.unwrap()
    }

    /// Blocks the thread until the sender is dropped.
    async fn block_writer(writer: &Arc<WriterThread>, bytes: usize) -> SyncSender<()> {
        let (go_on, wait) = sync_channel::<()>(0);
        let (started, has_started) = oneshot::channel();
        let (wait, started) = (std::sync::Mutex::new(wait), std::sync::Mutex::new(Some(started)));
        let writer = Arc::clone(writer);
        tokio::spawn(async move {
            let work = move |_: &Connection| {
                if let Some(started) = started.lock().unwrap().take() {
                    started.send(()).unwrap();
                }
                let wait: &Receiver<()> = &wait.lock().unwrap();
                wait.recv().unwrap_err();
                Ok(())
            };
            writer.write("wait", bytes, work).await
        });
        has_started.await.unwrap();
        go_on
    }

    /// Waits until the queue has `count` writes.
    async fn wait_for_queue(writer: &WriterThread, count: usize) {
        while writer.queue.as_ref().unwrap().capacity() > QUEUE_MAX - count {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn rush_is_detected_from_previous_interval() {
        let start = Instant::now();
        let mut pace = ArrivalRate::new(start);
        assert!(!pace.is_rush(start));
        pace.record_arrivals(RUSH_WRITES);
        assert!(!pace.is_rush(start + RUSH_TIME / 2), "it is not over yet");
        assert!(pace.is_rush(start + RUSH_TIME));
        pace.record_arrivals(RUSH_WRITES - 1);
        assert!(pace.is_rush(start + RUSH_TIME * 3 / 2));
        assert!(!pace.is_rush(start + RUSH_TIME * 2));
        pace.record_arrivals(RUSH_WRITES);
        assert!(!pace.is_rush(start + RUSH_TIME * 9), "then nothing came for long");
        for _ in 0..RUSH_WRITES * 2 {
            pace.record_arrivals(1);
        }
        assert!(!pace.is_rush(start + RUSH_TIME * 10), "one after the other");
    }

    #[tokio::test]
    async fn failed_job_does_not_fail_others() {
        let writer = writer();
        let held = block_writer(&writer, 0).await;
        let tasks: Vec<_> = [1, 2, 1, 3]
            .into_iter()
            .map(|n| {
                let writer = Arc::clone(&writer);
                tokio::spawn(async move { writer.write("insert", 0, insert(n)).await })
            })
            .collect();
        wait_for_queue(&writer, 4).await;
        drop(held);
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap().map_err(|error| error.to_string()));
        }
        let [Ok(1), Ok(2), Err(why), Ok(3)] = &results[..] else { panic!("{results:?}") };
        assert!(
            why.contains("in `/x.db`") && why.contains("UNIQUE constraint failed: t.n"),
            "{why}"
        );
        assert_eq!(read_all(&writer).await, [1, 2, 3]);
    }

    /// The number of SQLite's setting: 1 is NORMAL, 2 is FULL.
    fn read_synchronous(db: &Connection) -> Result<i64, DatabaseError> {
        Ok(db.query_row("PRAGMA synchronous", [], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn durable_write_alone_is_flushed_to_disk() {
        let writer = writer();
        assert_eq!(writer.write("read", 0, read_synchronous).await, Ok(1));
        let durable = writer.write_with(WriteDurability::Machine, "read", 0, read_synchronous);
        assert_eq!(durable.await, Ok(2));
        let failed = writer.write_with(WriteDurability::Machine, "fail", 0, |db| {
            Ok(db.execute_batch("nonsense")?)
        });
        assert!(failed.await.is_err());
        assert_eq!(writer.write("read", 0, read_synchronous).await, Ok(1));
    }

    #[tokio::test]
    async fn refusal_after_change_leaves_no_change() {
        let writer = writer();
        let work = |db: &Connection| -> Result<(), DatabaseError> {
            insert(1)(db)?;
            Err(StoreError::NoSession("x".to_owned()).into())
        };
        let refused = writer.write("try", 0, work).await;
        assert_eq!(refused, Err(StoreError::NoSession("x".to_owned())));
        assert_eq!(read_all(&writer).await, Vec::<i64>::new());
    }

    #[tokio::test]
    async fn writer_recovers_when_space_returns() {
        let writer = writer();
        let pages =
            |n: i64| move |db: &Connection| Ok(db.pragma_update(None, "max_page_count", n)?);
        writer.write("bound", 0, pages(3)).await.unwrap();
        let mut written = 0;
        let error = loop {
            match writer.write("insert", 0, insert(written)).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 10_000, "three pages hold less");
        };
        let full = "the session store cannot insert: there is no room for `/x.db` to grow (database \
                    or disk is full); make room, then try again";
        assert_eq!(error.to_string(), full);
        writer.write("bound", 0, pages(1000)).await.unwrap();
        writer.write("insert", 0, insert(written)).await.unwrap();
        assert_eq!(read_all(&writer).await, (0..=written).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_reports_busy() {
        let writer = writer();
        let held = block_writer(&writer, 0).await;
        for n in 0..i64::try_from(QUEUE_MAX).unwrap() {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move { writer.write("insert", 0, insert(n)).await });
        }
        wait_for_queue(&writer, QUEUE_MAX).await;
        assert_eq!(writer.write("insert", 0, insert(-1)).await, Err(StoreError::Busy));
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn queue_over_byte_limit_reports_busy() {
        let writer = writer();
        let held = block_writer(&writer, usize::MAX).await;
        assert_eq!(writer.write("insert", 1, insert(1)).await, Err(StoreError::Busy));
        drop(held);
    }

    #[test]
    fn lock_held_by_other_process_reports_busy() {
        let busy =
            DatabaseError::Sqlite { code: ErrorCode::DatabaseBusy, number: 5, message: "".into() };
        assert_eq!(busy.into_store_error("insert", Path::new("/x.db")), StoreError::Busy);
    }

    #[tokio::test]
    async fn queued_writes_finish_before_drop() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let writer =
            Arc::new(WriterThread::start(connection, None, path.as_path().into()).unwrap());
        let held = block_writer(&writer, 0).await;
        for n in 0..10 {
            let writer = Arc::clone(&writer);
            // A write that is queued runs even if its caller is dropped.
            let mut write = Box::pin(async move { writer.write("insert", 0, insert(n)).await });
            let waker = std::task::Waker::noop();
            assert!(write.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        }
        drop(held);
        let alone = wait_until_alone(writer).await;
        drop(alone);
        let count: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 10);
    }

    /// The task that blocks the thread holds a reference until it is released.
    async fn wait_until_alone(mut writer: Arc<WriterThread>) -> WriterThread {
        loop {
            match Arc::try_unwrap(writer) {
                Ok(alone) => return alone,
                Err(shared) => writer = shared,
            }
            tokio::task::yield_now().await;
        }
    }
}
