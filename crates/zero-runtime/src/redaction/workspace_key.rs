//! Names what zero keeps about the secrets of a workspace.

use std::path::Path;

use zero_sandbox::journal::sha256;

/// The folder in zero's state.
pub(super) const STATE_FOLDER: &str = "secrets";

/// Names the files of the workspace with this folder.
pub(super) fn workspace_key(root: &Path) -> String {
    let mut key = sha256(root.as_os_str().as_encoded_bytes());
    key.truncate(32);
    key
}
