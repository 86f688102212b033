//! Runs that wait for the user or for remote tools, and runs that use the permits meanwhile.

use std::sync::Arc;
use std::time::Duration;

use zero_runtime::ApprovalAnswer;

use super::fixture::{ScriptedToolBackend, SessionTestBed, run_id};
use crate::event::{EventKind, RunOutcome};
use crate::sessions::SessionLimits;

const PATIENCE: Duration = Duration::from_secs(60);

async fn new_test_bed(answers: &[&str], runs_max: usize) -> SessionTestBed {
    SessionTestBed::with_limits(answers, SessionLimits { runs_max, ..SessionLimits::default() })
        .await
}

/// Waits until the condition holds.
async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}");
}

async fn wait_for_questions(lab: &SessionTestBed, questions: usize) {
    wait_until("nobody is asked", || lab.sessions.approvals().list().len() == questions).await;
}

fn answer_all(lab: &SessionTestBed) {
    for pending in lab.sessions.approvals().list() {
        assert!(lab.sessions.approvals().resolve(
            &pending.request.id,
            ApprovalAnswer::AllowOnce,
            "me"
        ));
    }
}

fn available_permits(lab: &SessionTestBed) -> usize {
    lab.sessions.inner.places.available()
}

#[tokio::test]
async fn runs_waiting_for_user_block_nobody() {
    let answers = ["Ask:1", "Ask:1", "Ask:1", "Ask:1", "b", "a", "a", "a", "a"];
    let mut lab = new_test_bed(&answers, 2).await;
    let mine = ["one", "two", "three", "four"];
    for (asked, key) in (1..).zip(mine) {
        lab.switch_session(key, "a").await;
        lab.send(key).await;
        wait_for_questions(&lab, asked).await;
    }
    let stats = lab.sessions.stats();
    assert_eq!((stats.running, stats.queued, available_permits(&lab)), (4, 0, 2));
    lab.switch_session("other", "b").await;
    assert_eq!(lab.run("b").await, "prompt b / started / text b / usage / ended completed");
    answer_all(&lab);
    for key in mine {
        lab.key = lab.sessions.resolve_key(key).unwrap();
        assert_eq!(lab.wait_for_run(key).await.run.end, Some(RunOutcome::Completed));
        lab.check_ledger().await;
    }
    let stats = lab.sessions.stats();
    assert_eq!((stats.running, stats.queued, stats.ended, available_permits(&lab)), (0, 0, 5, 2));
}

#[tokio::test]
async fn owner_limit_leaves_permits_for_others() {
    let mut lab = new_test_bed(&["Hang:1", "Hang:2", "Hang:3", "b"], 4).await;
    let mine = ["one", "two", "three", "four"];
    for key in mine {
        lab.switch_session(key, "a").await;
        lab.send(key).await;
        let called = || lab.backend.log.lock().unwrap().len();
        wait_until("neither at work nor queued", || {
            called() + available_permits(&lab) == 4 || key == "four"
        })
        .await;
    }
    lab.wait_for_line("notice queued").await;
    let stats = lab.sessions.stats();
    assert_eq!(
        (stats.running, stats.queued, available_permits(&lab)),
        (3, 1, 1),
        "a share is three of four"
    );
    lab.switch_session("other", "b").await;
    assert!(!lab.run("b").await.contains("queued"));
    for key in mine {
        let key = lab.sessions.resolve_key(key).unwrap();
        lab.sessions.abort(&key, None, "rpc").await.unwrap();
    }
    for key in mine {
        lab.key = lab.sessions.resolve_key(key).unwrap();
        lab.wait_for_run(key).await;
        lab.check_ledger().await;
    }
    assert_eq!((lab.sessions.stats().running, available_permits(&lab)), (0, 4));
}

/// A run of `a` that has its answer and waits for its permit, which `b` holds.
async fn paused_run() -> SessionTestBed {
    let mut lab = new_test_bed(&["Ask:1", "Hang:2", "done"], 1).await;
    lab.switch_session("one", "a").await;
    lab.send("one").await;
    wait_for_questions(&lab, 1).await;
    lab.switch_session("two", "b").await;
    lab.send("two").await;
    lab.wait_for_line("tool Hang").await;
    assert_eq!(available_permits(&lab), 0);
    answer_all(&lab);
    lab.wait_for_line("notice queued").await;
    lab.key = lab.sessions.resolve_key("one").unwrap();
    assert!(lab.ledger_lines().await.ends_with("answer allow_once by me / notice queued"));
    lab
}

#[tokio::test]
async fn answered_run_resumes_when_permit_is_free() {
    let lab = paused_run().await;
    let other = lab.sessions.resolve_key("two").unwrap();
    lab.sessions.abort(&other, None, "rpc").await.unwrap();
    assert_eq!(lab.wait_for_run("one").await.run.end, Some(RunOutcome::Completed));
    lab.check_ledger().await;
    lab.check_ledger_of(&other).await;
    assert_eq!((lab.sessions.stats().running, available_permits(&lab)), (0, 1));
}

#[tokio::test]
async fn run_waiting_to_resume_can_be_stopped() {
    let lab = paused_run().await;
    lab.sessions.abort(&lab.key, Some(&run_id("one")), "rpc").await.unwrap();
    assert_eq!(
        lab.wait_for_run("one").await.run.end,
        Some(RunOutcome::Aborted { by: "rpc".to_owned() })
    );
    lab.check_ledger().await;
    assert_eq!(
        (lab.sessions.stats().running, available_permits(&lab)),
        (1, 0),
        "the other one works on"
    );
    let other = lab.sessions.resolve_key("two").unwrap();
    lab.sessions.abort(&other, None, "rpc").await.unwrap();
    lab.wait_for_run("two").await;
    assert_eq!((lab.sessions.stats().running, available_permits(&lab)), (0, 1));
}

#[tokio::test]
async fn loop_question_holds_no_permit() {
    let answers = ["Read:1", "Read:1", "Read:1", "b", "done"];
    let mut lab = new_test_bed(&answers, 1).await;
    lab.switch_session("one", "a").await;
    lab.send("one").await;
    wait_for_questions(&lab, 1).await;
    assert_eq!(available_permits(&lab), 1);
    lab.switch_session("two", "b").await;
    assert!(!lab.run("b").await.contains("queued"));
    answer_all(&lab);
    lab.key = lab.sessions.resolve_key("one").unwrap();
    assert_eq!(lab.wait_for_run("one").await.run.end, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn client_tool_calls_hold_no_permit() {
    for (silent, answers) in [(false, &["Stuck:1", "b"][..]), (true, &["b"])] {
        let mut lab = new_test_bed(answers, 1).await;
        lab.switch_session("one", "a").await;
        let (log, name) = (Arc::clone(&lab.backend.log), "laptop".to_owned());
        let backend = ScriptedToolBackend { log, order: None, name, store: None, silent };
        let lease =
            lab.sessions.attach_backend(&lab.key, "laptop", Arc::new(backend)).await.unwrap();
        lab.send("one").await;
        lab.wait_for_line(if silent { "started" } else { "tool Stuck" }).await;
        wait_until("the place is kept", || available_permits(&lab) == 1).await;
        lab.switch_session("two", "b").await;
        assert!(!lab.run("b").await.contains("queued"), "{silent}");
        drop(lease);
        lab.key = lab.sessions.resolve_key("one").unwrap();
        let end = lab.wait_for_run("one").await.run.end;
        assert!(
            matches!(&end, Some(RunOutcome::Failed { kind, .. }) if kind == "tool_host"),
            "{end:?}"
        );
        assert_eq!((lab.sessions.stats().running, available_permits(&lab)), (0, 1));
    }
}

#[tokio::test]
async fn call_description_precedes_its_approval() {
    for _ in 0..50 {
        let lab = SessionTestBed::new(&["Explain:1", "done"]).await;
        lab.send("go").await;
        lab.wait_for_line("approval").await;
        answer_all(&lab);
        lab.wait_for_run("go").await;
        lab.check_ledger().await;
        let lines = lab.ledger_lines().await;
        let order = "tool Explain / update What it is  / approval Ask / answer allow_once by me";
        assert!(lines.contains(order), "{lines}");
    }
}

#[tokio::test]
async fn empty_answer_is_noticed() {
    for (answer, is_empty) in [("", true), ("~hm", true), ("word", false), ("@max", false)] {
        let lab = SessionTestBed::new(&[answer]).await;
        let lines = lab.run("go").await;
        assert_eq!(lines.contains("notice empty_answer"), is_empty, "{answer}: {lines}");
        let ledger = lab.store.ledger(&lab.record().await.id);
        let said = ledger.iter().any(|event| {
            matches!(&event.what, EventKind::Notice { text, .. } if text.starts_with("the model gave an empty answer"))
        });
        assert_eq!(said, is_empty, "{answer}");
    }
}
