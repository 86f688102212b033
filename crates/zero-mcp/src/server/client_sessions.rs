//! The session that the calls of a client belong to.
//!
//! A client with a handshake has a session for as long as it is connected. Stateless requests have
//! no connection and share one session: all clients with the credentials of this server are the
//! same user, and without a session a file that was read could not be edited and a background
//! command not be followed. The first call opens a session, so a client that only lists tools costs
//! nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http::HeaderMap;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolError};
use zero_runtime::{ToolHost, ToolHostSession};

/// A session that is opened when it is needed.
#[derive(Default)]
pub(super) struct LazySession {
    session: OnceCell<Arc<ToolHostSession>>,
}

/// All open sessions, so that they can be ended.
#[derive(Default)]
pub(super) struct OpenSessions {
    open: Mutex<Vec<Weak<ToolHostSession>>>,
}

/// Which client an HTTP protocol session belongs to, so that ending the session ends its calls.
/// Entries of clients that are gone are removed, so there are no more than clients.
#[derive(Default)]
pub(super) struct HttpSessionMap {
    clients: Mutex<HashMap<String, CancellationToken>>,
}

impl HttpSessionMap {
    /// Registers the token that ends the calls of a session.
    pub(super) fn register(&self, session: &str, disconnected: &CancellationToken) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if !clients.contains_key(session) {
            clients.retain(|_, gone| !gone.is_cancelled());
            clients.insert(session.to_owned(), disconnected.clone());
        }
    }

    /// Ends the calls of a session.
    pub(super) fn end_session(&self, session: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(disconnected) = clients.remove(session) {
            disconnected.cancel();
        }
    }
}

/// Returns the protocol session of an HTTP request.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id").and_then(|session| session.to_str().ok())
}

impl LazySession {
    /// Returns the session, and opens it the first time.
    pub(super) async fn get(
        &self,
        host: &Arc<ToolHost>,
        sessions: &OpenSessions,
    ) -> Result<Arc<ToolHostSession>, ToolError> {
        let open = || async {
            let id = SessionId::from_bits(fastrand::u128(..));
            let session = Arc::new(host.open_session(id)?);
            sessions.register(&session);
            Ok(session)
        };
        self.session.get_or_try_init(open).await.cloned()
    }
}

impl OpenSessions {
    fn register(&self, session: &Arc<ToolHostSession>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|session| session.strong_count() > 0);
        open.push(Arc::downgrade(session));
    }

    /// Ends all sessions, and waits until their commands have ended.
    pub(super) fn end_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for session in open.iter().filter_map(Weak::upgrade) {
            session.end();
        }
    }
}
