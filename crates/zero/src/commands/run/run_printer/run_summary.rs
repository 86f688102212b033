//! What happened in a run: the result that `--json` prints, and the exit code.

use serde_json::{Value, json};
use zero_core::ToolOutcome;
use zero_core::event::{EventKind, RunOutcome, TokenUsage, ToolCallStatus};
use zero_runtime::audit::UNWRITABLE_LOG;
use zero_session::agent::DIRECT;
use zero_session::output_schema::OutputSchema;
use zero_session::sessions::{SubagentTally, SubagentTotals};

use super::call_rendering::{extract_error, failed_exit_code, join_text};
use crate::exit::ExitOutcome;

/// The events of a run so far, in short.
pub(super) struct RunSummary {
    /// Schema that the answer must fit.
    output_schema: Option<OutputSchema>,
    /// Whether the prompt is a slash command, which may call a tool without the model.
    is_slash_command: bool,
    /// What sub-agents used.
    subagents: SubagentTally,
    /// Whether the run has no model; a failed call then makes the run fail.
    is_direct: bool,
    /// Whether a call was denied, also one of a sub-agent.
    has_denied_call: bool,
    has_failed_call: bool,
    has_completed_call: bool,
    has_failed_command: bool,
    /// Whether a call was refused because the audit log cannot be written.
    is_log_unwritable: bool,
    /// The answer that a slash command would have, if it made the last call.
    direct_answer: Option<String>,
    /// Error of the last failed call, if it was shown completely.
    shown_error: Option<String>,
    /// What the model wrote after its last call.
    answer: String,
    agent: String,
    model: String,
    end: Option<(RunOutcome, TokenUsage)>,
}

impl RunSummary {
    pub(super) fn new(output_schema: Option<OutputSchema>, is_slash_command: bool) -> Self {
        Self {
            output_schema,
            is_slash_command,
            subagents: SubagentTally::default(),
            is_direct: false,
            has_denied_call: false,
            has_failed_call: false,
            has_completed_call: false,
            has_failed_command: false,
            is_log_unwritable: false,
            direct_answer: None,
            shown_error: None,
            answer: String::new(),
            agent: String::new(),
            model: String::new(),
            end: None,
        }
    }

    /// Adds an event. Returns how many calls of sub-agents it says were denied.
    pub(super) fn add_event(&mut self, kind: &EventKind) -> u64 {
        let denied_before = self.subagents.totals().denied_calls;
        self.subagents.add_event(kind);
        let denied_calls = self.subagents.totals().denied_calls;
        match kind {
            EventKind::RunStarted { model, agent, .. } => {
                self.is_direct = model == DIRECT;
                self.model.clone_from(model);
                self.agent.clone_from(agent);
            }
            EventKind::ToolEnded { status, outcome, .. } => {
                self.has_denied_call |= denied_calls > 0;
                self.add_call_end(*status, outcome);
            }
            EventKind::ToolStarted { .. } => self.answer.clear(),
            EventKind::ModelFallback { to, .. } => self.model.clone_from(to),
            // The model writes its answer again.
            EventKind::Notice { topic, .. } if topic == "output_schema" => self.answer.clear(),
            EventKind::RunEnded { end, usage } => self.set_end(end.clone(), *usage),
            // The answer equals the call's error or output: a slash command bypassed the model.
            EventKind::Text { text } => {
                self.answer.push_str(text);
                let answers = [&self.shown_error, &self.direct_answer];
                self.is_direct |= answers.into_iter().any(|answer| answer.as_ref() == Some(text));
            }
            _ => {}
        }
        denied_calls.saturating_sub(denied_before)
    }

    fn add_call_end(&mut self, status: ToolCallStatus, outcome: &ToolOutcome) {
        self.has_denied_call |= status == ToolCallStatus::Denied;
        self.has_failed_call |= status == ToolCallStatus::Failed;
        self.has_completed_call |= status == ToolCallStatus::Completed;
        self.has_failed_command |= failed_exit_code(outcome).is_some();
        self.is_log_unwritable |=
            status == ToolCallStatus::Failed && join_text(outcome).contains(UNWRITABLE_LOG);
        self.shown_error = extract_error(status, outcome);
        self.direct_answer = self.is_slash_command.then(|| join_text(outcome));
    }

    pub(super) fn set_end(&mut self, end: RunOutcome, usage: TokenUsage) {
        self.end = Some((end, usage));
    }

    /// Whether the run has no model, as far as is known.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether a text repeats the error of the last call, which was shown.
    pub(super) fn is_shown_error(&self, text: &str) -> bool {
        self.shown_error.as_deref() == Some(text)
    }

    /// The value of the answer, if it must fit a schema.
    pub(super) fn parse_answer(&self) -> Option<Result<Value, String>> {
        Some(self.output_schema.as_ref()?.parse_answer(&self.answer))
    }

    pub(super) fn exit_outcome(&self, end: &RunOutcome) -> ExitOutcome {
        match end {
            RunOutcome::Completed if matches!(self.parse_answer(), Some(Err(_))) => {
                ExitOutcome::Misfit
            }
            RunOutcome::Completed if self.has_denied_call => ExitOutcome::Denied,
            RunOutcome::Completed
                if self.is_direct && (self.has_failed_call || self.has_failed_command) =>
            {
                ExitOutcome::Error
            }
            // The agent could do nothing at all, whatever it said in the end.
            RunOutcome::Completed if self.is_log_unwritable && !self.has_completed_call => {
                ExitOutcome::Error
            }
            RunOutcome::Completed => ExitOutcome::Ok,
            RunOutcome::MaxTokens | RunOutcome::MaxTurns { .. } | RunOutcome::Budget { .. } => {
                ExitOutcome::Limit
            }
            RunOutcome::Aborted { by } if by == "rpc" => ExitOutcome::Interrupted,
            RunOutcome::Failed { kind, .. } if kind == "output_schema" => ExitOutcome::Misfit,
            _ => ExitOutcome::Error,
        }
    }

    /// The result of the run as one JSON object.
    pub(super) fn to_json(&self, session: &str, run: &str, exit: ExitOutcome) -> Value {
        let (outcome, usage) = match &self.end {
            Some((end, usage)) => (serde_json::to_value(end).unwrap_or_default(), *usage),
            None => (Value::Null, TokenUsage::default()),
        };
        let mut all = SubagentTotals { usage, denied_calls: 0 };
        all.add(self.subagents.totals());
        let usage = all.usage;
        let mut result = json!({
            "type": "result",
            "answer": self.answer,
            "session": session,
            "run": run,
            "agent": self.agent,
            "model": self.model,
            "outcome": outcome,
            "exit_code": exit.code(),
            "usage": usage,
            "cost_usd": usage.cost_usd,
        });
        if let (Some(answer), ExitOutcome::Ok | ExitOutcome::Denied) = (self.parse_answer(), exit) {
            result["output"] = answer.unwrap_or_default();
        }
        result
    }
}
