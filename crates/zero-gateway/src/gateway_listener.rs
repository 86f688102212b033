//! Network listener of the gateway and the conditions under which it may listen.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::connection::{self, PeerOrigin};
use crate::gateway::Gateway;
use crate::gateway_inner::GatewayInner;
use crate::handshake_table::HandshakeSlot;
use crate::http_endpoint::{self, NetworkStream};
use crate::tls::TlsIdentity;

/// Pause after `accept` failed, for example because no file descriptor is free.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Response sent when no file descriptor is free for the connection.
const OVERLOADED_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\n\
    connection: close\r\ncontent-length: 31\r\n\r\nthere are too many connections\n";

/// A socket on which a gateway listens.
pub struct GatewayListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsIdentity>,
}

/// Addresses on which a gateway may listen without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlaintextPolicy {
    /// Loopback only.
    #[default]
    ThisMachine,
    /// Any address. An attacker on the network path can read and change all traffic, including
    /// tokens.
    Anywhere,
}

/// Reasons why a gateway cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum GatewayServeError {
    /// A remote address without authentication: any client could use the gateway.
    #[error(
        "`{0}` can be reached from other machines, so clients need a token or password; pass `--token-file` or `--password-file`, or set `gateway.tokens`"
    )]
    NoAuth(SocketAddr),
    /// A remote address without TLS: an attacker on the network path could read the traffic.
    #[error(
        "`{0}` can be reached from other machines and there is no TLS certificate; pass `--tls-certificate` and `--tls-key`, bind to 127.0.0.1, or pass `--allow-plaintext` if the connection is protected in another way"
    )]
    NoTls(SocketAddr),
    /// The address cannot be bound.
    #[error("could not listen on `{address}`")]
    Bind {
        /// The address that could not be bound.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

impl GatewayListener {
    /// The bound address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of the certificate in hexadecimal; `None` without TLS.
    pub fn fingerprint(&self) -> Option<&str> {
        self.tls.as_ref().map(TlsIdentity::fingerprint)
    }
}

impl Gateway {
    /// Listens on an address. A non-loopback address requires authentication and TLS, unless
    /// plaintext is explicitly allowed.
    pub async fn listen(
        &self,
        address: SocketAddr,
        tls: Option<TlsIdentity>,
        plaintext: PlaintextPolicy,
    ) -> Result<GatewayListener, GatewayServeError> {
        if !address.ip().to_canonical().is_loopback() {
            if !self.inner.auth.is_auth_required() {
                return Err(GatewayServeError::NoAuth(address));
            }
            if tls.is_none() && plaintext == PlaintextPolicy::ThisMachine {
                return Err(GatewayServeError::NoTls(address));
            }
        }
        let refused = |source| GatewayServeError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(GatewayListener { listener, address, tls })
    }

    /// Serves connections until `shutdown` is cancelled; then shuts down with the grace period of
    /// its limits.
    pub async fn serve(&self, listening: GatewayListener, shutdown: CancellationToken) {
        let gateway = &self.inner;
        let GatewayListener { listener, tls, .. } = listening;
        tokio::select! {
            () = accept_loop(gateway, &listener, tls.as_ref()) => {}
            () = shutdown.cancelled() => {}
            () = gateway.closing.cancelled() => {}
        }
        drop(listener);
        self.shut_down(gateway.limits.shutdown_grace).await;
    }
}

async fn accept_loop(
    gateway: &Arc<GatewayInner>,
    listener: &TcpListener,
    tls: Option<&TlsIdentity>,
) {
    let mut spare = SpareSocket::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                if !(is_out_of_files(&error) && spare.reject_one(listener, tls.is_none()).await) {
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
                continue;
            }
        };
        let Some(slot) = gateway.handshakes.admit(from.ip()).await else {
            tracing::debug!(%from, "too many unauthenticated connections from one address");
            continue;
        };
        gateway.tasks.spawn(serve_stream(Arc::clone(gateway), stream, from, tls.cloned(), slot));
    }
}

/// Whether the process or the machine is out of file descriptors: `EMFILE` or `ENFILE`, which have
/// the same values on every platform.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// A reserved file descriptor. It is released to accept and reject a connection when no other is
/// free; otherwise the client would wait for a response that never comes.
struct SpareSocket(Option<TcpSocket>);

impl SpareSocket {
    fn new() -> Self {
        Self(TcpSocket::new_v4().ok())
    }

    /// Accepts one connection and closes it, with an HTTP response unless the listener uses TLS.
    /// Returns false if there was no connection or still no descriptor.
    async fn reject_one(&mut self, listener: &TcpListener, in_plain: bool) -> bool {
        if self.0.take().is_none() {
            *self = Self::new();
            return false;
        }
        let accepted = timeout(ACCEPT_RETRY_DELAY, listener.accept()).await;
        let turned_away = match accepted {
            Ok(Ok((stream, _))) => {
                if in_plain {
                    let _ = timeout(ACCEPT_RETRY_DELAY, stream.readable()).await;
                    // Unread input would reset the connection and discard the response.
                    let _ = stream.try_read(&mut [0; 4096]);
                    let _ = stream.try_write(OVERLOADED_RESPONSE);
                }
                true
            }
            _ => false,
        };
        *self = Self::new();
        turned_away
    }
}

/// Serves one network connection: TLS, one HTTP request, and the WebSocket if it was upgraded.
async fn serve_stream(
    gateway: Arc<GatewayInner>,
    stream: TcpStream,
    from: SocketAddr,
    tls: Option<TlsIdentity>,
    slot: HandshakeSlot,
) {
    let handshake = async {
        let at = stream.local_addr().ok()?.ip();
        timeout(gateway.limits.head_time, stream.readable()).await.ok()?.ok()?;
        slot.mark_sent();
        // Failure only makes small messages slower.
        let _ = stream.set_nodelay(true);
        let stream: NetworkStream = match tls {
            Some(tls) => {
                Either::Right(Box::new(tls.accept(stream, gateway.limits.head_time).await?))
            }
            None => Either::Left(stream),
        };
        http_endpoint::serve_request(&gateway, stream, at, from.ip()).await
    };
    let upgraded = tokio::select! {
        upgraded = handshake => upgraded,
        () = slot.dropped() => {
            tracing::debug!(%from, "dropped for a newer connection before authentication");
            None
        }
        () = gateway.stopped.cancelled() => None,
    };
    if let Some(upgraded) = upgraded {
        let from = PeerOrigin::Network { address: from.ip(), slot };
        connection::run_connection(Arc::clone(&gateway), upgraded.socket, from).await;
        drop(upgraded.permit);
    }
}
