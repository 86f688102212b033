//! The handshake with a server: which of the two protocols it supports, and in which version.
//!
//! The newer protocol has no handshake; its servers answer `server/discover`. An older server
//! answers that with an error or not at all, and some need a long time before their first answer.
//! zero therefore sends `server/discover` first and, after a while without an answer, `initialize`
//! as well, on the same connection to the same process. The first answer decides, and a late answer
//! to the other request is dropped. No process is started twice, and a server may take half a
//! minute to start.
//!
//! The SDK's own negotiation gives up on a server that answers the first request late, and accepts
//! any version. It is therefore not used.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
    DiscoverRequest, DiscoverRequestParams, DiscoverResult, ErrorCode, InitializeRequest,
    InitializedNotification, ProtocolVersion, RequestId, RequestMetaObject, ServerJsonRpcMessage,
    ServerPeerInfo, ServerRequest, ServerResult,
};
use rmcp::transport::Transport;

use super::client_transport::ClientTransport;
use super::error::ServerUnavailableError;
use super::sanitize;
use super::server_cache::ProtocolEra;
use crate::wire;

/// How long to wait for an answer to `server/discover` before `initialize` is sent as well.
const PROBE_SILENCE: Duration = Duration::from_secs(3);
/// Maximum number of messages before the server has answered.
const MESSAGES_MAX: usize = 1_000;
/// How often `server/discover` is sent to a server that refuses a version that it offers.
const ATTEMPTS_MAX: i64 = 2;
/// First request id: far from the ids of calls, and a plain number, because some servers accept no
/// other.
const FIRST_ID: i64 = 2_000_000_000;

/// Which protocols to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStrategy {
    /// The newer, then the older. Over pipes, both requests may be pending at once.
    Either {
        /// Whether the second request may be sent while the first is pending.
        overlap: bool,
    },
    /// The older only, because the server is known to use it.
    Legacy,
}

/// The outcome of a handshake.
pub(crate) struct NegotiatedProtocol {
    pub(crate) protocol_era: ProtocolEra,
    pub(crate) info: ServerPeerInfo,
}

/// Performs the handshake. The caller sets the time limit.
pub(crate) async fn negotiate(
    link: &mut ClientTransport,
    client_params: &ClientConfig,
    asking: HandshakeStrategy,
) -> Result<NegotiatedProtocol, ServerUnavailableError> {
    let mut driver = HandshakeDriver {
        link,
        client_params,
        discover: ProbeState::NotSent,
        initialize: ProbeState::NotSent,
        attempts: 0,
    };
    match asking {
        HandshakeStrategy::Legacy => driver.send_initialize().await?,
        HandshakeStrategy::Either { .. } => driver.send_discover().await?,
    }
    let timeout = tokio::time::sleep(PROBE_SILENCE);
    let mut time_limit = std::pin::pin!(timeout);
    for _ in 0..MESSAGES_MAX {
        let may_overlap = asking == HandshakeStrategy::Either { overlap: true }
            && driver.initialize == ProbeState::NotSent;
        let message = tokio::select! {
            biased;
            message = driver.link.receive() => message,
            () = &mut time_limit, if may_overlap => {
                driver.send_initialize().await?;
                continue;
            }
        };
        let Some(message) = message else {
            return Err(ServerUnavailableError::new("it never became ready"));
        };
        if let Some(agreed) = driver.handle_message(message).await? {
            return Ok(agreed);
        }
    }
    Err(ServerUnavailableError::new(format!("it sent {MESSAGES_MAX} messages and no answer")))
}

/// State of a handshake request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeState {
    NotSent,
    /// Sent with this id.
    Open(i64),
    Answered,
}

impl ProbeState {
    /// Whether an id is that of the request. Some servers turn the number into a string.
    fn matches_id(self, id: &RequestId) -> bool {
        match (self, id) {
            (Self::Open(number), RequestId::Number(id)) => *id == number,
            (Self::Open(number), RequestId::String(id)) => id.parse() == Ok(number),
            _ => false,
        }
    }

    fn is_open(self) -> bool {
        matches!(self, Self::Open(_))
    }
}

struct HandshakeDriver<'a> {
    link: &'a mut ClientTransport,
    client_params: &'a ClientConfig,
    /// State of the request of the newer protocol.
    discover: ProbeState,
    /// State of the request of the older protocol.
    initialize: ProbeState,
    /// How often `server/discover` was sent.
    attempts: i64,
}

impl HandshakeDriver<'_> {
    async fn send_discover(&mut self) -> Result<(), ServerUnavailableError> {
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request.extensions.insert(RequestMetaObject::with_client_context(
            ProtocolVersion::V_2026_07_28,
            self.client_params.client_info.clone(),
            self.client_params.capabilities.clone(),
        ));
        let id = FIRST_ID + 1 + self.attempts;
        self.attempts += 1;
        self.discover = ProbeState::Open(id);
        let request = ClientRequest::DiscoverRequest(request);
        self.send(ClientJsonRpcMessage::request(request, RequestId::Number(id))).await
    }

    async fn send_initialize(&mut self) -> Result<(), ServerUnavailableError> {
        let client_params =
            self.client_params.clone().with_protocol_version(ProtocolVersion::V_2025_11_25);
        self.initialize = ProbeState::Open(FIRST_ID);
        let request = ClientRequest::InitializeRequest(InitializeRequest::new(client_params));
        self.send(ClientJsonRpcMessage::request(request, RequestId::Number(FIRST_ID))).await
    }

    async fn send(&mut self, message: ClientJsonRpcMessage) -> Result<(), ServerUnavailableError> {
        let sent = self.link.send(message).await;
        sent.map_err(|error| ServerUnavailableError {
            is_settled: error.is_settled,
            ..ServerUnavailableError::new(format!("sending to it failed: {error}"))
        })
    }

    /// Handles one message. Returns the outcome once it is certain.
    async fn handle_message(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> Result<Option<NegotiatedProtocol>, ServerUnavailableError> {
        match message {
            ServerJsonRpcMessage::Response(response) if self.discover.matches_id(&response.id) => {
                match response.result {
                    ServerResult::DiscoverResult(result) => {
                        self.handle_discover_result(result).await
                    }
                    // Any other answer to `server/discover` means an older server.
                    _ => self.fall_back_to_legacy(&[]).await,
                }
            }
            ServerJsonRpcMessage::Response(response)
                if self.initialize.matches_id(&response.id) =>
            {
                match response.result {
                    ServerResult::InitializeResult(result) => {
                        self.handle_initialize_result(result.into()).await.map(Some)
                    }
                    _ => Err(ServerUnavailableError::new(
                        "it sent an invalid answer to `initialize`",
                    )),
                }
            }
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) if self.initialize.matches_id(id) => {
                    self.handle_initialize_error(&error.error).await
                }
                Some(id) if self.discover.matches_id(id) => {
                    self.handle_discover_error(&error.error).await
                }
                Some(_) => Ok(None),
                // A server that could not read the id of the request answers without one.
                None if self.initialize.is_open() => {
                    self.handle_initialize_error(&error.error).await
                }
                None => self.handle_discover_error(&error.error).await,
            },
            ServerJsonRpcMessage::Request(request)
                if matches!(request.request, ServerRequest::PingRequest(_)) =>
            {
                let pong = ClientJsonRpcMessage::response(ClientResult::empty(()), request.id);
                self.send(pong).await.map(|()| None)
            }
            _ => Ok(None),
        }
    }

    async fn handle_discover_result(
        &mut self,
        result: DiscoverResult,
    ) -> Result<Option<NegotiatedProtocol>, ServerUnavailableError> {
        let version = ProtocolVersion::V_2026_07_28;
        if !result.supported_versions.contains(&version) {
            return self.fall_back_to_legacy(&result.supported_versions).await;
        }
        let info = ServerPeerInfo::from_discover_result(version, result);
        Ok(Some(NegotiatedProtocol { protocol_era: ProtocolEra::Modern, info }))
    }

    async fn handle_discover_error(
        &mut self,
        error: &ErrorData,
    ) -> Result<Option<NegotiatedProtocol>, ServerUnavailableError> {
        match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
                let supported = error.data.as_ref().and_then(|data| data.get("supported"));
                let supported: Vec<ProtocolVersion> = supported
                    .and_then(|versions| serde_json::from_value(versions.clone()).ok())
                    .unwrap_or_default();
                let offers_ours = supported.contains(&ProtocolVersion::V_2026_07_28);
                if offers_ours && self.attempts < ATTEMPTS_MAX {
                    return self.send_discover().await.map(|()| None);
                }
                self.fall_back_to_legacy(&supported).await
            }
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH => {
                Err(refusal_error(error))
            }
            _ => self.fall_back_to_legacy(&[]).await,
        }
    }

    /// Sends `initialize` to a server that does not support the newer protocol, unless it says that
    /// it does not support an older version either.
    async fn fall_back_to_legacy(
        &mut self,
        supported: &[ProtocolVersion],
    ) -> Result<Option<NegotiatedProtocol>, ServerUnavailableError> {
        self.discover = ProbeState::Answered;
        if supported.contains(&ProtocolVersion::V_2026_07_28) {
            return Err(ServerUnavailableError::new(
                "it refuses protocol version 2026-07-28, although it lists it as supported",
            ));
        }
        let knows_older = supported.is_empty()
            || supported
                .iter()
                .any(|version| is_known_version(version) && version.has_initialize());
        if !knows_older {
            let versions: Vec<String> = supported
                .iter()
                .take(8)
                .map(|version| sanitize::to_line(version.as_str()))
                .collect();
            return Err(ServerUnavailableError::new(format!(
                "it supports only protocol versions that zero does not support: {}",
                versions.join(", ")
            )));
        }
        match self.initialize {
            ProbeState::NotSent => self.send_initialize().await.map(|()| None),
            ProbeState::Open(_) => Ok(None),
            ProbeState::Answered => Err(ServerUnavailableError::new(
                "it refuses both `server/discover` and `initialize`: it is not an MCP server, or of an unknown kind",
            )),
        }
    }

    /// Handles a server that refuses `initialize`.
    async fn handle_initialize_error(
        &mut self,
        error: &ErrorData,
    ) -> Result<Option<NegotiatedProtocol>, ServerUnavailableError> {
        self.initialize = ProbeState::Answered;
        match self.discover {
            ProbeState::NotSent => self.send_discover().await.map(|()| None),
            ProbeState::Open(_) => Ok(None),
            ProbeState::Answered => Err(refusal_error(error)),
        }
    }

    async fn handle_initialize_result(
        &mut self,
        info: ServerPeerInfo,
    ) -> Result<NegotiatedProtocol, ServerUnavailableError> {
        let version = &info.protocol_version;
        if !is_known_version(version) || !version.has_initialize() {
            return Err(ServerUnavailableError::new(format!(
                "it answered `initialize` with protocol version {}, which zero does not support or which has no `initialize`",
                sanitize::to_quoted_line(version.as_str())
            )));
        }
        let notification =
            InitializedNotification { method: Default::default(), extensions: Default::default() };
        let message = ClientNotification::InitializedNotification(notification);
        self.send(ClientJsonRpcMessage::notification(message)).await?;
        Ok(NegotiatedProtocol { protocol_era: ProtocolEra::Legacy, info })
    }
}

fn refusal_error(error: &ErrorData) -> ServerUnavailableError {
    if let Some(why) = wire::find_refusal(error) {
        return ServerUnavailableError::new(format!(
            "its handshake answer cannot be used: {}",
            sanitize::to_line(why)
        ));
    }
    let text = sanitize::to_line(&error.message);
    ServerUnavailableError::new(format!("it refused the handshake: {text} ({})", error.code.0))
}

fn is_known_version(version: &ProtocolVersion) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.contains(version)
}
