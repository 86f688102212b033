//! Describes what a command may do, as intent: which folders it may change, what it may not read,
//! which network it has.
//!
//! A [`SandboxProfile`] names no mechanism. [`crate::layer_probe::SandboxLayers`] describes what
//! this machine can enforce, and [`crate::confinement`] combines the two. A property that cannot be
//! enforced is an error, never a silent gap, unless the profile lists it under
//! [`SandboxProfile::weaknesses`].
//!
//! [`SandboxProfile`] and [`CommandSpec`] are sent to the spawner process, so both are plain data.

pub(crate) mod wire;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zero_core::CommandLimits;

use crate::machine_resources;

/// What a command may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxProfile {
    /// Folders that it may change. Those that do not exist are not created.
    #[serde(with = "wire::paths")]
    pub writable: Vec<PathBuf>,
    /// Folders that other commands may change. A writable path that leads through a link in one of
    /// them is refused, because a command could have made the link.
    #[serde(with = "wire::paths")]
    pub changeable: Vec<PathBuf>,
    /// Paths inside writable folders that it must not change. If one does not exist, an empty
    /// folder takes its place while the command runs.
    #[serde(with = "wire::paths")]
    pub protected: Vec<PathBuf>,
    /// The same for files: if one does not exist, an empty file takes its place.
    #[serde(with = "wire::paths")]
    pub protected_files: Vec<PathBuf>,
    /// Files and folders that it must not read.
    #[serde(with = "wire::paths")]
    pub masked: Vec<PathBuf>,
    /// Files and folders inside masked folders that it may read after all. Those that do not exist
    /// are not created.
    #[serde(with = "wire::paths")]
    pub readable: Vec<PathBuf>,
    /// The network it can use.
    pub network: NetworkAccess,
    /// The resources it may use.
    pub limits: ProcessLimits,
    /// The folder of the host that is mounted as its `/tmp` and named by its `TMPDIR`.
    #[serde(with = "wire::path")]
    pub tmp: PathBuf,
    /// Properties that may be missing if this machine cannot enforce them.
    pub weaknesses: Vec<AcceptedWeakness>,
}

/// The network that a command can use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// None, not even loopback.
    Nothing,
    /// A loopback device on which no service of the host listens: its own, or one shared by the
    /// commands of a session.
    Loopback,
    /// The host's network.
    Host,
}

/// The resources that a command and its descendants may use.
///
/// Files and descriptors are limited per process, by the kernel. Memory, processor time and the
/// number of processes are limited for the whole process tree, by control groups or the watchdog.
/// The growth of its files on disks is monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimits {
    /// Memory of the whole process tree, in bytes.
    pub memory_bytes: u64,
    /// Processor time of the whole process tree, in percent of one processor.
    pub cpu_percent: u32,
    /// Most processes in the process tree.
    pub processes: u64,
    /// Most open files per process.
    pub open_files: u64,
    /// The largest file a process may write, in bytes.
    pub file_bytes: u64,
    /// What it may add to a disk, in bytes.
    pub disk_bytes: u64,
    /// What it may read from a disk in a second, and write to it, in bytes; `u64::MAX` if that is
    /// not limited.
    pub disk_rate: u64,
}

impl ProcessLimits {
    /// Whether processor time is limited at all. A share of all processors needs no quota, which
    /// would cost time.
    pub fn has_cpu_quota(&self) -> bool {
        u64::from(self.cpu_percent) < machine_resources::processor_count().saturating_mul(100)
    }
}

impl ProcessLimits {
    /// Whether the use of disks is limited per second.
    pub fn has_disk_rate(&self) -> bool {
        self.disk_rate < CommandLimits::ANY_RATE.get()
    }
}

impl From<CommandLimits> for ProcessLimits {
    fn from(limits: CommandLimits) -> Self {
        Self {
            memory_bytes: limits.memory_max.get(),
            cpu_percent: u32::try_from(limits.cpu_percent_max).unwrap_or(u32::MAX),
            processes: limits.processes_max,
            open_files: limits.open_files_max,
            file_bytes: limits.file_max.get(),
            disk_bytes: limits.disk_max.get(),
            disk_rate: limits.disk_rate_max.get(),
        }
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        CommandLimits::default().into()
    }
}

/// A property that a profile demands of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxProperty {
    /// The command can write only to writable folders and the private `/tmp`.
    Writes,
    /// Modes, owners, times and attributes of files elsewhere cannot be changed.
    Attributes,
    /// Protected paths inside writable folders cannot be changed.
    Protected,
    /// Masked files and folders cannot be read.
    Masked,
    /// The network is the one that the profile states.
    Network,
    /// Services of the host that listen on Unix sockets when the command starts cannot be reached.
    /// If the command has no Unix sockets, and in `/run` and `/tmp`, services that start later
    /// cannot be reached either. A command with Unix sockets can still reach sockets that were
    /// moved, sockets that were bound by a relative name in a folder that is no process's working
    /// folder any more, and those of other network namespaces.
    HostSockets,
    /// Processes outside of the sandbox cannot be signalled, traced, slowed down or limited, and
    /// their memory, environment and files cannot be read. Their names may be visible.
    Processes,
    /// The command has its own `/tmp`, and cannot see the host's.
    PrivateTmp,
    /// System calls that attack the kernel or other processes are refused.
    SystemCalls,
    /// The command has no privileges and cannot gain any.
    Privileges,
}

/// A property that the profile allows to be missing.
pub type AcceptedWeakness = SandboxProperty;

impl SandboxProperty {
    /// Every property.
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

    /// Its stable name, for settings and records.
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
    /// A path, or a name that is searched in the `PATH` of `environment`.
    #[serde(with = "wire::text")]
    pub program: OsString,
    /// The arguments, without `argv[0]`.
    #[serde(with = "wire::texts")]
    pub args: Vec<OsString>,
    /// The working folder.
    #[serde(with = "wire::path")]
    pub folder: PathBuf,
    /// The whole environment, except for `TMPDIR`, which the profile sets.
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
            changeable: Vec::new(),
            protected: vec![odd.clone()],
            protected_files: vec![odd.clone()],
            masked: vec![],
            readable: vec![odd.clone()],
            network: NetworkAccess::Loopback,
            limits: ProcessLimits {
                memory_bytes: u64::MAX,
                cpu_percent: 1,
                processes: 2,
                open_files: 3,
                file_bytes: 4,
                disk_bytes: 5,
                disk_rate: 6,
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
