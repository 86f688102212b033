//! Commands of settings that have a say before a call, and a word after it.
//!
//! A hook is a program that a person wrote into settings, or trusted there. It runs confined, for a
//! bounded time, and is told of a call on its standard input. Before a call it can deny it, have a
//! person asked, or rewrite its input; what it rewrote is checked, planned and judged from the start.
//! After a call it can add a remark for the model. It never allows: what rules deny is denied before
//! any hook hears of it, and what has to be asked is asked whatever a hook says.
//!
//! One that crashes, hangs or answers nonsense has not agreed to anything: the call is denied, unless
//! settings say otherwise.

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
use zero_core::{ToolCall, ToolError, ToolName};

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

/// Hooks of a host that run at the same time; others wait for their turn.
const RUNNING_MAX: usize = 8;
/// Bytes of a result that a hook is told.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// The hooks of a host, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSettings {
    /// Those that have a say before a call.
    pub before: Vec<Hook>,
    /// Those that have a word after it.
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

/// The hooks of a host, and whose turn it is.
pub(crate) struct HookSet {
    before: Vec<Arc<Hook>>,
    after: Vec<Arc<Hook>>,
    turns: Semaphore,
}

impl HookSet {
    /// `None` where there are none: then nothing is done for them.
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

/// One tool that is tried for a call.
#[derive(Clone, Copy)]
pub(crate) struct HookAttempt<'a> {
    pub(crate) session: &'a ToolHostSession,
    pub(crate) tool: &'a RegisteredTool,
    pub(crate) call: &'a ToolCall,
    pub(crate) cancel: &'a CancellationToken,
}

impl HookAttempt<'_> {
    fn name(&self) -> &ToolName {
        &self.tool.tool.spec().name
    }

    /// What every hook is told.
    fn hook_input(&self, event: HookEvent, input: &Value) -> Value {
        let workspace = self.session.workspace();
        // Where a command would start, and relative paths begin.
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
    /// The hooks of this host, if any of them is for a tool.
    pub(crate) fn find_hooks(&self, tool: &ToolName) -> Option<&HookSet> {
        self.hooks.as_ref().filter(|hooks| {
            hooks.before.iter().chain(&hooks.after).any(|hook| hook.is_for(tool.as_str()))
        })
    }

    /// Lets the hooks have their say before a call that no rule denies, one after the other: each
    /// sees the input as the one before left it. Fails when one denies the call.
    pub(crate) async fn run_pre_hooks(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        asked: &AuthorizationRequest<'_>,
        input: Value,
        ledger: &mut CallRecord<'_>,
    ) -> Result<HookVerdict, ToolError> {
        let mut say = HookVerdict::new(input);
        let hooks_of_call = hooks.select(HookEvent::PreToolUse, attempt.name());
        if hooks_of_call.is_empty() {
            return Ok(say);
        }
        let decision = self.refuse_denied(attempt.session, asked, ledger)?;
        for hook in hooks_of_call {
            let began = Instant::now();
            let time = &mut say.time;
            let heard = self.run_pre_hook(hooks, attempt, &hook, &say.input, time).await;
            let note = |said: &str, reason: Option<&str>| {
                audit_entry(&hook, HookEvent::PreToolUse, said, reason, began)
            };
            let before = match heard {
                Ok(before) => {
                    let input = before.input.as_ref().map(redaction::redact_value);
                    let note = note(before.audit_label(), before.ruling.reason());
                    ledger.record_hook(AuditHook { input, ..note });
                    before
                }
                Err(HookError::Failed(why)) => {
                    tracing::warn!(%hook, %why, "a hook failed");
                    ledger.record_hook(note("failed", Some(&why)));
                    PreHookOutcome { ruling: ruling_for_failure(&hook, &why), input: None }
                }
                Err(HookError::Cancelled) => {
                    ledger.record_hook(note("cancelled", None));
                    return Err(ToolError::cancelled());
                }
            };
            if let HookRuling::Deny(reason) = &before.ruling {
                return Err(hook_denial_error(&hook, reason, asked, decision, ledger));
            }
            if let Some(input) = before.input {
                say.record_rewrite(&hook, input);
            }
            if let HookRuling::Ask(reason) = &before.ruling {
                say.record_ask(&hook, reason);
            }
        }
        Ok(say)
    }

    async fn run_pre_hook(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        hook: &Arc<Hook>,
        input: &Value,
        time: &mut HookTimeBudget,
    ) -> Result<PreHookOutcome, HookError> {
        let told = attempt.hook_input(HookEvent::PreToolUse, input);
        let words = self.run_hook(&hooks.turns, attempt, hook, &told, time).await?;
        let mut before = hook_answer::parse_pre_answer(&words).map_err(HookError::Failed)?;
        if let Some(written) = before.input.take() {
            let taken =
                self.check_rewritten_input(attempt.tool, written).map_err(HookError::Failed)?;
            before.input = Some(taken).filter(|taken| taken != input);
        }
        Ok(before)
    }

    /// The input that a hook wrote, where the tool takes it.
    fn check_rewritten_input(
        &self,
        tool: &RegisteredTool,
        written: Value,
    ) -> Result<Value, String> {
        let most = self.limits.input_bytes_max;
        if json_len(&written) > most.as_usize() {
            return Err(format!("the input it wrote has more than {most}"));
        }
        tool.input.check(written).map_err(|violations| {
            let why = ToolError::from_violations(&violations).message;
            format!("it rewrote the input into one that the tool does not take: {why}")
        })
    }

    /// Tells the hooks how a call ended that ran, and keeps what they remark. What was done is done:
    /// one that fails is a remark, too.
    pub(crate) async fn run_post_hooks(
        &self,
        hooks: &HookSet,
        attempt: HookAttempt<'_>,
        say: &HookVerdict,
        outcome: &Result<ToolResult, ToolError>,
        ledger: &mut CallRecord<'_>,
    ) -> HookRemarks {
        let mut remarks = HookRemarks::new(&attempt.call.id);
        let hooks_of_call = hooks.select(HookEvent::PostToolUse, attempt.name());
        if hooks_of_call.is_empty() || attempt.cancel.is_cancelled() {
            return remarks;
        }
        let mut time = say.time;
        let mut told = attempt.hook_input(HookEvent::PostToolUse, &say.input);
        told["tool_response"] = tool_response(attempt.name(), outcome);
        for hook in hooks_of_call {
            let began = Instant::now();
            let heard = self.run_hook(&hooks.turns, attempt, &hook, &told, &mut time).await;
            let heard = heard.and_then(|words| {
                hook_answer::parse_post_answer(&words).map_err(HookError::Failed)
            });
            let (said, reason) = match heard {
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
            let row = audit_entry(&hook, HookEvent::PostToolUse, said, reason.as_deref(), began);
            ledger.record_hook(row);
            if said == "cancelled" {
                break;
            }
        }
        remarks
    }
}

/// How a call ended, as a hook is told.
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

/// What a hook that failed amounts to.
fn ruling_for_failure(hook: &Hook, why: &str) -> HookRuling {
    let said = format!("it failed: {why}");
    match hook.on_failure {
        HookFailureAction::Deny => HookRuling::Deny(format!(
            "{said}; correct the hook, take it out of the settings, or set its `onFailure` to `ask` or `ignore`"
        )),
        HookFailureAction::Ask => HookRuling::Ask(said),
        HookFailureAction::Ignore => HookRuling::Nothing,
    }
}

/// The error of a call that a hook denies, and its decision in the record.
fn hook_denial_error(
    hook: &Hook,
    reason: &str,
    asked: &AuthorizationRequest<'_>,
    decision: PolicyDecision,
    ledger: &mut CallRecord<'_>,
) -> ToolError {
    let decision = hook_verdict::deny_decision(hook, reason, decision);
    ledger.record_decision(&decision);
    authorization::hook_denial_error(
        asked,
        &decision,
        &format!("{hook}: {}", hook_verdict::clean_text(reason)),
    )
}

fn audit_entry(
    hook: &Hook,
    event: HookEvent,
    said: &str,
    reason: Option<&str>,
    began: Instant,
) -> AuditHook {
    AuditHook {
        event: event.as_str().to_owned(),
        hook: redaction::redact_and_shorten(&hook.command()),
        source: redaction::redact_and_shorten(&hook.written_at),
        said: said.to_owned(),
        reason: reason.map(redaction::redact_and_shorten),
        input: None,
        duration_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}
