//! Serves the tools without an agent, for programs that bring their own.
//!
//! One JSON-RPC message per line. Each `sessionId` has a tool host of its own, which is opened on
//! first use. Permission questions go to the caller.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_client_protocol::v1::schema::{self, ClientCapabilities};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::{Instant, sleep};
use zero_core::SessionId;
use zero_runtime::GrantRecord;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::CallApprover;
use zero_runtime::{ApprovalAnswer, ApprovalQuestion, ApprovalSubject, DialectName};

use crate::acp_server::{self, AcpServeError, ConnectionHandler};
use crate::client_approver::ClientApprover;
use crate::client_calls::{
    self, CallGuard, CallTable, CallTarget, ClientCalls, MethodPrefix, ToolCancelParams,
    ToolListParams, ToolMethod, ToolUseParams,
};
use crate::client_features::ClientFeatures;
use crate::client_handle::ClientHandle;
use crate::client_questions::ClientQuestions;
use crate::line_transport::WriteBacklog;
use crate::rpc_error;
use crate::session_message::{SessionMessage, SessionSender};
use crate::tool_host_factory::{ToolHostFactory, ToolHostRequest};
use crate::update_presenter::UpdatePresenter;

/// Most open sessions.
const SESSIONS_MAX: usize = 64;
/// Longest session id, in bytes.
const ID_BYTES_MAX: usize = 256;
/// The session of calls that name none.
const DEFAULT_SESSION: &str = "default";
/// Longest wait for calls to end after the caller disconnected.
const END_MAX: Duration = Duration::from_secs(10);
/// Interval of the check whether they have ended.
const END_STEP: Duration = Duration::from_millis(10);

/// Configuration of the tool server.
pub struct ToolServerConfig {
    /// Creates the tool hosts of sessions.
    pub tool_hosts: Arc<dyn ToolHostFactory>,
    /// The working folder.
    pub cwd: PathBuf,
    /// Additional folders.
    pub additional: Vec<PathBuf>,
    /// The dialect of tool names, unless the caller chooses another.
    pub dialect: DialectName,
    /// How permission questions are answered.
    pub permissions: ToolServerApproval,
}

/// How permission questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolServerApproval {
    /// The caller is asked.
    Ask,
    /// Every call is allowed in advance.
    AllowAll,
}

/// Serves one caller on a pair of streams, until it disconnects.
pub async fn serve_tools(
    config: ToolServerConfig,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), AcpServeError> {
    let gauge = WriteBacklog::default();
    let service = Arc::new(ToolServer::new(config, gauge.clone()));
    acp_server::serve_until_closed(
        "zero tools",
        gauge,
        Arc::clone(&service),
        service.stop_all(),
        input,
        output,
    )
    .await
}

struct ToolServer {
    config: ToolServerConfig,
    gauge: WriteBacklog,
    to_client: OnceLock<ClientHandle>,
    caps: Mutex<ClientFeatures>,
    sessions: Mutex<HashMap<String, SessionCell>>,
    own_calls: Arc<CallTable>,
}

/// A session that is open or being opened.
type SessionCell = Arc<OnceCell<ToolSession>>;

/// A registered call and its session.
type RegisteredCall = (ClientCalls, CallGuard, SessionCell);

/// A tool backend, and the task that asks its questions.
struct ToolSession {
    call_target: CallTarget,
    /// Aborts the task, which releases everyone who waits for an answer.
    question_task: tokio::task::AbortHandle,
}

impl Drop for ToolSession {
    fn drop(&mut self) {
        self.question_task.abort();
    }
}

/// Parameters of a request to close a session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionCloseParams {
    session_id: String,
}

impl ConnectionHandler for ToolServer {
    fn set_connection(&self, connection: ConnectionTo<Client>) {
        self.to_client.get_or_init(|| ClientHandle::new(connection, self.gauge.clone()));
    }

    fn handle_request(self: &Arc<Self>, method: &str, params: Value, responder: Responder<Value>) {
        let service = Arc::clone(self);
        let answer = match (method, ToolMethod::parse(method)) {
            ("initialize", _) => Ok(self.initialize(&params)),
            ("tools/close" | "_zero/tools/close", _) => self.close_session(params),
            (_, Some((ToolMethod::Result, _))) => Ok(json!({})),
            (_, Some((ToolMethod::Cancel, _))) => self.cancel_call(params),
            (_, Some((ToolMethod::List, _))) => {
                tokio::spawn(async move {
                    let _ = responder.respond_with_result(service.list_tools(params).await);
                });
                return;
            }
            (_, Some((ToolMethod::Use, spelling))) => match ToolUseParams::from_params(params) {
                Err(error) => Err(error),
                Ok(request) => {
                    let noted = self.register_call(&request);
                    let taken_back = responder.cancellation();
                    tokio::spawn(async move {
                        let unasked = async move { taken_back.cancelled().await };
                        let made = service.run_call(noted, spelling, request, unasked).await;
                        let _ = responder.respond_with_result(made);
                    });
                    return;
                }
            },
            (_, None) => Err(rpc_error::unknown_method()),
        };
        let _ = responder.respond_with_result(answer);
    }

    fn handle_notification(self: &Arc<Self>, method: &str, params: Value) {
        match (method, ToolMethod::parse(method)) {
            ("tools/close" | "_zero/tools/close", _) => drop(self.close_session(params)),
            (_, Some((ToolMethod::Cancel, _))) => drop(self.cancel_call(params)),
            (_, Some((ToolMethod::Use, spelling))) => {
                let (Ok(request), Some(calls)) =
                    (ToolUseParams::from_params(params), self.client_calls())
                else {
                    tracing::warn!("ignored an invalid tool call notification");
                    return;
                };
                let (service, noted) = (Arc::clone(self), self.register_call(&request));
                tokio::spawn(async move {
                    let names = (request.session_id.clone(), request.tool_call_id.clone());
                    let made =
                        service.run_call(noted, spelling, request, std::future::pending()).await;
                    calls.send_result(names, spelling, made).await;
                });
            }
            _ => {}
        }
    }
}

impl ToolServer {
    fn new(config: ToolServerConfig, gauge: WriteBacklog) -> Self {
        let (to_client, caps, sessions, own_calls) = Default::default();
        Self { config, gauge, to_client, caps, sessions, own_calls }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, SessionCell>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Optional for callers. Capabilities are used as far as they can be parsed.
    fn initialize(&self, params: &Value) -> Value {
        let capabilities = params.get("clientCapabilities").cloned().unwrap_or(Value::Null);
        let capabilities: ClientCapabilities =
            serde_json::from_value(capabilities).unwrap_or_default();
        *self.caps.lock().unwrap_or_else(PoisonError::into_inner) =
            ClientFeatures::from_capabilities(&capabilities);
        json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "zero", "title": "zero tools", "version": env!("CARGO_PKG_VERSION")},
            "agentCapabilities": {"_meta": {"zero": {"tools": {
                "version": 1, "list": true, "use": true, "legacyNames": true,
                "dialect": self.config.dialect.as_str(),
            }}}},
        })
    }

    fn close_session(&self, params: Value) -> Result<Value, Error> {
        let target: SessionCloseParams = rpc_error::parse_params("tools/close", params)?;
        self.own_calls.cancel_all(&target.session_id);
        // Dropping the tool host ends the processes that it started.
        match self.sessions().remove(&target.session_id) {
            Some(_) => Ok(json!({})),
            None => Err(session_not_found(&target.session_id)),
        }
    }

    fn cancel_call(&self, params: Value) -> Result<Value, Error> {
        let target: ToolCancelParams = rpc_error::parse_params("tools/cancel", params)?;
        self.own_calls.cancel(&target.session_id, &target.tool_call_id);
        Ok(json!({}))
    }

    async fn list_tools(&self, params: Value) -> Result<Value, Error> {
        let params = ToolListParams::from_params(params)?;
        let dialect = params.dialect(self.config.dialect)?;
        let id = params.session_id.as_deref().unwrap_or(DEFAULT_SESSION);
        let call_target = self.call_target(id, &self.session_cell(id)?).await?;
        client_calls::list_tools(&call_target, dialect).await
    }

    /// Registers a call and its session before the next message is handled, so that closing the
    /// session cancels the call, also while the session is still being opened.
    fn register_call(&self, request: &ToolUseParams) -> Result<RegisteredCall, Error> {
        let calls =
            self.client_calls().ok_or_else(|| rpc_error::bad_request("say something first"))?;
        let guard = calls.register_call(request)?;
        let cell = self.session_cell(&request.session_id)?;
        Ok((calls, guard, cell))
    }

    async fn run_call(
        &self,
        noted: Result<RegisteredCall, Error>,
        spelling: MethodPrefix,
        request: ToolUseParams,
        unasked: impl Future<Output = ()> + Send,
    ) -> Result<Value, Error> {
        let (calls, guard, cell) = noted?;
        let id = request.session_id.clone();
        calls.run_call(guard, self.call_target(&id, &cell), spelling, request, unasked).await
    }

    fn client_calls(&self) -> Option<ClientCalls> {
        Some(ClientCalls::new(self.to_client.get()?.clone(), Arc::clone(&self.own_calls)))
    }

    /// The cell of a session, which is filled on first use.
    fn session_cell(&self, id: &str) -> Result<SessionCell, Error> {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            let message = format!("`sessionId` has to have between 1 and {ID_BYTES_MAX} bytes");
            return Err(rpc_error::invalid_params(message));
        }
        let mut sessions = self.sessions();
        if !sessions.contains_key(id) && sessions.len() >= SESSIONS_MAX {
            let message = format!("{SESSIONS_MAX} sessions are open; close one by `tools/close`");
            return Err(rpc_error::bad_request(message));
        }
        Ok(Arc::clone(sessions.entry(id.to_owned()).or_default()))
    }

    /// The backend of a session, which is opened on first use.
    async fn call_target(&self, id: &str, cell: &SessionCell) -> Result<CallTarget, Error> {
        let opened = cell.get_or_try_init(|| self.open_session(id)).await;
        opened.map(|session| session.call_target.clone()).inspect_err(|_| {
            // A session that failed to open must not count against the limit.
            let mut sessions = self.sessions();
            if sessions.get(id).is_some_and(|now| Arc::ptr_eq(now, cell) && !now.initialized()) {
                sessions.remove(id);
            }
        })
    }

    async fn open_session(&self, id: &str) -> Result<ToolSession, Error> {
        let Some(to_client) = self.to_client.get().cloned() else {
            return Err(rpc_error::bad_request("say something first"));
        };
        let ToolServerConfig { tool_hosts, cwd, additional, dialect, permissions } = &self.config;
        let (sender, messages) = SessionSender::new();
        let asker = Arc::new(ClientApprover { sender: sender.clone() });
        let approver: Arc<dyn CallApprover> = match permissions {
            ToolServerApproval::Ask => Arc::clone(&asker) as _,
            ToolServerApproval::AllowAll => Arc::new(PreapprovedCalls),
        };
        let order = ToolHostRequest {
            session: SessionId::from_bits(fastrand::u128(..)),
            cwd: cwd.clone(),
            additional: additional.clone(),
            mode: None,
            approver,
            elicitor: asker,
            editor: None,
            servers: Vec::new(),
            tools: Vec::new(),
            result_lifetime: ResultLifetime::Process,
        };
        let opened = tool_hosts
            .open(order)
            .await
            .map_err(|error| rpc_error::from_tool_host_error(&error))?;
        let caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = schema::SessionId::new(id.to_owned());
        let questions =
            ClientQuestions::new(session, None, to_client, caps.clone(), sender, Arc::default());
        let presenter = UpdatePresenter::new(caps, cwd.clone());
        let (call_table, id) = (Arc::clone(&self.own_calls), id.to_owned());
        let question_task =
            tokio::spawn(serve_questions(messages, questions, presenter, call_table, id))
                .abort_handle();
        let call_target =
            CallTarget { backend: opened.backend, session_sender: None, dialect: *dialect };
        Ok(ToolSession { call_target, question_task })
    }

    /// Stops all calls and waits a moment for them to end.
    async fn stop_all(&self) {
        let ids: Vec<String> = self.sessions().keys().cloned().collect();
        for id in &ids {
            self.own_calls.cancel_all(id);
        }
        let deadline = Instant::now() + END_MAX;
        while !self.own_calls.is_idle() && Instant::now() < deadline {
            sleep(END_STEP).await;
        }
        self.sessions().clear();
    }
}

/// Asks the questions of a session at the caller. Other messages about calls are ignored: the calls
/// report them.
async fn serve_questions(
    mut messages: mpsc::Receiver<SessionMessage>,
    mut questions: ClientQuestions,
    mut presenter: UpdatePresenter,
    call_table: Arc<CallTable>,
    session: String,
) {
    while let Some(message) = messages.recv().await {
        match message {
            // A call that was cancelled in the meantime asks nothing.
            SessionMessage::RequestApproval(asked)
                if call_table.is_cancelled(&session, &asked.request.call) => {}
            SessionMessage::RequestApproval(asked) => {
                let (_, call) = presenter.present_approval(&asked.request);
                questions.ask_local_permission(*asked, call);
            }
            SessionMessage::Elicit(elicited) => questions.elicit(*elicited),
            SessionMessage::ShowChoice { question, message, shown } => {
                let _ = shown.send(presenter.present_choice(&question, &message).1);
            }
            SessionMessage::ChoiceEnded { question, answer } => {
                drop(presenter.resolve_question(&question, answer))
            }
            // The user cancelled instead of answering.
            SessionMessage::CancelAll => {
                // Withdraw first: a call that releases its question would let the next one be
                // asked.
                let withdrawn = questions.withdraw_all();
                call_table.cancel_all(&session);
                drop(withdrawn);
            }
            _ => {}
        }
    }
}

fn session_not_found(id: &str) -> Error {
    Error::new(
        agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND,
        "no such session is open; `tools/use` opens one",
    )
    .data(json!({"sessionId": id}))
}

/// Allows every call, but no connection to a host that the user has not seen.
struct PreapprovedCalls;

impl CallApprover for PreapprovedCalls {
    fn name(&self) -> &str {
        "--yes"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn unattended_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        let is_connection = question.subject == ApprovalSubject::Connection;
        is_connection.then(|| "`--yes` does not cover hosts that the user has not seen".to_owned())
    }

    fn ask<'a>(
        &'a self,
        _call: &'a str,
        _question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }

    fn store_grants(&self, _grants: Vec<GrantRecord>) {}
}
