//! Records what commands change in the workspace, so that `zero undo` takes it back.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use zero_core::text_shortening::one_line;
use zero_core::{ByteSize, ErrorReason, ErrorType, ToolError};
use zero_policy::WriteScope;
use zero_sandbox::command_capture::CommandCapture;
use zero_sandbox::journal::{ChangeRecorder, SetLimits, SetOrigin};
use zero_sandbox::{Journal, StateDir, Workspace};

use crate::command_settings::UndoSettings;
use crate::launcher::{CommandLauncher, LaunchAccess, PreparedLaunch};

/// Most characters of a command that are kept for the list of changes.
const COMMAND_CHARS_MAX: usize = 200;

/// Why nothing is recorded of a command outside the sandbox.
const OUTSIDE_LOSS: &str = "commands outside the sandbox are not recorded";

/// Why a trial does not run where the sandbox is not complete.
const WEAKER_LOSS: &str = "`sandbox.weaker` lets commands change what is not recorded";

/// Why a job does not run where its changes are discarded.
const JOB_LOSS: &str = "it goes on after they are shown";

/// The program whose changes are recorded.
#[derive(Clone, Debug)]
pub struct RecordedProgram<'a> {
    /// The tool that runs it, or what it is.
    pub tool: &'a str,
    /// Its command line, without secrets.
    pub command: &'a str,
    /// Whether it runs beside the user, such as a job.
    pub is_beside: bool,
}

impl<'a> RecordedProgram<'a> {
    /// A program that its caller waits for.
    pub fn new(tool: &'a str, command: &'a str) -> Self {
        Self { tool, command, is_beside: false }
    }
}

/// A source of recorders for the changes in a workspace.
#[derive(Clone, Debug)]
pub(crate) struct RecorderFactory {
    journal: Journal,
    limits: SetLimits,
}

impl RecorderFactory {
    /// Begins to record the changes of a program. Nothing is stored before the first change.
    pub(crate) fn open(&self, origin: SetOrigin) -> io::Result<ChangeRecorder> {
        let command = one_line(&origin.command, COMMAND_CHARS_MAX);
        self.journal.record_command(SetOrigin { command, ..origin }, self.limits)
    }
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
    /// Records what the program changes in the workspace from its start to its end.
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
        if program.is_beside {
            refuse_if_required(launcher, JOB_LOSS)?;
        }
        self.start_capture(launcher, workspace, program, undo).map(drop)
    }

    /// The same for a service, whose record continues with each call. `None` if nothing is recorded.
    pub(crate) fn record_service(
        &mut self,
        launcher: &CommandLauncher,
        workspace: &Workspace,
        program: &RecordedProgram<'_>,
    ) -> Result<Option<RecorderFactory>, ToolError> {
        if !self.may_change(launcher) {
            return Ok(None);
        }
        self.start_capture(launcher, workspace, program, launcher.undo_settings())
    }

    fn start_capture(
        &mut self,
        launcher: &CommandLauncher,
        workspace: &Workspace,
        program: &RecordedProgram<'_>,
        undo: UndoSettings,
    ) -> Result<Option<RecorderFactory>, ToolError> {
        if self.facts.is_outside {
            self.capture = Some(CommandCapture::unrecorded(OUTSIDE_LOSS));
            return refuse_if_required(launcher, OUTSIDE_LOSS).map(|()| None);
        }
        if launcher.is_trial && !launcher.host.settings.weaknesses.is_empty() {
            return refuse_if_required(launcher, WEAKER_LOSS).map(|()| None);
        }
        let state = StateDir::new(PathBuf::clone(&launcher.host.state));
        let journal = Journal::new(&state, workspace.clone(), ByteSize::bytes(0));
        let recorders = RecorderFactory { journal, limits: undo.limits };
        let origin = SetOrigin {
            tool: program.tool.to_owned(),
            call: launcher.call.to_string(),
            caller: launcher.caller.as_ref().map(ToString::to_string),
            command: program.command.to_owned(),
            undoes: None,
            is_beside: program.is_beside,
        };
        let started = recorders.open(origin).and_then(|recorder| match undo.is_required {
            true => CommandCapture::start_required(recorder),
            false => CommandCapture::start(recorder),
        });
        match started {
            Ok((capture, channel)) => {
                self.order.capture = Some(Arc::new(channel));
                self.capture = Some(capture);
                Ok(Some(recorders))
            }
            Err(error) => {
                tracing::warn!(%error, "the changes of a command are not recorded");
                refuse_if_required(launcher, &error.to_string()).map(|()| None)
            }
        }
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
