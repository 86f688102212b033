//! File of the devices that are paired with the gateway of this machine. It has no secrets but digests
//! of tokens.

use zero_gateway::{DeviceStore, PairedDevice};
use zero_sandbox::{ConfigFile, StateDir};

/// Name of the file in the state folder.
const DEVICES_FILE: &str = "paired-devices.json";
/// Largest file, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;

/// Stores paired devices in the state folder, readable only by the user.
pub(crate) struct PairedDeviceFile {
    state: StateDir,
}

impl PairedDeviceFile {
    pub(crate) fn new(state: StateDir) -> Self {
        Self { state }
    }

    fn file(&self) -> ConfigFile {
        ConfigFile::Own(self.state.path().join(DEVICES_FILE))
    }

    fn describe(&self, why: &dyn std::fmt::Display) -> String {
        format!("`{}`: {why}", self.state.path().join(DEVICES_FILE).display())
    }
}

impl DeviceStore for PairedDeviceFile {
    fn load(&self) -> Result<Vec<PairedDevice>, String> {
        let read = self.file().read(BYTES_MAX).map_err(|error| self.describe(&error))?;
        let Some(bytes) = read else { return Ok(Vec::new()) };
        serde_json::from_slice(&bytes).map_err(|error| self.describe(&error))
    }

    fn save(&self, devices: &[PairedDevice]) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(devices).map_err(|error| self.describe(&error))?;
        self.state.create().map_err(|error| self.describe(&error))?;
        self.file().write(&text).map_err(|error| self.describe(&error))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests look at real files")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn devices_are_stored_privately() {
        let folder = tempfile::tempdir().unwrap();
        let store = PairedDeviceFile::new(StateDir::new(folder.path().join("zero")));
        assert_eq!(store.load().unwrap().len(), 0);
        let device: PairedDevice = serde_json::from_value(serde_json::json!({
            "id": "ab", "name": "Phone", "scopes": ["operator.read"], "owner": "ann",
            "tokenDigest": "cd", "pairedAtMs": 1,
        }))
        .unwrap();
        store.save(std::slice::from_ref(&device)).unwrap();
        assert!(store.load().unwrap() == [device]);
        let path = folder.path().join("zero").join(DEVICES_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "{").unwrap();
        let error = store.load().err().unwrap();
        assert!(error.contains("paired-devices.json`"), "{error}");
    }
}
