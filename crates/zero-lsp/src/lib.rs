//! Language servers: the programs that know a language, asked about a project.
//!
//! A [`ServerDefinition`](definition::ServerDefinition) says which there are, [`LanguageServers`]
//! which run, a [`Connection`] talks to one, and an [`Asker`] asks it. A server is a program of
//! somebody else's that reads a project of yet somebody else: it runs confined, may change nothing
//! and reach nobody, and nothing it says is taken on trust.
//!
//! Not here: what of an answer may be told, and how (the tool), where definitions come from.

pub mod answer;
pub mod ask;
mod cache;
pub mod connection;
pub mod definition;
pub mod documents;
pub mod error;
pub mod frame;
pub mod position;
mod process;
pub mod published;
pub mod servers;
mod stand_in;
pub mod uri;

pub use ask::{Asker, Calls, Spot};
pub use connection::Connection;
pub use definition::{Language, ServerDefinition};
pub use documents::{Text, Told};
pub use error::LspError;
pub use position::PositionEncoding;
pub use servers::{Bounds, LanguageServers, LanguageServersConfig, Lease, Trust};
pub use stand_in::{has_stand_in, is_stand_in};
