//! A client of language servers: finding, starting, supervising and querying them.
//!
//! - [`LanguageServerDefinition`] describes a server: its program, its files and its settings.
//! - [`LanguageServers`] starts servers on demand, shares them between callers and stops them.
//! - [`LspConnection`] is the JSON-RPC connection to one running server.
//! - [`LspClient`] sends queries over a connection and parses the replies.
//!
//! A language server is third-party code that reads, and often runs parts of, third-party projects.
//! So it runs in a read-only sandbox without network access, and its messages are untrusted input.
//!
//! Which results the model may see, and how they are rendered, is decided by the `Lsp` tool in
//! `zero-tools`; the settings that define servers are parsed in `zero`.

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
