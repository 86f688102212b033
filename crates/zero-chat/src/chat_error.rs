//! Why a chat fails.

use zero_client::GatewayLinkError;

/// Why a chat cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The gateway refused something, or is gone.
    #[error(transparent)]
    Link(#[from] GatewayLinkError),
    /// The tools of the session cannot be opened.
    #[error("{0}")]
    Tools(String),
    /// The terminal cannot be used.
    #[error("could not use the terminal")]
    Terminal(#[from] std::io::Error),
}
