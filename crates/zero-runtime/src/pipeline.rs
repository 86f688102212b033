//! resolve → validate → describe → effects → authorize → admit → execute → bound → record →
//! deliver: in that order, always.
//!
//! [`ToolHost::call`] is the only way to a tool. Each step can end the call; whatever ends it, and
//! even if the caller simply goes away, one audit row is written, one sample is counted and one
//! `Ended` event is sent: [`Ledger`] does that when it is dropped.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use zero_core::{
    ByteSize, Effect, Effects, ErrorType, Reason, ToolCall, ToolError, ToolName, ToolResult,
};

use crate::approver::{Answer, Question};
use crate::audit::{AuditDecision, AuditEffect, AuditRow};
use crate::bound::{bound, json_len};
use crate::breaker::Health;
use crate::context::{CallContext, Parts};
use crate::dialect::{Dialect, Rendered};
use crate::execute::{self, Terms, guarded};
use crate::host::ToolHost;
use crate::metrics::{Sample, Status};
use crate::observer::CallEvent;
use crate::policy::{PolicyRequest, Verdict};
use crate::redact;
use crate::registry::Registered;
use crate::session::Session;
use crate::tool::{AnyPlan, Description};

/// Stand-ins tried after each other when tools fail by themselves.
const FALLBACKS_MAX: usize = 2;

/// A result in the caller's dialect, with the canonical one it was made from.
#[derive(Debug)]
pub struct Outcome {
    /// The canonical result.
    pub result: ToolResult,
    /// The result as the caller's dialect writes it.
    pub rendered: Rendered,
}

/// What became of a call.
#[derive(Debug)]
pub struct Report {
    /// The tool by its canonical name, where one was found.
    pub tool: Option<ToolName>,
    /// What it was to do, where it came so far.
    pub title: Option<String>,
    /// The result, or why there is none.
    pub outcome: Result<Outcome, ToolError>,
}

impl ToolHost {
    /// Makes a call. This is the only way to a tool.
    pub async fn call(
        &self,
        session: &Session,
        dialect: &Dialect,
        call: ToolCall,
        cancel: &CancellationToken,
    ) -> Report {
        let mut ledger = Ledger::new(self, session, dialect, &call);
        let (asked, span) = (call.tool.clone(), ledger.span.clone());
        let outcome = async {
            self.audit.ready(ledger.row.time).map_err(|error| no_audit(&error))?;
            let result = self.walk(session, dialect, call, cancel, &mut ledger).await?;
            let rendered = dialect.render(&asked, &result);
            Ok(Outcome { result, rendered })
        }
        .instrument(span)
        .await
        .map_err(|error: ToolError| error.for_tool(&asked));
        ledger.settle(outcome.as_ref().err());
        Report { tool: ledger.tool.take(), title: ledger.row.title.take(), outcome }
    }

    /// The steps up to a bounded result.
    async fn walk(
        &self,
        session: &Session,
        dialect: &Dialect,
        call: ToolCall,
        cancel: &CancellationToken,
        ledger: &mut Ledger<'_>,
    ) -> Result<ToolResult, ToolError> {
        let mut tool = self.resolve(dialect, &call.tool)?;
        ledger.resolved(&tool.tool.spec().name);
        let mut input = self.validate(dialect, &tool, &call)?;
        let mut fallbacks = 0;
        loop {
            let spec = tool.tool.spec();
            let spare = spec.fallback.as_ref().and_then(|name| self.registry.get(name.as_str()));
            let spare = spare.filter(|_| fallbacks < FALLBACKS_MAX);
            let kept = spare.as_ref().map(|_| input.clone());
            let outcome = self.attempt(session, &tool, input, &call, cancel, ledger).await;
            match (outcome, spare, kept) {
                (Err(error), Some(spare), Some(kept)) if calls_for_fallback(&error) => {
                    fallbacks += 1;
                    ledger.row.fallback = Some(spare.tool.spec().name.to_string());
                    // The stand-in takes the same input, by its own schema, and is judged afresh.
                    input = spare.input.check(kept).map_err(|v| ToolError::from_violations(&v))?;
                    tool = spare;
                }
                (Err(error), ..) => return Err(error),
                (Ok(result), ..) => return bound(result, &call.id, &self.limits, session.spill()),
            }
        }
    }

    /// Step 1: the tool the caller means.
    fn resolve(&self, dialect: &Dialect, name: &str) -> Result<Arc<Registered>, ToolError> {
        dialect.resolve(&self.registry, name).ok_or_else(|| {
            let names = dialect.names(&self.registry);
            let near = crate::nearest::nearest(name, names.iter().map(String::as_str), 3);
            let hint = match &near[..] {
                [] => format!("known are {}", names.join(", ")),
                near => format!("did you mean {}?", near.join(", ")),
            };
            let shown: String =
                name.chars().take(ToolName::LEN_MAX).flat_map(char::escape_debug).collect();
            ToolError::not_found(Reason::UnknownTool, format!("there is no tool `{shown}`; {hint}"))
                .with("nearest", near)
        })
    }

    /// Step 2: every violation at once, in the caller's own words; then the canonical input.
    fn validate(
        &self,
        dialect: &Dialect,
        tool: &Registered,
        call: &ToolCall,
    ) -> Result<Value, ToolError> {
        let (size, most) = (json_len(&call.input), self.limits.input_bytes_max);
        if size > most.as_usize() {
            let message =
                format!("the input has {}, more than {most}", ByteSize::bytes(size as u64));
            return Err(ToolError::invalid(Reason::TooLarge, message));
        }
        dialect
            .to_canonical(&call.tool, tool, call.input.clone())
            .map_err(|violations| ToolError::from_violations(&violations))
    }

    /// Steps 3 to 7 for one tool.
    async fn attempt(
        &self,
        session: &Session,
        tool: &Registered,
        input: Value,
        call: &ToolCall,
        cancel: &CancellationToken,
        ledger: &mut Ledger<'_>,
    ) -> Result<ToolResult, ToolError> {
        let spec = tool.tool.spec();
        self.breakers.check(&spec.name)?;
        let mut probe = Probe { host: self, tool: &spec.name, health: Health::Unknown };
        let (plan, description, effects) = guarded(|| {
            let plan = tool.tool.plan(input, session.workspace())?;
            let (description, effects) = (plan.describe(), plan.effects());
            Ok((plan, description, effects))
        })
        .inspect_err(|error| probe.learn(error))?;
        ledger.described(tool, &description, &effects);
        let stop = cancel.child_token();
        let context = |permit| {
            CallContext::new(Parts {
                call: call.id.clone(),
                tool: spec.name.clone(),
                workspace: session.workspace().clone(),
                journal: self.journal.clone(),
                limits: Arc::clone(&self.limits),
                cancel: stop.clone(),
                seen: session.seen().cloned(),
                observer: self.observer.clone(),
                permit,
            })
        };
        self.authorize(tool, &*plan, &description, effects, &context(None), cancel, ledger).await?;
        ledger.row.queue_depth = self.admission.waiting();
        let longest = self.limits.timeout(spec.timeout_class);
        let permit = self.admission.admit(&session.lane, cancel, longest).await?;
        ledger.started();
        let terms = Terms {
            deadline: call.timeout.map_or(longest, |timeout| timeout.min(longest)),
            attempts_max: if spec.idempotent { self.limits.attempts_max } else { 1 },
            stop_grace: self.limits.stop_grace,
        };
        let cx = context(Some(permit));
        let (outcome, attempts) = execute::run(&*plan, &cx, cancel, &stop, terms).await;
        ledger.row.attempts = (attempts > 1).then_some(attempts);
        match &outcome {
            Ok(_) => probe.health = Health::Well,
            Err(error) => probe.learn(error),
        }
        outcome
    }

    /// Step 5: policy, then, where it says so, the person.
    #[expect(clippy::too_many_arguments, reason = "one step, with all that was learnt before it")]
    async fn authorize(
        &self,
        tool: &Registered,
        plan: &dyn AnyPlan,
        description: &Description,
        effects: Effects,
        cx: &CallContext,
        cancel: &CancellationToken,
        ledger: &mut Ledger<'_>,
    ) -> Result<(), ToolError> {
        let spec = tool.tool.spec();
        let decision = self.policy.decide(PolicyRequest { spec, effects: &effects });
        let noted = ledger.row.decision.insert(AuditDecision {
            verdict: decision.verdict.word().to_owned(),
            reason: redact::short_text(&decision.reason),
            rule: decision.rule.clone(),
            answered: None,
        });
        let denied = |reason, message: String| {
            let error = ToolError::new(ErrorType::PermissionDenied, reason, message)
                .with("risk", spec.risk.word());
            match &decision.rule {
                Some(rule) => error.with("matched_rule", rule.as_str()),
                None => error,
            }
        };
        let title = &description.title;
        match decision.verdict {
            Verdict::Allow => return Ok(()),
            Verdict::Deny => {
                return Err(denied(
                    Reason::Denied,
                    format!("{title}: denied, {}", decision.reason),
                ));
            }
            Verdict::Ask => {}
        }
        let Some(approver) = &self.approver else {
            let message = format!(
                "{title}: denied, because {} and nobody can be asked here; to allow it, {}",
                decision.reason, self.how_to_allow
            );
            return Err(denied(Reason::NoApprover, message));
        };
        let question = Question {
            tool: spec.name.clone(),
            title: title.clone(),
            reason: decision.reason.clone(),
            risk: spec.risk,
            effects,
            preview: guarded(|| Ok(plan.preview(cx)))?,
        };
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            answer = approver.ask(&question) => answer,
        };
        let word = match answer {
            Answer::AllowOnce => "allow once",
            Answer::Reject => "reject",
        };
        noted.answered = Some(format!("{}: {word}", approver.name()));
        match answer {
            Answer::AllowOnce => Ok(()),
            Answer::Reject => {
                let message =
                    format!("{title}: rejected by the person; ask what they would rather have");
                Err(denied(Reason::Rejected, message))
            }
        }
    }
}

/// A stand-in helps when the tool is unwell, not when its input is wrong.
fn calls_for_fallback(error: &ToolError) -> bool {
    error.blames_the_tool() || error.reason() == Some(Reason::CircuitOpen)
}

fn no_audit(error: &std::io::Error) -> ToolError {
    let advice = "no call is made without a trace; make room and make zero's state folder writable";
    let message = format!("the audit log cannot be written ({error}), and {advice}");
    let reason = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Reason::DiskFull,
        _ => Reason::AccessDenied,
    };
    ToolError::failed(reason, message)
}

/// Tells the breaker how a call ended, also when the caller goes away in the middle.
struct Probe<'a> {
    host: &'a ToolHost,
    tool: &'a ToolName,
    health: Health,
}

impl Probe<'_> {
    fn learn(&mut self, error: &ToolError) {
        self.health = if error.blames_the_tool() { Health::Unwell } else { Health::Unknown };
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.host.breakers.learn(self.tool, self.health);
    }
}

/// The record of one call: collected on the way, written exactly once.
struct Ledger<'a> {
    host: &'a ToolHost,
    call: zero_core::CallId,
    span: tracing::Span,
    began: Instant,
    row: AuditRow,
    tool: Option<ToolName>,
    settled: bool,
}

impl<'a> Ledger<'a> {
    fn new(host: &'a ToolHost, session: &Session, dialect: &Dialect, call: &ToolCall) -> Self {
        let row = AuditRow {
            time: Timestamp::now(),
            call: call.id.to_string(),
            session: session.id().map(ToString::to_string),
            workspace: host.workspace.cwd().display().to_string(),
            tool: redact::short_text(&call.tool),
            asked_as: None,
            dialect: dialect.name().to_string(),
            title: None,
            input: redact::value(&call.input),
            effects: Vec::new(),
            decision: None,
            status: Status::Cancelled.word().to_owned(),
            error_type: None,
            reason: None,
            message: None,
            duration_us: 0,
            queue_depth: 0,
            attempts: None,
            fallback: None,
        };
        let span =
            tracing::info_span!("tool_call", tool = tracing::field::Empty, call_id = %call.id);
        let (call, began) = (call.id.clone(), Instant::now());
        Self { host, call, span, began, row, tool: None, settled: false }
    }

    fn resolved(&mut self, name: &ToolName) {
        tracing::Span::current().record("tool", name.as_str());
        if self.row.tool != name.as_str() {
            self.row.asked_as = Some(std::mem::replace(&mut self.row.tool, name.to_string()));
        }
        self.tool = Some(name.clone());
    }

    fn described(&mut self, tool: &Registered, description: &Description, effects: &[Effect]) {
        self.row.title = Some(redact::short_text(&description.title));
        self.row.effects = effects
            .iter()
            .map(|effect| AuditEffect {
                kind: effect.kind().to_owned(),
                target: redact::short_text(&target(effect)),
            })
            .collect();
        self.tell(|call| CallEvent::Described {
            call,
            tool: tool.tool.spec().name.clone(),
            title: description.title.clone(),
            kind: tool.tool.spec().kind,
            locations: description.locations.clone(),
        });
    }

    fn started(&self) {
        self.tell(|call| CallEvent::Started { call });
    }

    fn tell(&self, event: impl FnOnce(zero_core::CallId) -> CallEvent) {
        if let Some(observer) = &self.host.observer {
            observer.event(&event(self.call.clone()));
        }
    }

    /// Writes the record. `error` is how the call failed, if it did.
    fn settle(&mut self, error: Option<&ToolError>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        // Also reached when the call's future is dropped, and then from outside its span.
        let _in_span = self.span.clone().entered();
        let status = error.map_or(Status::Ok, status_of);
        let duration = self.began.elapsed();
        let row = &mut self.row;
        status.word().clone_into(&mut row.status);
        row.duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(error) = error {
            row.error_type = Some(error.error_type.word().to_owned());
            row.reason = error.details.get("reason").and_then(Value::as_str).map(str::to_owned);
            row.message = Some(redact::short_text(&error.message));
        }
        if let Err(error) = self.host.audit.write(&self.row) {
            tracing::error!(%error, "an audit row could not be written");
        }
        // A name nobody registered is the caller's text: it is not worth a counter of its own.
        let tool = self.tool.as_ref().map_or("(unknown)", ToolName::as_str);
        let error_type = error.map(|error| error.error_type);
        let queue_depth = self.row.queue_depth;
        self.host.metrics.count(&Sample { tool, status, error_type, duration, queue_depth });
        tracing::info!(status = status.word(), duration_us = self.row.duration_us, "call ended");
        self.tell(|call| CallEvent::Ended { call, status: status.word() });
    }
}

impl Drop for Ledger<'_> {
    fn drop(&mut self) {
        // Reached unsettled only when the caller dropped the call's future.
        self.settle(Some(&ToolError::cancelled()));
    }
}

fn status_of(error: &ToolError) -> Status {
    match (error.error_type, error.reason()) {
        (ErrorType::Timeout, _) => Status::Timeout,
        (_, Some(Reason::Cancelled)) => Status::Cancelled,
        (_, Some(Reason::Panic)) => Status::Panic,
        (
            ErrorType::PermissionDenied,
            Some(Reason::Denied | Reason::NoApprover | Reason::Rejected),
        ) => Status::Denied,
        _ => Status::Error,
    }
}

fn target(effect: &Effect) -> String {
    match effect {
        Effect::Read(path) | Effect::Write(path) | Effect::Delete(path) => {
            path.canonical().display().to_string()
        }
        Effect::Exec(text) | Effect::Net(text) | Effect::State(text) => text.clone(),
        Effect::Mcp { server, tool } => format!("{server}/{tool}"),
        Effect::Ask => String::new(),
    }
}
