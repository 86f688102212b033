//! Calls that a client makes itself: `tools/list` and `tools/use`, as requests and as notifications.
//!
//! These calls go through the same tool backend as the agent's calls, so the same rules and
//! approvals apply. Two spellings mean the same: `_zero/tools/use` is an extension method of the
//! Agent Client Protocol, `tools/use` is the plain name that other programs use.

mod call_progress;
mod call_table;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Error, UntypedMessage};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use zero_core::event::ToolCallStatus;
use zero_core::{CallId, ErrorReason, RiskLevel, ToolCall, ToolError};
use zero_runtime::DialectName;
use zero_runtime::tool_backend::{CatalogEntry, CatalogInfo, ToolBackend};

use self::call_progress::{ClientCallObserver, outcome_json};
pub(crate) use self::call_table::{CallGuard, CallTable};
use crate::client_handle::ClientHandle;
use crate::rpc_error;
use crate::session_message::{SessionMessage, SessionSender};

/// Prefix of extension methods.
const EXTENSION_PREFIX: &str = "_zero/";
/// Longest wait for a client to acknowledge a result.
const RESULT_ACK_MAX: Duration = Duration::from_secs(30);
/// Longest id of a call, in bytes.
const ID_BYTES_MAX: usize = 256;

/// The tool methods of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolMethod {
    /// List the tools.
    List,
    /// Call one tool with the given arguments.
    Use,
    /// The result of a call of a tool that the client provides.
    Result,
    /// Cancel a call.
    Cancel,
}

/// The spelling of a method name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodPrefix {
    /// `_zero/tools/…`
    Extension,
    /// `tools/…`
    Plain,
}

impl MethodPrefix {
    /// The dialect of tool names, unless the client chooses another.
    pub(crate) fn default_dialect(self) -> DialectName {
        match self {
            Self::Extension => DialectName::Canonical,
            Self::Plain => DialectName::Acp,
        }
    }

    fn progress_method(self) -> &'static str {
        match self {
            Self::Extension => "_zero/tools/progress",
            Self::Plain => "tools/progress",
        }
    }
}

impl ToolMethod {
    /// Parses a method name; `None` for other methods.
    pub(crate) fn parse(name: &str) -> Option<(Self, MethodPrefix)> {
        let (name, spelling) = match name.strip_prefix(EXTENSION_PREFIX) {
            Some(name) => (name, MethodPrefix::Extension),
            None => (name, MethodPrefix::Plain),
        };
        let method = match name {
            "tools/list" => Self::List,
            "tools/use" => Self::Use,
            "tools/result" => Self::Result,
            "tools/cancel" => Self::Cancel,
            _ => return None,
        };
        Some((method, spelling))
    }
}

/// Parameters of `tools/list`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolListParams {
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    #[serde(default)]
    dialect: Option<String>,
}

impl ToolListParams {
    pub(crate) fn from_params(params: Value) -> Result<Self, Error> {
        rpc_error::parse_params("tools/list", params)
    }

    pub(crate) fn dialect(&self, usual: DialectName) -> Result<DialectName, Error> {
        parse_dialect(self.dialect.as_deref(), usual)
    }
}

/// Parameters of `tools/use`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolUseParams {
    pub(crate) session_id: String,
    pub(crate) tool_call_id: String,
    tool_name: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    dialect: Option<String>,
}

impl ToolUseParams {
    pub(crate) fn from_params(params: Value) -> Result<Self, Error> {
        let mut request: Self = rpc_error::parse_params("tools/use", params)?;
        if request.tool_call_id.is_empty() || request.tool_call_id.len() > ID_BYTES_MAX {
            let message = format!("`toolCallId` has to have between 1 and {ID_BYTES_MAX} bytes");
            return Err(rpc_error::invalid_params(message));
        }
        match &request.input {
            Value::Object(_) => {}
            Value::Null => request.input = json!({}),
            _ => return Err(rpc_error::invalid_params("`input` has to be an object")),
        }
        Ok(request)
    }
}

/// Parameters of `tools/cancel`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCancelParams {
    pub(crate) session_id: String,
    pub(crate) tool_call_id: String,
}

/// The backend that runs a call, and how the call is shown.
#[derive(Clone)]
pub(crate) struct CallTarget {
    pub(crate) backend: Arc<dyn ToolBackend>,
    /// The session's task, if the call is also shown as an update of the session.
    pub(crate) session_sender: Option<SessionSender>,
    /// The dialect of tool names, unless the client chooses another.
    pub(crate) dialect: DialectName,
}

/// Lists the tools of a backend.
pub(crate) async fn list_tools(target: &CallTarget, dialect: DialectName) -> Result<Value, Error> {
    let catalog = target
        .backend
        .load_catalog(dialect)
        .await
        .map_err(|error| rpc_error::from_backend_error(&error))?;
    let tools: Vec<Value> = catalog.tools.iter().map(tool_json).collect();
    Ok(json!({ "tools": tools }))
}

fn tool_json(tool: &CatalogEntry) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("name", json!(tool.name));
    add("description", json!(tool.description));
    add("inputSchema", tool.input_schema.clone());
    add("kind", json!(tool.kind));
    if let Some(display_name) = &tool.display_name {
        add("displayName", json!(display_name));
    }
    if let Some(CatalogInfo { output_schema, category, risk }) = &tool.info {
        let default = if *risk == RiskLevel::Low { "allow" } else { "ask" };
        add("outputSchema", output_schema.clone());
        add("categories", json!([category]));
        add("permissions", json!([{"kind": tool.kind, "risk": risk, "default": default}]));
    }
    Value::Object(fields)
}

/// The client calls that have not ended. Clones share the same table.
#[derive(Clone)]
pub(crate) struct ClientCalls {
    to_client: ClientHandle,
    calls: Arc<CallTable>,
}

impl ClientCalls {
    pub(crate) fn new(to_client: ClientHandle, calls: Arc<CallTable>) -> Self {
        Self { to_client, calls }
    }

    /// Registers a call. It can be cancelled from now on, before it has started.
    pub(crate) fn register_call(&self, request: &ToolUseParams) -> Result<CallGuard, Error> {
        self.calls.register(&request.session_id, &request.tool_call_id)
    }

    /// Runs a call and returns its result in the client's form. `unasked` resolves when the client
    /// cancels the request.
    pub(crate) async fn run_call(
        &self,
        guard: CallGuard,
        target: impl Future<Output = Result<CallTarget, Error>>,
        spelling: MethodPrefix,
        request: ToolUseParams,
        unasked: impl Future<Output = ()> + Send,
    ) -> Result<Value, Error> {
        let named = request.dialect.clone();
        let ToolUseParams { session_id, tool_call_id, tool_name, input, .. } = request;
        // If the client's id is not a valid `CallId`, files and records use a random one.
        let id =
            CallId::new(&tool_call_id).unwrap_or_else(|_| CallId::from_bits(fastrand::u128(..)));
        let target = target.await?;
        let dialect = parse_dialect(named.as_deref(), target.dialect)?;
        if let Some(session_sender) = &target.session_sender {
            let (call, tool, input) = (tool_call_id.clone(), tool_name.clone(), input.clone());
            session_sender.send(SessionMessage::ClientCallStarted { call, tool, input }).await;
        }
        let (session, timeout) = (None, None);
        let call = ToolCall { id, session, tool: tool_name.clone(), input, timeout };
        let (watch, mut progress) = ClientCallObserver::new();
        let mut calling = match guard.cancel.is_cancelled() {
            false => target.backend.call(call, dialect, guard.cancel.clone(), Arc::new(watch)),
            true => Box::pin(async {
                let why = "stopped before it was begun";
                ToolError::failed(ErrorReason::Cancelled, why).into()
            }),
        };
        let mut unasked = std::pin::pin!(unasked);
        let mut is_unasked = false;
        let end = loop {
            tokio::select! {
                end = &mut calling => break end,
                () = &mut unasked, if !is_unasked => {
                    is_unasked = true;
                    guard.cancel.cancel();
                }
                Some(word) = progress.recv() => {
                    let message = word.into_json(&session_id, &tool_call_id);
                    if let Ok(message) = UntypedMessage::new(spelling.progress_method(), message) {
                        self.to_client.send_progress(message).await;
                    }
                }
            }
        };
        let end = Arc::new(end);
        if let Some(session_sender) = &target.session_sender {
            let (done, is_done) = oneshot::channel();
            let end = Arc::clone(&end);
            session_sender
                .send(SessionMessage::UnrecordedCallEnded { call: tool_call_id.clone(), end, done })
                .await;
            // The result must come after the updates that show the call.
            let _ = is_done.await;
        }
        if is_unasked && end.status() == ToolCallStatus::Cancelled {
            return Err(Error::request_cancelled());
        }
        let mut fields = outcome_json((dialect, &tool_name), &end);
        fields.insert("sessionId".to_owned(), json!(session_id));
        fields.insert("toolCallId".to_owned(), json!(tool_call_id));
        Ok(Value::Object(fields))
    }

    /// Sends the result of a call that was made by notification, as a request to the client. A
    /// client need not know that method or answer it.
    pub(crate) async fn send_result(
        &self,
        (session, call): (String, String),
        spelling: MethodPrefix,
        made: Result<Value, Error>,
    ) {
        let result = made.unwrap_or_else(|error| {
            let content = json!([{"type": "text", "text": error.message, "isError": true}]);
            json!({"sessionId": session, "toolCallId": call, "content": content, "isError": true})
        });
        let Ok(_permit) = Arc::clone(&self.calls.results).try_acquire_owned() else {
            tracing::warn!(call, "the client takes no results; this one is not sent");
            return;
        };
        let method = match spelling {
            MethodPrefix::Extension => "_zero/tools/result",
            MethodPrefix::Plain => "tools/result",
        };
        if let Ok(result) = UntypedMessage::new(method, result)
            && let Err(error) = self.to_client.request(result, RESULT_ACK_MAX).await
        {
            tracing::debug!(code = error.code.value(), call, "a result was not acknowledged");
        }
    }
}

fn parse_dialect(named: Option<&str>, usual: DialectName) -> Result<DialectName, Error> {
    match named {
        None => Ok(usual),
        Some(named) => named.parse().map_err(|_| {
            rpc_error::invalid_params(
                "`dialect` has to be one of canonical, acp, qwen and opencode",
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_method_prefixes_parse_to_same_method() {
        for (name, expected) in [
            ("_zero/tools/list", Some((ToolMethod::List, MethodPrefix::Extension))),
            ("tools/list", Some((ToolMethod::List, MethodPrefix::Plain))),
            ("tools/use", Some((ToolMethod::Use, MethodPrefix::Plain))),
            ("_zero/tools/result", Some((ToolMethod::Result, MethodPrefix::Extension))),
            ("tools/cancel", Some((ToolMethod::Cancel, MethodPrefix::Plain))),
            ("_zero/tools", None),
            ("_zero/_zero/tools/use", None),
            ("session/new", None),
        ] {
            assert_eq!(ToolMethod::parse(name), expected, "{name}");
        }
    }

    #[track_caller]
    fn check(params: Value, expected: &str) {
        assert_eq!(ToolUseParams::from_params(params).unwrap_err().message, expected);
    }

    #[test]
    fn malformed_call_params_are_refused() {
        let call = |input: Value, id: &str| json!({"sessionId": "s", "toolCallId": id, "toolName": "t", "input": input});
        assert_eq!(ToolUseParams::from_params(call(Value::Null, "1")).unwrap().input, json!({}));
        check(call(json!([]), "1"), "`input` has to be an object");
        check(call(json!({}), ""), "`toolCallId` has to have between 1 and 256 bytes");
        check(json!({}), "the parameters of `tools/use` do not fit: missing field `sessionId`");
    }
}
