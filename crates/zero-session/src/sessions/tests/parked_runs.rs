//! Runs that wait for an answer in the store, and continue in whichever process gets it.

use std::sync::Arc;
use std::time::Duration;

use zero_core::Budget;
use zero_runtime::ApprovalAnswer;
use zero_runtime::tool_backend::{CallApprover as _, FolderAccess, approval_request};

use super::fixture::{SessionTestBed, question, run_id};
use crate::approvals::{EarlierQuestion, PendingApproval};
use crate::budget::BudgetRules;
use crate::event::{EventKind, RunOutcome};
use crate::open_question::QuestionScope;
use crate::sessions::{Prompt, SendOutcome, SessionError, SessionLimits};

const PATIENCE: Duration = Duration::from_secs(60);

/// A process whose run waits for an answer, given what the model says.
async fn waiting_process(answers: &[&str]) -> SessionTestBed {
    let fixture = SessionTestBed::new(answers).await;
    fixture.send("go").await;
    fixture.wait_for_line("approval").await;
    fixture
}

/// Another process on the same store, for which the first one is dead.
async fn next_process(fixture: &SessionTestBed, answers: &[&str]) -> SessionTestBed {
    let store = Arc::clone(&fixture.store);
    SessionTestBed::with_store(store, answers, SessionLimits::default()).await
}

async fn only_question(fixture: &SessionTestBed) -> PendingApproval {
    let mut pending = fixture.sessions.pending_approvals(QuestionScope::All).await.unwrap();
    assert_eq!(pending.len(), 1, "{pending:?}");
    pending.pop().unwrap()
}

async fn answer(
    fixture: &SessionTestBed,
    id: &str,
    answer: ApprovalAnswer,
) -> Result<bool, SessionError> {
    fixture.sessions.answer_approval(id, answer, "me", FolderAccess::Anywhere).await
}

/// Waits until the process has nothing of a session in memory.
async fn wait_until_parked(fixture: &SessionTestBed) {
    let wait = async {
        while fixture.sessions.stats().active_sessions > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "the run stays in memory");
}

#[tokio::test]
async fn question_of_killed_process_is_answered_in_next() {
    for (given, end) in [
        (ApprovalAnswer::AllowOnce, "answer allow_once by me / notice resumed / completed"),
        (ApprovalAnswer::RejectOnce, "answer reject_once by me / notice resumed / denied"),
    ] {
        let killed = waiting_process(&["Read:1 Ask:2 Write:3"]).await;
        let asked = only_question(&killed).await;
        let next = next_process(&killed, &["done"]).await;
        let restored = only_question(&next).await;
        assert_eq!(restored.request, asked.request);
        assert_eq!(restored.run, Some(run_id("go")));
        assert_eq!(next.sessions.stats().active_sessions, 0, "it takes no memory");
        assert_eq!(answer(&next, &asked.request.id, given).await, Ok(true));
        assert_eq!(answer(&next, &asked.request.id, given).await, Ok(false), "once");
        assert_eq!(next.wait_for_run("go").await.run.end, Some(RunOutcome::Completed));
        next.check_ledger().await;
        let lines = next.ledger_lines().await;
        let rest = format!("{end} / begins / completed / text done / usage / ended completed");
        assert!(lines.ends_with(&rest), "{lines}");
        let calls = next.backend.log.lock().unwrap().clone();
        assert_eq!(calls, ["Ask 2", "Write 3"], "what had ended is not made again");
        assert!(next.sessions.pending_approvals(QuestionScope::All).await.unwrap().is_empty());
        assert!(next.run("after").await.ends_with("text ok / usage / ended completed"));
    }
}

#[tokio::test]
async fn one_of_two_simultaneous_answers_counts() {
    let killed = waiting_process(&["Ask:1"]).await;
    let id = only_question(&killed).await.request.id;
    let next = next_process(&killed, &["done"]).await;
    let (one, other) = tokio::join!(
        answer(&next, &id, ApprovalAnswer::AllowOnce),
        answer(&next, &id, ApprovalAnswer::RejectOnce)
    );
    assert_eq!([one, other].into_iter().filter(|counts| *counts == Ok(true)).count(), 1);
    next.wait_for_run("go").await;
    next.check_ledger().await;
    assert_eq!(*next.backend.log.lock().unwrap(), ["Ask 1"]);
}

#[tokio::test]
async fn one_of_two_answering_processes_continues_the_run() {
    let killed = waiting_process(&["Ask:1"]).await;
    let id = only_question(&killed).await.request.id;
    let (one, other) =
        (next_process(&killed, &["done"]).await, next_process(&killed, &["done"]).await);
    let (first, second) = tokio::join!(
        answer(&one, &id, ApprovalAnswer::AllowOnce),
        answer(&other, &id, ApprovalAnswer::AllowOnce)
    );
    // Each takes the other for dead, so the claim may go back and forth; the answer counts once.
    let counts = [&first, &second].into_iter().filter(|counts| **counts == Ok(true)).count();
    assert_eq!(counts, 1, "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_run_leaves_memory_and_continues() {
    let fixture = waiting_process(&["Ask:1", "done"]).await;
    wait_until_parked(&fixture).await;
    assert!(fixture.sessions.approvals().list().is_empty());
    assert!(fixture.sessions.active_runs().is_empty());
    // Days later.
    tokio::time::sleep(Duration::from_secs(7 * 24 * 60 * 60)).await;
    let pending = only_question(&fixture).await;
    assert_eq!(answer(&fixture, &pending.request.id, ApprovalAnswer::AllowOnce).await, Ok(true));
    assert_eq!(fixture.wait_for_run("go").await.run.end, Some(RunOutcome::Completed));
    fixture.check_ledger().await;
    let lines = fixture.ledger_lines().await;
    assert!(!lines.contains("cancelled"), "{lines}");
    assert_eq!(fixture.backend.log.lock().unwrap().len(), 2, "asked, and asked again");
}

#[tokio::test(start_paused = true)]
async fn prompt_waits_behind_parked_run() {
    let fixture = waiting_process(&["Ask:1", "done", "fine"]).await;
    wait_until_parked(&fixture).await;
    fixture.send("more").await;
    assert_eq!(fixture.try_send("go").await, Ok(SendOutcome::InFlight));
    let pending = only_question(&fixture).await;
    assert_eq!(answer(&fixture, &pending.request.id, ApprovalAnswer::AllowOnce).await, Ok(true));
    assert_eq!(fixture.wait_for_run("go").await.text, "done");
    assert_eq!(fixture.wait_for_run("more").await.text, "fine");
    fixture.check_ledger().await;
}

#[tokio::test(start_paused = true)]
async fn parked_run_can_be_stopped() {
    let fixture = waiting_process(&["Ask:1", "done"]).await;
    wait_until_parked(&fixture).await;
    let stopped = fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    assert_eq!(stopped, [run_id("go")]);
    let end = fixture.wait_for_run("go").await.run.end;
    assert_eq!(end, Some(RunOutcome::Aborted { by: "rpc".to_owned() }));
    fixture.check_ledger().await;
    assert!(fixture.sessions.pending_approvals(QuestionScope::All).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn question_whether_to_continue_is_parked() {
    let fixture = waiting_process(&["Read:", "Read:", "Read:", "done"]).await;
    wait_until_parked(&fixture).await;
    let id = only_question(&fixture).await.request.id;
    assert_eq!(answer(&fixture, &id, ApprovalAnswer::AllowOnce).await, Ok(true));
    assert_eq!(fixture.wait_for_run("go").await.text, "done");
    fixture.check_ledger().await;
}

#[tokio::test]
async fn shutdown_keeps_questions() {
    let fixture = waiting_process(&["Ask:1"]).await;
    let id = only_question(&fixture).await.request.id;
    fixture.sessions.shut_down(PATIENCE).await;
    let next = next_process(&fixture, &["done"]).await;
    assert_eq!(only_question(&next).await.request.id, id);
    assert_eq!(answer(&next, &id, ApprovalAnswer::AllowOnce).await, Ok(true));
    assert_eq!(next.wait_for_run("go").await.text, "done");
    next.check_ledger().await;
}

#[tokio::test]
async fn session_reset_ends_parked_run() {
    let killed = waiting_process(&["Ask:1"]).await;
    let next = next_process(&killed, &["fine"]).await;
    next.sessions.reset(&next.key).await.unwrap();
    assert_eq!(next.wait_for_run("go").await.run.end, Some(RunOutcome::Interrupted));
    assert!(next.sessions.pending_approvals(QuestionScope::All).await.unwrap().is_empty());
    assert!(next.run("after").await.ends_with("text fine / usage / ended completed"));
}

#[tokio::test]
async fn changed_effects_are_asked_about_again() {
    let fixture = SessionTestBed::new(&[]).await;
    let asker = fixture.broker().await;
    let mut before = approval_request("call_1", &question());
    before.title = "Run something else".to_owned();
    let earlier = |answer| EarlierQuestion::Approval(Box::new(before.clone()), answer);
    // What was allowed is not what would run now.
    asker.set_run(None, vec![earlier(Some(ApprovalAnswer::AllowOnce))]);
    let asked = Arc::clone(&asker);
    let asked = tokio::spawn(async move { asked.ask("call_1", &question()).await });
    let event = fixture.wait_for_line("approval").await;
    let EventKind::ApprovalRequested(request) = &event.kind else { panic!("{event:?}") };
    assert_ne!(request.id, before.id);
    assert!(fixture.sessions.approvals().resolve(&request.id, ApprovalAnswer::RejectOnce, "me"));
    assert_eq!(asked.await.unwrap(), ApprovalAnswer::RejectOnce);
    // A rejection holds, and so does an answer to the same question.
    asker.set_run(None, vec![earlier(Some(ApprovalAnswer::RejectOnce))]);
    assert_eq!(asker.ask("call_1", &question()).await, ApprovalAnswer::RejectOnce);
    let same = Box::new(approval_request("call_1", &question()));
    asker.set_run(None, vec![EarlierQuestion::Approval(same, Some(ApprovalAnswer::AllowOnce))]);
    assert_eq!(asker.ask("call_1", &question()).await, ApprovalAnswer::AllowOnce);
}

#[tokio::test]
async fn calls_before_parking_count_to_the_allowance_of_subagents() {
    let run = Budget { tool_calls: Some(4), ..Budget::default() };
    let budgets = BudgetRules { run, ..BudgetRules::default() };
    let limits = SessionLimits { budgets, ..SessionLimits::default() };
    let killed = SessionTestBed::with_limits(&["Read:1 Read:2", "Ask:3"], limits.clone()).await;
    killed.send("go").await;
    killed.wait_for_line("approval").await;
    let asked = only_question(&killed).await;
    let answers = &["Task:x", "Read:4", "Read:5", "done", "done"];
    let next = SessionTestBed::with_store(Arc::clone(&killed.store), answers, limits).await;
    assert_eq!(answer(&next, &asked.request.id, ApprovalAnswer::AllowOnce).await, Ok(true));
    next.wait_for_run("go").await;
    // The third call and that of the sub-agent are the last ones.
    let log = next.backend.log.lock().unwrap().clone();
    assert!(log.contains(&"subagent task".to_owned()), "{log:?}");
    assert!(!log.iter().any(|line| line.starts_with("Read")), "{log:?}");
}

#[tokio::test]
async fn time_before_parking_counts_to_the_timeout() {
    for (worked, end) in [
        (Duration::from_secs(10), RunOutcome::Completed),
        (Duration::from_secs(3_700), RunOutcome::Aborted { by: "timeout".to_owned() }),
    ] {
        let killed = SessionTestBed::new(&["Ask:1"]).await;
        let prompt = Prompt {
            text: "go".to_owned(),
            timeout: Some(Duration::from_secs(3_600)),
            folder_access: FolderAccess::Anywhere,
            ..Prompt::default()
        };
        killed.sessions.send(&killed.key, run_id("go"), prompt).await.unwrap();
        killed.wait_for_line("approval").await;
        let asked = only_question(&killed).await;
        let work_ms = u64::try_from(worked.as_millis()).unwrap();
        killed.store.change_events(|event| {
            if let EventKind::UsageReported { run_usage, .. } = &mut event.kind {
                run_usage.work_ms = work_ms;
            }
        });
        let next = next_process(&killed, &["done"]).await;
        assert_eq!(answer(&next, &asked.request.id, ApprovalAnswer::AllowOnce).await, Ok(true));
        assert_eq!(next.wait_for_run("go").await.run.end, Some(end), "{worked:?}");
    }
}
