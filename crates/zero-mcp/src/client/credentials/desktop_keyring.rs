//! The keyring of the desktop, if zero is built with the feature `keyring`.

#[cfg(not(feature = "keyring"))]
mod disabled;
#[cfg(feature = "keyring")]
mod enabled;

#[cfg(not(feature = "keyring"))]
use self::disabled as entries;
#[cfg(feature = "keyring")]
use self::enabled as entries;
pub use self::entries::KEYRING_ADVICE;
use super::credential_vault::{SecretStore, SecretStoreError};

/// The keyring of the desktop.
#[derive(Clone, Copy, Debug)]
pub struct DesktopKeyring {
    /// Name of the group of entries, as the desktop shows it.
    service: &'static str,
}

impl DesktopKeyring {
    /// Logins at MCP servers.
    pub const LOGINS: Self = Self { service: "zero MCP logins" };
    /// Keys that settings refer to: API keys of models, tokens of a gateway. Separate from the
    /// logins, so that names cannot collide.
    pub const KEYS: Self = Self { service: "zero keys" };
}

impl SecretStore for DesktopKeyring {
    fn get(&self, name: &str) -> Result<Option<String>, SecretStoreError> {
        entries::get(self.service, name)
    }

    fn set(&self, name: &str, secret: &str) -> Result<(), SecretStoreError> {
        entries::set(self.service, name, secret)
    }

    fn remove(&self, name: &str) -> Result<(), SecretStoreError> {
        entries::remove(self.service, name)
    }
}
