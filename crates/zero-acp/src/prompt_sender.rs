//! Sends a prompt to the gateway and aborts its run on cancellation.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::{MaybeDone, maybe_done};
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio_util::sync::CancellationToken;
use zero_client::SendRequest;
use zero_core::event::PromptAttachment;
use zero_core::{CallId, ErrorReason, ToolCall, ToolOutcome, ToolResultPart};
use zero_runtime::DialectName;
use zero_runtime::tool_backend::SilentObserver;

use crate::cancelled_runs;
use crate::prompt_content::{self, IMAGE_BYTES_MAX, LinkedImage, PromptContent};
use crate::rpc_error;
use crate::session::ActiveSession;
use crate::session_message::{PromptSendFailure, SessionMessage};
use crate::text_sanitizer::visible_line;

/// Longest address of an image that an error or an attachment shows, in characters.
const SHOWN_CHARS_MAX: usize = 255;
/// Why content is not attached.
const NO_IMAGE: &str = "it is not an image type that models accept (PNG, JPEG, GIF, WebP)";

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
        Some(send_failure) => {
            // The gateway may have received the prompt although sending it failed.
            let may_be =
                matches!(send_failure, PromptSendFailure::Failed(_)) && cancel.is_cancelled();
            let message =
                SessionMessage::PromptFailed { run: run.clone(), failure: Box::new(send_failure) };
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
    let text_only_model = active.options().text_only_model().map(str::to_owned);
    for image in &linked_images {
        let shown = match image {
            LinkedImage::File(path) => path.display().to_string(),
            LinkedImage::Web(url) => visible_line(url, SHOWN_CHARS_MAX),
        };
        // The model gets the link, and nobody is asked about an image that it would not see.
        if let Some(model) = &text_only_model {
            let note = format!(
                "`{shown}` was not read: the model `{model}` does not accept images; choose another model to have it seen"
            );
            active.sender.send(SessionMessage::Remark(note)).await;
            continue;
        }
        match read_image(active, image, cancel).await {
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
        // Opening a session does not wait for the servers that it starts; its first prompt does.
        for missing in active.backend.wait_for_servers().await {
            active.sender.send(SessionMessage::Remark(missing.to_string())).await;
        }
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

/// The call that reads a linked image. Its tool applies the policy and its own bounds.
fn image_call(image: &LinkedImage) -> (&'static str, Value) {
    match image {
        LinkedImage::File(path) => ("Read", json!({"file_path": path.display().to_string()})),
        // Without a prompt, no model reads what turns out to be a page.
        LinkedImage::Web(url) => ("WebFetch", json!({"url": url, "prompt": ""})),
    }
}

/// The name of a linked image, for people.
fn image_name(image: &LinkedImage) -> Option<String> {
    let name = match image {
        LinkedImage::File(path) => path.file_name()?.to_string_lossy().into_owned(),
        LinkedImage::Web(url) => {
            let path = url.split(['?', '#']).next()?;
            visible_line(path.rsplit('/').next()?, SHOWN_CHARS_MAX)
        }
    };
    (!name.is_empty()).then_some(name)
}

/// Accepts an image of a type and size that prompts can have.
fn check_image(
    mime: String,
    data: String,
    name: Option<String>,
) -> Result<PromptAttachment, String> {
    if prompt_content::image_type(&mime).is_none() {
        return Err(NO_IMAGE.to_owned());
    }
    // Four base64 characters make three bytes.
    if data.len() > IMAGE_BYTES_MAX.div_ceil(3).saturating_mul(4) {
        let most = IMAGE_BYTES_MAX / 1024 / 1024;
        return Err(format!("it is larger than {most} MiB; link a smaller one"));
    }
    Ok(PromptAttachment { mime, data, name })
}

/// Reads a linked image with a tool, so that policy applies.
async fn read_image(
    active: &ActiveSession,
    image: &LinkedImage,
    cancel: &CancellationToken,
) -> Result<PromptAttachment, String> {
    let id = CallId::from_bits(fastrand::u128(..));
    let (tool, input) = image_call(image);
    let call =
        ToolCall { id: id.clone(), session: None, tool: tool.to_owned(), input, timeout: None };
    let (dialect, watch) = (DialectName::Canonical, Arc::new(SilentObserver));
    let mut outcome = active.backend.call(call, dialect, cancel.clone(), watch).await;
    let attachment = match &mut outcome {
        ToolOutcome::Result(result) => {
            // If the user was asked about the call, they see its result, without the image, which
            // they have.
            let is_image = |part: &ToolResultPart| matches!(part, ToolResultPart::Image { .. });
            let at = result.content.iter().position(is_image);
            match at.map(|at| result.content.remove(at)) {
                Some(ToolResultPart::Image { mime, data }) => {
                    check_image(mime, data, image_name(image))
                }
                _ => Err(NO_IMAGE.to_owned()),
            }
        }
        ToolOutcome::Error(error) if error.reason() == Some(ErrorReason::Binary) => {
            Err(NO_IMAGE.to_owned())
        }
        ToolOutcome::Error(error) => Err(error.message.clone()),
    };
    let ((done, _), end) = (oneshot::channel(), Arc::new(outcome));
    active.sender.send(SessionMessage::UnrecordedCallEnded { call: id.into(), end, done }).await;
    attachment
}
