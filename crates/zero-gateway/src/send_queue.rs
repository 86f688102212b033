//! Queue of outgoing messages of one client.
//!
//! Senders add messages without waiting; the connection sends them when the client reads. A slow
//! client therefore delays no other client. The queue is bounded: a client that exceeds it is
//! disconnected and reads what it missed after it reconnects. Ledger entries, which can be read
//! again later, are not queued while the queue is crowded.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use serde::Serialize;
use tokio::sync::Notify;
use zero_wire::close;
use zero_wire::{CloseReason, ErrorCode, ErrorPayload, ResponseFrame};

/// Bytes charged for a message in addition to its text.
const MESSAGE_COST: usize = 64;
/// The queue is crowded when it exceeds 1/`CROWDED_SHARE` of its limit; deferrable messages then
/// wait.
const CROWDED_SHARE: usize = 8;
/// Capacity in messages that an empty queue keeps.
const IDLE_CAPACITY: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SendQueueLimits {
    /// Maximum size of all queued messages, in bytes.
    pub(crate) bytes_max: usize,
    /// Maximum number of queued messages.
    pub(crate) messages_max: usize,
    /// Maximum size of one message, in bytes; a larger one is not sent.
    pub(crate) message_bytes_max: usize,
}

/// Handle to the send queue of a connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SendQueue {
    shared: Arc<SendQueueShared>,
}

struct SendQueueShared {
    limits: SendQueueLimits,
    state: Mutex<SendQueueState>,
    sender: AtomicWaker,
    is_alive: AtomicBool,
    /// Wakes who waits until the queue is not crowded.
    drained: Notify,
}

#[derive(Default)]
struct SendQueueState {
    waiting: VecDeque<OutgoingMessage>,
    bytes: usize,
    seq: u64,
    ping: bool,
    end: Option<CloseReason>,
    disconnected: bool,
}

/// An item to send.
#[derive(Debug)]
pub(crate) enum OutgoingItem {
    Message(OutgoingMessage),
    Ping,
    /// Close frame; always the last item.
    Close(CloseReason),
}

/// A queued message. An event for many clients is serialized once; only its sequence number
/// differs.
#[derive(Debug)]
pub(crate) enum OutgoingMessage {
    Text(String),
    Event { name: &'static str, payload: Arc<str>, seq: u64 },
}

impl OutgoingMessage {
    fn cost(&self) -> usize {
        MESSAGE_COST.saturating_add(match self {
            Self::Text(text) => text.len(),
            Self::Event { name, payload, .. } => name.len().saturating_add(payload.len()),
        })
    }

    /// The text of the message. `room` is the buffer in which it is assembled if necessary.
    pub(crate) fn render<'a>(&'a self, send_buffer: &'a mut String) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Event { name, payload, seq } => {
                // Event names are constants of this crate and need no escaping.
                debug_assert!(!name.contains(['"', '\\']), "`{name}` would have to be escaped");
                let parts = [r#"{"type":"event","event":""#, name, r#"","payload":"#, payload];
                send_buffer.clear();
                send_buffer.extend(parts);
                // Writing to a string cannot fail.
                let _ = write!(send_buffer, r#","seq":{seq}}}"#);
                send_buffer
            }
        }
    }

    /// Like [`Self::render`], but returns an owned string.
    pub(crate) fn into_text(self) -> String {
        let mut send_buffer = String::new();
        match self {
            Self::Text(text) => text,
            Self::Event { .. } => {
                self.render(&mut send_buffer);
                send_buffer
            }
        }
    }
}

impl SendQueue {
    pub(crate) fn new(limits: SendQueueLimits) -> Self {
        let is_alive = AtomicBool::new(true);
        let shared = SendQueueShared {
            limits,
            state: Mutex::default(),
            sender: AtomicWaker::new(),
            is_alive,
            drained: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sends an event with the next sequence number of this connection. Returns false if the
    /// connection is closed.
    pub(crate) fn send_event(&self, name: &'static str, payload: &impl Serialize) -> bool {
        match serde_json::to_string(payload) {
            Ok(payload) => self.send_raw_event(name, &payload.into()),
            Err(error) => {
                tracing::error!(name, %error, "an event could not be written as JSON");
                !self.is_closed()
            }
        }
    }

    /// Like [`Self::send_event`], for a payload that is already JSON and shared by many clients.
    pub(crate) fn send_raw_event(&self, name: &'static str, payload: &Arc<str>) -> bool {
        if payload.len() > self.shared.limits.message_bytes_max {
            tracing::error!(
                name,
                payload_bytes = payload.len(),
                "an event is too large to be sent"
            );
            return !self.is_closed();
        }
        self.push(|state| {
            state.seq += 1;
            OutgoingMessage::Event { name, payload: Arc::clone(payload), seq: state.seq }
        })
    }

    /// Sends a response. One that exceeds the message limit is replaced by an error.
    pub(crate) fn send_response(&self, frame: ResponseFrame) {
        let id = frame.id.clone();
        let Some(text) = encode_frame(frame) else { return };
        match self.check_size(text.len()) {
            Ok(()) => drop(self.send_text(text)),
            Err(error) => {
                if let Some(text) = encode_frame(error_response(id, error)) {
                    self.send_text(text);
                }
            }
        }
    }

    /// Sends the response to a request; its payload is already JSON.
    pub(crate) fn send_answer(&self, id: String, payload: &str) {
        let name = serde_json::Value::String(id.clone());
        let text = format!(r#"{{"type":"res","id":{name},"ok":true,"payload":{payload}}}"#);
        match self.check_size(text.len()) {
            Ok(()) => drop(self.send_text(text)),
            Err(error) => self.send_response(error_response(id, error)),
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), ErrorPayload> {
        let max = self.shared.limits.message_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        let message = format!(
            "the answer has {bytes} bytes and at most {max} can be sent; ask for less at a time"
        );
        Err(ErrorPayload::new(ErrorCode::Unavailable, message))
    }

    /// Whether the queue is so long that deferrable messages should wait.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lock().bytes > self.crowded_bytes()
    }

    /// Completes when the queue is not crowded.
    pub(crate) async fn wait_uncrowded(&self) {
        loop {
            let mut drained = std::pin::pin!(self.shared.drained.notified());
            // Registered before the check, so that nothing between the two is missed.
            drained.as_mut().enable();
            if !self.is_crowded() {
                return;
            }
            drained.await;
        }
    }

    fn crowded_bytes(&self) -> usize {
        self.shared.limits.bytes_max / CROWDED_SHARE
    }

    /// Sends a complete frame without a sequence number.
    pub(crate) fn send_text(&self, text: String) -> bool {
        self.push(|_| OutgoingMessage::Text(text))
    }

    /// Sends the queued messages and then closes the connection.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        let mut state = self.lock();
        if !state.disconnected {
            state.end.get_or_insert_with(|| CloseReason::new(code, reason));
        }
        drop(state);
        self.shared.sender.wake();
    }

    /// Closes the connection and discards queued messages.
    pub(crate) fn abort(&self, code: u16, reason: &str) {
        abort_state(&mut self.lock(), code, reason);
        self.shared.sender.wake();
    }

    /// Queues a ping. Returns false if the previous one was not answered.
    pub(crate) fn ping(&self) -> bool {
        if !self.shared.is_alive.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.lock().ping = true;
        self.shared.sender.wake();
        true
    }

    /// Records that the client answered.
    pub(crate) fn mark_alive(&self) {
        self.shared.is_alive.store(true, Ordering::Relaxed);
    }

    /// Whether the queue no longer accepts messages.
    pub(crate) fn is_closed(&self) -> bool {
        let state = self.lock();
        state.disconnected || state.end.is_some()
    }

    /// Marks the connection as gone; nothing is sent any more.
    pub(crate) fn mark_disconnected(&self) {
        let mut state = self.lock();
        state.disconnected = true;
        discard_waiting(&mut state);
    }

    /// The next item to send. Only the connection calls this; a ping overtakes messages.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<OutgoingItem> {
        self.shared.sender.register(cx.waker());
        let mut state = self.lock();
        if std::mem::take(&mut state.ping) {
            return Poll::Ready(OutgoingItem::Ping);
        }
        if let Some(message) = state.waiting.pop_front() {
            let before = state.bytes;
            state.bytes = before.saturating_sub(message.cost());
            if before > self.crowded_bytes() && state.bytes <= self.crowded_bytes() {
                self.shared.drained.notify_waiters();
            }
            if state.waiting.is_empty() && state.waiting.capacity() > IDLE_CAPACITY {
                state.waiting.shrink_to(IDLE_CAPACITY);
            }
            return Poll::Ready(OutgoingItem::Message(message));
        }
        match &state.end {
            Some(close) => Poll::Ready(OutgoingItem::Close(close.clone())),
            None => Poll::Pending,
        }
    }

    /// Ready if the connection must end now, even if it cannot send.
    pub(crate) fn poll_abort(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.shared.sender.register(cx.waker());
        let state = self.lock();
        match &state.end {
            Some(close) if state.waiting.is_empty() => Poll::Ready(close.clone()),
            _ => Poll::Pending,
        }
    }

    fn push(&self, message: impl FnOnce(&mut SendQueueState) -> OutgoingMessage) -> bool {
        let limits = &self.shared.limits;
        let mut state = self.lock();
        if state.disconnected || state.end.is_some() {
            return false;
        }
        let message = message(&mut state);
        let bytes = state.bytes.saturating_add(message.cost());
        let fits = bytes <= limits.bytes_max && state.waiting.len() < limits.messages_max;
        if fits {
            state.bytes = bytes;
            state.waiting.push_back(message);
        } else {
            abort_state(&mut state, close::POLICY, "slow consumer");
        }
        drop(state);
        if !fits {
            tracing::warn!(waiting_bytes = bytes, "disconnected a client that reads too slowly");
        }
        self.shared.sender.wake();
        fits
    }

    fn lock(&self) -> MutexGuard<'_, SendQueueState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn abort_state(state: &mut SendQueueState, code: u16, reason: &str) {
    discard_waiting(state);
    if !state.disconnected {
        state.end = Some(CloseReason::new(code, reason));
    }
}

fn discard_waiting(state: &mut SendQueueState) {
    state.waiting = VecDeque::new();
    state.bytes = 0;
}

fn encode_frame(frame: ResponseFrame) -> Option<String> {
    let frame = zero_wire::GatewayFrame::Response(frame);
    serde_json::to_string(&frame)
        .inspect_err(|error| tracing::error!(%error, "a response could not be written as JSON"))
        .ok()
}

pub(crate) fn error_response(id: impl Into<String>, error: ErrorPayload) -> ResponseFrame {
    ResponseFrame { id: id.into(), ok: false, payload: None, error: Some(error) }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use serde_json::json;

    use super::*;

    const LIMITS: SendQueueLimits =
        SendQueueLimits { bytes_max: 4096, messages_max: 8, message_bytes_max: 1024 };

    fn next(outbox: &SendQueue) -> Option<OutgoingItem> {
        match outbox.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(out) => Some(out),
            Poll::Pending => None,
        }
    }

    /// All queued messages, one per line.
    fn drain_text(outbox: &SendQueue) -> String {
        let mut lines = String::new();
        while let Some(out) = next(outbox) {
            let line = match out {
                OutgoingItem::Message(message) => message.into_text(),
                OutgoingItem::Ping => "ping".to_owned(),
                OutgoingItem::Close(close) => {
                    return format!("{lines}close {} {}", close.code, close.reason);
                }
            };
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    }

    #[test]
    fn only_events_are_numbered() {
        let outbox = SendQueue::new(LIMITS);
        assert!(outbox.send_event("tick", &json!({"ts": 5})));
        outbox.send_response(ResponseFrame {
            id: "a".into(),
            ok: true,
            payload: None,
            error: None,
        });
        assert!(outbox.send_raw_event("shutdown", &"[1]".into()));
        outbox.close(1012, "service restart");
        assert!(!outbox.send_event("tick", &json!({})));
        insta::assert_snapshot!(drain_text(&outbox), @r#"
        {"type":"event","event":"tick","payload":{"ts":5},"seq":1}
        {"type":"res","id":"a","ok":true}
        {"type":"event","event":"shutdown","payload":[1],"seq":2}
        close 1012 service restart
        "#);
    }

    #[track_caller]
    fn check_aborted(outbox: &SendQueue) {
        assert!(!outbox.send_event("e", &1));
        assert!(matches!(
            outbox.poll_abort(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(close) if close == CloseReason::new(close::POLICY, "slow consumer")
        ));
        assert_eq!(drain_text(outbox), "close 1008 slow consumer");
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[test]
    fn too_many_messages_abort_connection() {
        let outbox = SendQueue::new(LIMITS);
        for _ in 0..8 {
            assert!(outbox.send_event("e", &1));
        }
        assert!(!outbox.send_event("e", &1));
        check_aborted(&outbox);
    }

    #[test]
    fn too_many_bytes_abort_connection() {
        let outbox = SendQueue::new(LIMITS);
        let payload: Arc<str> = format!("\"{}\"", "x".repeat(1000)).into();
        for _ in 0..3 {
            assert!(outbox.send_raw_event("e", &payload));
        }
        assert!(!outbox.send_raw_event("e", &payload));
        check_aborted(&outbox);
    }

    #[test]
    fn sent_messages_free_space() {
        let outbox = SendQueue::new(LIMITS);
        for _ in 0..100 {
            assert!(outbox.send_event("e", &"x".repeat(500)));
            assert!(matches!(next(&outbox), Some(OutgoingItem::Message(_))));
        }
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[test]
    fn oversized_answer_becomes_error() {
        let outbox = SendQueue::new(LIMITS);
        let payload = Some(json!("x".repeat(2000)));
        outbox.send_response(ResponseFrame { id: "big".into(), ok: true, payload, error: None });
        let sent = drain_text(&outbox);
        assert!(sent.contains(r#""id":"big","ok":false"#), "{sent}");
        assert!(sent.contains("ask for less at a time"), "{sent}");
    }

    #[test]
    fn answer_is_sent_as_response() {
        let outbox = SendQueue::new(LIMITS);
        outbox.send_answer("a\"b".to_owned(), r#"{"ok":1}"#);
        assert_eq!(
            drain_text(&outbox),
            "{\"type\":\"res\",\"id\":\"a\\\"b\",\"ok\":true,\"payload\":{\"ok\":1}}\n"
        );
        outbox.send_answer("big".to_owned(), &"1".repeat(2000));
        let sent = drain_text(&outbox);
        assert!(sent.contains(r#""id":"big","ok":false"#), "{sent}");
    }

    #[test]
    fn ping_goes_first_and_silence_is_detected() {
        let outbox = SendQueue::new(LIMITS);
        outbox.send_text("first".to_owned());
        assert!(outbox.ping());
        assert_eq!(drain_text(&outbox), "ping\nfirst\n");
        assert!(!outbox.ping());
        outbox.mark_alive();
        assert!(outbox.ping());
    }

    #[test]
    fn disconnected_queue_stores_nothing() {
        let outbox = SendQueue::new(LIMITS);
        outbox.send_text("x".to_owned());
        outbox.mark_disconnected();
        assert!(!outbox.send_event("e", &1));
        outbox.close(1000, "");
        assert_eq!(drain_text(&outbox), "");
    }
}
