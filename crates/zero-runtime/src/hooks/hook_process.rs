//! Runs a hook in a sandbox, with bounded time and output, and leaves no process behind.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Semaphore;
use zero_core::{
    CallId, CommandExecution, CommandLimits, CommandLine, ErrorReason, ToolError, ansi_filter,
};
use zero_exec::jobs::{CommandInput, MonitorOptions, MonitoredCommand, UnreadRetention};
use zero_exec::{
    CommandLauncher, HostCommands, LaunchAccess, RecordedProgram, SessionCommands, StreamMode,
    WatchReport,
};
use zero_policy::{PermissionMode, Verdict, WriteScope};
use zero_sandbox::Workspace;
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector};
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::HookAttempt;
use super::hook::Hook;
use super::hook_answer::{self, HookOutput};
use super::hook_files::HookFileReader;
use super::time_budget::HookTimeBudget;
use crate::configured_command::{decide_configured_command, denial_error};
use crate::policy::Policy;
use crate::tool_host::ToolHost;

/// Most bytes of an answer, and of standard error.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long the end of a killed hook is waited for.
const END_MAX: Duration = Duration::from_secs(10);

/// Why a hook has no answer.
#[derive(Debug)]
pub(super) enum HookError {
    /// The call was cancelled.
    Cancelled,
    /// It failed, with the reason for its author.
    Failed(String),
}

impl ToolHost {
    /// Runs a hook when a slot is free and while the call's hook budget lasts.
    pub(super) async fn run_hook(
        &self,
        turns: &Semaphore,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        input: &Value,
        time: &mut HookTimeBudget,
    ) -> Result<HookOutput, HookError> {
        let started_at = Instant::now();
        let words = self.run_with_budget(turns, attempt, hook, input, *time).await;
        time.spend(started_at.elapsed());
        words
    }

    async fn run_with_budget(
        &self,
        turns: &Semaphore,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        input: &Value,
        mut time: HookTimeBudget,
    ) -> Result<HookOutput, HookError> {
        let HookAttempt { session, call, cancel, .. } = attempt;
        let Some(place) = &session.hook_commands else {
            return Err(HookError::Failed("its session cannot run hooks".to_owned()));
        };
        let waited = Instant::now();
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(HookError::Cancelled),
            turn = turns.acquire() => turn,
            () = tokio::time::sleep(time.remaining()) => return Err(hook_failure(&HookTimeBudget::not_run_reason())),
        };
        time.spend(waited.elapsed());
        let most = time.time_for(hook).map_err(HookError::Failed)?;
        let _turn = turn.map_err(|_| HookError::Failed("zero is shutting down".to_owned()))?;
        let launch = HookLaunch {
            commands: Arc::clone(&self.commands),
            place: Arc::clone(place),
            policy: Arc::clone(&self.policy),
            workspace: self.workspace.clone(),
            limits: self.limits.command_limits(),
            mode: session.mode(),
            call: call.id.clone(),
            caller: session.observer.as_ref().and_then(|observer| observer.caller_id(&call.id)),
            hook: Arc::clone(hook),
            input: input.to_string().into_bytes(),
        };
        let started = tokio::task::spawn_blocking(move || launch.start());
        let started = started.await.map_err(|_| hook_failure("zero is shutting down"))?;
        let HookProcess(watched) = &started.map_err(|error| hook_failure(&error.message))?;
        let (is_late, is_cancelled) = tokio::select! {
            biased;
            () = cancel.cancelled() => (false, true),
            () = watched.wait_ended() => (false, false),
            () = tokio::time::sleep(most) => (true, false),
        };
        if is_late || is_cancelled {
            watched.kill();
            // No process of the hook may be left when the call continues.
            let _ = tokio::time::timeout(END_MAX, watched.wait_ended()).await;
        }
        match (is_late, is_cancelled) {
            (_, true) => Err(HookError::Cancelled),
            (true, _) => Err(hook_failure(&time.timeout_reason(hook))),
            _ => read_output(watched.take_collected(), &watched.watch_report())
                .map_err(HookError::Failed),
        }
    }
}

fn hook_failure(why: &str) -> HookError {
    HookError::Failed(why.to_owned())
}

/// What is needed to start a hook.
struct HookLaunch {
    commands: Arc<HostCommands>,
    place: Arc<SessionCommands>,
    policy: Arc<dyn Policy>,
    workspace: Workspace,
    limits: CommandLimits,
    mode: Option<PermissionMode>,
    call: CallId,
    /// The id by which the session knows the call.
    caller: Option<CallId>,
    hook: Arc<Hook>,
    input: Vec<u8>,
}

/// A running hook. Dropping it kills the hook.
struct HookProcess(Arc<MonitoredCommand>);

impl Drop for HookProcess {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl HookLaunch {
    /// Starts the hook. Blocks until its sandbox is built.
    fn start(self) -> Result<HookProcess, ToolError> {
        let command = CommandLine::Program(self.hook.words.clone());
        let mut execution = CommandExecution::new(command);
        self.check_policy(&execution)?;
        self.check_files_unchanged()?;
        // The hook's own programs must not be found in folders that calls can write to.
        execution
            .variables
            .push(("PATH".to_owned(), self.commands.trusted_search_path(&self.workspace)));
        let launcher = CommandLauncher::new(
            &self.commands,
            &self.place,
            self.policy.clone(),
            self.call,
            self.limits,
        );
        let launcher = CommandLauncher { caller: self.caller, ..launcher }
            .with_access(self.hook.access, Vec::new())
            .with_configured_program(&self.workspace, &execution);
        let mut ready = launcher.prepare(&self.workspace, &execution, StreamMode::Pipes)?;
        let command = execution.to_string();
        let program = RecordedProgram::new("hook", &command);
        ready.record_changes(&launcher, &self.workspace, &program)?;
        let running = ready.spawn_single()?;
        let watching = MonitorOptions {
            collector: OutputCollector {
                head_bytes: ANSWER_BYTES_MAX,
                tail_bytes: 0,
                ..OutputCollector::default()
            },
            unread: UnreadRetention::No,
            input: CommandInput::Bytes(self.input),
            output_sink: Box::new(|_, _| {}),
            permit: None,
            watch: ready.watch,
            capture: ready.capture,
            network: ready.network,
            writes: WriteScope::default(),
            hidden: ready.hidden,
            facts: ready.facts,
            draft: None,
        };
        let watched = MonitoredCommand::start(running, watching).map_err(|error| {
            ToolError::failed(ErrorReason::Io, format!("could not supervise it: {error}"))
        })?;
        self.place.add(&watched);
        Ok(HookProcess(watched))
    }

    /// Refuses to run if the hook's files are not the approved ones.
    fn check_files_unchanged(&self) -> Result<(), ToolError> {
        let mut look = HookFileReader::new(&self.workspace);
        match look.find_changed(&self.hook.words, &self.hook.files) {
            None => Ok(()),
            Some(path) => {
                let message = format!(
                    "`{}`, which it uses, changed since this hook was approved, or was not part of the approval; review it, run `zero trust` if it belongs to the project, and start a new session; keep scripts in the workspace's first folder, or outside of the workspace",
                    path.display()
                );
                Err(ToolError::failed(ErrorReason::StaleFile, message))
            }
        }
    }

    /// Refuses a hook that a rule for commands denies. Its setting counts as approval.
    fn check_policy(&self, execution: &CommandExecution) -> Result<(), ToolError> {
        let mode = match self.hook.access {
            // A read-only hook changes nothing, whatever the mode.
            LaunchAccess::ReadOnly => Some(PermissionMode::Ask),
            LaunchAccess::AsCommands => self.mode,
        };
        let decision = decide_configured_command(&*self.policy, &self.workspace, execution, mode)?;
        match decision.verdict {
            Verdict::Deny => Err(denial_error("run it", &decision)),
            Verdict::Allow | Verdict::Ask => Ok(()),
        }
    }
}

/// The output of a hook that ended by itself; the error says why it failed.
fn read_output(
    collected: Option<io::Result<(CollectedOutput, CommandExit)>>,
    watch_report: &WatchReport,
) -> Result<HookOutput, String> {
    let (output, ended) = match collected {
        Some(Ok(collected)) => collected,
        Some(Err(error)) => return Err(format!("could not read its output: {error}")),
        None => return Err("its exit status is unknown".to_owned()),
    };
    let stderr = ansi_filter::strip(output.stderr.head());
    let exit_code = match (ended.why, ended.exit_code, ended.signal) {
        (ExitCause::Finished, Some(code), _) => code,
        (ExitCause::Finished, None, Some(signal)) => {
            return Err(format!(
                "it was killed by signal {signal}{}",
                hook_answer::format_stderr(&stderr)
            ));
        }
        (ExitCause::MemoryLimit { .. }, ..) => {
            return Err("it exceeded its memory limit".to_owned());
        }
        (ExitCause::ProcessLimit { .. }, ..) => {
            return Err("it exceeded its process limit".to_owned());
        }
        _ => return Err("it was killed".to_owned()),
    };
    if let Some(quarantined) = watch_report.quarantined.first() {
        return Err(format!(
            "it created `{}`, which is {} and which hooks may not create; it is now in `{}`",
            quarantined.path.display(),
            quarantined.why,
            quarantined.kept_at.display()
        ));
    }
    if output.stdout.omitted_bytes() > 0 {
        return Err(format!(
            "it printed more than {} kB; write messages to stderr instead",
            ANSWER_BYTES_MAX / 1024
        ));
    }
    Ok(HookOutput { exit_code, stdout: output.stdout.head().to_vec(), stderr })
}
