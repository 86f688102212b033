//! Runs one harmless command like all others, to find out what this machine enforces.

use std::time::{Duration, Instant};

use zero_core::{CommandExecution, CommandLine, ErrorReason, ToolError};
use zero_sandbox::running_command::{ConfinementReport, ExitCause, LimitsReport};
use zero_sandbox::{SandboxProperty, Workspace};

use crate::command_request::StreamMode;
use crate::launcher::CommandLauncher;

/// The probe: it does nothing, and every system has it.
const PROBE_PROGRAM: &str = "true";
/// Time limit of the probe.
const PROBE_TIME_MAX: Duration = Duration::from_secs(20);

/// The result of the probe.
#[derive(Clone, Debug)]
pub struct SandboxProbeReport {
    /// Time from the request to the end of the command.
    pub duration: Duration,
    /// Which sandbox properties were enforced, and which were not.
    pub confinement: ConfinementReport,
    /// What enforced its limits.
    pub limits: LimitsReport,
}

/// Runs `true`, confined as the launcher confines commands, and reports what was enforced. It runs
/// even if a property cannot be enforced, so that the report is complete.
pub fn probe_sandbox(
    launcher: CommandLauncher,
    workspace: &Workspace,
) -> Result<SandboxProbeReport, ToolError> {
    let launcher = CommandLauncher { weaknesses: SandboxProperty::ALL.to_vec(), ..launcher };
    let command = CommandLine::Program(vec![PROBE_PROGRAM.to_owned()]);
    let execution = CommandExecution::new(command);
    let ready = launcher.prepare(workspace, &execution, StreamMode::Pipes)?;
    let start = Instant::now();
    let mut running = ready.spawn(Some(PROBE_TIME_MAX))?;
    running.stdin = None;
    let exit =
        running.wait(PROBE_TIME_MAX).filter(|command_exit| command_exit.why == ExitCause::Finished);
    let duration = start.elapsed();
    match exit.and_then(|ended| ended.exit_code) {
        Some(0) => {
            let confinement = std::mem::take(&mut running.confinement);
            Ok(SandboxProbeReport { duration, confinement, limits: running.limits })
        }
        _ => Err(ToolError::failed(ErrorReason::Io, format!("`{PROBE_PROGRAM}` did not finish"))),
    }
}
