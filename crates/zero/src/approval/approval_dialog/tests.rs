//! What the user presses, and what becomes of the call.

use std::sync::{Arc, LazyLock};

use zero_core::{CallId, Effect, RiskLevel, ToolName};
use zero_policy::GrantScope;
use zero_runtime::ApprovalSubject;
use zero_sandbox::ConfigFile;

use super::*;
use crate::AppContext;
use crate::environment::EnvironmentConfig;
use crate::terminal::{AnswerSource, Terminal};

fn make_question(command: &str, risk: RiskLevel, rules: &[&str]) -> ApprovalQuestion {
    let grant = |rule: &&str| GrantScope { rule: (*rule).to_owned(), folder: None, program: None };
    ApprovalQuestion {
        call: CallId::from_bits(1),
        tool: ToolName::new("Bash").unwrap(),
        title: format!("Run `{command}`"),
        reason: "no rule allows it".to_owned(),
        risk,
        effects: vec![Effect::Exec(CommandExecution::from_shell(command))],
        judged: vec![],
        grants: rules.iter().map(grant).collect(),
        rule_owners: vec![RuleOwner::User, RuleOwner::Project],
        can_edit_command: true,
        can_try_command: false,
        can_reject_tool: true,
        preview: None,
        rewritten: None,
        withdrawal: Default::default(),
        subject: ApprovalSubject::Call,
        workspace: "/w".into(),
    }
}

fn run(
    question: &ApprovalQuestion,
    rule_files: Vec<RuleFile>,
    typed: &str,
) -> (ApprovalReply, String) {
    let stream = Terminal::for_test().err.with_columns(80).without_colours();
    let keys = AnswerSource::from_keys(typed).open_keys_for_test();
    let dialog = ApprovalDialog::new(&stream, question.clone(), rule_files);
    (dialog.run(&keys).unwrap(), stream.written_text())
}

#[track_caller]
fn check(question: &ApprovalQuestion, typed: &str, expected: impl Into<ApprovalReply>) {
    let (reply, seen) = run(question, Vec::new(), typed);
    assert_eq!(reply, expected.into(), "{typed:?}: {seen}");
}

#[test]
fn one_key_answers_and_unknown_keys_show_a_hint_once() {
    use ApprovalAnswer::*;
    let question = make_question("make", RiskLevel::Medium, &["Bash(make:*)"]);
    check(&question, "y", AllowOnce);
    check(&question, "Y", AllowOnce);
    check(&question, "s", AllowSession);
    check(&question, "n", RejectOnce);
    check(&question, "d", RejectSession);
    check(&question, "1", AllowOnce);
    check(&question, "02", AllowSession);
    check(&question, "x?0\r \x1b[A\x1byq a v n", RejectOnce);
    check(&question, "\x1b[1;2sy", AllowOnce);
    let (_, seen) = run(&question, Vec::new(), "x?\ry");
    assert_eq!(seen.matches("Allow? (press one of the keys shown)").count(), 1, "{seen}");
    // Ctrl+D and the end of input reject.
    check(&question, "\x04", RejectOnce);
    check(&question, "", RejectOnce);
}

#[test]
fn only_what_can_hold_is_offered() {
    use ApprovalAnswer::*;
    let critical = make_question("rm -rf /srv", RiskLevel::Critical, &["Bash(rm -rf /srv)"]);
    let (reply, seen) = run(&critical, Vec::new(), "say");
    assert_eq!(reply, AllowOnce.into());
    for shown in ["y allow once", "n reject", "r reject and say why", "risk    critical"] {
        assert!(seen.contains(shown), "{shown}: {seen}");
    }
    assert!(!seen.contains("allow in this session") && !seen.contains("always"), "{seen}");
    let single = make_question("make", RiskLevel::Medium, &[]);
    check(&single, "sdn", RejectOnce);
    let fixed = ApprovalQuestion { can_edit_command: false, ..single };
    let (_, seen) = run(&fixed, Vec::new(), "en");
    assert!(!seen.contains("edit the command"), "{seen}");
}

#[test]
fn reason_of_rejection_is_passed_on() {
    let question = make_question("make", RiskLevel::Medium, &[]);
    let reason = ApprovalReply::RejectWithMessage("use ninja".to_owned());
    check(&question, "ruse ninja\r", reason.clone());
    check(&question, "ruse make\x17ninja\r", reason);
    check(&question, "r\r", ApprovalAnswer::RejectOnce);
    // Escape returns to the question.
    check(&question, "rno\x1b[Z\x03y", ApprovalAnswer::AllowOnce);
}

#[test]
fn edited_command_is_returned_unless_it_is_the_same() {
    let question = make_question("make all", RiskLevel::Medium, &[]);
    check(&question, "e\x17check\r", ApprovalReply::EditCommand("make check".to_owned()));
    check(&question, "e\ntrue\r", ApprovalReply::EditCommand("make all\ntrue".to_owned()));
    check(&question, "e\ry", ApprovalAnswer::AllowOnce);
    check(&question, "e\x15\rn", ApprovalAnswer::RejectOnce);
}

#[test]
fn folded_command_must_be_read_before_it_is_allowed() {
    let command = (1..=60).map(|line| format!("step {line}\n")).collect::<String>();
    let question = make_question(&command, RiskLevel::Medium, &[]);
    check(&question, "y", ApprovalAnswer::RejectOnce);
    check(&question, "yqy", ApprovalAnswer::AllowOnce);
    check(&question, "vqy", ApprovalAnswer::AllowOnce);
    check(&question, "n", ApprovalAnswer::RejectOnce);
    let (_, seen) = run(&question, Vec::new(), "n");
    let rows = seen.split("Allow?").next().unwrap().lines().count();
    assert!(rows <= 24, "{rows}: {seen}");
}

#[test]
fn rule_is_written_to_the_chosen_file_for_this_project_only() {
    let temp = tempfile::tempdir().unwrap();
    let app = AppContext {
        config: EnvironmentConfig::for_test(temp.path()),
        terminal: Terminal::for_test(),
        tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
        notifiers: Arc::default(),
        console: Arc::default(),
        gateway_locality: Arc::default(),
    };
    let workspace = app.config.open_workspace(&[temp.path().to_owned()]).unwrap();
    let settings = app.load_settings(&workspace, &[]).unwrap();
    let files = RuleFile::list(&app, &workspace, &settings);
    let owners: Vec<RuleOwner> = files.iter().map(RuleFile::owner).collect();
    assert_eq!(owners, [RuleOwner::User], "the folder is not trusted");

    let question = make_question("make", RiskLevel::Medium, &["Bash(make:*)", "Edit(/a b)"]);
    // Going back changes nothing.
    let (reply, _) = run(&question, files.clone(), "aqn");
    assert_eq!(reply, ApprovalAnswer::RejectOnce.into());
    let own = ConfigFile::Own(app.config.settings_file().unwrap());
    assert!(own.read(1_000).unwrap().is_none());
    let (reply, seen) = run(&question, files, "apxu");
    assert!(matches!(reply, ApprovalReply::AllowAlways { .. }), "{seen}");
    let written: serde_json::Value =
        serde_json::from_slice(&own.read(1_000).unwrap().unwrap()).unwrap();
    // In the user's settings, a path with one `/` would be one of every project.
    let folder = workspace.cwd().display();
    let path_rule = format!("Edit(/{folder}/a b)");
    let expected = serde_json::json!({"permissions": {"allow": ["Bash(make:*)", path_rule]}});
    assert_eq!(written, expected);
    let flat = seen.replace("\n  ", " ");
    assert!(flat.contains("not this project's settings: they cannot allow anything"), "{seen}");
    assert!(seen.contains("Edit(//"), "{seen}");
}

#[test]
fn every_row_of_a_question_fits_and_is_shown_once() {
    let long =
        format!("echo {} && cat 界界界界界界界界界界界界界界界界 /etc/x", "word ".repeat(30));
    for columns in [20, 40, 57, 58, 80] {
        for command in ["make", &long] {
            let question = make_question(command, RiskLevel::Medium, &["Bash(make:*)"]);
            let stream = Terminal::for_test().err.with_columns(columns).without_colours();
            // Each unknown key and each way back paints the question again.
            let keys = AnswerSource::from_keys("x?e\x1br\x1bn").open_keys_for_test();
            let reply = ApprovalDialog::new(&stream, question, Vec::new()).run(&keys).unwrap();
            assert_eq!(reply, ApprovalAnswer::RejectOnce.into());
            let mut screen = vt100::Parser::new(60, u16::try_from(columns).unwrap(), 1_000);
            let written = stream.written_text();
            screen.process(written.replace('\n', "\r\n").as_bytes());
            let shown = screen.screen().contents();
            for once in ["Allow?", "risk"] {
                assert_eq!(shown.matches(once).count(), 1, "{once} in {columns}:\n{shown}");
            }
            // The keys are gone with the answer.
            assert!(!shown.contains("allow once"), "{columns}:\n{shown}");
            let text: String = shown.chars().filter(|letter| !" │┆\n".contains(*letter)).collect();
            let whole = command.replace(' ', "");
            let is_folded = shown.contains('…');
            assert!(is_folded || text.contains(&whole), "{columns}:\n{shown}");
            let wrapped = (0..60).any(|row| screen.screen().row_wrapped(row));
            assert!(!wrapped, "the terminal had to wrap a row in {columns}:\n{shown}");
        }
    }
}
