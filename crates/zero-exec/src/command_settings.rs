//! The settings that apply to every command of a host.

use std::path::PathBuf;
use std::time::Duration;

use zero_core::ByteSize;
use zero_policy::HostPattern;
use zero_sandbox::AcceptedWeakness;
use zero_sandbox::journal::SetLimits;

use crate::package_caches::CACHE_BYTES_MAX;

/// The settings that apply to every command of a host.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// Hosts that commands may connect to, in addition to those that rules allow.
    pub network: CommandNetwork,
    /// Folders that commands may change, in addition to the workspace.
    pub writable: Vec<PathBuf>,
    /// Sandbox properties that may be missing on a machine that cannot enforce them.
    pub weaknesses: Vec<AcceptedWeakness>,
    /// Whether, and how much, the changes of commands are kept for undo.
    pub undo: UndoSettings,
    /// What happens to a command that exceeds its timeout.
    pub on_timeout: TimeoutAction,
    /// Whether the user can be asked to run a command outside the sandbox.
    pub outside: OutsideUse,
    /// Files and folders of the home folder that commands may read, in addition to what builds need.
    pub readable: Vec<PathBuf>,
    /// Paths that commands may not read, in addition to the known secrets of the host.
    pub masked: Vec<PathBuf>,
    /// Workspace paths that commands may not change, in addition to the known settings that run
    /// code.
    pub protected: Vec<PathBuf>,
    /// zero's own folders, in addition to its state folder: commands may not read, create or change
    /// them.
    pub own: Vec<PathBuf>,
    /// The user's home folder, which is hidden from commands except for what builds need.
    pub home: Option<PathBuf>,
    /// The environment of this process, from which the environment of commands is selected.
    pub environment: Vec<(String, String)>,
    /// Further variables that commands get. A name that ends in `*` is a prefix; a prefix does not
    /// match variables that look like secrets.
    pub environment_allowed: Vec<String>,
    /// Size in bytes of the caches of package managers above which the least recently used ones are
    /// removed.
    pub package_cache_bytes_max: u64,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            network: CommandNetwork::default(),
            writable: Vec::new(),
            weaknesses: Vec::new(),
            on_timeout: TimeoutAction::default(),
            outside: OutsideUse::default(),
            readable: Vec::new(),
            masked: Vec::new(),
            protected: Vec::new(),
            own: Vec::new(),
            home: None,
            environment: Vec::new(),
            environment_allowed: Vec::new(),
            package_cache_bytes_max: CACHE_BYTES_MAX,
            undo: UndoSettings::default(),
        }
    }
}

/// What happens to a command that exceeds its timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// The whole process tree is killed.
    #[default]
    Kill,
    /// It continues as a job of its session. Without a session it is killed.
    Job,
}

/// Whether the user can be asked to run a command outside the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideUse {
    /// They can, for a command that failed because of the sandbox.
    #[default]
    Ask,
    /// No command runs outside.
    Never,
}

/// Hosts that commands may connect to, in addition to those that rules allow. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandNetwork {
    /// Allowed hosts. A pattern without a port allows the web ports.
    pub hosts: Vec<HostPattern>,
}

/// Whether, and how much, the changes of commands are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoSettings {
    /// Whether the changes of commands are recorded. The settings of a user do so by default; a host
    /// without settings has to ask for it.
    pub commands: bool,
    /// Whether a program runs only if its changes can be recorded.
    pub is_required: bool,
    /// How much is kept in each workspace.
    pub limits: SetLimits,
}

impl Default for UndoSettings {
    fn default() -> Self {
        let (bytes_max, days) = (ByteSize::megabytes(2_000), 30);
        let age_max = Some(Duration::from_secs(days * 24 * 60 * 60));
        Self { commands: false, is_required: false, limits: SetLimits { bytes_max, age_max } }
    }
}
