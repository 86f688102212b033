//! One gateway per session store.
//!
//! Two gateways on one store would not hear of each other's runs: events, aborts and tool hosts of
//! one would be unknown to the other. The kernel releases the lock when its holder dies.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use zero_core::sanitize;
use zero_sandbox::StateDir;

use crate::exit::UsageError;

const LOCK_FILE: &str = "gateway.lock";
/// Largest lock file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Keeps other gateways from using the store until it is dropped.
pub(crate) struct GatewayLock {
    file: File,
}

/// The gateway that has the lock, as its file says.
#[derive(Debug, Default, Deserialize, Serialize)]
struct LockHolder {
    pid: u32,
    /// Where it listens; `None` while it starts.
    url: Option<String>,
}

impl GatewayLock {
    /// Takes the lock, or names the gateway that has it.
    pub(crate) fn acquire(state: &StateDir) -> anyhow::Result<Self> {
        let failed = |error: io::Error| lock_error(state, &error);
        let lock = Self { file: state.lock_file(LOCK_FILE).map_err(failed)? };
        match lock.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_error(state).into()),
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        lock.write_holder(None).map_err(failed)?;
        Ok(lock)
    }

    /// Tells other gateways where this one listens.
    pub(crate) fn set_url(&self, url: &str) -> anyhow::Result<()> {
        self.write_holder(Some(url.to_owned())).context("could not write the gateway's address")
    }

    fn write_holder(&self, url: Option<String>) -> io::Result<()> {
        let holder = LockHolder { pid: std::process::id(), url };
        let text = serde_json::to_vec(&holder)?;
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)
    }
}

/// Error for a lock file that cannot be created or written.
fn lock_error(state: &StateDir, error: &io::Error) -> UsageError {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free disk space there",
        _ => "make the folder writable",
    };
    UsageError(format!(
        "could not lock the session store in `{}`: {error}; {advice}, or set XDG_STATE_HOME to a folder that can be written",
        state.path().display()
    ))
}

/// Error that names the gateway with the lock, as far as its file says.
fn held_error(state: &StateDir) -> UsageError {
    let mut text = String::new();
    let read = state.open(LOCK_FILE).map(|file| file.take(FILE_BYTES_MAX));
    let is_read = read.and_then(|mut file| file.read_to_string(&mut text)).is_ok();
    let holder = serde_json::from_str::<LockHolder>(&text).ok().filter(|_| is_read);
    let who = match holder {
        Some(LockHolder { pid, url: Some(url) }) => {
            format!("process {pid}, at {}", sanitize::to_quoted_line(&url))
        }
        Some(LockHolder { pid, url: None }) => format!("process {pid}, which is starting"),
        None => "a process that is starting".to_owned(),
    };
    UsageError(format!(
        "another gateway has the sessions in `{}`: {who}; connect to it, stop it first, or set XDG_STATE_HOME to keep the sessions of this one elsewhere",
        state.path().display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(state: &StateDir) -> String {
        GatewayLock::acquire(state).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn full_disk_error_says_what_to_do() {
        let state = StateDir::new("/state/zero");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = lock_error(&state, &full).to_string();
        assert!(
            error.starts_with("could not lock the session store in `/state/zero`: "),
            "{error}"
        );
        assert!(
            error.ends_with(
                "free disk space there, or set XDG_STATE_HOME to a folder that can be written"
            ),
            "{error}"
        );
    }

    #[test]
    fn second_gateway_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path().join("state"));
        let first = GatewayLock::acquire(&state).unwrap();
        let pid = std::process::id();
        assert!(refusal(&state).contains(&format!(": process {pid}, which is starting; ")));
        first.set_url("ws://127.0.0.1:18789").unwrap();
        let refused = refusal(&state);
        let who = format!(": process {pid}, at `ws://127.0.0.1:18789`; connect to it");
        assert!(refused.contains(&who), "{refused}");
        drop(first);
        // What a killed gateway wrote does not block the next.
        drop(GatewayLock::acquire(&state).unwrap());
    }
}
