//! Device key that identifies this machine to gateways that require one. It is created on first use
//! and stored in zero's state folder, readable only by the user.

use std::fmt::Display;
use std::sync::Arc;

use zero_client::GatewayLinkError;
use zero_client::url_dialer::DeviceKeySource;
use zero_sandbox::config_file::lock;
use zero_sandbox::{ConfigFile, StateDir};
use zero_wire::device::DeviceKey;

/// Name of the key file in the state folder.
const KEY_FILE: &str = "device.key";
/// Lock file held while the key is created.
const LOCK: &str = "device.lock";
/// Largest key file, in bytes.
const BYTES_MAX: u64 = 4_096;

/// Loads the device key of this machine from its file, or creates it.
pub(crate) struct DeviceKeyFile {
    state: StateDir,
}

impl DeviceKeyFile {
    pub(crate) fn new(state: StateDir) -> Self {
        Self { state }
    }

    fn load_or_create(&self) -> Result<DeviceKey, String> {
        let path = self.state.path().join(KEY_FILE);
        let file = ConfigFile::Own(path.clone());
        let at = |why: &dyn Display| format!("device key in `{}`: {why}", path.display());
        self.state.create().map_err(|error| at(&error))?;
        // Processes that start at the same time must use the same key.
        let _alone = lock(&self.state, LOCK).map_err(|error| at(&error))?;
        match file.read(BYTES_MAX).map_err(|error| at(&error))? {
            Some(known) => DeviceKey::from_pkcs8(&known).map_err(|error| at(&error)),
            None => {
                let (key, bytes) = DeviceKey::generate().map_err(|error| at(&error))?;
                file.write(&bytes).map_err(|error| at(&error))?;
                Ok(key)
            }
        }
    }
}

impl DeviceKeySource for DeviceKeyFile {
    fn device_key(&self) -> Result<Arc<DeviceKey>, GatewayLinkError> {
        self.load_or_create()
            .map(Arc::new)
            .map_err(|message| GatewayLinkError::Settings { message })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at real files")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn device_key_is_stable_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path().join("zero"));
        let device = DeviceKeyFile::new(state.clone());
        let id = device.device_key().unwrap().id();
        assert_eq!(DeviceKeyFile::new(state.clone()).device_key().unwrap().id(), id);
        let path = state.path().join(KEY_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "no key").unwrap();
        let error = device.device_key().err().unwrap();
        assert!(matches!(&error, GatewayLinkError::Settings { .. }), "{error}");
        assert!(
            error.to_string().contains("device.key`: the device key is damaged; remove it"),
            "{error}"
        );
    }
}
