//! Entries of the keyring, by service and name.

use std::sync::LazyLock;

use keyring_core::{Entry, Error};

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain as keyring_store;
#[cfg(not(target_os = "macos"))]
use dbus_secret_service_keyring_store as keyring_store;

use crate::client::credentials::SecretStoreError;

/// What to do if the keyring does not work.
pub const KEYRING_ADVICE: &str = "make sure that it runs and is unlocked";

pub(super) fn get(service: &str, name: &str) -> Result<Option<String>, SecretStoreError> {
    match open_entry(service, name)?.get_password() {
        Ok(secret) => Ok(Some(secret)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(to_store_error(error)),
    }
}

pub(super) fn set(service: &str, name: &str, secret: &str) -> Result<(), SecretStoreError> {
    open_entry(service, name)?.set_password(secret).map_err(to_store_error)
}

pub(super) fn remove(service: &str, name: &str) -> Result<(), SecretStoreError> {
    match open_entry(service, name)?.delete_credential() {
        Ok(()) | Err(Error::NoEntry) => Ok(()),
        Err(error) => Err(to_store_error(error)),
    }
}

fn open_entry(service: &str, name: &str) -> Result<Entry, SecretStoreError> {
    static FOUND: LazyLock<Result<(), Error>> = LazyLock::new(|| {
        keyring_core::set_default_store(keyring_store::Store::new()?);
        Ok(())
    });
    if FOUND.is_err() {
        return Err(to_store_error(Error::NoDefaultStore));
    }
    Entry::new(service, name).map_err(to_store_error)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn to_store_error(error: Error) -> SecretStoreError {
    // Other errors may contain a part of the secret, so their text is not used.
    SecretStoreError(match error {
        Error::NoDefaultStore => "is not available".to_owned(),
        Error::NoStorageAccess(_) => "is locked".to_owned(),
        Error::TooLong(_, most) => format!("accepts at most {most} bytes"),
        _ => "did not answer".to_owned(),
    })
}
