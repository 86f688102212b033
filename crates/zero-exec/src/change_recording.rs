//! Records what commands change in the workspace, so that `zero undo` takes it back.

use std::path::PathBuf;
use std::sync::Arc;

use zero_core::text_shortening::one_line;
use zero_core::{ByteSize, ErrorReason, ErrorType, ToolError};
use zero_policy::WriteScope;
use zero_sandbox::command_capture::{CommandCapture, JOB_LOSS};
use zero_sandbox::journal::{SetLimits, SetOrigin};
use zero_sandbox::{Journal, StateDir, Workspace};

use crate::command_settings::UndoSettings;
use crate::launcher::{CommandLauncher, LaunchAccess, PreparedLaunch};

/// Most characters of a command that are kept for the list of changes.
const COMMAND_CHARS_MAX: usize = 200;

/// Why nothing is recorded of a command outside the sandbox.
const OUTSIDE_LOSS: &str = "commands outside the sandbox are not recorded";

/// Why a trial does not run where the sandbox is not complete.
const WEAKER_LOSS: &str = "`sandbox.weaker` lets commands change what is not recorded";

/// The program whose changes are recorded.
#[derive(Clone, Debug)]
pub struct RecordedProgram<'a> {
    /// The tool that runs it, or what it is.
    pub tool: &'a str,
    /// Its command line, without secrets.
    pub command: &'a str,
}

impl CommandLauncher {
    /// Whether, and how much, its changes are recorded: all of a trial, or it does not run.
    fn undo_settings(&self) -> UndoSettings {
        match self.is_trial {
            true => UndoSettings { commands: true, is_required: true, limits: SetLimits::NONE },
            false => self.host.settings.undo,
        }
    }
}

impl PreparedLaunch {
    /// Records what the program changes in the workspace from its start to its end. What runs beside
    /// the user for long is not recorded: at its end, their changes would count as its own.
    pub fn record_changes(
        &mut self,
        launcher: &CommandLauncher,
        workspace: &Workspace,
        program: &RecordedProgram<'_>,
    ) -> Result<(), ToolError> {
        let undo = launcher.undo_settings();
        if !self.may_change(launcher) {
            return Ok(());
        }
        if self.facts.is_outside {
            self.capture = Some(CommandCapture::unrecorded(OUTSIDE_LOSS));
            return refuse_if_required(launcher, OUTSIDE_LOSS);
        }
        if launcher.is_trial && !launcher.host.settings.weaknesses.is_empty() {
            return refuse_if_required(launcher, WEAKER_LOSS);
        }
        let state = StateDir::new(PathBuf::clone(&launcher.host.state));
        let journal = Journal::new(&state, workspace.clone(), ByteSize::bytes(0));
        let origin = SetOrigin {
            tool: program.tool.to_owned(),
            call: launcher.call.to_string(),
            caller: launcher.caller.as_ref().map(ToString::to_string),
            command: one_line(program.command, COMMAND_CHARS_MAX),
            undoes: None,
        };
        let started = journal.record_command(origin, undo.limits).and_then(|recorder| {
            match undo.is_required {
                true => CommandCapture::start_required(recorder),
                false => CommandCapture::start(recorder),
            }
        });
        match started {
            Ok((capture, channel)) => {
                self.order.capture = Some(Arc::new(channel));
                self.capture = Some(capture);
            }
            Err(error) => {
                tracing::warn!(%error, "the changes of a command are not recorded");
                return refuse_if_required(launcher, &error.to_string());
            }
        }
        Ok(())
    }

    /// Says in the notes of a job that its changes are not recorded.
    pub fn note_unrecorded_job(&mut self, launcher: &CommandLauncher) -> Result<(), ToolError> {
        if !self.may_change(launcher) {
            return Ok(());
        }
        self.capture = Some(CommandCapture::unrecorded(JOB_LOSS));
        refuse_if_required(launcher, JOB_LOSS)
    }

    /// Whether the program may change something that is recorded.
    fn may_change(&self, launcher: &CommandLauncher) -> bool {
        let cannot_change = launcher.access == LaunchAccess::ReadOnly
            || launcher.judged.writes == WriteScope::Nothing;
        launcher.undo_settings().commands && (self.facts.is_outside || !cannot_change)
    }
}

/// Fails in a dry run or trial, whose changes must be recorded.
fn refuse_if_required(launcher: &CommandLauncher, why: &str) -> Result<(), ToolError> {
    if !launcher.undo_settings().is_required {
        return Ok(());
    }
    let occasion = if launcher.is_trial { "trial" } else { "dry run" };
    let message = format!(
        "it was not run: in a {occasion}, all changes must be recorded, and those of this command cannot: {why}"
    );
    Err(ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, message))
}
