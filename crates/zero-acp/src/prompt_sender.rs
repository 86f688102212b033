//! Sends a prompt to the gateway and aborts its run on cancellation.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::{MaybeDone, maybe_done};
use serde_json::json;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio_util::sync::CancellationToken;
use zero_client::SendRequest;
use zero_core::event::PromptAttachment;
use zero_core::{CallId, FileLocation, ToolCall, ToolKind, ToolOutcome, ToolResultPart};
use zero_runtime::DialectName;
use zero_runtime::tool_backend::CallObserver;

use crate::cancelled_runs;
use crate::prompt_content::PromptContent;
use crate::rpc_error;
use crate::session::ActiveSession;
use crate::session_message::{PromptSendFailure, SessionMessage};

/// The position of a prompt in the send queue of its session.
pub(crate) struct SendQueueTicket(Pin<Box<MaybeDone<LockFuture>>>);

type LockFuture = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>;

impl SendQueueTicket {
    /// Joins the end of the queue.
    pub(crate) fn enqueue(active: &ActiveSession) -> Self {
        let lock: LockFuture = Box::pin(Arc::clone(&active.sending).lock_owned());
        let mut turn = Box::pin(maybe_done(lock));
        // Polling now fixes the order: it is the order of arrival, not the order in which the tasks
        // run.
        let _ = turn.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Self(turn)
    }

    /// Waits for its turn, which lasts until the returned guard is dropped.
    async fn wait_turn(mut self) -> Option<OwnedMutexGuard<()>> {
        self.0.as_mut().await;
        self.0.as_mut().take_output()
    }
}

/// Sends a prompt to the gateway, then waits for its cancellation and aborts the run.
pub(crate) async fn deliver_prompt(
    active: Arc<ActiveSession>,
    turn: SendQueueTicket,
    run: String,
    content: PromptContent,
    thinking: Option<String>,
    cancel: CancellationToken,
    unasked: impl Future<Output = ()> + Send,
) {
    // `$/cancel_request` has the same effect as `session/cancel`.
    let unasked = async {
        unasked.await;
        active.sender.send(SessionMessage::CancelRun(run.clone())).await;
        std::future::pending::<()>().await;
    };
    let carried = async {
        let sent = send_prompt(&active, turn, &run, content, thinking, &cancel).await;
        if sent.is_none() {
            cancel.cancelled().await;
        }
        sent
    };
    let sent = tokio::select! {
        sent = carried => sent,
        () = unasked => return,
    };
    let is_sent = match sent {
        None => true,
        Some(how) => {
            // The gateway may have received the prompt although sending it failed.
            let may_be = matches!(how, PromptSendFailure::Failed(_)) && cancel.is_cancelled();
            let message = SessionMessage::PromptFailed { run: run.clone(), how: Box::new(how) };
            active.sender.send(message).await;
            may_be
        }
    };
    if is_sent {
        // The abort can take long and needs only the session handle.
        let handle = active.handle.clone();
        drop(active);
        cancelled_runs::stop_run(&handle, &run).await;
    }
}

/// Sends the prompt; returns why it was not sent, if so.
async fn send_prompt(
    active: &ActiveSession,
    turn: SendQueueTicket,
    run: &str,
    content: PromptContent,
    thinking: Option<String>,
    cancel: &CancellationToken,
) -> Option<PromptSendFailure> {
    let PromptContent { text, mut attachments, linked_images } = content;
    for image in linked_images {
        let shown = image.display().to_string();
        match read_image(active, &shown, cancel).await {
            _ if cancel.is_cancelled() => return Some(PromptSendFailure::Cancelled),
            Ok(image) => attachments.push(image),
            Err(why) => {
                let message = format!("`{shown}` cannot be attached: {why}");
                return Some(PromptSendFailure::Failed(rpc_error::invalid_params(message)));
            }
        }
    }
    let ready = async {
        let turn = turn.wait_turn().await;
        active.awaited.wait(&active.sender).await;
        turn
    };
    let Some(_turn) = cancel.run_until_cancelled(ready).await else {
        return Some(PromptSendFailure::Cancelled);
    };
    // Offer the tools of servers that have started since to this prompt.
    if let Err(error) = active.handle.refresh_tool_offer().await {
        tracing::warn!(%error, "the tools could not be offered again");
    }
    let overlap = active.overlap;
    let sending = SendRequest { run: run.to_owned(), text, attachments, thinking, overlap };
    let sent = active.handle.send(sending).await;
    sent.err().map(|error| PromptSendFailure::Failed(rpc_error::from_link_error(&error)))
}

/// Reads a linked image with the Read tool, so that policy applies.
async fn read_image(
    active: &ActiveSession,
    path: &str,
    cancel: &CancellationToken,
) -> Result<PromptAttachment, String> {
    let id = CallId::from_bits(fastrand::u128(..));
    let call = ToolCall {
        id: id.clone(),
        session: None,
        tool: "Read".to_owned(),
        input: json!({"file_path": path}),
        timeout: None,
    };
    let (dialect, watch) = (DialectName::Canonical, Arc::new(SilentObserver));
    let mut outcome = active.backend.call(call, dialect, cancel.clone(), watch).await;
    let image =
        match &mut outcome {
            ToolOutcome::Result(result) => {
                let name = path.rsplit('/').next().map(str::to_owned);
                // If the user was asked about the call, they see its result, without the image, which
                // they have.
                let is_image = |part: &ToolResultPart| matches!(part, ToolResultPart::Image { .. });
                let at = result.content.iter().position(is_image);
                match at.map(|at| result.content.remove(at)) {
                    Some(ToolResultPart::Image { mime, data }) => {
                        Ok(PromptAttachment { mime, data, name })
                    }
                    _ => Err("it is not an image type that models accept (PNG, JPEG, GIF, WebP)"
                        .to_owned()),
                }
            }
            ToolOutcome::Error(error) => Err(error.message.clone()),
        };
    let ((done, _), end) = (oneshot::channel(), Arc::new(outcome));
    active.sender.send(SessionMessage::ClientCallEnded { call: id.into(), end, done }).await;
    image
}

/// Reading a linked image is not shown unless the user is asked: the client named the image itself.
struct SilentObserver;

impl CallObserver for SilentObserver {
    fn on_described(&self, _title: String, _kind: ToolKind, _locations: Vec<FileLocation>) {}

    fn on_progress(&self, _message: String) {}
}
