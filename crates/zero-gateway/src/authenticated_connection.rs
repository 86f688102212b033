//! A connection after the handshake: its identity, the sessions it watches and the tools it hosts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zero_core::SessionId;
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::ToolList;
use zero_session::key::{SessionAddress, SessionKey};
use zero_session::open_question::QuestionScope;
use zero_session::sessions::{AttachmentGuard, OpenSessionOptions, SessionError, SessionManager};
use zero_session::store::{SessionRecord, StoreError};
use zero_wire::ErrorPayload;
use zero_wire::handshake::ClientInfo;
use zero_wire::method::TokenScope;
use zero_wire::zero_sessions::CAP_EVENTS;

use crate::auth::Principal;
use crate::error_payloads::{to_error_shape, unavailable_error};
use crate::gateway_inner::GatewayInner;
use crate::openclaw_relay::RelayInterest;
use crate::read_limiter::{ReadLimitError, ReadLimiter, ReadPermit};
use crate::remote_tool_backend::RemoteToolBackend;
use crate::send_queue::SendQueue;
use crate::session_watcher::{WatchAudience, WatchHandle, closing_error};

/// Capability of clients that want tool events.
const CAP_TOOLS: &str = "tool-events";
/// Capability of clients that want approval requests.
const CAP_APPROVALS: &str = "exec-approvals";

/// Number of hosted sessions above which entries that another connection took over are removed.
const TAKEN_OVER_MAX: usize = 256;
/// How often to look for approval requests of sessions at other gateways.
const SHARED_APPROVALS_INTERVAL: Duration = Duration::from_secs(1);
/// Number of the client's sessions that are checked for an identical tool list.
const COMPARED_MAX: usize = 4;

/// Result of the handshake.
pub(crate) struct HandshakeOutcome {
    /// The authenticated principal.
    pub(crate) principal: Principal,
    /// The granted scopes: those of the token that the client requested.
    pub(crate) scopes: Vec<TokenScope>,
    /// The negotiated protocol version.
    pub(crate) protocol: u32,
    /// Capabilities of the client.
    pub(crate) caps: Vec<String>,
    /// The client program.
    pub(crate) client: ClientInfo,
    /// Id of the connection.
    pub(crate) conn_id: String,
    /// Id of the paired device that it authenticated as.
    pub(crate) device: Option<String>,
}

/// A session as far as the store can read it.
pub(crate) enum StoredSession {
    /// There is none, or the client may not see it.
    Missing,
    /// It can be read.
    Readable(Box<SessionRecord>),
    /// It is there and damaged; the error says what to do.
    Damaged(ErrorPayload),
}

/// A connection that completed the handshake.
pub(crate) struct AuthenticatedConnection {
    gateway: Arc<GatewayInner>,
    greeting: HandshakeOutcome,
    outbox: SendQueue,
    watch: OnceLock<WatchHandle>,
    hosted: Mutex<HashMap<SessionId, HostedSession>>,
    /// Queue of this connection's expensive reads.
    reads: Arc<Semaphore>,
    disconnected: CancellationToken,
    /// Whether the client is connected to another gateway, which sends this one its request.
    is_forwarded: bool,
}

/// A session whose tools this connection hosts.
struct HostedSession {
    backend: Arc<RemoteToolBackend>,
    _lease: AttachmentGuard,
}

impl AuthenticatedConnection {
    /// Creates the connection state after a successful handshake.
    pub(crate) fn new(
        gateway: Arc<GatewayInner>,
        greeting: HandshakeOutcome,
        outbox: SendQueue,
    ) -> Arc<Self> {
        let client = &greeting.client;
        tracing::debug!(conn = %greeting.conn_id, client = ?client.id, version = %client.version, "greeted");
        Self::make(gateway, greeting, outbox, false)
    }

    /// Creates the state of a client that is connected to another gateway, for one request.
    pub(crate) fn new_forwarded(
        gateway: Arc<GatewayInner>,
        greeting: HandshakeOutcome,
        outbox: SendQueue,
    ) -> Arc<Self> {
        Self::make(gateway, greeting, outbox, true)
    }

    fn make(
        gateway: Arc<GatewayInner>,
        greeting: HandshakeOutcome,
        outbox: SendQueue,
        is_forwarded: bool,
    ) -> Arc<Self> {
        let (watch, hosted) = (OnceLock::new(), Mutex::default());
        let disconnected = CancellationToken::new();
        let reads = ReadLimiter::connection_queue();
        Arc::new(Self {
            gateway,
            greeting,
            outbox,
            watch,
            hosted,
            reads,
            disconnected,
            is_forwarded,
        })
    }

    /// Who the client is.
    pub(crate) fn greeting(&self) -> &HandshakeOutcome {
        &self.greeting
    }

    /// Waits for a permit for an expensive read. Fails if the client disconnects, since the
    /// response would not be read.
    pub(crate) async fn acquire_read_permit(&self) -> Result<ReadPermit, ErrorPayload> {
        let turn = self.gateway.reads.acquire(self.owner(), &self.reads);
        let turn = self.disconnected.run_until_cancelled(turn).await.ok_or_else(closing_error)?;
        turn.map_err(|why| match why {
            ReadLimitError::TooMany { max } => unavailable_error(format!(
                "{max} requests of this owner that read sessions are not answered yet; wait for \
                 some"
            )),
            ReadLimitError::Timeout => unavailable_error(
                "too many read sessions at the moment; try again, or ask for less at a time"
                    .to_owned(),
            ),
        })
    }

    /// Id of the connection.
    pub(crate) fn conn_id(&self) -> &str {
        &self.greeting.conn_id
    }

    /// Cleans up after the connection ended: detaches the tools it hosted and stops its
    /// subscriptions.
    pub(crate) async fn disconnect(self: &Arc<Self>) {
        self.disconnected.cancel();
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// State shared by all connections.
    pub(crate) fn gateway(&self) -> &Arc<GatewayInner> {
        &self.gateway
    }

    /// All sessions of the gateway, not only this client's.
    pub(crate) fn sessions(&self) -> &SessionManager {
        &self.gateway.sessions
    }

    /// Name of the client's token.
    pub(crate) fn name(&self) -> &str {
        &self.greeting.principal.name
    }

    /// Id of the paired device that the client authenticated as.
    pub(crate) fn device(&self) -> Option<&String> {
        self.greeting.device.as_ref()
    }

    /// Owner of the client's sessions.
    pub(crate) fn owner(&self) -> &str {
        let Principal { name, owner, .. } = &self.greeting.principal;
        owner.as_deref().unwrap_or(name)
    }

    /// Whether the connection has this scope.
    pub(crate) fn has_scope(&self, needed: TokenScope) -> bool {
        self.greeting.scopes.iter().any(|scope| scope.covers(needed))
    }

    /// Folders of this machine in which the client's sessions may work.
    pub(crate) fn folder_access(&self) -> FolderAccess {
        self.greeting.principal.folder_access.clone()
    }

    /// Owner whose sessions the client sees; `None` means all sessions.
    pub(crate) fn visible_owner(&self) -> Option<&str> {
        if self.has_scope(TokenScope::Admin) { None } else { Some(self.owner()) }
    }

    /// The open questions that the client sees.
    pub(crate) fn question_scope(&self) -> QuestionScope<'_> {
        self.visible_owner().map_or(QuestionScope::All, QuestionScope::Owner)
    }

    /// Whether the client may see a session.
    pub(crate) fn can_see(&self, session: &SessionRecord) -> bool {
        self.can_see_owner(&session.owner)
    }

    fn can_see_owner(&self, owner: &str) -> bool {
        self.visible_owner().is_none_or(|name| name == owner)
    }

    /// Resolves a session key to a session of the client, or of the owner that is written before it.
    /// If an agent is given as well, it must match the agent in the key.
    pub(crate) fn resolve_key(
        &self,
        written: &str,
        agent: Option<&str>,
    ) -> Result<SessionAddress, ErrorPayload> {
        let (owner, key) = SessionAddress::split_text(written)
            .unwrap_or_else(|| (self.owner().to_owned(), written));
        Ok(SessionAddress { owner, key: parse_key(self.sessions(), key, agent)? })
    }

    /// The key of a session as this client writes it: with the owner, if it is another one's.
    pub(crate) fn key_text(&self, address: &SessionAddress) -> String {
        address.to_text(self.owner())
    }

    /// Returns the session of the client with that label.
    pub(crate) async fn find_session_by_label(
        &self,
        label: &str,
    ) -> Result<Option<SessionRecord>, ErrorPayload> {
        self.sessions().find_by_label(self.owner(), label).await.map_err(to_error_shape)
    }

    /// Returns the session at an address if it exists and the client may see it.
    pub(crate) async fn find_session(
        &self,
        address: &SessionAddress,
    ) -> Result<Option<SessionRecord>, ErrorPayload> {
        let found = self.sessions().get(address).await.map_err(to_error_shape)?;
        Ok(found.filter(|session| self.can_see(session)))
    }

    /// Like [`Self::find_session`], for what can also be done to a damaged session.
    pub(crate) async fn find_stored_session(
        &self,
        address: &SessionAddress,
    ) -> Result<StoredSession, ErrorPayload> {
        if !self.can_see_owner(&address.owner) {
            return Ok(StoredSession::Missing);
        }
        match self.sessions().get(address).await {
            Ok(Some(record)) => Ok(StoredSession::Readable(Box::new(record))),
            Ok(None) => Ok(StoredSession::Missing),
            Err(error @ SessionError::Store(StoreError::Damaged { .. })) => {
                Ok(StoredSession::Damaged(to_error_shape(error)))
            }
            Err(error) => Err(to_error_shape(error)),
        }
    }

    /// Returns the session with an id if it exists and the client may see it.
    pub(crate) async fn find_session_by_id(
        &self,
        id: &SessionId,
    ) -> Result<Option<SessionRecord>, ErrorPayload> {
        let found = self.sessions().store().session_by_id(id).await;
        let found = found.map_err(|error| to_error_shape(error.into()))?;
        Ok(found.filter(|session| self.can_see(session)))
    }

    /// Returns the session at an address. One that the client may not see is reported as not found.
    pub(crate) async fn require_session(
        &self,
        address: &SessionAddress,
    ) -> Result<SessionRecord, ErrorPayload> {
        self.find_session(address).await?.ok_or_else(|| self.session_not_found(address))
    }

    /// Error for a session that does not exist or that the client may not see.
    pub(crate) fn session_not_found(&self, address: &SessionAddress) -> ErrorPayload {
        to_error_shape(SessionError::NotFound(self.key_text(address)))
    }

    /// Returns the session at an address and creates it if necessary. A session of another owner is
    /// not created.
    pub(crate) async fn open_session(
        &self,
        address: &SessionAddress,
    ) -> Result<SessionRecord, ErrorPayload> {
        self.open_session_in(address, None).await
    }

    /// Like [`Self::open_session`]; a new session works in the given folder.
    pub(crate) async fn open_session_in(
        &self,
        address: &SessionAddress,
        cwd: Option<PathBuf>,
    ) -> Result<SessionRecord, ErrorPayload> {
        if address.owner != self.owner() {
            return self.require_session(address).await;
        }
        let options = OpenSessionOptions {
            key: Some(address.key.to_string()),
            owner: address.owner.clone(),
            cwd,
            folder_access: self.folder_access(),
            leave_as_is: true,
            ..OpenSessionOptions::default()
        };
        self.sessions().open(options).await.map_err(to_error_shape)
    }

    /// Subscribes to a session. Returns the sequence number of the last entry before the
    /// subscription.
    pub(crate) async fn watch_session(&self, session: &SessionRecord) -> Result<u64, ErrorPayload> {
        if self.disconnected.is_cancelled() {
            return Err(closing_error());
        }
        if self.is_forwarded {
            let last = self.sessions().store().last_seq(&session.id).await;
            return last.map_err(|error| to_error_shape(error.into()));
        }
        let watch = self.watch.get_or_init(|| {
            let (sessions, outbox) = (self.sessions().clone(), self.outbox.clone());
            let owner = self.owner().to_owned();
            WatchHandle::start(sessions, outbox, self.audience(), owner, self.disconnected.clone())
        });
        watch.watch(session).await
    }

    /// Ends the subscription to a session.
    pub(crate) async fn unwatch_session(&self, session: &SessionId) {
        if let Some(watch) = self.watch.get() {
            watch.unwatch(session).await;
        }
    }

    /// Subscribes to the approval requests of all visible sessions until the connection ends. Used
    /// for clients that may answer approvals but may not read, and so cannot subscribe to a
    /// session.
    pub(crate) async fn watch_approvals(&self) {
        if self.audience() != WatchAudience::Approver {
            return;
        }
        let mut next_id = self.sessions().approvals().subscribe();
        loop {
            next_id.mark_unchanged();
            let pending = self.sessions().pending_approvals(self.question_scope()).await;
            let pending = pending.unwrap_or_else(|error| {
                tracing::warn!(%error, "approvals of parked runs were not delivered");
                self.sessions().approvals().list()
            });
            for pending in pending {
                let sent = match self.find_session_by_id(&pending.session).await {
                    Ok(Some(session)) => self.watch_session(&session).await.map(drop),
                    other => other.map(drop),
                };
                if let Err(error) = sent {
                    let conn = &self.greeting.conn_id;
                    tracing::warn!(%conn, error = %error.message, "an approval was not delivered");
                }
            }
            let is_shared = self.sessions().node_bus().is_some();
            let next = async {
                tokio::select! {
                    changed = next_id.changed() => changed.is_ok(),
                    // The node bus does not announce questions of sessions that are not watched
                    // yet.
                    () = tokio::time::sleep(SHARED_APPROVALS_INTERVAL), if is_shared => true,
                }
            };
            if self.disconnected.run_until_cancelled(next).await != Some(true) {
                return;
            }
        }
    }

    fn audience(&self) -> WatchAudience {
        let can = |cap: &str| self.greeting.caps.iter().any(|known| known == cap);
        if !self.has_scope(TokenScope::Read)
            && self.has_scope(TokenScope::Approvals)
            && can(CAP_APPROVALS)
        {
            return WatchAudience::Approver;
        }
        if can(CAP_EVENTS) {
            return WatchAudience::Ledger;
        }
        let approvals = can(CAP_APPROVALS) && self.has_scope(TokenScope::Approvals);
        WatchAudience::OpenClaw(RelayInterest { tools: can(CAP_TOOLS), approvals })
    }

    /// Creates a tool backend that sends calls to this connection.
    pub(crate) fn new_backend(
        &self,
        session: &SessionRecord,
        host: &str,
        comes_back_within: Duration,
    ) -> Arc<RemoteToolBackend> {
        let (outbox, gone) = (self.outbox.clone(), self.disconnected.child_token());
        let silence_max = self.gateway.limits.tool_host_silence_max;
        let owner = self.owner();
        let backend = RemoteToolBackend::new(
            session,
            owner,
            host,
            outbox,
            gone,
            comes_back_within,
            silence_max,
        );
        if self.sessions().node_bus().is_some() {
            backend.accept_kept_outcomes();
        }
        backend
    }

    /// Records that this connection hosts the tools of a session.
    pub(crate) fn host_session(
        &self,
        session: SessionId,
        backend: Arc<RemoteToolBackend>,
        lease: AttachmentGuard,
    ) -> Result<(), ErrorPayload> {
        let mut hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked under the lock that `disconnect` takes after cancelling `gone`, so no attachment
        // outlives the connection.
        if self.disconnected.is_cancelled() {
            return Err(closing_error());
        }
        hosted.insert(session, HostedSession { backend, _lease: lease });
        Ok(())
    }

    /// Number of sessions whose tools this connection hosts. Removes entries that were taken over
    /// once there are many.
    pub(crate) fn hosted_count(&self) -> usize {
        let mut hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        if hosted.len() >= TAKEN_OVER_MAX {
            hosted.retain(|_, hosted| hosted.backend.is_attached());
        }
        hosted.len()
    }

    /// The backend of a session hosted here.
    pub(crate) fn hosted_backend(&self, session: &SessionId) -> Option<Arc<RemoteToolBackend>> {
        let hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        hosted.get(session).map(|hosted| Arc::clone(&hosted.backend))
    }

    /// The backend of the session at this address. `None` if several hosted sessions have had it,
    /// since only the store knows which one is current.
    pub(crate) fn hosted_backend_at(
        &self,
        address: &SessionAddress,
    ) -> Option<Arc<RemoteToolBackend>> {
        let key = self.key_text(address);
        let hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_key = hosted.values().filter(|hosted| hosted.backend.session_key() == key);
        let only = of_key.next()?;
        of_key.next().is_none().then(|| Arc::clone(&only.backend))
    }

    /// Returns the equal tool list of another session of this client if there is one, to share its
    /// memory. Most sessions offer the same tools.
    pub(crate) fn share_tools(&self, tools: ToolList) -> ToolList {
        let hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others =
            hosted.values().take(COMPARED_MAX).filter_map(|hosted| hosted.backend.offered_tools());
        others.find(|others| *others == tools).unwrap_or(tools)
    }

    /// Stops hosting the tools of the sessions that have or had this address.
    pub(crate) fn stop_hosting_at(&self, address: &SessionAddress) {
        let key = self.key_text(address);
        let mut hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, left) in hosted.extract_if(|_, hosted| hosted.backend.session_key() == key) {
            left.backend.stop_hosting();
        }
    }

    /// Stops hosting the tools of a session.
    pub(crate) fn stop_hosting(&self, session: &SessionId) {
        let left = self.hosted.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        if let Some(left) = left {
            left.backend.stop_hosting();
        }
    }
}

/// Parses a session key. If an agent is given as well, it must match the agent in the key; a bare
/// key is put under that agent.
fn parse_key(
    sessions: &SessionManager,
    written: &str,
    agent: Option<&str>,
) -> Result<SessionKey, ErrorPayload> {
    agent_key(written, agent, sessions.agents().default_id()).map_err(ErrorPayload::invalid)
}

fn agent_key(written: &str, agent: Option<&str>, default: &str) -> Result<SessionKey, String> {
    let agent = agent.map(str::to_lowercase);
    let under = agent.as_deref().unwrap_or(default);
    if !zero_session::key::is_agent_id(under) {
        return Err(format!("`{}` is not an agent id", under.escape_debug()));
    }
    let key = SessionKey::resolve(written, under).map_err(|error| error.to_string())?;
    match agent {
        Some(agent) if agent != key.agent() => Err(format!(
            "agentId \"{agent}\" does not match session key \"{key}\"; leave one of both out"
        )),
        _ => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, agent: Option<&str>, expected: &str) {
        let key = agent_key(written, agent, "main").map(|key| key.to_string());
        assert_eq!(key.unwrap_or_else(|error| error), expected, "{written} {agent:?}");
    }

    #[test]
    fn agent_param_must_match_key() {
        check("main", None, "agent:main:main");
        check("bug", Some("QA"), "agent:qa:bug");
        check("agent:qa:bug", Some("qa"), "agent:qa:bug");
        let mismatch =
            "agentId \"main\" does not match session key \"agent:qa:bug\"; leave one of both out";
        check("agent:qa:bug", Some("main"), mismatch);
        check("bug", Some("q a"), "`q a` is not an agent id");
        check("bug", Some(""), "`` is not an agent id");
    }
}
