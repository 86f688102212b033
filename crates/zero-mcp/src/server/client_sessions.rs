//! The session that the calls of a client belong to.
//!
//! A client that shakes hands has one for as long as its connection stands. Requests that stand
//! alone have no connection; they share one, because whoever has the credentials of this server is
//! one and the same to it, and without a session a file that was read could not be edited, and a
//! command in the background not be followed. A session is opened by its first call: a client that
//! only lists costs nothing.

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

/// All that are open, so that they can be ended.
#[derive(Default)]
pub(super) struct OpenSessions {
    open: Mutex<Vec<Weak<ToolHostSession>>>,
}

/// Which protocol session over HTTP is whose, so that a client that ends one ends its calls. Those
/// of clients that are gone are forgotten, so there are no more than clients.
#[derive(Default)]
pub(super) struct HttpSessionMap {
    clients: Mutex<HashMap<String, CancellationToken>>,
}

impl HttpSessionMap {
    /// Notes what ends the calls of a session.
    pub(super) fn register(&self, session: &str, gone: &CancellationToken) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if !clients.contains_key(session) {
            clients.retain(|_, gone| !gone.is_cancelled());
            clients.insert(session.to_owned(), gone.clone());
        }
    }

    /// Ends the calls of a session.
    pub(super) fn end_session(&self, session: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gone) = clients.remove(session) {
            gone.cancel();
        }
    }
}

/// The protocol session that a request over HTTP belongs to.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id").and_then(|session| session.to_str().ok())
}

impl LazySession {
    /// The session; opens it at the first time.
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

    /// Ends all; returns when their commands are gone.
    pub(super) fn end_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for session in open.iter().filter_map(Weak::upgrade) {
            session.end();
        }
    }
}
