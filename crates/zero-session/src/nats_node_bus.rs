//! A bus over a NATS server, if zero is built with the feature `cluster`.
//!
//! Only its fan-out is used, which keeps nothing: lost messages are found in the store. Any client that
//! may connect to the server can send and read everything there, so messages are encrypted and
//! authenticated with a secret that is in the store.

#[cfg(not(feature = "cluster"))]
mod disabled;
#[cfg(feature = "cluster")]
mod enabled;

use std::fmt;

#[cfg(not(feature = "cluster"))]
pub use self::disabled::NatsNodeBus;
#[cfg(feature = "cluster")]
pub use self::enabled::NatsNodeBus;

/// Where the server is, and how to log in there.
#[derive(Clone, Default)]
pub struct NatsOptions {
    /// Address, such as `nats://user@host:4222`; several hosts are separated by commas.
    pub url: String,
    /// A password if the address has a user; otherwise a token, an NKey seed or the text of a `.creds` file.
    pub secret: Option<String>,
    /// Certificates of authorities that are trusted besides those of the system, in DER.
    pub extra_roots: Vec<Vec<u8>>,
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions").finish_non_exhaustive()
    }
}

/// The bus cannot be used as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeBusOpenError {
    /// The address or the login is wrong.
    #[error("{0}")]
    Settings(String),
    /// The store does not say which cluster it is.
    #[error("the store cannot be read")]
    Store(#[source] crate::store::StoreError),
    /// The system refuses what the bus needs.
    #[error("{0}")]
    System(String),
}
