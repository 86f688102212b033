//! A client of a gateway: one connection, over a WebSocket or a pipe.
//!
//! Connecting waits for the challenge, proves who connects, and checks the greeting. From then on
//! requests are answered in any order, and events wait in a bounded queue. A reader that is slow
//! makes the gateway wait: nothing is dropped. To connect again is the caller's business;
//! [`ReconnectBackoff`] says when, [`GatewayClientError::retry`] whether.

mod backoff;
mod client_handshake;
mod connection;
mod encoded_params;
mod error;
mod tls;
mod transport;
mod url;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use zero_core::ExtraRootCertificates;

pub use self::backoff::ReconnectBackoff;
pub use self::connection::{EVENTS_MAX, IN_FLIGHT_MAX};
pub use self::encoded_params::{EncodedParams, read_answer};
pub use self::error::{GatewayClientError, RetryAdvice};
pub use self::tls::{CertificateFingerprint, FingerprintParseError};
pub use self::url::{GatewayUrl, GatewayUrlError, PORT_DEFAULT};
use crate::bounded_queue;
pub use crate::close::CloseReason;
use crate::device::DeviceKey;
use crate::frame::EventFrame;
use crate::handshake::{ClientId, ClientInfo, ClientMode, HelloOk};
use crate::method::GatewayMethod;
use crate::pipe::ClientPipeEnd;

use self::connection::GatewayClientConnection;

/// How long connecting may take, unless said otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// Where a gateway is.
#[derive(Debug)]
pub enum GatewayTarget {
    /// On the network.
    Url(GatewayUrl),
    /// In this process.
    Pipe(ClientPipeEnd),
}

/// What proves that a client may connect. It cannot be shown.
#[derive(Clone, Default)]
pub enum GatewayCredentials {
    /// Nothing.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A password.
    Password(String),
}

impl GatewayCredentials {
    /// A token.
    pub fn token(token: impl Into<String>) -> Self {
        Self::Token(token.into())
    }

    /// A password.
    pub fn password(password: impl Into<String>) -> Self {
        Self::Password(password.into())
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Who connects.
    pub client: ClientInfo,
    /// What the client can do: `tool-events`, `exec-approvals`, `zero-events`.
    pub caps: Vec<String>,
    /// The scopes it would like; those of its token when empty.
    pub scopes: Vec<String>,
    /// What proves that it may.
    pub auth: GatewayCredentials,
    /// The device it is on, for gateways that ask for one.
    pub device: Option<Arc<DeviceKey>>,
    /// The only certificate to accept.
    pub tls_fingerprint: Option<CertificateFingerprint>,
    /// Certificates that are trusted besides those of the machine.
    pub extra_roots: ExtraRootCertificates,
    /// Whether everything may be sent in the clear to another machine.
    pub allow_plaintext: bool,
    /// How long all of connecting may take.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// What is usual: no credentials, no device, [`TIMEOUT_DEFAULT`].
    pub fn new(client: ClientInfo) -> Self {
        Self {
            client,
            caps: Vec::new(),
            scopes: Vec::new(),
            auth: GatewayCredentials::None,
            device: None,
            tls_fingerprint: None,
            extra_roots: ExtraRootCertificates::default(),
            allow_plaintext: false,
            timeout: TIMEOUT_DEFAULT,
        }
    }
}

impl Default for ConnectOptions {
    /// What is usual for `zero` itself, on a command line.
    fn default() -> Self {
        Self::new(ClientInfo {
            id: ClientId::Cli,
            display_name: Some("zero".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build_id: None,
            platform: std::env::consts::OS.to_owned(),
            device_family: None,
            model_identifier: None,
            time_zone: None,
            mode: ClientMode::Cli,
            instance_id: None,
        })
    }
}

/// A connection to a gateway. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct GatewayClient {
    connection: Arc<GatewayClientConnection>,
}

impl GatewayClient {
    /// Connects.
    pub async fn connect(
        target: GatewayTarget,
        options: ConnectOptions,
    ) -> Result<(Self, GatewayEvents), GatewayClientError> {
        let deadline = options.timeout;
        let greeting = async {
            let (mut reader, mut writer) = transport::open(target, &options).await?;
            let hello =
                client_handshake::perform_handshake(&mut reader, &mut writer, &options).await?;
            Ok((reader, writer, hello))
        };
        let (reader, writer, hello) = timeout(deadline, greeting).await.map_err(|_| {
            GatewayClientError::Timeout { what: "connecting to the gateway", after: deadline }
        })??;
        let (connection, events) = GatewayClientConnection::start(reader, writer, hello);
        let connection = Arc::new(connection);
        let shared = connection.state();
        Ok((Self { connection }, GatewayEvents { queue: events, shared }))
    }

    /// What the gateway said of itself.
    pub fn hello(&self) -> &HelloOk {
        self.connection.hello()
    }

    /// Whether the gateway can do something beyond the family's protocol.
    pub fn has_capability(&self, name: &str) -> bool {
        self.hello().features.capabilities.iter().any(|capability| capability == name)
    }

    /// Asks for something, and waits for the answer as long as the connection lasts. Events have to
    /// be taken meanwhile: when their queue is full, no answer is read either.
    pub async fn request<M: GatewayMethod>(
        &self,
        params: M::Params,
    ) -> Result<M::Result, GatewayClientError> {
        let answer =
            self.request_encoded(M::NAME, &EncodedParams::encode(M::NAME, &params)?).await?;
        read_answer(M::NAME, answer)
    }

    /// Asks for something by its name. For gateways whose answers are not quite as the types say, and
    /// for parameters that were written down already.
    pub async fn request_encoded(
        &self,
        method: &str,
        params: &EncodedParams,
    ) -> Result<Value, GatewayClientError> {
        self.connection.request(method, params).await
    }

    /// Asks for something, and waits at most so long.
    pub async fn request_within<M: GatewayMethod>(
        &self,
        params: M::Params,
        limit: Duration,
    ) -> Result<M::Result, GatewayClientError> {
        let answer = timeout(limit, self.request::<M>(params)).await;
        answer.map_err(|_| GatewayClientError::Timeout { what: M::NAME, after: limit })?
    }

    /// Ends the connection, and waits until it is over.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}

impl std::fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.hello().server).finish_non_exhaustive()
    }
}

/// What happens at the gateway, in order. Signs of life are kept back.
pub struct GatewayEvents {
    queue: bounded_queue::QueueReceiver<EventFrame>,
    shared: Arc<connection::GatewayClientState>,
}

impl GatewayEvents {
    /// The next event; `None` when the connection ended. What came before the end comes first.
    pub async fn next(&mut self) -> Option<EventFrame> {
        self.queue.recv().await
    }

    /// Why the connection ended, once it has.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared.close_reason()
    }
}

impl std::fmt::Debug for GatewayEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("end", &self.close_reason()).finish_non_exhaustive()
    }
}
