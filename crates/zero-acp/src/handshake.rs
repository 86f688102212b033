//! The answer to `initialize`: agent info and capabilities.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, Implementation, InitializeResponse, McpCapabilities, Meta,
    PromptCapabilities, SessionAdditionalDirectoriesCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionForkCapabilities,
    SessionListCapabilities, SessionResumeCapabilities,
};
use serde_json::json;

use crate::config::ImageSupport;

/// The answer to `initialize`. It always names version 1, the only one that zero supports. `images` is
/// what the model of new sessions accepts.
pub(crate) fn initialize_response(images: ImageSupport) -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let own = json!({"tools": {"version": 1, "list": true, "use": true, "legacyNames": true}});
    let takes_images = images != ImageSupport::No;
    let prompt = PromptCapabilities::new().image(takes_images).embedded_context(true);
    let can = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompt)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions)
        .meta(Meta::from_iter([("zero".to_owned(), own)]));
    let us = Implementation::new("zero", env!("CARGO_PKG_VERSION")).title("zero".to_owned());
    InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(can).agent_info(us)
}
