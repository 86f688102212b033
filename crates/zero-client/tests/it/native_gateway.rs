//! Tests of sessions at a gateway of zero in this process.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use zero_client::{
    GatewayLink, GatewayLinkError, GatewayLocality, GatewayUpdate, ListRequest, OpenRequest,
    SessionChange,
};
use zero_core::ToolKind;
use zero_core::event::{Event, EventKind, RunOutcome, ToolCallStatus};
use zero_gateway::{GatewayLimits, Principal};
use zero_runtime::tool_backend::FolderAccess;
use zero_session::PermissionMode;
use zero_wire::method::TokenScope;

use crate::test_gateway::{
    RecordingToolBackend, TcpDialer, TestGateway, check_numbers, collect_until, is_call_end,
    is_end, is_text, joined_text, next_update, open_request, open_session, run_end, send_request,
};

#[tokio::test]
async fn prompt_is_answered_and_ledger_can_be_reread() {
    let fixture = TestGateway::start(&["Once upon a time"]).await;
    let link = fixture.link();
    let cwd = Some("/tmp".to_owned());
    let wanted = OpenRequest { cwd, mode: Some(PermissionMode::Plan), ..open_request("acp:1") };
    let (handle, mut heard) = link.open(wanted).await.unwrap();
    let info = handle.info();
    assert_eq!(
        (info.session_key.as_str(), info.cwd.as_deref()),
        ("agent:main:acp:1", Some("/tmp"))
    );
    assert_eq!(info.mode.as_deref(), Some("plan"));
    assert!(handle.is_cwd_known());
    handle.send(send_request("run-1", "tell me")).await.unwrap();
    let (entries, others) = collect_until(&mut heard, is_end).await;
    assert_eq!(
        (joined_text(&entries).as_str(), run_end(&entries)),
        ("Once upon a time ", RunOutcome::Completed)
    );
    assert!(others.is_empty());
    check_numbers(&entries);
    let page = handle.read_events(0).await.unwrap();
    assert!(!page.has_more);
    assert!(page.events.ends_with(&entries), "what was heard is what is read");
    // The same run id is the same prompt.
    handle.send(send_request("run-1", "tell me")).await.unwrap();
    handle.abort("run-1").await.unwrap();
    let choices = handle.choices().await.unwrap();
    assert_eq!((choices.default_agent.as_str(), choices.models.len()), ("main", 1));
    link.close().await;
    assert_eq!(heard.next().await, None);
    let closed = handle.send(send_request("run-2", "x")).await.unwrap_err();
    assert!(matches!(closed, GatewayLinkError::Unreachable { is_passing: false, .. }), "{closed}");
}

#[tokio::test]
async fn session_change_is_stored_and_announced() {
    let fixture = TestGateway::start(&[]).await;
    let link = fixture.link();
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    let change = SessionChange {
        mode: Some(PermissionMode::Plan),
        thinking: Some("high".to_owned()),
        agent: Some("direct".to_owned()),
        title: Some("A title".to_owned()),
        ..SessionChange::default()
    };
    let info = handle.change(change).await.unwrap();
    assert_eq!((info.agent.as_str(), info.thinking.as_deref()), ("direct", Some("high")));
    assert_eq!((info.mode.as_deref(), info.title.as_deref()), (Some("plan"), Some("A title")));
    assert_eq!(handle.info(), info);
    let mut fields = Vec::new();
    while fields.len() < 4 {
        if let GatewayUpdate::Entry(Event { kind: EventKind::Changed { field, .. }, .. }) =
            next_update(&mut heard).await
        {
            fields.push(field);
        }
    }
    fields.sort();
    assert_eq!(fields, ["agent", "mode", "thinking", "title"]);
    let refused = handle
        .change(SessionChange { model: Some("none".into()), ..SessionChange::default() })
        .await;
    assert!(matches!(refused, Err(GatewayLinkError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn sessions_are_found_listed_and_deleted() {
    let fixture = TestGateway::start(&[]).await;
    let link = fixture.link();
    let missing = OpenRequest { require_existing: true, ..open_request("acp:1") };
    let error = link.open(missing).await.err().unwrap();
    assert_eq!(error, GatewayLinkError::NoSession { key: "acp:1".to_owned() });
    for (key, cwd) in [("a", "/one"), ("b", "/two")] {
        let opened = link
            .open(OpenRequest { cwd: Some(cwd.to_owned()), ..open_request(key) })
            .await
            .unwrap();
        opened.0.leave().await;
    }
    let listed = async |cwd: Option<&str>| {
        let listing = ListRequest { cwd: cwd.map(str::to_owned), offset: 0, limit: 10 };
        let sessions = link.list(listing).await.unwrap().sessions;
        sessions.into_iter().map(|session| session.session_key).collect::<Vec<_>>()
    };
    assert_eq!(listed(Some("/one")).await, ["agent:main:a"]);
    assert_eq!(listed(None).await.len(), 2);
    link.delete("a").await.unwrap();
    link.delete("a").await.unwrap();
    assert_eq!(listed(None).await, ["agent:main:b"]);
}

#[tokio::test]
async fn hosted_tools_never_exceed_local_mode() {
    let fixture = TestGateway::start(&["Looking look:a", "Seen"]).await;
    let link = fixture.link();
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    handle
        .change(SessionChange { mode: Some(PermissionMode::Auto), ..SessionChange::default() })
        .await
        .unwrap();
    let backend = Arc::new(RecordingToolBackend::default());
    assert!(handle.host_tools("a test", backend.clone(), PermissionMode::Ask).await.unwrap());
    handle.send(send_request("run-1", "look")).await.unwrap();
    let (entries, _) = collect_until(&mut heard, is_end).await;
    assert_eq!(joined_text(&entries), "Looking Seen ");
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
    assert!(backend.modes.lock().unwrap().iter().all(|mode| *mode == PermissionMode::Ask));
    // After it is left, the call is rejected, and the run does not wait for it.
    handle.leave().await;
    assert_eq!(heard.next().await, None);
}

#[tokio::test]
async fn description_comes_with_result_unless_call_is_slow() {
    for (takes, told_with_end) in [(0, true), (500, false)] {
        let fixture = TestGateway::start(&["look:a", "Seen"]).await;
        let (handle, mut heard) = open_session(&fixture.link(), "acp:1").await;
        let backend = RecordingToolBackend {
            takes: Duration::from_millis(takes),
            ..RecordingToolBackend::default()
        };
        handle.host_tools("a test", Arc::new(backend), PermissionMode::Ask).await.unwrap();
        handle.send(send_request("run-1", "look")).await.unwrap();
        let (entries, _) = collect_until(&mut heard, is_end).await;
        let told = entries.iter().find_map(|event| match &event.kind {
            EventKind::ToolUpdated { title, kind, locations, .. } => {
                Some((title.as_deref(), *kind, locations.len()))
            }
            _ => None,
        });
        let early = usize::from(!told_with_end);
        assert_eq!(told, Some((Some("Look at a"), Some(ToolKind::Search), early)), "{entries:?}");
        let location_count = entries.iter().find_map(|event| match &event.kind {
            EventKind::ToolEnded { outcome, .. } => Some(outcome.locations().len()),
            _ => None,
        });
        assert_eq!(location_count, Some(usize::from(told_with_end)), "{entries:?}");
    }
}

#[tokio::test]
async fn running_call_is_reported_to_gateway() {
    let limits = GatewayLimits {
        tool_host_silence_max: Duration::from_millis(900),
        ..GatewayLimits::default()
    };
    let folder = Arc::new(TempDir::new().unwrap());
    let fixture = TestGateway::with_limits(folder, &["look:a", "Seen"], limits).await;
    let (handle, mut heard) = open_session(&fixture.link(), "acp:1").await;
    // Takes longer than the gateway waits for a host that says nothing.
    let takes = Duration::from_millis(2_500);
    let backend = RecordingToolBackend { takes, ..RecordingToolBackend::default() };
    handle.host_tools("a test", Arc::new(backend), PermissionMode::Ask).await.unwrap();
    handle.send(send_request("run-1", "look")).await.unwrap();
    let (entries, _) = collect_until(&mut heard, is_end).await;
    let ended = entries.iter().find_map(|event| match &event.kind {
        EventKind::ToolEnded { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(ended, Some(ToolCallStatus::Completed), "{entries:?}");
}

#[tokio::test]
async fn call_for_left_session_fails_at_once() {
    let fixture = TestGateway::start(&["look:a", "@wait look:b", "Gone"]).await;
    let link = fixture.link();
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    let backend = Arc::new(RecordingToolBackend::default());
    handle.host_tools("a test", backend.clone(), PermissionMode::Ask).await.unwrap();
    handle.send(send_request("run-1", "look")).await.unwrap();
    // The run has opened the tools by then; one that begins afterwards fails as a whole.
    collect_until(&mut heard, is_call_end).await;
    handle.leave().await;
    drop((handle, heard));
    let (_watching, mut heard) = open_session(&link, "acp:1").await;
    fixture.release_model(1);
    let (entries, _) = collect_until(&mut heard, is_end).await;
    let failed = entries.iter().any(|event| {
        matches!(&event.kind, EventKind::ToolEnded { status: ToolCallStatus::Failed, .. })
    });
    assert!(failed, "{entries:?}");
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn session_can_be_opened_twice() {
    let fixture = TestGateway::start(&["Hello", "look:a", "Seen"]).await;
    let link = fixture.link();
    let (one, mut heard_one) = open_session(&link, "acp:1").await;
    let (two, mut heard_two) = open_session(&link, "acp:1").await;
    let backend =
        [Arc::new(RecordingToolBackend::default()), Arc::new(RecordingToolBackend::default())];
    one.host_tools("one", backend[0].clone(), PermissionMode::Ask).await.unwrap();
    two.host_tools("two", backend[1].clone(), PermissionMode::Ask).await.unwrap();
    one.send(send_request("run-1", "hi")).await.unwrap();
    let (first, _) = collect_until(&mut heard_one, is_end).await;
    let (second, _) = collect_until(&mut heard_two, is_end).await;
    assert_eq!(first, second);
    // The remaining session hosts the tools.
    two.leave().await;
    one.send(send_request("run-2", "look")).await.unwrap();
    let (entries, _) = collect_until(&mut heard_one, is_end).await;
    assert_eq!(joined_text(&entries), "Seen ");
    let calls = |backend: &RecordingToolBackend| backend.calls.lock().unwrap().len();
    assert_eq!((calls(&backend[0]), calls(&backend[1])), (1, 0));
}

#[tokio::test]
async fn slow_reader_loses_nothing_and_does_not_block_others() {
    let words = vec!["word"; 5_000].join(" ");
    let fixture = TestGateway::start(&[&words, "quick"]).await;
    let link = fixture.link();
    let (slow, mut slow_heard) = open_session(&link, "acp:slow").await;
    slow.send(send_request("run-1", "much")).await.unwrap();
    // Read no updates until the run has ended.
    let run = zero_core::RunId::new("run-1").unwrap();
    fixture
        .sessions
        .wait_for_run("me", &run, crate::test_gateway::PATIENCE)
        .await
        .unwrap()
        .unwrap();
    let (quick, mut quick_heard) = open_session(&link, "acp:quick").await;
    quick.send(send_request("run-2", "hi")).await.unwrap();
    let (entries, _) = collect_until(&mut quick_heard, is_end).await;
    assert_eq!(joined_text(&entries), "quick ");
    let (entries, others) = collect_until(&mut slow_heard, is_end).await;
    assert!(others.is_empty());
    check_numbers(&entries);
    assert_eq!(joined_text(&entries).split_whitespace().count(), 5_000);
}

#[tokio::test]
async fn abort_stops_run() {
    let fixture = TestGateway::start(&["Working @wait on"]).await;
    let (handle, mut heard) = open_session(&fixture.link(), "acp:1").await;
    handle.send(send_request("run-1", "work")).await.unwrap();
    collect_until(&mut heard, is_text).await;
    handle.abort("run-1").await.unwrap();
    let (entries, _) = collect_until(&mut heard, is_end).await;
    assert_eq!(run_end(&entries), RunOutcome::Aborted { by: "rpc".to_owned() });
}

/// A folder that the gateway denies can still be used by tools hosted by the client.
#[tokio::test]
async fn inaccessible_folder_is_used_by_local_tools() {
    let fixture = TestGateway::start(&[]).await;
    let scopes = vec![TokenScope::Read, TokenScope::Write];
    let folder_access = FolderAccess::Folders([fixture.folder.path().to_owned()].into());
    let link = fixture.link_as(Principal { folder_access, ..Principal::new("guest", scopes) });
    let outside = || OpenRequest { cwd: Some("/usr".to_owned()), ..open_request("acp:1") };
    let (handle, _heard) = link.open(outside()).await.unwrap();
    assert_eq!(handle.info().cwd, None, "not there, as long as nobody works here");
    assert!(
        handle
            .host_tools("here", Arc::new(RecordingToolBackend::default()), PermissionMode::Ask)
            .await
            .unwrap()
    );
    assert_eq!(handle.info().cwd.as_deref(), Some("/usr"));
    // Once it is known to be local, the session is opened with one request.
    handle.leave().await;
    let (handle, _heard) = link.open(outside()).await.unwrap();
    assert_eq!(handle.info().cwd.as_deref(), Some("/usr"));
    // Other refusals are errors.
    let mode = OpenRequest { mode: Some(PermissionMode::Auto), ..outside() };
    let refused = link.open(OpenRequest { key: Some("acp:2".to_owned()), ..mode }).await.err();
    assert!(matches!(refused, Some(GatewayLinkError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn session_knows_if_gateway_is_in_process() {
    let fixture = TestGateway::start(&[]).await;
    let (handle, _heard) = open_session(&fixture.link(), "acp:1").await;
    assert_eq!(handle.locality(), GatewayLocality::InProcess);
    let address = fixture.listen(([127, 0, 0, 1], 0).into()).await;
    let (handle, _heard) = open_session(&GatewayLink::new(TcpDialer::new(address)), "acp:1").await;
    assert_eq!(handle.locality(), GatewayLocality::Remote);
}
