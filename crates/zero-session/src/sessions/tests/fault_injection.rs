//! A stop at every step, and a disk failure at every write.

use super::fixture::{SessionTestBed, event_line, run_id};
use crate::event::{EventKind, RunOutcome};
use crate::sessions::{OpenSessionOptions, Prompt, SendOutcome, SessionLimits};
use zero_runtime::ApprovalAnswer;
use zero_runtime::tool_backend::FolderAccess;

const SCRIPT: [&str; 3] = ["look Read:1 Read:2", "Write:3 ~hm Tell:4", "done"];
/// More writes than the script makes.
const WRITES_MAX: usize = 60;

#[tokio::test]
async fn stop_at_any_point_finishes_run() {
    // Each iteration lets the run advance by one step before it is stopped.
    let mut ends = std::collections::BTreeSet::new();
    for steps in 0..200 {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        fixture.send("go").await;
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        fixture.sessions.abort(&fixture.key, Some(&run_id("go")), "rpc").await.unwrap();
        let end = fixture.wait_for_run("go").await.run.end.unwrap();
        assert!(
            matches!(&end, RunOutcome::Completed | RunOutcome::Aborted { .. }),
            "{steps}: {end:?} in {}",
            fixture.ledger_lines().await
        );
        fixture.check_ledger().await;
        ends.insert(fixture.ledger_lines().await);
        assert!(fixture.run("again").await.contains("ended"), "{steps}");
    }
    assert!(ends.len() > 8, "the stop came at different points: {ends:#?}");
    assert!(ends.iter().any(|lines| lines.ends_with("ended completed")), "{ends:#?}");
}

#[tokio::test(start_paused = true)]
async fn single_write_failure_stops_run_without_loss() {
    let mut failed = 0;
    for write in 1..WRITES_MAX {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        fixture.store.fail_writes([write]);
        let sent = fixture.try_send("go").await;
        if sent.is_err() {
            assert_eq!(write, 1, "only the beginning can be refused");
            assert_eq!(fixture.ledger_lines().await, "");
            assert_eq!(fixture.try_send("go").await, Ok(SendOutcome::Started), "and sent again");
        }
        let end = fixture.wait_for_run("go").await.run.end.unwrap();
        fixture.check_ledger().await;
        match end {
            RunOutcome::Failed { kind, .. } => {
                assert_eq!(kind, "store", "{write}");
                failed += 1;
            }
            end => assert_eq!(end, RunOutcome::Completed, "{write}"),
        }
        let lines = fixture.ledger_lines().await;
        let done = fixture.backend.log.lock().unwrap().len();
        assert!(lines.matches("tool ").count() >= done, "{write}: no call without an entry");
        fixture.store.fail_writes([]);
        assert!(fixture.run("again").await.contains("ended completed"), "{write}");
    }
    assert!(failed > 5, "{failed}");
}

#[tokio::test(start_paused = true)]
async fn writes_stored_without_an_answer_are_stored_once() {
    let said = |messages: &[crate::message::ModelMessage]| format!("{messages:?}");
    // What a prompt leaves while the store answers.
    let whole = SessionTestBed::new(&SCRIPT).await;
    whole.run("go").await;
    let whole_text = whole.wait_for_run("go").await.text;
    let mut cut_off = 0;
    for (write, lost) in (1..WRITES_MAX).flat_map(|write| [(write, 1), (write, 2), (write, 3)]) {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        fixture.store.lose_answers(write..write + lost);
        if fixture.try_send("go").await.is_err() {
            assert_eq!((write, lost > 1), (1, true), "only the beginning can be refused");
            assert_eq!(fixture.try_send("go").await, Ok(SendOutcome::Started), "and sent again");
        }
        let run = fixture.wait_for_run("go").await;
        // Each entry once, and published once, in order.
        fixture.check_ledger().await;
        let lines = fixture.ledger_lines().await;
        assert_eq!(lines.matches("prompt go").count(), 1, "{write}, {lost}: {lines}");
        assert_eq!(lines.matches("ended").count(), 1, "{write}, {lost}: {lines}");
        assert!(whole_text.starts_with(&run.text), "{write}, {lost}: {}", run.text);
        cut_off += usize::from(run.text != whole_text);
        let kept = fixture.sessions.transcript(&fixture.key, None).await.unwrap().messages;
        for pair in kept.windows(2) {
            assert_ne!(pair[0], pair[1], "{write}, {lost}: {}", said(&kept));
        }
        fixture.store.lose_answers([]);
        assert!(fixture.run("again").await.contains("ended completed"), "{write}, {lost}");
    }
    assert!(cut_off > 5, "the answers of a run that goes on were lost: {cut_off}");
}

#[tokio::test(start_paused = true)]
async fn transcript_is_completed_after_a_long_write_failure() {
    for write in 2..WRITES_MAX {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        fixture.store.fail_writes(write..100_000);
        fixture.send("go").await;
        let (run, most) = (run_id("go"), std::time::Duration::from_secs(3600));
        fixture.sessions.wait_for_run("me", &run, most).await.unwrap().unwrap();
        let known = fixture.backend.log.lock().unwrap().len();
        fixture.store.fail_writes([]);
        fixture.wait_for_run("go").await;
        fixture.check_ledger().await;
        let kept = fixture.sessions.transcript(&fixture.key, None).await.unwrap().messages;
        let results = kept.iter().flat_map(|message| &message.blocks);
        let results = results
            .filter(|block| matches!(block, crate::message::MessageBlock::ToolResult { .. }));
        assert!(results.count() >= known, "{write}: {known} calls were made: {kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_write_failure_delays_run_end() {
    for write in 2..12 {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        fixture.store.fail_writes(write..100_000);
        fixture.send("go").await;
        let (run, most) = (run_id("go"), std::time::Duration::from_secs(3600));
        let waited = fixture.sessions.wait_for_run("me", &run, most).await.unwrap().unwrap();
        assert_eq!(waited.end, None, "{write}");
        assert_eq!(fixture.sessions.stats().unrecorded, 1, "{write}: it is known");
        assert_eq!(fixture.sessions.active_runs().len(), 1, "{write}: it is not given up");
        fixture.store.fail_writes([]);
        let end = fixture.wait_for_run("go").await.run.end.unwrap();
        assert!(matches!(&end, RunOutcome::Failed { kind, .. } if kind == "store"), "{end:?}");
        assert_eq!(fixture.sessions.stats().unrecorded, 0, "{write}");
        fixture.check_ledger().await;
        assert!(fixture.run("again").await.contains("ended completed"), "{write}");
    }
}

#[tokio::test(start_paused = true)]
async fn follower_is_notified_while_run_end_cannot_be_recorded() {
    let fixture = SessionTestBed::new(&SCRIPT).await;
    let mut told = fixture.sessions.unrecorded_ends();
    fixture.store.fail_writes(4..100_000);
    fixture.send("go").await;
    let first = told.recv().await.unwrap();
    assert_eq!((first.run, first.is_abandoned), (run_id("go"), false));
    assert_eq!(
        first.message,
        "the run has ended, and its end could not be recorded yet; zero tries until it can: the session store cannot claim: the disk is full"
    );
    assert!(!told.recv().await.unwrap().is_abandoned, "each attempt is told");
    fixture.store.fail_writes([]);
    assert!(fixture.wait_for_run("go").await.run.end.is_some());
}

#[tokio::test(start_paused = true)]
async fn run_end_is_given_up_if_the_store_is_damaged() {
    let fixture = SessionTestBed::new(&SCRIPT).await;
    let mut told = fixture.sessions.unrecorded_ends();
    fixture.store.fail_as_damaged();
    fixture.store.fail_writes(4..100_000);
    fixture.send("go").await;
    let end = told.recv().await.unwrap();
    assert_eq!((end.run, end.is_abandoned), (run_id("go"), true));
    // A prompt that waits gets its turn.
    while !fixture.sessions.active_runs().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.sessions.stats().unrecorded, 0);
    fixture.store.fail_writes([]);
    fixture.send("again").await;
    assert_eq!(fixture.wait_for_run("again").await.run.end, Some(RunOutcome::Completed));
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_broken_store() {
    let fixture = SessionTestBed::new(&["Hang:1"]).await;
    fixture.send("go").await;
    fixture.wait_for_line("tool ").await;
    fixture.send("queued").await;
    fixture.store.fail_writes(1..100_000);
    let most = std::time::Duration::from_secs(600);
    let down = fixture.sessions.shut_down(std::time::Duration::from_secs(1));
    tokio::time::timeout(most, down).await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn run_end_that_was_never_recorded_is_recorded_by_next_start() {
    let fixture = SessionTestBed::new(&SCRIPT).await;
    fixture.store.fail_writes(4..100_000);
    fixture.send("go").await;
    let (run, most) = (run_id("go"), std::time::Duration::from_secs(3600));
    let waited = fixture.sessions.wait_for_run("me", &run, most).await.unwrap().unwrap();
    assert_eq!(waited.end, None);
    let store = fixture.store.clone();
    fixture.store.fail_writes([]);
    let next = SessionTestBed::with_store(store, &["fine"], SessionLimits::default()).await;
    assert_eq!(next.wait_for_run("go").await.run.end, Some(RunOutcome::Interrupted));
    assert!(next.run("again").await.contains("ended completed"));
}

#[tokio::test]
async fn start_of_call_with_side_effects_survives_power_cut() {
    let fixture = SessionTestBed::new(&["Read:1", "Write:2 Read:3 Write:4", "done"]).await;
    assert!(fixture.run("go").await.ends_with("ended completed"));
    let lines: Vec<String> = fixture.store.durable_entries().iter().map(event_line).collect();
    let starts = "usage / tool Write / tool Read / tool Write / completed / begins";
    assert_eq!(lines.join(" / "), starts, "a call that only reads waits for no disk");
}

#[tokio::test(start_paused = true)]
async fn next_prompt_after_death_at_any_write_knows_every_outcome() {
    let mut known = 0;
    for write in 2..WRITES_MAX {
        let fixture = SessionTestBed::new(&SCRIPT).await;
        // From here on, the store has what a process that died at this write leaves.
        fixture.store.fail_writes(write..100_000);
        fixture.send("go").await;
        let (run, most) = (run_id("go"), std::time::Duration::from_secs(3600));
        fixture.sessions.wait_for_run("me", &run, most).await.unwrap().unwrap();
        let store = fixture.store.clone();
        fixture.store.fail_writes([]);
        let shown = store.ledger(&fixture.record().await.id);
        let next = SessionTestBed::with_store(store, &["fine"], SessionLimits::default()).await;
        assert!(next.run("again").await.contains("ended completed"), "{write}");
        let requests = next.model.requests.lock().unwrap();
        let messages = format!("{:?}", requests[0].messages);
        assert!(!messages.contains("whether it happened is not known"), "{write}: {messages}");
        let text: String = shown
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert!(text.is_empty() || messages.contains("look"), "{write}: {messages}");
        let ended =
            |event: &&crate::event::Event| matches!(event.kind, EventKind::ToolEnded { .. });
        known += shown.iter().filter(ended).count();
    }
    assert!(known > 10, "hardly any died after a call: {known}");
}

#[tokio::test(start_paused = true)]
async fn failed_write_never_lets_unrecorded_call_run() {
    let mut denied = 0;
    for write in 1..30 {
        let fixture = SessionTestBed::new(&["Ask:1", "done"]).await;
        fixture.store.fail_writes([write]);
        if fixture.try_send("go").await.is_err() {
            continue;
        }
        tokio::select! {
            _ = fixture.wait_for_line("approval") => {
                for pending in fixture.sessions.approvals().list() {
                    fixture.sessions.approvals().resolve(&pending.request.id, ApprovalAnswer::AllowOnce, "me");
                }
            }
            _ = fixture.wait_for_run("go") => {}
        }
        fixture.wait_for_run("go").await;
        fixture.store.fail_writes([]);
        let lines = fixture.ledger_lines().await;
        let allowed = lines.contains("answer allow_once by me / completed");
        assert_eq!(lines.contains("/ completed"), allowed, "{write}: {lines}");
        denied += usize::from(lines.contains("denied"));
    }
    assert!(denied >= 2, "neither the question nor the answer could be kept, {denied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_concurrent_sessions_do_not_interfere() {
    let fixture = std::sync::Arc::new(SessionTestBed::new(&[]).await);
    let mut sessions = tokio::task::JoinSet::new();
    for number in 0..40 {
        let fixture = std::sync::Arc::clone(&fixture);
        sessions.spawn(async move {
            let key = fixture.address(&format!("s{number}"));
            let wanted = OpenSessionOptions {
                key: Some(key.key.to_string()),
                owner: key.owner.clone(),
                ..OpenSessionOptions::default()
            };
            fixture.sessions.open(wanted).await.unwrap();
            let runs = ["a", "b", "c"].map(|run| run_id(&format!("s{number}{run}")));
            for run in &runs {
                let prompt = Prompt {
                    text: run.to_string(),
                    folder_access: FolderAccess::Anywhere,
                    ..Prompt::default()
                };
                fixture.sessions.send(&key, run.clone(), prompt).await.unwrap();
            }
            if number % 2 == 0 {
                let run = runs.get(number % 3).unwrap();
                fixture.sessions.abort(&key, Some(run), "rpc").await.unwrap();
            }
            for run in &runs {
                let most = std::time::Duration::from_secs(60);
                let waited = fixture.sessions.wait_for_run("me", run, most).await.unwrap().unwrap();
                assert!(waited.end.is_some());
            }
            key
        });
    }
    while let Some(key) = sessions.join_next().await {
        fixture.check_ledger_of(&key.unwrap()).await;
    }
    assert!(fixture.sessions.active_runs().is_empty());
    assert_eq!(fixture.sessions.stats().ended, 120);
}
