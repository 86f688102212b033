//! Runs that wait, for a person or for tools elsewhere, and runs that want to work meanwhile.

use std::sync::Arc;
use std::time::Duration;

use zero_runtime::ApprovalAnswer;

use super::fixture::{ScriptedToolBackend, SessionTestBed, run_of};
use crate::event::{EventKind, RunOutcome};
use crate::sessions::SessionLimits;

const PATIENCE: Duration = Duration::from_secs(60);

async fn lab(answers: &[&str], runs_max: usize) -> SessionTestBed {
    SessionTestBed::with(answers, SessionLimits { runs_max, ..SessionLimits::default() }).await
}

/// Waits until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}");
}

async fn until_asked(lab: &SessionTestBed, questions: usize) {
    until("nobody is asked", || lab.sessions.approvals().list().len() == questions).await;
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

fn free(lab: &SessionTestBed) -> usize {
    lab.sessions.inner.places.free()
}

#[tokio::test]
async fn runs_that_wait_for_a_person_hinder_nobody() {
    let answers = ["Ask:1", "Ask:1", "Ask:1", "Ask:1", "b", "a", "a", "a", "a"];
    let mut lab = lab(&answers, 2).await;
    let mine = ["one", "two", "three", "four"];
    for (asked, key) in (1..).zip(mine) {
        lab.turn_to(key, "a").await;
        lab.send(key).await;
        until_asked(&lab, asked).await;
    }
    let stats = lab.sessions.stats();
    assert_eq!((stats.running, stats.queued, free(&lab)), (4, 0, 2));
    lab.turn_to("other", "b").await;
    assert_eq!(lab.run("b").await, "prompt b / started / text b / usage / ended completed");
    answer_all(&lab);
    for key in mine {
        lab.key = lab.sessions.key(key).unwrap();
        assert_eq!(lab.ended(key).await.run.end, Some(RunOutcome::Completed));
        lab.check().await;
    }
    let stats = lab.sessions.stats();
    assert_eq!((stats.running, stats.queued, stats.ended, free(&lab)), (0, 0, 5, 2));
}

#[tokio::test]
async fn one_owner_leaves_room_for_others() {
    let mut lab = lab(&["Hang:1", "Hang:2", "Hang:3", "b"], 4).await;
    let mine = ["one", "two", "three", "four"];
    for key in mine {
        lab.turn_to(key, "a").await;
        lab.send(key).await;
        let called = || lab.hands.log.lock().unwrap().len();
        until("neither at work nor queued", || called() + free(&lab) == 4 || key == "four").await;
    }
    lab.until("notice queued").await;
    let stats = lab.sessions.stats();
    assert_eq!((stats.running, stats.queued, free(&lab)), (3, 1, 1), "a share is three of four");
    lab.turn_to("other", "b").await;
    assert!(!lab.run("b").await.contains("queued"));
    for key in mine {
        let key = lab.sessions.key(key).unwrap();
        lab.sessions.abort(&key, None, "rpc").await.unwrap();
    }
    for key in mine {
        lab.key = lab.sessions.key(key).unwrap();
        lab.ended(key).await;
        lab.check().await;
    }
    assert_eq!((lab.sessions.stats().running, free(&lab)), (0, 4));
}

/// A run of `a` that has its answer, and waits for its place, which `b` has.
async fn waits_to_go_on() -> SessionTestBed {
    let mut lab = lab(&["Ask:1", "Hang:2", "done"], 1).await;
    lab.turn_to("one", "a").await;
    lab.send("one").await;
    until_asked(&lab, 1).await;
    lab.turn_to("two", "b").await;
    lab.send("two").await;
    lab.until("tool Hang").await;
    assert_eq!(free(&lab), 0);
    answer_all(&lab);
    lab.until("notice queued").await;
    lab.key = lab.sessions.key("one").unwrap();
    assert!(lab.lines().await.ends_with("answer allow_once by me / notice queued"));
    lab
}

#[tokio::test]
async fn who_was_answered_goes_on_when_there_is_room() {
    let lab = waits_to_go_on().await;
    let other = lab.sessions.key("two").unwrap();
    lab.sessions.abort(&other, None, "rpc").await.unwrap();
    assert_eq!(lab.ended("one").await.run.end, Some(RunOutcome::Completed));
    lab.check().await;
    lab.check_of(&other).await;
    assert_eq!((lab.sessions.stats().running, free(&lab)), (0, 1));
}

#[tokio::test]
async fn who_waits_to_go_on_can_be_stopped() {
    let lab = waits_to_go_on().await;
    lab.sessions.abort(&lab.key, Some(&run_of("one")), "rpc").await.unwrap();
    assert_eq!(lab.ended("one").await.run.end, Some(RunOutcome::Aborted { by: "rpc".to_owned() }));
    lab.check().await;
    assert_eq!((lab.sessions.stats().running, free(&lab)), (1, 0), "the other one works on");
    let other = lab.sessions.key("two").unwrap();
    lab.sessions.abort(&other, None, "rpc").await.unwrap();
    lab.ended("two").await;
    assert_eq!((lab.sessions.stats().running, free(&lab)), (0, 1));
}

#[tokio::test]
async fn a_run_that_repeats_itself_holds_no_place_while_its_person_is_asked() {
    let answers = ["Read:1", "Read:1", "Read:1", "b", "done"];
    let mut lab = lab(&answers, 1).await;
    lab.turn_to("one", "a").await;
    lab.send("one").await;
    until_asked(&lab, 1).await;
    assert_eq!(free(&lab), 1);
    lab.turn_to("two", "b").await;
    assert!(!lab.run("b").await.contains("queued"));
    answer_all(&lab);
    lab.key = lab.sessions.key("one").unwrap();
    assert_eq!(lab.ended("one").await.run.end, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn tools_elsewhere_take_no_place() {
    for (silent, answers) in [(false, &["Stuck:1", "b"][..]), (true, &["b"])] {
        let mut lab = lab(answers, 1).await;
        lab.turn_to("one", "a").await;
        let (log, name) = (Arc::clone(&lab.hands.log), "laptop".to_owned());
        let hands = ScriptedToolBackend { log, order: None, name, store: None, silent };
        let lease = lab.sessions.attach_hands(&lab.key, "laptop", Arc::new(hands)).await.unwrap();
        lab.send("one").await;
        lab.until(if silent { "started" } else { "tool Stuck" }).await;
        until("the place is kept", || free(&lab) == 1).await;
        lab.turn_to("two", "b").await;
        assert!(!lab.run("b").await.contains("queued"), "{silent}");
        drop(lease);
        lab.key = lab.sessions.key("one").unwrap();
        let end = lab.ended("one").await.run.end;
        assert!(
            matches!(&end, Some(RunOutcome::Failed { kind, .. }) if kind == "tool_host"),
            "{end:?}"
        );
        assert_eq!((lab.sessions.stats().running, free(&lab)), (0, 1));
    }
}

#[tokio::test]
async fn what_a_call_is_comes_before_the_question_about_it() {
    for _ in 0..50 {
        let lab = SessionTestBed::new(&["Explain:1", "done"]).await;
        lab.send("go").await;
        lab.until("approval").await;
        answer_all(&lab);
        lab.ended("go").await;
        lab.check().await;
        let lines = lab.lines().await;
        let order = "tool Explain / update What it is  / approval Ask / answer allow_once by me";
        assert!(lines.contains(order), "{lines}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_said_to_be_one() {
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
