//! The record of one call, written exactly once whatever the way out.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use zero_core::{CallId, Effect, ErrorReason, ErrorType, ToolCall, ToolError, ToolName};

use crate::audit::{AuditDecision, AuditEffect, AuditHook, AuditRow};
use crate::dialect::Dialect;
use crate::host_session::ToolHostSession;
use crate::metrics::{CallSample, CallStatus};
use crate::observer::{CallEvent, CallEventObserver};
use crate::policy::{EffectDecision, PolicyDecision};
use crate::redaction;
use crate::registry::RegisteredTool;
use crate::result_truncation::json_len;
use crate::tool::CallDescription;
use crate::tool_host::ToolHost;

/// Effects a row holds; a command can have any number of them.
const EFFECTS_MAX: usize = 100;
/// What those may take of the row together, in bytes.
const EFFECTS_BYTES_MAX: usize = 32 * 1024;
/// What the words of hooks and the inputs that they wrote may take of the row together, in bytes; of
/// what comes later only how much it was is noted.
const HOOKS_BYTES_MAX: usize = 64 * 1024;

/// The record of one call: collected on the way, written exactly once.
pub(crate) struct CallRecord<'a> {
    host: &'a ToolHost,
    observer: Option<Arc<dyn CallEventObserver>>,
    call: CallId,
    pub(crate) span: tracing::Span,
    began: Instant,
    pub(crate) row: AuditRow,
    pub(crate) tool: Option<ToolName>,
    settled: bool,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn new(
        host: &'a ToolHost,
        session: &ToolHostSession,
        dialect: &Dialect,
        call: &ToolCall,
    ) -> Self {
        let row = AuditRow {
            session: session.id().map(ToString::to_string),
            dialect: dialect.name().to_string(),
            input: redaction::redact_value(&call.input),
            // Until it is settled: the caller may go away at any moment.
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
        Self { host, observer, call, span, began, row, tool: None, settled: false }
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
        self.row.title = Some(redaction::redact_and_shorten(&description.title));
        self.row.effects = effects
            .iter()
            .take(EFFECTS_MAX)
            .map(|effect| AuditEffect {
                kind: effect.kind().to_owned(),
                target: redaction::redact_and_shorten(&effect.target()),
                ..AuditEffect::default()
            })
            .collect();
        self.send_event(|call| CallEvent::Described {
            call,
            tool: tool.tool.spec().name.clone(),
            title: description.title.clone(),
            kind: tool.tool.spec().kind,
            locations: description.locations.clone(),
        });
    }

    /// Notes how the call was judged, as a whole and effect by effect. Gives back what is still to
    /// be filled in when a person answers.
    pub(crate) fn record_decision(&mut self, decision: &PolicyDecision) -> &mut AuditDecision {
        record_decision(&mut self.row, decision)
    }

    /// Notes what a hook said. What all of them wrote is bounded, as the rest of a row is.
    pub(crate) fn record_hook(&mut self, mut hook: AuditHook) {
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
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        // Also reached when the call's future is dropped, and then from outside its span.
        let _in_span = self.span.clone().entered();
        let status = error.map_or(CallStatus::Ok, status_from_error);
        self.span.record("status", status.as_str());
        let duration = self.began.elapsed();
        let row = &mut self.row;
        status.as_str().clone_into(&mut row.status);
        row.duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(error) = error {
            row.record_error(error);
        }
        if let Err(error) = self.host.audit.write(&self.row) {
            tracing::error!(%error, "an audit row could not be written");
        }
        // A name nobody registered is the caller's text: it is not worth a counter of its own.
        let tool = self.tool.as_ref().map_or("(unknown)", ToolName::as_str);
        let error_type = error.map(|error| error.error_type);
        let queue_depth = self.row.queue_depth;
        self.host.metrics.record(&CallSample { tool, status, error_type, duration, queue_depth });
        tracing::info!(status = status.as_str(), duration_us = self.row.duration_us, "call ended");
        self.send_event(|call| CallEvent::Ended { call, status: status.as_str() });
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        // Reached unsettled only when the caller dropped the call's future.
        self.finish(Some(&ToolError::cancelled()));
    }
}

/// Notes in a row how something was judged.
pub(crate) fn record_decision<'a>(
    row: &'a mut AuditRow,
    decision: &PolicyDecision,
) -> &'a mut AuditDecision {
    if !decision.effects.is_empty() {
        row.effects = audit_effects(&decision.effects);
    }
    row.decision.insert(AuditDecision {
        verdict: decision.verdict.as_str().to_owned(),
        reason: redaction::redact_and_shorten(&decision.reason),
        rule: decision.rule.as_deref().map(redaction::redact_and_shorten),
        source: decision.source.as_deref().map(redaction::redact_and_shorten),
        risk: Some(decision.risk.as_str().to_owned()),
        answered: None,
        grants: Vec::new(),
    })
}

/// The effects as a row holds them, the strictest verdicts first, for not all may fit.
fn audit_effects(effects: &[EffectDecision]) -> Vec<AuditEffect> {
    let mut effects: Vec<&EffectDecision> = effects.iter().collect();
    effects.sort_by_key(|effect| Reverse(effect.decision));
    let note = |effect: &EffectDecision| AuditEffect {
        kind: effect.kind.to_owned(),
        target: redaction::redact_and_shorten(&effect.target),
        decision: Some(effect.decision.as_str().to_owned()),
        rule: effect.rule.as_deref().map(redaction::redact_and_shorten),
    };
    let mut bytes = 0;
    let fits = |effect: &AuditEffect| {
        bytes += effect.target.len() + effect.rule.as_ref().map_or(0, String::len);
        bytes <= EFFECTS_BYTES_MAX
    };
    effects.into_iter().take(EFFECTS_MAX).map(note).take_while(fits).collect()
}

pub(crate) fn status_from_error(error: &ToolError) -> CallStatus {
    match (error.error_type, error.reason()) {
        (ErrorType::Timeout, _) => CallStatus::Timeout,
        (_, Some(ErrorReason::Cancelled)) => CallStatus::Cancelled,
        (_, Some(ErrorReason::Panic)) => CallStatus::Panic,
        (
            ErrorType::PermissionDenied,
            Some(
                ErrorReason::Denied
                | ErrorReason::Untrusted
                | ErrorReason::NoApprover
                | ErrorReason::Rejected,
            ),
        ) => CallStatus::Denied,
        _ => CallStatus::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Verdict;

    fn effect(target: &str, decision: Verdict) -> EffectDecision {
        let (target, reason) = (target.to_owned(), String::new());
        EffectDecision { kind: "read", target, decision, rule: None, source: None, reason }
    }

    #[test]
    fn excess_effects_keep_strictest() {
        let mut effects = vec![effect("a", Verdict::Allow), effect("b", Verdict::Allow)];
        effects.extend((0..1_000).map(|_| effect("c", Verdict::Ask)));
        effects.push(effect("d", Verdict::Deny));
        let rows = audit_effects(&effects);
        assert_eq!((rows.len(), rows[0].target.as_str()), (EFFECTS_MAX, "d"));
        let order: Vec<String> =
            audit_effects(&effects[..2]).into_iter().map(|row| row.target).collect();
        assert_eq!(order, ["a", "b"], "otherwise they stay as they are");
        let long: Vec<EffectDecision> =
            (0..EFFECTS_MAX).map(|_| effect(&"/x y".repeat(1_000), Verdict::Ask)).collect();
        let bytes: usize = audit_effects(&long).iter().map(|row| row.target.len()).sum();
        assert!(bytes > EFFECTS_BYTES_MAX / 2 && bytes <= EFFECTS_BYTES_MAX, "{bytes}");
    }
}
