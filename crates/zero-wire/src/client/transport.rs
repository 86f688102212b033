//! What frames travel on: a WebSocket, plain or in TLS, or a pipe.

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

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
/// What RFC 6455 says of a close without a code. Never sent.
const NO_CODE: u16 = 1005;

type GatewaySocket = WebSocketStream<Either<TcpStream, TlsStream<TcpStream>>>;

/// Opens what frames travel on.
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
        // Somebody is there and goes: a gateway that ends, or whoever stands in front of one.
        Err(SocketError::Protocol(ProtocolError::HandshakeIncomplete)) => {
            Err(unreachable("the connection ended before anything was said".to_owned()))
        }
        Err(error) => {
            Err(GatewayClientError::Protocol { what: format!("{url} opens no WebSocket: {error}") })
        }
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
        // The name says that it is this machine; what it stands for has to be so too.
        addresses.retain(|address| address.ip().to_canonical().is_loopback());
    }
    let mut problem = "the name stands for no address that may be used".to_owned();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Frames are short and answers are waited for.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(problem)
}

/// What comes in.
#[expect(clippy::large_enum_variant, reason = "it is looked at at once and never kept")]
pub(super) enum IncomingFrame {
    /// A frame, and how long it was.
    Frame(GatewayFrame, usize),
    /// Something without meaning, but a sign of life.
    KeepAlive,
}

/// Where frames come in.
pub(super) enum GatewayFrameReader {
    Socket(SplitStream<GatewaySocket>),
    Pipe(PipeReceiver),
}

impl GatewayFrameReader {
    /// The next thing, or why there is none. It can be given up while it waits; nothing is lost.
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
        SocketError::Utf8(_) => CloseReason::new(close::NOT_TEXT, "text that is no UTF-8"),
        SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseReason::lost(),
        SocketError::Protocol(error) => CloseReason::new(close::PROTOCOL_ERROR, error.to_string()),
        SocketError::Io(error) => {
            CloseReason::new(close::LOST, format!("connection lost: {error}"))
        }
        _ => CloseReason::lost(),
    }
}

/// Where frames go out.
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

    /// Says why it is over. What was sent before goes first.
    pub(super) async fn close(&mut self, reason: &CloseReason) {
        match self {
            Self::Pipe(pipe) => pipe.close(reason.clone()),
            Self::Socket(socket) => {
                // Some codes only tell one's own side what happened.
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
