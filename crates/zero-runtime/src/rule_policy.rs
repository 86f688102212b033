//! The judge of a host with rules.

mod denied_files;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use zero_policy::{Decision, Engine, Permit, Reach, Refusal, Request};
use zero_sandbox::{Workspace, survey};

use crate::machine::Machine;
use crate::policy::{DeniedFiles, Policy, PolicyRequest};

/// The tool that runs commands.
const COMMANDS: &str = "Bash";

/// Judges by rules, mode and risk, on this machine.
#[derive(Debug)]
pub struct RulePolicy {
    engine: Engine,
    /// Folders in which programs are found.
    search_path: Vec<PathBuf>,
}

impl RulePolicy {
    /// The judge with this engine, on a machine with this `PATH`.
    pub fn new(engine: Engine, search_path: Vec<PathBuf>) -> Self {
        Self { engine, search_path }
    }
}

impl Policy for RulePolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> Decision {
        self.engine.decide(Request {
            tool: request.spec.name.as_str(),
            risk: request.spec.risk,
            effects: request.effects,
            grants: request.grants,
            world: &Machine::new(&self.search_path),
        })
    }

    fn may_read(&self, tool: &str, written: &Path, canonical: &Path) -> bool {
        self.engine.may_read(tool, written, canonical)
    }

    fn filters_reads(&self) -> bool {
        self.engine.filters_reads()
    }

    fn denied_files(&self, workspace: &Workspace, most: usize) -> DeniedFiles {
        if !self.filters_reads() {
            return DeniedFiles::All(Vec::new());
        }
        let roots = workspace.roots().map(Path::to_owned);
        let starts: Vec<PathBuf> = roots.chain(self.engine.denied_starts()).collect();
        denied_files::find(starts, most, &|path| {
            self.may_read(COMMANDS, path, &survey::canonical(path).unwrap_or_else(|| path.into()))
        })
    }
    fn may_reach(&self, reach: Reach<'_>) -> Result<Permit, Refusal> {
        self.engine.may_reach(reach)
    }

    fn may_pin(&self, address: IpAddr, inside: Option<&'static str>) -> Result<(), Refusal> {
        self.engine.may_pin(address, inside)
    }
}
