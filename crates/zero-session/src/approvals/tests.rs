//! The question queues alone; the session tests cover how runs use them.

use std::path::PathBuf;

use tokio::sync::oneshot;
use zero_core::{CallId, RiskLevel, ToolName};
use zero_runtime::{
    ApprovalQuestion, ApprovalSubject, Elicitation, ElicitationAnswer, ElicitationMode,
    Elicitor as _,
};

use super::*;
use crate::sessions::tests::fixture::SessionTestBed;
use zero_runtime::tool_backend::CallApprover as _;

fn question() -> ApprovalQuestion {
    ApprovalQuestion {
        call: CallId::from_bits(1),
        tool: ToolName::new("Bash").unwrap(),
        title: "Run it".to_owned(),
        reason: "its risk is high".to_owned(),
        risk: RiskLevel::High,
        effects: Vec::new(),
        judged: Vec::new(),
        rule_owners: Vec::new(),
        can_edit_command: false,
        can_try_command: false,
        can_reject_tool: false,
        grants: vec![zero_policy::GrantScope {
            rule: "Bash(x)".to_owned(),
            folder: None,
            program: None,
        }],
        preview: Some(zero_core::ResultDisplay::markdown("what it does")),
        rewritten: None,
        withdrawal: Default::default(),
        subject: ApprovalSubject::Call,
        workspace: PathBuf::from("/w"),
    }
}

fn visit() -> Elicitation {
    Elicitation {
        origin: "MCP server `x`".to_owned(),
        call: None,
        message: "come here".to_owned(),
        mode: ElicitationMode::Url("https://example.com/".to_owned()),
    }
}

#[tokio::test]
async fn approval_request_has_all_details() {
    let fixture = SessionTestBed::new(&[]).await;
    let asker = fixture.broker().await;
    let answer = tokio::spawn(async move { asker.ask("call_1", &question()).await });
    fixture.wait_for_line("approval Run it").await;
    let [pending] = &fixture.sessions.approvals().list()[..] else { panic!("one waits") };
    let request = &pending.request;
    assert_eq!(fixture.sessions.approvals().get(&request.id).as_ref(), Some(pending));
    let fields = (&*request.call, &*request.tool, &*request.risk, &*request.cwd);
    assert_eq!(fields, ("call_1", "Bash", "high", "/w"));
    let options: Vec<&str> = request.options.iter().map(|option| &*option.id).collect();
    assert_eq!(options, ["allow_once", "allow_always", "reject_once", "reject_always"]);
    assert!(request.preview.is_some() && request.expires_ms > pending.created_ms);
    assert!(fixture.sessions.approvals().resolve(&request.id, ApprovalAnswer::RejectSession, "me"));
    assert!(fixture.sessions.approvals().get(&request.id).is_none(), "it waits no more");
    assert_eq!(answer.await.unwrap(), ApprovalAnswer::RejectSession);
    assert_eq!(fixture.ledger_lines().await, "approval Run it / answer reject_always by me");
}

/// Answers come from other threads, as soon as a question can be found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_is_recorded_after_its_question() {
    for _ in 0..100 {
        let fixture = SessionTestBed::new(&[]).await;
        let (asker, approvals) = (fixture.broker().await, fixture.sessions.approvals().clone());
        let answerer = std::thread::spawn({
            let runtime = tokio::runtime::Handle::current();
            move || {
                let _entered = runtime.enter();
                loop {
                    if let [pending] = &approvals.list()[..] {
                        return approvals.resolve(
                            &pending.request.id,
                            ApprovalAnswer::AllowOnce,
                            "me",
                        );
                    }
                }
            }
        });
        assert_eq!(asker.ask("call_1", &question()).await, ApprovalAnswer::AllowOnce);
        assert!(answerer.join().unwrap());
        assert_eq!(fixture.ledger_lines().await, "approval Run it / answer allow_once by me");
    }
}

#[tokio::test]
async fn simultaneous_questions_are_listed_in_order() {
    let fixture = SessionTestBed::new(&[]).await;
    let calls: Vec<String> = (0..10).map(|number| format!("call_{number}")).collect();
    for call in calls.clone() {
        let asker = fixture.broker().await;
        tokio::spawn(async move { asker.ask(&call, &question()).await });
    }
    let list = || fixture.sessions.approvals().list();
    while list().len() < calls.len() {
        tokio::task::yield_now().await;
    }
    let listed: Vec<String> = list().into_iter().map(|pending| pending.request.call).collect();
    assert_eq!(listed, calls);
}

#[tokio::test]
async fn dropped_asker_withdraws_question() {
    let fixture = SessionTestBed::new(&[]).await;
    let asker = fixture.broker().await;
    let asked = tokio::spawn(async move { asker.ask("call_1", &question()).await });
    fixture.wait_for_line("approval").await;
    asked.abort();
    fixture.wait_for_line("answer cancelled by zero").await;
    assert!(fixture.sessions.approvals().list().is_empty());
}

#[tokio::test]
async fn unwritable_question_is_rejected() {
    let fixture = SessionTestBed::new(&[]).await;
    let asker = fixture.broker().await;
    fixture.store.fail_writes([1]);
    assert_eq!(asker.ask("call_1", &question()).await, ApprovalAnswer::RejectOnce);
    assert_eq!(fixture.ledger_lines().await, "", "nobody was asked");
    assert!(fixture.sessions.approvals().list().is_empty());
}

#[tokio::test]
async fn tool_question_returns_user_answer() {
    let fixture = SessionTestBed::new(&[]).await;
    let values = Map::from_iter([("name".to_owned(), Value::from("secret"))]);
    for (answer, expected) in [
        (QuestionAnswer::Accept(values.clone()), ElicitationAnswer::Accept(values)),
        (QuestionAnswer::Decline, ElicitationAnswer::Decline),
        (QuestionAnswer::Cancel, ElicitationAnswer::Cancel),
    ] {
        let asker = fixture.broker().await;
        let (done, got) = oneshot::channel();
        tokio::spawn(async move { done.send(asker.elicit(&visit()).await) });
        let pending = loop {
            match fixture.sessions.questions().list().pop() {
                Some(pending) => break pending,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(pending.question.url.as_deref(), Some("https://example.com/"));
        assert_eq!(pending.question.origin, "MCP server `x`");
        assert!(fixture.sessions.questions().resolve(&pending.question.id, answer.clone()));
        assert!(!fixture.sessions.questions().resolve(&pending.question.id, answer));
        assert_eq!(got.await.unwrap(), expected);
    }
    let ledger = format!("{:?}", fixture.store.ledger(&fixture.record().await.id));
    assert!(!ledger.contains("secret"), "what they wrote is not kept: {ledger}");
}

#[tokio::test]
async fn client_of_a_gateway_cannot_let_a_command_leave_the_sandbox() {
    let fixture = SessionTestBed::new(&[]).await;
    assert!(!fixture.broker().await.can_leave_sandbox());
}
