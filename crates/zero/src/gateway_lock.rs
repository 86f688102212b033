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
    /// SHA-256 of its certificate, if it uses TLS.
    #[serde(default)]
    fingerprint: Option<String>,
}

/// A gateway of this machine that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningGateway {
    /// Where it listens.
    pub(crate) url: String,
    /// SHA-256 of its certificate, if it uses TLS.
    pub(crate) fingerprint: Option<String>,
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
        lock.write_holder(None, None).map_err(failed)?;
        Ok(lock)
    }

    /// Tells other gateways and commands where this one listens.
    pub(crate) fn set_url(&self, url: &str, fingerprint: Option<&str>) -> anyhow::Result<()> {
        self.write_holder(Some(url.to_owned()), fingerprint.map(str::to_owned))
            .context("could not write the gateway's address")
    }

    /// The gateway that has the lock; `None` if there is none or it is starting.
    pub(crate) fn find_running(state: &StateDir) -> Option<RunningGateway> {
        match state.lock_file(LOCK_FILE).ok()?.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            _ => return None,
        }
        let LockHolder { url, fingerprint, .. } = read_holder(state)?;
        Some(RunningGateway { url: url?, fingerprint })
    }

    fn write_holder(&self, url: Option<String>, fingerprint: Option<String>) -> io::Result<()> {
        let holder = LockHolder { pid: std::process::id(), url, fingerprint };
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

/// What the lock file says, if it says something.
fn read_holder(state: &StateDir) -> Option<LockHolder> {
    let mut text = String::new();
    let file = state.open(LOCK_FILE).ok()?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Error that names the gateway with the lock, as far as its file says.
fn held_error(state: &StateDir) -> UsageError {
    let who = match read_holder(state) {
        Some(LockHolder { pid, url: Some(url), .. }) => {
            format!("process {pid}, at {}", sanitize::to_quoted_line(&url))
        }
        Some(LockHolder { pid, url: None, .. }) => format!("process {pid}, which is starting"),
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
        assert_eq!(GatewayLock::find_running(&state), None, "it is starting");
        first.set_url("ws://127.0.0.1:18789", Some("ab")).unwrap();
        let running = GatewayLock::find_running(&state).unwrap();
        assert_eq!(running.url, "ws://127.0.0.1:18789");
        assert_eq!(running.fingerprint.as_deref(), Some("ab"));
        let refused = refusal(&state);
        let who = format!(": process {pid}, at `ws://127.0.0.1:18789`; connect to it");
        assert!(refused.contains(&who), "{refused}");
        drop(first);
        assert_eq!(GatewayLock::find_running(&state), None);
        // What a killed gateway wrote does not block the next.
        drop(GatewayLock::acquire(&state).unwrap());
    }
}
