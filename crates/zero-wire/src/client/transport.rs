//! [`GatewayFrameReader`] and [`GatewayFrameWriter`]: frames over a WebSocket, with or without TLS,
//! or over a pipe.

use std::net::SocketAddr;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tokio_util::either::Either;
use url::Host;

use super::error::GatewayClientError;
use super::url::GatewayUrl;
use super::{ConnectOptions, GatewayTarget, tls};
use crate::close::{self, CloseReason};
use crate::frame::{self, BUFFERED_BYTES_MAX, GatewayFrame, PAYLOAD_BYTES_MAX};
use crate::pipe::{PipeError, PipeReceiver, PipeSender};

/// Maximum number of a name's addresses to try.
const ADDRESSES_MAX: usize = 8;
/// Code that RFC 6455 defines for a close frame without a code. Never sent.
const NO_CODE: u16 = 1005;

type GatewaySocket = WebSocketStream<Either<TcpStream, TlsStream<TcpStream>>>;

/// Opens the transport to a gateway.
pub(super) async fn open(
    target: GatewayTarget,
    options: &ConnectOptions,
) -> Result<(GatewayFrameReader, GatewayFrameWriter), GatewayClientError> {
    match target {
        GatewayTarget::Pipe(end) => {
            let (sender, receiver) = end.split();
            Ok((GatewayFrameReader::Pipe(receiver), GatewayFrameWriter::Pipe(sender)))
        }
        GatewayTarget::Url(url) => {
            let (writer, reader) = open_socket(&url, options).await?.split();
            Ok((GatewayFrameReader::Socket(reader), GatewayFrameWriter::Socket(writer)))
        }
    }
}

async fn open_socket(
    url: &GatewayUrl,
    options: &ConnectOptions,
) -> Result<GatewaySocket, GatewayClientError> {
    if !url.is_secure() {
        if !url.is_loopback() && !options.allow_plaintext {
            return Err(GatewayClientError::Plaintext { host: url.host().to_string() });
        }
        if options.tls_fingerprint.is_some() {
            let what = "a fingerprint was given, but `ws://` has no certificate; use `wss://`";
            return Err(GatewayClientError::Tls { what: what.to_owned() });
        }
    }
    let unreachable = |what: String| GatewayClientError::Unreachable { at: url.to_string(), what };
    let stream = dial(url, options).await.map_err(unreachable)?;
    let stream = if url.is_secure() {
        Either::Right(tls::start_tls(stream, url.host(), options).await?)
    } else {
        Either::Left(stream)
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(16 * 1024)
        .max_write_buffer_size(BUFFERED_BYTES_MAX)
        .max_message_size(Some(PAYLOAD_BYTES_MAX))
        .max_frame_size(Some(PAYLOAD_BYTES_MAX));
    match client_async_with_config(url.to_string(), stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(SocketError::Http(answer)) => Err(GatewayClientError::Protocol {
            what: format!("{url} answered HTTP {} instead of a WebSocket", answer.status()),
        }),
        Err(SocketError::Io(error)) => Err(unreachable(error.to_string())),
        // Something listens and closes: a gateway that is stopping, or a proxy in front of one.
        Err(SocketError::Protocol(ProtocolError::HandshakeIncomplete)) => {
            Err(unreachable("the connection ended during the WebSocket handshake".to_owned()))
        }
        Err(error) => Err(GatewayClientError::Protocol {
            what: format!("cannot open a WebSocket at {url}: {error}"),
        }),
    }
}

/// Connects to the first address that answers.
async fn dial(url: &GatewayUrl, options: &ConnectOptions) -> Result<TcpStream, String> {
    let port = url.port();
    let mut addresses: Vec<SocketAddr> = match url.host() {
        Host::Ipv4(address) => vec![(*address, port).into()],
        Host::Ipv6(address) => vec![(*address, port).into()],
        Host::Domain(name) => {
            let found =
                lookup_host((name.as_str(), port)).await.map_err(|error| error.to_string())?;
            found.take(ADDRESSES_MAX).collect()
        }
    };
    if !url.is_secure() && !options.allow_plaintext {
        // The URL names this machine, so its addresses must be loopback addresses too.
        addresses.retain(|address| address.ip().to_canonical().is_loopback());
    }
    let mut problem = "the name resolves to no address that may be used".to_owned();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Frames are short, and requests wait for their answers.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(problem)
}

/// What a transport received.
#[expect(clippy::large_enum_variant, reason = "it is matched at once and never stored")]
pub(super) enum IncomingFrame {
    /// A frame, and its length in bytes.
    Frame(GatewayFrame, usize),
    /// A message without content, which shows that the peer is alive.
    KeepAlive,
}

/// The receiving half of a transport.
pub(super) enum GatewayFrameReader {
    Socket(SplitStream<GatewaySocket>),
    Pipe(PipeReceiver),
}

impl GatewayFrameReader {
    /// Returns the next message, or why there is none. It is cancel-safe: no message is lost.
    pub(super) async fn next_frame(&mut self) -> Result<IncomingFrame, CloseReason> {
        match self {
            Self::Pipe(frames) => read_frame(&frames.recv().await?),
            Self::Socket(socket) => match socket.next().await {
                Some(Ok(Message::Text(text))) => read_frame(&text),
                Some(Ok(Message::Close(frame))) => Err(match frame {
                    Some(frame) => CloseReason::new(frame.code.into(), frame.reason.as_str()),
                    None => CloseReason::new(NO_CODE, ""),
                }),
                Some(Ok(_)) => Ok(IncomingFrame::KeepAlive),
                Some(Err(error)) => Err(close_reason(&error)),
                None => Err(CloseReason::lost()),
            },
        }
    }
}

fn read_frame(text: &str) -> Result<IncomingFrame, CloseReason> {
    match frame::parse(text) {
        Ok(frame) => Ok(IncomingFrame::Frame(frame, text.len())),
        Err(error) => Err(CloseReason::new(close::PROTOCOL_ERROR, error.to_string())),
    }
}

fn close_reason(error: &SocketError) -> CloseReason {
    match error {
        SocketError::Capacity(_) => CloseReason::new(close::TOO_LONG, "message too long"),
        SocketError::Utf8(_) => CloseReason::new(close::NOT_TEXT, "text is not UTF-8"),
        SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseReason::lost(),
        SocketError::Protocol(error) => CloseReason::new(close::PROTOCOL_ERROR, error.to_string()),
        SocketError::Io(error) => {
            CloseReason::new(close::LOST, format!("connection lost: {error}"))
        }
        _ => CloseReason::lost(),
    }
}

/// The sending half of a transport.
pub(super) enum GatewayFrameWriter {
    Socket(SplitSink<GatewaySocket, Message>),
    Pipe(PipeSender),
}

impl GatewayFrameWriter {
    pub(super) async fn send(&mut self, text: String) -> Result<(), CloseReason> {
        match self {
            Self::Socket(socket) => {
                socket.send(Message::text(text)).await.map_err(|error| close_reason(&error))
            }
            Self::Pipe(pipe) => pipe.send(text).await.map_err(|error| match error {
                PipeError::Closed(reason) => reason,
                error => CloseReason::new(close::TOO_LONG, error.to_string()),
            }),
        }
    }

    /// Closes the transport with a reason, after everything that was sent before.
    pub(super) async fn close(&mut self, reason: &CloseReason) {
        match self {
            Self::Pipe(pipe) => pipe.close(reason.clone()),
            Self::Socket(socket) => {
                // These codes are for local use; RFC 6455 forbids sending them.
                let can_be_sent = reason.code != close::LOST && reason.code != NO_CODE;
                if can_be_sent {
                    let frame = CloseFrame {
                        code: reason.code.into(),
                        reason: reason.reason.as_str().into(),
                    };
                    let _ = socket.send(Message::Close(Some(frame))).await;
                }
                let _ = socket.close().await;
            }
        }
    }
}
