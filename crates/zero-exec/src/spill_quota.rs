//! How much disk space oversized results may take, per session and per owner.
//!
//! The results of stored sessions live as long as these, so without a bound one session, or one of
//! the owners of a gateway, could fill the disk that all use.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use zero_core::ByteSize;
use zero_sandbox::{StateDir, path_survey};

/// Most bytes of results of one session.
const SESSION_BYTES_MAX: ByteSize = ByteSize::megabytes(1_000);
/// Most bytes of results of all stored sessions of one owner.
const OWNER_BYTES_MAX: ByteSize = ByteSize::megabytes(8_000);
/// How long the measured size of an owner's results is used.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);

/// The room for the results of one session.
#[derive(Debug)]
pub struct SpillQuota {
    session_bytes_max: u64,
    owner: Option<OwnerSpace>,
}

impl Default for SpillQuota {
    fn default() -> Self {
        Self { session_bytes_max: SESSION_BYTES_MAX.get(), owner: None }
    }
}

impl SpillQuota {
    /// The room of a session that shares that of its owner.
    #[must_use]
    pub fn with_owner(self, owner: OwnerSpace) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// A smaller room for the session.
    #[must_use]
    pub fn with_session_bytes(self, session_bytes_max: u64) -> Self {
        Self { session_bytes_max, ..self }
    }

    /// Notes that the session has results.
    pub(crate) fn note_results(&self) -> io::Result<()> {
        self.owner.as_ref().map_or(Ok(()), OwnerSpace::add_session)
    }

    /// Bytes that may still be stored in the folder of the session.
    pub(crate) fn room(&self, folder: &StateDir) -> u64 {
        let used = folder_bytes(folder);
        let own = self.session_bytes_max.saturating_sub(used);
        if own < self.session_bytes_max / 10 {
            tracing::warn!(
                used,
                most = self.session_bytes_max,
                "the results of a session are near their limit"
            );
        }
        own.min(self.owner.as_ref().map_or(u64::MAX, OwnerSpace::room))
    }
}

/// The results of all stored sessions of one owner.
#[derive(Debug)]
pub struct OwnerSpace {
    /// Where the results are, by session.
    results: StateDir,
    /// An empty file for each session of the owner that has results.
    sessions: StateDir,
    session: String,
    bytes_max: u64,
    measured: Mutex<Option<(Instant, u64)>>,
}

impl OwnerSpace {
    /// The results under `results`, by session, of the owner whose sessions are listed in
    /// `sessions`, for one of these.
    pub fn new(results: StateDir, sessions: StateDir, session: &str) -> Self {
        Self {
            results,
            sessions,
            session: session.to_owned(),
            bytes_max: OWNER_BYTES_MAX.get(),
            measured: Mutex::new(None),
        }
    }

    /// A smaller room for the owner.
    #[must_use]
    pub fn with_bytes(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    fn add_session(&self) -> io::Result<()> {
        match self.sessions.create_new(&self.session) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn room(&self) -> u64 {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let used = match *measured {
            Some((when, used)) if when.elapsed() < MEASURE_INTERVAL => used,
            _ => self.measure(),
        };
        *measured = Some((Instant::now(), used));
        let room = self.bytes_max.saturating_sub(used);
        if room < self.bytes_max / 10 {
            tracing::warn!(
                used,
                most = self.bytes_max,
                "the results of an owner are near their limit"
            );
        }
        room
    }

    fn measure(&self) -> u64 {
        let mut used = 0_u64;
        for session in self.sessions.list_names().unwrap_or_default() {
            let folder = self.results.child(&session);
            if path_survey::is_absent(folder.path()) {
                // The session was deleted or reset.
                let _ = self.sessions.remove(&session);
                continue;
            }
            used = used.saturating_add(folder_bytes(&folder));
        }
        used
    }
}

fn folder_bytes(folder: &StateDir) -> u64 {
    let names = folder.list_names().unwrap_or_default();
    names.iter().map(|name| folder.size(name).unwrap_or(0)).fold(0, u64::saturating_add)
}

/// The error for results that no longer fit.
pub(crate) fn full_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::QuotaExceeded,
        "the limit of stored results is reached; reset or delete sessions that are not needed, or let `zero prune` remove old results",
    )
}
