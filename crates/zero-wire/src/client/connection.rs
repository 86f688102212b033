//! A connection at work: one reader, one writer, and the requests that wait for answers.

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

/// Most requests that wait for an answer at once; more wait for their turn.
pub const IN_FLIGHT_MAX: usize = 256;
/// Most events that wait for their reader; more wait at the gateway.
pub const EVENTS_MAX: usize = 1024;
/// Most requests that wait to be sent.
const OUTGOING_MAX: usize = 64;
/// How long the end of a connection may take.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Longest time between two ticks that is believed.
const TICK_MAX: Duration = Duration::from_secs(60 * 60);

/// A connection.
pub(super) struct GatewayClientConnection {
    hello: HelloOk,
    shared: Arc<GatewayClientState>,
    outgoing: bounded_queue::QueueSender<String>,
    in_flight: Semaphore,
    id_next: AtomicU64,
}

impl GatewayClientConnection {
    /// Starts to read and write.
    pub(super) fn start(
        reader: GatewayFrameReader,
        writer: GatewayFrameWriter,
        hello: HelloOk,
    ) -> (Self, bounded_queue::QueueReceiver<EventFrame>) {
        let shared = Arc::new(GatewayClientState::default());
        let (outgoing, to_send) = bounded_queue::bounded_queue(OUTGOING_MAX, BUFFERED_BYTES_MAX);
        let (happening, events) = bounded_queue::bounded_queue(EVENTS_MAX, BUFFERED_BYTES_MAX);
        let tick = Duration::from_millis(hello.policy.tick_interval_ms.max(1)).min(TICK_MAX);
        let work = {
            let shared = shared.clone();
            async move {
                let mut reader = reader;
                tokio::join!(
                    read_frames(&mut reader, &shared, happening, tick * 2),
                    write_frames(writer, &shared, to_send),
                );
                // Not sooner: to the peer, an end that nobody reads looks lost, whatever is said.
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

    /// Asks, and waits for the answer.
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
        let error = response.error.unwrap_or_else(|| ErrorPayload::invalid("no reason was given"));
        Err(GatewayClientError::Refused { error })
    }

    /// Ends, and waits until it is over: at most a few times [`CLOSE_GRACE`].
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

/// What the reader, the writer and those who wait have in common.
#[derive(Default)]
pub(super) struct GatewayClientState {
    expected: Mutex<PendingResponses>,
    end: OnceLock<CloseReason>,
    /// It is known why it ends.
    closing: CancellationToken,
    /// Nothing is read or written any more.
    over: CancellationToken,
}

impl GatewayClientState {
    /// Why it ended, once it has.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.end.get().cloned()
    }

    /// Ends it. Only the first reason counts. Who waits for an answer is told.
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
        // Under the lock: nobody would answer what is expected after the end.
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
            // Who asked may have stopped waiting in this moment.
            Some(waiting) => drop(waiting.send(response)),
            None => tracing::debug!("an answer came that nobody waits for"),
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingResponses> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that will come. Who stops waiting expects it no more.
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
            // Time in which nobody read here is not the gateway's silence.
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
                    // Where nobody takes events any more, answers still matter.
                    _ = events.send(event, bytes) => {}
                }
            }
            (GatewayFrame::Request(_), _) => {
                break Some(CloseReason::new(close::PROTOCOL_ERROR, "a gateway does not ask"));
            }
        }
    };
    if let Some(reason) = reason {
        shared.finish(reason);
    }
    drop(events);
    // Where this side ends it, the peer gets a moment to agree.
    let _ = timeout(CLOSE_GRACE, async { while reader.next_frame().await.is_ok() {} }).await;
}

/// Events are counted. One that is missing heals itself, but is worth knowing of.
fn log_gap(seq_last: &mut Option<u64>, seq: Option<u64>) {
    let Some(seq) = seq else { return };
    if let Some(last) = *seq_last
        && seq.checked_sub(1) != Some(last)
    {
        tracing::warn!(last, next = seq, "the gateway left out events");
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
            // The reader may be about to learn what the gateway says of it.
            let _ = timeout(CLOSE_GRACE, shared.closing.cancelled()).await;
            shared.finish(reason);
            break;
        }
    }
    let reason = shared.close_reason().unwrap_or_else(CloseReason::lost);
    let _ = timeout(CLOSE_GRACE, writer.close(&reason)).await;
}
