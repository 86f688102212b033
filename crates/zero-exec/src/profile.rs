//! Builds the sandbox profile of a command.
//!
//! Two mechanisms keep a command from changing protected paths. The kernel refuses changes to
//! everything that exists, and to the few missing names for which an empty placeholder misleads no
//! program. The rest is watched (see [`crate::tree_watch`]): files that a command creates there are
//! quarantined afterwards.

mod existing_entries;
pub(crate) mod folder_scanner;
pub(crate) mod forbidden_path;
mod forbidden_roots;
pub(crate) mod git_repositories;
mod hard_links;
mod helper_programs;
mod home_entries;
pub(crate) mod home_folders;
mod inaccessible_folders;
mod link_targets;
mod protected_settings;
mod protection_limit;
mod protection_scan;
pub(crate) mod secret_paths;
mod stamped_cache;
pub(crate) mod target_protection;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use zero_core::{CommandExecution, CommandLine, ErrorReason, ErrorType, ToolError};
use zero_policy::WriteScope;
use zero_sandbox::{FileType, NetworkAccess, SandboxProfile, Workspace, journal, path_survey};

use self::folder_scanner::WritableRoots;
use self::home_folders::{HomeNeeds, HomeView};
use self::inaccessible_folders::InaccessiblePaths;
pub(crate) use self::protected_settings::CONFIGURED;
use self::protection_scan::ProtectionScan;
use self::secret_paths::SecretPaths;
use crate::command_policy::{CommandPolicy, DeniedChanges, DeniedFiles};
use crate::command_settings::CommandSettings;
use crate::denied_changes::list_denied_changes;
use crate::host_commands::HostCommands;
use crate::launcher::{CommandLauncher, LaunchAccess};
use crate::repository_contents::RepositoryContents;
use crate::tree_watch::{TreeSnapshot, TreeWatch, WatchedPath};

/// Most files that rules may deny before commands are refused. Each is hidden by its own mount, and
/// the start time grows with the square of their number: 0.3 s for this many, 4 s for 2,000. The
/// sandbox itself accepts a few more, because secrets and sockets of the host are added.
const DENIED_MAX: usize = 400;

/// The sandbox profile of a command, the watch that runs after it, and what it sees of the home
/// folder. Fails if the files that
/// rules deny cannot be listed: then no command may run.
pub(super) fn build_profile(
    launcher: &CommandLauncher,
    workspace: &Workspace,
    network: NetworkAccess,
    caches: &[PathBuf],
) -> Result<(SandboxProfile, TreeWatch, HomeView), ToolError> {
    let settings = &launcher.host.settings;
    let roots: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
    let secrets = cached_secret_paths(&launcher.host, workspace);
    forbidden_roots::check_roots(&roots, &secrets.own)?;
    let judged = &launcher.judged.writes;
    // A program that cannot change the workspace needs nothing in it protected or watched.
    let (changes, open) = match (launcher.access, judged) {
        (LaunchAccess::ReadOnly, _) | (_, WriteScope::Nothing) => (Vec::new(), Vec::new()),
        (LaunchAccess::AsCommands, WriteScope::Paths(_) | WriteScope::Workspace) => {
            (roots.clone(), list_open_folders(&launcher.writable, &roots))
        }
    };
    let scope = WritableRoots {
        writable: open,
        roots: changes.clone(),
        home: settings.home.clone(),
        state: path_survey::canonicalize(&launcher.host.state)
            .unwrap_or_else(|| launcher.host.state.clone()),
    };
    let watch_registry = Arc::clone(&launcher.host.watch_registry);
    let lease = match scope.roots.is_empty() && scope.writable.is_empty() {
        true => None,
        false => Some(
            watch_registry
                .begin_lease(&launcher.host.state)
                .map_err(|error| watch_error(&error))?,
        ),
    };
    let start = watch_registry.start(lease).map_err(|error| watch_error(&error))?;
    let scan = ProtectionScan::run(
        &watch_registry.scanner,
        &scope,
        &settings.protected,
        &*launcher.policy,
    )
    .map_err(|limit| limit.to_error())?;
    let ProtectionScan { found, git, settings: mut own, linked, home: home_linked } = scan;
    let denied_changes = match changes.is_empty() {
        true => None,
        false => list_denied_changes(&*launcher.policy, workspace)?,
    };
    let mut masked = list_masked_paths(&secrets, settings, &*launcher.policy, workspace)?;
    masked.extend(launcher.hidden_secrets.iter().cloned());
    let journals = journal::locate_journals(&scope.state);
    let other_names = hard_links::find_other_names(&masked, &roots, &journals);
    masked.extend(other_names.found);
    let work = [roots.clone(), launcher.writable.clone()].concat();
    let mut home = secrets.home_folders.view_for(HomeNeeds {
        work: &work,
        opened: &launcher.policy.readable_paths(),
        judged: &launcher.judged.reads,
        masked: &masked,
    });
    home.exposed = other_names.missed;
    forbidden_roots::check_visible(&roots, &masked)?;
    let own_folders = match (launcher.access, judged) {
        (LaunchAccess::AsCommands, WriteScope::Nothing) => Vec::new(),
        _ => launcher.writable.clone(),
    };
    // Packages may contain files with protected names, which no program obeys in a cache.
    // Only what a trial changes in the workspace is recorded.
    let of_git = if launcher.is_trial { &[][..] } else { &*git.writable };
    let writable = [&*changes, of_git, &*own_folders, caches].concat();
    let changeable = writable.clone();
    secrets.add_watched_paths(&writable, &mut own);
    own.unmounted.extend(linked.unmounted.iter().chain(&home_linked.unmounted).cloned());
    let mut watched = own.watched;
    watched.extend(linked.watched.iter().chain(&home_linked.watched).map(|path| {
        let watched = WatchedPath::new(&path.folder, &path.relative, path.why).closed_to_rules();
        let kind = watched.inspect();
        watched.with_previous(kind)
    }));
    let before = TreeSnapshot {
        start,
        scope,
        watched,
        existing: own.held_names,
        nested_settings: own.nested_settings,
        unmounted: own.unmounted,
        contents: RepositoryContents::read(&found.indexed),
        overlooked: found.overlooked,
        denied_changes: denied_changes.as_ref().map(|denied| denied.paths.clone()),
    };
    let policy = Arc::clone(&launcher.policy);
    let watch =
        TreeWatch::new(before, &git, policy, (launcher.host.quarantine.clone(), watch_registry));
    let watch = watch.map_err(|error| watch_error(&error))?;
    let denied_changes = denied_changes.map(DeniedChanges::into_protected).unwrap_or_default();
    let targets = [&*linked.held_paths, &*home_linked.held_paths].concat();
    let folders = [
        &*own.held_paths,
        &*git.folders,
        &*git.held_paths,
        &*targets,
        &*secrets.own,
        &*denied_changes,
    ]
    .concat();
    let mut inaccessible = InaccessiblePaths::new(writable, folders, git.files);
    if let (LaunchAccess::AsCommands, WriteScope::Paths(paths)) = (launcher.access, judged) {
        inaccessible.narrow_to(paths, &masked);
    }
    let profile = SandboxProfile {
        writable: inaccessible.writable,
        changeable,
        protected: inaccessible.folders,
        protected_files: inaccessible.files,
        masked: [&*masked, &*home.hidden].concat(),
        readable: home.readable.clone(),
        network,
        limits: launcher.limits.into(),
        tmp: launcher.session.tmp.path().to_owned(),
        weaknesses: launcher.weaknesses.clone(),
    };
    let watch = watch.with_profile(&profile, launcher.host.trusted_search_path(workspace));
    Ok((profile, watch, home))
}

/// The paths that must be hidden from a program that starts now. Fails if they cannot be listed.
pub fn list_hidden_paths(
    host: &HostCommands,
    policy: &dyn CommandPolicy,
    workspace: &Workspace,
) -> Result<Vec<PathBuf>, ToolError> {
    list_masked_paths(&cached_secret_paths(host, workspace), &host.settings, policy, workspace)
}

/// The folders of the home folder that a program of the settings needs.
pub(crate) fn list_named_folders(
    host: &HostCommands,
    workspace: &Workspace,
    execution: &CommandExecution,
) -> BTreeSet<PathBuf> {
    let words = match &execution.command {
        CommandLine::Program(words) => words.as_slice(),
        CommandLine::Shell(_) => &[],
    };
    let folder = execution.folder.as_ref().map(|folder| folder.canonical());
    cached_secret_paths(host, workspace).home_folders.list_named_folders(words, folder)
}

/// The secret paths for a workspace. Cached, because only its first folder can change the result.
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
    // An incomplete result, for example when no file could be opened, is not cached.
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

/// The paths that settings and rules deny commands to read. Fails if they cannot be listed.
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

/// The writable folders outside the workspace that exist.
fn list_open_folders(writable: &[PathBuf], roots: &[PathBuf]) -> Vec<PathBuf> {
    let real = writable.iter().filter_map(|path| path_survey::canonicalize(path));
    let is_folder = |path: &PathBuf| path_survey::file_type(path) == Some(FileType::Directory);
    real.filter(|path| is_folder(path) && !roots.contains(path)).collect()
}

fn watch_error(error: &io::Error) -> ToolError {
    let message = format!(
        "no command can run: zero cannot note in its state folder what the command may not create ({error}); make sure that this folder is writable and its disk is not full, and that not too many commands run"
    );
    ToolError::failed(ErrorReason::Io, message)
}

fn too_many_denied_error(rules: usize) -> ToolError {
    let message = format!(
        "no command can run here: {rules} rules deny reading files or ask about it, and together they cover more than can be hidden from a command ({DENIED_MAX} files and folders), or there are too many places to look; deny a folder instead of the files in it (`Read(secrets/**)` hides one thing), narrow the rules for `Read`, above all those that begin at `//`, or work in a smaller folder"
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, message)
}
