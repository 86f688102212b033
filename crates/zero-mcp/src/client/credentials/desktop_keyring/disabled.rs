//! Reports that this build has no access to the keyring.

use crate::client::credentials::SecretStoreError;

/// What to do to use the keyring.
pub const KEYRING_ADVICE: &str = "build zero with `--features keyring`";

pub(super) fn get(_service: &str, _name: &str) -> Result<Option<String>, SecretStoreError> {
    Err(missing())
}

pub(super) fn set(_service: &str, _name: &str, _secret: &str) -> Result<(), SecretStoreError> {
    Err(missing())
}

pub(super) fn remove(_service: &str, _name: &str) -> Result<(), SecretStoreError> {
    Err(missing())
}

fn missing() -> SecretStoreError {
    SecretStoreError("is not supported by this build".to_owned())
}
