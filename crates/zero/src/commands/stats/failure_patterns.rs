//! Groups the calls that ended with an error by what was in the way, to find causes that repeat.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use zero_core::text_shortening::one_line;
use zero_runtime::audit::AuditRow;

use crate::terminal::{FAINT, STRONG, TableCell, TerminalStream, TextTable};

/// Most causes that are counted; calls with further ones are counted together, without a cause.
const CAUSES_MAX: usize = 1_000;
/// Most sessions that are told apart for a cause.
const SESSIONS_MAX: usize = 1_000;
/// Causes in the table; `--json` has all that are counted.
const SHOWN_MAX: usize = 10;
/// Most characters of a message in the table.
const MESSAGE_CHARS_MAX: usize = 80;

/// What was in the way of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct FailureCause {
    tool: String,
    error_type: String,
    /// The stable word of the error, if it has one.
    reason: Option<String>,
    /// The rule that decided, of a denied call.
    rule: Option<String>,
}

/// The calls with one cause.
#[derive(Clone, Debug, Default, Serialize)]
struct FailurePattern {
    #[serde(flatten)]
    cause: FailureCause,
    calls: u64,
    /// In how many sessions; calls outside of sessions count as one.
    sessions: usize,
    first: Timestamp,
    last: Timestamp,
    /// The message of the last one.
    message: String,
    #[serde(skip)]
    known_sessions: BTreeSet<Option<String>>,
}

/// The causes of all errors in a span of time.
#[derive(Debug, Default)]
pub(super) struct FailurePatterns(BTreeMap<FailureCause, FailurePattern>);

impl FailurePatterns {
    pub(super) fn add(&mut self, row: &AuditRow) {
        let Some(error_type) = row.error_type.clone() else { return };
        let cause = FailureCause {
            tool: super::tool_name(row).to_owned(),
            error_type,
            reason: row.reason.clone(),
            rule: row
                .decision
                .as_ref()
                .filter(|it| it.verdict == "deny")
                .and_then(|it| it.rule.clone()),
        };
        let is_counted = self.0.contains_key(&cause) || self.0.len() < CAUSES_MAX;
        let cause = if is_counted { cause } else { FailureCause::default() };
        let pattern = self.0.entry(cause.clone()).or_insert_with(|| FailurePattern {
            cause,
            first: row.time,
            ..FailurePattern::default()
        });
        pattern.calls += 1;
        pattern.last = row.time;
        pattern.message = row.message.clone().unwrap_or_default();
        if pattern.known_sessions.len() < SESSIONS_MAX {
            pattern.known_sessions.insert(row.session.clone());
            pattern.sessions = pattern.known_sessions.len();
        }
    }

    /// The most frequent ones first.
    fn sorted(&self) -> Vec<&FailurePattern> {
        let mut patterns: Vec<_> = self.0.values().collect();
        patterns.sort_by_key(|pattern| Reverse((pattern.calls, pattern.last)));
        patterns
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self.sorted()).unwrap_or_default()
    }

    /// The causes that repeat; `None` if none does.
    pub(super) fn render(&self, out: &TerminalStream) -> Option<String> {
        let mut table =
            TextTable::new(["REPEATED ERROR", "TOOL", "CALLS", "SESSIONS", "LAST", "LAST MESSAGE"]);
        let mut patterns = self.sorted();
        patterns.retain(|pattern| pattern.calls > 1);
        for pattern in patterns.iter().take(SHOWN_MAX) {
            let cause = &pattern.cause;
            let name = match (&cause.rule, &cause.reason) {
                (Some(rule), _) => rule.clone(),
                (None, Some(reason)) => format!("{} ({reason})", cause.error_type),
                (None, None) if cause.tool.is_empty() => "(other)".to_owned(),
                (None, None) => cause.error_type.clone(),
            };
            table.add_row([
                TableCell::styled(name, STRONG),
                (&cause.tool).into(),
                pattern.calls.to_string().into(),
                pattern.sessions.to_string().into(),
                TableCell::styled(pattern.last.strftime("%Y-%m-%d %H:%M").to_string(), FAINT),
                one_line(&pattern.message, MESSAGE_CHARS_MAX).into(),
            ]);
        }
        (!patterns.is_empty()).then(|| table.render(out))
    }
}
