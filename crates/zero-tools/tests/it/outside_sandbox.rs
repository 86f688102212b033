//! A command that failed because of the sandbox runs outside it, if a person says so, for once.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zero_core::RiskLevel;
use zero_policy::rule::RuleOwner;
use zero_policy::{
    PermissionMode, PolicyEngine, PolicyEngineConfig, PolicyRule, RuleSource, Verdict,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CommandSettings, OutsideUse, RulePolicy,
    ToolHostConfig,
};

use crate::fixture::{ToolFixture, command_facts, refuse_connections};

/// A user, or something that answers in their name.
struct OutsideApprover {
    answer: ApprovalAnswer,
    can_leave_sandbox: bool,
    questions: Mutex<Vec<ApprovalQuestion>>,
    /// Answers wait for it, if it is closed.
    thinking: tokio::sync::RwLock<()>,
}

impl Approver for OutsideApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn can_leave_sandbox(&self) -> bool {
        self.can_leave_sandbox
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        refuse_connections(question)
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.questions.lock().unwrap().push(question.clone());
        Box::pin(async {
            let _thought = self.thinking.read().await;
            self.answer
        })
    }
}

/// A session whose rules and mode allow every command in the sandbox.
fn fixture(
    outside: OutsideUse,
    answer: ApprovalAnswer,
    can_leave_sandbox: bool,
) -> (ToolFixture, Arc<OutsideApprover>) {
    let user = Arc::new(OutsideApprover {
        answer,
        can_leave_sandbox,
        questions: Mutex::default(),
        thinking: tokio::sync::RwLock::default(),
    });
    let approver = Arc::clone(&user);
    let fixture = ToolFixture::session_with_host(move |config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        let rules = vec![PolicyRule::parse("Bash(perl:*)", Verdict::Allow, source).unwrap()];
        let mode = PermissionMode::Auto;
        let engine = PolicyEngineConfig { rules, roots, mode, ..PolicyEngineConfig::default() };
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), Vec::new()));
        config.approver = Some(approver as Arc<dyn Approver>);
        config.commands = CommandSettings {
            outside,
            environment: vec![
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
                ("MY_TOKEN".to_owned(), "secret".to_owned()),
            ],
            ..CommandSettings::default()
        };
    });
    (fixture, user)
}

/// A command that writes a file beside the workspace, which the sandbox does not let it.
fn command(f: &ToolFixture) -> String {
    let made = f.outside().join("made");
    format!(
        r#"perl -e 'open(F, ">", "{path}") or die "{path}: $!\n"; print F $ENV{{MY_TOKEN}} // "none"'"#,
        path = made.display()
    )
}

async fn run(f: &ToolFixture, command: &str, outside: bool) -> Result<Value, String> {
    let input = json!({"command": command, "outside_sandbox": outside});
    let outcome = f.call("Bash", input).await;
    outcome.map(command_facts).map_err(|error| error.message)
}

#[tokio::test]
async fn failed_command_runs_outside_once_after_critical_question() {
    let (f, user) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowSession, true);
    let (command, made) = (command(&f), f.outside().join("made"));
    let failed = run(&f, &command, false).await.unwrap();
    assert_ne!(failed["exit_code"], 0, "{failed}");
    assert!(user.questions.lock().unwrap().is_empty() && !made.exists());

    let done = run(&f, &command, true).await.unwrap();
    assert_eq!(done["exit_code"], 0, "{done}");
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "none", "the environment is scrubbed");
    let question = user.questions.lock().unwrap().remove(0);
    assert_eq!(question.risk, RiskLevel::Critical);
    let options: Vec<&str> = question.options().iter().map(|option| option.id).collect();
    assert_eq!(options, ["allow_once", "reject_once"]);
    assert!(question.reason.contains("outside the sandbox"), "{}", question.reason);
    assert!(!question.can_edit_command);
    let shown = format!("{:?}", question.preview);
    assert!(shown.contains("nothing confines it"), "{shown}");
    assert!(question.commands().any(|shown| shown.to_string() == command), "the whole command");

    // The answer is not remembered, and the failure counts once.
    let again = run(&f, &command, true).await.unwrap_err();
    assert!(again.contains("run it inside first"), "{again}");
    assert!(f.open_session().grants().is_empty());
}

#[tokio::test]
async fn question_says_if_only_output_tells_of_the_sandbox() {
    let (f, user) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowOnce, true);
    // A program can print anything.
    let forged = r#"perl -e 'print STDERR "/usr/x: Read-only file system\n"; exit 1'"#;
    run(&f, forged, false).await.unwrap();
    run(&f, forged, true).await.unwrap();
    // The proxy refuses this connection, whatever the program says about it.
    let connects = r#"perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("127.0.0.1:3128") or exit 2; print $s "CONNECT refused.test:443 HTTP/1.1\r\n\r\n"; <$s>; exit 1'"#;
    let failed = run(&f, connects, false).await.unwrap();
    assert!(failed["notes"].to_string().contains("refused.test"), "{failed}");
    run(&f, connects, true).await.unwrap();
    let questions = user.questions.lock().unwrap();
    let reasons: Vec<bool> = questions
        .iter()
        .map(|question| question.reason.contains("only its own output says"))
        .collect();
    assert_eq!(reasons, [true, false]);
}

#[tokio::test]
async fn command_outside_uses_no_folder_that_commands_can_change() {
    let (f, _) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowOnce, true);
    let target = f.outside().join("target");
    std::fs::write(&target, "mine").unwrap();
    // The name of a temporary file that the other command uses.
    let plant =
        format!(r#"perl -e 'symlink("{}", "$ENV{{TMPDIR}}/note") or die'"#, target.display());
    assert_eq!(run(&f, &plant, false).await.unwrap()["exit_code"], 0);
    let made = f.outside().join("made");
    let command = format!(
        r#"perl -e 'open(F, ">", "{}") or die "{}: $!"; open(G, ">", "$ENV{{TMPDIR}}/note") or die; print G "x"; print F $ENV{{TMPDIR}}'"#,
        made.display(),
        made.display()
    );
    assert_ne!(run(&f, &command, false).await.unwrap()["exit_code"], 0);
    let done = run(&f, &command, true).await.unwrap();
    assert_eq!(done["exit_code"], 0, "{done}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    let folder = std::fs::read_to_string(&made).unwrap();
    assert!(folder.ends_with("-outside"), "{folder}");
    // No confined command sees it.
    let seen =
        run(&f, &format!("perl -e 'exit(-e \"{folder}/note\" ? 0 : 3)'"), false).await.unwrap();
    assert_eq!(seen["exit_code"], 3, "{seen}");
}

#[tokio::test]
async fn command_refused_before_it_runs_can_be_requested_outside() {
    for (outside, can_leave_sandbox, is_offered) in [
        (OutsideUse::Ask, true, true),
        (OutsideUse::Ask, false, false),
        (OutsideUse::Never, true, false),
    ] {
        let (f, user) = fixture(outside, ApprovalAnswer::AllowOnce, can_leave_sandbox);
        let made = f.outside().join("made");
        let command = format!("touch {}", made.display());
        let refused = run(&f, &command, false).await.unwrap_err();
        assert!(refused.contains("outside the workspace; use Write"), "{refused}");
        assert_eq!(refused.contains("\"outside_sandbox\": true"), is_offered, "{refused}");
        assert!(user.questions.lock().unwrap().is_empty() && !made.exists());
        let requested = run(&f, &command, true).await;
        assert_eq!(requested.is_ok(), is_offered, "{requested:?}");
        assert_eq!(made.exists(), is_offered);
        assert_eq!(user.questions.lock().unwrap().len(), usize::from(is_offered));
    }
}

#[tokio::test]
async fn push_to_repository_outside_is_a_question_and_opens_that_repository() {
    for (answer, is_pushed) in
        [(ApprovalAnswer::RejectOnce, false), (ApprovalAnswer::AllowOnce, true)]
    {
        let (f, user) = fixture(OutsideUse::Ask, answer, true);
        let bare = f.outside().join("origin.git");
        let other = f.outside().join("other");
        let git = |folder: &Path, args: &[&str]| {
            let done = std::process::Command::new("git").args(args).current_dir(folder).output();
            assert!(done.unwrap().status.success(), "{args:?}");
        };
        git(f.outside(), &["init", "-q", "--bare", "origin.git"]);
        git(&f.path(""), &["init", "-q", "-b", "main"]);
        git(&f.path(""), &["remote", "add", "origin", bare.to_str().unwrap()]);
        let names = ["-c", "user.name=a", "-c", "user.email=a@b"];
        git(&f.path(""), &[&names[..], &["commit", "-q", "--allow-empty", "-m", "x"]].concat());
        let pushed = run(&f, "git push -q origin main", false).await;
        assert_eq!(
            pushed.as_ref().is_ok_and(|facts| facts["exit_code"] == 0),
            is_pushed,
            "{pushed:?}"
        );
        assert_eq!(bare.join("refs/heads/main").exists(), is_pushed);
        let question = user.questions.lock().unwrap().remove(0);
        let write = question.judged.iter().find(|effect| effect.kind == "write").unwrap();
        assert_eq!(Path::new(&write.target), bare.canonicalize().unwrap());
        assert!(write.reason.contains("`sandbox.writable`"), "{}", write.reason);
        // Other commands of the line could write there, too.
        for line in ["git push -q origin main; true", "true && git push -q origin main"] {
            let refused = run(&f, line, false).await.unwrap_err();
            assert!(refused.contains("as the only command of a call"), "{line}: {refused}");
        }
        assert!(user.questions.lock().unwrap().is_empty(), "nobody is asked");
        // It opens nothing beside it, and no later command.
        let later = format!("perl -e 'mkdir \"{}\" or exit 3'", other.display());
        assert_eq!(run(&f, &later, false).await.unwrap()["exit_code"], 3);
        let into = format!("perl -e 'mkdir \"{}/x\" or exit 3'", bare.display());
        assert_eq!(run(&f, &into, false).await.unwrap()["exit_code"], 3);
    }
}

#[tokio::test]
async fn only_last_command_that_failed_in_sandbox_can_be_asked_about() {
    let (f, user) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowOnce, true);
    let command = command(&f);
    for earlier in [None, Some("true"), Some("false")] {
        if let Some(earlier) = earlier {
            run(&f, &command, false).await.unwrap();
            run(&f, earlier, false).await.unwrap();
        }
        let refused = run(&f, &command, true).await.unwrap_err();
        assert!(refused.contains("run it inside first"), "{earlier:?}: {refused}");
    }
    run(&f, &command, false).await.unwrap();
    let other = run(&f, &format!("{command} "), true).await.unwrap_err();
    assert!(other.contains("with the same text"), "{other}");
    let input = json!({"command": command, "outside_sandbox": true, "run_in_background": true});
    let job = f.call("Bash", input).await.unwrap_err();
    assert!(job.message.contains("exclude each other"), "{}", job.message);
    assert!(user.questions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn command_beside_which_others_run_does_not_run_outside() {
    let (f, user) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowOnce, true);
    let command = command(&f);
    let job = json!({"command": "sleep 600", "run_in_background": true});
    f.call("Bash", job).await.unwrap();
    run(&f, &command, false).await.unwrap();
    let refused = run(&f, &command, true).await.unwrap_err();
    assert!(refused.contains("another command of this session runs"), "{refused}");
    assert!(user.questions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn command_does_not_run_outside_if_files_changed_while_the_user_was_asked() {
    let change = json!({"file_path": "script", "content": "other"});
    let job = json!({"command": "sleep 600", "run_in_background": true});
    for (tool, input) in [("Write", change), ("Bash", job), ("Bash", json!({"command": "touch x"}))]
    {
        let (f, user) = fixture(OutsideUse::Ask, ApprovalAnswer::AllowOnce, true);
        let command = command(&f);
        run(&f, &command, false).await.unwrap();
        let thinking = user.thinking.write().await;
        let others = async {
            while user.questions.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            f.call(tool, input.clone()).await.unwrap();
            drop(thinking);
        };
        let (refused, ()) = tokio::join!(run(&f, &command, true), others);
        let refused = refused.unwrap_err();
        assert!(refused.contains("while the user was asked"), "{tool} {input}: {refused}");
        assert!(!f.outside().join("made").exists());
    }
}

#[tokio::test]
async fn only_a_person_allows_it_and_settings_switch_it_off() {
    for (outside, answer, can_leave_sandbox, expected) in [
        (OutsideUse::Ask, ApprovalAnswer::AllowOnce, false, "no user can approve it here"),
        (OutsideUse::Ask, ApprovalAnswer::RejectOnce, true, "the user rejected this call"),
        (OutsideUse::Never, ApprovalAnswer::AllowOnce, true, "`sandbox.outside` is \"never\""),
    ] {
        let (f, user) = fixture(outside, answer, can_leave_sandbox);
        let command = command(&f);
        run(&f, &command, false).await.unwrap();
        let refused = run(&f, &command, true).await.unwrap_err();
        assert!(refused.contains(expected), "{expected}: {refused}");
        assert!(!f.outside().join("made").exists());
        let asked = user.questions.lock().unwrap().len();
        assert_eq!(asked, usize::from(answer == ApprovalAnswer::RejectOnce));
    }
}
