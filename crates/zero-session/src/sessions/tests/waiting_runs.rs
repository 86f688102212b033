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

async fn wait_for_questions(fixture: &SessionTestBed, questions: usize) {
    wait_until("nobody is asked", || fixture.sessions.approvals().list().len() == questions).await;
}

fn answer_all(fixture: &SessionTestBed) {
    for pending in fixture.sessions.approvals().list() {
        assert!(fixture.sessions.approvals().resolve(
            &pending.request.id,
            ApprovalAnswer::AllowOnce,
            "me"
        ));
    }
}

fn available_permits(fixture: &SessionTestBed) -> usize {
    fixture.sessions.inner.run_limiter.available()
}

#[tokio::test]
async fn runs_waiting_for_user_do_not_block_others() {
    let answers = ["Ask:1", "Ask:1", "Ask:1", "Ask:1", "b", "a", "a", "a", "a"];
    let mut fixture = new_test_bed(&answers, 2).await;
    let mine = ["one", "two", "three", "four"];
    for (asked, key) in (1..).zip(mine) {
        fixture.switch_session(key, "a").await;
        fixture.send(key).await;
        wait_for_questions(&fixture, asked).await;
    }
    let stats = fixture.sessions.stats();
    assert_eq!((stats.running, stats.queued, available_permits(&fixture)), (4, 0, 2));
    fixture.switch_session("other", "b").await;
    assert_eq!(fixture.run("b").await, "prompt b / started / text b / usage / ended completed");
    answer_all(&fixture);
    for key in mine {
        fixture.key = fixture.address_of("a", key);
        assert_eq!(fixture.wait_for_run(key).await.run.end, Some(RunOutcome::Completed));
        fixture.check_ledger().await;
    }
    let stats = fixture.sessions.stats();
    assert_eq!(
        (stats.running, stats.queued, stats.ended, available_permits(&fixture)),
        (0, 0, 5, 2)
    );
}

#[tokio::test]
async fn owner_limit_leaves_permits_for_others() {
    let mut fixture = new_test_bed(&["Hang:1", "Hang:2", "Hang:3", "b"], 4).await;
    let mine = ["one", "two", "three", "four"];
    for key in mine {
        fixture.switch_session(key, "a").await;
        fixture.send(key).await;
        let called = || fixture.backend.log.lock().unwrap().len();
        wait_until("neither at work nor queued", || {
            called() + available_permits(&fixture) == 4 || key == "four"
        })
        .await;
    }
    fixture.wait_for_line("notice queued").await;
    let stats = fixture.sessions.stats();
    assert_eq!(
        (stats.running, stats.queued, available_permits(&fixture)),
        (3, 1, 1),
        "a share is three of four"
    );
    fixture.switch_session("other", "b").await;
    assert!(!fixture.run("b").await.contains("queued"));
    for key in mine {
        let key = fixture.address_of("a", key);
        fixture.sessions.abort(&key, None, "rpc").await.unwrap();
    }
    for key in mine {
        fixture.key = fixture.address_of("a", key);
        fixture.wait_for_run(key).await;
        fixture.check_ledger().await;
    }
    assert_eq!((fixture.sessions.stats().running, available_permits(&fixture)), (0, 4));
}

/// A run of `a` that has its answer and waits for its permit, which `b` holds.
async fn paused_run() -> SessionTestBed {
    let mut fixture = new_test_bed(&["Ask:1", "Hang:2", "done"], 1).await;
    fixture.switch_session("one", "a").await;
    fixture.send("one").await;
    wait_for_questions(&fixture, 1).await;
    fixture.switch_session("two", "b").await;
    fixture.send("two").await;
    fixture.wait_for_line("tool Hang").await;
    assert_eq!(available_permits(&fixture), 0);
    answer_all(&fixture);
    fixture.wait_for_line("notice queued").await;
    fixture.key = fixture.address_of("a", "one");
    assert!(fixture.ledger_lines().await.ends_with("answer allow_once by me / notice queued"));
    fixture
}

#[tokio::test]
async fn answered_run_resumes_when_permit_is_free() {
    let fixture = paused_run().await;
    let other = fixture.address_of("b", "two");
    fixture.sessions.abort(&other, None, "rpc").await.unwrap();
    assert_eq!(fixture.wait_for_run("one").await.run.end, Some(RunOutcome::Completed));
    fixture.check_ledger().await;
    fixture.check_ledger_of(&other).await;
    assert_eq!((fixture.sessions.stats().running, available_permits(&fixture)), (0, 1));
}

#[tokio::test]
async fn run_waiting_to_resume_can_be_stopped() {
    let fixture = paused_run().await;
    fixture.sessions.abort(&fixture.key, Some(&run_id("one")), "rpc").await.unwrap();
    assert_eq!(
        fixture.wait_for_run("one").await.run.end,
        Some(RunOutcome::Aborted { by: "rpc".to_owned() })
    );
    fixture.check_ledger().await;
    assert_eq!(
        (fixture.sessions.stats().running, available_permits(&fixture)),
        (1, 0),
        "the other one works on"
    );
    let other = fixture.address_of("b", "two");
    fixture.sessions.abort(&other, None, "rpc").await.unwrap();
    fixture.wait_for_run("two").await;
    assert_eq!((fixture.sessions.stats().running, available_permits(&fixture)), (0, 1));
}

#[tokio::test]
async fn loop_question_holds_no_permit() {
    let answers = ["Read:1", "Read:1", "Read:1", "b", "done"];
    let mut fixture = new_test_bed(&answers, 1).await;
    fixture.switch_session("one", "a").await;
    fixture.send("one").await;
    wait_for_questions(&fixture, 1).await;
    assert_eq!(available_permits(&fixture), 1);
    fixture.switch_session("two", "b").await;
    assert!(!fixture.run("b").await.contains("queued"));
    answer_all(&fixture);
    fixture.key = fixture.address_of("a", "one");
    assert_eq!(fixture.wait_for_run("one").await.run.end, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn client_tool_calls_hold_no_permit() {
    for (silent, answers) in [(false, &["Stuck:1", "b"][..]), (true, &["b"])] {
        let mut fixture = new_test_bed(answers, 1).await;
        fixture.switch_session("one", "a").await;
        let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
        let backend = ScriptedToolBackend { log, order: None, name, store: None, silent };
        let lease = fixture
            .sessions
            .attach_backend(&fixture.key, "laptop", Arc::new(backend))
            .await
            .unwrap();
        fixture.send("one").await;
        fixture.wait_for_line(if silent { "started" } else { "tool Stuck" }).await;
        wait_until("the permit is held", || available_permits(&fixture) == 1).await;
        fixture.switch_session("two", "b").await;
        assert!(!fixture.run("b").await.contains("queued"), "{silent}");
        drop(lease);
        fixture.key = fixture.address_of("a", "one");
        let end = fixture.wait_for_run("one").await.run.end;
        assert!(
            matches!(&end, Some(RunOutcome::Failed { kind, .. }) if kind == "tool_host"),
            "{end:?}"
        );
        assert_eq!((fixture.sessions.stats().running, available_permits(&fixture)), (0, 1));
    }
}

#[tokio::test]
async fn call_description_precedes_its_approval() {
    for _ in 0..50 {
        let fixture = SessionTestBed::new(&["Explain:1", "done"]).await;
        fixture.send("go").await;
        fixture.wait_for_line("approval").await;
        answer_all(&fixture);
        fixture.wait_for_run("go").await;
        fixture.check_ledger().await;
        let lines = fixture.ledger_lines().await;
        let order = "tool Explain / update What it is  / approval Ask / answer allow_once by me";
        assert!(lines.contains(order), "{lines}");
    }
}

#[tokio::test]
async fn empty_answer_is_noticed() {
    for (answer, is_empty) in [("", true), ("~hm", true), ("word", false), ("@max", false)] {
        let fixture = SessionTestBed::new(&[answer]).await;
        let lines = fixture.run("go").await;
        assert_eq!(lines.contains("notice empty_answer"), is_empty, "{answer}: {lines}");
        let ledger = fixture.store.ledger(&fixture.record().await.id);
        let is_in_ledger = ledger.iter().any(|event| {
            matches!(&event.kind, EventKind::Notice { text, .. } if text.starts_with("the model gave an empty answer"))
        });
        assert_eq!(is_in_ledger, is_empty, "{answer}");
    }
}
