//! The ACP agent: dispatches the requests and notifications of one client.
//!
//! Requests are read in order and answered concurrently, so a slow request does not delay the next
//! one. Messages for a session go to that session's task, in the order of arrival.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_client_protocol::v1::schema::{CancelNotification, InitializeRequest, PromptRequest};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::acp_server::{self, AcpServeError, ConnectionHandler};
use crate::client_calls::{CallTable, ToolMethod};
use crate::client_features::ClientFeatures;
use crate::client_handle::ClientHandle;
use crate::client_tool_methods;
use crate::client_tools::{ClientToolSet, PendingToolCalls};
use crate::config::{AcpConfig, DisconnectPolicy};
use crate::handshake;
use crate::line_transport::WriteBacklog;
use crate::login;
use crate::prompt_content;
use crate::rpc_error;
use crate::session::ActiveSession;
use crate::session_message::{PromptMessage, SessionMessage};
use crate::session_methods;
use crate::session_setup::PreparedSession;

/// Longest wait for a session to close.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Serves one client on a pair of streams, until the client disconnects.
pub async fn serve(
    config: AcpConfig,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), AcpServeError> {
    let gauge = WriteBacklog::default();
    let agent = Arc::new(AcpAgent::new(config, gauge.clone()));
    acp_server::serve_until_closed(
        "zero",
        gauge,
        Arc::clone(&agent),
        agent.close_all_sessions(),
        input,
        output,
    )
    .await
}

/// The ACP agent of one client connection, with the sessions it has open.
pub(crate) struct AcpAgent {
    pub(crate) config: AcpConfig,
    gauge: WriteBacklog,
    to_client: OnceLock<ClientHandle>,
    /// The client's capabilities, set by `initialize`.
    caps: Mutex<Option<ClientFeatures>>,
    sessions: Mutex<HashMap<String, Arc<ActiveSession>>>,
    /// The tools that the client provides, set by `initialize`.
    client_tools: Mutex<Arc<ClientToolSet>>,
    /// Calls of these tools that wait for their result.
    pub(crate) tool_calls: PendingToolCalls,
    /// Tool calls that the client makes itself.
    pub(crate) own_calls: Arc<CallTable>,
    /// Held while a session is opened, so that two sessions with the same key get different ids. Not
    /// held while its history is sent, which takes as long as the client likes.
    pub(crate) opening: tokio::sync::Mutex<()>,
    /// Ids of the sessions whose history is being sent.
    loading: Mutex<HashSet<String>>,
    /// Keys and labels of the sessions that were reset by default.
    reset_done: Mutex<HashSet<SessionName>>,
}

/// Key and label that a session is opened by.
pub(crate) type SessionName = (Option<String>, Option<String>);

/// The id of a session whose history is being sent; it is free again when this is dropped.
pub(crate) struct LoadReservation {
    agent: Arc<AcpAgent>,
    id: String,
}

impl Drop for LoadReservation {
    fn drop(&mut self) {
        self.agent.loading().remove(&self.id);
    }
}

impl ConnectionHandler for AcpAgent {
    fn set_connection(&self, connection: ConnectionTo<Client>) {
        self.to_client.get_or_init(|| ClientHandle::new(connection, self.gauge.clone()));
    }

    fn handle_request(self: &Arc<Self>, method: &str, params: Value, responder: Responder<Value>) {
        tracing::debug!(method, "client request");
        let has_begun = self.caps.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !has_begun && method != "initialize" {
            let _ =
                responder.respond_with_error(rpc_error::bad_request("`initialize` comes first"));
            return;
        }
        let agent = Arc::clone(self);
        match method {
            "initialize" => send_response(responder, self.initialize(params)),
            "session/prompt" => self.handle_prompt(params, responder),
            "authenticate" => spawn_response(responder, login::authenticate(agent, params)),
            "session/new" => spawn_response(responder, session_methods::new_session(agent, params)),
            "session/load" => {
                spawn_response(responder, session_methods::load_session(agent, params))
            }
            "session/resume" => {
                spawn_response(responder, session_methods::resume_session(agent, params))
            }
            "session/fork" => {
                spawn_response(responder, session_methods::fork_session(agent, params))
            }
            "session/list" => {
                spawn_response(responder, session_methods::list_sessions(agent, params))
            }
            "session/delete" => {
                spawn_response(responder, session_methods::delete_session(agent, params))
            }
            "session/close" => {
                spawn_response(responder, session_methods::close_session(agent, params))
            }
            "session/set_mode" => {
                spawn_response(responder, session_methods::set_mode(agent, params))
            }
            "session/set_config_option" => {
                spawn_response(responder, session_methods::set_option(agent, params))
            }
            _ => match ToolMethod::parse(method) {
                Some(method) => {
                    client_tool_methods::handle_request(&agent, method, params, responder)
                }
                None => {
                    let _ = responder.respond_with_error(rpc_error::unknown_method());
                }
            },
        }
    }

    /// Handles a notification; unknown methods are ignored.
    fn handle_notification(self: &Arc<Self>, method: &str, params: Value) {
        tracing::debug!(method, "client notification");
        match method {
            "session/cancel" => {
                let notification = rpc_error::parse_params::<CancelNotification>(method, params);
                let active =
                    notification.and_then(|cancel| self.find_session(&cancel.session_id.0));
                let Ok(active) = active else { return };
                active.stops.cancel_all();
                // A prompt that arrives after this cancel must not be cancelled by it.
                if let Err(message) = active.sender.try_send(SessionMessage::CancelAll) {
                    tokio::spawn(async move { active.sender.send(message).await });
                }
            }
            _ => client_tool_methods::handle_notification(self, method, params),
        }
    }
}

impl AcpAgent {
    fn new(config: AcpConfig, gauge: WriteBacklog) -> Self {
        Self {
            config,
            gauge,
            to_client: OnceLock::new(),
            caps: Mutex::default(),
            sessions: Mutex::default(),
            client_tools: Mutex::default(),
            tool_calls: PendingToolCalls::default(),
            own_calls: Arc::default(),
            opening: tokio::sync::Mutex::default(),
            loading: Mutex::default(),
            reset_done: Mutex::default(),
        }
    }

    /// Marks a session as one whose history is being sent.
    pub(crate) fn start_loading(self: &Arc<Self>, id: &str) -> LoadReservation {
        self.loading().insert(id.to_owned());
        LoadReservation { agent: Arc::clone(self), id: id.to_owned() }
    }

    /// Ids of the sessions whose history is being sent.
    pub(crate) fn loading(&self) -> MutexGuard<'_, HashSet<String>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys and labels of the sessions that were reset by default.
    pub(crate) fn reset_done(&self) -> MutexGuard<'_, HashSet<SessionName>> {
        self.reset_done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<ActiveSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to the client; `None` before its first message.
    pub(crate) fn client_handle(&self) -> Option<ClientHandle> {
        self.to_client.get().cloned()
    }

    /// The client's capabilities; the defaults before `initialize`.
    pub(crate) fn client_features(&self) -> ClientFeatures {
        self.caps.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// The tools that the client provides in every session.
    pub(crate) fn client_tools(&self) -> Arc<ClientToolSet> {
        Arc::clone(&self.client_tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An open session of this connection, by its id.
    pub(crate) fn find_session(&self, id: &str) -> Result<Arc<ActiveSession>, Error> {
        self.sessions().get(id).cloned().ok_or_else(|| rpc_error::session_not_open(id))
    }

    /// May be called more than once; the last call applies.
    fn initialize(&self, params: Value) -> Result<MethodResponse, Error> {
        let tools = ClientToolSet::from_initialize(&params);
        let request: InitializeRequest = rpc_error::parse_params("initialize", params)?;
        let caps = ClientFeatures::from_capabilities(&request.client_capabilities);
        let ways = login::auth_methods(self.config.login.as_ref(), &caps);
        *self.caps.lock().unwrap_or_else(PoisonError::into_inner) = Some(caps);
        *self.client_tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
        MethodResponse::new(
            handshake::initialize_response((self.config.images)()).auth_methods(ways),
        )
    }

    fn handle_prompt(&self, params: Value, responder: Responder<Value>) {
        match self.parse_prompt(params) {
            Err(error) => drop(responder.respond_with_error(error)),
            Ok((active, run, content, thinking)) => {
                let prompted = PromptMessage { run, content, thinking, responder };
                let message = SessionMessage::Prompt(Box::new(prompted));
                if let Err(SessionMessage::Prompt(prompted)) = active.sender.try_send(message) {
                    let error =
                        rpc_error::bad_request("this session has too much to do; try again later");
                    let _ = prompted.responder.respond_with_error(error);
                }
            }
        }
    }

    fn parse_prompt(
        &self,
        params: Value,
    ) -> Result<(Arc<ActiveSession>, String, prompt_content::PromptContent, Option<String>), Error>
    {
        let request: PromptRequest = rpc_error::parse_params("session/prompt", params)?;
        let active = self.find_session(&request.session_id.0)?;
        let content =
            prompt_content::translate_blocks(&request.prompt, active.prefix_folder.as_deref())
                .map_err(|error| rpc_error::invalid_params(error.to_string()))?;
        let meta = |name: &str| request.meta.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let thinking = meta("thinking").or_else(|| meta("thinkingLevel"));
        let run = format!("run_{:032x}", fastrand::u128(..));
        Ok((active, run, content, thinking))
    }

    /// Closes every session. Runs at a remote gateway may continue.
    async fn close_all_sessions(&self) {
        let open: Vec<Arc<ActiveSession>> =
            self.sessions().drain().map(|(_, active)| active).collect();
        let on_eof = self.config.preferences().on_eof;
        let closing = open.iter().map(|active| close_and_wait(active, on_eof));
        futures_util::future::join_all(closing).await;
        self.config.link.close().await;
    }
}

/// Closes a session and waits until it is closed, for `CLOSE_MAX` at most.
pub(crate) async fn close_and_wait(active: &ActiveSession, runs: DisconnectPolicy) {
    let (done, closed) = oneshot::channel();
    let closed = async {
        active.sender.send(SessionMessage::Close { done, runs }).await;
        let _ = closed.await;
    };
    if timeout(CLOSE_MAX, closed).await.is_err() {
        tracing::warn!(session = %active.id, "a session did not close in time");
    }
}

/// The result of a method, and the work that starts after the client has received it.
pub(crate) struct MethodResponse {
    value: Value,
    opened: Option<PreparedSession>,
}

impl MethodResponse {
    pub(crate) fn new(response: impl Serialize) -> Result<Self, Error> {
        let value = serde_json::to_value(response);
        let value =
            value.map_err(|_| rpc_error::operation_failed("internal", "internal error", false))?;
        Ok(Self { value, opened: None })
    }

    pub(crate) fn with_session(mut self, opened: PreparedSession) -> Self {
        self.opened = Some(opened);
        self
    }
}

fn send_response(responder: Responder<Value>, done: Result<MethodResponse, Error>) {
    // A client that has disconnected needs no answer.
    let _ = match done {
        Err(error) => responder.respond_with_error(error),
        Ok(MethodResponse { value, opened }) => {
            let sent = responder.respond(value);
            if let Some(opened) = opened {
                opened.start();
            }
            sent
        }
    };
}

/// Answers in a task of its own, so that the next request is not delayed.
fn spawn_response(
    responder: Responder<Value>,
    work: impl Future<Output = Result<MethodResponse, Error>> + Send + 'static,
) {
    tokio::spawn(async move { send_response(responder, work.await) });
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex};
    use zero_client::{GatewayConnection, GatewayDialer, GatewayLink, GatewayLinkError};
    use zero_runtime::tool::BoxFuture;
    use zero_runtime::tool_backend::ToolBackendError;

    use super::*;
    use crate::tool_host_factory::{
        SessionToolHost, ToolHostFactory, ToolHostOpenError, ToolHostRequest,
    };

    /// Panics when a session is opened.
    struct PanickingOpener;

    impl ToolHostFactory for PanickingOpener {
        fn check_folders<'a>(
            &'a self,
            _cwd: &'a Path,
            _additional: &'a [PathBuf],
        ) -> BoxFuture<'a, Result<(), ToolBackendError>> {
            Box::pin(async { panic!("a bug") })
        }

        fn prepare<'a>(
            &'a self,
            _cwd: &'a Path,
            _additional: &'a [PathBuf],
        ) -> BoxFuture<'a, Box<dyn std::any::Any + Send>> {
            Box::pin(async { panic!("a bug") })
        }

        fn resolve_folder<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, Option<PathBuf>> {
            Box::pin(async { None })
        }

        fn open(
            &self,
            _order: ToolHostRequest,
        ) -> BoxFuture<'_, Result<SessionToolHost, ToolHostOpenError>> {
            Box::pin(async { panic!("a bug") })
        }
    }

    impl GatewayDialer for PanickingOpener {
        fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
            Box::pin(async { panic!("a bug") })
        }

        fn location(&self) -> String {
            "nowhere".to_owned()
        }
    }

    #[tokio::test]
    async fn panic_in_handler_answers_error_without_details() {
        let config = AcpConfig {
            link: GatewayLink::new(Arc::new(PanickingOpener)),
            tool_hosts: Arc::new(PanickingOpener),
            defaults: crate::config::SessionOpenDefaults::default(),
            home: None,
            login: None,
            images: Box::new(|| crate::config::ImageSupport::Unknown),
            preferences: Arc::default(),
        };
        let (mut to_agent, input) = duplex(64 * 1024);
        let (output, from_agent) = duplex(64 * 1024);
        let serving = tokio::spawn(serve(config, input, output));
        let mut lines = BufReader::new(from_agent).lines();
        let new = json!({"cwd": "/a", "mcpServers": []});
        for (id, method, params, code) in [
            (1, "initialize", json!({"protocolVersion": 1}), None),
            (2, "session/new", new.clone(), Some(-32603)),
            (3, "session/list", json!({}), Some(-32603)),
            (4, "session/nothing", json!({}), Some(-32601)),
            (5, "session/new", new, Some(-32603)),
        ] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            to_agent.write_all(format!("{request}\n").as_bytes()).await.unwrap();
            let line = lines.next_line().await.unwrap().expect(method);
            let answer: Value = serde_json::from_str(&line).expect(&line);
            assert_eq!(answer["id"], id, "{answer}");
            assert_eq!(answer["error"]["code"].as_i64(), code, "{answer}");
        }
        drop(to_agent);
        serving.await.unwrap().unwrap();
        assert_eq!(lines.next_line().await.unwrap(), None);
    }
}
