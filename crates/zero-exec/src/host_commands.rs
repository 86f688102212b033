//! The state that all commands of a host share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zero_core::{ErrorReason, ToolError};
use zero_policy::{HostName, PackageManager};
use zero_sandbox::path_survey;
use zero_sandbox::quarantine::Quarantine;
use zero_sandbox::{StateDir, Workspace};

use crate::command_settings::CommandSettings;
use crate::environment::CommandEnvironment;
use crate::local_machine::package_registries;
use crate::profile::secret_paths::SecretPaths;
use crate::tree_watch::WatchRegistry;
use crate::watch_lease::is_watched;

/// The state that all commands of a host share.
pub struct HostCommands {
    /// Settings for commands.
    pub settings: CommandSettings,
    pub(crate) environment: CommandEnvironment,
    /// zero's state folder, which commands may not read.
    pub(crate) state: PathBuf,
    /// Where forbidden files that commands created are moved.
    pub(crate) quarantine: Quarantine,
    /// The paths that commands running now may not create.
    pub(crate) watch_registry: Arc<WatchRegistry>,
    /// The secret paths of the last workspace folder that was asked for.
    pub(crate) secrets: Mutex<Option<(PathBuf, Arc<SecretPaths>)>>,
    /// Variables with the registries of configuration that commands do not see.
    registries: OnceLock<Vec<(&'static str, String)>>,
    /// The hosts from which package managers download by default, as far as they are known.
    default_registries: Mutex<BTreeMap<PackageManager, Vec<HostName>>>,
}

/// Folders that commands have of their own, whatever the machine has there.
const OWN_FOLDERS: [&str; 3] = ["/tmp", "/dev", "/proc"];
/// Folder of a repository, whose place the sandbox finds out itself.
const GIT_FOLDER: &str = ".git";

impl fmt::Debug for HostCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCommands").field("state", &self.state).finish_non_exhaustive()
    }
}

/// See [`HostCommands::check_creation`].
pub fn check_creation(state: &StateDir, path: &Path) -> Result<(), ToolError> {
    let is_taken = !path_survey::exists(path) && is_watched(state, path).unwrap_or(true);
    match is_taken {
        false => Ok(()),
        true => Err(ToolError::failed(
            ErrorReason::Busy,
            format!(
                "`{}` cannot be created while a command or a job runs in this folder: commands may not create such files, and zero would remove it with theirs; wait until the command has ended, or end the job (`zero jobs`)",
                path.display()
            ),
        )),
    }
}

impl HostCommands {
    /// Whether the sandbox could let a command change this canonical path: in the workspace, in a
    /// folder that settings open, or in one of the command's own.
    pub fn may_write(&self, path: &Path, roots: &[&Path]) -> bool {
        let opened =
            self.settings.writable.iter().filter_map(|path| path_survey::canonicalize(path));
        // Without a sandbox that is complete, a command may reach more.
        !path.is_absolute()
            || !self.settings.weaknesses.is_empty()
            || roots.iter().any(|root| path.starts_with(root))
            || OWN_FOLDERS.iter().any(|folder| path.starts_with(folder))
            || path.components().any(|part| part.as_os_str() == GIT_FOLDER)
            || opened.into_iter().any(|folder| path.starts_with(folder))
    }

    /// Fails if a file at this canonical path would be taken for the work of a command that runs now,
    /// and moved to quarantine. A file that exists is not affected.
    pub fn check_creation(&self, path: &Path) -> Result<(), ToolError> {
        check_creation(&StateDir::new(self.state.clone()), path)
    }

    /// Builds the shared state from settings and zero's state folder.
    pub fn new(settings: CommandSettings, state: &StateDir) -> Self {
        let environment =
            CommandEnvironment::scrub(&settings.environment, &settings.environment_allowed);
        let quarantine = Quarantine::new(state.child("kept"));
        let (state, watch_registry) = (state.path().to_owned(), Arc::default());
        let (secrets, registries, default_registries) = Default::default();
        Self {
            settings,
            environment,
            state,
            quarantine,
            watch_registry,
            secrets,
            registries,
            default_registries,
        }
    }

    /// Whether a host is known as one from which an installed package manager downloads by default.
    pub fn is_default_registry(&self, host: &HostName) -> bool {
        let known = self.default_registries.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().flatten().any(|known| known == host)
    }

    /// The hosts from which a package manager downloads by default. `find` looks for them, which may
    /// read all of a program; what it finds is stored.
    pub(crate) fn default_registries(
        &self,
        manager: PackageManager,
        find: impl FnOnce() -> Vec<HostName>,
    ) -> Vec<HostName> {
        let lock = || self.default_registries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hosts) = lock().get(&manager) {
            return hosts.clone();
        }
        // Without the lock, for which questions about other hosts would wait: two callers may both
        // look.
        let hosts = find();
        lock().entry(manager).or_insert(hosts).clone()
    }

    /// Variables with the registries of configuration that commands do not see, for a command in
    /// `folder`; the configuration is read once.
    pub(crate) fn registry_variables(&self, folder: &Path) -> Vec<(OsString, OsString)> {
        let home = self.settings.home.as_deref();
        let find = || home.map(package_registries::registry_variables).unwrap_or_default();
        let found = self.registries.get_or_init(find).iter();
        found
            .filter(|(name, _)| !package_registries::is_set_by_project(name, folder, home))
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// `PATH` without folders that calls can write to.
    pub fn trusted_search_path(&self, workspace: &Workspace) -> String {
        let roots = workspace.roots().map(Path::to_owned);
        let folders: Vec<PathBuf> = roots.chain(self.settings.writable.iter().cloned()).collect();
        self.environment.trusted_search_path(&folders)
    }
}
