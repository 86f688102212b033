//! The combined verdict of hooks, for policy, the user and the model.
//!
//! A hook may repeat untrusted text, so its own text is sanitized, bounded and labelled.

use serde_json::Value;
use zero_core::ansi_filter;
use zero_core::sanitize::replace_unsafe_chars;
use zero_core::text_shortening::{head_chars, shorten_end};
use zero_core::tool_result::{ToolResult, ToolResultPart};
use zero_core::{CallId, ToolError};

use super::hook::Hook;
use super::time_budget::HookTimeBudget;
use crate::audit::HOOK_RULE;
use crate::policy::{PolicyDecision, Verdict};

/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 1_000;
/// Most characters of one remark.
const REMARK_CHARS_MAX: usize = 4_000;
/// Most characters of all remarks about a call.
const REMARKS_CHARS_MAX: usize = 16_000;

/// The verdict of all hooks before a call.
#[derive(Debug, Default)]
pub(crate) struct HookVerdict {
    /// The input that will run.
    pub(crate) input: Value,
    /// The remaining time budget of the call's hooks.
    pub(super) time: HookTimeBudget,
    /// The hooks that rewrote the input.
    rewriters: Vec<String>,
    ask_requests: Vec<HookAskRequest>,
}

/// A hook's request for approval.
#[derive(Debug)]
struct HookAskRequest {
    rule: String,
    source: String,
    words: String,
}

impl HookVerdict {
    /// No verdict about an input.
    pub(super) fn new(input: Value) -> Self {
        Self { input, ..Self::default() }
    }

    pub(super) fn record_rewrite(&mut self, hook: &Hook, input: Value) {
        self.input = input;
        self.rewriters.push(hook.to_string());
    }

    pub(super) fn record_ask(&mut self, hook: &Hook, reason: &str) {
        let words = format!("{hook} asks: {}", clean_line(reason));
        self.ask_requests.push(HookAskRequest {
            rule: hook_rule(hook),
            source: hook.written_at.clone(),
            words,
        });
    }

    /// Whether a hook requires approval.
    pub(crate) fn asks(&self) -> bool {
        !self.ask_requests.is_empty()
    }

    /// Whether the input differs from the caller's.
    pub(crate) fn is_rewritten(&self) -> bool {
        !self.rewriters.is_empty()
    }

    /// The input that will run, if it differs from the caller's.
    pub(crate) fn rewritten_input(&self) -> Option<&Value> {
        self.is_rewritten().then_some(&self.input)
    }

    /// A decision that is at least as strict as the hooks require, and that tells the user what
    /// they did.
    pub(crate) fn apply_to(&self, mut decision: PolicyDecision) -> PolicyDecision {
        if let (Verdict::Allow, Some(first)) = (decision.verdict, self.ask_requests.first()) {
            decision.verdict = Verdict::Ask;
            decision.rule = Some(first.rule.clone());
            decision.source = Some(first.source.clone());
            decision.reason = String::new();
        }
        if decision.verdict == Verdict::Ask {
            let asks = self.ask_requests.iter().map(|ask_request| ask_request.words.clone());
            let rewrote = self.rewriters.iter().map(|hook| format!("{hook} rewrote the input"));
            let reason = Some(decision.reason).filter(|reason| !reason.is_empty());
            let reasons: Vec<String> = reason.into_iter().chain(asks).chain(rewrote).collect();
            decision.reason = reasons.join("; ");
        }
        decision
    }

    /// Tells the model that the input of its call was rewritten.
    pub(crate) fn annotate_outcome(
        &self,
        outcome: Result<ToolResult, ToolError>,
        call: &CallId,
    ) -> Result<ToolResult, ToolError> {
        let mut remarks = HookRemarks::new(call);
        if self.is_rewritten() {
            let who = self.rewriters.join(" and ");
            let head = format!("{who} rewrote the input of this call to");
            remarks.add(&head, &self.input.to_string());
        }
        remarks.append_to(outcome)
    }
}

/// The decision on a call that a hook denies.
pub(super) fn deny_decision(hook: &Hook, reason: &str, decision: PolicyDecision) -> PolicyDecision {
    PolicyDecision {
        verdict: Verdict::Deny,
        reason: format!("{hook} denies it: {}", clean_line(reason)),
        rule: Some(hook_rule(hook)),
        source: Some(hook.written_at.clone()),
        grants: Vec::new(),
        ..decision
    }
}

/// The name of a hook in the `rule` field.
fn hook_rule(hook: &Hook) -> String {
    format!("{HOOK_RULE}{}", clean_line(&hook.command()))
}

/// A hook's text of several lines.
pub(super) fn clean_text(words: &str) -> String {
    clean(words, REASON_CHARS_MAX)
}

fn clean_line(words: &str) -> String {
    clean_text(words).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn clean(words: &str, chars_max: usize) -> String {
    // Text beyond the limit is not scanned.
    let plain = ansi_filter::strip(head_chars(words, 4 * chars_max).as_bytes());
    shorten_end(replace_unsafe_chars(&plain).trim_end(), chars_max)
}

/// Remarks about a call for the model. Each is delimited with a number that the author of untrusted
/// content cannot guess.
#[derive(Debug)]
pub(crate) struct HookRemarks {
    number: String,
    chars_left: usize,
    texts: Vec<String>,
}

impl HookRemarks {
    pub(super) fn new(call: &CallId) -> Self {
        Self { number: call.to_string(), chars_left: REMARKS_CHARS_MAX, texts: Vec::new() }
    }

    /// Adds a hook's remark.
    pub(super) fn add_hook_remark(&mut self, hook: &Hook, words: &str) {
        self.add(&format!("{hook} says"), words);
    }

    fn add(&mut self, head: &str, words: &str) {
        let chars_max = REMARK_CHARS_MAX.min(self.chars_left);
        if chars_max == 0 {
            return;
        }
        // A hook knows the number and may repeat untrusted text.
        let words = clean(&words.replace(&self.number, "…"), chars_max);
        self.chars_left -= chars_max.min(words.chars().count());
        let number = &self.number;
        self.texts.push(format!("[{head}, {number}:]\n{words}\n[end of {number}]"));
    }

    /// The outcome with the remarks appended.
    pub(crate) fn append_to(
        self,
        mut outcome: Result<ToolResult, ToolError>,
    ) -> Result<ToolResult, ToolError> {
        for text in self.texts {
            match &mut outcome {
                Ok(result) => result.content.push(ToolResultPart::Text(text)),
                Err(error) => error.message.push_str(&format!("\n\n{text}")),
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use zero_core::{CommandLimitChange, ErrorReason, ResultDisplay, RiskLevel};

    use super::super::hook::HookFailureAction;
    use super::super::tool_pattern::ToolPattern;
    use super::*;
    use zero_exec::LaunchAccess;

    fn hook(command: &str) -> Hook {
        Hook {
            tools: vec![ToolPattern::All],
            words: vec![command.to_owned()],
            timeout: Duration::from_secs(1),
            access: LaunchAccess::ReadOnly,
            on_failure: HookFailureAction::Deny,
            files: Vec::new(),
            written_at: "s:1".to_owned(),
        }
    }

    fn decision(verdict: Verdict) -> PolicyDecision {
        PolicyDecision {
            verdict,
            reason: "by rule".to_owned(),
            rule: Some("Bash".to_owned()),
            source: None,
            risk: RiskLevel::Low,
            effects: Vec::new(),
            grants: Vec::new(),
            limits: CommandLimitChange::default(),
            access: None,
        }
    }

    #[test]
    fn hooks_only_make_decision_stricter() {
        #[track_caller]
        fn check(hooks: &HookVerdict, verdict: Verdict, expected: (Verdict, &str, &str)) {
            let PolicyDecision { verdict, reason, rule, .. } = hooks.apply_to(decision(verdict));
            assert_eq!(
                (verdict, reason.as_str(), rule.as_deref()),
                (expected.0, expected.1, Some(expected.2))
            );
        }
        let nothing = HookVerdict::default();
        let mut asks = HookVerdict::default();
        asks.record_ask(&hook("./a"), "is it\nright?");
        let mut both = HookVerdict::default();
        both.record_ask(&hook("./a"), "sure?");
        both.record_rewrite(&hook("./b"), json!({}));
        let mut rewrites = HookVerdict::default();
        rewrites.record_rewrite(&hook("./b"), json!({}));
        for verdict in Verdict::ALL {
            check(&nothing, verdict, (verdict, "by rule", "Bash"));
        }
        let asked = "hook `./a` (s:1) asks: is it right?";
        check(&asks, Verdict::Allow, (Verdict::Ask, asked, "hook ./a"));
        check(&asks, Verdict::Ask, (Verdict::Ask, &format!("by rule; {asked}"), "Bash"));
        check(&asks, Verdict::Deny, (Verdict::Deny, "by rule", "Bash"));
        check(&rewrites, Verdict::Allow, (Verdict::Allow, "by rule", "Bash"));
        let reason = "by rule; hook `./b` (s:1) rewrote the input";
        check(&rewrites, Verdict::Ask, (Verdict::Ask, reason, "Bash"));
        let reason = "hook `./a` (s:1) asks: sure?; hook `./b` (s:1) rewrote the input";
        check(&both, Verdict::Allow, (Verdict::Ask, reason, "hook ./a"));
        check(&rewrites, Verdict::Deny, (Verdict::Deny, "by rule", "Bash"));
    }

    fn outcome() -> Result<ToolResult, ToolError> {
        Ok(ToolResult {
            content: vec![ToolResultPart::Text("done".to_owned())],
            display: ResultDisplay::markdown(""),
            structured: Value::Null,
            locations: vec![],
            metadata: zero_core::ResultMetadata::default(),
        })
    }

    #[test]
    fn remark_is_marked_bounded_and_sanitized() {
        let call = CallId::new("c1").unwrap();
        let mut remarks = HookRemarks::new(&call);
        remarks.add_hook_remark(&hook("./fmt\u{1b}`"), "\u{1b}[2Jfine\u{202e}\r\nyes\n");
        let result = remarks.append_to(outcome()).unwrap();
        let [ToolResultPart::Text(done), ToolResultPart::Text(text)] = &result.content[..] else {
            panic!("{result:?}")
        };
        assert_eq!(done, "done");
        assert_eq!(text, "[hook `./fmt '` (s:1) says, c1:]\nfine\u{fffd}\nyes\n[end of c1]");
        let mut remarks = HookRemarks::new(&call);
        for _ in 0..20 {
            remarks.add_hook_remark(&hook("./flood"), &"x".repeat(1_000_000));
        }
        let bytes: usize = remarks.texts.iter().map(String::len).sum();
        assert!(bytes < REMARKS_CHARS_MAX + 1_000, "{bytes}");
        assert_eq!(remarks.texts.len(), REMARKS_CHARS_MAX / REMARK_CHARS_MAX);
    }

    #[test]
    fn rewritten_call_error_keeps_message_and_reason() {
        let mut verdict = HookVerdict::default();
        verdict.record_rewrite(&hook("./b"), json!({"a": 1}));
        let error = verdict.annotate_outcome(
            Err(ToolError::failed(ErrorReason::Io, "no")),
            &CallId::new("c1").unwrap(),
        );
        let error = error.unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::Io));
        assert_eq!(
            error.message,
            "no\n\n[hook `./b` (s:1) rewrote the input of this call to, c1:]\n{\"a\":1}\n[end of c1]"
        );
        assert_eq!(
            HookVerdict::default().annotate_outcome(outcome(), &CallId::new("c1").unwrap()),
            outcome()
        );
    }
}
