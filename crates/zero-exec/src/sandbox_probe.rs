//! One harmless command, run as all others are: what this machine really enforces.

use std::time::{Duration, Instant};

use zero_core::{CommandExecution, CommandLine, ErrorReason, ToolError};
use zero_sandbox::running_command::{ConfinementReport, ExitCause, LimitsReport};
use zero_sandbox::{SandboxProperty, Workspace};

use crate::command_request::StreamMode;
use crate::launcher::CommandLauncher;

/// What runs: it does nothing, and is everywhere.
const PROBE_PROGRAM: &str = "true";
/// How long it may take.
const PROBE_TIME_MAX: Duration = Duration::from_secs(20);

/// What came of a harmless command.
#[derive(Clone, Debug)]
pub struct SandboxProbeReport {
    /// How long it took, from the order to its end.
    pub took: Duration,
    /// Which promises of confinement held for it, and which did not.
    pub confinement: ConfinementReport,
    /// What kept its limits.
    pub limits: LimitsReport,
}

/// Runs `true`, confined as a launcher confines commands, and says what held. Where something cannot
/// be enforced it runs nevertheless, so that all of it is known.
pub fn probe_sandbox(
    launcher: CommandLauncher,
    workspace: &Workspace,
) -> Result<SandboxProbeReport, ToolError> {
    let launcher = CommandLauncher { weaknesses: SandboxProperty::ALL.to_vec(), ..launcher };
    let command = CommandLine::Program(vec![PROBE_PROGRAM.to_owned()]);
    let execution = CommandExecution { command, folder: None, variables: Vec::new() };
    let ready = launcher.prepare(workspace, &execution, StreamMode::Pipes)?;
    let start = Instant::now();
    let mut running = ready.spawn(Some(PROBE_TIME_MAX))?;
    running.stdin = None;
    let ended = running.wait(PROBE_TIME_MAX).filter(|ended| ended.why == ExitCause::Finished);
    let took = start.elapsed();
    match ended.and_then(|ended| ended.exit_code) {
        Some(0) => {
            let confinement = std::mem::take(&mut running.confinement);
            Ok(SandboxProbeReport { took, confinement, limits: running.limits })
        }
        _ => Err(ToolError::failed(
            ErrorReason::Io,
            format!("`{PROBE_PROGRAM}` did not come to its end"),
        )),
    }
}
