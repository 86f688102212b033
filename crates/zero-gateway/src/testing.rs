//! What tests of this crate share.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::RunId;
use zero_core::event::{Event, What};
use zero_runtime::tool::BoxFuture;
use zero_session::agent::Agents;
use zero_session::hands::{Hands, HandsError, HandsFactory, HandsOrder};
use zero_session::local_bus::LocalBus;
use zero_session::model::catalogue::Models;
use zero_session::sessions::{SessionLimits, Sessions, SessionsConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_wire::{EventFrame, Frame, frame};

use crate::outbox::{Out, Outbox, OutboxLimits};

/// What a connection would have sent.
pub(crate) struct Frames(Outbox);

/// A way out that leads to a test.
pub(crate) fn outbox() -> (Outbox, Frames) {
    let limits =
        OutboxLimits { bytes_max: 1 << 20, messages_max: 1_024, message_bytes_max: 1 << 20 };
    let outbox = Outbox::new(limits);
    (outbox.clone(), Frames(outbox))
}

impl Frames {
    /// The next event; waits for it.
    pub(crate) async fn event(&mut self) -> EventFrame {
        let Out::Message(message) = poll_fn(|cx| self.0.poll_next(cx)).await else {
            panic!("the connection ended");
        };
        match frame::parse(message.text(&mut String::new())) {
            Ok(Frame::Event(event)) => event,
            other => panic!("no event but {other:?}"),
        }
    }
}

/// The id of a run.
pub(crate) fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

/// A ledger of one run: each entry a second after the other.
pub(crate) fn ledger(id: &str, whats: impl IntoIterator<Item = What>) -> Vec<Event> {
    let event = |(what, seq): (What, u64)| Event {
        seq,
        run: Some(run(id)),
        time_ms: i64::try_from(seq).unwrap() * 1_000,
        what,
    };
    whats.into_iter().zip(1..).map(event).collect()
}

/// Sessions in a folder, without models and hands.
pub(crate) async fn sessions(folder: &Path) -> Sessions {
    let store = SqliteStore::open(&folder.join("sessions.db")).unwrap();
    let config = SessionsConfig {
        store: Arc::new(store),
        bus: Arc::new(LocalBus::new()),
        agents: Agents::new(Vec::new(), None),
        models: Models::new(Vec::new(), None),
        hands: Arc::new(NoHands),
        cwd: PathBuf::from("/"),
        nodes: Arc::new(zero_session::nodes::Alone::new("test")),
        limits: SessionLimits::default(),
    };
    Sessions::start(config).await.unwrap()
}

struct NoHands;

impl HandsFactory for NoHands {
    fn open(&self, _order: HandsOrder) -> BoxFuture<'_, Result<Arc<dyn Hands>, HandsError>> {
        Box::pin(async { Err(HandsError::Workspace("there are no hands".to_owned())) })
    }
}
