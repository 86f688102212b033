//! What the commands of a host have in common.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use zero_sandbox::quarantine::Quarantine;
use zero_sandbox::{StateDir, Workspace};

use crate::command_settings::CommandSettings;
use crate::environment::CommandEnvironment;
use crate::profile::secret_paths::SecretPaths;
use crate::tree_watch::WatchRegistry;

/// What the commands of a host have in common.
pub struct HostCommands {
    /// What settings say about them.
    pub settings: CommandSettings,
    pub(crate) environment: CommandEnvironment,
    /// zero's own folder, which no command reads.
    pub(crate) state: PathBuf,
    /// Where what commands may not make is kept.
    pub(crate) kept: Quarantine,
    /// What commands that run now may not make.
    pub(crate) live: Arc<WatchRegistry>,
    /// Where secrets lie for whoever works in a folder, the last that was asked for.
    pub(crate) secrets: Mutex<Option<(PathBuf, Arc<SecretPaths>)>>,
}

impl HostCommands {
    /// What they have in common by these settings, with zero's own folder at `state`.
    pub fn new(settings: CommandSettings, state: &StateDir) -> Self {
        let environment =
            CommandEnvironment::scrub(&settings.environment, &settings.environment_allowed);
        let kept = Quarantine::new(state.child("kept"));
        let (state, live) = (state.path().to_owned(), Arc::default());
        Self { settings, environment, state, kept, live, secrets: Mutex::default() }
    }

    /// `PATH` without what calls can write to.
    pub fn trusted_search_path(&self, workspace: &Workspace) -> String {
        let roots = workspace.roots().map(Path::to_owned);
        let folders: Vec<PathBuf> = roots.chain(self.settings.writable.iter().cloned()).collect();
        self.environment.trusted_search_path(&folders)
    }
}
