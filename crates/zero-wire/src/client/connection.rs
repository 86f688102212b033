//! [`GatewayClientConnection`], an established connection: one task that reads and writes frames,
//! and the requests that wait for their responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::encoded_params::EncodedParams;
use super::error::GatewayClientError;
use super::transport::{GatewayFrameReader, GatewayFrameWriter, IncomingFrame};
use crate::bounded_queue;
use crate::close::{self, CloseReason};
use crate::error::ErrorPayload;
use crate::events::TICK;
use crate::frame::{
    BUFFERED_BYTES_MAX, EventFrame, GatewayFrame, PAYLOAD_BYTES_MAX, ResponseFrame,
};
use crate::handshake::HelloOk;

/// Maximum number of requests that wait for a response; further requests are delayed.
pub const IN_FLIGHT_MAX: usize = 256;
/// Maximum number of events in the queue; while it is full, the client reads nothing more.
pub const EVENTS_MAX: usize = 1024;
/// Maximum number of requests that are queued to be sent.
const OUTGOING_MAX: usize = 64;
/// Time limit for each step of closing a connection.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Longest tick interval that is accepted from a gateway; a longer one is shortened to this.
const TICK_MAX: Duration = Duration::from_secs(60 * 60);

/// An established connection. Dropping it closes it.
pub(super) struct GatewayClientConnection {
    hello: HelloOk,
    shared: Arc<GatewayClientState>,
    outgoing: bounded_queue::QueueSender<String>,
    in_flight: Semaphore,
    id_next: AtomicU64,
}

impl GatewayClientConnection {
    /// Starts the task that reads and writes, and returns the connection and its queue of events.
    pub(super) fn start(
        reader: GatewayFrameReader,
        writer: GatewayFrameWriter,
        hello: HelloOk,
    ) -> (Self, bounded_queue::QueueReceiver<EventFrame>) {
        let shared = Arc::new(GatewayClientState::default());
        let (outgoing, to_send) = bounded_queue::bounded_queue(OUTGOING_MAX, BUFFERED_BYTES_MAX);
        let (to_events, events) = bounded_queue::bounded_queue(EVENTS_MAX, BUFFERED_BYTES_MAX);
        let tick = Duration::from_millis(hello.policy.tick_interval_ms.max(1)).min(TICK_MAX);
        let work = {
            let shared = shared.clone();
            async move {
                let mut reader = reader;
                tokio::join!(
                    read_frames(&mut reader, &shared, to_events, tick * 2),
                    write_frames(writer, &shared, to_send),
                );
                // Not earlier: if the reader were dropped before the close reason is sent, the peer
                // would see a lost connection.
                drop(reader);
                shared.over.cancel();
            }
        };
        tokio::spawn(work);
        let connection = Self {
            hello,
            shared,
            outgoing,
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
            id_next: AtomicU64::new(1),
        };
        (connection, events)
    }

    pub(super) fn hello(&self) -> &HelloOk {
        &self.hello
    }

    pub(super) fn state(&self) -> Arc<GatewayClientState> {
        self.shared.clone()
    }

    /// Sends a request, and waits for its response.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &EncodedParams,
    ) -> Result<Value, GatewayClientError> {
        let _permit = self.in_flight.acquire().await.map_err(|_| self.shared.closed_error())?;
        let id = self.id_next.fetch_add(1, Ordering::Relaxed);
        let text = params.to_request(id, method)?;
        let bytes = text.len();
        let allowed = usize::try_from(self.hello.policy.max_payload).unwrap_or(usize::MAX);
        let bytes_max = allowed.min(PAYLOAD_BYTES_MAX);
        if bytes > bytes_max {
            return Err(GatewayClientError::TooLong { bytes, bytes_max });
        }
        let waiting = self.shared.expect_response(id.to_string())?;
        let sent = tokio::select! {
            () = self.shared.closing.cancelled() => false,
            sent = self.outgoing.send(text, bytes) => sent,
        };
        if !sent {
            return Err(self.shared.closed_error());
        }
        let response = waiting.wait().await?;
        if response.ok {
            return Ok(response.payload.unwrap_or(Value::Null));
        }
        let error = response.error.unwrap_or_else(|| ErrorPayload::invalid("no reason given"));
        Err(GatewayClientError::Refused { error })
    }

    /// Closes the connection, and waits until it is closed: at most a few times [`CLOSE_GRACE`].
    pub(super) async fn close(&self) {
        self.shared.finish(CloseReason::new(close::NORMAL, ""));
        self.shared.over.cancelled().await;
    }
}

impl Drop for GatewayClientConnection {
    fn drop(&mut self) {
        self.shared.finish(CloseReason::new(close::NORMAL, ""));
    }
}

type PendingResponses = HashMap<String, oneshot::Sender<ResponseFrame>>;

/// State that the reader, the writer and the waiting requests share.
#[derive(Default)]
pub(super) struct GatewayClientState {
    expected: Mutex<PendingResponses>,
    end: OnceLock<CloseReason>,
    /// Cancelled when the close reason is known.
    closing: CancellationToken,
    /// Cancelled when nothing is read or written any more.
    over: CancellationToken,
}

impl GatewayClientState {
    /// Returns why the connection was closed, once it is.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.end.get().cloned()
    }

    /// Closes the connection. Only the first reason is kept. All waiting requests fail with it.
    fn finish(&self, reason: CloseReason) {
        let mut expected = self.pending();
        let _ = self.end.set(reason);
        expected.clear();
        drop(expected);
        self.closing.cancel();
    }

    fn closed_error(&self) -> GatewayClientError {
        let CloseReason { code, reason } = self.close_reason().unwrap_or_else(CloseReason::lost);
        GatewayClientError::Closed { code, reason }
    }

    fn expect_response(
        self: &Arc<Self>,
        id: String,
    ) -> Result<PendingResponse, GatewayClientError> {
        let (sender, receiver) = oneshot::channel();
        let mut expected = self.pending();
        // Checked under the lock: a request that is registered after the end would wait forever.
        if self.end.get().is_some() {
            drop(expected);
            return Err(self.closed_error());
        }
        expected.insert(id.clone(), sender);
        drop(expected);
        Ok(PendingResponse { id, receiver, shared: self.clone() })
    }

    fn deliver_response(&self, response: ResponseFrame) {
        let waiting = self.pending().remove(&response.id);
        match waiting {
            // The request may have been dropped at this moment.
            Some(waiting) => drop(waiting.send(response)),
            None => tracing::debug!("unexpected response ignored"),
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingResponses> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response that a request waits for. Dropping it removes the expectation.
struct PendingResponse {
    id: String,
    receiver: oneshot::Receiver<ResponseFrame>,
    shared: Arc<GatewayClientState>,
}

impl PendingResponse {
    async fn wait(mut self) -> Result<ResponseFrame, GatewayClientError> {
        let answer = (&mut self.receiver).await;
        answer.map_err(|_| self.shared.closed_error())
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        self.shared.pending().remove(&self.id);
    }
}

async fn read_frames(
    reader: &mut GatewayFrameReader,
    shared: &GatewayClientState,
    events: bounded_queue::QueueSender<EventFrame>,
    silence_max: Duration,
) {
    let mut seq_last: Option<u64> = None;
    let reason = loop {
        let next = tokio::select! {
            biased;
            () = shared.closing.cancelled() => break None,
            // The timeout starts with each read: while the queue of events is full, nothing is
            // read, and that time must not count as silence of the gateway.
            next = timeout(silence_max, reader.next_frame()) => next,
        };
        let frame = match next {
            Err(_) => break Some(CloseReason::new(close::SILENT, "tick timeout")),
            Ok(Err(reason)) => break Some(reason),
            Ok(Ok(IncomingFrame::KeepAlive)) => continue,
            Ok(Ok(IncomingFrame::Frame(frame, bytes))) => (frame, bytes),
        };
        match frame {
            (GatewayFrame::Response(response), _) => shared.deliver_response(response),
            (GatewayFrame::Event(event), bytes) => {
                log_gap(&mut seq_last, event.seq);
                if event.event == TICK {
                    continue;
                }
                tokio::select! {
                    biased;
                    () = shared.closing.cancelled() => break None,
                    // If the receiver of the events is gone, responses must still arrive.
                    _ = events.send(event, bytes) => {}
                }
            }
            (GatewayFrame::Request(_), _) => {
                break Some(CloseReason::new(
                    close::PROTOCOL_ERROR,
                    "unexpected request from the gateway",
                ));
            }
        }
    };
    if let Some(reason) = reason {
        shared.finish(reason);
    }
    drop(events);
    // If this side closes, the peer gets a moment to answer the close.
    let _ = timeout(CLOSE_GRACE, async { while reader.next_frame().await.is_ok() {} }).await;
}

/// Logs a gap in the sequence numbers of the events. Clients recover from one, but it helps to know
/// of it.
fn log_gap(seq_last: &mut Option<u64>, seq: Option<u64>) {
    let Some(seq) = seq else { return };
    if let Some(last) = *seq_last
        && seq.checked_sub(1) != Some(last)
    {
        tracing::warn!(last, next = seq, "the gateway skipped events");
    }
    *seq_last = Some(seq);
}

async fn write_frames(
    mut writer: GatewayFrameWriter,
    shared: &GatewayClientState,
    mut to_send: bounded_queue::QueueReceiver<String>,
) {
    loop {
        let text = tokio::select! {
            biased;
            () = shared.closing.cancelled() => break,
            text = to_send.recv() => text,
        };
        let Some(text) = text else { break };
        let sent = tokio::select! {
            biased;
            () = shared.closing.cancelled() => break,
            sent = writer.send(text) => sent,
        };
        if let Err(reason) = sent {
            // The reader may be about to receive the gateway's close reason, which says more.
            let _ = timeout(CLOSE_GRACE, shared.closing.cancelled()).await;
            shared.finish(reason);
            break;
        }
    }
    let reason = shared.close_reason().unwrap_or_else(CloseReason::lost);
    let _ = timeout(CLOSE_GRACE, writer.close(&reason)).await;
}
