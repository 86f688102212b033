//! What a child process may do, said as intent: which folders it may change, what it may not read,
//! whom it may reach.
//!
//! A profile names no mechanism. [`crate::probe::SandboxLayers`] says what this machine can enforce and
//! the spawner brings the two together; what cannot be enforced is an error, never
//! a silent gap, unless the profile itself lists it under [`SandboxProfile::weaknesses`].
//!
//! Both types cross a socket to the process that starts children, so both are plain data.

pub(crate) mod wire;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zero_core::CommandLimits;

/// What a child may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxProfile {
    /// Folders it may change. Ones that do not exist stay that way.
    #[serde(with = "wire::paths")]
    pub writable: Vec<PathBuf>,
    /// Paths inside them that stay as they are. Where one does not exist, an empty folder stands in
    /// for it as long as the child runs.
    #[serde(with = "wire::paths")]
    pub protected: Vec<PathBuf>,
    /// The same for files: where one does not exist, an empty file stands in for it.
    #[serde(with = "wire::paths")]
    pub protected_files: Vec<PathBuf>,
    /// Files and folders it may not read.
    #[serde(with = "wire::paths")]
    pub masked: Vec<PathBuf>,
    /// Whom it may reach.
    pub network: NetworkAccess,
    /// How much it may use.
    pub limits: ProcessLimits,
    /// The host's folder that is the child's own `/tmp` and `TMPDIR`.
    #[serde(with = "wire::path")]
    pub tmp: PathBuf,
    /// Properties that may be missing when this machine cannot enforce them.
    pub weaknesses: Vec<AcceptedWeakness>,
}

/// Whom a child may reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Nobody, not even itself over loopback.
    Nothing,
    /// Whoever is in the same network: a loopback device, where nothing of the host listens. It is
    /// its own, or one that the commands of a session share.
    Loopback,
    /// Whomever the host reaches.
    Host,
}

/// How much a child and its descendants may use.
///
/// Files and handles are limited here, by the kernel and for each process; memory, processor time
/// and the number of processes belong to the whole tree and to whoever watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimits {
    /// Memory of the whole tree.
    pub memory_bytes: u64,
    /// Processor time of the whole tree, in percent of one processor.
    pub cpu_percent: u32,
    /// Processes of the whole tree.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// The largest file a process may write.
    pub file_bytes: u64,
}

impl From<CommandLimits> for ProcessLimits {
    fn from(limits: CommandLimits) -> Self {
        Self {
            memory_bytes: limits.memory_max.get(),
            cpu_percent: u32::try_from(limits.cpu_percent_max).unwrap_or(u32::MAX),
            processes: limits.processes_max,
            open_files: limits.open_files_max,
            file_bytes: limits.file_max.get(),
        }
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        CommandLimits::default().into()
    }
}

/// Something a profile promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxProperty {
    /// Nothing changes but what lies in writable folders and the private `/tmp`.
    Writes,
    /// Modes, owners, times and attributes of files outside them stay as they are.
    Attributes,
    /// Protected paths inside writable folders stay as they are.
    Protected,
    /// Masked files and folders cannot be read.
    Masked,
    /// The network is as stated.
    Network,
    /// Services of the host that listen on unix sockets when the child starts cannot be reached;
    /// without unix sockets of its own, and in `/run` and `/tmp`, later ones neither. With unix
    /// sockets of its own it still reaches those that were moved, or bound by a relative name where nobody is any
    /// more, and those of other network namespaces.
    HostSockets,
    /// Processes outside cannot be signalled, traced, slowed down or limited, and their memory,
    /// environment and files cannot be read. Their names may be seen.
    Processes,
    /// `/tmp` is the child's own, and the host's cannot be seen.
    PrivateTmp,
    /// System calls that reach for the kernel or for other processes are refused.
    SystemCalls,
    /// No privilege is held and none can be gained.
    Privileges,
}

/// A property that may be missing, or is.
pub type AcceptedWeakness = SandboxProperty;

impl SandboxProperty {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Writes,
        Self::Attributes,
        Self::Protected,
        Self::Masked,
        Self::Network,
        Self::HostSockets,
        Self::Processes,
        Self::PrivateTmp,
        Self::SystemCalls,
        Self::Privileges,
    ];

    /// Its stable word, for settings and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Attributes => "attributes",
            Self::Protected => "protected",
            Self::Masked => "masked",
            Self::Network => "network",
            Self::HostSockets => "host_sockets",
            Self::Processes => "processes",
            Self::PrivateTmp => "private_tmp",
            Self::SystemCalls => "system_calls",
            Self::Privileges => "privileges",
        }
    }
}

impl fmt::Display for SandboxProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A command to run: what to start, where, and with which environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// A path, or a name to be found along `PATH` of `environment`.
    #[serde(with = "wire::text")]
    pub program: OsString,
    /// Its arguments, without its name.
    #[serde(with = "wire::texts")]
    pub args: Vec<OsString>,
    /// Where it starts.
    #[serde(with = "wire::path")]
    pub folder: PathBuf,
    /// All of its environment, but for `TMPDIR`, which the profile settles.
    #[serde(with = "wire::pairs")]
    pub environment: Vec<(OsString, OsString)>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn profile_with_non_utf8_paths_round_trips() {
        let odd = PathBuf::from(OsString::from_vec(b"/w\xff\n".to_vec()));
        let profile = SandboxProfile {
            writable: vec![odd.clone(), "/plain".into()],
            protected: vec![odd.clone()],
            protected_files: vec![odd.clone()],
            masked: vec![],
            network: NetworkAccess::Loopback,
            limits: ProcessLimits {
                memory_bytes: u64::MAX,
                cpu_percent: 1,
                processes: 2,
                open_files: 3,
                file_bytes: 4,
            },
            tmp: odd.clone(),
            weaknesses: vec![SandboxProperty::Protected],
        };
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<SandboxProfile>(&text).unwrap(), profile);

        let command = CommandSpec {
            program: "sh".into(),
            args: vec![odd.clone().into()],
            folder: odd.clone(),
            environment: vec![("A".into(), odd.into())],
        };
        let text = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<CommandSpec>(&text).unwrap(), command);
    }

    #[test]
    fn property_as_str_equals_wire_name() {
        for property in SandboxProperty::ALL {
            let wire = serde_json::to_string(&property).unwrap();
            assert_eq!(wire, format!("\"{property}\""));
        }
    }
}
