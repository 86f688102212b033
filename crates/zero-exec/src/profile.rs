//! What a command of this host may do, said to whoever confines it.
//!
//! What a command may not change is one of two things. The kernel refuses it: everything that
//! exists, and of what does not exist the little for which something empty may stand in without
//! misleading anybody. The rest is watched (see [`crate::tree_watch`]): a command that makes it finds it
//! taken away again.

pub(crate) mod folder_scanner;
mod forbidden_roots;
pub(crate) mod git_repositories;
mod inaccessible_folders;
mod protected_settings;
pub(crate) mod secret_paths;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_sandbox::{FileType, NetworkAccess, SandboxProfile, Workspace, path_survey};

use self::folder_scanner::WritableRoots;
use self::git_repositories::find_repositories;
use self::inaccessible_folders::InaccessiblePaths;
use self::secret_paths::SecretPaths;
use crate::command_policy::{CommandPolicy, DeniedFiles};
use crate::command_settings::CommandSettings;
use crate::host_commands::HostCommands;
use crate::launcher::{CommandLauncher, LaunchAccess};
use crate::tree_watch::{TreeSnapshot, TreeWatch};

/// Files that rules may deny before commands are refused. Each is hidden by a mount of its own, and
/// the time a start takes grows with their square: 0.3 s for these, four for two thousand. The
/// walls hold a few more, because secrets of the host and its sockets come on top.
const DENIED_MAX: usize = 400;

/// What a command may do, and what is looked after once it has ended. Fails when what rules deny
/// cannot be listed: then no command may run.
pub(super) fn build_profile(
    launcher: &CommandLauncher,
    workspace: &Workspace,
    network: NetworkAccess,
) -> Result<(SandboxProfile, TreeWatch), ToolError> {
    let settings = &launcher.host.settings;
    let roots: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
    let secrets = cached_secret_paths(&launcher.host, workspace);
    forbidden_roots::check_roots(&roots, &secrets.own)?;
    // Who changes nothing there needs nothing there to be held or looked after.
    let changes = match launcher.access {
        LaunchAccess::AsCommands => roots.clone(),
        LaunchAccess::ReadOnly => Vec::new(),
    };
    let ground = WritableRoots {
        writable: match launcher.access {
            LaunchAccess::AsCommands => list_open_folders(&launcher.writable, &roots),
            LaunchAccess::ReadOnly => Vec::new(),
        },
        roots: changes.clone(),
        home: settings.home.clone(),
        state: path_survey::canonicalize(&launcher.host.state)
            .unwrap_or_else(|| launcher.host.state.clone()),
    };
    let live = Arc::clone(&launcher.host.live);
    let start = live.start();
    let found = live.terrain.scan(&ground);
    let git = find_repositories(&ground, &found);
    let mut own = protected_settings::find_protected_settings(
        &ground,
        &found,
        &settings.protected,
        &*launcher.policy,
    );
    let masked = list_masked_paths(&secrets, settings, &*launcher.policy, workspace)?;
    forbidden_roots::check_visible(&roots, &masked)?;
    let writable = [changes, git.writable.clone(), launcher.writable.clone()].concat();
    secrets.add_watched_paths(&writable, &mut own);
    let before = TreeSnapshot {
        start,
        ground,
        watched: own.watched,
        held: own.held_names,
        deep: own.deep,
        unheld: own.unheld,
        overlooked: found.overlooked,
    };
    let policy = Arc::clone(&launcher.policy);
    let watch = TreeWatch::new(before, &git, policy, (launcher.host.kept.clone(), live));
    let folders = [&*own.held, &*git.folders, &*git.held, &*secrets.own].concat();
    let held = InaccessiblePaths::new(writable, folders, git.files);
    let profile = SandboxProfile {
        writable: held.writable,
        protected: held.folders,
        protected_files: held.files,
        masked,
        network,
        limits: launcher.limits.into(),
        tmp: launcher.session.tmp.path().to_owned(),
        weaknesses: launcher.weaknesses.clone(),
    };
    Ok((profile, watch))
}

/// What has to be hidden from whatever is started now. Fails when it cannot be listed.
pub fn list_hidden_paths(
    host: &HostCommands,
    policy: &dyn CommandPolicy,
    workspace: &Workspace,
) -> Result<Vec<PathBuf>, ToolError> {
    list_masked_paths(&cached_secret_paths(host, workspace), &host.settings, policy, workspace)
}

/// Where secrets lie for a workspace. Its first folder seldom changes, and nothing else does.
fn cached_secret_paths(host: &HostCommands, workspace: &Workspace) -> Arc<SecretPaths> {
    let mut known = host.secrets.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((folder, secrets)) = known.as_ref()
        && folder == workspace.cwd()
    {
        return Arc::clone(secrets);
    }
    let mut secrets = SecretPaths::find(&host.settings, workspace.cwd());
    secrets.own.push(host.state.clone());
    let secrets = Arc::new(secrets);
    // Where the machine could not be asked, as when no more files can be opened, it is asked again.
    *known = secrets.is_whole.then(|| (workspace.cwd().to_owned(), Arc::clone(&secrets)));
    secrets
}

fn list_masked_paths(
    secrets: &SecretPaths,
    settings: &CommandSettings,
    policy: &dyn CommandPolicy,
    workspace: &Workspace,
) -> Result<Vec<PathBuf>, ToolError> {
    let masked = secrets.masked_paths().chain(list_denied_paths(settings, policy, workspace)?);
    let mut masked: Vec<PathBuf> =
        masked.filter_map(inaccessible_folders::find_maskable_path).collect();
    masked.sort();
    masked.dedup();
    Ok(masked)
}

/// What settings and rules deny commands to read. Fails when it cannot be listed.
pub fn list_denied_paths(
    settings: &CommandSettings,
    policy: &dyn CommandPolicy,
    workspace: &Workspace,
) -> Result<Vec<PathBuf>, ToolError> {
    match policy.denied_files(workspace, DENIED_MAX) {
        DeniedFiles::All(files) => Ok([settings.masked.clone(), files].concat()),
        DeniedFiles::TooMany { rules } => Err(too_many_denied_error(rules)),
    }
}

/// The folders that are open beside the workspace, as far as they are any.
fn list_open_folders(writable: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    let real = writable.iter().filter_map(|path| path_survey::canonicalize(path));
    let is_folder = |path: &PathBuf| path_survey::file_type(path) == Some(FileType::Directory);
    real.filter(|path| is_folder(path) && !roots.contains(path)).collect()
}

fn too_many_denied_error(rules: usize) -> ToolError {
    let message = format!(
        "no command can run here: {rules} rules deny reading files or ask about it, and together they cover more than can be hidden from a command ({DENIED_MAX} files and folders), or there are too many places to look; deny a folder instead of the files in it (`Read(secrets/**)` hides one thing), narrow the rules for `Read`, above all those that begin at `//`, or work in a smaller folder"
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, message)
}
