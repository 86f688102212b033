//! Storage of OAuth logins: the [`LoginStore`] trait and [`CredentialVault`], its implementation.
//!
//! A login is stored in the desktop's keyring if there is one, otherwise in a file that only its
//! owner can read. A small list says which logins exist and where each is stored, so that the
//! keyring is not opened just to find that there is no login. A login is bound to its issuer and
//! its server and is used for nothing else. Renewing a login takes a lock across processes, because
//! many issuers treat a repeated renewal as theft and revoke the login.

mod credential_vault;
mod desktop_keyring;
mod login_record;

use std::fs::File;

use zero_runtime::tool::BoxFuture;

pub use self::credential_vault::{CredentialVault, SecretStore, SecretStoreError};
pub use self::desktop_keyring::{DesktopKeyring, KEYRING_ADVICE};
pub(crate) use self::login_record::BearerToken;
pub use self::login_record::LoginRecord;

/// Stores logins, each identified by the URL of its server.
pub trait LoginStore: Send + Sync {
    /// Returns the login for a server, identified by its URL.
    fn load<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginRecord>, CredentialError>>;

    /// Stores a login and replaces an earlier one.
    fn save(&self, record: LoginRecord) -> BoxFuture<'_, Result<LoginLocation, CredentialError>>;

    /// Removes a login, and returns whether there was one.
    fn remove<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Result<bool, CredentialError>>;

    /// Waits until no other process renews this login, and keeps others from renewing it.
    fn lock<'a>(&'a self, resource: &'a str)
    -> BoxFuture<'a, Result<RenewalLock, CredentialError>>;
}

/// Keeps other processes from renewing a login until it is dropped.
#[derive(Debug)]
pub struct RenewalLock {
    /// `None` if no other process can use the store.
    _file: Option<File>,
}

/// Where a login is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginLocation {
    /// In the keyring of the desktop.
    Keyring,
    /// In a file in zero's state directory, because no keyring answers.
    File,
}

/// Why a login could not be read or stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The file could not be read or written.
    #[error("cannot read or write logins in `{path}`: {why}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// The file or the keyring entry is damaged.
    #[error("the stored login is damaged ({place}); log in again")]
    Damaged {
        /// Where it is stored.
        place: String,
    },
    /// The login is in a keyring that does not answer.
    #[error(
        "the login is stored in the desktop's keyring, which {why}; {KEYRING_ADVICE}, or log in again"
    )]
    Keyring {
        /// What the keyring does instead, such as "is locked".
        why: String,
    },
    /// Other processes hold the renewal lock for too long.
    #[error("another zero process is renewing the login and takes too long; try again")]
    Busy,
    /// The task was cancelled.
    #[error("reading the login was cancelled")]
    Cancelled,
}

/// Stores no logins, for servers that need none.
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
        let (path, why) = ("nowhere".to_owned(), "this store keeps no logins".to_owned());
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
