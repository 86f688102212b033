//! Has the client run the calls of its tools.

use std::time::Duration;

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::schema::SessionId;
use serde_json::{Value, json};
use tokio::time::timeout;
use zero_core::{CallId, ErrorReason, ToolError, ToolResult, sanitize};
use zero_runtime::tool::BoxFuture;

use super::call_result;
use super::pending_calls::PendingToolCalls;
use crate::client_calls::MethodPrefix;
use crate::client_handle::ClientHandle;
use crate::rpc_error;
use crate::tool_host_factory::ClientToolCaller;

/// Runs calls at the client of one session.
pub(crate) struct RemoteToolCaller {
    pub(crate) session: SessionId,
    pub(crate) to_client: ClientHandle,
    pub(crate) calls: PendingToolCalls,
    /// How the client is asked to run a call.
    pub(crate) spelling: MethodPrefix,
}

impl ClientToolCaller for RemoteToolCaller {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        call: &'a CallId,
        input: Value,
        most: Duration,
    ) -> BoxFuture<'a, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let params = json!({
                "sessionId": self.session,
                "toolCallId": call,
                "toolName": tool,
                "input": input,
            });
            let answer = match self.spelling {
                MethodPrefix::Extension => self.request(params, most).await?,
                MethodPrefix::Plain => self.notify_and_wait(call, params, most).await?,
            };
            call_result::to_tool_result(&answer)
        })
    }
}

impl RemoteToolCaller {
    /// `_zero/tools/use`: the answer is the result. A dropped request is cancelled with
    /// `$/cancel_request`.
    async fn request(&self, params: Value, most: Duration) -> Result<Value, ToolError> {
        let message = encode("_zero/tools/use", params)?;
        let answer = self.to_client.request(message, most).await;
        answer.map_err(|error| match rpc_error::is_timeout(&error) {
            true => unanswered_error(most),
            false => {
                let why = sanitize::to_line(&error.message);
                let message = format!("the editor did not run the call: {why}");
                ToolError::failed(ErrorReason::RemoteFailure, message)
            }
        })
    }

    /// `tools/use` as a notification: the result comes as `tools/result`.
    async fn notify_and_wait(
        &self,
        call: &CallId,
        params: Value,
        most: Duration,
    ) -> Result<Value, ToolError> {
        let mut pending = self.calls.register(&self.session.0, call.as_str())?;
        let message = encode("tools/use", params)?;
        let mut cancel = CancelGuard { caller: self, call, is_answered: false };
        self.to_client.send_progress(message).await;
        let answer = timeout(most, pending.wait()).await.ok().flatten();
        cancel.is_answered = answer.is_some();
        answer.ok_or_else(|| unanswered_error(most))
    }
}

/// On drop, cancels the call at the client, unless it was answered.
struct CancelGuard<'a> {
    caller: &'a RemoteToolCaller,
    call: &'a CallId,
    is_answered: bool,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let params = json!({"sessionId": self.caller.session, "toolCallId": self.call});
        if let Ok(message) = encode("tools/cancel", params) {
            let to_client = self.caller.to_client.clone();
            tokio::spawn(async move { to_client.send_progress(message).await });
        }
    }
}

fn encode(method: &str, params: Value) -> Result<UntypedMessage, ToolError> {
    UntypedMessage::new(method, params).map_err(|error| {
        ToolError::failed(ErrorReason::RemoteFailure, format!("the call cannot be sent: {error}"))
    })
}

fn unanswered_error(most: Duration) -> ToolError {
    let message = format!(
        "the editor did not answer within {} s; it may have run the call: check before you try again",
        most.as_secs()
    );
    ToolError::failed(ErrorReason::Deadline, message)
}
