//! The file itself: who may read it, and how a connection to it is set up.

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

/// How long SQLite waits for another process before it gives up once.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the switch to a write-ahead log is tried: SQLite does not always wait for others there.
const WAL_WAIT_MAX: Duration = Duration::from_secs(30);
const WAL_PAUSE: Duration = Duration::from_millis(50);
/// What the log shrinks to once it was larger.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// Pages of the log after which a writer moves it into the file itself; see [`super::checkpoint`].
const WAL_PAGES_MAX: i64 = 16 * 1024;
/// What a connection that reads keeps of the file, negative for KiB as SQLite has it. There are several
/// of them, and the system keeps the same.
const READER_CACHE_KIB: i64 = -512;
/// Prepared statements that a connection keeps; more than there are.
const STATEMENTS_MAX: usize = 64;

const VERB: &str = "open";

/// The open file.
pub(super) struct OpenedDatabase {
    /// Where it is, without links.
    pub(super) path: PathBuf,
    /// The connection that writes.
    pub(super) writer: Connection,
    /// Whether it was made just now, so that nothing of it has reached the disk for certain.
    pub(super) is_new: bool,
}

/// What a connection may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionAccess {
    Read,
    Write,
}

/// Opens the file, or makes it, and brings it up to date.
pub(super) fn open(path: &Path) -> Result<OpenedDatabase, StoreError> {
    let path = create_file(path)?;
    match set_up(&path) {
        Ok((writer, is_new)) => Ok(OpenedDatabase { path, writer, is_new }),
        Err(failure) => Err(failure.into_store_error(VERB, &path)),
    }
}

/// A connection to a file that was set up before.
pub(super) fn connect(path: &Path, access: ConnectionAccess) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // A plan is kept whatever the values are: otherwise most statements are parsed each time anew.
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
            // What is deleted is overwritten, not only forgotten.
            connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;")?;
        }
    }
    Ok(connection)
}

/// The connection that writes, and whether the file was empty before.
fn set_up(path: &Path) -> Result<(Connection, bool), DatabaseError> {
    let mut connection = connect(path, ConnectionAccess::Write)?;
    // Before anything is written: it may be another program's, or a newer zero's.
    schema::check_version(&connection, path)?;
    make_private(path)?;
    let is_new = is_empty(path)?;
    if is_new {
        // There is nothing in it that a journal on disk could bring back, or that would be missed after a
        // power cut; see [`super::checkpoint`].
        connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
        connection.execute_batch("PRAGMA synchronous = OFF")?;
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

/// Switches to a write-ahead log, so that reading and writing do not wait for each other.
fn enable_wal(connection: &Connection, path: &Path) -> Result<(), DatabaseError> {
    let began = Instant::now();
    let mode: String = loop {
        let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match switched.map_err(DatabaseError::from) {
            Err(failure) if failure.is_busy() && began.elapsed() < WAL_WAIT_MAX => {
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

/// Makes the file unless it is there, and says where it is without links.
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
    // Never opened here when it is there: to close it would end the locks that this process has on
    // it through SQLite.
    match state.create_new(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error(&path, error)),
        _ => Ok(path),
    }
}

/// Sees to it that only its owner may read the file. SQLite gives its log and its index the mode
/// that the file has.
fn make_private(path: &Path) -> Result<(), StoreError> {
    for (file, mode) in read_modes(path)? {
        if mode & 0o177 == 0 {
            continue;
        }
        match std::fs::set_permissions(&file, Permissions::from_mode(mode & 0o600)) {
            // Another process closed it in between, and with it went what belongs to it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|error| io_error(&file, error))?,
        }
    }
    Ok(())
}

/// What there is of the file and what belongs to it, with modes. Refuses what is no file.
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
