//! Hooks: what they can decide, what they cannot, and what happens to a call if they misbehave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, ToolCall, ToolError};
use zero_policy::rule::RuleOwner;
use zero_policy::{
    PermissionMode, PolicyEngine, PolicyEngineConfig, PolicyRule, RuleSource, Verdict,
};
use zero_runtime::audit::AuditRow;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CallOutcome, Dialect, DialectName, Hook,
    HookFailureAction, HookFileReader, HookSettings, LaunchAccess, RulePolicy, ToolPattern,
};

use crate::fixture::{ToolFixture, result_text};
use crate::services::count_processes_with_arg;

/// Answers every question the same way, and records the questions.
struct ScriptedApprover {
    answer: ApprovalAnswer,
    questions: Mutex<Vec<ApprovalQuestion>>,
}

impl Approver for ScriptedApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.questions.lock().unwrap().push(question.clone());
        Box::pin(std::future::ready(self.answer))
    }
}

/// A host with rules, hooks and a scripted user.
struct HookFixture {
    f: ToolFixture,
    person: Arc<ScriptedApprover>,
}

impl HookFixture {
    fn new(rules: &[&str], hooks: HookSettings) -> Self {
        Self::with_answer(ApprovalAnswer::AllowOnce, rules, hooks)
    }

    fn with_before_hook(rules: &[&str], script: &str) -> Self {
        Self::new(rules, HookSettings { before: vec![shell_hook(script)], after: vec![] })
    }

    fn with_after_hook(script: &str) -> Self {
        Self::new(&[], HookSettings { before: vec![], after: vec![shell_hook(script)] })
    }

    fn with_answer(answer: ApprovalAnswer, rules: &[&str], hooks: HookSettings) -> Self {
        let rule = |text: &&str| {
            let (verdict, text) = text.split_once(' ').unwrap();
            let verdict = Verdict::ALL.into_iter().find(|known| known.as_str() == verdict).unwrap();
            let source =
                RuleSource { name: "rules".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, verdict, source).unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        let person = Arc::new(ScriptedApprover { answer, questions: Mutex::default() });
        let approver = Arc::clone(&person);
        let f = ToolFixture::session_with_host(|config| {
            let roots = config.workspace.roots().map(Into::into).collect();
            let engine = PolicyEngine::new(PolicyEngineConfig {
                rules,
                roots,
                ..PolicyEngineConfig::default()
            });
            config.policy =
                Arc::new(RulePolicy::new(engine, vec!["/usr/bin".into(), "/bin".into()]));
            config.approver = Some(approver);
            config.hooks = hooks;
        });
        f.write_file("a.txt", "alpha\n");
        Self { f, person }
    }

    async fn run_bash(&self, command: &str) -> Result<CallOutcome, ToolError> {
        self.f.call("Bash", json!({"command": command})).await
    }

    async fn read_file(&self) -> Result<CallOutcome, ToolError> {
        self.f.call("Read", json!({"file_path": "a.txt"})).await
    }

    fn questions(&self) -> Vec<ApprovalQuestion> {
        self.person.questions.lock().unwrap().clone()
    }

    /// Returns the audit records of calls, oldest first.
    fn audit_rows(&self) -> Vec<AuditRow> {
        let mut rows = Vec::new();
        for day in self.f.host.audit().days().unwrap() {
            self.f.host.audit().open_day(&day).unwrap().for_each_row(|row| rows.push(row)).unwrap();
        }
        rows
    }

    fn last_audit_row(&self) -> AuditRow {
        self.audit_rows().pop().unwrap()
    }
}

fn shell_hook(script: &str) -> Hook {
    Hook {
        tools: vec![ToolPattern::All],
        words: ["bash", "-c", script].map(str::to_owned).to_vec(),
        timeout: Duration::from_secs(60),
        access: LaunchAccess::ReadOnly,
        on_failure: HookFailureAction::Deny,
        files: Vec::new(),
        written_at: "test:1".to_owned(),
    }
}

fn printing_hook(answer: &Value) -> Hook {
    shell_hook(&format!("cat > /dev/null; printf '%s' '{answer}'"))
}

fn before_hooks(hooks: &[Hook]) -> HookSettings {
    HookSettings { before: hooks.to_vec(), after: vec![] }
}

/// Returns the texts of a result, piece by piece.
fn content_texts(outcome: &CallOutcome) -> Vec<String> {
    let text = |piece: &Value| piece["text"].as_str().unwrap_or_default().to_owned();
    outcome.rendered.content.iter().map(text).collect()
}

#[track_caller]
fn expect_denied(outcome: Result<CallOutcome, ToolError>) -> ToolError {
    let error = outcome.map(|outcome| content_texts(&outcome)).unwrap_err();
    assert_eq!(error.error_type.as_str(), "permission_denied", "{error:?}");
    assert_eq!(error.reason(), Some(ErrorReason::Denied), "{error:?}");
    error
}

#[tokio::test]
async fn hook_receives_call_and_may_stay_silent() {
    let fixture = HookFixture::with_before_hook(&[], "cat > /tmp/told; exit 0");
    assert!(result_text(&fixture.read_file().await.unwrap()).contains("alpha"));
    let row = fixture.last_audit_row();
    assert_eq!((row.hooks.len(), row.hooks[0].said.as_str()), (1, "nothing"));
    assert_eq!(
        (row.hooks[0].event.as_str(), row.hooks[0].source.as_str()),
        ("PreToolUse", "test:1")
    );
    assert!(row.hooks[0].duration_us > 0);
    let fixture = HookFixture::with_before_hook(&[], "cat >&2; exit 2");
    let error = expect_denied(fixture.run_bash("echo hi").await);
    let told = error.message.split_once("test:1): ").unwrap().1;
    let told: Value = serde_json::from_str(told).unwrap();
    let work = fixture.f.path("").canonicalize().unwrap();
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["session_id"], "test");
    assert_eq!(told["tool_name"], "Bash");
    assert_eq!(told["tool_input"]["command"], "echo hi");
    assert_eq!((&told["cwd"], &told["workspace"]), (&json!(work), &json!([work])));
    assert!(told["call_id"].as_str().is_some_and(|id| id.starts_with("call_")));
}

#[tokio::test]
async fn hook_denies_by_exit_code_or_json() {
    for hook in [
        shell_hook("echo 'not on Fridays' >&2; exit 2"),
        printing_hook(&json!({"decision": "deny", "reason": "not on Fridays"})),
    ] {
        let fixture = HookFixture::new(&["allow Bash"], before_hooks(&[hook]));
        let error = expect_denied(fixture.run_bash("touch made").await);
        assert!(error.message.contains("denied by hook `bash -c "), "{error}");
        assert!(error.message.contains("(test:1): not on Fridays"), "{error}");
        assert!(error.details["matched_rule"].as_str().unwrap().starts_with("hook bash -c "));
        assert_eq!(error.details["rule_source"], "test:1");
        assert!(!fixture.f.path("made").exists() && fixture.questions().is_empty());
        let row = fixture.last_audit_row();
        assert_eq!((row.status.as_str(), row.hooks[0].said.as_str()), ("denied", "deny"));
        assert_eq!(row.hooks[0].reason.as_deref(), Some("not on Fridays"));
        let decision = row.decision.unwrap();
        assert_eq!(
            (decision.verdict.as_str(), decision.source.as_deref()),
            ("deny", Some("test:1"))
        );
    }
}

#[tokio::test]
async fn hook_cannot_allow_what_rules_deny() {
    let hook = Hook {
        access: LaunchAccess::AsCommands,
        ..shell_hook("touch heard; echo '{\"decision\": \"allow\"}'")
    };
    let fixture = HookFixture::new(&["deny Bash(touch:*)"], before_hooks(&[hook]));
    let error = expect_denied(fixture.run_bash("touch made").await);
    assert_eq!(error.details["matched_rule"], "Bash(touch:*)");
    assert!(!fixture.f.path("made").exists() && !fixture.f.path("heard").exists());
    assert!(fixture.last_audit_row().hooks.is_empty());
    fixture.f.call("Read", json!({"file": "a.txt"})).await.unwrap_err();
    assert!(fixture.last_audit_row().hooks.is_empty(), "nor of what is no call");
    // A call that needs approval still needs it.
    let fixture = HookFixture::with_answer(
        ApprovalAnswer::RejectOnce,
        &[],
        before_hooks(&[printing_hook(&json!({"decision": "allow"}))]),
    );
    let error = fixture.run_bash("touch made").await.unwrap_err();
    assert_eq!((error.reason(), fixture.questions().len()), (Some(ErrorReason::Rejected), 1));
    assert!(!fixture.f.path("made").exists());
}

#[tokio::test]
async fn hook_can_require_approval() {
    let wish = printing_hook(&json!({"decision": "ask", "reason": "is it\n\u{1b}[2Jright?"}));
    let fixture = HookFixture::new(&["allow Read"], before_hooks(std::slice::from_ref(&wish)));
    assert!(result_text(&fixture.read_file().await.unwrap()).contains("alpha"));
    let [question] = &fixture.questions()[..] else { panic!("one question") };
    assert!(question.reason.ends_with("(test:1) asks: is it right?"), "{}", question.reason);
    assert!(question.grants.is_empty(), "it is asked every time");
    let row = fixture.last_audit_row();
    let decision = row.decision.unwrap();
    assert_eq!((row.hooks[0].said.as_str(), decision.verdict.as_str()), ("ask", "ask"));
    assert_eq!(decision.answered.as_deref(), Some("test: allow once"));
    let fixture = HookFixture::with_answer(
        ApprovalAnswer::RejectOnce,
        &[],
        before_hooks(std::slice::from_ref(&wish)),
    );
    assert_eq!(fixture.read_file().await.unwrap_err().reason(), Some(ErrorReason::Rejected));
    // Without a user to ask, the call is denied.
    let f = ToolFixture::session_with_host(|config| {
        config.approver = None;
        config.hooks = before_hooks(&[wish]);
    });
    f.write_file("a.txt", "alpha");
    let error = f.call_error("Read", json!({"file_path": "a.txt"})).await;
    assert!(error.starts_with("no_approver: ") && error.contains("asks: is it right?"), "{error}");
}

#[tokio::test]
async fn rewritten_input_is_what_is_approved_and_run() {
    let script = r#"cat > /dev/null; echo '{"input": {"command": "echo two"}}'"#;
    let fixture = HookFixture::with_before_hook(&["ask Bash"], script);
    let outcome = fixture.run_bash("echo one").await.unwrap();
    let texts = content_texts(&outcome);
    assert!(texts[0].contains("two") && !texts[0].contains("one"), "{texts:?}");
    let told = texts.last().unwrap();
    assert!(
        told.contains("rewrote the input of this call to") && told.contains("echo two"),
        "{told}"
    );
    let [question] = &fixture.questions()[..] else { panic!("one question") };
    let commands: Vec<String> = question.commands().map(ToString::to_string).collect();
    assert_eq!(commands, ["echo two"]);
    assert_eq!(question.rewritten, Some(json!({"command": "echo two"})));
    assert!(question.reason.ends_with("(test:1) rewrote the input"), "{}", question.reason);
    let row = fixture.last_audit_row();
    assert_eq!(row.input["command"], "echo one");
    assert_eq!(row.hooks[0].said, "rewrite");
    assert_eq!(row.hooks[0].input.as_ref().unwrap()["command"], "echo two");
    assert!(row.effects.iter().any(|effect| effect.target.contains("echo two")), "{row:?}");
}

#[tokio::test]
async fn hooks_run_in_order_on_rewritten_input() {
    let first = r#"cat > /dev/null; echo '{"input": {"command": "echo b"}}'"#;
    let second = r#"grep -q '"echo b"' || exit 1; echo '{"decision": "ask", "input": {"command": "echo c"}}'"#;
    let third = "grep -q '\"echo c\"' || exit 1";
    let fixture = HookFixture::new(
        &[],
        before_hooks(&[shell_hook(first), shell_hook(second), shell_hook(third)]),
    );
    let outcome = fixture.run_bash("echo a").await.unwrap();
    assert!(result_text(&outcome).starts_with('c'), "{:?}", content_texts(&outcome));
    let row = fixture.last_audit_row();
    let said: Vec<&str> = row.hooks.iter().map(|hook| hook.said.as_str()).collect();
    assert_eq!(said, ["rewrite", "ask", "nothing"]);
    // After the first denial no further hook runs.
    let fixture = HookFixture::new(&[], before_hooks(&[shell_hook("exit 2"), shell_hook(first)]));
    expect_denied(fixture.run_bash("echo a").await);
    assert_eq!(fixture.last_audit_row().hooks.len(), 1);
}

#[tokio::test]
async fn rewritten_input_is_authorized_again() {
    let to_secret =
        printing_hook(&json!({"decision": "allow", "input": {"file_path": "secrets/key"}}));
    let fixture = HookFixture::new(&["deny Read(secrets/**)"], before_hooks(&[to_secret]));
    fixture.f.write_file("secrets/key", "treasure");
    let error = expect_denied(fixture.read_file().await);
    assert_eq!(error.details["matched_rule"], "Read(secrets/**)");
    assert!(error.message.contains("rewrote the input"), "{error}");
    assert!(!error.message.contains("treasure"), "{error}");
    let to_outside = printing_hook(&json!({"input": {"file_path": "../outside"}}));
    let fixture =
        HookFixture::with_answer(ApprovalAnswer::RejectOnce, &[], before_hooks(&[to_outside]));
    std::fs::write(fixture.f.outside().join("outside"), "treasure").unwrap();
    let error = fixture.read_file().await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::Rejected), "a person is asked about it: {error}");
    let to_command = printing_hook(&json!({"input": {"command": "rm -rf ."}}));
    let fixture =
        HookFixture::new(&["allow Bash(echo:*)", "deny Bash(rm:*)"], before_hooks(&[to_command]));
    assert_eq!(
        expect_denied(fixture.run_bash("echo hi").await).details["matched_rule"],
        "Bash(rm:*)"
    );
    assert!(fixture.f.path("a.txt").exists());
}

#[tokio::test]
async fn invalid_rewritten_input_is_a_hook_failure() {
    let hook = printing_hook(&json!({"input": {"fil_path": "a.txt"}}));
    let fixture = HookFixture::new(&[], before_hooks(std::slice::from_ref(&hook)));
    let error = expect_denied(fixture.read_file().await);
    for part in ["(test:1): it failed: the input that it returned", "fil_path", "`onFailure`"] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
    assert_eq!(fixture.last_audit_row().hooks[0].said, "failed");
    let fixture = HookFixture::new(
        &[],
        before_hooks(&[Hook { on_failure: HookFailureAction::Ask, ..hook.clone() }]),
    );
    assert!(
        result_text(&fixture.read_file().await.unwrap()).contains("alpha"),
        "the input as it was"
    );
    assert!(fixture.questions()[0].reason.contains("asks: it failed: the input that it returned"));
    let fixture = HookFixture::new(
        &[],
        before_hooks(&[Hook { on_failure: HookFailureAction::Ignore, ..hook }]),
    );
    assert_eq!(content_texts(&fixture.read_file().await.unwrap()).len(), 1);
    assert!(fixture.questions().is_empty());
}

#[tokio::test]
async fn secret_in_hook_command_is_redacted() {
    let script = "exit 1 # --token=tok-5f2a91c07766";
    let fixture =
        HookFixture::new(&[], HookSettings { before: vec![], after: vec![shell_hook(script)] });
    let told = content_texts(&fixture.read_file().await.unwrap()).join("\n");
    assert!(told.contains("[redacted]") && !told.contains("tok-5f2a91c07766"), "{told}");
    let fixture = HookFixture::with_before_hook(&[], script);
    let error = expect_denied(fixture.read_file().await);
    let told = format!("{} {:?} {:?}", error.message, error.details, fixture.last_audit_row());
    assert!(told.contains("[redacted]") && !told.contains("tok-5f2a91c07766"), "{told}");
}

#[tokio::test]
async fn hook_output_in_audit_is_bounded() {
    let text = "x y ".repeat(250);
    let env: serde_json::Map<String, Value> =
        (0..60).map(|at| (format!("V{at:02}"), json!(text))).collect();
    let writing = |at: usize| {
        let input = json!({"command": format!("true {at}"), "env": env});
        printing_hook(&json!({ "input": input }))
    };
    let hooks: Vec<Hook> = (0..6).map(writing).collect();
    let fixture = HookFixture::new(&["allow Bash"], before_hooks(&hooks));
    let _ = fixture.run_bash("true").await;
    let row = fixture.last_audit_row();
    assert_eq!(row.hooks.len(), 6);
    let bytes = serde_json::to_string(&row.hooks).unwrap().len();
    assert!(bytes < 100_000, "{bytes}");
    let last = row.hooks[5].input.as_ref().unwrap().as_str().unwrap();
    assert!(last.ends_with(" bytes]"), "{last}");
}

#[tokio::test]
async fn failing_hook_denies() {
    for (script, part) in [
        ("exit 1", "it ended with exit code 1"),
        ("echo broken >&2; exit 3", "exit code 3 and printed `broken`"),
        ("kill -9 $$", "it was killed by signal 9"),
        ("echo all fine", "is not a valid answer"),
        ("echo '{\"decision\": \"yes\"}'", "is not a valid answer"),
        ("head -c 100000000 /dev/zero", "it printed more than 1024 kB"),
        ("yes '{}' | head -c 100000000 >&2; exit 1", "exit code 1"),
    ] {
        let fixture = HookFixture::with_before_hook(&[], script);
        let error = expect_denied(fixture.read_file().await);
        assert!(error.message.contains("it failed: ") && error.message.contains(part), "{error}");
        assert!(error.message.contains("`onFailure`"), "{error}");
        assert!(error.message.len() < 2_500, "{}", error.message.len());
    }
    let missing = Hook { words: vec!["./no-such-hook".to_owned()], ..shell_hook("") };
    let fixture = HookFixture::new(&[], before_hooks(&[missing]));
    assert!(expect_denied(fixture.read_file().await).message.contains("no-such-hook"));
}

#[tokio::test]
async fn hanging_hook_is_killed_with_its_children() {
    let mark = unique_mark(3);
    let script = format!("setsid sleep {mark} & trap '' TERM; sleep {mark}; sleep {mark}");
    let hook = Hook { timeout: Duration::from_millis(500), ..shell_hook(&script) };
    let fixture = HookFixture::new(&[], before_hooks(&[hook]));
    let error = expect_denied(fixture.read_file().await);
    assert!(error.message.contains("it timed out after 0.5 s"), "{error}");
    assert_eq!(count_processes_with_arg(&mark), 0);
    // Processes that it leaves behind are killed, and not waited for.
    let script = format!("setsid sleep {mark} & sleep {mark} & exit 0");
    let fixture = HookFixture::with_before_hook(&[], &script);
    assert!(fixture.read_file().await.is_ok());
    assert_eq!(count_processes_with_arg(&mark), 0);
}

#[tokio::test]
async fn fork_bomb_hook_is_bounded() {
    let hook =
        Hook { timeout: Duration::from_secs(5), ..shell_hook("f() { f | f & }; f; sleep 600") };
    let fixture = HookFixture::new(&[], before_hooks(&[hook]));
    assert!(expect_denied(fixture.read_file().await).message.contains("it failed: "));
}

#[tokio::test]
async fn hook_reads_no_more_than_commands() {
    let fixture = HookFixture::with_before_hook(&["deny Read(secret)"], "cat secret >&2; exit 2");
    fixture.f.write_file("secret", "treasure");
    let error = expect_denied(fixture.read_file().await);
    assert!(!error.message.contains("treasure"), "{error}");
    let fixture = HookFixture::with_before_hook(&[], "ls ../state >&2; echo looked >&2; exit 2");
    assert!(fixture.f.outside().join("state").exists());
    fixture.read_file().await.unwrap_err();
    assert!(fixture.f.outside().join("state/audit").exists());
    let error = expect_denied(fixture.read_file().await);
    assert!(error.message.contains("looked") && !error.message.contains("audit"), "{error}");
}

#[tokio::test]
async fn hook_writes_nothing_unless_settings_allow() {
    let script =
        "echo x > inside; echo x > ../outside; echo x >> a.txt; echo x > /tmp/own && exit 0";
    let fixture = HookFixture::with_before_hook(&[], script);
    assert!(fixture.read_file().await.is_ok());
    assert!(!fixture.f.path("inside").exists() && !fixture.f.outside().join("outside").exists());
    assert_eq!(fixture.f.read_text("a.txt"), "alpha\n");
    let hook = Hook { access: LaunchAccess::AsCommands, ..shell_hook(script) };
    let fixture = HookFixture::new(&[], before_hooks(&[hook]));
    assert!(fixture.read_file().await.is_ok());
    assert_eq!(
        (fixture.f.read_text("inside"), fixture.f.read_text("a.txt")),
        ("x\n".into(), "alpha\nx\n".into())
    );
    assert!(!fixture.f.outside().join("outside").exists());
    let hook = Hook { access: LaunchAccess::AsCommands, ..shell_hook("echo x > .envrc") };
    let fixture = HookFixture::new(&[], before_hooks(&[hook]));
    let error = expect_denied(fixture.read_file().await);
    assert!(error.message.contains(".envrc"), "{error}");
    assert!(!fixture.f.path(".envrc").exists());
}

#[tokio::test]
async fn hook_temp_folder_is_hidden_from_commands() {
    let script = "[ -e /tmp/seen ] && { echo again >&2; exit 2; }; touch /tmp/seen";
    let hook = Hook { tools: vec![ToolPattern::Named("Read".to_owned())], ..shell_hook(script) };
    let fixture = HookFixture::new(&["allow Bash"], before_hooks(&[hook]));
    assert!(fixture.read_file().await.is_ok());
    let outcome = fixture.run_bash("ls -a /tmp; rm -f /tmp/seen").await.unwrap();
    assert!(!result_text(&outcome).contains("seen"), "{:?}", content_texts(&outcome));
    assert!(expect_denied(fixture.read_file().await).message.contains("again"));
    let session = fixture.f.host.open_one_shot_session().unwrap();
    let (dialect, cancel) = (Dialect::new(DialectName::Canonical), CancellationToken::new());
    let call = fixture.f.host.call(&session, &dialect, read_call(), &cancel).await;
    assert!(call.outcome.is_ok(), "another session has another place");
}

/// Returns a duration for `sleep` that no other test uses.
fn unique_mark(number: u32) -> String {
    format!("{number}{}", std::process::id())
}

fn read_call() -> ToolCall {
    let input = json!({"file_path": "a.txt"});
    ToolCall { id: new_call_id(), session: None, tool: "Read".to_owned(), input, timeout: None }
}

/// Waits until a process with this mark is running.
async fn wait_for_process(mark: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while count_processes_with_arg(mark) == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the hook does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn call_can_be_cancelled_during_hook() {
    let mark = unique_mark(4);
    for goes_away in [false, true] {
        let fixture =
            HookFixture::with_before_hook(&[], &format!("setsid sleep {mark} & sleep {mark}"));
        let (dialect, cancel) = (Dialect::new(DialectName::Canonical), CancellationToken::new());
        let call = fixture.f.host.call(fixture.f.open_session(), &dialect, read_call(), &cancel);
        if goes_away {
            tokio::select! {
                _ = call => panic!("the call must not end"),
                () = wait_for_process(&mark) => {}
            }
        } else {
            let stop = async {
                wait_for_process(&mark).await;
                cancel.cancel();
            };
            let (report, ()) = tokio::join!(call, stop);
            assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
            assert_eq!(count_processes_with_arg(&mark), 0);
            assert_eq!(fixture.last_audit_row().hooks[0].said, "cancelled");
        }
        assert_eq!(fixture.last_audit_row().status, "cancelled");
        drop(fixture);
        assert_eq!(count_processes_with_arg(&mark), 0);
    }
}

#[tokio::test]
async fn concurrent_calls_run_their_own_hooks() {
    let fixture =
        Arc::new(HookFixture::with_before_hook(&[], "grep -o 'number [0-9]*' >&2; exit 2"));
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let fixture = Arc::clone(&fixture);
        calls.spawn(async move {
            let error = expect_denied(fixture.run_bash(&format!("echo number {number}")).await);
            assert!(error.message.ends_with(&format!("number {number}")), "{error}");
        });
    }
    calls.join_all().await;
    assert_eq!(fixture.audit_rows().len(), 20);
}

#[tokio::test]
async fn deny_rule_applies_to_hook_command() {
    let fixture = HookFixture::with_before_hook(&["deny Bash(bash:*)"], "exit 0");
    let error = expect_denied(fixture.read_file().await);
    assert!(error.message.contains("denied by rule `Bash(bash:*)`"), "{error}");
    assert!(error.message.contains("it failed: "), "{error}");
}

#[tokio::test]
async fn plan_mode_makes_hooks_read_only() {
    let hooks = HookSettings {
        before: vec![shell_hook("cat > /dev/null")],
        after: vec![Hook { access: LaunchAccess::AsCommands, ..shell_hook("touch made") }],
    };
    let fixture = HookFixture::new(&[], hooks);
    fixture.f.open_session().set_mode(Some(PermissionMode::Plan));
    let texts = content_texts(&fixture.read_file().await.unwrap());
    assert!(texts.last().unwrap().contains("it failed: run it: denied"), "{texts:?}");
    assert!(!fixture.f.path("made").exists());
}

#[tokio::test]
async fn plan_mode_fails_hook_that_needs_write_access() {
    for (on_failure, expected) in [
        (HookFailureAction::Deny, "denied"),
        (HookFailureAction::Ask, "ok"),
        (HookFailureAction::Ignore, "ok"),
    ] {
        let hook =
            Hook { access: LaunchAccess::AsCommands, on_failure, ..shell_hook("touch made") };
        let fixture = HookFixture::new(&[], before_hooks(&[hook]));
        fixture.f.open_session().set_mode(Some(PermissionMode::Plan));
        let outcome = fixture.read_file().await;
        let row = fixture.last_audit_row();
        assert_eq!((row.status.as_str(), row.hooks[0].said.as_str()), (expected, "failed"));
        let why = row.hooks[0].reason.clone().unwrap();
        assert!(why.contains("plan mode does not allow changes or commands"), "{why}");
        assert_eq!(fixture.questions().len(), usize::from(on_failure == HookFailureAction::Ask));
        assert_eq!(outcome.is_err(), expected == "denied");
        assert!(!fixture.f.path("made").exists());
    }
}

#[tokio::test]
async fn script_changed_after_check_does_not_run() {
    let f = ToolFixture::session_with_host(|config| {
        std::fs::write(config.workspace.cwd().join("check"), "echo no >&2; exit 2").unwrap();
        let words = ["sh", "check"].map(str::to_owned).to_vec();
        let files = HookFileReader::new(&config.workspace).read_files(&words);
        config.hooks = before_hooks(&[Hook { words, files, ..shell_hook("") }]);
    });
    f.write_file("a.txt", "alpha");
    let read = || f.call("Read", json!({"file_path": "a.txt"}));
    assert!(expect_denied(read().await).message.ends_with("(test:1): no"));
    f.write_file("check", "exit 0");
    let error = expect_denied(read().await);
    assert!(error.message.contains("check`, which it uses, changed since"), "{error}");
    f.write_file("check", "echo no >&2; exit 2");
    assert!(expect_denied(read().await).message.ends_with("(test:1): no"));
}

#[tokio::test]
async fn after_hook_adds_remark_only() {
    let plain = HookFixture::new(&[], HookSettings::default());
    let expected = plain.read_file().await.unwrap();
    let script = r#"grep -q '"text":".*alpha.*"is_error":false' || exit 1; printf '{"context": "look\\u001b[2J\\u202e out"}'"#;
    let fixture = HookFixture::with_after_hook(script);
    let outcome = fixture.read_file().await.unwrap();
    assert_eq!(outcome.result.structured, expected.result.structured);
    assert_eq!(outcome.rendered.display, expected.rendered.display);
    let [own, remark] = &content_texts(&outcome)[..] else {
        panic!("{:?}", content_texts(&outcome))
    };
    assert_eq!(own, &content_texts(&expected)[0]);
    let (call, lines) = (fixture.last_audit_row().call, remark.lines().collect::<Vec<_>>());
    assert!(
        lines[0].starts_with("[hook `bash -c ") && lines[0].ends_with(&format!("says, {call}:]"))
    );
    assert_eq!(lines[1..], ["look\u{fffd} out".to_owned(), format!("[end of {call}]")]);
    assert_eq!(fixture.last_audit_row().hooks[0].said, "remark");
}

#[tokio::test]
async fn after_hook_remark_may_be_exit_code_flood_or_failure() {
    for (script, part, said) in [
        ("echo two warnings >&2; exit 2", "\ntwo warnings\n", "remark"),
        ("head -c 900000 /dev/zero | tr '\\0' x >&2; exit 2", "xxx…\n", "remark"),
        ("exit 7", "(it failed: it ended with exit code 7", "failed"),
        ("echo formatted", "(it failed: its output `formatted`", "failed"),
    ] {
        let fixture = HookFixture::with_after_hook(script);
        let outcome = fixture.read_file().await.unwrap();
        let remark = content_texts(&outcome).pop().unwrap();
        assert!(remark.contains(part) && remark.len() < 5_000, "{script}: {remark}");
        assert_eq!(fixture.last_audit_row().hooks[0].said, said, "{script}");
    }
}

#[tokio::test]
async fn after_hook_sees_failed_calls_but_not_denied_ones() {
    let fixture = HookFixture::with_after_hook(
        r#"grep -q '"is_error":true' || exit 1; echo '{"context": "too bad"}'"#,
    );
    let error = fixture.f.call("Read", json!({"file_path": "none.txt"})).await.unwrap_err();
    assert!(error.message.starts_with("`none.txt` does not exist"), "{error}");
    assert!(
        error.message.contains("says, call_") && error.message.contains("\ntoo bad\n"),
        "{error}"
    );
    assert_eq!((error.error_type.as_str(), fixture.last_audit_row().hooks.len()), ("not_found", 1));
    let (dialect, cancel) = (Dialect::new(DialectName::Canonical), CancellationToken::new());
    let call = ToolCall {
        tool: "Bash".to_owned(),
        input: json!({"command": "sleep 600"}),
        timeout: Some(Duration::from_millis(300)),
        ..read_call()
    };
    let report = fixture.f.host.call(fixture.f.open_session(), &dialect, call, &cancel).await;
    let error = report.outcome.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::Deadline), "{error}");
    assert!(
        error.message.contains("says, call_") && error.message.contains("\ntoo bad\n"),
        "{error}"
    );
    let fixture = HookFixture::with_answer(
        ApprovalAnswer::RejectOnce,
        &["deny Read(a.txt)", "ask Bash"],
        HookSettings { before: vec![], after: vec![shell_hook("exit 0")] },
    );
    expect_denied(fixture.read_file().await);
    assert_eq!(
        fixture.run_bash("echo hi").await.unwrap_err().reason(),
        Some(ErrorReason::Rejected)
    );
    assert!(fixture.audit_rows().iter().all(|row| row.hooks.is_empty()));
}

#[tokio::test]
async fn formatter_hook_changes_written_file() {
    let script = r#"f=$(grep -o '"file_path":"[^"]*"' | head -1 | cut -d'"' -f4); tr a-z A-Z < "$f" > /tmp/f && cat /tmp/f > "$f" && echo '{"context": "formatted"}'"#;
    let hook = Hook {
        tools: vec![ToolPattern::Named("Write".to_owned()), ToolPattern::Named("Edit".to_owned())],
        access: LaunchAccess::AsCommands,
        ..shell_hook(script)
    };
    let fixture =
        HookFixture::new(&["allow Edit"], HookSettings { before: vec![], after: vec![hook] });
    fixture.f.call("Write", json!({"file_path": "new.txt", "content": "shout\n"})).await.unwrap();
    assert_eq!(fixture.f.read_text("new.txt"), "SHOUT\n");
    fixture.read_file().await.unwrap();
    assert!(fixture.last_audit_row().hooks.is_empty(), "it is not for Read");
}

#[tokio::test]
async fn call_cancelled_during_after_hook_keeps_result() {
    let mark = unique_mark(5);
    let fixture = HookFixture::with_after_hook(&format!("sleep {mark}"));
    let (dialect, cancel) = (Dialect::new(DialectName::Canonical), CancellationToken::new());
    let call = fixture.f.host.call(fixture.f.open_session(), &dialect, read_call(), &cancel);
    let stop = async {
        wait_for_process(&mark).await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(call, stop);
    let texts = content_texts(&report.outcome.unwrap());
    assert!(texts[0].contains("alpha") && texts[1].contains("because the call was cancelled"));
    assert_eq!(count_processes_with_arg(&mark), 0);
}
