//! Runs a hook: confined, in bounded time and with bounded output, and leaves no process behind.

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
    CommandLauncher, HostCommands, LaunchAccess, SessionCommands, StreamMode, WatchReport,
};
use zero_policy::{PermissionMode, Verdict};
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

/// Bytes of an answer, and of error output.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long the end of one that was killed is waited for.
const END_MAX: Duration = Duration::from_secs(10);

/// Why a hook has no answer.
#[derive(Debug)]
pub(super) enum HookError {
    /// The call is not wanted any more.
    Cancelled,
    /// It failed: why, for whoever wrote it.
    Failed(String),
}

impl ToolHost {
    /// Runs a hook to its end, when it is its turn and while the call's hooks have time.
    pub(super) async fn run_hook(
        &self,
        turns: &Semaphore,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        told: &Value,
        time: &mut HookTimeBudget,
    ) -> Result<HookOutput, HookError> {
        let began = Instant::now();
        let words = self.run_with_budget(turns, attempt, hook, told, *time).await;
        time.spend(began.elapsed());
        words
    }

    async fn run_with_budget(
        &self,
        turns: &Semaphore,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        told: &Value,
        mut time: HookTimeBudget,
    ) -> Result<HookOutput, HookError> {
        let HookAttempt { session, call, cancel, .. } = attempt;
        let Some(place) = &session.hook_commands else {
            return Err(HookError::Failed("its session has no place for hooks".to_owned()));
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
            limits: self.limits.command,
            mode: session.mode(),
            call: call.id.clone(),
            hook: Arc::clone(hook),
            told: told.to_string().into_bytes(),
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
            // Nothing of it may touch anything when the call goes on.
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

/// What it takes to start a hook.
struct HookLaunch {
    commands: Arc<HostCommands>,
    place: Arc<SessionCommands>,
    policy: Arc<dyn Policy>,
    workspace: Workspace,
    limits: CommandLimits,
    mode: Option<PermissionMode>,
    call: CallId,
    hook: Arc<Hook>,
    told: Vec<u8>,
}

/// A hook that runs. When nobody waits for it any more, it is killed.
struct HookProcess(Arc<MonitoredCommand>);

impl Drop for HookProcess {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl HookLaunch {
    /// Blocks for as long as its walls take to be put up.
    fn start(self) -> Result<HookProcess, ToolError> {
        let command = CommandLine::Program(self.hook.words.clone());
        let mut execution = CommandExecution { command, folder: None, variables: Vec::new() };
        self.check_policy(&execution)?;
        self.check_files_unchanged()?;
        // What it runs by name is nothing that a call could have put there.
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
        let launcher = launcher.with_access(self.hook.access, Vec::new());
        let ready = launcher.prepare(&self.workspace, &execution, StreamMode::Pipes)?;
        let running = ready.spawn_single()?;
        let watching = MonitorOptions {
            collector: OutputCollector {
                head_bytes: ANSWER_BYTES_MAX,
                tail_bytes: 0,
                ..OutputCollector::default()
            },
            unread: UnreadRetention::No,
            input: CommandInput::Bytes(self.told),
            news: Box::new(|_, _| {}),
            permit: None,
            watch: ready.watch,
            network: ready.network,
        };
        let watched = MonitoredCommand::start(running, watching).map_err(|error| {
            ToolError::failed(ErrorReason::Io, format!("it cannot be watched: {error}"))
        })?;
        self.place.add(&watched);
        Ok(HookProcess(watched))
    }

    /// Refuses to run another file than the one that was looked at.
    fn check_files_unchanged(&self) -> Result<(), ToolError> {
        let mut look = HookFileReader::new(&self.workspace);
        match look.find_changed(&self.hook.words, &self.hook.files) {
            None => Ok(()),
            Some(path) => {
                let message = format!(
                    "`{}`, which it names, is not what it was when this hook was let run, or was not looked at then; look at it, `zero trust` it if it is the project's, and begin a new session; keep scripts in the workspace's first folder, or outside of it",
                    path.display()
                );
                Err(ToolError::failed(ErrorReason::StaleFile, message))
            }
        }
    }

    /// Refuses what a rule for commands denies. That settings name it is as good as being asked.
    fn check_policy(&self, execution: &CommandExecution) -> Result<(), ToolError> {
        let mode = match self.hook.access {
            // It changes nothing, whatever the mode.
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

/// What one that ended by itself leaves; the error says why it has failed.
fn read_output(
    collected: Option<io::Result<(CollectedOutput, CommandExit)>>,
    settled: &WatchReport,
) -> Result<HookOutput, String> {
    let (output, ended) = match collected {
        Some(Ok(collected)) => collected,
        Some(Err(error)) => return Err(format!("what it printed cannot be read: {error}")),
        None => return Err("nobody knows how it ended".to_owned()),
    };
    let stderr = ansi_filter::strip(output.stderr.head());
    let exit_code = match (ended.why, ended.exit_code, ended.signal) {
        (ExitCause::Finished, Some(code), _) => code,
        (ExitCause::Finished, None, Some(signal)) => {
            return Err(format!("signal {signal} ended it{}", hook_answer::format_stderr(&stderr)));
        }
        (ExitCause::MemoryLimit { .. }, ..) => {
            return Err("it used more memory than it may".to_owned());
        }
        (ExitCause::ProcessLimit { .. }, ..) => {
            return Err("it had more processes than it may".to_owned());
        }
        _ => return Err("it was killed from outside".to_owned()),
    };
    if let Some(taken) = settled.taken_away.first() {
        return Err(format!(
            "it made `{}`, which is {} and which hooks may not create; it lies in `{}` now",
            taken.path.display(),
            taken.why,
            taken.kept_at.display()
        ));
    }
    if output.stdout.omitted_bytes() > 0 {
        return Err(format!(
            "it printed more than {} kB; let it write messages to its error output",
            ANSWER_BYTES_MAX / 1024
        ));
    }
    Ok(HookOutput { exit_code, stdout: output.stdout.head().to_vec(), stderr })
}
