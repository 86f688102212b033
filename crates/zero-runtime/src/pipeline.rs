//! The steps of a call: resolve → validate → describe → effects → authorize → admit → execute →
//! mask → bound → record → deliver, always in that order.
//!
//! [`ToolHost::call`] is the only way to run a tool. Each step can end the call. However it ends,
//! even if the caller drops it, one audit row with its end is written, one sample is counted and one
//! `Ended` event is sent: [`CallRecord`] does that when it is dropped. Another row is written before
//! the tool runs.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use zero_core::text_shortening::excerpt;
use zero_core::{
    ByteSize, CommandExecution, CommandLine, Effect, Effects, ErrorReason, ErrorType, TargetPath,
    TimeoutClass, ToolCall, ToolError, ToolName, ToolResult, ToolResultPart, ToolSpec,
};
use zero_exec::{CallCommands, CommandLauncher};

use crate::admission::CallPermit;
use crate::audit;
use crate::authorization::{
    AuthorizationOutcome, AuthorizationRequest, CallAuthorization, CommandEdit,
};
use crate::call_context::{CallContext, CallContextParts};
use crate::call_record::CallRecord;
use crate::circuit_breaker::{CircuitBreakers, ToolHealth};
use crate::connection_questions::ConnectingCall;
use crate::dialect::{BUILTIN, Dialect, RenderedResult};
use crate::execution::{self, ExecutionLimits, catch_panics};
use crate::failed_plan::{self, FailedPlan};
use crate::hooks::{HookAttempt, HookVerdict};
use crate::host_session::ToolHostSession;
use crate::registry::RegisteredTool;
use crate::result_truncation::{json_len, truncate_error, truncate_result};
use crate::secret_guard::InputSecrets;
use crate::tool::{AnyPlan, CallDescription};
use crate::tool_host::ToolHost;
use crate::trial::CommandTrial;

/// Most fallback tools tried one after another.
const FALLBACKS_MAX: usize = 2;
/// Most times that the user edits the command of a call.
const EDITS_MAX: usize = 10;
/// The argument with the command of a tool that runs one.
const COMMAND_FIELD: &str = "command";
/// The argument with which such a tool leaves its command running.
const BACKGROUND_FIELD: &str = "run_in_background";

/// A result in the caller's dialect, and the canonical result it was made from.
#[derive(Debug)]
pub struct CallOutcome {
    /// The canonical result.
    pub result: ToolResult,
    /// The result as the caller's dialect renders it.
    pub rendered: RenderedResult,
}

/// The outcome of a call.
#[derive(Debug)]
pub struct CallReport {
    /// The tool's canonical name, if one was found.
    pub tool: Option<ToolName>,
    /// What the call was to do, if it was planned.
    pub title: Option<String>,
    /// The result, or why there is none.
    pub outcome: Result<CallOutcome, ToolError>,
}

impl ToolHost {
    /// Makes a call. This is the only way to run a tool.
    pub async fn call(
        &self,
        session: &ToolHostSession,
        dialect: &Dialect,
        call: ToolCall,
        cancel: &CancellationToken,
    ) -> CallReport {
        let mut record = CallRecord::new(self, session, dialect, &call);
        let (called_name, span) = (call.tool.clone(), record.span.clone());
        let outcome = async {
            self.audit
                .ensure_writable(record.row.time)
                .map_err(|error| audit::unwritable_log_error(&error))?;
            record.refresh_secrets(&call.input).await;
            let mut result = self.run_steps(session, dialect, call, cancel, &mut record).await?;
            if self.hooks.is_some() {
                // Hooks may have added to the result.
                record.secrets.mask_result(&mut result);
            }
            let rendered = dialect.render(&called_name, &result);
            Ok(CallOutcome { result, rendered })
        }
        .instrument(span)
        .await
        .map_err(|mut error: ToolError| {
            record.secrets.mask_error(&mut error);
            error.with_tool(&called_name)
        });
        record.finish(outcome.as_ref().err());
        CallReport { tool: record.tool.take(), title: record.row.title.take(), outcome }
    }

    /// The steps up to a bounded result.
    async fn run_steps(
        &self,
        session: &ToolHostSession,
        dialect: &Dialect,
        call: ToolCall,
        cancel: &CancellationToken,
        record: &mut CallRecord<'_>,
    ) -> Result<ToolResult, ToolError> {
        let mut tool = self.resolve(dialect, &call.tool)?;
        record.record_tool(&tool.tool.spec().name);
        let mut input = self.validate(dialect, &tool, &call)?;
        let mut fallbacks = 0;
        loop {
            let spec = tool.tool.spec();
            let fallback = spec.fallback.as_ref().and_then(|name| self.registry.get(name.as_str()));
            let fallback = fallback.filter(|_| fallbacks < FALLBACKS_MAX);
            let original_input = fallback.as_ref().map(|_| input.clone());
            // A fallback has its own deadline, not that of the name that was called.
            let timeout_class = match fallbacks {
                0 => dialect.timeout_class(&call.tool, &tool),
                _ => spec.timeout_class,
            };
            let attempt = HookAttempt { session, tool: &tool, call: &call, cancel, timeout_class };
            let outcome = self.attempt_tool(attempt, input, record).await;
            match (outcome, fallback, original_input) {
                (Err(error), Some(fallback), Some(original)) if needs_fallback(&error) => {
                    fallbacks += 1;
                    record.record_fallback(&spec.name, &fallback.tool.spec().name, &error);
                    // The fallback gets the same input, validated by its own schema, and is
                    // authorized separately.
                    let checked = fallback.input.check(original);
                    input =
                        checked.map_err(|violations| ToolError::from_violations(&violations))?;
                    tool = fallback;
                }
                (Err(error), ..) => return Err(error),
                (Ok(result), ..) => return Ok(result),
            }
        }
    }

    /// Step 1: finds the tool that the caller names.
    fn resolve(&self, dialect: &Dialect, name: &str) -> Result<Arc<RegisteredTool>, ToolError> {
        dialect.resolve(&self.registry, name).ok_or_else(|| {
            let names = dialect.names(&self.registry);
            let similar =
                crate::name_suggestions::suggest_names(name, names.iter().map(String::as_str), 3);
            let hint = match (dialect.missing_advice(&self.registry, name), &similar[..]) {
                (Some(advice), _) => advice.to_owned(),
                (None, []) => format!("known are {}", names.join(", ")),
                (None, similar) => format!("did you mean {}?", similar.join(", ")),
            };
            let shown = excerpt(name, ToolName::LEN_MAX);
            ToolError::not_found(
                ErrorReason::UnknownTool,
                format!("there is no tool `{shown}`; {hint}"),
            )
            .with_detail("nearest", similar)
        })
    }

    /// Step 2: reports all violations at once, in the caller's field names; then returns the
    /// canonical input.
    fn validate(
        &self,
        dialect: &Dialect,
        tool: &RegisteredTool,
        call: &ToolCall,
    ) -> Result<Value, ToolError> {
        let (size, most) = (json_len(&call.input), self.limits.input_bytes_max);
        if size > most.as_usize() {
            let message =
                format!("the input has {}, more than {most}", ByteSize::bytes(size as u64));
            return Err(ToolError::invalid(ErrorReason::TooLarge, message));
        }
        let mut input = dialect
            .to_canonical(&call.tool, tool, call.input.clone())
            .map_err(|violations| ToolError::from_violations(&violations))?;
        if self.file_backup {
            set_backup(tool, &mut input);
        }
        Ok(input)
    }

    /// Steps 3 to 9 for one tool. A command that the user edits starts again with step 3; the
    /// result tells the model which command ran.
    async fn attempt_tool(
        &self,
        attempt: HookAttempt<'_>,
        mut input: Value,
        record: &mut CallRecord<'_>,
    ) -> Result<ToolResult, ToolError> {
        let mut edited = None;
        for edits in 0..=EDITS_MAX {
            let edit = match edits {
                _ if !has_command(&input) => CommandEdit::Unavailable,
                0 => CommandEdit::Offered,
                EDITS_MAX => CommandEdit::Exhausted,
                _ => CommandEdit::Repeated,
            };
            let original_input = (edit != CommandEdit::Unavailable).then(|| input.clone());
            let step = self.attempt_input(attempt, input, edit, record).await;
            let (command, mut next_input) = match (step, original_input) {
                (Ok(RoundOutcome::CommandEdited { command, input }), Some(original)) => {
                    (command, input.unwrap_or(original))
                }
                // Nothing else is edited.
                (Ok(RoundOutcome::CommandEdited { .. }), None) => {
                    return Err(ToolError::cancelled());
                }
                (Ok(RoundOutcome::Finished(result)), _) => return note_edit(Ok(result), edited),
                (Err(error), _) => return note_edit(Err(error), edited),
            };
            edited = Some(record.secrets.mask_text(&command).into_owned());
            if let Value::Object(fields) = &mut next_input {
                fields.insert(COMMAND_FIELD.to_owned(), Value::String(command));
            }
            let checked = attempt.tool.input.check(next_input);
            input = match checked {
                Ok(input) => input,
                Err(violations) => {
                    return note_edit(Err(ToolError::from_violations(&violations)), edited);
                }
            };
        }
        // The last round offers no edit.
        Err(ToolError::cancelled())
    }

    /// Steps 3 to 9 for one input, including its hooks.
    async fn attempt_input(
        &self,
        attempt: HookAttempt<'_>,
        input: Value,
        edit: CommandEdit,
        record: &mut CallRecord<'_>,
    ) -> Result<RoundOutcome, ToolError> {
        let spec = attempt.tool.tool.spec();
        let breakers = attempt.session.lane.breakers();
        breakers.check(&spec.name)?;
        let mut probe = BreakerProbe { breakers, tool: &spec.name, health: ToolHealth::Unknown };
        let hooks = self.find_hooks(&spec.name).map(|hooks| (hooks, input.clone()));
        let planned = self.plan(attempt, input, edit, &mut probe, record)?;
        let Some((hooks, input)) = hooks else {
            return self
                .authorize_and_run(attempt, &planned, &HookVerdict::default(), &mut probe, record)
                .await;
        };
        let no_verdict = HookVerdict::default();
        let request = planned.authorization_request(spec, &no_verdict);
        let verdict = self.run_pre_hooks(hooks, attempt, &request, input, record).await?;
        // An input that a hook wrote is planned and authorized like any other.
        let planned = match verdict.is_rewritten() {
            true => self.plan(attempt, verdict.input.clone(), edit, &mut probe, record),
            false => Ok(planned),
        };
        let outcome = match planned {
            Ok(planned) => {
                self.authorize_and_run(attempt, &planned, &verdict, &mut probe, record).await
            }
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            Ok(RoundOutcome::Finished(result)) => Ok(result),
            // What the user saw and edited is what the hooks made of it.
            Ok(RoundOutcome::CommandEdited { command, .. }) => {
                let input = verdict.rewritten_input().cloned();
                return Ok(RoundOutcome::CommandEdited { command, input });
            }
            Err(error) => Err(error),
        };
        verdict.annotate_outcome(outcome, &attempt.call.id).map(RoundOutcome::Finished)
    }

    /// Steps 3 and 4: describes the call and its effects before it is authorized.
    fn plan(
        &self,
        attempt: HookAttempt<'_>,
        input: Value,
        edit: CommandEdit,
        probe: &mut BreakerProbe<'_>,
        record: &mut CallRecord<'_>,
    ) -> Result<PipelineCall, ToolError> {
        let HookAttempt { session, tool, .. } = attempt;
        let secrets = InputSecrets::find(&record.secrets, &input);
        let written = failed_plan::path_argument(&input);
        let command = input.get(COMMAND_FIELD).and_then(Value::as_str).map(str::to_owned);
        let is_background = input.get(BACKGROUND_FIELD).and_then(Value::as_bool) == Some(true);
        let folder = session.commands.folder();
        let planned =
            catch_panics(|| tool.tool.plan_in(input, session.workspace(), folder.as_deref()));
        let plan = planned.or_else(|error| {
            probe.record_error(&error);
            let written = written.as_deref();
            let failed = FailedPlan::new(&*tool.tool, written, session.workspace(), error)?;
            Ok::<Box<dyn AnyPlan>, ToolError>(Box::new(failed))
        })?;
        let (description, effects) = catch_panics(|| Ok((plan.describe(), plan.effects())))
            .inspect_err(|error| probe.record_error(error))?;
        record.record_description(tool, &description, &effects);
        secrets.refuse_placeholder(&effects)?;
        let carried = secrets.carried_out(&effects);
        // Only a call that is one command of the shell can be edited as text.
        let is_one_line = matches!(
            &executions(&effects)[..],
            [CommandExecution { command: CommandLine::Shell(line), .. }]
                if command.as_deref() == Some(line.as_str())
        );
        let command_edit = if is_one_line { edit } else { CommandEdit::Unavailable };
        let is_single_command = is_one_line && !is_background;
        Ok(PipelineCall { plan, description, effects, carried, command_edit, is_single_command })
    }

    /// Steps 5 to 9: authorize, admit, execute, mask, bound.
    async fn authorize_and_run(
        &self,
        attempt: HookAttempt<'_>,
        planned: &PipelineCall,
        verdict: &HookVerdict,
        probe: &mut BreakerProbe<'_>,
        record: &mut CallRecord<'_>,
    ) -> Result<RoundOutcome, ToolError> {
        let HookAttempt { session, tool, call, cancel, timeout_class } = attempt;
        let spec = tool.tool.spec();
        let stop = cancel.child_token();
        let commands = self.call_commands(attempt, &planned.effects, record);
        let cx = self.call_context(attempt, &stop, None, commands.clone(), record);
        let request = planned.authorization_request(spec, verdict);
        let authorization = match self.authorize(session, request, &cx, cancel, record).await? {
            AuthorizationOutcome::Authorized(authorization) => *authorization,
            AuthorizationOutcome::CommandEdited(command) => {
                return Ok(RoundOutcome::CommandEdited { command, input: None });
            }
        };
        let longest = planned.plan.deadline().unwrap_or_else(|| self.limits.timeout(timeout_class));
        let permit = self.admit(attempt, planned, longest, record).await?;
        let may_change_files = planned.effects.iter().any(may_change_files);
        if may_change_files {
            self.recover();
            self.secrets.remove_record();
        }
        let trial = match authorization.is_trial {
            true => Some(CommandTrial::begin(&self.journal, &call.id)?),
            false => None,
        };
        let limits = ExecutionLimits {
            deadline: call.timeout.map_or(longest, |timeout| timeout.min(longest)),
            attempts_max: if spec.idempotent { self.limits.attempts_max } else { 1 },
            stop_grace: self.limits.stop_grace,
        };
        let admitted = AdmittedCall { authorization, permit, commands, stop, limits };
        let outcome = self.execute(attempt, planned, admitted, record).await;
        probe.record_outcome(spec, &outcome);
        if may_change_files {
            self.secrets.mark_stale();
        }
        let outcome = self.mask_and_bound(attempt, outcome, record).await;
        let outcome = match (trial, &session.approver) {
            (Some(trial), Some(approver)) => {
                let user_wait = Arc::clone(&record.user_wait);
                let _waiting = user_wait.start();
                let (title, secrets) = (&planned.description.title, &record.secrets);
                let end = trial.review(&**approver, title, outcome, secrets, cancel).await;
                record.record_trial(approver.name(), end.answered);
                end.outcome
            }
            _ => outcome,
        };
        let Some(hooks) = self.find_hooks(&spec.name) else {
            return outcome.map(RoundOutcome::Finished);
        };
        let remarks = self.run_post_hooks(hooks, attempt, verdict, &outcome, record).await;
        remarks.append_to(outcome).map(RoundOutcome::Finished)
    }

    /// What starts the commands of a call, before it is known what the call may do.
    fn call_commands(
        &self,
        attempt: HookAttempt<'_>,
        effects: &Effects,
        record: &CallRecord<'_>,
    ) -> CallCommands {
        let HookAttempt { session, call, .. } = attempt;
        let tool = &attempt.tool.tool.spec().name;
        CallCommands {
            launcher: CommandLauncher::new(
                &self.commands,
                &session.commands,
                self.policy.clone(),
                call.id.clone(),
                self.limits.command_limits_for(tool),
            ),
            workspace: session.workspace().clone(),
            limits: Arc::clone(&self.limits),
            authorized: executions(effects),
            spill: session.spill().clone(),
            tool: tool.clone(),
            secrets: Arc::clone(&record.secrets),
            usage: record.usage.clone(),
        }
    }

    /// What a plan can use. Without a permit, it can only be checked and previewed.
    fn call_context(
        &self,
        attempt: HookAttempt<'_>,
        stop: &CancellationToken,
        permit: Option<CallPermit>,
        commands: CallCommands,
        record: &CallRecord<'_>,
    ) -> CallContext {
        let HookAttempt { session, call, cancel, .. } = attempt;
        CallContext::new(CallContextParts {
            call: call.id.clone(),
            tool: attempt.tool.tool.spec().name.clone(),
            workspace: session.workspace().clone(),
            journal: self.journal.clone(),
            policy: Arc::clone(&self.policy),
            limits: Arc::clone(&self.limits),
            cancel: stop.clone(),
            caller: cancel.clone(),
            seen: session.seen_files().cloned(),
            observer: session.observer.clone(),
            elicitor: session.elicitor.clone(),
            session: session.id().cloned(),
            permit: Mutex::new(permit),
            commands,
            companions: Arc::clone(&self.companions),
            buffers: session.buffers.clone(),
            guard: self.guard.clone(),
            readers: session.readers.clone(),
            foreseen: OnceLock::new(),
            user_wait: Arc::clone(&record.user_wait),
            retries: Arc::clone(&record.retries),
            metadata: Arc::clone(&record.metadata),
        })
    }

    /// Step 6: waits for a free slot, for `longest` at most, then writes that the call begins.
    async fn admit(
        &self,
        attempt: HookAttempt<'_>,
        planned: &PipelineCall,
        longest: Duration,
        record: &mut CallRecord<'_>,
    ) -> Result<CallPermit, ToolError> {
        record.row.queue_depth = self.admission.waiting_calls();
        let permit = self.admission.admit(&attempt.session.lane, attempt.cancel, longest).await?;
        for path in created_files(&planned.effects) {
            self.commands.check_creation(path)?;
        }
        // The row is permanent, so it has no value that became known while the call waited.
        record.add_learned_secrets();
        record.write_begin(&planned.effects).await?;
        record.report_started();
        Ok(permit)
    }

    /// Step 7: runs the plan. The slot of the call is free again when this returns.
    async fn execute(
        &self,
        attempt: HookAttempt<'_>,
        planned: &PipelineCall,
        admitted: AdmittedCall,
        record: &CallRecord<'_>,
    ) -> Result<ToolResult, ToolError> {
        let HookAttempt { session, tool, call, cancel, .. } = attempt;
        let AdmittedCall { authorization, permit, commands, stop, limits } = admitted;
        let connecting = ConnectingCall {
            host: self,
            session,
            id: &call.id,
            tool: &tool.tool.spec().name,
            effects: &planned.effects,
            secrets: Arc::clone(&record.secrets),
            user_wait: Arc::clone(&record.user_wait),
        };
        let (connections, questions) = match authorization.is_trial {
            true => (None, None),
            false => connecting.open_questions().unzip(),
        };
        let observer = session.observer.as_ref();
        let caller = observer.and_then(|observer| observer.caller_id(&call.id));
        let launcher = CommandLauncher {
            caller: Some(caller.unwrap_or_else(|| call.id.clone())),
            connections,
            ..authorization.apply_to(commands.launcher)
        };
        let secrets = Arc::clone(&record.secrets);
        let commands = CallCommands { launcher, secrets, ..commands };
        let cx = self.call_context(attempt, &stop, Some(permit), commands, record);
        let work = execution::run(&*planned.plan, &cx, cancel, &stop, limits);
        match questions {
            Some(questions) => questions.answer_while(&connecting, work).await,
            None => work.await,
        }
    }

    /// Steps 8 and 9: replaces the secret values, also those that became known while the call ran, then
    /// shortens what is too long.
    async fn mask_and_bound(
        &self,
        attempt: HookAttempt<'_>,
        outcome: Result<ToolResult, ToolError>,
        record: &mut CallRecord<'_>,
    ) -> Result<ToolResult, ToolError> {
        record.secrets = self.secrets.current_mask().await;
        match outcome {
            Ok(mut result) => {
                result.metadata = record.result_metadata();
                record.secrets.mask_result(&mut result);
                let spill = attempt.session.spill();
                Ok(truncate_result(result, &attempt.call.id, &self.limits, spill))
            }
            Err(mut error) => {
                record.secrets.mask_error(&mut error);
                Err(truncate_error(error, &self.limits))
            }
        }
    }
}

/// A call that may run now.
struct AdmittedCall {
    authorization: CallAuthorization,
    permit: CallPermit,
    commands: CallCommands,
    /// Stops the call at its deadline.
    stop: CancellationToken,
    limits: ExecutionLimits,
}

/// A planned call.
struct PipelineCall {
    plan: Box<dyn AnyPlan>,
    description: CallDescription,
    effects: Effects,
    /// The secrets whose values it would send out.
    carried: Vec<String>,
    command_edit: CommandEdit,
    /// Whether it is one command of the shell that ends with the call.
    is_single_command: bool,
}

/// How one round of a call ended.
enum RoundOutcome {
    /// The call ran.
    Finished(ToolResult),
    /// The user wants another command.
    CommandEdited {
        command: String,
        /// The input in which it replaces the command, if hooks rewrote it.
        input: Option<Value>,
    },
}

impl PipelineCall {
    fn authorization_request<'a>(
        &'a self,
        spec: &'a ToolSpec,
        verdict: &'a HookVerdict,
    ) -> AuthorizationRequest<'a> {
        let Self { plan, description, effects, carried, command_edit, is_single_command } = self;
        AuthorizationRequest {
            spec,
            plan: &**plan,
            title: &description.title,
            effects,
            carried,
            hooks: verdict,
            command_edit: *command_edit,
            is_single_command: *is_single_command,
        }
    }
}

/// Whether an input has a command that the user could edit.
fn has_command(input: &Value) -> bool {
    input.get(COMMAND_FIELD).is_some_and(Value::is_string)
}

/// Tells the model that the user edited its command, whatever became of it.
fn note_edit(
    mut outcome: Result<ToolResult, ToolError>,
    edited: Option<String>,
) -> Result<ToolResult, ToolError> {
    let Some(command) = edited else { return outcome };
    let note = format!("The user edited the command of this call. It was changed to:\n{command}");
    match &mut outcome {
        Ok(result) => result.content.push(ToolResultPart::Text(note)),
        Err(error) => error.message.push_str(&format!("\n\n{note}")),
    }
    outcome
}

/// The commands among the effects of a call: the only ones it may run.
fn executions(effects: &[Effect]) -> Arc<[CommandExecution]> {
    let execution = |effect: &Effect| match effect {
        Effect::Exec(execution) => Some(execution.clone()),
        _ => None,
    };
    effects.iter().filter_map(execution).collect()
}

/// Asks for a backup in the input of a tool of zero's own that can make one, unless the caller
/// decided.
fn set_backup(tool: &RegisteredTool, input: &mut Value) {
    let can_back_up = tool.input.as_value().pointer("/properties/backup").is_some();
    if let Value::Object(fields) = input
        && tool.source == BUILTIN
        && can_back_up
    {
        fields.entry("backup").or_insert(Value::Bool(true));
    }
}

/// The files that zero itself may create for a call.
fn created_files(effects: &Effects) -> impl Iterator<Item = &Path> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Write(path) => Some(path.canonical()),
        Effect::Note(note) => note.file.as_ref().map(TargetPath::canonical),
        _ => None,
    })
}

/// Whether an effect may change a file.
fn may_change_files(effect: &Effect) -> bool {
    matches!(effect, Effect::Write(_) | Effect::Delete(_) | Effect::Exec(_) | Effect::Mcp { .. })
}

fn is_slow_command(spec: &ToolSpec, error: &ToolError) -> bool {
    spec.timeout_class == TimeoutClass::Command && error.error_type == ErrorType::Timeout
}

/// A fallback helps if the tool failed, not if its input is wrong.
fn needs_fallback(error: &ToolError) -> bool {
    error.is_tool_fault() || error.reason() == Some(ErrorReason::CircuitOpen)
}

/// Reports to the circuit breaker how a call ended, even if the caller drops it.
struct BreakerProbe<'a> {
    breakers: &'a CircuitBreakers,
    tool: &'a ToolName,
    health: ToolHealth,
}

impl BreakerProbe<'_> {
    fn record_outcome(&mut self, spec: &ToolSpec, outcome: &Result<ToolResult, ToolError>) {
        match outcome {
            Ok(_) => self.health = ToolHealth::Healthy,
            // A slow command says nothing about the tool's health.
            Err(error) if is_slow_command(spec, error) => {}
            Err(error) => self.record_error(error),
        }
    }

    fn record_error(&mut self, error: &ToolError) {
        self.health = if error.is_tool_fault() { ToolHealth::Failing } else { ToolHealth::Unknown };
    }
}

impl Drop for BreakerProbe<'_> {
    fn drop(&mut self) {
        self.breakers.record_health(self.tool, self.health);
    }
}
