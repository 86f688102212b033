//! The Agent Client Protocol, version 1, on stdio: zero as an agent for editors.
//!
//! An editor's session is a session at a gateway, in this process or a remote one. Its tools are
//! hosted here, next to the files. Ledger entries of the gateway are translated into protocol
//! updates by [`update_presenter`]. Only this crate uses the protocol's SDK.

mod acp_agent;
mod acp_server;
mod cancelled_runs;
mod client_approver;
mod client_buffers;
mod client_calls;
mod client_features;
mod client_handle;
mod client_questions;
mod client_terminal;
mod client_tool_methods;
mod client_tools;
mod command_watcher;
pub mod config;
mod elicitation_dialog;
mod handshake;
mod line_transport;
mod login;
mod output_buffer;
mod own_runs;
mod prompt_content;
mod prompt_sender;
mod rpc_error;
mod session;
mod session_forwarding;
mod session_message;
mod session_methods;
mod session_options;
mod session_setup;
mod text_sanitizer;
pub mod tool_host_factory;
pub mod tool_server;
mod update_buffer;
mod update_presenter;

pub use acp_agent::serve;
pub use acp_server::AcpServeError;
pub use config::{
    AcpConfig, ClientPreferences, DisconnectPolicy, FolderPrefixPolicy, ImageSupport,
    ModelKeyChecker, ModelKeyError, SessionOpenDefaults, TerminalLogin, TerminalPolicy,
};
pub use tool_host_factory::{
    ClientTool, ClientToolCaller, ClientToolDefinition, ClientToolKind, SessionMcpServer,
    SessionServerTransport, SessionToolHost, ToolHostFactory, ToolHostOpenError, ToolHostRequest,
};
pub use tool_server::{ToolServerApproval, ToolServerConfig, serve_tools};
