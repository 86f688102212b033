//! The record of one call, whose end is written exactly once however the call ends.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use zero_core::{CallId, Effect, ResultMetadata, SecretMask, ToolCall, ToolError, ToolName};
use zero_exec::CallUsageMeter;

use crate::audit::{self, AuditDecision, AuditEffect, AuditHook, AuditRow, EFFECTS_MAX};
use crate::dialect::Dialect;
use crate::host_session::ToolHostSession;
use crate::metrics::{CallSample, CallStatus};
use crate::observer::{CallEvent, CallEventObserver};
use crate::policy::PolicyDecision;
use crate::redaction;
use crate::registry::RegisteredTool;
use crate::result_truncation::json_len;
use crate::secret_guard::mask_decision;
use crate::tool::CallDescription;
use crate::tool_host::ToolHost;
use crate::user_wait::UserWaitClock;

/// Most bytes of hook texts and rewritten inputs in a row; of later ones only the size is recorded.
const HOOKS_BYTES_MAX: usize = 64 * 1024;

/// Name of the event that is logged and exported at the end of each call.
const TOOL_USED: &str = "tool_used";

/// The record of one call: filled while it runs, written exactly once.
pub(crate) struct CallRecord<'a> {
    host: &'a ToolHost,
    observer: Option<Arc<dyn CallEventObserver>>,
    call: CallId,
    pub(crate) span: tracing::Span,
    started_at: Instant,
    pub(crate) row: AuditRow,
    pub(crate) tool: Option<ToolName>,
    /// The values that no record and no event contains.
    pub(crate) secrets: Arc<SecretMask>,
    /// The resources that its commands use.
    pub(crate) usage: CallUsageMeter,
    /// The time in which it waits for the user.
    pub(crate) user_wait: Arc<UserWaitClock>,
    /// Attempts after the first one.
    pub(crate) retries: Arc<AtomicU32>,
    /// What its result tells beside its output.
    pub(crate) metadata: Arc<Mutex<ResultMetadata>>,
    is_finished: bool,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn new(
        host: &'a ToolHost,
        session: &ToolHostSession,
        dialect: &Dialect,
        call: &ToolCall,
    ) -> Self {
        let secrets = host.secrets.last_mask();
        let row = AuditRow {
            session: session.id().map(ToString::to_string),
            parent: session.parent().map(ToString::to_string),
            dialect: dialect.name().to_string(),
            input: redact_input(&secrets, &call.input),
            // Until the call finishes: the caller may drop it at any moment.
            status: CallStatus::Cancelled.as_str().to_owned(),
            ..AuditRow::new(Timestamp::now(), &call.id, &host.workspace, &call.tool)
        };
        let span = tracing::info_span!(
            "tool_call",
            tool = tracing::field::Empty,
            call_id = %call.id,
            status = tracing::field::Empty,
        );
        let (call, began) = (call.id.clone(), Instant::now());
        let observer = session.observer.clone();
        Self {
            host,
            observer,
            call,
            span,
            started_at: began,
            row,
            tool: None,
            secrets,
            usage: CallUsageMeter::default(),
            user_wait: Arc::default(),
            retries: Arc::default(),
            metadata: Arc::default(),
            is_finished: false,
        }
    }

    /// Brings the secret values up to date, and removes them from the recorded input.
    pub(crate) async fn refresh_secrets(&mut self, input: &Value) {
        let secrets = self.host.secrets.current_mask().await;
        if !Arc::ptr_eq(&secrets, &self.secrets) {
            self.row.input = redact_input(&secrets, input);
            self.secrets = secrets;
        }
    }

    /// Adds the values of files that became known while the call was decided.
    pub(crate) fn add_learned_secrets(&mut self) {
        let secrets = self.host.secrets.last_mask();
        if !Arc::ptr_eq(&secrets, &self.secrets) {
            secrets.mask_json(&mut self.row.input);
            self.secrets = secrets;
        }
    }

    pub(crate) fn record_tool(&mut self, name: &ToolName) {
        tracing::Span::current().record("tool", name.as_str());
        if self.row.tool != name.as_str() {
            self.row.asked_as = Some(std::mem::replace(&mut self.row.tool, name.to_string()));
        }
        self.tool = Some(name.clone());
    }

    pub(crate) fn record_description(
        &mut self,
        tool: &RegisteredTool,
        description: &CallDescription,
        effects: &[Effect],
    ) {
        let title = self.secrets.mask_text(&description.title).into_owned();
        self.row.title = Some(redaction::redact_and_shorten(&title));
        self.row.effects = effects
            .iter()
            .take(EFFECTS_MAX)
            .map(|effect| AuditEffect {
                kind: effect.kind().to_owned(),
                target: redaction::redact_and_shorten(&self.secrets.mask_text(&effect.target())),
                ..AuditEffect::default()
            })
            .collect();
        self.send_event(|call| CallEvent::Described {
            call,
            tool: tool.tool.spec().name.clone(),
            title,
            kind: tool.tool.spec().kind,
            locations: description.locations.clone(),
        });
    }

    /// Records the decision, for the call and each effect. Returns the part that the user's answer
    /// is added to.
    pub(crate) fn record_decision(&mut self, decision: &PolicyDecision) -> &mut AuditDecision {
        self.row.record_decision(&mask_decision(&self.secrets, decision))
    }

    /// Records what became of a call that the user tried.
    pub(crate) fn record_trial(&mut self, by: &str, answered: &str) {
        if let Some(decision) = &mut self.row.decision {
            decision.answered = Some(format!("{by}: {answered}"));
        }
    }

    /// Records a hook's answer. The total size of all answers is bounded.
    pub(crate) fn record_hook(&mut self, mut hook: AuditHook) {
        hook.input.iter_mut().for_each(|input| self.secrets.mask_json(input));
        hook.reason.iter_mut().for_each(|reason| self.secrets.mask_string(reason));
        let bytes = |hook: &AuditHook| {
            let reason = hook.reason.as_ref().map_or(0, String::len);
            hook.hook.len() + hook.source.len() + reason + hook.input.as_ref().map_or(0, json_len)
        };
        let noted: usize = self.row.hooks.iter().map(bytes).sum();
        if noted + bytes(&hook) > HOOKS_BYTES_MAX {
            let counted = |bytes: usize| format!("[{bytes} bytes]");
            hook.input = hook.input.map(|input| Value::String(counted(json_len(&input))));
            hook.reason = hook.reason.map(|reason| counted(reason.len()));
        }
        self.row.hooks.push(hook);
    }

    /// Writes the row that shows that the call runs. It reaches the disk before a call with side
    /// effects continues, so that neither a killed process nor a power cut hides the call.
    pub(crate) async fn write_begin(&self, effects: &[Effect]) -> Result<(), ToolError> {
        if let Some(started) = &self.host.started_calls {
            started.add(&self.call);
        }
        let unwritable = |error: io::Error| audit::unwritable_log_error(&error);
        let file = self.host.audit.write_begin(&self.row).map_err(unwritable)?;
        let Some(file) = file.filter(|_| effects.iter().any(has_side_effects)) else {
            return Ok(());
        };
        // A disk takes milliseconds, in which the other calls of this thread go on.
        let flushed = tokio::task::spawn_blocking(move || file.sync_data()).await;
        flushed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(unwritable)
    }

    /// What the result tells beside its output.
    pub(crate) fn result_metadata(&self) -> ResultMetadata {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that another tool is used because this one failed.
    pub(crate) fn record_fallback(&self, from: &ToolName, to: &ToolName, error: &ToolError) {
        let mut metadata = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        metadata.add_fallback(from.as_str(), to.as_str(), &error.message);
    }

    pub(crate) fn report_started(&self) {
        self.send_event(|call| CallEvent::Started { call });
    }

    fn send_event(&self, event: impl FnOnce(CallId) -> CallEvent) {
        if let Some(observer) = &self.observer {
            observer.on_event(&event(self.call.clone()));
        }
    }

    /// Writes the record. `error` is how the call failed, if it did.
    pub(crate) fn finish(&mut self, error: Option<&ToolError>) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        // Also reached when the call's future is dropped, outside of its span.
        let _in_span = self.span.clone().entered();
        let status = error.map_or(CallStatus::Ok, CallStatus::from_error);
        self.span.record("status", status.as_str());
        let duration = self.started_at.elapsed();
        let row = &mut self.row;
        status.as_str().clone_into(&mut row.status);
        row.duration_us = to_micros(duration);
        let user_wait = self.user_wait.total().min(duration);
        row.user_wait_us = to_micros(user_wait);
        row.usage = self.usage.usage();
        let attempts = self.retries.load(Ordering::Relaxed).saturating_add(1);
        row.attempts = (attempts > 1).then_some(attempts);
        row.fallback = last_fallback(&self.metadata);
        if let Some(error) = error {
            row.record_error(error);
        }
        if let Err(error) = self.host.audit.write(&self.row) {
            tracing::error!(%error, "cannot write an audit row");
        }
        // An unknown name is the caller's text and gets no counter of its own.
        let tool = self.tool.as_ref().map_or("(unknown)", ToolName::as_str);
        let worked = duration - user_wait;
        self.host.metrics.record(&CallSample {
            session: self.row.session.as_deref(),
            error: error.map(|error| (error.error_type, error.reason())),
            user_wait,
            queue_depth: self.row.queue_depth,
            attempts,
            fell_back: self.row.fallback.is_some(),
            usage: self.row.usage.unwrap_or_default(),
            ..CallSample::new(tool, status, worked)
        });
        // The name and the first three fields are what telemetry exports, and do not change.
        tracing::info!(
            name: TOOL_USED,
            tool,
            // Collectors know no unsigned numbers.
            duration_ms = i64::try_from(worked.as_millis()).unwrap_or(i64::MAX),
            success = status == CallStatus::Ok,
            status = status.as_str(),
            fallback = self.row.fallback.as_deref(),
            "tool_used"
        );
        self.send_event(|call| CallEvent::Ended { call, status: status.as_str() });
    }
}

/// What was used in the end because something else failed.
fn last_fallback(metadata: &Mutex<ResultMetadata>) -> Option<String> {
    let metadata = metadata.lock().unwrap_or_else(PoisonError::into_inner);
    metadata.fallbacks.last().map(|fallback| fallback.to.clone())
}

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whether an effect is more than a look at something.
fn has_side_effects(effect: &Effect) -> bool {
    !matches!(effect, Effect::Read(_) | Effect::Ask | Effect::State(_))
}

/// An input as it is recorded.
fn redact_input(secrets: &SecretMask, input: &Value) -> Value {
    if secrets.is_empty() {
        return redaction::redact_value(input);
    }
    let mut input = input.clone();
    secrets.mask_json(&mut input);
    redaction::redact_value(&input)
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        // Reached without a result only if the caller dropped the call's future.
        self.finish(Some(&ToolError::cancelled()));
    }
}
