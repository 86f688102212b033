//! Commands from settings that run before and after calls.
//!
//! A hook is a program that the user configured or trusted. It runs in a sandbox for a bounded time
//! and gets the call as JSON on its standard input. Before a call it can deny it, request approval,
//! or rewrite its input; a rewritten input is validated, planned and authorized from the start.
//! After a call it can add a remark for the model. A hook never allows anything: a call that rules
//! deny is denied before any hook runs, and a call that needs approval needs it whatever a hook
//! answers.
//!
//! If a hook crashes, hangs or prints an invalid answer, the call is denied, unless settings say
//! otherwise.

mod hook;
mod hook_answer;
mod hook_files;
mod hook_process;
mod hook_verdict;
mod time_budget;
mod tool_pattern;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::head;
use zero_core::tool_result::ToolResult;
use zero_core::{TimeoutClass, ToolCall, ToolError, ToolName};

pub use self::hook::{Hook, HookFailureAction};
pub use self::hook_files::{HOOK_WORDS_MAX, HookFile, HookFileReader};
pub(crate) use self::hook_verdict::{HookRemarks, HookVerdict};
pub use self::tool_pattern::ToolPattern;

use self::hook_answer::{HookRuling, PreHookOutcome};
use self::hook_process::HookError;
use self::time_budget::HookTimeBudget;
use crate::audit::AuditHook;
use crate::authorization::{self, AuthorizationRequest};
use crate::call_record::CallRecord;
use crate::dialect::{Dialect, DialectName};
use crate::host_session::ToolHostSession;
use crate::policy::PolicyDecision;
use crate::redaction;
use crate::registry::RegisteredTool;
use crate::result_truncation::json_len;
use crate::tool_host::ToolHost;

/// Most hooks of a host that run at the same time; others wait.
const RUNNING_MAX: usize = 8;
/// Most bytes of a result that a hook gets.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// The hooks of a host, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSettings {
    /// Hooks that run before a call.
    pub before: Vec<Hook>,
    /// Hooks that run after a call.
    pub after: Vec<Hook>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookEvent {
    PreToolUse,
    PostToolUse,
}

impl HookEvent {
    /// Stable word for hooks and audit rows.
    fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
        }
    }
}

/// The hooks of a host, and the semaphore that limits them.
pub(crate) struct HookSet {
    before: Vec<Arc<Hook>>,
    after: Vec<Arc<Hook>>,
    turns: Semaphore,
}

impl HookSet {
    /// `None` if there are no hooks, so that they cost nothing.
    pub(crate) fn new(hooks: HookSettings) -> Option<Self> {
        let HookSettings { before, after } = hooks;
        let shared = |hooks: Vec<Hook>| hooks.into_iter().map(Arc::new).collect();
        (!(before.is_empty() && after.is_empty())).then(|| Self {
            before: shared(before),
            after: shared(after),
            turns: Semaphore::new(RUNNING_MAX),
        })
    }

    fn select(&self, event: HookEvent, tool: &ToolName) -> Vec<Arc<Hook>> {
        let all = match event {
            HookEvent::PreToolUse => &self.before,
            HookEvent::PostToolUse => &self.after,
        };
        all.iter().filter(|hook| hook.is_for(tool.as_str())).cloned().collect()
    }
}

/// One attempt of a call with one tool.
#[derive(Clone, Copy)]
pub(crate) struct HookAttempt<'a> {
    pub(crate) session: &'a ToolHostSession,
    pub(crate) tool: &'a RegisteredTool,
    pub(crate) call: &'a ToolCall,
    pub(crate) cancel: &'a CancellationToken,
    /// The class of its deadline.
    pub(crate) timeout_class: TimeoutClass,
}

impl HookAttempt<'_> {
    fn name(&self) -> &ToolName {
        &self.tool.tool.spec().name
    }

    /// The JSON that every hook gets.
    fn hook_input(&self, event: HookEvent, input: &Value) -> Value {
        let workspace = self.session.workspace();
        // Where a command would start and relative paths begin.
        let cwd = self.session.commands.folder().unwrap_or_else(|| workspace.cwd().to_owned());
        let roots = workspace.roots().map(|root| root.display().to_string());
        json!({
            "hook_event_name": event.as_str(),
            "session_id": self.session.id().map(ToString::to_string),
            "call_id": self.call.id.to_string(),
            "cwd": cwd.display().to_string(),
            "workspace": roots.collect::<Vec<_>>(),
            "tool_name": self.name().as_str(),
            "tool_input": input,
        })
    }
}

impl ToolHost {
    /// The hooks of this host, if any applies to a tool.
    pub(crate) fn find_hooks(&self, tool: &ToolName) -> Option<&HookSet> {
        self.hooks.as_ref().filter(|hooks| {
            hooks.before.iter().chain(&hooks.after).any(|hook| hook.is_for(tool.as_str()))
        })
    }

    /// Runs the hooks before a call that no rule denies, in order: each gets the input as the
    /// previous one left it. Fails if one denies the call.
    pub(crate) async fn run_pre_hooks(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        authorization_request: &AuthorizationRequest<'_>,
        input: Value,
        record: &mut CallRecord<'_>,
    ) -> Result<HookVerdict, ToolError> {
        let mut verdict = HookVerdict::new(input);
        let hooks_of_call = hooks.select(HookEvent::PreToolUse, attempt.name());
        if hooks_of_call.is_empty() {
            return Ok(verdict);
        }
        let decision = self.refuse_denied(attempt.session, authorization_request, record).await?;
        for hook in hooks_of_call {
            let started_at = Instant::now();
            let time = &mut verdict.time;
            let answer = self.run_pre_hook(hooks, attempt, &hook, &verdict.input, time).await;
            let note = |outcome: &str, reason: Option<&str>| {
                audit_entry(&hook, HookEvent::PreToolUse, outcome, reason, started_at)
            };
            let before = match answer {
                Ok(before) => {
                    let input = before.input.as_ref().map(redaction::redact_value);
                    let note = note(before.audit_label(), before.ruling.reason());
                    record.record_hook(AuditHook { input, ..note });
                    before
                }
                Err(HookError::Failed(why)) => {
                    tracing::warn!(%hook, %why, "a hook failed");
                    record.record_hook(note("failed", Some(&why)));
                    PreHookOutcome { ruling: ruling_for_failure(&hook, &why), input: None }
                }
                Err(HookError::Cancelled) => {
                    record.record_hook(note("cancelled", None));
                    return Err(ToolError::cancelled());
                }
            };
            if let HookRuling::Deny(reason) = &before.ruling {
                return Err(hook_denial_error(
                    &hook,
                    reason,
                    authorization_request,
                    decision,
                    record,
                ));
            }
            if let Some(input) = before.input {
                verdict.record_rewrite(&hook, input);
            }
            if let HookRuling::Ask(reason) = &before.ruling {
                verdict.record_ask(&hook, reason);
            }
        }
        Ok(verdict)
    }

    async fn run_pre_hook(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        input: &Value,
        time: &mut HookTimeBudget,
    ) -> Result<PreHookOutcome, HookError> {
        let hook_input = attempt.hook_input(HookEvent::PreToolUse, input);
        let words = self.run_hook(&hooks.turns, attempt, hook, &hook_input, time).await?;
        let mut before = hook_answer::parse_pre_answer(&words).map_err(HookError::Failed)?;
        if let Some(written) = before.input.take() {
            let taken =
                self.check_rewritten_input(attempt.tool, written).map_err(HookError::Failed)?;
            before.input = Some(taken).filter(|taken| taken != input);
        }
        Ok(before)
    }

    /// Validates the input that a hook wrote.
    fn check_rewritten_input(
        &self,
        tool: &RegisteredTool,
        written: Value,
    ) -> Result<Value, String> {
        let most = self.limits.input_bytes_max;
        if json_len(&written) > most.as_usize() {
            return Err(format!("the input that it returned is larger than {most}"));
        }
        tool.input.check(written).map_err(|violations| {
            let why = ToolError::from_violations(&violations).message;
            format!("the input that it returned does not match the tool's schema: {why}")
        })
    }

    /// Passes the result of a call to the hooks and collects their remarks. The call is done: a
    /// failed hook is only a remark, too.
    pub(crate) async fn run_post_hooks(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        verdict: &HookVerdict,
        outcome: &Result<ToolResult, ToolError>,
        record: &mut CallRecord<'_>,
    ) -> HookRemarks {
        let mut remarks = HookRemarks::new(&attempt.call.id);
        let hooks_of_call = hooks.select(HookEvent::PostToolUse, attempt.name());
        if hooks_of_call.is_empty() || attempt.cancel.is_cancelled() {
            return remarks;
        }
        let mut time = verdict.time;
        let mut hook_input = attempt.hook_input(HookEvent::PostToolUse, &verdict.input);
        hook_input["tool_response"] = tool_response(attempt.name(), outcome);
        for hook in hooks_of_call {
            let started_at = Instant::now();
            let answer = self.run_hook(&hooks.turns, attempt, &hook, &hook_input, &mut time).await;
            let answer = answer.and_then(|words| {
                hook_answer::parse_post_answer(&words).map_err(HookError::Failed)
            });
            let (label, reason) = match answer {
                Ok(None) => ("nothing", None),
                Ok(Some(context)) => {
                    remarks.add_hook_remark(&hook, &context);
                    ("remark", Some(context))
                }
                Err(HookError::Failed(why)) => {
                    tracing::warn!(%hook, %why, "a hook failed");
                    remarks.add_hook_remark(&hook, &format!("(it failed: {why})"));
                    ("failed", Some(why))
                }
                Err(HookError::Cancelled) => {
                    remarks
                        .add_hook_remark(&hook, "(it was stopped, because the call was cancelled)");
                    ("cancelled", None)
                }
            };
            let row =
                audit_entry(&hook, HookEvent::PostToolUse, label, reason.as_deref(), started_at);
            record.record_hook(row);
            if label == "cancelled" {
                break;
            }
        }
        remarks
    }
}

/// The result of a call, as hooks get it.
fn tool_response(tool: &ToolName, outcome: &Result<ToolResult, ToolError>) -> Value {
    let text = match outcome {
        Ok(result) => {
            let rendered = Dialect::new(DialectName::Canonical).render(tool.as_str(), result);
            let texts = rendered.content.iter().filter_map(|piece| piece.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.message.clone(),
    };
    json!({
        "text": head(&text, RESULT_BYTES_MAX),
        "truncated": text.len() > RESULT_BYTES_MAX,
        "is_error": outcome.is_err(),
        "error_type": outcome.as_ref().err().map(|error| error.error_type.as_str()),
    })
}

/// The ruling for a hook that failed.
fn ruling_for_failure(hook: &Hook, why: &str) -> HookRuling {
    let failure = format!("it failed: {why}");
    match hook.on_failure {
        HookFailureAction::Deny => HookRuling::Deny(format!(
            "{failure}; fix the hook, remove it from the settings, or set its `onFailure` to `ask` or `ignore`"
        )),
        HookFailureAction::Ask => HookRuling::Ask(failure),
        HookFailureAction::Ignore => HookRuling::Nothing,
    }
}

/// The error of a call that a hook denies; records the decision.
fn hook_denial_error(
    hook: &Hook,
    reason: &str,
    authorization_request: &AuthorizationRequest<'_>,
    decision: PolicyDecision,
    record: &mut CallRecord<'_>,
) -> ToolError {
    let decision = hook_verdict::deny_decision(hook, reason, decision);
    record.record_decision(&decision);
    authorization::hook_denial_error(
        authorization_request,
        &decision,
        &format!("{hook}: {}", hook_verdict::clean_text(reason)),
    )
}

fn audit_entry(
    hook: &Hook,
    event: HookEvent,
    label: &str,
    reason: Option<&str>,
    started_at: Instant,
) -> AuditHook {
    AuditHook {
        event: event.as_str().to_owned(),
        hook: redaction::redact_and_shorten(&hook.command()),
        source: redaction::redact_and_shorten(&hook.written_at),
        said: label.to_owned(),
        reason: reason.map(redaction::redact_and_shorten),
        input: None,
        duration_us: u64::try_from(started_at.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}
