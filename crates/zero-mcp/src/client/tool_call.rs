//! One tool call on a connection, from the request to its result.
//!
//! A request that may have reached the server is never sent again, because it may have run. A call
//! that is no longer wanted is cancelled at the server, by a message or by closing the stream, and
//! a late answer is dropped; the server keeps running. If the server has questions before it can
//! continue, the user is asked, and the request is sent again with the answers, as the protocol
//! specifies.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, ErrorData, InputRequest, InputRequiredResult,
    InputResponses, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use zero_core::text_shortening::shorten_end;
use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_runtime::CallContext;

use super::client_handler::{CallerContext, McpProgress};
use super::connection::McpConnection;
use super::sanitize;
use super::secrets::ServerSecrets;
use crate::wire;

/// How often a server may ask questions before it returns a result.
const ROUNDS_MAX: usize = 10;
/// Maximum number of questions in one round.
const QUESTIONS_MAX: usize = 16;
/// Maximum size of the state that a server has sent back to it, in bytes.
const STATE_BYTES_MAX: usize = 1 << 20;
/// Minimum time between two progress messages that are forwarded.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of an error message, in characters.
const ERROR_CHARS_MAX: usize = 4_000;
/// First delay before a request that the server deferred is sent again; it doubles.
const DEFERRED_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A tool call to make.
pub(crate) struct McpCallRequest<'a> {
    pub(crate) caller: &'a CallerContext,
    /// The server's name for the tool.
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Map<String, Value>,
    /// Time limit without an answer or progress.
    pub(crate) silence_max: Duration,
    /// Time limit for the whole call, which started at `since`.
    pub(crate) total_max: Duration,
    pub(crate) since: Instant,
    /// Where these limits are configured.
    pub(crate) written_at: &'a str,
    /// Secrets that must not occur in messages about the server.
    pub(crate) secrets: &'a ServerSecrets,
}

/// Why a call failed.
pub(crate) enum McpCallError {
    /// It was not sent, because the connection had ended. It can be sent on another.
    NeverSent,
    /// It failed, and may have run.
    Failed(ToolError),
}

impl McpConnection {
    /// Calls a tool and waits for the result.
    pub(crate) async fn call(
        &self,
        order: &McpCallRequest<'_>,
        cx: &CallContext,
    ) -> Result<CallToolResult, McpCallError> {
        let _running = self.handler.track_call(order.caller.clone());
        self.mark_used();
        let mut params = CallToolRequestParams::new(order.tool.to_owned())
            .with_arguments(order.arguments.clone());
        let mut put_off = 0;
        for round in 0..ROUNDS_MAX {
            let answer =
                self.exchange(params.clone(), order, cx).await.map_err(|why| match why {
                    // Earlier rounds were answered, so the call may have taken effect.
                    McpCallError::NeverSent if round > 0 => {
                        McpCallError::Failed(connection_lost_error(order))
                    }
                    why => why,
                })?;
            self.mark_used();
            match answer {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(asked) => {
                    let (answers, state) =
                        self.collect_answers(asked, order, cx, &mut put_off).await?;
                    params.input_responses = answers;
                    params.request_state = state;
                }
                ServerResult::CreateTaskResult(_) => {
                    return Err(call_failure(
                        order,
                        "turned the call into a task, which zero does not support",
                    ));
                }
                _ => {
                    return Err(call_failure(
                        order,
                        "answered the call with something that is not a tool result",
                    ));
                }
            }
        }
        Err(call_failure(order, &format!("asked questions {ROUNDS_MAX} times without a result")))
    }

    /// Sends one request and waits for its answer.
    async fn exchange(
        &self,
        params: CallToolRequestParams,
        order: &McpCallRequest<'_>,
        cx: &CallContext,
    ) -> Result<ServerResult, McpCallError> {
        if !self.is_open() {
            return Err(McpCallError::NeverSent);
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (mut open, mut progress) = {
            let _held = self.handler.handing_over.read().await;
            let options = PeerRequestOptions::no_options();
            let handed_over = self.peer.send_cancellable_request(request, options).await;
            // This fails only if the connection's task has ended.
            let handle = handed_over.map_err(|_| McpCallError::NeverSent)?;
            let progress = self.handler.listen(handle.progress_token.clone());
            (
                RequestCancelGuard {
                    connection: self,
                    handle: Some(handle),
                    reason: "no longer wanted",
                },
                progress,
            )
        };
        let mut silent_at = Instant::now() + order.silence_max;
        let mut reported_at: Option<Instant> = None;
        loop {
            let Some(handle) = open.handle.as_mut() else {
                return Err(McpCallError::Failed(connection_lost_error(order)));
            };
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    open.disarm();
                    self.silences.store(0, Ordering::Relaxed);
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return match answer {
                        Ok(answer) => Ok(answer),
                        Err(error) => Err(McpCallError::Failed(self.explain_error(error, order).await)),
                    };
                }
                () = cx.cancelled() => {
                    return Err(cancellation_error(order));
                }
                Some(update) = progress.recv() => {
                    silent_at = Instant::now() + order.silence_max;
                    report_progress(&update, &mut reported_at, cx);
                }
                () = tokio::time::sleep_until(silent_at) => {
                    // While the user is being asked, the time limit does not apply.
                    if self.handler.is_asking() {
                        silent_at = Instant::now() + order.silence_max;
                        continue;
                    }
                    open.reason = "no answer in time";
                    self.silences.fetch_add(1, Ordering::Relaxed);
                    let limit = order.silence_max;
                    return Err(McpCallError::Failed(timeout_error(order, limit, "without an answer or progress")));
                }
            }
        }
    }

    /// Collects the answers to the questions of a server.
    async fn collect_answers(
        &self,
        input_request: InputRequiredResult,
        order: &McpCallRequest<'_>,
        cx: &CallContext,
        put_off: &mut u32,
    ) -> Result<(Option<InputResponses>, Option<String>), McpCallError> {
        let state_bytes = input_request.request_state.as_ref().map_or(0, String::len);
        if state_bytes > STATE_BYTES_MAX {
            let what = format!(
                "wants {state_bytes} bytes of state to be sent back; at most {STATE_BYTES_MAX} are allowed"
            );
            return Err(call_failure(order, &what));
        }
        let questions = input_request.input_requests.unwrap_or_default();
        if questions.len() > QUESTIONS_MAX {
            let what = format!("asked {} questions at once", questions.len());
            return Err(call_failure(order, &what));
        }
        if questions.is_empty() {
            let pause = DEFERRED_RETRY_PAUSE * 2_u32.pow((*put_off).min(5));
            *put_off += 1;
            tokio::select! {
                () = cx.cancelled() => return Err(cancellation_error(order)),
                () = tokio::time::sleep(pause) => return Ok((None, input_request.request_state)),
            }
        }
        let mut answers = InputResponses::new();
        for (key, question) in questions {
            let answer = match question {
                InputRequest::Elicitation(request) => {
                    let answer = tokio::select! {
                        () = cx.cancelled() => return Err(cancellation_error(order)),
                        answer = self.handler.elicit(order.caller, request.params) => answer,
                    };
                    serde_json::to_value(answer).unwrap_or_default()
                }
                InputRequest::ListRoots(_) => json!({"roots": []}),
                InputRequest::CreateMessage(_) => {
                    return Err(call_failure(
                        order,
                        "wants to use a model, which zero does not allow",
                    ));
                }
                _ => return Err(call_failure(order, "asked a question of an unknown kind")),
            };
            answers.insert(key, answer);
        }
        Ok((Some(answers), input_request.request_state))
    }

    /// Describes a request that failed.
    async fn explain_error(&self, error: ServiceError, order: &McpCallRequest<'_>) -> ToolError {
        match error {
            ServiceError::McpError(error) => refusal_error(&error, order),
            ServiceError::Cancelled { .. } => ToolError::cancelled(),
            ServiceError::TransportClosed => {
                let mut why = self.end_reason().await;
                why.message =
                    format!("{}; it had not answered, and the call may have run", why.message);
                order.secrets.redact_error(why).to_tool_error(order.caller.alias.as_str())
            }
            ServiceError::TransportSend(error) => {
                let mut why = self.end_reason().await;
                why.message = format!(
                    "the call could not be sent ({}); it may have run",
                    sanitize::to_line(&error.to_string())
                );
                order.secrets.redact_error(why).to_tool_error(order.caller.alias.as_str())
            }
            other => {
                let text = sanitize::to_line(&other.to_string());
                unavailable_error(order, &format!("sent an invalid answer: {text}"))
            }
        }
    }
}

/// A pending request. If it is dropped before the answer, the server is asked to cancel it.
struct RequestCancelGuard<'a> {
    connection: &'a McpConnection,
    handle: Option<RequestHandle<RoleClient>>,
    reason: &'static str,
}

impl RequestCancelGuard<'_> {
    fn disarm(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.connection.handler.stop_listening(&handle.progress_token);
        }
    }
}

impl Drop for RequestCancelGuard<'_> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        self.connection.handler.stop_listening(&handle.progress_token);
        let params =
            CancelledNotificationParam::new(Some(handle.id.clone()), Some(self.reason.to_owned()));
        let notification = CancelledNotification::new(params);
        let peer = self.connection.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { peer.send_notification(notification.into()).await });
        }
    }
}

/// Forwards progress, unless some was forwarded just before.
fn report_progress(update: &McpProgress, reported_at: &mut Option<Instant>, cx: &CallContext) {
    if reported_at.is_none_or(|at| at.elapsed() >= PROGRESS_PAUSE) {
        *reported_at = Some(Instant::now());
        cx.report_progress(update.to_call_progress());
    }
}

/// Error of a call that was cancelled or exceeded its time limit.
fn cancellation_error(order: &McpCallRequest<'_>) -> McpCallError {
    McpCallError::Failed(match order.since.elapsed() >= order.total_max {
        true => timeout_error(order, order.total_max, "without finishing"),
        false => ToolError::cancelled(),
    })
}

fn timeout_error(order: &McpCallRequest<'_>, limit: Duration, how: &str) -> ToolError {
    let message = format!(
        "timed out after {} s {how}; the server was asked to stop and may have done part of the work; request less at once, or raise the timeout of MCP server `{}` ({})",
        limit.as_secs_f64(),
        order.caller.alias,
        order.written_at
    );
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, message)
        .with_detail("limit_ms", limit_ms)
}

/// Error of a request that the server refused, with the server's message.
fn refusal_error(error: &ErrorData, order: &McpCallRequest<'_>) -> ToolError {
    let alias = &order.caller.alias;
    if let Some(why) = wire::find_refusal(error) {
        let why = shorten_end(&order.secrets.redact(why), ERROR_CHARS_MAX);
        let message = format!(
            "MCP server `{alias}` sent an answer that cannot be used: {why}; the call may have run"
        );
        return ToolError::failed(ErrorReason::RemoteFailure, message)
            .with_detail("server", alias.as_str());
    }
    let text = shorten_end(&order.secrets.redact(&error.message), ERROR_CHARS_MAX);
    let message = format!("MCP server `{alias}` refused the call: {text} ({})", error.code.0);
    let refusal =
        ToolError::failed(ErrorReason::RemoteFailure, message).with_detail("code", error.code.0);
    let data = error.data.as_ref().map(|data| order.secrets.redact(&data.to_string()));
    match data.filter(|data| data.len() <= ERROR_CHARS_MAX) {
        // Redaction may have taken a quote; then there is nothing to show.
        Some(data) => match serde_json::from_str::<Value>(&data) {
            Ok(data) => refusal.with_detail("data", data),
            Err(_) => refusal,
        },
        None => refusal,
    }
}

fn connection_lost_error(order: &McpCallRequest<'_>) -> ToolError {
    unavailable_error(order, "ended during the call, which may have run")
}

fn call_failure(order: &McpCallRequest<'_>, what: &str) -> McpCallError {
    McpCallError::Failed(unavailable_error(order, what))
}

fn unavailable_error(order: &McpCallRequest<'_>, what: &str) -> ToolError {
    let alias = order.caller.alias.as_str();
    ToolError::failed(ErrorReason::ServerUnavailable, format!("MCP server `{alias}` {what}"))
        .with_detail("server", alias)
}
