//! One harmless command, run as all others are: what this machine really enforces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zero_core::{Reason, ToolError, ToolName};
use zero_sandbox::running::{Confinement, LimitsReport, Why};
use zero_sandbox::warden::{Order, Stdio, Warden};
use zero_sandbox::{CommandSpec, Property, child};

use super::{CallCommands, failure, profile};
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
        if !child::can_be_helper() {
            let message = "this program cannot start commands: it does not begin as zero does";
            return Err(ToolError::failed(Reason::Io, message));
        }
        let session = self.one_shot()?;
        let commands = CallCommands {
            host: Arc::clone(&self.commands),
            session: Arc::clone(&session.commands),
            judged: Arc::new([]),
            call: new_call_id(),
            hosts: Arc::new([]),
            policy: Arc::clone(&self.policy),
            spill: session.spill().clone(),
            tool: tool.clone(),
            limits: self.limits.command_of(tool),
        };
        commands.session.make_tmp().map_err(|error| failure::no_tmp(&error))?;
        let tmp = &commands.session.tmp;
        let given = commands.session.network.give(&commands.call, &[], &Property::ALL)?;
        let (mut profile, _) = profile::profile_for(&commands, session.workspace(), given.network)?;
        profile.weaknesses = Property::ALL.to_vec();
        let order = Order {
            command: CommandSpec {
                program: HARMLESS.into(),
                args: Vec::new(),
                folder: session.workspace().cwd().to_owned(),
                environment: commands.host.environment.with(
                    given.variables,
                    &[],
                    super::Streams::Pipes,
                    tmp.path(),
                ),
            },
            profile,
            stdio: Stdio::Pipes,
            timeout: Some(TRIAL_MAX),
            net: given.net,
        };
        let warden = Warden::shared().map_err(|error| failure::no_warden(&error))?;
        let start = Instant::now();
        let mut running = warden.spawn(order).map_err(|error| failure::of_start(&error))?;
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
