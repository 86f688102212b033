//! What goes back and forth: questions and their answers, what the server says unasked, and the pipes
//! that carry it.
//!
//! Whoever listens never waits for whoever writes: a server that is stuck in the one must not be
//! stuck in the other.

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

/// Questions that wait for an answer.
pub(super) const PENDING_MAX: usize = 64;
/// How long the end of a server is waited for that closed its input.
const END_MAX: Duration = Duration::from_secs(2);
/// Longest name that a server may give a question of its own, and the longest answer it gets.
const ID_BYTES_MAX: usize = 256;
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Messages that make no sense before a server is cut off.
const INVALID_MESSAGES_MAX: u32 = 200;

/// What those share who talk to the server and who listens to it.
pub(super) struct LspConnectionState {
    pub(super) server: String,
    pub(super) outbox: mpsc::Sender<Vec<u8>>,
    pub(super) pending: Mutex<HashMap<i64, oneshot::Sender<LspResponse>>>,
    pub(super) next_id: AtomicI64,
    pub(super) nonsense: AtomicU32,
    pub(super) published: DiagnosticsStore,
    pub(super) progress: LanguageServerProgress,
    /// The folders it is for, as it asks for them.
    pub(super) folders: Value,
    pub(super) settings: Value,
    pub(super) closed: CancellationToken,
    pub(super) why: OnceLock<String>,
}

/// What came back for a question.
pub(super) enum LspResponse {
    Result(Value),
    Error { code: i64, message: String },
    Invalid,
}

/// A question that waits for its answer. Whoever gives up waiting tells the server.
pub(super) struct LspRequestGuard<'a> {
    pub(super) shared: &'a LspConnectionState,
    pub(super) id: i64,
}

impl Drop for LspRequestGuard<'_> {
    fn drop(&mut self) {
        if self.shared.lock_pending().remove(&self.id).is_some() {
            let cancel = encode_message(None, "$/cancelRequest", json!({"id": self.id}));
            // Where there is no room for it, it is not important enough to wait.
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

    /// Takes one message of the server.
    fn receive(&self, message: &[u8]) {
        let makes_sense = match serde_json::from_slice::<Value>(message) {
            Ok(message) => self.dispatch(message),
            Err(_) => false,
        };
        if !makes_sense && self.nonsense.fetch_add(1, Ordering::Relaxed) >= INVALID_MESSAGES_MAX {
            self.close("it says too much that makes no sense".to_owned());
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
                    self.close("it asks more than it reads answers of".to_owned());
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
                // Nobody may wait for it any more.
                let _ = waiting.send(parse_response(&mut message));
                true
            }
            (None, None) => false,
        }
    }
}

/// Whether a server may call a question that: it is kept until the answer is read.
fn is_valid_id(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(name) => name.len() <= ID_BYTES_MAX,
        _ => false,
    }
}

/// A message as it is written: one with a number wants an answer.
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
                error.get("message").and_then(Value::as_str).unwrap_or("it says no more"),
            ),
        },
        (Some(result), _) => LspResponse::Result(result),
        (None, _) => LspResponse::Invalid,
    }
}

/// Listens until there is nothing more to hear.
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
    // Whoever waits hears of it by the end of their channel.
    shared.lock_pending().clear();
}

/// Writes what is to be read by the server, one message after the other. When it ends, so does the
/// server's input. A server that reads nothing for `stuck_max` is cut off.
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
                        // It mostly ended. Whoever listens to it hears that too, and knows why.
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

/// Why a server is cut off that reads nothing.
pub(super) fn stall_reason(stuck_max: Duration) -> String {
    format!("it read nothing for {} s", stuck_max.as_secs_f32())
}
