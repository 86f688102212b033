//! Reconstructs a call from its audit row.
//!
//! Rows are redacted before they are written: file contents are replaced by their size, secrets are
//! removed, and long texts are truncated. Most of what the policy needs is still there. Otherwise, the
//! recorded effects are used; a truncated command cannot be reconstructed.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zero_core::{Effect, Effects, PathZone, TargetPath, ToolDefinitionState};
use zero_policy::Verdict;
use zero_runtime::audit::{AuditEffect, AuditRow};
use zero_runtime::notes::{NoteName, NoteScope};
use zero_runtime::redaction::{self, REDACTED};
use zero_runtime::simulated_call::SimulatedCall;

use crate::policy::PolicyEvaluator;

/// Largest list in a row; a list of this length may be truncated.
const ITEMS_MAX: usize = 64;
/// Largest number of effects in a row.
const EFFECTS_MAX: usize = 100;
/// Nesting depth to which an input is checked.
const DEPTH_MAX: usize = 8;

/// Result of reconstructing a row.
#[derive(Debug)]
pub(super) enum ReplayOutcome {
    /// The call and its recorded verdict.
    Call(SimulatedCall, Verdict),
    /// The call ended before the policy check.
    NotEvaluated,
    /// The call cannot be reconstructed.
    Failed(ReplayFailure),
}

/// Why a call cannot be evaluated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReplayFailure {
    /// A relevant text or list was truncated in the log.
    Truncated,
    /// A relevant text contained a secret.
    Redacted,
    /// The tool or its input is unknown.
    Unknown,
    /// The settings of its workspace are invalid.
    BadSettings,
    /// A hook was stricter than the rules, so the verdict of the rules was not recorded.
    StricterHook,
}

impl ReplayFailure {
    /// Stable identifier, used in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "cut",
            Self::Redacted => "redacted",
            Self::Unknown => "unknown",
            Self::BadSettings => "settings",
            Self::StricterHook => "hook",
        }
    }

    /// Description for the report, completing "N calls …".
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Truncated => "truncated in the log",
            Self::Redacted => "with a redacted secret",
            Self::Unknown => "of unknown tools or inputs",
            Self::BadSettings => "in folders with invalid settings",
            Self::StricterHook => "decided by a hook",
        }
    }
}

/// Whether a row records a tool call.
pub(super) fn is_call(row: &AuditRow) -> bool {
    row.tool != "undo" && row.is_call()
}

/// Reconstructs the call of a row.
pub(super) fn replay_row(evaluator: &PolicyEvaluator, row: &AuditRow) -> ReplayOutcome {
    let then = row.decision.as_ref().map(|decision| decision.verdict.as_str());
    let Some(then) = Verdict::ALL.into_iter().find(|verdict| Some(verdict.as_str()) == then) else {
        return ReplayOutcome::NotEvaluated;
    };
    if row.is_decided_by_hook() {
        return ReplayOutcome::Failed(ReplayFailure::StricterHook);
    }
    let subject = call_from_input(evaluator, row);
    let subject = subject.or_else(|lost| call_from_effects(evaluator, row).ok_or(lost));
    match subject {
        Ok(mut subject) => {
            if then == Verdict::Allow {
                mark_own_results(evaluator, &mut subject.effects);
            }
            ReplayOutcome::Call(subject, then)
        }
        Err(lost) => ReplayOutcome::Failed(lost),
    }
}

/// Call with the recorded input, if nothing is missing of what the policy evaluates.
fn call_from_input(
    evaluator: &PolicyEvaluator,
    row: &AuditRow,
) -> Result<SimulatedCall, ReplayFailure> {
    let input = row.effective_input();
    if has_truncated_list(input, 0) {
        return Err(ReplayFailure::Truncated);
    }
    let subject = evaluator
        .resolve_call(row.asked_as.as_deref().unwrap_or(&row.tool), input, row.dialect.parse().ok())
        // A hook rewrites the canonical input.
        .or_else(|_| evaluator.resolve_call(&row.tool, input, None))
        .map_err(|_| ReplayFailure::Unknown)?;
    let lost = subject.effects.iter().find_map(|effect| find_text_damage(&format!("{effect:?}")));
    let lost_argument =
        || evaluator.limits_arguments(&subject.tool).then(|| find_damage(input)).flatten();
    match lost.or_else(lost_argument) {
        Some(lost) => Err(lost),
        None => Ok(subject),
    }
}

/// Finds truncation or redaction in a recorded value.
fn find_damage(value: &Value) -> Option<ReplayFailure> {
    match value {
        Value::String(text) => find_text_damage(text)
            .or_else(|| redaction::is_size_placeholder(text).then_some(ReplayFailure::Truncated)),
        Value::Array(items) => items.iter().find_map(find_damage),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, field)| find_text_damage(name).or_else(|| find_damage(field))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Whether a recorded value has a list that may be truncated.
fn has_truncated_list(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= DEPTH_MAX => true,
        Value::Array(items) => {
            items.len() >= ITEMS_MAX || items.iter().any(|item| has_truncated_list(item, depth + 1))
        }
        Value::Object(fields) => {
            fields.len() >= ITEMS_MAX
                || fields.values().any(|field| has_truncated_list(field, depth + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Finds truncation or redaction in a text that was made from recorded ones.
fn find_text_damage(text: &str) -> Option<ReplayFailure> {
    if text.contains(REDACTED) {
        Some(ReplayFailure::Redacted)
    } else {
        (text.contains("… (") && text.contains(" bytes in all)"))
            .then_some(ReplayFailure::Truncated)
    }
}

/// Call with the recorded effects, if they are complete and none is a command.
fn call_from_effects(evaluator: &PolicyEvaluator, row: &AuditRow) -> Option<SimulatedCall> {
    let is_incomplete = row.effects.len() >= EFFECTS_MAX || evaluator.limits_arguments(&row.tool);
    if row.effects.is_empty() || is_incomplete {
        return None;
    }
    let mut effects = Effects::new();
    for recorded in row.effects.iter().filter(|effect| effect.kind != "tool") {
        effects.push(rebuild_effect(recorded, row.effective_input(), &evaluator.context().roots)?);
    }
    Some(evaluator.call_from_effects(&row.tool, effects))
}

fn rebuild_effect(recorded: &AuditEffect, input: &Value, roots: &[PathBuf]) -> Option<Effect> {
    let AuditEffect { kind, target, .. } = recorded;
    if find_text_damage(target).is_some() {
        return None;
    }
    let path = || {
        let canonical = PathBuf::from(target);
        let inside = roots.iter().any(|root| canonical.starts_with(root));
        let whereabouts = if inside { PathZone::Workspace } else { PathZone::Outside };
        canonical.is_absolute().then(|| TargetPath::new(target, canonical, whereabouts))
    };
    match kind.as_str() {
        "read" => path().map(Effect::Read),
        "write" => path().map(Effect::Write),
        "delete" => path().map(Effect::Delete),
        "net" => Some(Effect::Net(target.clone())),
        "mcp" => {
            let (server, tool) = target.split_once('/')?;
            Some(Effect::Mcp {
                server: server.to_owned(),
                tool: tool.to_owned(),
                definition: ToolDefinitionState::Steady,
            })
        }
        "ask" => Some(Effect::Ask),
        "state" => Some(Effect::State(target.clone())),
        "note" => {
            let (scope, name) = target.split_once('/')?;
            let scope = NoteScope::ALL.into_iter().find(|one| one.as_str() == scope)?;
            // The effect does not record whether the note was saved or deleted.
            let forgets = input.get("action").and_then(Value::as_str) == Some("forget");
            Some(Effect::Note(scope.note_change(
                &NoteName::new(name).ok()?,
                forgets,
                roots.first()?,
            )))
        }
        "endpoint" => Some(Effect::Endpoint(target.clone())),
        _ => None,
    }
}

/// Marks reads of the session's own results. Only the session knew these files; they were allowed.
fn mark_own_results(evaluator: &PolicyEvaluator, effects: &mut Effects) {
    let Some(state) = &evaluator.context().state_dir else { return };
    let folders = ["spill", "spill-calls", "spill-sessions"].map(|name| state.join(name));
    let is_result = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    for effect in effects {
        if let Effect::Read(path) = effect
            && is_result(path.canonical())
        {
            let canonical = path.canonical().to_owned();
            *path = TargetPath::new(path.written(), canonical, PathZone::Spill);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use zero_policy::rule::{RuleOwner, RuleSource};
    use zero_policy::{PermissionMode, PolicyRule};
    use zero_runtime::ToolRegistry;
    use zero_runtime::dialect::BUILTIN;
    use zero_runtime::simulated_call::CallSimulator;

    use super::*;
    use crate::policy::PolicyContext;

    fn build_evaluator() -> PolicyEvaluator {
        build_evaluator_with(Vec::new())
    }

    fn build_evaluator_with(rules: Vec<PolicyRule>) -> PolicyEvaluator {
        let registry = ToolRegistry::default();
        registry.add(BUILTIN, zero_tools::builtin_tools()).unwrap();
        let simulator = Arc::new(CallSimulator::new(Arc::new(registry)));
        let roots = vec![PathBuf::from("/w")];
        let context = PolicyContext { roots, ..PolicyContext::default() };
        PolicyEvaluator::new(rules, PermissionMode::Ask, context, simulator).unwrap()
    }

    /// Replays a recorded call with this input and compares the outcome.
    #[track_caller]
    fn check(tool: &str, input: &Value, effects: &[(&str, &str)], expected: &str) {
        check_with(&build_evaluator(), tool, input, effects, expected);
    }

    #[track_caller]
    fn check_with(
        evaluator: &PolicyEvaluator,
        tool: &str,
        input: &Value,
        effects: &[(&str, &str)],
        expected: &str,
    ) {
        let recorded = |(kind, target): &(&str, &str)| json!({"kind": kind, "target": redaction::redact_and_shorten(target)});
        let row: AuditRow = serde_json::from_value(json!({
            "time": "2026-01-31T00:00:00Z", "call": "c", "workspace": "/w", "tool": tool,
            "dialect": "canonical", "input": redaction::redact_value(input), "status": "ok",
            "duration_us": 1, "decision": {"verdict": "allow", "reason": "r"},
            "effects": effects.iter().map(recorded).collect::<Vec<_>>(),
        }))
        .unwrap();
        let shown = match replay_row(evaluator, &row) {
            ReplayOutcome::Call(subject, _) => {
                let effects = subject.effects.iter();
                let effects: Vec<String> = effects.map(ToString::to_string).collect();
                effects.join(", ")
            }
            other => format!("{other:?}"),
        };
        assert_eq!(shown, expected, "{tool} {input}");
    }

    #[test]
    fn replay_rebuilds_call_from_audit_row() {
        check("Read", &json!({"file_path": "a"}), &[], "read /w/a");
        check("Write", &json!({"path": "a", "content": "x".repeat(5_000)}), &[], "write /w/a");
        check("Bash", &json!({"command": "ls"}), &[("exec", "ls")], "run `ls`");
        check("github__make", &json!({"token": "x"}), &[], "use `make` of MCP server `github`");
    }

    #[test]
    fn replay_reports_missing_data_and_never_guesses() {
        let long = format!("echo {}", "x".repeat(5_000));
        check("Bash", &json!({ "command": long }), &[("exec", "echo")], "Failed(Truncated)");
        let secret = "curl -H 'Authorization: Bearer abcdef123456' x.org";
        check("Bash", &json!({ "command": secret }), &[("exec", "curl")], "Failed(Redacted)");
        let args = vec!["x"; 100];
        check(
            "Bash",
            &json!({"command": "ls", "args": args}),
            &[("exec", "ls")],
            "Failed(Truncated)",
        );
        check("Telepathy", &json!({}), &[], "Failed(Unknown)");
        let paths: Vec<String> = (0..200).map(|at| format!("f{at}")).collect();
        check("ReadMany", &json!({ "paths": paths }), &[], "Failed(Truncated)");
    }

    #[test]
    fn replay_needs_the_arguments_that_a_rule_is_about() {
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        let rule = PolicyRule::parse("github__make(title:x*)", Verdict::Deny, source).unwrap();
        let evaluator = build_evaluator_with(vec![rule]);
        let mcp = [("mcp", "github/make")];
        let made = "use `make` of MCP server `github`";
        check_with(&evaluator, "github__make", &json!({"title": "a"}), &mcp, made);
        let other = json!({"token": "x"});
        check_with(&evaluator, "github__other", &other, &mcp, "use `other` of MCP server `github`");
        check_with(&evaluator, "github__make", &other, &mcp, "Failed(Redacted)");
        let long = json!({"title": "a".repeat(5_000)});
        check_with(&evaluator, "github__make", &long, &mcp, "Failed(Truncated)");
        let content = json!({"content": "a"});
        check_with(&evaluator, "github__make", &content, &mcp, "Failed(Truncated)");
    }

    #[test]
    fn replay_uses_hook_rewrite_and_skips_hook_decision() {
        let evaluator = build_evaluator();
        for (verdict, rule, expected) in [
            ("rewrite", None, "Ok(\"run `ls b`\")"),
            ("ask", Some("hook ./x"), "Err(StricterHook)"),
            ("deny", Some("hook ./x"), "Err(StricterHook)"),
            ("failed", Some("Bash(ls:*)"), "Ok(\"run `ls b`\")"),
        ] {
            let row: AuditRow = serde_json::from_value(json!({
                "time": "2026-01-31T00:00:00Z", "call": "c", "workspace": "/w", "tool": "Bash",
                "dialect": "canonical", "input": {"command": "ls a"}, "status": "ok",
                "duration_us": 1, "decision": {"verdict": "ask", "reason": "r", "rule": rule},
                "hooks": [{"event": "PreToolUse", "hook": "./x", "source": "s:1", "said": verdict,
                    "input": {"command": "ls b"}, "duration_us": 1}],
            }))
            .unwrap();
            let found = match replay_row(&evaluator, &row) {
                ReplayOutcome::Call(subject, _) => Ok(subject.effects[0].to_string()),
                ReplayOutcome::Failed(lost) => Err(lost),
                ReplayOutcome::NotEvaluated => panic!("it was judged"),
            };
            assert_eq!(format!("{found:?}"), expected, "{verdict}");
        }
    }

    #[test]
    fn replay_falls_back_to_recorded_effects() {
        let path = format!("/w/{}", "d/".repeat(600));
        check("Read", &json!({ "file_path": path }), &[("read", "/w/x")], "read /w/x");
        check("Read", &json!({ "file_path": path }), &[("read", &path)], "Failed(Truncated)");
        check("Telepathy", &json!({}), &[("net", "x.org"), ("tool", "t")], "connect to x.org");
        for (action, expected) in
            [("save", "keep the note `a` (project)"), ("forget", "forget the note `a` (project)")]
        {
            let input = json!({"action": action, "name": "no name!"});
            check("Memory", &input, &[("note", "project/a")], expected);
        }
    }
}
