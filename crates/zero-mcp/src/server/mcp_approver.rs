//! [`McpApprover`], which asks the user behind an MCP client for approval of a call.
//!
//! The question is a form with one choice. Its message contains what the user needs to decide: what
//! the call does, why approval is needed, the whole command or change, and the risk. If a client
//! cannot show forms, the call is refused with a hint how to allow it.

use std::fmt::Write as _;
use std::sync::Arc;

use rmcp::model::{
    ConstTitle, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, JsonObject, LegacyEnumSchema, PrimitiveSchemaDefinition, SingleSelectEnumSchema,
    TitledSingleSelectEnumSchema,
};
use zero_core::sanitize::{escape_line, escape_lines};
use zero_core::text_shortening::head;
use zero_core::tool_result::render_checklist;
use zero_core::{CommandExecution, Effect, ResultDisplay};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{AnswerOption, ApprovalAnswer, ApprovalQuestion, Approver};

use super::call_router::{ChoiceStyle, McpCallRouter};

/// Name of the form field.
const FIELD: &str = "answer";
/// Maximum size of one part of a message, such as a command or a change, in bytes. The rest is
/// counted.
const PART_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of effects to list.
const EFFECTS_MAX: usize = 50;

/// Asks the client that made a call. It is created before the host, and reaches the clients of the
/// server with the same [`McpCallRouter`].
pub struct McpApprover {
    router: Arc<McpCallRouter>,
}

impl McpApprover {
    /// Creates an approver that finds clients with this router.
    pub fn new(router: Arc<McpCallRouter>) -> Arc<Self> {
        Arc::new(Self { router })
    }
}

impl Approver for McpApprover {
    fn name(&self) -> &str {
        "MCP client"
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        let reachable =
            self.router.route(&question.call).is_some_and(|line| line.elicitation_support.forms);
        (!reachable).then(|| allow_hint(question))
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let Some(line) = self.router.route(&question.call) else {
                return ApprovalAnswer::RejectOnce;
            };
            let schema = choice_schema(&question.options(), line.elicitation_support.choices);
            read_answer(question, &line.ask(form_request(&render_message(question), schema)).await)
        })
    }
}

/// Builds an elicitation request with a form.
pub(super) fn form_request(message: &str, schema: ElicitationSchema) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: schema,
    }
}

/// Reads the user's choice. Everything but an offered answer is a rejection.
fn read_answer(question: &ApprovalQuestion, result: &ElicitResult) -> ApprovalAnswer {
    let chosen = match result.action {
        ElicitationAction::Accept => result.content.as_ref().and_then(|content| content.get(FIELD)),
        _ => None,
    };
    let chosen = chosen.and_then(|id| id.as_str()).and_then(ApprovalAnswer::from_id);
    chosen.filter(|answer| question.has_option(*answer)).unwrap_or(ApprovalAnswer::RejectOnce)
}

/// Builds a form with one required choice among the answers. It has no default, so that pressing
/// Enter does not allow the call.
fn choice_schema(options: &[AnswerOption], choices: ChoiceStyle) -> ElicitationSchema {
    let schema = match choices {
        ChoiceStyle::Titled => {
            let options = options.iter().map(|option| ConstTitle::new(option.id, &option.name));
            let schema = TitledSingleSelectEnumSchema::new(options.collect());
            EnumSchema::Single(SingleSelectEnumSchema::Titled(schema))
        }
        ChoiceStyle::Named => {
            let ids = options.iter().map(|option| option.id.to_owned()).collect();
            let mut schema = LegacyEnumSchema::new(ids);
            schema.enum_names = Some(options.iter().map(|option| option.name.clone()).collect());
            EnumSchema::Legacy(schema)
        }
    };
    let field = (FIELD.to_owned(), PrimitiveSchemaDefinition::Enum(schema));
    ElicitationSchema::new([field].into()).with_required(vec![FIELD.to_owned()])
}

/// Explains how to allow the call if no user can be asked.
fn allow_hint(question: &ApprovalQuestion) -> String {
    let yes = "start the server with `zero mcp --yes` or use a client that supports elicitation";
    let rules: Vec<String> =
        question.grants.iter().map(|grant| format!("\"{}\"", escape_line(&grant.rule))).collect();
    match &rules[..] {
        [] => format!("{yes}, or allow it by a rule under `permissions.allow` in the settings"),
        [rule] => format!("add the rule {rule} to `permissions.allow` in the settings, {yes}"),
        rules => format!(
            "add the rules {} to `permissions.allow` in the settings, {yes}",
            rules.join(", ")
        ),
    }
}

/// Renders everything that the user should know before they answer.
fn render_message(question: &ApprovalQuestion) -> String {
    let mut text = format!(
        "{}\n\nRisk: {}\nWhy you are asked: {}\n",
        escape_line(&question.title),
        question.risk.as_str(),
        escape_line(&question.reason)
    );
    let commands: Vec<&CommandExecution> = question.commands().collect();
    // Writing to a String cannot fail.
    for command in &commands {
        let folder = command.folder.as_ref().map(|folder| folder.canonical());
        let folder = folder.unwrap_or(&question.workspace).display().to_string();
        let _ = write!(
            text,
            "\nCommand, in {}:\n{}\n",
            escape_line(&folder),
            quote_lines(&command.to_string())
        );
        for (variable, value) in &command.variables {
            let _ = writeln!(
                text,
                "with {}={}",
                escape_line(variable),
                escape_line(&truncate_text(value))
            );
        }
    }
    let others: Vec<&Effect> =
        question.effects.iter().filter(|effect| effect.execution().is_none()).collect();
    if !others.is_empty() {
        text.push_str("\nIt will:\n");
    }
    for effect in others.iter().take(EFFECTS_MAX) {
        let _ = writeln!(text, "- {}", escape_line(&effect.to_string()));
    }
    if let Some(more) = others.len().checked_sub(EFFECTS_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "- and {more} more");
    }
    match &question.preview {
        Some(ResultDisplay::Diff(diff)) => {
            let _ = write!(
                text,
                "\nChange of {}:\n{}\n",
                escape_line(&diff.path),
                quote_lines(&diff.unified)
            );
        }
        Some(ResultDisplay::Markdown { text: preview }) => {
            let preview = question.strip_command_preview(preview);
            if !preview.is_empty() {
                let _ = write!(text, "\n{}\n", quote_lines(preview));
            }
        }
        Some(ResultDisplay::Plan { entries }) => {
            let _ = write!(text, "\n{}\n", quote_lines(&render_checklist(entries)));
        }
        None => {}
    }
    text
}

/// Quotes untrusted text: each line starts with a bar, so that none can pass for zero's own text.
pub(super) fn quote_lines(text: &str) -> String {
    let lines: Vec<String> = truncate_text(text)
        .trim_end()
        .split('\n')
        .map(|line| format!("| {}", escape_lines(line)))
        .collect();
    lines.join("\n")
}

/// Cuts a long text, and says how much is missing.
fn truncate_text(text: &str) -> String {
    let shown = head(text, PART_BYTES_MAX);
    match text.len() - shown.len() {
        0 => text.to_owned(),
        rest => format!("{shown}\n… NOT SHOWN: {rest} more bytes"),
    }
}

/// Converts a server's schema, if a form can represent it.
pub(super) fn to_elicitation_schema(schema: JsonObject) -> Option<ElicitationSchema> {
    ElicitationSchema::from_json_schema(schema).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zero_core::{CallId, RiskLevel, ToolName};
    use zero_policy::GrantScope;
    use zero_runtime::ApprovalSubject;

    use super::*;

    fn question(risk: RiskLevel, rules: &[&str]) -> ApprovalQuestion {
        let grant =
            |rule: &&str| GrantScope { rule: (*rule).to_owned(), folder: None, program: None };
        ApprovalQuestion {
            call: CallId::from_bits(1),
            tool: ToolName::new("Bash").unwrap(),
            title: "Run `make`".to_owned(),
            reason: "no rule allows it".to_owned(),
            risk,
            effects: vec![Effect::Exec(CommandExecution::from_shell("make\nrm x\u{202E}"))],
            judged: vec![],
            can_reject_tool: false,
            grants: rules.iter().map(grant).collect(),
            rule_owners: Vec::new(),
            can_edit_command: false,
            can_try_command: false,
            preview: None,
            rewritten: None,
            withdrawal: Default::default(),
            subject: ApprovalSubject::Call,
            workspace: "/w".into(),
        }
    }

    #[test]
    fn only_offered_answer_counts() {
        #[track_caller]
        fn check(risk: RiskLevel, result: Value, expected: ApprovalAnswer) {
            let parsed: ElicitResult = serde_json::from_value(result.clone()).unwrap();
            assert_eq!(
                read_answer(&question(risk, &["Bash(make)"]), &parsed),
                expected,
                "{result}"
            );
        }
        let accept = |id: &str| json!({"action": "accept", "content": {"answer": id}});
        check(RiskLevel::High, accept("allow_once"), ApprovalAnswer::AllowOnce);
        check(RiskLevel::High, accept("allow_always"), ApprovalAnswer::AllowSession);
        check(RiskLevel::Critical, accept("allow_always"), ApprovalAnswer::RejectOnce);
        check(RiskLevel::High, accept("reject_always"), ApprovalAnswer::RejectSession);
        check(RiskLevel::High, accept("yes"), ApprovalAnswer::RejectOnce);
        check(RiskLevel::High, json!({"action": "accept"}), ApprovalAnswer::RejectOnce);
        check(
            RiskLevel::High,
            json!({"action": "accept", "content": {"answer": true}}),
            ApprovalAnswer::RejectOnce,
        );
        check(
            RiskLevel::High,
            json!({"action": "decline", "content": {"answer": "allow_once"}}),
            ApprovalAnswer::RejectOnce,
        );
        check(RiskLevel::High, json!({"action": "cancel"}), ApprovalAnswer::RejectOnce);
    }

    #[test]
    fn message_shows_whole_command_and_escapes_invisible_text() {
        assert_eq!(
            render_message(&question(RiskLevel::High, &[])),
            "Run `make`\n\nRisk: high\nWhy you are asked: no rule allows it\n\n\
             Command, in /w:\n| make\n| rm x\\u{202e}\n"
        );
    }

    #[test]
    fn command_preview_is_shown_without_repetition() {
        #[track_caller]
        fn check(preview: &str, expected: &str) {
            let question = ApprovalQuestion {
                effects: vec![Effect::Exec(CommandExecution::from_shell("make"))],
                preview: Some(ResultDisplay::markdown(preview.to_owned())),
                ..question(RiskLevel::High, &[])
            };
            let (_, shown) = render_message(&question)
                .split_once("Command, in /w:\n| make\n")
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .unwrap();
            assert_eq!(shown, expected, "{preview:?}");
        }
        check("make\n\nin /w", "");
        check("make\n\nin /w\nin the background", "\n| in the background\n");
        check(
            "make\n\nin /w\n\nwith this on its input:\n{}",
            "\n| with this on its input:\n| {}\n",
        );
        check("make\n\nin /work", "\n| make\n| \n| in /work\n");
        check("another", "\n| another\n");
    }

    #[test]
    fn overlong_text_is_cut_and_counted() {
        let long = "x".repeat(PART_BYTES_MAX + 5);
        assert!(quote_lines(&long).ends_with("| … NOT SHOWN: 5 more bytes"));
    }

    #[test]
    fn choice_schema_follows_client_version() {
        let options = question(RiskLevel::High, &[]).options();
        let schema = |choices| serde_json::to_value(choice_schema(&options, choices)).unwrap();
        assert_eq!(
            schema(ChoiceStyle::Titled)["properties"]["answer"],
            json!({"type": "string", "oneOf": [
                {"const": "allow_once", "title": "Allow once"}, {"const": "reject_once", "title": "Reject"},
            ]})
        );
        assert_eq!(
            schema(ChoiceStyle::Named)["properties"]["answer"],
            json!({"type": "string", "enum": ["allow_once", "reject_once"], "enumNames": ["Allow once", "Reject"]})
        );
        assert_eq!(schema(ChoiceStyle::Titled)["required"], json!(["answer"]));
    }

    #[test]
    fn denial_names_rule_that_would_allow() {
        let hint = allow_hint(&question(RiskLevel::High, &["Bash(make)"]));
        assert!(hint.starts_with("add the rule \"Bash(make)\" to `permissions.allow`"), "{hint}");
        assert!(allow_hint(&question(RiskLevel::High, &[])).contains("--yes"));
    }
}
