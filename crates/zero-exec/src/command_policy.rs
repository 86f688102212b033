//! What a started program may reach, as decided by whoever starts it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use zero_policy::{ConnectDeniedError, ConnectPermission, ConnectRequest, GrantScope};
use zero_sandbox::Workspace;

/// Decides what a program that runs may change, read and connect to. Every answer that is not
/// overridden is the strictest one.
pub trait CommandPolicy: Send + Sync {
    /// Whether commands may change a path that is protected otherwise, because a person wrote a rule
    /// for it.
    fn may_change(&self, _canonical: &Path) -> bool {
        false
    }

    /// The files and folders that commands must not be able to read, because a rule denies it.
    fn denied_files(&self, _workspace: &Workspace, _most: usize) -> DeniedFiles {
        DeniedFiles::All(Vec::new())
    }

    /// Whether a confined command may connect to a host, where nobody can be asked.
    fn authorize_host(
        &self,
        _reach: ConnectRequest<'_>,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        Err(ConnectDeniedError::NoRule)
    }

    /// Whether [`CommandPolicy::authorize_host`] can say yes to anything, with these grants and no
    /// hosts that settings list; lets commands go without a network where it cannot.
    fn can_allow_any_host(&self, _grants: &[GrantScope]) -> bool {
        false
    }

    /// Whether it may use an address that such a host turned out to have. `inside` says what is
    /// there when it is not one of the open internet.
    fn authorize_address(
        &self,
        _address: IpAddr,
        _inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        Err(ConnectDeniedError::NoRule)
    }
}

/// What a rule denies commands to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedFiles {
    /// All of it, by canonical paths; a folder stands for what is in it.
    All(Vec<PathBuf>),
    /// There is more than was asked for, or it could not be found out in time.
    TooMany {
        /// How many rules say so.
        rules: usize,
    },
}

/// Opens nothing and hides nothing.
#[cfg(test)]
pub(crate) struct ClosedPolicy;

#[cfg(test)]
impl CommandPolicy for ClosedPolicy {}
