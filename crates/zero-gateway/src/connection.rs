//! The lifecycle of one connection: handshake, then requests and responses until one side closes
//! it.
//!
//! Requests start in the order they arrive and may finish in any order, so a slow request does not
//! block others. A started request runs to completion even if its client disconnects: a prompt is
//! either sent or not sent.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use zero_wire::frame::{self, FrameParseError};
use zero_wire::{CloseReason, ErrorCode, ErrorPayload, GatewayFrame, ResponseFrame, close};

use crate::auth::Principal;
use crate::authenticated_connection::AuthenticatedConnection;
use crate::gateway_inner::GatewayInner;
use crate::handshake;
use crate::handshake_table::HandshakeSlot;
use crate::methods::AnswerFuture;
use crate::node_requests;
use crate::send_queue::{SendQueue, error_response};

/// Longest message that is parsed inline, in bytes. Parsing and validating a longer one takes
/// milliseconds, so it moves to a blocking thread.
const INLINE_READ_BYTES_MAX: usize = 64 * 1024;

/// The server side of a connection, independent of the transport.
pub(crate) trait MessageTransport: Send {
    /// Sends queued messages until something arrives. Cancel-safe.
    fn exchange(&mut self, outbox: &SendQueue) -> impl Future<Output = TransportEvent> + Send;

    /// Marks the client as authenticated; from now on it may send long messages.
    fn mark_trusted(&mut self);

    /// Sends the close reason, if the server closes the connection, and waits at most `grace` for
    /// the client to receive it.
    fn finish(
        self,
        reason: Option<CloseReason>,
        grace: Duration,
    ) -> impl Future<Output = ()> + Send;
}

/// What the WebSocket, or the end of it, hands to a connection.
pub(crate) enum TransportEvent {
    Text(Utf8Bytes),
    NotText,
    KeepAlive,
    /// The connection ends, with the reason to send, or `None` if the client closed it.
    Ended(Option<CloseReason>),
}

/// Origin of a connection.
pub(crate) enum PeerOrigin {
    /// A network peer, which has to authenticate.
    Network {
        /// IP address of the peer, used to limit failed authentication.
        address: IpAddr,
        /// Slot of an unauthenticated connection; held until the peer has authenticated.
        slot: HandshakeSlot,
    },
    /// A client in this process.
    Process(Principal),
}

impl PeerOrigin {
    /// Completes when the peer has to make room for another one.
    async fn dropped(&self) {
        match self {
            Self::Network { slot, .. } => slot.dropped().await,
            Self::Process(_) => std::future::pending().await,
        }
    }
}

/// Runs a connection until it ends.
pub(crate) async fn run_connection(
    gateway: Arc<GatewayInner>,
    mut link: impl MessageTransport,
    from: PeerOrigin,
) {
    let outbox = SendQueue::new(gateway.limits.send_queue_limits());
    let reason = exchange_messages(&gateway, &mut link, &outbox, from).await;
    outbox.mark_disconnected();
    link.finish(reason, gateway.limits.close_grace).await;
}

async fn exchange_messages(
    gateway: &Arc<GatewayInner>,
    link: &mut impl MessageTransport,
    outbox: &SendQueue,
    from: PeerOrigin,
) -> Option<CloseReason> {
    let greeted = tokio::select! {
        greeted = handshake::perform_handshake(gateway, link, outbox, &from) => greeted,
        () = from.dropped() => {
            let reason = "there are too many unauthenticated connections";
            Err(Some(CloseReason::new(close::TRY_LATER, reason)))
        }
        () = gateway.stopped.cancelled() => Err(Some(gateway.shutdown_close_reason())),
    };
    let (greeting, hello) = match greeted {
        Ok(greeted) => greeted,
        Err(reason) => return reason,
    };
    drop(from);
    link.mark_trusted();
    let conn_id = greeting.conn_id.clone();
    tracing::debug!(conn = %conn_id, who = %greeting.principal.name, "a client connected");
    outbox.send_response(hello);
    let Some(_registered) = gateway.register(outbox, greeting.device.as_ref()) else {
        return Some(gateway.shutdown_close_reason());
    };
    if let Some(device) = &greeting.device {
        // It may have been revoked before it was registered.
        if !gateway.devices.is_paired(device) {
            return Some(CloseReason::new(close::POLICY, "this device was revoked"));
        }
        if gateway.devices.mark_seen(device) {
            let gateway = Arc::clone(gateway);
            tokio::task::spawn_blocking(move || {
                if let Err(error) = gateway.devices.store() {
                    tracing::warn!(%error, "the paired devices could not be stored");
                }
            });
        }
    }
    let peer = AuthenticatedConnection::new(Arc::clone(gateway), greeting, outbox.clone());
    let hearing = Arc::clone(&peer);
    gateway.tasks.spawn(async move { hearing.watch_approvals().await });
    let requests = Arc::new(Semaphore::new(gateway.limits.requests_max));
    let reason = loop {
        match link.exchange(outbox).await {
            TransportEvent::Text(text) => {
                outbox.mark_alive();
                match read_message(&peer, text).await {
                    ParsedMessage::Request(request) => {
                        start_request(gateway, &peer, outbox, &requests, request)
                    }
                    // A response would need the id of the request, which cannot be read.
                    ParsedMessage::InvalidJson => {}
                    ParsedMessage::Refused(response) => outbox.send_response(*response),
                }
            }
            TransportEvent::NotText | TransportEvent::KeepAlive => outbox.mark_alive(),
            TransportEvent::Ended(reason) => break reason,
        }
    };
    peer.disconnect().await;
    tracing::debug!(conn = %conn_id, reason = ?reason, "a connection ended");
    reason
}

/// Parses a message. A long one is parsed on a blocking thread.
pub(crate) async fn parse_frame(text: Utf8Bytes) -> Result<GatewayFrame, FrameParseError> {
    if text.len() <= INLINE_READ_BYTES_MAX {
        return frame::parse(&text);
    }
    match tokio::task::spawn_blocking(move || frame::parse(&text)).await {
        Ok(parsed) => parsed,
        Err(_) => Err(FrameParseError::NotJson),
    }
}

/// Response to a message that is not a valid frame.
pub(crate) fn bad_frame_response(bad: FrameParseError) -> ResponseFrame {
    let error = ErrorPayload::invalid(bad.to_string());
    let id = match bad {
        FrameParseError::Invalid { id, .. } => id,
        _ => None,
    };
    error_response(id.unwrap_or_else(|| "invalid".to_owned()), error)
}

/// Result of parsing a message.
enum ParsedMessage {
    /// A valid request, which may still be refused.
    Request(ParsedRequest),
    /// A frame that is not a valid request, with the error response.
    Refused(Box<ResponseFrame>),
    /// The message is not JSON.
    InvalidJson,
}

/// A parsed and validated request.
struct ParsedRequest {
    id: String,
    method: String,
    answer: Result<AnswerFuture, ErrorPayload>,
}

/// Parses and validates a message, on a blocking thread if it is long. Later messages wait, so
/// requests start in the order they arrived.
async fn read_message(peer: &Arc<AuthenticatedConnection>, text: Utf8Bytes) -> ParsedMessage {
    if text.len() <= INLINE_READ_BYTES_MAX {
        return read_inline(peer, &text);
    }
    let peer = Arc::clone(peer);
    let reading = tokio::task::spawn_blocking(move || read_inline(&peer, &text));
    reading.await.unwrap_or(ParsedMessage::InvalidJson)
}

fn read_inline(peer: &Arc<AuthenticatedConnection>, text: &str) -> ParsedMessage {
    let refused = |response| ParsedMessage::Refused(Box::new(response));
    let request = match frame::parse(text) {
        Ok(GatewayFrame::Request(request)) => request,
        Ok(_) => {
            let error = ErrorPayload::invalid("invalid request frame: at /type: must be \"req\"");
            return refused(error_response("invalid", error));
        }
        Err(FrameParseError::NotJson) => return ParsedMessage::InvalidJson,
        Err(bad) => return refused(bad_frame_response(bad)),
    };
    let (id, method) = (request.id, request.method);
    let check = AssertUnwindSafe(|| node_requests::prepare(peer, &method, request.params));
    let answer = std::panic::catch_unwind(check).unwrap_or_else(|_| Err(interrupted_error()));
    ParsedMessage::Request(ParsedRequest { id, method, answer })
}

fn interrupted_error() -> ErrorPayload {
    tracing::error!("a request failed because of an internal error");
    let message = "the request failed because of an internal error; see the gateway's log";
    ErrorPayload::new(ErrorCode::Unavailable, message)
}

fn start_request(
    gateway: &GatewayInner,
    peer: &Arc<AuthenticatedConnection>,
    outbox: &SendQueue,
    requests: &Arc<Semaphore>,
    request: ParsedRequest,
) {
    let ParsedRequest { id, method, answer } = request;
    let Ok(permit) = Arc::clone(requests).try_acquire_owned() else {
        let max = gateway.limits.requests_max;
        let message =
            format!("{max} requests of this connection are not answered yet; wait for some");
        let mut error = ErrorPayload::new(ErrorCode::Unavailable, message);
        error.retryable = Some(true);
        error.retry_after_ms = Some(1000);
        return outbox.send_response(error_response(id, error));
    };
    let peer = Arc::clone(peer);
    let give = {
        let outbox = outbox.clone();
        move |answer: Result<String, ErrorPayload>| match answer {
            Ok(payload) => outbox.send_answer(id, &payload),
            Err(error) => {
                tracing::debug!(conn = %peer.conn_id(), %method, error = %error.message, "refused");
                outbox.send_response(error_response(id, error));
            }
        }
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return give(Err(error)),
    };
    let answer = AssertUnwindSafe(answer).catch_unwind();
    let mut answer = answer.map(|answer| answer.unwrap_or_else(|_| Err(interrupted_error())));
    // Polls the request once here, so that requests start in the order they arrived.
    match (&mut answer).now_or_never() {
        Some(answer) => give(answer),
        None => {
            gateway.tasks.spawn(async move {
                give(answer.await);
                drop(permit);
            });
        }
    }
}

/// Sends queued messages up to and including the close frame, for at most the given time.
pub(crate) async fn flush(
    link: &mut impl MessageTransport,
    outbox: &SendQueue,
    most: Duration,
) -> Option<CloseReason> {
    let all = async {
        loop {
            if let TransportEvent::Ended(reason) = link.exchange(outbox).await {
                return reason;
            }
        }
    };
    timeout(most, all).await.ok().flatten()
}
