//! [`ServiceRecording`]: records what a service changes, for each call on its own.
//!
//! Its changes between calls are one change set, of a program that runs beside the user. Calls that
//! run at the same time share a change set, because zero cannot tell which of them changed a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_core::ToolError;
use zero_sandbox::command_capture::{CaptureControl, CommandCapture, PendingOutcome};
use zero_sandbox::journal::SetOrigin;
use zero_sandbox::{ChangeOrigin, Workspace};

use crate::change_recording::{RecordedProgram, RecorderFactory};
use crate::launcher::{CommandLauncher, PreparedLaunch};
use crate::loss_note;

/// The record of a running service.
#[derive(Debug)]
pub(super) struct ServiceRecording {
    recorders: RecorderFactory,
    control: CaptureControl,
    /// The origin of what it changes between calls.
    between: SetOrigin,
    /// Number of calls in progress.
    calls: Mutex<usize>,
}

/// The record of a call, until it is dropped.
#[derive(Debug)]
pub struct CallRecording {
    recording: Option<Arc<ServiceRecording>>,
}

impl ServiceRecording {
    /// Records a service that is about to start; `None` if it cannot change anything, or settings say
    /// so.
    pub(super) fn start(
        ready: &mut PreparedLaunch,
        launcher: &CommandLauncher,
        workspace: &Workspace,
        name: &str,
    ) -> Result<Option<Arc<Self>>, ToolError> {
        let command = format!("{name}, between calls");
        let program = RecordedProgram { is_beside: true, ..RecordedProgram::new(name, &command) };
        let recorders = ready.record_service(launcher, workspace, &program)?;
        let control = ready.capture.as_ref().map(CommandCapture::control).unwrap_or_default();
        let between = SetOrigin {
            tool: name.to_owned(),
            call: launcher.call.to_string(),
            caller: None,
            command,
            undoes: None,
            is_beside: true,
        };
        Ok(recorders
            .map(|recorders| Arc::new(Self { recorders, control, between, calls: Mutex::new(0) })))
    }

    pub(super) fn begin_call(recording: &Arc<Self>, call: ChangeOrigin) -> CallRecording {
        let mut calls = recording.lock();
        if *calls == 0 {
            let ChangeOrigin { tool, call, caller } = call;
            let command = tool.clone();
            // No caller waits for the outcome of the changes before this call.
            drop(recording.continue_as(SetOrigin {
                tool,
                call,
                caller,
                command,
                undoes: None,
                is_beside: false,
            }));
        }
        *calls += 1;
        CallRecording { recording: Some(Arc::clone(recording)) }
    }

    /// The changes of the calls, if no other is in progress.
    fn end_call(&self) -> Option<PendingOutcome> {
        let mut calls = self.lock();
        *calls = calls.saturating_sub(1);
        if *calls == 0 { self.continue_as(self.between.clone()) } else { None }
    }

    fn continue_as(&self, origin: SetOrigin) -> Option<PendingOutcome> {
        match self.recorders.open(origin) {
            Ok(recorder) => self.control.continue_with(recorder),
            Err(error) => {
                tracing::warn!(%error, "the changes of a call are not recorded on their own");
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallRecording {
    /// Stores the changes of the call. Returns notes about what cannot be undone. Blocks until the
    /// changes are compared.
    pub fn finish(mut self) -> Vec<String> {
        let pending = self.recording.take().and_then(|recording| recording.end_call());
        pending.map(|pending| loss_note::describe_losses(&pending.wait())).unwrap_or_default()
    }
}

impl Drop for CallRecording {
    fn drop(&mut self) {
        if let Some(recording) = self.recording.take() {
            drop(recording.end_call());
        }
    }
}
