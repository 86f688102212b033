//! What a login leaves behind, kept between runs.
//!
//! In the desktop's keyring where there is one, otherwise in a file that only its owner can read.
//! One small list says which logins there are and where each is kept, so that nobody has to open a
//! keyring to learn that there is none. A login belongs to who issued it and to what it is for, and
//! is used for nothing else. Renewing one is locked across processes: many issuers take a renewal
//! that comes twice for theft, and end the login.

mod credential_vault;
mod login_record;

use std::fs::File;

use zero_runtime::tool::BoxFuture;

pub use self::credential_vault::{CredentialVault, DesktopKeyring, SecretStore, SecretStoreError};
pub(crate) use self::login_record::BearerToken;
pub use self::login_record::LoginRecord;

/// Keeps logins.
pub trait LoginStore: Send + Sync {
    /// The login for a server, by its address.
    fn load<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginRecord>, CredentialError>>;

    /// Keeps a login in place of the one there was.
    fn save(&self, record: LoginRecord) -> BoxFuture<'_, Result<LoginLocation, CredentialError>>;

    /// Forgets a login; whether there was one.
    fn remove<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Result<bool, CredentialError>>;

    /// Waits until no other process renews this login, and keeps others from it.
    fn lock<'a>(&'a self, resource: &'a str)
    -> BoxFuture<'a, Result<RenewalLock, CredentialError>>;
}

/// Keeps other processes from renewing a login, as long as it lives.
#[derive(Debug)]
pub struct RenewalLock {
    /// Nothing where nobody else can come.
    _file: Option<File>,
}

/// Where a login is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginLocation {
    /// In the keyring of the desktop.
    Keyring,
    /// In a file of zero's own, because there is no keyring that answers.
    File,
}

/// Why a login could not be read or kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The file would not.
    #[error("logins could not be read or kept in `{path}`: {why}")]
    File {
        /// Which one.
        path: String,
        /// Why not.
        why: String,
    },
    /// The file or what is kept in the keyring is damaged.
    #[error("what is kept of a login is damaged ({place}); log in again")]
    Damaged {
        /// Where it is kept.
        place: String,
    },
    /// The login is in a keyring that does not answer.
    #[error("the login is kept in the desktop's keyring, which {why}; unlock it, or log in again")]
    Keyring {
        /// What it does instead.
        why: String,
    },
    /// Another process keeps renewing it.
    #[error("another zero is renewing the login, and did so all the time; try again")]
    Busy,
    /// It was called off.
    #[error("reading the login was called off")]
    Cancelled,
}

/// Keeps no logins: for servers that want none.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyLoginStore;

impl LoginStore for EmptyLoginStore {
    fn load<'a>(
        &'a self,
        _resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginRecord>, CredentialError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn save(&self, _record: LoginRecord) -> BoxFuture<'_, Result<LoginLocation, CredentialError>> {
        let (path, why) = ("nowhere".to_owned(), "no logins are kept here".to_owned());
        Box::pin(std::future::ready(Err(CredentialError::File { path, why })))
    }

    fn remove<'a>(&'a self, _resource: &'a str) -> BoxFuture<'a, Result<bool, CredentialError>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn lock<'a>(
        &'a self,
        _resource: &'a str,
    ) -> BoxFuture<'a, Result<RenewalLock, CredentialError>> {
        Box::pin(std::future::ready(Ok(RenewalLock { _file: None })))
    }
}
