//! [`RunningCall`], one call from a request to its result.
//!
//! The call is a separate task: it can outlive the request that made it while it waits for an
//! answer, and a client that does not read cannot block it. Dropping it ends the call.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientResult, ElicitResult, ElicitationAction};
use rmcp::model::{ElicitRequest, JsonObject, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use zero_core::{ErrorReason, ToolCall, ToolError};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{CallReport, Dialect, ToolHost, ToolHostSession};

use super::call_router::{ClientQuestion, ElicitationSupport, McpCallRouteReceiver, McpCallRouter};
use super::progress::ProgressReporter;

/// Time limit for telling a client that a question is withdrawn.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(5);

/// A running call. Dropping it ends the call.
pub(super) struct RunningCall {
    done: JoinHandle<CallReport>,
    line: McpCallRouteReceiver,
    _end: DropGuard,
}

/// What is needed to start a call.
pub(super) struct CallSetup {
    pub(super) host: Arc<ToolHost>,
    pub(super) dialect: Arc<Dialect>,
    pub(super) session: Arc<ToolHostSession>,
    pub(super) router: Arc<McpCallRouter>,
    pub(super) elicitation_support: ElicitationSupport,
    /// Cancelling it ends the call.
    pub(super) stop: CancellationToken,
    /// Held until the call has ended.
    pub(super) running: watch::Receiver<()>,
}

/// What happens next in a call.
pub(super) enum CallStep {
    /// It has ended.
    Done(Result<CallReport, ToolError>),
    /// It has a question.
    Asked(ClientQuestion),
}

impl RunningCall {
    /// Starts a call.
    pub(super) fn start(start: CallSetup, tool: String, arguments: JsonObject) -> Self {
        let CallSetup { host, dialect, session, router, elicitation_support, stop, running } =
            start;
        let id = new_call_id();
        let line = router.open_route(id.clone(), elicitation_support);
        let input = Value::Object(arguments);
        let call = ToolCall { id, session: session.id().cloned(), tool, input, timeout: None };
        let end = stop.clone().drop_guard();
        let done = tokio::spawn(async move {
            let _running = running;
            host.call(&session, &dialect, call, &stop).await
        });
        Self { done, line, _end: end }
    }

    /// Waits for its end or its next question, and forwards its progress meanwhile.
    pub(super) async fn next_step(&mut self, reporter: &mut ProgressReporter) -> CallStep {
        loop {
            tokio::select! {
                biased;
                done = &mut self.done => {
                    let broken = |_| ToolError::failed(ErrorReason::Panic, "the call ended unexpectedly; please report it");
                    return CallStep::Done(done.map_err(broken));
                }
                Some(ask) = self.line.questions.recv() => return CallStep::Asked(ask),
                () = reporter.wait_for_update(&mut self.line.progress_messages) => {
                    reporter.send_update(&mut self.line.progress_messages).await;
                }
            }
        }
    }
}

/// Asks a client that accepts requests. There is no time limit; the question is withdrawn if the
/// call no longer waits for the answer.
pub(super) async fn send_question(peer: &Peer<RoleServer>, mut ask: ClientQuestion) {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(ask.params));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let Ok(sent) = sent else { return };
    let mut open = ClientQuestionGuard(Some(sent));
    tokio::select! {
        answer = open.wait_for_answer() => {
            let answer = match answer {
                Some(ClientResult::ElicitResult(answer)) => answer,
                // Without a valid answer, the question is cancelled.
                _ => ElicitResult::new(ElicitationAction::Cancel),
            };
            let _ = ask.answer.send(answer);
        }
        () = ask.answer.closed() => {}
    }
}

/// A question that was sent to a client. It is withdrawn when it is dropped without an answer.
struct ClientQuestionGuard(Option<RequestHandle<RoleServer>>);

impl ClientQuestionGuard {
    async fn wait_for_answer(&mut self) -> Option<ClientResult> {
        let answer = (&mut self.0.as_mut()?.rx).await;
        self.0 = None;
        answer.ok()?.ok()
    }
}

impl Drop for ClientQuestionGuard {
    fn drop(&mut self) {
        let Some(sent) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        // The client may be gone, so this has a time limit.
        runtime.spawn(async move {
            let withdrawn = sent.cancel(Some("the call is over".to_owned()));
            let _ = tokio::time::timeout(WITHDRAW_TIMEOUT, withdrawn).await;
        });
    }
}
