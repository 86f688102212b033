//! Which connection hosts the tools of which session. A session has at most one host.
//!
//! A second host is refused unless it explicitly takes over. It can take over only from the same
//! owner: an administrator sees all sessions but cannot host the tools of another user's session.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, MutexGuard};
use zero_core::SessionId;
use zero_wire::ErrorPayload;
use zero_wire::tools::TOOLS_HOSTED;

use crate::remote_tool_backend::RemoteToolBackend;

/// Number of locks, which bounds how many sessions can be attached concurrently. A session whose
/// previous host detaches slowly delays only sessions with the same lock.
const SHARDS: usize = 64;

/// The tool hosts of a gateway.
pub(crate) struct ToolHostTable {
    by_session: [Mutex<HashMap<SessionId, ToolHostEntry>>; SHARDS],
    hasher: RandomState,
}

impl Default for ToolHostTable {
    fn default() -> Self {
        Self { by_session: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

struct ToolHostEntry {
    backend: Weak<RemoteToolBackend>,
    owner: String,
}

/// Exclusive right to attach a host to a session, so that the table always matches the last
/// attachment.
pub(crate) struct ToolHostTableGuard<'a> {
    by_session: MutexGuard<'a, HashMap<SessionId, ToolHostEntry>>,
}

impl ToolHostTable {
    /// Waits until no other connection attaches to this session.
    pub(crate) async fn lock_session(&self, session: &SessionId) -> ToolHostTableGuard<'_> {
        let [first, ..] = &self.by_session;
        let at = usize::try_from(self.hasher.hash_one(session) % SHARDS as u64).unwrap_or_default();
        ToolHostTableGuard { by_session: self.by_session.get(at).unwrap_or(first).lock().await }
    }
}

impl ToolHostTableGuard<'_> {
    /// Returns the backend that a new host would replace, or the reason why it may not.
    pub(crate) fn check_replacement(
        &self,
        session: &SessionId,
        owner: &str,
        take_over: bool,
    ) -> Result<Option<Arc<RemoteToolBackend>>, ErrorPayload> {
        let Some(host) = self.by_session.get(session) else { return Ok(None) };
        let Some(backend) = host.backend.upgrade().filter(|backend| backend.is_attached()) else {
            return Ok(None);
        };
        let refused = |what_next: &str| {
            let name = backend.host();
            let details = serde_json::json!({"code": TOOLS_HOSTED, "host": name});
            let message = format!(
                "the tools of this session are hosted by `{name}`, on another connection; {what_next}"
            );
            ErrorPayload::invalid(message).with_details(details)
        };
        if host.owner != owner {
            return Err(refused("that host belongs to another user, so wait until it detaches"));
        }
        if !take_over {
            return Err(refused(
                "wait until it detaches, or take over with `takeOver` (`zero run --take-over`)",
            ));
        }
        Ok(Some(backend))
    }

    /// Records the host of a session.
    pub(crate) fn set_host(
        &mut self,
        session: SessionId,
        owner: &str,
        backend: &Arc<RemoteToolBackend>,
    ) {
        let is_there = |host: &ToolHostEntry| {
            host.backend.upgrade().is_some_and(|backend| backend.is_attached())
        };
        self.by_session.retain(|_, host| is_there(host));
        let host = ToolHostEntry { backend: Arc::downgrade(backend), owner: owner.to_owned() };
        self.by_session.insert(session, host);
    }
}
