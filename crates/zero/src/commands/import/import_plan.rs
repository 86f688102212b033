//! What an import would write, and a line for each entry that it found.

use serde_json::{Value, json};
use zero_policy::rule::RuleOwner;
use zero_policy::{PermissionMode, PolicyRule, RuleSource, Verdict};
use zero_runtime::redaction::redact_text;
use zero_settings::edit::ValueEdit;

use super::server_import::has_secret;

/// What became of an entry of the other program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportOutcome {
    /// It is in zero's settings with the same effect.
    Taken,
    /// zero's settings say it already.
    There,
    /// zero has no exact counterpart of a restriction, and takes a stricter one.
    Stricter,
    /// It has no counterpart, and nothing becomes freer without it.
    Left,
    /// It is a restriction that zero cannot express.
    Unenforced,
}

impl ImportOutcome {
    /// All outcomes, in the order of a report.
    pub(super) const ALL: [Self; 5] =
        [Self::Taken, Self::There, Self::Stricter, Self::Left, Self::Unenforced];

    /// The word in JSON.
    fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::There => "present",
            Self::Stricter => "stricter",
            Self::Left => "left-out",
            Self::Unenforced => "not-enforced",
        }
    }

    /// The heading of the entries in a report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Taken => "taken over",
            Self::There => "present already",
            Self::Stricter => "made stricter, because zero has no exact counterpart",
            Self::Left => "left out",
            Self::Unenforced => "NOT ENFORCED: restrictions that zero cannot express",
        }
    }
}

/// An entry of the other program, for the report.
#[derive(Debug)]
pub(super) struct ImportLine {
    pub(super) outcome: ImportOutcome,
    pub(super) what: String,
    pub(super) detail: String,
}

impl ImportLine {
    pub(super) fn to_json(&self) -> Value {
        json!({"entry": self.what, "outcome": self.outcome.word(), "detail": self.detail})
    }
}

/// A change of zero's settings.
#[derive(Debug)]
pub(super) struct PlannedEdit {
    pub(super) key: Vec<String>,
    pub(super) edit: ValueEdit,
    /// Index of its line in the report.
    pub(super) line: usize,
}

impl PlannedEdit {
    /// The server whose tools it allows, if it is a rule that does.
    pub(super) fn allowed_server(&self) -> Option<&str> {
        let ValueEdit::Add(value) = &self.edit else { return None };
        let rule = value.as_str().or_else(|| value.get("rule")?.as_str())?;
        let (server, _) = rule.split_once("__")?;
        (self.key == ["permissions", "allow"]).then_some(server)
    }
}

/// What a Markdown file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKind {
    Command,
    Agent,
}

/// A Markdown file to create.
#[derive(Debug)]
pub(super) struct PlannedPrompt {
    pub(super) kind: PromptKind,
    /// Its name without the ending; a command may have folders in it.
    pub(super) name: String,
    pub(super) text: String,
    /// Index of its line in the report.
    pub(super) line: usize,
}

/// What an import would write.
#[derive(Debug, Default)]
pub(super) struct ImportPlan {
    pub(super) edits: Vec<PlannedEdit>,
    pub(super) prompts: Vec<PlannedPrompt>,
    pub(super) lines: Vec<ImportLine>,
}

impl ImportPlan {
    /// Adds a rule in zero's words. `what` is the entry as the other program has it.
    pub(super) fn add_rule(&mut self, verdict: Verdict, what: &str, rule: &str, why: Option<&str>) {
        let problem = match parse_rule(verdict, rule) {
            Ok(()) if has_secret(rule) => "it contains what looks like a secret".to_owned(),
            Ok(()) => return self.push_rule(ImportOutcome::Taken, verdict, what, rule, why),
            Err(problem) => problem,
        };
        if verdict == Verdict::Allow {
            return self.leave(what, &problem);
        }
        let is_usable = |rule: &String| parse_rule(verdict, rule).is_ok() && !has_secret(rule);
        match broaden(rule).into_iter().find(is_usable) {
            Some(broader) => {
                self.push_rule(ImportOutcome::Stricter, verdict, what, &broader, why);
            }
            None if verdict == Verdict::Deny => self.not_enforced(what, &problem),
            None => self.leave(what, &problem),
        }
    }

    /// Adds a rule that restricts more than the entry that it stands for.
    pub(super) fn add_stricter_rule(&mut self, verdict: Verdict, what: &str, rule: &str) {
        self.push_rule(ImportOutcome::Stricter, verdict, what, rule, None);
    }

    fn push_rule(
        &mut self,
        outcome: ImportOutcome,
        verdict: Verdict,
        what: &str,
        rule: &str,
        why: Option<&str>,
    ) {
        let list = match verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        };
        let value = match why {
            Some(why) => json!({"rule": rule, "why": why}),
            None => json!(rule),
        };
        let line = self.push_line(outcome, what, format!("{list} {rule}"));
        let key = vec!["permissions".to_owned(), list.to_owned()];
        self.edits.push(PlannedEdit { key, edit: ValueEdit::Add(value), line });
    }

    /// Sets a value, if zero's settings have none.
    pub(super) fn set_value(&mut self, what: &str, key: &[&str], value: Value, detail: String) {
        if value.as_str().is_some_and(has_secret) {
            let why =
                "it contains text that looks like a secret; rewrite it by hand, with a variable";
            return self.leave(what, why);
        }
        let line = self.push_line(ImportOutcome::Taken, what, detail);
        let key = key.iter().map(|step| (*step).to_owned()).collect();
        self.edits.push(PlannedEdit { key, edit: ValueEdit::Set(value), line });
    }

    /// Sets the permission mode, if zero's settings have none.
    pub(super) fn set_mode(&mut self, what: &str, mode: PermissionMode) {
        let detail = format!("mode {}", mode.as_str());
        self.set_value(what, &["permissions", "mode"], json!(mode.as_str()), detail);
    }

    /// Adds an item to a list.
    pub(super) fn add_item(&mut self, what: &str, key: &[&str], value: Value) {
        let line = self.push_line(ImportOutcome::Taken, what, format!("{} {value}", key.join(".")));
        let key = key.iter().map(|step| (*step).to_owned()).collect();
        self.edits.push(PlannedEdit { key, edit: ValueEdit::Add(value), line });
    }

    /// Creates a Markdown file.
    pub(super) fn add_prompt(
        &mut self,
        kind: PromptKind,
        what: &str,
        name: String,
        text: String,
        detail: String,
    ) {
        let line = self.push_line(ImportOutcome::Taken, what, detail);
        self.prompts.push(PlannedPrompt { kind, name, text, line });
    }

    /// Notes an entry without a counterpart.
    pub(super) fn leave(&mut self, what: &str, why: &str) {
        self.push_line(ImportOutcome::Left, what, why.to_owned());
    }

    /// Notes a restriction that zero cannot express.
    pub(super) fn not_enforced(&mut self, what: &str, why: &str) {
        self.push_line(ImportOutcome::Unenforced, what, why.to_owned());
    }

    /// Changes the outcome of an entry.
    pub(super) fn reclassify(&mut self, line: usize, outcome: ImportOutcome, why: &str) {
        let Some(line) = self.lines.get_mut(line) else { return };
        let is_deny = line.detail.starts_with("deny ");
        line.outcome = match outcome {
            ImportOutcome::Left if is_deny => ImportOutcome::Unenforced,
            outcome => outcome,
        };
        if outcome != ImportOutcome::There {
            line.detail = why.to_owned();
        }
    }

    fn push_line(&mut self, outcome: ImportOutcome, what: &str, detail: String) -> usize {
        // The report is shown, and with `--json` it is kept.
        let (what, detail) = (redact_text(what).to_string(), redact_text(&detail).to_string());
        self.lines.push(ImportLine { outcome, what, detail });
        self.lines.len() - 1
    }
}

fn parse_rule(verdict: Verdict, rule: &str) -> Result<(), String> {
    let source = RuleSource { name: "import".to_owned(), line: None, owner: RuleOwner::User };
    PolicyRule::parse(rule, verdict, source).map(drop).map_err(|error| error.to_string())
}

/// Rules that match at least what a rule matches, the narrowest first.
fn broaden(rule: &str) -> Vec<String> {
    let Some((tool, pattern)) = rule.split_once('(') else { return Vec::new() };
    let tool = tool.trim();
    let mut broader = Vec::new();
    let is_plain = |word: &&str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+".contains(c))
    };
    let program = pattern.split([' ', ':', ')']).next().filter(is_plain);
    if let Some(program) = program.filter(|_| tool == "Bash") {
        broader.push(format!("{tool}({program}:*)"));
    }
    broader.push(tool.to_owned());
    broader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verdict: Verdict, rule: &str, expected: &str) {
        let mut plan = ImportPlan::default();
        plan.add_rule(verdict, "x", rule, None);
        let line = &plan.lines[0];
        assert_eq!(format!("{}: {}", line.outcome.word(), line.detail), expected, "{rule}");
        assert_eq!(
            plan.edits.is_empty(),
            !expected.contains(": allow ") && !expected.contains(": deny ")
        );
    }

    #[test]
    fn deny_becomes_stricter_and_allow_is_left_out() {
        check(Verdict::Allow, "Bash(git status:*)", "taken: allow Bash(git status:*)");
        check(Verdict::Deny, "Bash(cd x && rm y)", "stricter: deny Bash(cd:*)");
        check(Verdict::Deny, "Bash($x && y)", "stricter: deny Bash");
        check(Verdict::Deny, "Read(", "stricter: deny Read");
        let mut plan = ImportPlan::default();
        plan.add_rule(Verdict::Allow, "x", "Bash(cd x && rm y)", None);
        plan.add_rule(Verdict::Deny, "x", "Strange(y)", None);
        let outcomes: Vec<ImportOutcome> = plan.lines.iter().map(|line| line.outcome).collect();
        assert_eq!(outcomes, [ImportOutcome::Left, ImportOutcome::Unenforced]);
        assert!(plan.edits.is_empty());
    }

    #[test]
    fn secret_in_rule_is_neither_written_nor_shown() {
        const SECRET: &str = "ghp_0123456789abcdefghij0123";
        let rule = format!("Bash(curl -H x-key:{SECRET} https://x.org)");
        let mut plan = ImportPlan::default();
        plan.add_rule(Verdict::Allow, &format!("f allow {rule}"), &rule, None);
        assert!(plan.edits.is_empty());
        plan.add_rule(Verdict::Deny, &format!("f deny {rule}"), &rule, None);
        plan.set_value(
            "f",
            &["tools", "toolCallCommand"],
            json!(format!("x {SECRET}")),
            "x".into(),
        );
        assert_eq!(plan.edits.len(), 1);
        assert_eq!(plan.lines[1].detail, "deny Bash(curl:*)");
        assert!(!format!("{plan:?}").contains(SECRET), "{plan:?}");
    }

    #[test]
    fn server_of_allow_rule_is_known() {
        let mut plan = ImportPlan::default();
        for (verdict, rule) in [
            (Verdict::Allow, "docs__get"),
            (Verdict::Deny, "docs__get"),
            (Verdict::Allow, "Bash(git status:*)"),
        ] {
            plan.add_rule(verdict, "x", rule, None);
        }
        let servers: Vec<_> = plan.edits.iter().map(PlannedEdit::allowed_server).collect();
        assert_eq!(servers, [Some("docs"), None, None]);
    }

    #[test]
    fn deny_that_cannot_be_written_is_not_enforced() {
        let mut plan = ImportPlan::default();
        plan.add_rule(Verdict::Deny, "x", "Bash(rm:*)", None);
        plan.reclassify(0, ImportOutcome::Left, "the file is full");
        assert_eq!(plan.lines[0].outcome, ImportOutcome::Unenforced);
    }
}
