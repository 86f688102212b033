//! The database file: its permissions, and the setup of connections.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use zero_sandbox::StateDir;

use super::database_error::DatabaseError;
use super::schema;
use crate::store::StoreError;

/// How long SQLite waits for another process in one attempt.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);
/// How long switching to a write-ahead log is retried: SQLite does not always wait for others
/// there.
const WAL_WAIT_MAX: Duration = Duration::from_secs(30);
const WAL_PAUSE: Duration = Duration::from_millis(50);
/// Size to which a larger log is truncated, in bytes.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// Pages of the log after which a writer runs a checkpoint itself; see [`super::checkpoint`].
const WAL_PAGES_MAX: i64 = 16 * 1024;
/// Page cache of a reading connection; negative values are KiB in SQLite. Small, since there are
/// several connections and the system caches the file too.
const READER_CACHE_KIB: i64 = -512;
/// Prepared statements cached per connection; more than the code uses.
const STATEMENTS_MAX: usize = 64;

const VERB: &str = "open";

pub(super) struct OpenedDatabase {
    /// Path of the file, with links resolved.
    pub(super) path: PathBuf,
    /// The writing connection.
    pub(super) writer: Connection,
    /// Whether the file was just created, so that it is not guaranteed to be on the disk yet.
    pub(super) is_new: bool,
}

/// Access rights of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionAccess {
    Read,
    Write,
}

/// Opens or creates the file and migrates it.
pub(super) fn open(path: &Path) -> Result<OpenedDatabase, StoreError> {
    let path = create_file(path)?;
    match set_up(&path) {
        Ok((writer, is_new)) => Ok(OpenedDatabase { path, writer, is_new }),
        Err(failure) => Err(failure.into_store_error(VERB, &path)),
    }
}

/// Opens a connection to a file that is already set up.
pub(super) fn connect(path: &Path, access: ConnectionAccess) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Makes query plans independent of bound values; otherwise most statements are parsed again
    // each time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;",
    )?;
    match access {
        ConnectionAccess::Read => {
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", READER_CACHE_KIB)?;
        }
        ConnectionAccess::Write => {
            // Deleted content is overwritten.
            connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;")?;
        }
    }
    Ok(connection)
}

/// Returns the writing connection, and whether the file was empty.
fn set_up(path: &Path) -> Result<(Connection, bool), DatabaseError> {
    let mut connection = connect(path, ConnectionAccess::Write)?;
    // Checked before any write, since the file may belong to another program or a newer zero.
    schema::check_version(&connection, path)?;
    make_private(path)?;
    let is_new = is_empty(path)?;
    if is_new {
        // A new file has no content that a journal on disk could restore or that a power failure
        // could lose; see [`super::checkpoint`].
        connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
        connection.execute_batch("PRAGMA synchronous = OFF")?;
        // Takes effect only before the first page is written.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    enable_wal(&connection, path)?;
    schema::migrate(&mut connection, path)?;
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    Ok((connection, is_new))
}

fn is_empty(path: &Path) -> Result<bool, StoreError> {
    let facts = path.symlink_metadata().map_err(|error| io_error(path, error))?;
    Ok(facts.len() == 0)
}

/// Switches to a write-ahead log, so that reads and writes do not block each other.
fn enable_wal(connection: &Connection, path: &Path) -> Result<(), DatabaseError> {
    let started_at = Instant::now();
    let mode: String = loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match switched.map_err(DatabaseError::from) {
            Err(failure) if failure.is_busy() && started_at.elapsed() < WAL_WAIT_MAX => {
                std::thread::sleep(WAL_PAUSE);
            }
            switched => break switched?,
        }
    };
    if mode != "wal" {
        let path = path.display();
        let why =
            format!("the file system of `{path}` cannot keep a write-ahead log; use a local disk");
        return Err(open_error(why).into());
    }
    connection.query_row(
        &format!("PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}"),
        [],
        |_| Ok(()),
    )?;
    connection
        .query_row(&format!("PRAGMA journal_size_limit = {WAL_BYTES_KEPT}"), [], |_| Ok(()))?;
    Ok(())
}

/// Creates the file if it does not exist, and returns its path with links resolved.
fn create_file(path: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(open_error(format!("`{}` names no file", path.display())));
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let state = StateDir::new(folder);
    state.create().map_err(|error| io_error(folder, error))?;
    let path = folder.canonicalize().map_err(|error| io_error(folder, error))?.join(name);
    read_modes(&path)?;
    // An existing file is not opened here: closing it would release the locks that this process
    // holds on it through SQLite.
    match state.create_new(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error(&path, error)),
        _ => Ok(path),
    }
}

/// Makes the file readable by its owner only. SQLite gives its log and index the mode of the file.
fn make_private(path: &Path) -> Result<(), StoreError> {
    for (file, mode) in read_modes(path)? {
        if mode & 0o177 == 0 {
            continue;
        }
        match std::fs::set_permissions(&file, Permissions::from_mode(mode & 0o600)) {
            // Another process closed the database in between, which removed its log and index.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|error| io_error(&file, error))?,
        }
    }
    Ok(())
}

/// The file, its log and its index, as far as they exist, with their modes. Refuses anything but
/// regular files.
fn read_modes(path: &Path) -> Result<Vec<(PathBuf, u32)>, StoreError> {
    let mut modes = Vec::new();
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = PathBuf::from(file);
        let facts = match file.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            facts => facts.map_err(|error| io_error(&file, error))?,
        };
        if !facts.is_file() {
            return Err(open_error(format!(
                "`{}` is a link or a folder where a file should be; move it away",
                file.display()
            )));
        }
        modes.push((file, facts.permissions().mode() & 0o777));
    }
    Ok(modes)
}

fn io_error(path: &Path, error: io::Error) -> StoreError {
    open_error(format!("`{}`: {error}", path.display()))
}

fn open_error(why: String) -> StoreError {
    StoreError::Broken { verb: VERB, why }
}
