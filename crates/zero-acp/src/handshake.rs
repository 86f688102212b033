//! The answer to `initialize`: agent info and capabilities.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, Implementation, InitializeResponse, McpCapabilities, Meta,
    PromptCapabilities, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionForkCapabilities,
    SessionListCapabilities, SessionResumeCapabilities,
};
use serde_json::json;

/// The answer to `initialize`. It always names version 1, the only one that zero supports.
pub(crate) fn initialize_response() -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let own = json!({"tools": {"version": 1, "list": true, "use": true, "legacyNames": true}});
    let can = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions)
        .meta(Meta::from_iter([("zero".to_owned(), own)]));
    let us = Implementation::new("zero", env!("CARGO_PKG_VERSION")).title("zero".to_owned());
    InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(can).agent_info(us)
}
