//! Helpers shared by the unit tests of this crate.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::event::{Event, EventKind};
use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};
use zero_session::agent::AgentRegistry;
use zero_session::local_event_bus::LocalEventBus;
use zero_session::model::catalog::ModelCatalog;
use zero_session::sessions::{SessionLimits, SessionManager, SessionManagerConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::NewRun;
use zero_wire::{EventFrame, GatewayFrame, frame};

use crate::send_queue::{OutgoingItem, SendQueue, SendQueueLimits};

/// The frames that a connection would have sent.
pub(crate) struct SentFrames(SendQueue);

/// A send queue whose messages the test receives.
pub(crate) fn send_queue() -> (SendQueue, SentFrames) {
    let limits =
        SendQueueLimits { bytes_max: 1 << 20, messages_max: 1_024, message_bytes_max: 1 << 20 };
    let outbox = SendQueue::new(limits);
    (outbox.clone(), SentFrames(outbox))
}

impl SentFrames {
    /// Waits for the next event.
    pub(crate) async fn next_event(&mut self) -> EventFrame {
        let OutgoingItem::Message(message) = poll_fn(|cx| self.0.poll_next(cx)).await else {
            panic!("the connection ended");
        };
        match frame::parse(message.render(&mut String::new())) {
            Ok(GatewayFrame::Event(event)) => event,
            other => panic!("no event but {other:?}"),
        }
    }
}

pub(crate) fn run_id(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

/// The ledger of one run; timestamps are one second apart.
pub(crate) fn run_ledger(id: &str, whats: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    let event = |(kind, seq): (EventKind, u64)| Event {
        seq,
        run: Some(run_id(id)),
        time_ms: i64::try_from(seq).unwrap() * 1_000,
        kind,
    };
    whats.into_iter().zip(1..).map(event).collect()
}

/// Begins a run, so that entries can be appended for it.
pub(crate) async fn begin_run(sessions: &SessionManager, session: &SessionId, id: &str) {
    let new = NewRun {
        id: run_id(id),
        session: session.clone(),
        node: "test".to_owned(),
        started_ms: 1,
        options: Default::default(),
        first: Vec::new(),
    };
    sessions.store().begin_run(new).await.unwrap();
}

/// Sessions in a folder, without models and tool backends.
pub(crate) async fn sessions(folder: &Path) -> SessionManager {
    let store = SqliteStore::open(&folder.join("sessions.db")).unwrap();
    let config = SessionManagerConfig {
        store: Arc::new(store),
        bus: Arc::new(LocalEventBus::new()),
        agents: AgentRegistry::new(Vec::new(), None),
        models: ModelCatalog::new(Vec::new(), None),
        backend_factory: Arc::new(RefusingToolBackendFactory),
        cwd: PathBuf::from("/"),
        nodes: Arc::new(zero_session::node_membership::SingleNode::new("test")),
        limits: SessionLimits::default(),
    };
    SessionManager::start(config).await.unwrap()
}

struct RefusingToolBackendFactory;

impl ToolBackendFactory for RefusingToolBackendFactory {
    fn open(
        &self,
        _order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(async { Err(ToolBackendError::Workspace("there is no tool backend".to_owned())) })
    }
}
