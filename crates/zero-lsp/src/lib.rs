//! Language servers: the programs that know a language, asked about a project.
//!
//! A [`LanguageServerDefinition`](definition::ServerDefinition) says which there are, [`LanguageServers`]
//! which run, a [`LspConnection`] talks to one, and an [`LspClient`] asks it. A server is a program of
//! somebody else's that reads a project of yet somebody else: it runs confined, may change nothing
//! and reach nobody, and nothing it says is taken on trust.
//!
//! Not here: what of an answer may be told, and how (the tool), where definitions come from.

pub mod client;
pub mod connection;
pub mod diagnostics_store;
pub mod error;
pub mod frame;
pub mod language_servers;
pub mod open_documents;
pub mod position;
pub mod response;
mod rustup_proxy;
mod server_cache;
pub mod server_definition;
mod server_process;
pub mod uri;

pub use client::{CallDirection, DocumentPosition, LspClient};
pub use connection::LspConnection;
pub use error::LspError;
pub use language_servers::{
    FolderTrustCheck, LanguageServerLease, LanguageServerLimits, LanguageServers,
    LanguageServersConfig,
};
pub use open_documents::{DocumentText, DocumentVersion};
pub use position::PositionEncoding;
pub use rustup_proxy::{is_rustup_proxy, may_be_rustup_proxy};
pub use server_definition::{FileLanguage, LanguageServerDefinition};
