//! A store that keeps nothing, for tests that never reach a session.

use std::path::PathBuf;
use std::sync::Arc;

use zero_core::event::{Event, RunOutcome, TokenUsage};
use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};
use zero_session::agent::AgentRegistry;
use zero_session::event_bus::{DeliverySender, EventBus, Subscription};
use zero_session::key::SessionAddress;
use zero_session::message::ModelMessage;
use zero_session::model::catalog::ModelCatalog;
use zero_session::open_question::{OpenQuestion, QuestionScope};
use zero_session::run_usage::{RunUsage, RunUsageQuery, UsageTotal};
use zero_session::sessions::{SessionLimits, SessionManager, SessionManagerConfig};
use zero_session::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, ForkPoint, GrantRecord, IdleSession,
    IdleSessionQuery, LedgerReadLimit, NewEvent, NewFork, NewRun, NewSession, OwnerSize,
    OwnerUsage, RewindPoint, RunAddress, RunRecord, SessionPage, SessionPatch, SessionQuery,
    SessionRecord, Store, StoreError, StoreUsage, Transcript, TranscriptPosition, TranscriptStart,
    UnnamedSession, UnremovedSession,
};

pub(crate) async fn sessions() -> SessionManager {
    let config = SessionManagerConfig {
        store: Arc::new(NullServices),
        bus: Arc::new(NullServices),
        agents: AgentRegistry::new(Vec::new(), None),
        models: ModelCatalog::default(),
        backend_factory: Arc::new(NullServices),
        cwd: PathBuf::from("/"),
        nodes: std::sync::Arc::new(zero_session::node_membership::SingleNode::new("test")),
        limits: SessionLimits::default(),
    };
    SessionManager::start(config).await.unwrap()
}

struct NullServices;

impl EventBus for NullServices {
    fn publish(&self, _: &SessionId, _: &[Arc<Event>]) {}

    fn subscribe(&self, _: &SessionId, _: &DeliverySender) -> Subscription {
        Subscription::new(())
    }
}

impl ToolBackendFactory for NullServices {
    fn open(
        &self,
        _: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        ready_future(Err(ToolBackendError::Workspace("nothing can be done here".to_owned())))
    }
}

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

fn ready_future<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    Box::pin(async move { value })
}

fn unsupported<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    ready_future(Err(StoreError::Broken { verb: "write", why: "nothing is kept here".to_owned() }))
}

impl Store for NullServices {
    fn session(&self, _: &SessionAddress) -> StoreFuture<'_, Option<SessionRecord>> {
        ready_future(Ok(None))
    }

    fn session_by_id(&self, _: &SessionId) -> StoreFuture<'_, Option<SessionRecord>> {
        ready_future(Ok(None))
    }

    fn create(&self, _: NewSession) -> StoreFuture<'_, SessionRecord> {
        unsupported()
    }

    fn fork(
        &self,
        _: &SessionId,
        _: ForkPoint,
        _: NewFork,
        _: NewEvent,
    ) -> StoreFuture<'_, SessionRecord> {
        unsupported()
    }

    fn open_questions(&self, _: QuestionScope<'_>) -> StoreFuture<'_, Vec<OpenQuestion>> {
        ready_future(Ok(Vec::new()))
    }

    fn open_question(&self, _: &str) -> StoreFuture<'_, Option<OpenQuestion>> {
        ready_future(Ok(None))
    }

    fn release_claim(&self, _: &SessionId, _: ClaimEpoch) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn adopt_run(&self, _: &RunAddress, _: ClaimEpoch, _: &str) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn list(&self, _: SessionQuery) -> StoreFuture<'_, SessionPage> {
        ready_future(Ok(SessionPage::default()))
    }

    fn patch(&self, _: &SessionAddress, _: SessionPatch) -> StoreFuture<'_, Option<SessionRecord>> {
        ready_future(Ok(None))
    }

    fn claim(
        &self,
        _: &SessionId,
        _: &str,
        _: Option<ClaimEpoch>,
    ) -> StoreFuture<'_, ClaimOutcome> {
        unsupported()
    }

    fn delete(&self, _: &SessionId, _: ClaimEpoch) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn delete_idle(&self, _: &IdleSession) -> StoreFuture<'_, bool> {
        unsupported()
    }

    fn delete_unreadable(&self, _: &SessionAddress) -> StoreFuture<'_, bool> {
        unsupported()
    }

    fn unnamed_sessions(&self) -> StoreFuture<'_, Vec<UnnamedSession>> {
        ready_future(Ok(Vec::new()))
    }

    fn delete_unnamed(&self, _: i64) -> StoreFuture<'_, bool> {
        unsupported()
    }

    fn reclaim(&self) -> StoreFuture<'_, Vec<UnremovedSession>> {
        ready_future(Ok(Vec::new()))
    }

    fn rewind_points(&self, _: &SessionId) -> StoreFuture<'_, Vec<RewindPoint>> {
        ready_future(Ok(Vec::new()))
    }

    fn rewind(
        &self,
        _: &SessionId,
        _: ClaimEpoch,
        _: Option<TranscriptPosition>,
        _: NewEvent,
    ) -> StoreFuture<'_, Event> {
        unsupported()
    }

    fn large_owners(&self, _: u64) -> StoreFuture<'_, Vec<OwnerUsage>> {
        ready_future(Ok(Vec::new()))
    }

    fn idle_sessions(&self, _: IdleSessionQuery) -> StoreFuture<'_, Vec<IdleSession>> {
        ready_future(Ok(Vec::new()))
    }

    fn owner_sizes(&self) -> BoxFuture<'_, Result<Vec<OwnerSize>, StoreError>> {
        ready_future(Ok(Vec::new()))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        ready_future(Ok(StoreUsage::default()))
    }

    fn append(
        &self,
        _: &SessionId,
        _: Option<ClaimEpoch>,
        _: Vec<NewEvent>,
    ) -> StoreFuture<'_, Vec<Event>> {
        unsupported()
    }

    fn append_durable(
        &self,
        _: &SessionId,
        _: Option<ClaimEpoch>,
        _: Vec<NewEvent>,
    ) -> StoreFuture<'_, Vec<Event>> {
        unsupported()
    }

    fn events(&self, _: &SessionId, _: u64, _: LedgerReadLimit) -> StoreFuture<'_, Vec<Event>> {
        ready_future(Ok(Vec::new()))
    }

    fn last_events(
        &self,
        _: &SessionId,
        _: u64,
        _: LedgerReadLimit,
    ) -> StoreFuture<'_, Vec<Event>> {
        ready_future(Ok(Vec::new()))
    }

    fn transcript(&self, _: &SessionId, _: Option<u64>) -> StoreFuture<'_, Transcript> {
        ready_future(Ok(Transcript::default()))
    }

    fn add_messages(
        &self,
        _: &SessionId,
        _: ClaimEpoch,
        _: Vec<Arc<ModelMessage>>,
    ) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn start_transcript(
        &self,
        _: &SessionId,
        _: ClaimEpoch,
        _: TranscriptStart,
        _: Vec<Arc<ModelMessage>>,
    ) -> StoreFuture<'_, u64> {
        unsupported()
    }

    fn begin_run(&self, _: NewRun) -> StoreFuture<'_, BeginRunOutcome> {
        unsupported()
    }

    fn end_run(
        &self,
        _: &RunAddress,
        _: ClaimEpoch,
        _: RunOutcome,
        _: TokenUsage,
        _: Vec<NewEvent>,
    ) -> StoreFuture<'_, Option<Vec<Event>>> {
        ready_future(Ok(None))
    }

    fn run(&self, _: &RunAddress) -> StoreFuture<'_, Option<RunRecord>> {
        ready_future(Ok(None))
    }

    fn find_run(&self, _: Option<&str>, _: &RunId) -> StoreFuture<'_, Option<RunRecord>> {
        ready_future(Ok(None))
    }

    fn unfinished_runs(&self, _: Option<&SessionId>) -> StoreFuture<'_, Vec<RunRecord>> {
        ready_future(Ok(Vec::new()))
    }

    fn run_usages(&self, _: RunUsageQuery) -> StoreFuture<'_, Vec<RunUsage>> {
        ready_future(Ok(Vec::new()))
    }

    fn usage_total(&self, _: RunUsageQuery, _: Option<RunAddress>) -> StoreFuture<'_, UsageTotal> {
        ready_future(Ok(UsageTotal::default()))
    }

    fn grants(&self, _: &SessionId) -> StoreFuture<'_, Vec<GrantRecord>> {
        ready_future(Ok(Vec::new()))
    }

    fn set_grants(&self, _: &SessionId, _: Vec<GrantRecord>) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn change_grants(
        &self,
        _: &SessionId,
        _: Vec<GrantRecord>,
        _: Vec<GrantRecord>,
    ) -> StoreFuture<'_, ()> {
        unsupported()
    }

    fn size(&self, _: &SessionId) -> StoreFuture<'_, u64> {
        ready_future(Ok(0))
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        ready_future(Ok(()))
    }

    fn count(&self) -> StoreFuture<'_, u64> {
        ready_future(Ok(0))
    }
}
