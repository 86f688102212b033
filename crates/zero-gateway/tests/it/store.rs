//! Sessions of which nothing is kept: what is tested here comes before them.

use std::path::PathBuf;
use std::sync::Arc;

use zero_core::event::{Event, RunEnd, Usage};
use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_session::agent::Agents;
use zero_session::bus::{Bus, Ear, Subscription};
use zero_session::hands::{Hands, HandsError, HandsFactory, HandsOrder};
use zero_session::key::SessionKey;
use zero_session::message::Message;
use zero_session::model::catalogue::Models;
use zero_session::sessions::{SessionLimits, Sessions, SessionsConfig};
use zero_session::store::{
    Begun, Most, NewEvent, NewRun, NewSession, RunRecord, SessionPage, SessionPatch, SessionQuery,
    SessionRecord, StandingGrant, Store, StoreError, Transcript, TranscriptStart,
};

pub(crate) async fn sessions() -> Sessions {
    let config = SessionsConfig {
        store: Arc::new(Nothing),
        bus: Arc::new(Nothing),
        agents: Agents::new(Vec::new(), None),
        models: Models::default(),
        hands: Arc::new(Nothing),
        cwd: PathBuf::from("/"),
        nodes: std::sync::Arc::new(zero_session::nodes::Alone::new("test")),
        limits: SessionLimits::default(),
    };
    Sessions::start(config).await.unwrap()
}

struct Nothing;

impl Bus for Nothing {
    fn publish(&self, _: &SessionId, _: &[Arc<Event>]) {}

    fn subscribe(&self, _: &SessionId, _: &Ear) -> Subscription {
        Subscription::new(())
    }
}

impl HandsFactory for Nothing {
    fn open(&self, _: HandsOrder) -> BoxFuture<'_, Result<Arc<dyn Hands>, HandsError>> {
        is(Err(HandsError::Workspace("nothing can be done here".to_owned())))
    }
}

type Is<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

fn is<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(async move { value })
}

fn not_kept<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    is(Err(StoreError::Broken { verb: "write", why: "nothing is kept here".to_owned() }))
}

impl Store for Nothing {
    fn session(&self, _: &SessionKey) -> Is<'_, Option<SessionRecord>> {
        is(Ok(None))
    }

    fn session_by_id(&self, _: &SessionId) -> Is<'_, Option<SessionRecord>> {
        is(Ok(None))
    }

    fn create(&self, _: NewSession) -> Is<'_, SessionRecord> {
        not_kept()
    }

    fn list(&self, _: SessionQuery) -> Is<'_, SessionPage> {
        is(Ok(SessionPage::default()))
    }

    fn patch(&self, _: &SessionKey, _: SessionPatch) -> Is<'_, Option<SessionRecord>> {
        is(Ok(None))
    }

    fn delete(&self, _: &SessionKey) -> Is<'_, bool> {
        is(Ok(false))
    }

    fn append(&self, _: &SessionId, _: Vec<NewEvent>) -> Is<'_, Vec<Event>> {
        not_kept()
    }

    fn events(&self, _: &SessionId, _: u64, _: Most) -> Is<'_, Vec<Event>> {
        is(Ok(Vec::new()))
    }

    fn last_events(&self, _: &SessionId, _: u64, _: Most) -> Is<'_, Vec<Event>> {
        is(Ok(Vec::new()))
    }

    fn transcript(&self, _: &SessionId, _: Option<u64>) -> Is<'_, Transcript> {
        is(Ok(Transcript::default()))
    }

    fn add_messages(&self, _: &SessionId, _: Vec<Arc<Message>>) -> Is<'_, ()> {
        not_kept()
    }

    fn new_transcript(
        &self,
        _: &SessionId,
        _: TranscriptStart,
        _: Vec<Arc<Message>>,
    ) -> Is<'_, u64> {
        not_kept()
    }

    fn begin_run(&self, _: NewRun) -> Is<'_, Begun> {
        not_kept()
    }

    fn end_run(
        &self,
        _: &RunId,
        _: RunEnd,
        _: Usage,
        _: Vec<NewEvent>,
    ) -> Is<'_, Option<Vec<Event>>> {
        is(Ok(None))
    }

    fn run(&self, _: &RunId) -> Is<'_, Option<RunRecord>> {
        is(Ok(None))
    }

    fn unsettled_runs(&self, _: Option<&SessionId>) -> Is<'_, Vec<RunRecord>> {
        is(Ok(Vec::new()))
    }

    fn grants(&self, _: &SessionId) -> Is<'_, Vec<StandingGrant>> {
        is(Ok(Vec::new()))
    }

    fn set_grants(&self, _: &SessionId, _: Vec<StandingGrant>) -> Is<'_, ()> {
        not_kept()
    }

    fn size(&self, _: &SessionId) -> Is<'_, u64> {
        is(Ok(0))
    }

    fn ready(&self) -> Is<'_, ()> {
        is(Ok(()))
    }

    fn count(&self) -> Is<'_, u64> {
        is(Ok(0))
    }
}
