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

mod answer;
mod files;
mod run;
mod say;
mod time;
mod tool_pattern;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zero_core::result::ToolResult;
use zero_core::shown::quoted;
use zero_core::{ToolCall, ToolError, ToolName};

pub use self::files::{HOOK_WORDS_MAX, HookFile, HookLook};
pub(crate) use self::say::{Remarks, Say};
pub use self::tool_pattern::ToolPattern;

use self::answer::{Before, Ruling};
use self::run::Trouble;
use self::time::HookTime;
use crate::audit::AuditHook;
use crate::authorize::{self, Asked};
use crate::bound::json_len;
use crate::commands::Access;
use crate::dialect::{Dialect, DialectName};
use crate::host::ToolHost;
use crate::ledger::Ledger;
use crate::policy::Decision;
use crate::redact;
use crate::registry::Registered;
use crate::session::Session;

/// Hooks of a host that run at the same time; others wait for their turn.
const RUNNING_MAX: usize = 8;
/// Bytes of a result that a hook is told.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// The hooks of a host, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Those that have a say before a call.
    pub before: Vec<Hook>,
    /// Those that have a word after it.
    pub after: Vec<Hook>,
}

/// A command that runs before or after calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The tools it is for.
    pub tools: Vec<ToolPattern>,
    /// The program and its arguments; no shell looks at them.
    pub words: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// What it may do at all.
    pub access: Access,
    /// What becomes of a call when it fails. After a call there is nothing left to decide.
    pub on_failure: OnFailure,
    /// The files of the workspace that it names, as whoever lets it run has seen them.
    pub files: Vec<HookFile>,
    /// Where it stands, for a person.
    pub written_at: String,
}

impl Hook {
    /// Whether it is for a tool, by its canonical name.
    pub fn is_for(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }

    /// Its words in one line, for a person, without secrets.
    pub fn command(&self) -> String {
        redact::text(&self.words.join(" ")).into_owned()
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook {} ({})", quoted(&self.command()), self.written_at)
    }
}

/// What becomes of a call when its hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is denied.
    #[default]
    Deny,
    /// A person decides.
    Ask,
    /// It goes on as if there were no such hook.
    Ignore,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Before,
    After,
}

impl Event {
    /// Stable word for hooks and audit rows.
    fn word(self) -> &'static str {
        match self {
            Self::Before => "PreToolUse",
            Self::After => "PostToolUse",
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
    pub(crate) fn new(hooks: Hooks) -> Option<Self> {
        let Hooks { before, after } = hooks;
        let shared = |hooks: Vec<Hook>| hooks.into_iter().map(Arc::new).collect();
        (!(before.is_empty() && after.is_empty())).then(|| Self {
            before: shared(before),
            after: shared(after),
            turns: Semaphore::new(RUNNING_MAX),
        })
    }

    fn of(&self, event: Event, tool: &ToolName) -> Vec<Arc<Hook>> {
        let all = match event {
            Event::Before => &self.before,
            Event::After => &self.after,
        };
        all.iter().filter(|hook| hook.is_for(tool.as_str())).cloned().collect()
    }
}

/// One tool that is tried for a call.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) session: &'a Session,
    pub(crate) tool: &'a Registered,
    pub(crate) call: &'a ToolCall,
    pub(crate) cancel: &'a CancellationToken,
}

impl Attempt<'_> {
    fn name(&self) -> &ToolName {
        &self.tool.tool.spec().name
    }

    /// What every hook is told.
    fn told(&self, event: Event, input: &Value) -> Value {
        let workspace = self.session.workspace();
        // Where a command would start, and relative paths begin.
        let cwd = self.session.commands.folder().unwrap_or_else(|| workspace.cwd().to_owned());
        let roots = workspace.roots().map(|root| root.display().to_string());
        json!({
            "hook_event_name": event.word(),
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
    pub(crate) fn hooks_for(&self, tool: &ToolName) -> Option<&HookSet> {
        self.hooks.as_ref().filter(|hooks| {
            hooks.before.iter().chain(&hooks.after).any(|hook| hook.is_for(tool.as_str()))
        })
    }

    /// Lets the hooks have their say before a call that no rule denies, one after the other: each
    /// sees the input as the one before left it. Fails when one denies the call.
    pub(crate) async fn ask_hooks(
        &self,
        hooks: &HookSet,
        attempt: Attempt<'_>,
        asked: &Asked<'_>,
        input: Value,
        ledger: &mut Ledger<'_>,
    ) -> Result<Say, ToolError> {
        let mut say = Say::about(input);
        let hooks_of_call = hooks.of(Event::Before, attempt.name());
        if hooks_of_call.is_empty() {
            return Ok(say);
        }
        let decision = self.refuse_denied(attempt.session, asked, ledger)?;
        for hook in hooks_of_call {
            let began = Instant::now();
            let time = &mut say.time;
            let heard = self.heard_before(hooks, attempt, &hook, &say.input, time).await;
            let note =
                |said: &str, reason: Option<&str>| noted(&hook, Event::Before, said, reason, began);
            let before = match heard {
                Ok(before) => {
                    let input = before.input.as_ref().map(redact::value);
                    let note = note(before.word(), before.ruling.reason());
                    ledger.heard(AuditHook { input, ..note });
                    before
                }
                Err(Trouble::Failed(why)) => {
                    tracing::warn!(%hook, %why, "a hook failed");
                    ledger.heard(note("failed", Some(&why)));
                    Before { ruling: ruling_of_failure(&hook, &why), input: None }
                }
                Err(Trouble::Cancelled) => {
                    ledger.heard(note("cancelled", None));
                    return Err(ToolError::cancelled());
                }
            };
            if let Ruling::Deny(reason) = &before.ruling {
                return Err(denied(&hook, reason, asked, decision, ledger));
            }
            if let Some(input) = before.input {
                say.rewritten(&hook, input);
            }
            if let Ruling::Ask(reason) = &before.ruling {
                say.ask(&hook, reason);
            }
        }
        Ok(say)
    }

    async fn heard_before(
        &self,
        hooks: &HookSet,
        attempt: Attempt<'_>,
        hook: &Arc<Hook>,
        input: &Value,
        time: &mut HookTime,
    ) -> Result<Before, Trouble> {
        let told = attempt.told(Event::Before, input);
        let words = self.run_hook(&hooks.turns, attempt, hook, &told, time).await?;
        let mut before = answer::before(&words).map_err(Trouble::Failed)?;
        if let Some(written) = before.input.take() {
            let taken = self.taken(attempt.tool, written).map_err(Trouble::Failed)?;
            before.input = Some(taken).filter(|taken| taken != input);
        }
        Ok(before)
    }

    /// The input that a hook wrote, where the tool takes it.
    fn taken(&self, tool: &Registered, written: Value) -> Result<Value, String> {
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
    pub(crate) async fn tell_hooks(
        &self,
        hooks: &HookSet,
        attempt: Attempt<'_>,
        say: &Say,
        outcome: &Result<ToolResult, ToolError>,
        ledger: &mut Ledger<'_>,
    ) -> Remarks {
        let mut remarks = Remarks::of(&attempt.call.id);
        let hooks_of_call = hooks.of(Event::After, attempt.name());
        if hooks_of_call.is_empty() || attempt.cancel.is_cancelled() {
            return remarks;
        }
        let mut time = say.time;
        let mut told = attempt.told(Event::After, &say.input);
        told["tool_response"] = response(attempt.name(), outcome);
        for hook in hooks_of_call {
            let began = Instant::now();
            let heard = self.run_hook(&hooks.turns, attempt, &hook, &told, &mut time).await;
            let heard = heard.and_then(|words| answer::after(&words).map_err(Trouble::Failed));
            let (said, reason) = match heard {
                Ok(None) => ("nothing", None),
                Ok(Some(context)) => {
                    remarks.said(&hook, &context);
                    ("remark", Some(context))
                }
                Err(Trouble::Failed(why)) => {
                    tracing::warn!(%hook, %why, "a hook failed");
                    remarks.said(&hook, &format!("(it failed: {why})"));
                    ("failed", Some(why))
                }
                Err(Trouble::Cancelled) => {
                    remarks.said(&hook, "(it was stopped, because the call was cancelled)");
                    ("cancelled", None)
                }
            };
            let row = noted(&hook, Event::After, said, reason.as_deref(), began);
            ledger.heard(row);
            if said == "cancelled" {
                break;
            }
        }
        remarks
    }
}

/// How a call ended, as a hook is told.
fn response(tool: &ToolName, outcome: &Result<ToolResult, ToolError>) -> Value {
    let mut text = match outcome {
        Ok(result) => {
            let rendered = Dialect::new(DialectName::Canonical).render(tool.as_str(), result);
            let texts = rendered.content.iter().filter_map(|piece| piece.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.message.clone(),
    };
    let is_whole = text.len() <= RESULT_BYTES_MAX;
    text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX));
    json!({
        "text": text,
        "truncated": !is_whole,
        "is_error": outcome.is_err(),
        "error_type": outcome.as_ref().err().map(|error| error.error_type.word()),
    })
}

/// What a hook that failed amounts to.
fn ruling_of_failure(hook: &Hook, why: &str) -> Ruling {
    let said = format!("it failed: {why}");
    match hook.on_failure {
        OnFailure::Deny => Ruling::Deny(format!(
            "{said}; correct the hook, take it out of the settings, or set its `onFailure` to `ask` or `ignore`"
        )),
        OnFailure::Ask => Ruling::Ask(said),
        OnFailure::Ignore => Ruling::Nothing,
    }
}

/// The error of a call that a hook denies, and its decision in the record.
fn denied(
    hook: &Hook,
    reason: &str,
    asked: &Asked<'_>,
    decision: Decision,
    ledger: &mut Ledger<'_>,
) -> ToolError {
    let decision = say::denying(hook, reason, decision);
    ledger.judged(&decision);
    authorize::denied_by_hook(asked, &decision, &format!("{hook}: {}", say::text(reason)))
}

fn noted(hook: &Hook, event: Event, said: &str, reason: Option<&str>, began: Instant) -> AuditHook {
    AuditHook {
        event: event.word().to_owned(),
        hook: redact::short_text(&hook.command()),
        source: redact::short_text(&hook.written_at),
        said: said.to_owned(),
        reason: reason.map(redact::short_text),
        input: None,
        duration_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}
