//! Whether a folder may run what lies in it, in words for those who are refused.

use std::path::Path;

use zero_sandbox::StateDir;
use zero_settings::{TrustState, TrustStore, WorkspaceSettings};

use crate::environment::EnvironmentConfig;
use crate::exit::UsageError;
use crate::shell_quoting::quote_shell_word;

/// Whether a folder is trusted as it is now; where it is not, how it stands and what to do. For
/// those who would run what they find there.
pub(crate) fn check_trusted(
    config: &EnvironmentConfig,
    state: &StateDir,
    folder: &Path,
) -> Result<(), String> {
    let looked_at = || {
        let store = TrustStore::load(state).map_err(UsageError::from)?;
        // What nobody trusted is not looked at any closer.
        if !store.has_folder(folder) {
            return Ok(TrustState::Never);
        }
        Ok::<_, UsageError>(store.trust_state(
            folder,
            &WorkspaceSettings::entries_needing_trust(&config.user_paths(), folder)?,
        ))
    };
    let standing = match looked_at().map_err(|error| error.to_string())? {
        standing if standing.is_trusted() => return Ok(()),
        TrustState::Never | TrustState::Trusted { .. } => "the folder is not trusted",
        TrustState::Changed { .. } => "the settings of the folder changed since it was trusted",
    };
    let folder = quote_shell_word(&folder.to_string_lossy());
    Err(format!(
        "{standing}, and a server may run what it finds there, such as build scripts and plugins; whoever trusts it runs `zero trust {folder}`, then ask again; until then use Grep and Read"
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
            "the folder is not trusted, and a server may run what it finds there, such as build scripts and plugins; whoever trusts it runs `zero trust {folder}`"
        );
        assert!(check(&work).unwrap_err().starts_with(&how));
        TrustStore::add(&state, folder, &[]).unwrap();
        assert_eq!(check(&work), Ok(()));
        assert!(check(&other).unwrap_err().contains("`zero trust '"), "a word for a shell");
        // Whatever comes later was not seen.
        let file = ConfigFile::Own(work.join(".zero/settings.json"));
        file.write(TRUSTED_SETTINGS.as_bytes()).unwrap();
        assert!(check(&work).unwrap_err().starts_with("the settings of the folder changed since"));
        file.write(b"{").unwrap();
        assert!(check(&work).unwrap_err().contains("unterminated"));
    }
}
