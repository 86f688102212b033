//! Questions about hosts that a command connects to while it runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{HostLimits, ToolCall};
use zero_policy::PermissionMode;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, ApprovalSubject, Approver, Dialect,
    DialectName,
};

use crate::fixture::{ToolFixture, command_facts};
use crate::network::{
    CountingServer, connection_rows, run_fetch, run_script, session_with_approver,
    verify_audit_chain, wait_until,
};

/// Allows every call, and answers questions about connections by the host.
#[derive(Default)]
struct ScriptedUser {
    questions: Mutex<Vec<ApprovalQuestion>>,
    /// The questions that are shown now.
    open: AtomicUsize,
}

impl ScriptedUser {
    fn titles(&self) -> Vec<String> {
        self.questions.lock().unwrap().iter().map(|question| question.title.clone()).collect()
    }

    fn reply(question: &ApprovalQuestion) -> Option<ApprovalReply> {
        let host = question.title.strip_prefix("Connect to ").unwrap();
        Some(match host.split('.').next().unwrap() {
            "once" => ApprovalAnswer::AllowOnce.into(),
            "session" => ApprovalAnswer::AllowSession.into(),
            "never" => ApprovalAnswer::RejectSession.into(),
            "why" => ApprovalReply::RejectWithMessage("use the mirror".to_owned()),
            "silent" => return None,
            _ => ApprovalAnswer::RejectOnce.into(),
        })
    }
}

/// Counts a question as shown until it is answered or withdrawn.
struct QuestionGuard<'a>(&'a ScriptedUser);

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Approver for ScriptedUser {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }

    fn ask_for_reply<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(async move {
            if question.subject == ApprovalSubject::Call {
                return ApprovalAnswer::AllowOnce.into();
            }
            self.open.fetch_add(1, Ordering::SeqCst);
            let _shown = QuestionGuard(self);
            self.questions.lock().unwrap().push(question.clone());
            match Self::reply(question) {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }
}

fn session(rules: &[&str]) -> (Arc<ScriptedUser>, ToolFixture) {
    let user = Arc::new(ScriptedUser::default());
    let f = session_with_approver(rules, &[], Arc::clone(&user) as Arc<dyn Approver>);
    (user, f)
}

fn notes(outcome: &Value) -> Vec<&str> {
    let notes = outcome["notes"].as_array().map(Vec::as_slice).unwrap_or_default();
    notes.iter().map(|note| note.as_str().unwrap()).collect()
}

#[tokio::test]
async fn host_is_reached_after_yes_and_for_this_call_only() {
    let port = CountingServer::default().start();
    let (user, f) = session(&[]);
    let script = format!("for n in 1 2 3; do curl -sS -m 50 http://once.test:{port}/; done");
    assert_eq!(run_script(&f, &script).await, "hellohellohello");
    let title = format!("Connect to once.test:{port}");
    assert_eq!(user.titles(), [title.as_str()]);
    {
        let questions = user.questions.lock().unwrap();
        let question = &questions[0];
        let commands: Vec<String> = question.commands().map(ToString::to_string).collect();
        assert_eq!(commands, ["bash script"], "the question shows the command");
        let reason = "the command that runs connects to it, and no rule allows this host";
        assert_eq!(question.reason, reason);
        let options: Vec<&str> = question.options().iter().map(|option| option.id).collect();
        assert_eq!(options, ["allow_once", "reject_once"], "no rule covers this port");
    }
    run_script(&f, &script).await;
    assert_eq!(user.titles().len(), 2, "it is asked again in the next call");
    f.open_session().end();
    let rows = connection_rows(&f, &format!("once.test:{port}"));
    let answers: Vec<Option<&str>> =
        rows.iter().map(|row| row.decision.as_ref().unwrap().answered.as_deref()).collect();
    let asked = Some("test: allow once");
    assert_eq!(answers, [asked, None, None, asked, None, None]);
    assert!(rows.iter().all(|row| row.status == "ok"), "{rows:?}");
    verify_audit_chain(&f);
}

#[tokio::test]
async fn answer_for_session_creates_the_grant_it_shows() {
    let (user, f) = session(&[]);
    // Nothing listens there: the connection fails, which only an allowed command can observe.
    for _ in 0..2 {
        let outcome = run_fetch(&f, "http://session.test/").await;
        assert!(outcome["stdout"].as_str().unwrap().contains("could not connect"), "{outcome}");
    }
    let options = user.questions.lock().unwrap()[0].options();
    let names: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Allow once",
            "Allow `WebFetch(domain:session.test)` in this session",
            "Reject",
            "Reject `WebFetch(domain:session.test)` in this session",
        ]
    );
    assert_eq!(user.titles(), ["Connect to session.test:80"]);
    let grants = f.open_session().grants();
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0].grant.rule, "WebFetch(domain:session.test)");
    f.open_session().end();
    let rows = connection_rows(&f, "session.test:80");
    let decision = rows[0].decision.as_ref().unwrap();
    assert_eq!(decision.answered.as_deref(), Some("test: allow in this session"));
    assert_eq!(decision.grants, ["WebFetch(domain:session.test)"]);
    let decision = rows[1].decision.as_ref().unwrap();
    assert_eq!((decision.answered.as_deref(), decision.source.as_deref()), (None, Some("grant")));
}

#[tokio::test]
async fn refused_host_is_named_in_result_and_not_asked_about_again() {
    let (user, f) = session(&["deny WebFetch(domain:denied.test)"]);
    let fetches = ["no.test", "why.test", "denied.test", "no.test", "why.test", "localhost:1"]
        .map(|host| format!("curl -s -m 50 --noproxy '' http://{host}/ >/dev/null"));
    f.write_file("script", fetches.join("; "));
    let input = json!({"command": "bash script"});
    let outcome = command_facts(f.call("Bash", input).await.unwrap());
    assert_eq!(user.titles(), ["Connect to no.test:80", "Connect to why.test:80"]);
    let notes = notes(&outcome);
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert_eq!(notes[0], "network: no.test:80 was refused: the user rejected it");
    let said = "network: why.test:80 was refused: the user rejected it and says: use the mirror";
    assert_eq!(notes[1], said);
    assert!(notes[2].starts_with("network: denied.test:80 was refused: rule `"), "{notes:?}");
    assert!(notes[3].starts_with("network: localhost:1 was refused: it is this machine"));
    // A rejection for the session holds in the next calls, too.
    for _ in 0..2 {
        let outcome = run_fetch(&f, "http://never.test/").await;
        let note = "network: never.test:80 was refused: the user rejected it";
        assert_eq!(outcome["notes"], json!([note]), "{outcome}");
    }
    assert_eq!(user.titles().len(), 3);
    f.open_session().end();
    let rows = connection_rows(&f, "never.test:80");
    let answers: Vec<&str> = rows
        .iter()
        .map(|row| row.decision.as_ref().unwrap().answered.as_deref().unwrap())
        .collect();
    assert_eq!(answers, ["test: reject in this session", "test: reject, earlier in this session"]);
}

#[tokio::test]
async fn ask_rule_is_asked_while_command_runs() {
    let port = CountingServer::default().start();
    let (user, f) = session(&["ask WebFetch(domain:once.test)", "allow WebFetch"]);
    let outcome = run_fetch(&f, &format!("http://once.test:{port}/")).await;
    assert_eq!(outcome["stdout"], "hello", "{outcome}");
    assert!(user.questions.lock().unwrap()[0].grants.is_empty(), "a grant would not help");
}

#[tokio::test]
async fn question_ends_with_its_call() {
    let (user, f) = session(&[]);
    // The command gives up first.
    f.write_file("script", "curl -s -m 1 http://silent.test/; echo $?");
    let outcome = f.call("Bash", json!({"command": "bash script"})).await.unwrap();
    let outcome = command_facts(outcome);
    assert_eq!(outcome["stdout"], "28\n", "{outcome}");
    let begin = "network: silent.test:80 was refused: the user did not answer the question about it within 1 s; to allow it: ";
    assert!(notes(&outcome).len() == 1 && notes(&outcome)[0].starts_with(begin), "{outcome}");
    assert_eq!((user.titles().len(), user.open.load(Ordering::SeqCst)), (1, 0));

    // The caller gives up first.
    f.write_file("script", "curl -s -m 50 http://silent.test/");
    let stop = CancellationToken::new();
    let call = ToolCall {
        id: new_call_id(),
        session: None,
        tool: "Bash".to_owned(),
        input: json!({"command": "bash script"}),
        timeout: None,
    };
    let dialect = Dialect::new(DialectName::Canonical);
    let running = f.host.call(f.open_session(), &dialect, call, &stop);
    let cancel = async {
        wait_until("it was not asked", async || user.titles().len() == 2).await;
        assert_eq!(user.open.load(Ordering::SeqCst), 1);
        stop.cancel();
    };
    let (report, ()) = tokio::join!(running, cancel);
    assert_eq!(report.outcome.unwrap_err().details["reason"], "cancelled");
    assert_eq!(user.open.load(Ordering::SeqCst), 0, "the question is withdrawn");
    f.open_session().end();
    let rows = connection_rows(&f, "silent.test:80");
    assert!(rows.len() == 2 && rows.iter().all(|row| row.status != "ok"), "{rows:?}");
}

#[tokio::test]
async fn connection_of_job_is_refused_once_its_call_is_over() {
    let (user, f) = session(&[]);
    f.write_file(
        "script",
        "while [ ! -e go ]; do sleep 0.05; done; curl -s -m 50 once.test; touch done",
    );
    let input = json!({"command": "bash script", "run_in_background": true});
    f.call("Bash", input).await.unwrap();
    f.write_file("go", "");
    wait_until("the job did not end", async || f.path("done").exists()).await;
    assert_eq!(user.titles(), [""; 0]);
    f.open_session().end();
    assert_eq!(connection_rows(&f, "once.test:80")[0].status, "denied");
}

#[tokio::test]
async fn unanswered_question_refuses_connection() {
    let user = Arc::new(ScriptedUser::default());
    let approver = Arc::clone(&user) as Arc<dyn Approver>;
    let f = ToolFixture::session_with_host(|config| {
        config.approver = Some(approver);
        config.policy = Arc::new(zero_runtime::RulePolicy::new(
            zero_policy::PolicyEngine::new(zero_policy::PolicyEngineConfig::default()),
            Vec::new(),
        ));
        let connection_question_timeout = Duration::from_millis(200);
        config.limits = HostLimits { connection_question_timeout, ..HostLimits::default() };
    });
    let outcome = run_fetch(&f, "http://silent.test/").await;
    let notes = notes(&outcome);
    let begin = "network: silent.test:80 was refused: the user did not answer the question about it within 1 s; to allow it: ";
    assert!(notes.len() == 1 && notes[0].starts_with(begin), "{outcome}");
}

#[tokio::test]
async fn plan_mode_does_not_ask() {
    let (user, f) = session(&[]);
    f.write_file(
        "script",
        "touch began; while [ ! -e go ]; do sleep 0.05; done; curl -s once.test",
    );
    let running = f.call("Bash", json!({"command": "bash script"}));
    let change = async {
        wait_until("it did not begin", async || f.path("began").exists()).await;
        f.open_session().set_mode(Some(PermissionMode::Plan));
        f.write_file("go", "");
    };
    let (outcome, ()) = tokio::join!(running, change);
    let outcome = command_facts(outcome.unwrap());
    assert!(notes(&outcome)[0].contains("once.test:80 was refused: no rule allows"), "{outcome}");
    assert_eq!(user.titles(), [""; 0]);
}

#[tokio::test]
async fn command_that_only_reads_has_no_network_and_asks_nothing() {
    let (user, f) = session(&[]);
    let outcome = f.call("Bash", json!({"command": "env | grep -ic proxy"})).await.unwrap();
    assert_eq!(outcome.result.structured["stdout"], "0\n");
    assert_eq!(user.titles(), [""; 0]);
}
