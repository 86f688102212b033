//! [`McpServiceHandler`], which answers the requests of one client.

use std::sync::{Arc, OnceLock};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, DiscoverResult, ErrorCode,
    InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};
use zero_core::{ErrorReason, ToolError};
use zero_runtime::ToolHostSession;

use super::McpServiceState;
use super::call_router::ElicitationSupport;
use super::client_sessions::{LazySession, session_id};
use super::mcp_format::{self, StructuredContentMode};
use super::parked_calls::{ParkedRequest, ResumeOutcome};
use super::progress::ProgressReporter;
use super::running_call::{CallSetup, CallStep, RunningCall, send_question};
use super::tool_list::mask_tools;

/// How long a client may cache the tool list, in milliseconds. Subscribers are notified of changes
/// immediately.
const LIST_TTL_MS: u64 = 30_000;

/// Serves one client: a connection, or over HTTP also a single request.
pub(super) struct McpServiceHandler {
    server: Arc<McpServiceState>,
    /// Set for a client with a handshake.
    handshake_client: OnceLock<HandshakeClient>,
}

struct HandshakeClient {
    session: LazySession,
    disconnected: CancellationToken,
    _gone: DropGuard,
    _permit: OwnedSemaphorePermit,
}

/// The two protocols, which differ in how a request can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolStyle {
    /// With a handshake, and requests in both directions.
    Handshake,
    /// Each request is independent; questions to the client are part of a result.
    Stateless,
}

impl ProtocolStyle {
    fn detect(cx: &RequestContext<RoleServer>) -> Self {
        match cx.protocol_version() {
            Some(version) if !version.has_initialize() => Self::Stateless,
            _ => Self::Handshake,
        }
    }
}

impl McpServiceHandler {
    pub(super) fn new(server: Arc<McpServiceState>) -> Self {
        Self { server, handshake_client: OnceLock::new() }
    }

    async fn session(&self) -> Result<Arc<ToolHostSession>, ToolError> {
        let session = self
            .handshake_client
            .get()
            .map_or(&self.server.stateless_session, |handshake_client| &handshake_client.session);
        session.get(&self.server.host, &self.server.sessions).await
    }

    /// Returns a token that is cancelled when the client has ended its session.
    fn session_end_token(&self, cx: &RequestContext<RoleServer>) -> CancellationToken {
        let Some(handshake_client) = self.handshake_client.get() else {
            return CancellationToken::new();
        };
        let http = cx.extensions.get::<http::request::Parts>();
        if let Some(session) = http.and_then(|head| session_id(&head.headers)) {
            self.server.http_sessions.register(session, &handshake_client.disconnected);
        }
        handshake_client.disconnected.clone()
    }

    /// Starts a call, or resumes the one that an answer belongs to.
    async fn begin_call(
        &self,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Result<CallAdmission, ToolError>, ErrorData> {
        let tool = request.name.into_owned();
        let arguments = request.arguments.unwrap_or_default();
        let protocol_style = ProtocolStyle::detect(cx);
        if let (Some(state), ProtocolStyle::Stateless) = (&request.request_state, protocol_style) {
            let parked_request = ParkedRequest { tool, arguments };
            let resumed = self.server.pending.resume(
                state,
                parked_request,
                request.input_responses.as_ref(),
            )?;
            return Ok(Ok(match resumed {
                ResumeOutcome::Running(running, wish) => CallAdmission::Running {
                    tool: wish.tool.clone(),
                    running,
                    parked_request: Some(wish),
                },
                ResumeOutcome::AskAgain(question) => CallAdmission::Asked(question.into()),
            }));
        }
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => return Ok(Err(error.with_tool(&tool))),
        };
        let version = cx.protocol_version();
        let elicitation_support = match (protocol_style, self.handshake_client.get()) {
            // The protocol has requests in both directions, but this client has no connection for
            // them.
            (ProtocolStyle::Handshake, None) => {
                ElicitationSupport::from_capabilities(version.as_ref(), None)
            }
            _ => ElicitationSupport::from_capabilities(
                version.as_ref(),
                cx.client_capabilities().as_ref(),
            ),
        };
        // The original request is needed only for a stateless client that can be asked.
        let wish = (protocol_style == ProtocolStyle::Stateless && elicitation_support.can_elicit())
            .then(|| ParkedRequest { tool: tool.clone(), arguments: arguments.clone() });
        let start = CallSetup {
            host: Arc::clone(&self.server.host),
            dialect: Arc::clone(&self.server.dialect),
            session,
            router: Arc::clone(&self.server.router),
            elicitation_support,
            stop: self.server.stop.child_token(),
            running: self.server.running.subscribe(),
        };
        let running = RunningCall::start(start, tool.clone(), arguments);
        Ok(Ok(CallAdmission::Running { tool, running, parked_request: wish }))
    }

    /// Follows a call until its result, or until a question that ends the request.
    async fn finish_call(
        &self,
        tool: &str,
        mut running: RunningCall,
        request: Option<ParkedRequest>,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut reporter = ProgressReporter::new(cx.peer.clone(), cx.meta.get_progress_token());
        loop {
            match (running.next_step(&mut reporter).await, request.is_some()) {
                (CallStep::Done(report), _) => {
                    let outcome = report.and_then(|report| report.outcome);
                    return match outcome {
                        Ok(outcome) => {
                            let called = (self.server.dialect.name(), tool);
                            let structured = self.structured_mode(tool);
                            Ok(mcp_format::to_call_result(called, outcome.result, structured)
                                .into())
                        }
                        Err(error) => failed_call_response(error),
                    };
                }
                (CallStep::Asked(ask), false) => send_question(&cx.peer, ask).await,
                (CallStep::Asked(ask), true) => {
                    let parked = request.and_then(|parked_request| {
                        self.server.pending.park(running, ask, parked_request)
                    });
                    return match parked {
                        Some(question) => Ok(question.into()),
                        None => failed_call_response(ToolError::failed(
                            ErrorReason::QueueFull,
                            format!("{} calls wait for an answer already; answer one of them, or try again later", self.server.limits.pending_max),
                        ).with_tool(tool)),
                    };
                }
            }
        }
    }

    fn structured_mode(&self, tool: &str) -> StructuredContentMode {
        let listed = self.server.listing.snapshot();
        match listed.get(tool).is_some_and(|tool| tool.output_schema.is_some()) {
            true => StructuredContentMode::Promised,
            false => StructuredContentMode::Absent,
        }
    }
}

/// A call that was accepted.
enum CallAdmission {
    Running { tool: String, running: RunningCall, parked_request: Option<ParkedRequest> },
    Asked(CallToolResponse),
}

/// Converts a failed call. An unknown tool is a protocol error; every other error is a result that
/// the model reads.
fn failed_call_response(error: ToolError) -> Result<CallToolResponse, ErrorData> {
    if error.reason() == Some(ErrorReason::UnknownTool) {
        return Err(ErrorData::invalid_params(error.message, None));
    }
    Ok(mcp_format::to_error_result(error).into())
}

impl ServerHandler for McpServiceHandler {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        self.server.info.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let Ok(permit) = Arc::clone(&self.server.clients).try_acquire_owned() else {
            let message = format!(
                "{} clients are connected already; disconnect one, or try again later",
                self.server.limits.sessions_max
            );
            return Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None));
        };
        let answer = self.negotiate_initialize(&request)?;
        cx.peer.set_peer_info(request);
        let disconnected = CancellationToken::new();
        let guard = disconnected.clone().drop_guard();
        let handshake_client = HandshakeClient {
            session: LazySession::default(),
            disconnected,
            _gone: guard,
            _permit: permit,
        };
        // A second handshake on one connection keeps the session of the first.
        let _ = self.handshake_client.set(handshake_client);
        Ok(answer)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        // Versions with a handshake are negotiated by it, so they are not listed here.
        let versions = ProtocolVersion::KNOWN_VERSIONS.iter();
        let versions = versions.filter(|version| !version.has_initialize()).cloned().collect();
        let result = DiscoverResult::from_server_info(versions, self.server.info.clone());
        Ok(result.with_ttl_ms(LIST_TTL_MS))
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let Some(handshake_client) = self.handshake_client.get() else { return };
        let (server, gone) = (Arc::clone(&self.server), handshake_client.disconnected.clone());
        tokio::spawn(announce_list_changes(server, gone, cx.peer));
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            let message =
                "there is no such page: all tools are on the first one; list without a cursor";
            return Err(ErrorData::invalid_params(message, None));
        }
        let mask = self.server.host.secrets().current_mask().await;
        let tools = mask_tools(&self.server.listing.snapshot().tools, &mask);
        let mut result = ListToolsResult::with_all_items(tools);
        if ProtocolStyle::detect(&cx) == ProtocolStyle::Stateless {
            result.meta = Some(self.server.server_meta.clone());
            result = result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
        }
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.listing.snapshot().get(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_permit) = self.server.calls.try_acquire() else {
            let message = format!(
                "{} calls are running already; wait for one of them",
                self.server.limits.calls_max
            );
            let error = ToolError::failed(ErrorReason::QueueFull, message).with_tool(&request.name);
            return failed_call_response(error);
        };
        let disconnected = self.session_end_token(&cx);
        let call = async {
            match self.begin_call(request, &cx).await? {
                Ok(CallAdmission::Running { tool, running, parked_request: wish }) => {
                    self.finish_call(&tool, running, wish, &cx).await
                }
                Ok(CallAdmission::Asked(question)) => Ok(question),
                Err(error) => failed_call_response(error),
            }
        };
        // Dropping a call ends it. No client waits for the response in that case.
        let mut response = tokio::select! {
            biased;
            () = cx.ct.cancelled() => failed_call_response(ToolError::cancelled()),
            response = call => response,
            () = self.server.stop.cancelled() => failed_call_response(ToolError::cancelled()),
            () = disconnected.cancelled() => failed_call_response(ToolError::cancelled()),
        }?;
        if let (CallToolResponse::Complete(result), ProtocolStyle::Stateless) =
            (&mut response, ProtocolStyle::detect(&cx))
        {
            result.meta = Some(self.server.server_meta.clone());
        }
        Ok(response)
    }

    fn accepted_subscription_filter(
        &self,
        filter: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let tools = SubscriptionFilter::builder().tools_list_changed().build();
        Some(filter.intersection(&tools))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_permit) = self.server.listeners.try_acquire() else {
            let message =
                "too many subscriptions are open already; end one, or list again from time to time";
            return Err(ErrorData::internal_error(message, None));
        };
        let mut changes = self.server.changes.clone();
        changes.mark_unchanged();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = self.server.stop.cancelled() => return Ok(()),
                change = changes.changed() => {
                    let notified = subscription.sink().notify_tool_list_changed();
                    if change.is_err() || notified.await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Notifies a client with a handshake of list changes, as long as it is connected.
async fn announce_list_changes(
    server: Arc<McpServiceState>,
    disconnected: CancellationToken,
    peer: Peer<RoleServer>,
) {
    let (mut changes, stop) = (server.changes.clone(), server.stop.clone());
    // This task must not keep the server's state, and with it the client's session, alive.
    drop(server);
    changes.mark_unchanged();
    loop {
        tokio::select! {
            () = disconnected.cancelled() => return,
            () = stop.cancelled() => return,
            change = changes.changed() => {
                if change.is_err() || peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
