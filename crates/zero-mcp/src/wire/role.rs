//! [`ConnectionRole`]: how client and server differ in the messages that they read.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientNotification, ClientRequest, CustomRequest,
    ErrorCode, ErrorData, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{RoleClient, RoleServer, ServiceRole};

use super::McpMessageLimits;
use super::connection_diagnostics::ConnectionDiagnostics;
use super::pending_requests::McpRequestKind;
use super::sanitize;

/// A side of a connection.
pub trait ConnectionRole: ServiceRole {
    /// Returns the kind of a request of this side, which determines how its answer is parsed.
    fn request_kind(request: &Self::Req) -> McpRequestKind;

    /// Returns the request of this side that a notification cancels.
    fn cancelled_request(notification: &Self::Not) -> Option<&RequestId>;

    /// Parses the result of an answer and repairs what can be repaired, or says why it cannot be
    /// used.
    fn read_result(
        request_kind: McpRequestKind,
        written: &[u8],
        limits: &McpMessageLimits,
        diagnostics: &ConnectionDiagnostics,
    ) -> Result<Self::PeerResp, String>;

    /// Parses a frequent request directly, without trying all types first.
    fn parse_common_request(method: &str, params: Option<&[u8]>) -> Option<Self::PeerReq>;

    /// Refuses a request whose parameters do not match its method.
    fn check_request(request: &Self::PeerReq) -> Result<(), ErrorData>;
}

impl ConnectionRole for RoleClient {
    fn request_kind(request: &ClientRequest) -> McpRequestKind {
        match request {
            ClientRequest::InitializeRequest(_) => McpRequestKind::Greeting,
            ClientRequest::DiscoverRequest(_) => McpRequestKind::Discovery,
            ClientRequest::ListToolsRequest(_) => McpRequestKind::ToolList,
            ClientRequest::CallToolRequest(_) => McpRequestKind::ToolCall,
            _ => McpRequestKind::Other,
        }
    }

    fn cancelled_request(notification: &ClientNotification) -> Option<&RequestId> {
        match notification {
            ClientNotification::CancelledNotification(cancelled) => {
                cancelled.params.request_id.as_ref()
            }
            _ => None,
        }
    }

    fn read_result(
        request_kind: McpRequestKind,
        written: &[u8],
        limits: &McpMessageLimits,
        diagnostics: &ConnectionDiagnostics,
    ) -> Result<Self::PeerResp, String> {
        sanitize::read_result(request_kind, written, limits, diagnostics)
    }

    fn parse_common_request(_: &str, _: Option<&[u8]>) -> Option<ServerRequest> {
        None
    }

    fn check_request(request: &ServerRequest) -> Result<(), ErrorData> {
        match request {
            ServerRequest::CustomRequest(request) => check_custom(
                request,
                &["elicitation/create", "sampling/createMessage", "roots/list", "ping"],
            ),
            _ => Ok(()),
        }
    }
}

impl ConnectionRole for RoleServer {
    fn request_kind(_: &ServerRequest) -> McpRequestKind {
        McpRequestKind::Other
    }

    fn cancelled_request(notification: &ServerNotification) -> Option<&RequestId> {
        match notification {
            ServerNotification::CancelledNotification(cancelled) => {
                cancelled.params.request_id.as_ref()
            }
            _ => None,
        }
    }

    fn read_result(
        _: McpRequestKind,
        written: &[u8],
        limits: &McpMessageLimits,
        _: &ConnectionDiagnostics,
    ) -> Result<Self::PeerResp, String> {
        sanitize::read_whole(written, limits)
    }

    fn parse_common_request(method: &str, params: Option<&[u8]>) -> Option<ClientRequest> {
        if method != "tools/call" {
            return None;
        }
        let mut params: CallToolRequestParams = serde_json::from_slice(params?).ok()?;
        // The SDK expects `_meta` in the extensions.
        let meta = params.meta.take();
        let mut request = CallToolRequest::new(params);
        if let Some(meta) = meta {
            request.extensions.insert(meta);
        }
        Some(ClientRequest::CallToolRequest(request))
    }

    fn check_request(request: &ClientRequest) -> Result<(), ErrorData> {
        match request {
            ClientRequest::CustomRequest(request) => check_custom(
                request,
                &[
                    "initialize",
                    "server/discover",
                    "ping",
                    "tools/list",
                    "tools/call",
                    "prompts/list",
                    "prompts/get",
                    "resources/list",
                    "resources/read",
                    "resources/templates/list",
                    "resources/subscribe",
                    "resources/unsubscribe",
                    "subscriptions/listen",
                    "completion/complete",
                    "logging/setLevel",
                ],
            ),
            _ => Ok(()),
        }
    }
}

/// A known method is parsed as a custom one only if its parameters are invalid.
fn check_custom(request: &CustomRequest, known: &[&str]) -> Result<(), ErrorData> {
    if !known.contains(&request.method.as_str()) {
        return Ok(());
    }
    let message = format!("the `params` do not match `{}`", request.method);
    Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None))
}
