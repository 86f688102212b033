//! Message transport of a connection: matching replies to requests, dispatching notifications, and
//! the tasks that read and write the pipes.
//!
//! Reading and writing are separate tasks, so that a server that does not read its input cannot
//! block the reading of its output.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::server_progress::LanguageServerProgress;
use super::server_requests;
use crate::diagnostics_store::DiagnosticsStore;
use crate::error::LspError;
use crate::frame::{LspFrameReader, encode_frame};

/// Most requests that may wait for a reply at a time.
pub(super) const PENDING_MAX: usize = 64;
/// How long to wait for the exit of a server that closed its input.
const END_MAX: Duration = Duration::from_secs(2);
/// Longest id that a server may give its request, and longest reply to one.
const ID_BYTES_MAX: usize = 256;
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Malformed messages after which a server is killed.
const INVALID_MESSAGES_MAX: u32 = 200;

/// State shared by the senders of requests and the tasks that read and write.
pub(super) struct LspConnectionState {
    pub(super) server: String,
    pub(super) outbox: mpsc::Sender<Vec<u8>>,
    pub(super) pending: Mutex<HashMap<i64, oneshot::Sender<LspResponse>>>,
    pub(super) next_id: AtomicI64,
    pub(super) invalid_messages: AtomicU32,
    pub(super) published: DiagnosticsStore,
    pub(super) progress: LanguageServerProgress,
    /// The workspace folders, in the form of the reply to `workspace/workspaceFolders`.
    pub(super) folders: Value,
    pub(super) settings: Value,
    pub(super) closed: CancellationToken,
    pub(super) why: OnceLock<String>,
}

/// The reply to a request.
pub(super) enum LspResponse {
    Result(Value),
    Error { code: i64, message: String },
    Invalid,
}

/// A request that waits for its reply. Dropping it early sends `$/cancelRequest`.
pub(super) struct LspRequestGuard<'a> {
    pub(super) shared: &'a LspConnectionState,
    pub(super) id: i64,
}

impl Drop for LspRequestGuard<'_> {
    fn drop(&mut self) {
        if self.shared.lock_pending().remove(&self.id).is_some() {
            let cancel = encode_message(None, "$/cancelRequest", json!({"id": self.id}));
            // If the queue is full, the cancellation is not worth waiting for.
            let _ = self.shared.outbox.try_send(cancel);
        }
    }
}

impl LspConnectionState {
    fn lock_pending(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<LspResponse>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register_request(
        &self,
    ) -> Option<(LspRequestGuard<'_>, oneshot::Receiver<LspResponse>)> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let mut pending = self.lock_pending();
        if pending.len() >= PENDING_MAX {
            return None;
        }
        pending.insert(id, sender);
        Some((LspRequestGuard { shared: self, id }, answer))
    }

    pub(super) fn close(&self, why: String) {
        let _ = self.why.set(why);
        self.closed.cancel();
    }

    pub(super) fn closed_error(&self, why: String) -> LspError {
        LspError::Unavailable { server: self.server.clone(), why }
    }

    /// Handles one message of the server.
    fn receive(&self, message: &[u8]) {
        let makes_sense = match serde_json::from_slice::<Value>(message) {
            Ok(message) => self.dispatch(message),
            Err(_) => false,
        };
        if !makes_sense
            && self.invalid_messages.fetch_add(1, Ordering::Relaxed) >= INVALID_MESSAGES_MAX
        {
            self.close("it sent too many malformed messages".to_owned());
        }
    }

    fn dispatch(&self, mut message: Value) -> bool {
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").cloned();
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (method, id) {
            (Some(method), Some(id)) => {
                if !is_valid_id(&id) {
                    return false;
                }
                let reply =
                    server_requests::answer_request(self, &id, &method, &params).to_string();
                let reply = match reply.len() <= REPLY_BYTES_MAX {
                    true => reply,
                    false => server_requests::reply_too_large(&id).to_string(),
                };
                let bytes = encode_frame(reply.as_bytes());
                if self.outbox.try_send(bytes).is_err() {
                    self.close("it sends requests faster than it reads the replies".to_owned());
                }
                true
            }
            (Some(method), None) => match method.as_str() {
                "textDocument/publishDiagnostics" => self.published.publish(&params),
                "$/progress" => self.progress.update(&params),
                _ => true,
            },
            (None, Some(id)) => {
                let waiting = id.as_i64().and_then(|id| self.lock_pending().remove(&id));
                let Some(waiting) = waiting else { return false };
                // The caller may have given up waiting.
                let _ = waiting.send(parse_response(&mut message));
                true
            }
            (None, None) => false,
        }
    }
}

/// Returns whether a request id is acceptable: it is stored until the reply is sent.
fn is_valid_id(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(name) => name.len() <= ID_BYTES_MAX,
        _ => false,
    }
}

/// Encodes a message with its header. A message with an id is a request, one without is a
/// notification.
pub(super) fn encode_message(id: Option<i64>, method: &str, params: Value) -> Vec<u8> {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    if !params.is_null() {
        message["params"] = params;
    }
    encode_frame(message.to_string().as_bytes())
}

fn parse_response(message: &mut Value) -> LspResponse {
    let Some(fields) = message.as_object_mut() else { return LspResponse::Invalid };
    match (fields.get_mut("result").map(Value::take), fields.get("error")) {
        (_, Some(error)) if error.is_object() => LspResponse::Error {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: zero_core::sanitize::to_line(
                error.get("message").and_then(Value::as_str).unwrap_or("no reason given"),
            ),
        },
        (Some(result), _) => LspResponse::Result(result),
        (None, _) => LspResponse::Invalid,
    }
}

/// Reads messages until the server's output ends.
pub(super) async fn read_messages(output: pipe::Receiver, shared: Arc<LspConnectionState>) {
    let mut reader = LspFrameReader::new(output);
    loop {
        let next = tokio::select! {
            biased;
            () = shared.closed.cancelled() => break,
            next = reader.next() => next,
        };
        match next {
            Ok(message) => shared.receive(&message),
            Err(error) => {
                shared.close(error.to_string());
                break;
            }
        }
    }
    // Dropping the senders wakes up all callers that wait for a reply.
    shared.lock_pending().clear();
}

/// Writes queued messages to the server one by one, and closes its input at the end. A server that
/// reads nothing for `stuck_max` is killed.
pub(super) async fn write_messages(
    mut input: pipe::Sender,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    shared: Arc<LspConnectionState>,
    stuck_max: Duration,
) {
    let writing = async {
        while let Some(message) = waiting.recv().await {
            let mut rest = &message[..];
            while !rest.is_empty() {
                match tokio::time::timeout(stuck_max, input.write(rest)).await {
                    Ok(Ok(length @ 1..)) => rest = rest.get(length..).unwrap_or_default(),
                    Ok(_) => {
                        // The server has probably exited. The reading task notices that too, and
                        // knows the reason.
                        tokio::time::sleep(END_MAX).await;
                        return shared.close("it closed its input".to_owned());
                    }
                    Err(_) => return shared.close(stall_reason(stuck_max)),
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.closed.cancelled() => {}
        () = writing => {}
    }
}

/// Describes why a server that reads nothing is killed.
pub(super) fn stall_reason(stuck_max: Duration) -> String {
    format!("it read nothing for {} s", stuck_max.as_secs_f32())
}
