//! [`GatewayClient`], one connection to a gateway over a WebSocket or a [pipe](crate::pipe).
//!
//! To connect, the client waits for the challenge, authenticates, and checks the answer. After
//! that, requests are answered in any order, and events wait in a bounded queue, [`GatewayEvents`].
//! A slow reader makes the gateway wait; no event is dropped.
//!
//! The client does not reconnect by itself. [`GatewayClientError::retry_advice`] says whether to
//! connect again, and [`ReconnectBackoff`] how long to wait before that.

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
pub use self::error::{GatewayClientError, REFUSAL_PREFIX, RetryAdvice};
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

/// Default time limit for connecting.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// Where a gateway is.
#[derive(Debug)]
pub enum GatewayTarget {
    /// On the network.
    Url(GatewayUrl),
    /// In this process.
    Pipe(ClientPipeEnd),
}

/// Credentials of a client. They have no `Debug`, so they cannot be logged by mistake.
#[derive(Clone, Default)]
pub enum GatewayCredentials {
    /// No credentials.
    #[default]
    None,
    /// A token of the gateway.
    Token(String),
    /// The password of the gateway.
    Password(String),
}

impl GatewayCredentials {
    /// Creates credentials with a token of the gateway.
    pub fn token(token: impl Into<String>) -> Self {
        Self::Token(token.into())
    }

    /// Creates credentials with the password of the gateway.
    pub fn password(password: impl Into<String>) -> Self {
        Self::Password(password.into())
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// The program that connects.
    pub client: ClientInfo,
    /// Capabilities of the client: `tool-events`, `exec-approvals`, `zero-events`.
    pub caps: Vec<String>,
    /// The scopes to request; if empty, all scopes of the token.
    pub scopes: Vec<String>,
    /// Credentials to authenticate with.
    pub auth: GatewayCredentials,
    /// Key of this device, for gateways that require one.
    pub device: Option<Arc<DeviceKey>>,
    /// If set, the only certificate to accept.
    pub tls_fingerprint: Option<CertificateFingerprint>,
    /// Root certificates to trust in addition to those of the system.
    pub extra_roots: ExtraRootCertificates,
    /// Whether an unencrypted connection to another machine is allowed.
    pub allow_plaintext: bool,
    /// Time limit for connecting, including the handshake.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// Creates the default options: no credentials, no device, [`TIMEOUT_DEFAULT`].
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
    /// The default options of the `zero` command line, with client information in the form that
    /// OpenClaw-compatible gateways know.
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

/// A connection to a gateway. Clones share it; it is closed when the last clone is dropped.
#[derive(Clone)]
pub struct GatewayClient {
    connection: Arc<GatewayClientConnection>,
}

impl GatewayClient {
    /// Connects and authenticates, within the timeout of the options. Returns the client and the
    /// stream of events.
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

    /// Returns the gateway's answer to `connect`.
    pub fn hello(&self) -> &HelloOk {
        self.connection.hello()
    }

    /// Whether the gateway announced this extension of the OpenClaw protocol.
    pub fn has_capability(&self, name: &str) -> bool {
        self.hello().features.capabilities.iter().any(|capability| capability == name)
    }

    /// Calls a method, and waits for the answer as long as the connection lasts.
    ///
    /// The caller must keep reading [`GatewayEvents`] meanwhile: while the queue of events is full,
    /// no answers are read.
    pub async fn request<M: GatewayMethod>(
        &self,
        params: M::Params,
    ) -> Result<M::Result, GatewayClientError> {
        let answer =
            self.request_encoded(M::NAME, &EncodedParams::encode(M::NAME, &params)?).await?;
        read_answer(M::NAME, answer)
    }

    /// Calls a method by its name, with encoded parameters, and returns the raw answer.
    ///
    /// For gateways whose answers differ from the types, and for parameters that are sent several
    /// times.
    pub async fn request_encoded(
        &self,
        method: &str,
        params: &EncodedParams,
    ) -> Result<Value, GatewayClientError> {
        self.connection.request(method, params).await
    }

    /// Calls a method, and waits for the answer for at most `limit`.
    pub async fn request_within<M: GatewayMethod>(
        &self,
        params: M::Params,
        limit: Duration,
    ) -> Result<M::Result, GatewayClientError> {
        let answer = timeout(limit, self.request::<M>(params)).await;
        answer.map_err(|_| GatewayClientError::Timeout { what: M::NAME, after: limit })?
    }

    /// Closes the connection, and waits until it is closed.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}

impl std::fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayClient")
            .field("server", &self.hello().server)
            .finish_non_exhaustive()
    }
}

/// The events of a connection in order, without `tick`.
pub struct GatewayEvents {
    queue: bounded_queue::QueueReceiver<EventFrame>,
    shared: Arc<connection::GatewayClientState>,
}

impl GatewayEvents {
    /// Returns the next event, or `None` after the last event of a closed connection.
    pub async fn next(&mut self) -> Option<EventFrame> {
        self.queue.recv().await
    }

    /// Returns why the connection was closed, once it is.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared.close_reason()
    }
}

impl std::fmt::Debug for GatewayEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayEvents").field("end", &self.close_reason()).finish_non_exhaustive()
    }
}
