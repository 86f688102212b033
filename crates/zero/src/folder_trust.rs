//! Checks that a folder is trusted before code from it may run.

use std::path::Path;

use zero_core::shell_quoting::quote_shell_word;
use zero_sandbox::StateDir;
use zero_settings::{TrustState, TrustStore, WorkspaceSettings};

use crate::environment::EnvironmentConfig;
use crate::exit::UsageError;

/// Checks that a folder is trusted with its current settings, before code from it may run. The error
/// tells the model why not and what to do.
pub(crate) fn check_trusted(
    config: &EnvironmentConfig,
    state: &StateDir,
    folder: &Path,
) -> Result<(), String> {
    let read_state = || {
        let store = TrustStore::load(state).map_err(UsageError::from)?;
        // Do not read the settings of a folder that was never trusted.
        if !store.has_folder(folder) {
            return Ok(TrustState::Never);
        }
        Ok::<_, UsageError>(store.trust_state(
            folder,
            &WorkspaceSettings::entries_needing_trust(&config.user_paths(), folder)?,
        ))
    };
    let reason = match read_state().map_err(|error| error.to_string())? {
        state if state.is_trusted() => return Ok(()),
        TrustState::Never | TrustState::Trusted { .. } => "the folder is not trusted",
        TrustState::Changed { .. } => "the settings of the folder changed since it was trusted",
    };
    let folder = quote_shell_word(&folder.to_string_lossy());
    Err(format!(
        "{reason}, and language servers may execute its build scripts and plugins. To trust it, the user runs `zero trust {folder}`; then try again. Until then, use Grep and Read"
    ))
}

#[cfg(test)]
mod tests {
    use zero_sandbox::ConfigFile;

    use super::*;

    const TRUSTED_SETTINGS: &str = r#"{"permissions": {"allow": ["Read", "Grep"], "deny": ["Bash"]}, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#;

    #[test]
    fn folder_without_requests_is_untrusted_until_confirmed() {
        let temp = tempfile::tempdir().unwrap();
        let config = EnvironmentConfig::for_test(temp.path());
        let state = StateDir::new(temp.path().join("state"));
        let (work, other) = (temp.path().join("work"), temp.path().join("it's other"));
        let check = |folder: &Path| check_trusted(&config, &state, folder);
        let folder = work.to_str().unwrap();
        let how = format!(
            "the folder is not trusted, and language servers may execute its build scripts and plugins. To trust it, the user runs `zero trust {folder}`"
        );
        assert!(check(&work).unwrap_err().starts_with(&how));
        TrustStore::add(&state, folder, &[]).unwrap();
        assert_eq!(check(&work), Ok(()));
        assert!(check(&other).unwrap_err().contains("`zero trust '"), "a word for a shell");
        // Settings that are added later are not trusted.
        let file = ConfigFile::Own(work.join(".zero/settings.json"));
        file.write(TRUSTED_SETTINGS.as_bytes()).unwrap();
        assert!(check(&work).unwrap_err().starts_with("the settings of the folder changed since"));
        file.write(b"{").unwrap();
        assert!(check(&work).unwrap_err().contains("unterminated"));
    }
}
