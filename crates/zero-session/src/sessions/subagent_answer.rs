//! The result of the call that started a sub-agent.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::json;
use zero_core::text_shortening::head;
use zero_core::{ErrorReason, ToolError, ToolOutcome, ToolResult};
use zero_runtime::tool_backend::WorktreeReport;

use crate::event::{EventKind, RunOutcome, TokenUsage};
use crate::turn::call_batch::TASK_TOOL;

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Where the totals of a sub-agent are in the result or error of its call.
const TOTALS_FIELD: &str = "totals";

/// What a sub-agent, and those that it started, used and were denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentTotals {
    /// What they used. The time is that of the sub-agent alone, since others work beside it.
    pub usage: TokenUsage,
    /// Number of their calls that were denied.
    pub denied_calls: u64,
}

impl SubagentTotals {
    /// The totals in the outcome of a call that started a sub-agent.
    fn from_outcome(outcome: &ToolOutcome) -> Option<Self> {
        let written = match outcome.error() {
            Some(error) => error.details.get(TOTALS_FIELD),
            None => outcome.result()?.structured.get(TOTALS_FIELD),
        };
        Self::deserialize(written?).ok()
    }

    /// Adds what another sub-agent used beside.
    pub fn add(&mut self, other: &Self) {
        self.usage += TokenUsage { work_ms: 0, ..other.usage };
        self.denied_calls = self.denied_calls.saturating_add(other.denied_calls);
    }
}

/// Adds up what the sub-agents of a run used, from the entries of the run. Other tools can answer with
/// the same field, so that only calls of `Task` count.
#[derive(Default)]
pub struct SubagentTally {
    /// The calls of `Task` that have not ended.
    open: HashSet<String>,
    totals: SubagentTotals,
}

impl SubagentTally {
    /// Looks at an entry of the run.
    pub fn add_event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::ToolStarted { call, name, .. } if name == TASK_TOOL => {
                self.open.insert(call.clone());
            }
            // It is made again in a run that was parked, whose begin was seen elsewhere.
            EventKind::ToolUpdated { call, subagent: Some(_), .. } => {
                self.open.insert(call.clone());
            }
            EventKind::ToolEnded { call, outcome, .. } if self.open.remove(call) => {
                if let Some(totals) = SubagentTotals::from_outcome(outcome) {
                    self.totals.add(&totals);
                }
            }
            _ => {}
        }
    }

    /// What was added up.
    pub fn totals(&self) -> &SubagentTotals {
        &self.totals
    }
}

/// What a sub-agent leaves.
pub(super) struct SubagentAnswer {
    /// Its name.
    pub(super) name: String,
    /// Key of its session.
    pub(super) session_key: String,
    /// How its run ended.
    pub(super) end: RunOutcome,
    /// What it used and was denied.
    pub(super) totals: SubagentTotals,
    /// Its last words.
    pub(super) text: String,
    /// What it changed in its worktree, or why that is not known.
    pub(super) worktree: Result<Option<WorktreeReport>, String>,
}

impl SubagentAnswer {
    /// The outcome for the model of the parent.
    pub(super) fn into_outcome(self) -> ToolOutcome {
        let Self { name, session_key, end, totals, text, worktree } = self;
        let usage = totals.usage;
        let mut report = match text.trim() {
            "" => "(the sub-agent gave no answer)".to_owned(),
            text => text.to_owned(),
        };
        if report.len() > ANSWER_BYTES_MAX {
            report.truncate(head(&report, ANSWER_BYTES_MAX).len());
            report
                .push_str(&format!("\n(cut: the whole answer is in the session `{session_key}`)"));
        }
        let (worktree, failure) = match worktree {
            Ok(worktree) => (worktree, None),
            Err(failure) => (None, Some(failure)),
        };
        if let Some(worktree) = &worktree {
            report.push_str(&describe_changes(worktree));
        }
        if let Some(failure) = failure {
            report.push_str(&format!("\n\nIts changes are not on a branch: {failure}"));
        }
        let calls = usage.tool_calls;
        let about = format!("sub-agent `{name}`, session `{session_key}`, {calls} tool calls");
        match describe_failure(&end) {
            None => {
                let structured = json!({
                    "agent": name,
                    "session": session_key,
                    "toolCalls": calls,
                    "inputTokens": usage.input_tokens,
                    "outputTokens": usage.output_tokens,
                    "worktree": worktree,
                    TOTALS_FIELD: totals,
                });
                ToolResult { structured, ..ToolResult::text(format!("{report}\n\n({about})")) }
                    .into()
            }
            Some((reason, why)) => {
                let message = format!("{why} ({about}). Its last words:\n{report}");
                let error = ToolError::failed(reason, message).with_tool(TASK_TOOL);
                error.with_detail(TOTALS_FIELD, json!(totals)).into()
            }
        }
    }
}

fn describe_changes(worktree: &WorktreeReport) -> String {
    let WorktreeReport { branch, base, files, diff, is_cut, notes } = worktree;
    let mut text = match files {
        0 => "\n\nIt changed no files.".to_owned(),
        _ => {
            let cut = match is_cut {
                true => format!("\n(cut: `git diff {base} {branch}` shows all of it)"),
                false => String::new(),
            };
            format!(
                "\n\nIt changed {files} files in its worktree, which are now on the branch `{branch}` (from {base}). \
                 Nothing is in your folder yet: `git merge {branch}` takes the changes, `git branch -D {branch}` \
                 discards them.\n```diff\n{}\n```{cut}",
                diff.trim_end(),
            )
        }
    };
    for note in notes {
        text.push_str(&format!("\nNot on the branch: {note}"));
    }
    text
}

/// Why a run did not complete; `None` if it did.
fn describe_failure(end: &RunOutcome) -> Option<(ErrorReason, String)> {
    use ErrorReason::{Cancelled, RemoteFailure, ResourceExhausted};
    let (reason, why) = match end {
        RunOutcome::Completed => return None,
        RunOutcome::MaxTokens => (
            ResourceExhausted,
            "the sub-agent's answer is cut: its output limit was reached".to_owned(),
        ),
        RunOutcome::MaxTurns { turns } => {
            (ResourceExhausted, format!("the sub-agent was stopped after {turns} model requests"))
        }
        RunOutcome::Budget { message } => {
            (ResourceExhausted, format!("the sub-agent was stopped: {message}"))
        }
        RunOutcome::Refused { message } => {
            (RemoteFailure, format!("the model of the sub-agent refused to answer: {message}"))
        }
        RunOutcome::Aborted { by } => (Cancelled, format!("the sub-agent was stopped by {by}")),
        RunOutcome::Failed { message, .. } => {
            (RemoteFailure, format!("the sub-agent failed: {message}"))
        }
        RunOutcome::Interrupted => {
            (ErrorReason::Interrupted, "the sub-agent was killed".to_owned())
        }
    };
    Some((reason, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a call with totals in its result.
    fn ended(call: &str) -> EventKind {
        let totals = SubagentTotals { denied_calls: 1, ..SubagentTotals::default() };
        let structured = json!({ TOTALS_FIELD: totals });
        EventKind::tool_ended(call, ToolResult { structured, ..ToolResult::text("done") }.into())
    }

    #[test]
    fn call_that_is_made_again_counts_and_other_tools_do_not() {
        let begun_elsewhere = EventKind::ToolUpdated {
            call: "task".to_owned(),
            title: None,
            kind: None,
            locations: Vec::new(),
            progress: None,
            begins: false,
            subagent: Some("agent:main:s.task".to_owned()),
        };
        let mut tally = SubagentTally::default();
        for kind in [ended("other"), begun_elsewhere, ended("task"), ended("task")] {
            tally.add_event(&kind);
        }
        assert_eq!(tally.totals().denied_calls, 1);
    }
}
