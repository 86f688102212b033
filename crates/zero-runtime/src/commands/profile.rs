//! What a command of this host may do, said to whoever confines it.

use std::path::{Path, PathBuf};

use zero_core::{ErrorType, Reason, ToolError};
use zero_sandbox::{FileType, Network, Profile, Workspace, survey};

use super::CallCommands;
use crate::policy::DeniedFiles;

/// Files that rules may deny before commands are refused: a profile is no place for more.
const DENIED_MAX: usize = 2_000;

/// What runs code later, at the next prompt, commit or build, or says who may do what: from a
/// folder of the workspace on, whether it exists or not. What is missing shows as an empty folder
/// while a command runs, so only names are here for which that does no harm.
const PROTECTED: &[&str] = &[
    ".zero",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".github/workflows",
    ".circleci",
    ".claude",
    ".cursor",
    ".gemini",
    ".qwen",
    ".codex",
    ".opencode",
    ".envrc",
    ".mcp.json",
    ".gitlab-ci.yml",
    "lefthook.yml",
];
/// The same for files that a program would stumble over if they were folders: protected where they
/// exist.
const PROTECTED_FILES: &[&str] = &[
    ".gitmodules",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    ".cargo/config.toml",
    ".cargo/config",
    ".bazelrc",
];
/// Always protected in a repository, when there is one.
const PROTECTED_IN_GIT: &[&str] = &["hooks", "config"];
/// Protected in a repository where they exist.
const PROTECTED_FILES_IN_GIT: &[&str] = &["config.worktree", "info/attributes"];
/// What holds secrets, from the home folder on.
const SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".oci",
    ".fly",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/doctl",
    ".config/op",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".password-store",
    ".gem/credentials",
    ".config/containers/auth.json",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/keepassxc",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    "snap/firefox",
    "snap/chromium",
    ".config/zero",
];

/// What a command may do. Fails when what rules deny cannot be listed: then no command may run.
pub(super) fn profile_for(
    commands: &CallCommands,
    workspace: &Workspace,
    network: Network,
) -> Result<Profile, ToolError> {
    let settings = &commands.host.settings;
    let roots: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
    let mut protected: Vec<PathBuf> = roots.iter().flat_map(|root| protected_in(root)).collect();
    protected.extend(settings.protected.iter().cloned());
    let secrets = settings.home.iter().flat_map(|home| SECRETS.iter().map(|name| home.join(name)));
    let mut masked: Vec<PathBuf> = secrets.filter(|path| survey::exists(path)).collect();
    masked.extend(settings.masked.iter().cloned());
    masked.push(commands.host.state.clone());
    match commands.policy.denied_files(workspace, DENIED_MAX) {
        DeniedFiles::All(files) => masked.extend(files),
        DeniedFiles::TooMany => return Err(too_many()),
    }
    masked.sort();
    masked.dedup();
    let mut writable = roots;
    writable.extend(settings.writable.iter().cloned());
    Ok(Profile {
        writable,
        protected,
        masked,
        network,
        limits: commands.limits.into(),
        tmp: commands.session.tmp.path().to_owned(),
        weaknesses: settings.weaknesses.clone(),
    })
}

fn protected_in(root: &Path) -> Vec<PathBuf> {
    let always = |folder: &Path, names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| folder.join(name)).collect()
    };
    let existing = |folder: &Path, names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| folder.join(name)).filter(|path| survey::exists(path)).collect()
    };
    let mut protected = [always(root, PROTECTED), existing(root, PROTECTED_FILES)].concat();
    let git = root.join(".git");
    // Where there is no repository yet, one may be made.
    if survey::kind(&git) == Some(FileType::Directory) {
        protected.extend(always(&git, PROTECTED_IN_GIT));
        protected.extend(existing(&git, PROTECTED_FILES_IN_GIT));
    }
    protected
}

fn too_many() -> ToolError {
    let message = format!(
        "no command can run here: the rules deny reading more files than can be hidden from it ({DENIED_MAX}), or the workspace is too large to find them; narrow the deny rules for `Read`, or work in a smaller folder"
    );
    ToolError::new(ErrorType::PermissionDenied, Reason::Denied, message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn a_repository_is_protected_once_there_is_one() {
        let temp = tempfile::tempdir().unwrap();
        let hooks = temp.path().join(".git/hooks");
        assert!(!protected_in(temp.path()).contains(&hooks));
        std::fs::create_dir(temp.path().join(".git")).unwrap();
        let protected = protected_in(temp.path());
        assert!(protected.contains(&hooks) && protected.contains(&temp.path().join(".zero")));
        let npmrc = temp.path().join(".npmrc");
        assert!(!protected.contains(&npmrc), "npm would stumble over a folder");
        std::fs::write(&npmrc, "").unwrap();
        assert!(protected_in(temp.path()).contains(&npmrc));
    }
}
