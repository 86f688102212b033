//! Sessions over time: queues, stops, attached backends, and process starts and ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::RunId;
use zero_policy::PermissionMode;
use zero_runtime::ApprovalAnswer;

use super::fixture::{PATIENCE, ScriptedToolBackend, SessionTestBed, run_id};
use crate::approvals::StoredGrants;
use crate::event::{EventKind, RunOutcome};
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::{OpenSessionOptions, Prompt, SendOutcome, SessionError, SessionLimits};
use crate::store::{
    BeginRunOutcome, GrantRecord, NewRun, SessionPatch, Store as _, ToolHostLocation,
};
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::ToolBackendError;

#[tokio::test]
async fn prompts_of_one_session_run_in_order() {
    let fixture = SessionTestBed::new(&["Hang:1", "two"]).await;
    fixture.send("one").await;
    fixture.wait_for_line("tool Hang").await;
    fixture.send("two").await;
    fixture.wait_for_line("notice queued").await;
    assert_eq!(fixture.sessions.stats().queued, 1);
    assert_eq!(fixture.sessions.stats().running, 1);
    fixture.sessions.abort(&fixture.key, Some(&run_id("one")), "rpc").await.unwrap();
    fixture.wait_for_run("two").await;
    fixture.check_ledger().await;
    assert_eq!(
        fixture.ledger_lines().await,
        "prompt one / title = one / started / usage / tool Hang / prompt two / notice queued / cancelled / ended aborted by rpc / started / text two / usage / ended completed"
    );
    assert!(fixture.sessions.active_runs().is_empty());
}

#[tokio::test]
async fn steering_prompt_stops_active_run_and_precedes_queue() {
    let fixture = SessionTestBed::new(&["Hang:1", "steering", "two", "three"]).await;
    fixture.send("one").await;
    fixture.wait_for_line("tool Hang").await;
    fixture.send("two").await;
    fixture.send("three").await;
    assert_eq!(fixture.steer("now").await, SendOutcome::Started);
    fixture.wait_for_run("three").await;
    fixture.check_ledger().await;
    let lines = fixture.ledger_lines().await;
    let at = lines.find("cancelled").unwrap();
    assert_eq!(
        &lines[at..],
        "cancelled / ended aborted by rpc / started / text steering / usage / ended completed / started / text two / usage / ended completed / started / text three / usage / ended completed"
    );
    // One that is sent again does not stop its own run, nor another.
    assert!(matches!(fixture.steer("now").await, SendOutcome::Ended(_)));
    // Where nothing runs, it is like any other prompt.
    assert_eq!(fixture.steer("idle").await, SendOutcome::Started);
    fixture.wait_for_run("idle").await;
}

#[tokio::test]
async fn prompt_queue_is_bounded_and_every_run_ends() {
    let few = SessionLimits { queued_max: 1, ..SessionLimits::default() };
    let fixture = SessionTestBed::with_limits(&["Hang:1"], few).await;
    fixture.send("one").await;
    fixture.wait_for_line("tool Hang").await;
    fixture.send("two").await;
    let busy = fixture.try_send("three").await.unwrap_err();
    assert!(matches!(busy, SessionError::Busy(_)), "{busy}");
    assert_eq!(
        fixture.try_send("two").await,
        Ok(SendOutcome::InFlight),
        "the same prompt is no other one"
    );
    let stopped = fixture.sessions.abort(&fixture.key, Some(&run_id("two")), "rpc").await.unwrap();
    assert_eq!(stopped, [run_id("two")]);
    fixture.wait_for_run("two").await;
    fixture.send("four").await;
    let mut stopped = fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    stopped.sort();
    assert_eq!(stopped, [run_id("four"), run_id("one")]);
    fixture.wait_for_run("one").await;
    fixture.wait_for_run("four").await;
    fixture.check_ledger().await;
    assert_eq!(
        fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap(),
        Vec::<RunId>::new()
    );
}

#[tokio::test]
async fn same_prompt_runs_once() {
    let fixture = SessionTestBed::new(&["Read:1", "done"]).await;
    let sent = futures_util::future::join_all((0..8).map(|_| fixture.try_send("go"))).await;
    let started = sent.iter().filter(|sent| **sent == Ok(SendOutcome::Started)).count();
    assert_eq!(started, 1, "{sent:?}");
    let waited = fixture.wait_for_run("go").await;
    assert_eq!(fixture.try_send("go").await, Ok(SendOutcome::Ended(waited.run)));
    assert_eq!(*fixture.backend.log.lock().unwrap(), ["Read 1"]);
    fixture.check_ledger().await;
    let other = fixture.address("other");
    let wanted = OpenSessionOptions { key: Some("other".into()), ..fixture.open_options() };
    fixture.sessions.open(wanted).await.unwrap();
    let prompt = crate::sessions::Prompt {
        text: "go".into(),
        folder_access: FolderAccess::Anywhere,
        ..Default::default()
    };
    let error = fixture.sessions.send(&other, run_id("go"), prompt).await.unwrap_err();
    assert!(matches!(error, SessionError::RunIdTaken(_)), "{error}");
}

#[tokio::test]
async fn run_id_of_another_owner_is_free() {
    let fixture = SessionTestBed::new(&["Hang:1", "theirs", "theirs again"]).await;
    fixture.send("go").await;
    let key = fixture.address_of("them", "other");
    let wanted = OpenSessionOptions {
        key: Some("other".into()),
        owner: "them".into(),
        ..fixture.open_options()
    };
    fixture.sessions.open(wanted).await.unwrap();
    let prompt = || crate::sessions::Prompt {
        text: "go".into(),
        folder_access: FolderAccess::Anywhere,
        ..Default::default()
    };
    let run = run_id("go");
    // The runs of both owners are active at the same time, and each is stopped and ends alone.
    assert_eq!(fixture.sessions.send(&key, run.clone(), prompt()).await, Ok(SendOutcome::Started));
    let theirs = fixture.sessions.wait_for_run("them", &run, PATIENCE).await.unwrap().unwrap();
    assert_eq!(theirs.end, Some(RunOutcome::Completed));
    let sent = fixture.sessions.send(&key, run.clone(), prompt()).await.unwrap();
    assert!(matches!(sent, SendOutcome::Ended(known) if known.session == theirs.session));
    let mine = fixture.sessions.wait_for_run("me", &run, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(mine.end, None);
    let stopped = fixture.sessions.abort(&fixture.key, Some(&run), "rpc").await.unwrap();
    assert_eq!(stopped, [run]);
    let mine = fixture.sessions.wait_for_run("me", &run_id("go"), PATIENCE).await.unwrap().unwrap();
    assert_eq!(mine.end, Some(RunOutcome::Aborted { by: "rpc".to_owned() }));
    fixture.check_ledger().await;
}

#[tokio::test]
async fn concurrent_runs_are_bounded() {
    let one = SessionLimits { runs_max: 1, ..SessionLimits::default() };
    let mut fixture = SessionTestBed::with_limits(&["Hang:1", "two"], one).await;
    fixture.send("one").await;
    fixture.wait_for_line("tool Hang").await;
    let first = fixture.key.clone();
    fixture.key = fixture.address("other");
    fixture.sessions.open(fixture.open_options()).await.unwrap();
    fixture.send("two").await;
    fixture.wait_for_line("notice queued").await;
    assert_eq!((fixture.sessions.stats().running, fixture.sessions.stats().queued), (1, 1));
    fixture.sessions.abort(&first, None, "rpc").await.unwrap();
    assert_eq!(fixture.wait_for_run("two").await.run.end, Some(RunOutcome::Completed));
}

#[tokio::test]
async fn invalid_prompts_are_refused() {
    let mut fixture = SessionTestBed::new(&[]).await;
    let empty = fixture.try_send(" x").await;
    assert_eq!(empty, Ok(SendOutcome::Started));
    fixture.wait_for_run(" x").await;
    fixture.key = fixture.address("agent:nobody:x");
    let error = fixture.try_send("go").await.unwrap_err();
    assert_eq!(error, SessionError::NotFound("agent:nobody:x".into()));
    let error = fixture.sessions.open(fixture.open_options()).await.unwrap_err();
    let text = "there is no agent `nobody`; the agents are direct, main, qa";
    assert_eq!(error.to_string(), text);
    let wanted = OpenSessionOptions {
        require_existing: true,
        key: Some("new".into()),
        ..Default::default()
    };
    let error = fixture.sessions.open(wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "No session found: agent:main:new");
    let wanted = OpenSessionOptions { label: Some("none".into()), ..OpenSessionOptions::default() };
    let error = fixture.sessions.open(wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "No session found with label: none");
    let wanted =
        OpenSessionOptions { key: Some("x".into()), cwd: Some("rel".into()), ..Default::default() };
    let error = fixture.sessions.open(wanted).await.unwrap_err();
    assert!(error.to_string().contains("is not absolute"), "{error}");
    let error = fixture.sessions.open(OpenSessionOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("key or its label"), "{error}");
}

#[tokio::test]
async fn open_leave_as_is_changes_only_new_sessions() {
    let fixture = SessionTestBed::new(&[]).await;
    let wanted = |key: &str, cwd: &str| OpenSessionOptions {
        key: Some(key.into()),
        owner: "me".into(),
        cwd: Some(cwd.into()),
        folder_access: FolderAccess::Anywhere,
        leave_as_is: true,
        ..OpenSessionOptions::default()
    };
    let before = fixture.record().await;
    let found = fixture.sessions.open(wanted(&fixture.key.key.to_string(), "/tmp")).await.unwrap();
    assert_eq!((&found, &fixture.record().await), (&before, &before));
    let made = fixture.sessions.open(wanted("new", "/tmp")).await.unwrap();
    assert_eq!((made.owner.as_str(), made.cwd), ("me", Some("/tmp".into())));
    let again = fixture.sessions.open(wanted("new", "/usr")).await.unwrap();
    assert_eq!(again.cwd, Some("/tmp".into()));
}

#[tokio::test]
async fn reset_starts_new_transcript_and_keeps_old() {
    let fixture = SessionTestBed::new(&["one", "Hang:1", "three"]).await;
    fixture.run("first").await;
    fixture.send("second").await;
    fixture.wait_for_line("tool Hang").await;
    let record = fixture.sessions.reset(&fixture.key).await.unwrap();
    assert_eq!((record.transcript, record.context_tokens), (2, None));
    fixture.check_ledger().await;
    assert!(fixture.ledger_lines().await.ends_with("cancelled / ended aborted by reset / reset 1"));
    fixture.run("third").await;
    assert_eq!(fixture.model.requests.lock().unwrap()[2].messages.len(), 1);
    let old = fixture.sessions.transcript(&fixture.key, Some(1)).await.unwrap().messages;
    assert_eq!(old.len(), 5);
}

#[tokio::test]
async fn delete_stops_run_and_removes_session() {
    let fixture = SessionTestBed::new(&["Hang:1"]).await;
    fixture.send("go").await;
    fixture.wait_for_line("tool Hang").await;
    assert!(fixture.sessions.delete(&fixture.key).await.unwrap());
    assert!(!fixture.sessions.delete(&fixture.key).await.unwrap());
    assert_eq!(fixture.sessions.get(&fixture.key).await, Ok(None));
    assert!(fixture.sessions.active_runs().is_empty());
}

#[tokio::test]
async fn mode_change_reaches_backend_at_once() {
    let fixture = SessionTestBed::new(&["Read:1", "ok", "Read:2"]).await;
    fixture.run("go").await;
    let mode = |mode| SessionPatch { mode: Some(mode), ..SessionPatch::default() };
    fixture.sessions.patch(&fixture.key, mode(Some(PermissionMode::Plan))).await.unwrap();
    assert_eq!(*fixture.backend.log.lock().unwrap(), ["Read 1", "mode plan"]);
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 1);
    fixture.sessions.patch(&fixture.key, mode(None)).await.unwrap();
    fixture.run("again").await;
    let log = fixture.backend.log.lock().unwrap().clone();
    assert_eq!(log, ["Read 1", "mode plan", "mode of settings", "Read 2"]);
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 1);
    assert!(fixture.ledger_lines().await.contains("mode = plan / mode = nothing"));
    fixture.check_ledger().await;
}

fn client(fixture: &SessionTestBed) -> Arc<ScriptedToolBackend> {
    let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
    Arc::new(ScriptedToolBackend { log, order: None, name, store: None, silent: false })
}

#[tokio::test]
async fn lost_client_fails_its_calls_without_fallback() {
    let fixture =
        SessionTestBed::new(&["Read:1", "ok", "Stuck:1", "never", "Read:2", "back"]).await;
    let lease =
        fixture.sessions.attach_backend(&fixture.key, "laptop", client(&fixture)).await.unwrap();
    fixture.run("first").await;
    fixture.send("go").await;
    fixture.wait_for_line("tool Stuck").await;
    drop(lease);
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    let lines = fixture.ledger_lines().await;
    assert!(lines.ends_with("tool Stuck / failed / ended failed tool_host"), "{lines}");
    assert!(fixture.run("again").await.ends_with("started / ended failed tool_host"));
    let away = ToolBackendError::ClientDisconnected { host: "laptop".to_owned() };
    let ended = fixture.wait_for_run("again").await.run.end;
    assert!(
        matches!(ended, Some(RunOutcome::Failed { message, .. }) if message == away.to_string())
    );
    let location = ToolHostLocation::Client { name: "laptop".to_owned() };
    assert_eq!(fixture.record().await.tool_host, location);
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 0, "nothing ever ran here");
    let here = SessionPatch { tool_host: Some(ToolHostLocation::Gateway), ..Default::default() };
    let error = fixture.sessions.patch(&fixture.key, here).await.unwrap_err();
    assert!(error.to_string().contains("are with laptop and stay there"), "{error}");

    let older =
        fixture.sessions.attach_backend(&fixture.key, "laptop", client(&fixture)).await.unwrap();
    let _newer =
        fixture.sessions.attach_backend(&fixture.key, "laptop", client(&fixture)).await.unwrap();
    drop(older);
    assert!(fixture.run("anew").await.ends_with("ended completed"));
}

#[tokio::test]
async fn returning_client_continues_run() {
    let fixture = SessionTestBed::new(&["Stuck:1", "Read:2", "done"]).await;
    let client = || {
        let (log, name) =
            (Arc::clone(&fixture.backend.log), ScriptedToolBackend::RETURNING_CLIENT.to_owned());
        Arc::new(ScriptedToolBackend { log, order: None, name, store: None, silent: false })
    };
    let lease = fixture.sessions.attach_backend(&fixture.key, "laptop", client()).await.unwrap();
    fixture.send("go").await;
    fixture.wait_for_line("tool Stuck").await;
    drop(lease);
    fixture.wait_for_line("failed").await;
    let _lease = fixture.sessions.attach_backend(&fixture.key, "laptop", client()).await.unwrap();
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    let lines = fixture.ledger_lines().await;
    let on =
        "tool Stuck / failed / usage / tool Read / completed / text done / usage / ended completed";
    assert!(lines.ends_with(on), "{lines}");
}

#[tokio::test]
async fn attached_client_prevents_local_calls() {
    let fixture = SessionTestBed::new(&["Ask:1 Write:2", "Read:3", "done"]).await;
    fixture.send("go").await;
    fixture.wait_for_line("approval").await;
    let log = Arc::default();
    let (order, name) = (None, "laptop".to_owned());
    let backend =
        ScriptedToolBackend { log: Arc::clone(&log), order, name, store: None, silent: false };
    let _lease =
        fixture.sessions.attach_backend(&fixture.key, "laptop", Arc::new(backend)).await.unwrap();
    let pending = fixture.sessions.approvals().list().pop().unwrap();
    fixture.sessions.approvals().resolve(&pending.request.id, ApprovalAnswer::AllowOnce, "me");
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    let lines = fixture.ledger_lines().await;
    let moved = "answer allow_once by me / completed / begins / failed / usage / tool Read / completed / text done / usage / ended completed";
    assert!(lines.ends_with(moved), "{lines}");
    assert_eq!(*fixture.backend.log.lock().unwrap(), ["Ask 1"], "what had begun came to its end");
    assert_eq!(*log.lock().unwrap(), ["Read 3"]);
}

#[tokio::test(start_paused = true)]
async fn idle_backend_is_dropped_and_state_evicted() {
    let fixture = SessionTestBed::new(&["Read:1", "ok", "Read:2", "ok"]).await;
    fixture.run("one").await;
    assert_eq!(fixture.sessions.stats().active_sessions, 1);
    tokio::time::sleep(Duration::from_secs(11 * 60)).await;
    assert_eq!(fixture.sessions.stats().active_sessions, 0);
    fixture.run("two").await;
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn idle_backend_stays_while_job_runs() {
    let fixture = SessionTestBed::new(&["Write:job", "ok", "Write:end", "ok"]).await;
    fixture.run("one").await;
    tokio::time::sleep(Duration::from_secs(5 * 60 * 60)).await;
    assert_eq!(fixture.sessions.stats().active_sessions, 1);
    fixture.run("two").await;
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 1);
    tokio::time::sleep(Duration::from_secs(11 * 60)).await;
    assert_eq!(fixture.sessions.stats().active_sessions, 0);
    // Not for ever.
    let fixture = SessionTestBed::new(&["Write:job", "ok"]).await;
    fixture.run("one").await;
    tokio::time::sleep(Duration::from_secs(8 * 24 * 60 * 60)).await;
    assert_eq!(fixture.sessions.stats().active_sessions, 0);
}

#[tokio::test]
async fn session_grants_are_persisted() {
    let fixture = SessionTestBed::new(&["Settle:1", "ok"]).await;
    fixture.run("go").await;
    let id = fixture.record().await.id;
    let kept = async {
        while fixture.store.grants(&id).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), kept).await.unwrap();
    assert_eq!(fixture.store.grants(&id).await.unwrap()[0].grant.rule, "Bash(x)");
    let next = SessionTestBed::with_store(
        Arc::clone(&fixture.store),
        &["Read:1"],
        SessionLimits::default(),
    )
    .await;
    next.run("after").await;
    assert_eq!(*next.backend.log.lock().unwrap(), ["opened with 1 grants", "Read 1"]);
}

#[tokio::test]
async fn runs_of_killed_process_are_finished_at_start() {
    let fixture = SessionTestBed::new(&["Read:1", "ok"]).await;
    fixture.run("before").await;
    let id = fixture.record().await.id;
    // State left by a process that was killed during a call.
    let (run, node) = (run_id("killed"), "node".to_owned());
    let prompt = EventKind::Prompt { text: "killed".into(), attachments: Vec::new() };
    let first = vec![new_event(Some(&run), prompt)];
    let new = NewRun {
        id: run.clone(),
        session: id.clone(),
        node,
        started_ms: 0,
        options: Default::default(),
        first,
    };
    let BeginRunOutcome::Started { claim, .. } = fixture.store.begin_run(new).await.unwrap() else {
        panic!("nothing runs there")
    };
    let started = |call: &str, id: &str, waits: bool| EventKind::ToolStarted {
        call: call.into(),
        name: "Write".into(),
        title: "Write".into(),
        kind: zero_core::ToolKind::Edit,
        input: serde_json::json!({}),
        locations: Vec::new(),
        waits,
        transcript_id: Some(id.into()),
    };
    let begins = EventKind::ToolUpdated {
        call: "two".into(),
        title: None,
        kind: None,
        locations: Vec::new(),
        progress: None,
        begins: true,
        subagent: None,
    };
    let call = |id: &str| crate::message::MessageBlock::ToolUse {
        id: id.into(),
        name: "Write".into(),
        input: crate::message::ToolInput::parse(""),
        opaque: serde_json::Value::Null,
    };
    let message = crate::message::ModelMessage::assistant(["a", "b", "c"].map(call).into());
    let prompt = crate::message::ModelMessage::user("killed");
    fixture.store.add_messages(&id, claim, vec![prompt.into(), message.into()]).await.unwrap();
    let shown = [
        started("one", "a", false),
        started("two", "b", true),
        started("three", "c", true),
        EventKind::tool_ended("one", zero_core::ToolResult::text("wrote one").into()),
        begins,
    ];
    let shown = shown.into_iter().map(|kind| new_event(Some(&run), kind)).collect();
    fixture.store.append(&id, Some(claim), shown).await.unwrap();

    let next =
        SessionTestBed::with_store(Arc::clone(&fixture.store), &["fine"], SessionLimits::default())
            .await;
    assert_eq!(
        next.try_send("killed").await,
        Ok(SendOutcome::Ended(next.wait_for_run("killed").await.run))
    );
    assert!(next.ledger_lines().await.ends_with(
        "tool Write / completed / begins / cancelled / interrupted / ended interrupted"
    ));
    assert!(next.run("after").await.ends_with("text fine / usage / ended completed"));
    let requests = next.model.requests.lock().unwrap().clone();
    let results: Vec<String> = requests[0].messages[requests[0].messages.len() - 2]
        .blocks
        .iter()
        .map(|block| match block {
            crate::message::MessageBlock::ToolResult { id, content, .. } => {
                format!("{id} {content:?}")
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(results[0].starts_with("a ") && results[0].contains("wrote one"), "{results:?}");
    assert!(results[1].contains("its outcome is not known"), "{results:?}");
    assert!(results[2].contains(crate::turn::call_batch::NOT_RUN), "{results:?}");
    assert_eq!(*next.backend.log.lock().unwrap(), Vec::<String>::new(), "nothing is done again");
}

#[tokio::test]
async fn prompt_of_dead_process_is_not_reported_as_active() {
    let fixture = SessionTestBed::new(&["ok"]).await;
    fixture.run("before").await;
    // Another process took the prompt while this one was running, and was killed.
    let (run, node) = (run_id("killed"), "node".to_owned());
    let prompt = EventKind::Prompt { text: "killed".into(), attachments: Vec::new() };
    let first = vec![new_event(Some(&run), prompt)];
    let session = fixture.record().await.id;
    let new = NewRun { id: run, session, node, started_ms: 0, options: Default::default(), first };
    fixture.store.begin_run(new).await.unwrap();
    let Ok(SendOutcome::Ended(ended)) = fixture.try_send("killed").await else {
        panic!("nobody works on it")
    };
    assert_eq!(ended.end, Some(RunOutcome::Interrupted));
}

#[tokio::test]
async fn run_id_belongs_to_one_prompt() {
    let fixture = SessionTestBed::new(&["@hang", "ok"]).await;
    fixture.send("one").await;
    fixture.wait_for_line("started").await;
    let send = async |text: &str| {
        let folder_access = FolderAccess::Anywhere;
        let prompt = Prompt { text: text.to_owned(), folder_access, ..Prompt::default() };
        fixture.sessions.send(&fixture.key, run_id("one"), prompt).await
    };
    assert_eq!(send("one").await, Ok(SendOutcome::InFlight));
    assert_eq!(send("two").await, Err(SessionError::RunIdTaken(run_id("one"))));
    fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    fixture.wait_for_run("one").await;
    assert!(matches!(send("one").await, Ok(SendOutcome::Ended(_))));
    assert_eq!(send("two").await, Err(SessionError::RunIdTaken(run_id("one"))));
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_grace_then_finishes_runs() {
    let fixture = SessionTestBed::new(&["Stuck:1"]).await;
    fixture.send("one").await;
    fixture.wait_for_line("tool Stuck").await;
    fixture.send("two").await;
    fixture.sessions.shut_down(Duration::from_secs(3)).await;
    fixture.check_ledger().await;
    assert_eq!(
        fixture.ledger_lines().await,
        "prompt one / title = one / started / usage / tool Stuck / prompt two / notice queued / ended aborted by shutdown / cancelled / ended aborted by shutdown"
    );
    assert_eq!(fixture.try_send("three").await, Err(SessionError::ShuttingDown));
    assert!(fixture.sessions.active_runs().is_empty());

    let fixture = SessionTestBed::new(&["quick"]).await;
    fixture.send("one").await;
    fixture.sessions.shut_down(Duration::from_secs(60)).await;
    assert!(fixture.ledger_lines().await.ends_with("text quick / usage / ended completed"));
}

#[tokio::test]
async fn dropped_sender_does_not_cancel_run() {
    let fixture = SessionTestBed::new(&["one"]).await;
    // Polled once, so that it has started, and then dropped.
    let given_up = tokio::select! {
        biased;
        _ = fixture.try_send("go") => false,
        () = std::future::ready(()) => true,
    };
    assert!(given_up);
    fixture.wait_for_line("ended completed").await;
    fixture.check_ledger().await;
}

#[tokio::test]
async fn reset_or_folder_change_clears_grants() {
    let fixture = SessionTestBed::new(&[]).await;
    let id = fixture.record().await.id;
    let grant =
        zero_policy::GrantScope { rule: "Edit(/a)".to_owned(), folder: None, program: None };
    let kept = GrantRecord { allowed: true, grant, time_ms: 1, by: "me".to_owned() };
    let moved = SessionPatch { cwd: Some(Some("/elsewhere".into())), ..SessionPatch::default() };
    for patch in [None, Some(moved)] {
        fixture.store.set_grants(&id, vec![kept.clone()]).await.unwrap();
        match patch {
            None => fixture.sessions.reset(&fixture.key).await.unwrap(),
            Some(patch) => fixture.sessions.patch(&fixture.key, patch).await.unwrap(),
        };
        assert_eq!(fixture.store.grants(&id).await.unwrap(), []);
    }
}

#[tokio::test]
async fn mentioned_files_are_read_on_record_and_attached() {
    let fixture = SessionTestBed::new(&["Seen"]).await;
    let text = "look at @there.txt, @folder/ and @nowhere, me@there.txt";
    let lines = fixture.run(text).await;
    let reads = "started / tool Read / completed / tool LS / completed / text Seen";
    assert!(lines.contains(reads), "{lines}");
    let requests = fixture.model.requests.lock().unwrap();
    let sent = requests[0].messages.last().unwrap().text();
    assert_eq!(
        sent,
        format!(
            "{text}\n\n<attached path=\"there.txt\">\ndone\n</attached>\n\n<attached path=\"folder/\">\ndone\n</attached>"
        )
    );
}

#[tokio::test]
async fn question_about_mentioned_file_can_be_answered() {
    let fixture = SessionTestBed::new(&["Seen"]).await;
    fixture.send("look at @asked.txt").await;
    let asked = fixture.wait_for_line("approval").await;
    let EventKind::ApprovalRequested(request) = &asked.kind else { panic!("{asked:?}") };
    let answer = ApprovalAnswer::RejectOnce;
    assert!(fixture.sessions.approvals().resolve(&request.id, answer, "me"));
    fixture.wait_for_run("look at @asked.txt").await;
    let requests = fixture.model.requests.lock().unwrap();
    let sent = requests[0].messages.last().unwrap().text();
    assert!(sent.contains("(`@asked.txt` was not attached: denied"), "{sent}");
}

#[tokio::test]
async fn grant_revoked_elsewhere_is_reported_once() {
    let fixture = SessionTestBed::new(&[]).await;
    let id = fixture.record().await.id;
    let store = fixture.sessions.store();
    let grant = |rule: &str, allowed: bool| {
        let grant = zero_policy::GrantScope { rule: rule.to_owned(), folder: None, program: None };
        GrantRecord { allowed, grant, time_ms: 1, by: "me".to_owned() }
    };
    let [first, second, rejected] =
        [grant("Edit(/a)", true), grant("Edit(/b)", true), grant("Edit(/c)", false)];
    let grants = StoredGrants::new(store, id.clone(), Vec::new());
    let all = vec![first.clone(), second.clone(), rejected];
    grants.replace(all.clone());
    // Grants that are not stored yet count as given, and are stored now.
    assert_eq!(grants.take_revoked().await, []);
    assert_eq!(store.grants(&id).await.unwrap(), all);
    store.change_grants(&id, all.clone(), all[1..].to_vec()).await.unwrap();
    assert_eq!(grants.take_revoked().await, [first]);
    assert_eq!(grants.take_revoked().await, []);
    // A store that cannot be read allows nothing; rejections remain.
    fixture.sessions.delete(&fixture.key).await.unwrap();
    assert_eq!(grants.take_revoked().await, [second]);
    assert_eq!(grants.take_revoked().await, []);
}

#[tokio::test]
async fn grants_are_revoked_by_rule_or_all() {
    let fixture = SessionTestBed::new(&[]).await;
    let id = fixture.record().await.id;
    let grant = |rule: &str, allowed: bool| {
        let grant = zero_policy::GrantScope { rule: rule.to_owned(), folder: None, program: None };
        GrantRecord { allowed, grant, time_ms: 1, by: "me".to_owned() }
    };
    let kept = vec![grant("Edit(/a)", true), grant("Bash", false), grant("Read(/b)", true)];
    fixture.store.set_grants(&id, kept.clone()).await.unwrap();
    let revoke = async |rule: Option<&str>| {
        fixture.sessions.revoke_grants(&fixture.key, rule).await.unwrap()
    };
    assert_eq!(revoke(Some("Bash(ls)")).await, 0);
    assert_eq!(revoke(Some("Bash")).await, 1);
    assert_eq!(fixture.store.grants(&id).await.unwrap(), [kept[0].clone(), kept[2].clone()]);
    assert_eq!(revoke(None).await, 2);
    assert_eq!(fixture.store.grants(&id).await.unwrap(), []);
}

#[tokio::test]
async fn permissive_mode_applies_only_to_its_folder() {
    let fixture = SessionTestBed::new(&[]).await;
    let open = async |cwd: Option<&str>, mode: Option<PermissionMode>| {
        let cwd = cwd.map(PathBuf::from);
        let wanted = OpenSessionOptions {
            cwd,
            mode,
            folder_access: FolderAccess::Anywhere,
            ..fixture.open_options()
        };
        fixture.sessions.open(wanted).await.unwrap().mode
    };
    for mode in [PermissionMode::Auto, PermissionMode::AcceptEdits] {
        assert_eq!(open(Some("/w"), Some(mode)).await, Some(mode));
        assert_eq!(open(Some("/w"), None).await, Some(mode));
        assert_eq!(open(None, None).await, Some(mode));
        assert_eq!(open(Some("/elsewhere"), None).await, None);
        assert_eq!(open(Some("/w"), None).await, None, "it does not come back");
        assert_eq!(open(Some("/w"), Some(mode)).await, Some(mode));
        assert_eq!(open(Some("/elsewhere"), Some(mode)).await, Some(mode), "it was chosen again");
    }
    for mode in [PermissionMode::Plan, PermissionMode::Ask] {
        assert_eq!(open(Some("/w"), Some(mode)).await, Some(mode));
        assert_eq!(
            open(Some("/elsewhere"), None).await,
            Some(mode),
            "it lets nothing more be done"
        );
    }
    assert!(fixture.ledger_lines().await.contains("mode"), "{}", fixture.ledger_lines().await);
}

#[tokio::test]
async fn disallowed_folder_gets_no_backend() {
    let fixture = SessionTestBed::new(&[]).await;
    let nowhere = FolderAccess::default();
    let beside = FolderAccess::Folders(["/elsewhere".into()].into());
    let there = FolderAccess::Folders(["/w".into()].into());
    let open = |cwd: &str, reach: &FolderAccess| {
        let wanted = OpenSessionOptions {
            cwd: Some(cwd.into()),
            folder_access: reach.clone(),
            ..fixture.open_options()
        };
        fixture.sessions.open(wanted)
    };
    let is_out = |result: &Result<_, SessionError>| {
        matches!(result, Err(SessionError::ToolBackend(ToolBackendError::FolderNotAllowed(_))))
    };
    for reach in [&nowhere, &beside] {
        assert!(is_out(&open("/w", reach).await), "{reach:?}");
    }
    assert!(is_out(&open("/elsewhere/../w", &beside).await));
    open("/w", &there).await.unwrap();
    let send = |name: &'static str, reach: &FolderAccess| {
        let prompt = crate::sessions::Prompt {
            text: "/status".into(),
            folder_access: reach.clone(),
            ..Default::default()
        };
        fixture.sessions.send(&fixture.key, run_id(name), prompt)
    };
    // Even if another owner with access chose the folder or opened the backend.
    for (name, reach) in [("a", &nowhere), ("b", &beside)] {
        let sent = send(name, reach).await;
        assert!(
            matches!(sent, Err(SessionError::ToolBackend(ToolBackendError::FolderNotAllowed(_)))),
            "{sent:?}"
        );
    }
    assert_eq!(send("c", &there).await, Ok(SendOutcome::Started));
    let user = |commands: Vec<zero_runtime::tool_backend::PromptCommand>| {
        commands.iter().any(|command| command.name == "review")
    };
    let record = fixture.record().await;
    assert!(user(fixture.sessions.list_commands(record.clone(), there).await.unwrap()));
    assert!(!user(fixture.sessions.list_commands(record, beside.clone()).await.unwrap()));
    // A client's folder is not checked, and the session never returns to the gateway.
    let lease =
        fixture.sessions.attach_backend(&fixture.key, "laptop", client(&fixture)).await.unwrap();
    open("/", &beside).await.unwrap();
    drop(lease);
    let back =
        OpenSessionOptions { tool_host: Some(ToolHostLocation::Gateway), ..fixture.open_options() };
    assert!(matches!(fixture.sessions.open(back).await, Err(SessionError::Invalid(_))));
}

#[tokio::test]
async fn results_live_as_long_as_session() {
    let fixture = SessionTestBed::new(&["Read:1", "ok", "ok"]).await;
    fixture.run("go").await;
    fixture.sessions.shut_down(Duration::from_secs(1)).await;
    let store = Arc::clone(&fixture.store);
    let next = SessionTestBed::with_store(store, &["ok"], SessionLimits::default()).await;
    next.run("again").await;
    let removed = || next.backend.removed.lock().unwrap().clone();
    assert_eq!(removed(), [], "a new process can read them");
    let id = next.record().await.id;
    next.sessions.reset(&next.key).await.unwrap();
    assert_eq!(removed(), std::slice::from_ref(&id));
    next.sessions.delete(&next.key).await.unwrap();
    assert_eq!(removed(), [id.clone(), id]);
}
