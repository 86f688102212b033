//! What the warden needs of confinement, and nothing of it: commands run unconfined.
//!
//! The seam: this is the only file that says what these names are.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};

/// What a command may use at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Memory of the whole tree, in bytes.
    pub memory_bytes: u64,
    /// Processor time of the whole tree, in percent of one core.
    pub cpu_percent: u32,
    /// Processes of the whole tree.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Size of one file, in bytes.
    pub file_bytes: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 500 * 1024 * 1024,
            cpu_percent: 50,
            processes: 512,
            open_files: 1024,
            file_bytes: 10 * 1024 * 1024 * 1024,
        }
    }
}

/// What a command may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What it may use at most.
    pub limits: ProcessLimits,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Its program: a path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// What comes after the name of the program.
    pub args: Vec<OsString>,
    /// Where it starts.
    pub folder: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// What can be enforced here.
#[derive(Debug)]
pub(crate) struct Layers;

impl Layers {
    pub(crate) fn probe() -> Self {
        Self
    }
}

/// A command that is ready to be executed.
pub(crate) struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    limits: ProcessLimits,
}

impl Prepared {
    pub(crate) fn new(
        profile: &Profile,
        _layers: &Layers,
        command: &CommandSpec,
    ) -> Result<Self, Infallible> {
        let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        let program = text(command.program.as_bytes());
        let args = command.args.iter().map(|arg| text(arg.as_bytes()));
        let envp = command
            .environment
            .iter()
            .map(|(name, value)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        Ok(Self {
            argv: std::iter::once(program.clone()).chain(args).collect(),
            envp: envp.collect(),
            program,
            limits: profile.limits.clone(),
        })
    }

    pub(crate) fn program(&self) -> &CString {
        &self.program
    }

    pub(crate) fn argv(&self) -> &[CString] {
        &self.argv
    }

    pub(crate) fn envp(&self) -> &[CString] {
        &self.envp
    }

    pub(crate) fn kept_fds(&self) -> &[RawFd] {
        &[]
    }

    /// # Safety
    /// To be called in the forked child, between `fork` and `execve`.
    #[expect(unsafe_code, reason = "the interface of confinement")]
    pub(crate) unsafe fn restrict_self(&self) -> Result<(), Errno> {
        let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(Resource::Nofile, both(self.limits.open_files))?;
        rustix::process::setrlimit(Resource::Fsize, both(self.limits.file_bytes))?;
        rustix::process::setrlimit(Resource::Core, both(0))
    }

    pub(crate) fn cleanup(&mut self) {}
}
