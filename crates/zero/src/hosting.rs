//! From a command line to a host with its tools.

use std::path::{Path, PathBuf};

use anyhow::Context;
use zero_core::ToolError;
use zero_runtime::dialect::BUILTIN;
use zero_runtime::{HostConfig, Registry, ToolHost};
use zero_sandbox::Workspace;

use crate::App;
use crate::config::Config;
use crate::exit::UsageError;

impl App {
    /// The tools that come with zero, without a host to run them.
    pub(crate) fn registry(&self) -> anyhow::Result<Registry> {
        let registry = Registry::default();
        registry.add(BUILTIN, (self.tools)()).context("the built-in tools clash")?;
        Ok(registry)
    }

    /// A host with the tools that come with zero.
    pub(crate) fn host(&self, config: HostConfig) -> anyhow::Result<ToolHost> {
        let host = ToolHost::new(config);
        host.registry().add(BUILTIN, (self.tools)()).context("the built-in tools clash")?;
        Ok(host)
    }
}

impl Config {
    /// Opens the folders named on the command line, or the current one.
    pub(crate) fn workspace(&self, folders: &[PathBuf]) -> Result<Workspace, UsageError> {
        let cwd = self.cwd()?;
        let folders = match folders {
            [] => vec![cwd.to_owned()],
            folders => folders.iter().map(|folder| cwd.join(folder)).collect(),
        };
        let home = self.home().map(Path::to_owned);
        Workspace::open(&folders, home).map_err(|error: ToolError| UsageError(error.message))
    }
}
