//! One harmless command, run as all others are: what this machine really enforces.

use std::time::{Duration, Instant};

use zero_core::{CommandLine, Execution, Reason, ToolError, ToolName};
use zero_sandbox::Property;
use zero_sandbox::running::{Confinement, LimitsReport, Why};

use super::{Launcher, Streams};
use crate::host::{ToolHost, new_call_id};

/// What runs: it does nothing, and is everywhere.
const HARMLESS: &str = "true";
/// How long it may take.
const TRIAL_MAX: Duration = Duration::from_secs(20);

/// What came of a harmless command.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How long it took, from the order to its end.
    pub took: Duration,
    /// Which promises of confinement held for it, and which did not.
    pub confinement: Confinement,
    /// What kept its limits.
    pub limits: LimitsReport,
}

impl ToolHost {
    /// Runs `true`, confined as the commands of `tool` are, and says what held. Where something
    /// cannot be enforced it runs nevertheless, so that all of it is known.
    pub fn try_command(&self, tool: &ToolName) -> Result<Trial, ToolError> {
        let session = self.one_shot()?;
        let limits = self.limits.command_of(tool);
        let launcher = Launcher {
            weaknesses: Property::ALL.to_vec(),
            ..Launcher::new(&self.commands, &session.commands, &self.policy, new_call_id(), limits)
        };
        let command = CommandLine::Program(vec![HARMLESS.to_owned()]);
        let execution = Execution { command, folder: None, variables: Vec::new() };
        let ready = launcher.ready(session.workspace(), &execution, Streams::Pipes)?;
        let start = Instant::now();
        let mut running = ready.spawn(Some(TRIAL_MAX))?;
        running.stdin = None;
        let ended = running.wait(TRIAL_MAX).filter(|ended| ended.why == Why::Finished);
        let took = start.elapsed();
        match ended.and_then(|ended| ended.exit_code) {
            Some(0) => {
                let confinement = std::mem::take(&mut running.confinement);
                Ok(Trial { took, confinement, limits: running.limits })
            }
            _ => {
                Err(ToolError::failed(Reason::Io, format!("`{HARMLESS}` did not come to its end")))
            }
        }
    }
}
