//! What settings say about all commands of a host.

use std::path::PathBuf;

use zero_policy::HostPattern;
use zero_sandbox::AcceptedWeakness;

/// What holds for every command of a host.
#[derive(Clone, Debug, Default)]
pub struct CommandSettings {
    /// Whom it may reach, beside the hosts that rules allow.
    pub network: CommandNetwork,
    /// Folders that it may change, beside those of the workspace.
    pub writable: Vec<PathBuf>,
    /// Properties of its confinement that may be missing on a machine that cannot enforce them.
    pub weaknesses: Vec<AcceptedWeakness>,
    /// What becomes of one that takes longer than it may.
    pub on_timeout: TimeoutAction,
    /// What it may not read, beside what the host knows to be secret.
    pub masked: Vec<PathBuf>,
    /// What it may not change in the workspace, beside what the host knows to run code later.
    pub protected: Vec<PathBuf>,
    /// Folders of zero's own, beside that of its state: it may neither read nor make or change them.
    pub own: Vec<PathBuf>,
    /// The home folder, whose secrets are masked.
    pub home: Option<PathBuf>,
    /// The environment of this process, from which that of commands is picked.
    pub environment: Vec<(String, String)>,
    /// Names of further variables that commands get; one that ends in `*` stands for many, though
    /// not for those that look like secrets.
    pub environment_allowed: Vec<String>,
}

/// What becomes of a command that takes longer than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It is killed, with all that came of it.
    #[default]
    Kill,
    /// It goes on as a job of its session. Without a session it is killed.
    Job,
}

/// Whom commands may reach, beside the hosts that rules allow. Nobody, unless somebody says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandNetwork {
    /// Hosts, with their ports where these are not those of the web.
    pub hosts: Vec<HostPattern>,
    /// Whether they may reach servers that other commands of the same session started.
    pub localhost: bool,
}
