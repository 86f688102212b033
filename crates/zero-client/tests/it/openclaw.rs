//! Tests of sessions at another OpenClaw-compatible gateway.

use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use zero_client::url_dialer::{DeviceKeySource, UrlDialer};
use zero_client::{
    GatewayLink, GatewayLinkError, GatewayUpdate, ListRequest, OpenRequest, OverlapPolicy,
    SendRequest, SessionChange, SessionHandle, SessionUpdates,
};
use zero_core::event::{Event, EventKind, RunOutcome};
use zero_runtime::ApprovalAnswer;
use zero_session::PermissionMode;
use zero_wire::client::{ConnectOptions, GatewayUrl};
use zero_wire::device::DeviceKey;

use crate::openclaw_server::OpenClawServer;
use crate::test_gateway::{
    RecordingToolBackend, TcpDialer, check_numbers, collect_until, is_end, is_text, joined_text,
    next_update, open_request, open_session, run_end, send_request,
};

async fn open_openclaw_session() -> (OpenClawServer, GatewayLink, SessionHandle, SessionUpdates) {
    let server = OpenClawServer::start().await;
    let link = GatewayLink::new(TcpDialer::new(server.address));
    let (handle, heard) = open_session(&link, "acp:1").await;
    (server, link, handle, heard)
}

#[tokio::test]
async fn prompt_yields_calls_and_text() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    assert!(!handle.is_cwd_known());
    assert!(
        !handle
            .host_tools("t", Arc::new(RecordingToolBackend::default()), PermissionMode::Ask)
            .await
            .unwrap()
    );
    handle.send(send_request("run-1", "hi")).await.unwrap();
    let sent = server.wait_for_request("chat.send", 1).await;
    let plain = json!({"sessionKey": "acp:1", "message": "hi", "idempotencyKey": "run-1"});
    assert_eq!(sent, plain, "nothing that a closed schema would refuse");
    server.send_chat("run-1", "delta", "I look");
    server.send_chat("other", "delta", "not ours");
    server.send_event(
        "chat",
        json!({"runId": "theirs", "sessionKey": "agent:main:x", "state": "final"}),
    );
    let call = |phase: &str| {
        json!({"phase": phase, "name": "exec", "toolCallId": "c",
        "args": {"command": "ls"}, "isError": false,
        "result": {"content": [{"type": "text", "text": "a.rs"}]}})
    };
    server.send_agent("run-1", "tool", call("start"));
    server.send_agent("run-1", "tool", call("result"));
    server.send_chat("run-1", "final", "I look\n\nSeen");
    let of_run = |news: &GatewayUpdate| is_end(news);
    let (entries, _) = collect_until(&mut heard, of_run).await;
    check_numbers(&entries);
    let ours: Vec<Event> = entries
        .into_iter()
        .filter(|event| event.run.as_ref().is_some_and(|run| run.as_str() == "run-1"))
        .collect();
    assert_eq!(
        (joined_text(&ours).as_str(), run_end(&ours)),
        ("I look\n\nSeen", RunOutcome::Completed)
    );
    assert!(matches!(&ours[0].kind, EventKind::Prompt { text, .. } if text == "hi"));
    assert!(matches!(&ours[1].kind, EventKind::RunStarted { .. }));
    let titles: Vec<&str> = ours
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolStarted { title, .. } => Some(title.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(titles, ["exec: ls"]);
    // The gateway's spelling of the key is used from now on.
    assert_eq!(handle.info().session_key, "agent:main:acp:1");
    handle.abort("run-1").await.unwrap();
    let abort = json!({"sessionKey": "agent:main:acp:1", "runId": "run-1"});
    assert_eq!(server.wait_for_request("chat.abort", 1).await, abort);
}

/// Creates the device key once and counts the requests for it.
struct CountingDeviceSource(Arc<DeviceKey>, AtomicUsize);

impl DeviceKeySource for CountingDeviceSource {
    fn device_key(&self) -> Result<Arc<DeviceKey>, GatewayLinkError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&self.0))
    }
}

#[tokio::test]
async fn device_key_is_sent_only_when_required() {
    let server = OpenClawServer::start().await;
    let url: GatewayUrl = format!("ws://{}", server.address).parse().unwrap();
    let key = Arc::new(DeviceKey::generate().unwrap().0);
    let device = Arc::new(CountingDeviceSource(Arc::clone(&key), AtomicUsize::new(0)));
    let to_url =
        || UrlDialer::new(url.clone(), ConnectOptions::default()).with_device(device.clone());
    let link = GatewayLink::new(Arc::new(to_url()));
    open_session(&link, "acp:1").await;
    let connect = server.wait_for_request("connect", 1).await;
    assert_eq!(connect["device"], Value::Null);
    assert_eq!(connect["caps"], json!(["zero-events", "tool-events", "exec-approvals"]));
    assert_eq!(connect["scopes"], json!(["operator.admin"]));

    let demand = json!({"code": "NOT_PAIRED", "message": "device identity required",
        "details": {"code": "DEVICE_IDENTITY_REQUIRED"}});
    server.set_answer("connect", Err(&demand.to_string()));
    let link = GatewayLink::new(Arc::new(to_url()));
    let (_near, mut heard) = open_session(&link, "acp:2").await;
    assert_eq!(server.wait_for_request("connect", 3).await["device"]["id"], key.id());
    // The key is known from then on.
    server.drop_connections();
    collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    assert_eq!(device.1.load(Ordering::Relaxed), 1);

    let pairing = json!({"code": "NOT_PAIRED", "message": "pairing required",
        "details": {"code": "PAIRING_REQUIRED"}});
    server.set_answer("connect", Err(&pairing.to_string()));
    let error =
        GatewayLink::new(Arc::new(to_url())).open(open_request("acp:3")).await.err().unwrap();
    assert!(error.to_string().contains("approve this device at the gateway"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn gateway_error_fails_run() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    server.set_answer("chat.send", Err("Agent \"x\" no longer exists in configuration"));
    let refused = handle.send(send_request("run-0", "hi")).await.unwrap_err();
    assert!(refused.to_string().contains("no longer exists"), "{refused}");
    handle.send(send_request("run-1", "hi")).await.unwrap();
    server.send_event(
        "chat",
        json!({"runId": "run-1", "sessionKey": "agent:main:acp:1", "seq": 1,
        "state": "error", "errorMessage": "HTTP 500", "errorKind": "unknown"}),
    );
    let (entries, _) = collect_until(&mut heard, is_end).await;
    let failed = RunOutcome::Failed { kind: "internal".to_owned(), message: "HTTP 500".to_owned() };
    assert_eq!(run_end(&entries), failed, "only of the run that was begun");
}

#[tokio::test]
async fn disconnect_mid_run_is_recovered_from_final_text() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "count")).await.unwrap();
    server.send_chat("run-1", "delta", "One two");
    let (mut entries, _) = collect_until(&mut heard, is_text).await;
    // The run ends while nobody is connected.
    let reply = json!({"disposition": "visible", "text": "One two three"});
    let over = json!({"runId": "run-1", "status": "ok", "terminalReply": reply});
    server.set_answer("agent.wait", Ok(over));
    server.drop_connections();
    let (more, others) =
        collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    entries.extend(more);
    assert_eq!(others, [GatewayUpdate::Disconnected, GatewayUpdate::Reconnected]);
    check_numbers(&entries);
    assert_eq!(
        (joined_text(&entries).as_str(), run_end(&entries)),
        ("One two three", RunOutcome::Completed)
    );
    assert_eq!(server.request_count("chat.send"), 1, "it is not sent again");
}

#[tokio::test]
async fn run_continues_after_reconnect() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "count")).await.unwrap();
    server.send_chat("run-1", "delta", "One ");
    let (mut entries, _) = collect_until(&mut heard, is_text).await;
    server.drop_connections();
    collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    server.send_chat("run-1", "delta", "One two ");
    server.send_chat("run-1", "final", "One two three");
    let (more, _) = collect_until(&mut heard, is_end).await;
    entries.extend(more);
    check_numbers(&entries);
    assert_eq!(joined_text(&entries), "One two three");
}

#[tokio::test]
async fn unknown_run_outcome_is_reported() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "count")).await.unwrap();
    server.send_chat("run-1", "delta", "One ");
    collect_until(&mut heard, is_text).await;
    // Longer than the assumed clock difference.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_millis(2_500)).await;
    tokio::time::resume();
    server.simulate_restart();
    server.drop_connections();
    let (_, others) = collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    let [GatewayUpdate::Disconnected, GatewayUpdate::Lost(error), GatewayUpdate::Reconnected] =
        others.as_slice()
    else {
        panic!("{others:?}")
    };
    assert!(error.to_string().contains("is not known"), "{error}");
    handle.send(send_request("run-2", "again")).await.unwrap();
    server.send_chat("run-2", "final", "Yes");
    assert_eq!(joined_text(&collect_until(&mut heard, is_end).await.0), "Yes");
}

#[tokio::test]
async fn approval_is_requested_and_resolved() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "hi")).await.unwrap();
    let asked = |key: &str, id: &str| {
        json!({"id": id, "expiresAtMs": 9, "createdAtMs": 1,
        "request": {"command": "rm -rf x", "cwd": null, "host": "gateway", "sessionKey": key,
            "toolCallId": "c", "allowedDecisions": ["allow-once", "allow-always", "deny"]}})
    };
    server.send_chat("run-1", "delta", "Hm");
    server.send_event("exec.approval.requested", asked("agent:main:elsewhere", "q0"));
    server.send_event("exec.approval.requested", asked("agent:main:acp:1", "q1"));
    let is_asked = |news: &GatewayUpdate| {
        matches!(news, GatewayUpdate::Entry(Event { kind: EventKind::ApprovalRequested(_), .. }))
    };
    let (entries, _) = collect_until(&mut heard, is_asked).await;
    let Some(EventKind::ApprovalRequested(request)) = entries.last().map(|event| &event.kind)
    else {
        panic!("{entries:?}")
    };
    let options: Vec<&str> = request.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(
        (request.id.as_str(), request.commands.as_slice()),
        ("q1", &["rm -rf x".to_owned()][..])
    );
    assert_eq!(options, ["allow_once", "allow_always", "reject_once"]);
    handle.resolve_approval("q1", ApprovalAnswer::RejectOnce).await.unwrap();
    let decided = json!({"id": "q1", "decision": "deny"});
    assert_eq!(server.wait_for_request("exec.approval.resolve", 1).await, decided);
    server.send_event("exec.approval.resolved", json!({"id": "q0", "decision": "allow-always"}));
    server.send_event("exec.approval.resolved", json!({"id": "q1", "decision": "deny"}));
    let GatewayUpdate::Entry(Event {
        kind: EventKind::ApprovalResolved { id, answer, .. }, ..
    }) = next_update(&mut heard).await
    else {
        panic!("not answered")
    };
    assert_eq!((id.as_str(), answer.as_str()), ("q1", "reject_once"));
}

#[tokio::test]
async fn refused_key_is_retried_as_bridge_key() {
    let server = OpenClawServer::start().await;
    let link = GatewayLink::new(TcpDialer::new(server.address));
    server.set_answer("sessions.resolve", Err("malformed session key \"acp:1\""));
    let (handle, _heard) = open_session(&link, "acp:1").await;
    assert_eq!(handle.info().session_key, "acp-bridge:1");
    let (handle, _heard) = open_session(&link, "acp:2").await;
    assert_eq!(handle.info().session_key, "acp:2");
    server.set_answer("chat.send", Err("acp_session_init_failed"));
    handle.send(send_request("run-1", "hi")).await.unwrap();
    assert_eq!(server.wait_for_request("chat.send", 2).await["sessionKey"], "acp-bridge:2");
}

#[tokio::test]
async fn sessions_are_found_reset_changed_and_listed() {
    let (server, link, handle, mut heard) = open_openclaw_session().await;
    let missing = OpenRequest { require_existing: true, ..open_request("acp:9") };
    let error = link.open(missing).await.err().unwrap();
    assert_eq!(error, GatewayLinkError::NoSession { key: "acp:9".to_owned() });
    server.set_answer("sessions.resolve", Ok(json!({"ok": true, "key": "agent:main:x"})));
    server.set_answer("sessions.reset", Ok(json!({"ok": true, "key": "agent:main:x"})));
    let labelled =
        OpenRequest { label: Some("L".to_owned()), reset: true, ..OpenRequest::default() };
    let (other, _) = link.open(labelled).await.unwrap();
    assert_eq!(other.info().session_key, "agent:main:x");
    assert_eq!(server.wait_for_request("sessions.reset", 1).await, json!({"key": "agent:main:x"}));

    let refused = handle
        .change(SessionChange { mode: Some(PermissionMode::Auto), ..SessionChange::default() })
        .await;
    assert!(matches!(refused, Err(GatewayLinkError::Unsupported { .. })), "{refused:?}");
    handle
        .change(SessionChange { thinking: Some("high".to_owned()), ..SessionChange::default() })
        .await
        .unwrap();
    let patch = json!({"key": "acp:1", "thinkingLevel": "high"});
    assert_eq!(server.wait_for_request("sessions.patch", 1).await, patch);
    let GatewayUpdate::Entry(changed) = next_update(&mut heard).await else { panic!("not heard") };
    assert!(matches!(changed.kind, EventKind::Changed { field, .. } if field == "thinking"));

    let rows = json!([{"key": "agent:main:a", "spawnedCwd": "/one"}, {"key": "agent:main:b"}]);
    let page = json!({"sessions": rows, "hasMore": true, "nextOffset": 2});
    server.set_answer("sessions.list", Ok(page.clone()));
    let listing = ListRequest { cwd: None, offset: 0, limit: 2 };
    let listed = link.list(listing.clone()).await.unwrap();
    assert_eq!((listed.sessions.len(), listed.next_offset), (2, Some(2)));
    // The folder of the second session is unknown, so it matches no folder.
    for (folder, expected) in [("/one", 1), ("/two", 0)] {
        server.set_answer("sessions.list", Ok(page.clone()));
        let cwd = Some(folder.to_owned());
        let listed = link.list(ListRequest { cwd, ..listing.clone() }).await.unwrap();
        assert_eq!(listed.sessions.len(), expected, "{folder}");
    }
    link.delete("agent:main:a").await.unwrap();
    assert_eq!(server.wait_for_request("sessions.delete", 1).await, json!({"key": "agent:main:a"}));
    server.set_answer("sessions.get", Ok(json!({"messages": [{"role": "user", "content": "hi"}]})));
    let page = handle.read_events(0).await.unwrap();
    assert!(matches!(&page.events[0].kind, EventKind::Prompt { text, .. } if text == "hi"));
    let last = page.events.last().unwrap().seq;
    assert!(handle.info().last_seq >= last && !page.has_more);
}

#[tokio::test]
async fn second_prompt_queues_or_replaces_first() {
    let (server, _link, handle, _heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "one")).await.unwrap();
    handle.send(send_request("run-2", "two")).await.unwrap();
    assert_eq!(server.wait_for_request("chat.send", 2).await["queueMode"], "followup");
    let replace = SendRequest { overlap: OverlapPolicy::Replace, ..send_request("run-3", "three") };
    handle.send(replace).await.unwrap();
    assert_eq!(server.wait_for_request("chat.send", 3).await["queueMode"], Value::Null);
    assert_eq!(server.request_count("chat.abort"), 2);
}

#[tokio::test]
async fn steering_prompt_stops_only_the_run_that_answers() {
    let (server, _link, handle, _heard) = open_openclaw_session().await;
    handle.send(send_request("run-9", "one")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    handle.send(send_request("run-1", "two")).await.unwrap();
    let steer = SendRequest { overlap: OverlapPolicy::Steer, ..send_request("run-3", "three") };
    handle.send(steer).await.unwrap();
    assert_eq!(server.wait_for_request("chat.send", 3).await["queueMode"], "followup");
    assert_eq!(server.request_count("chat.abort"), 1);
    assert_eq!(server.wait_for_request("chat.abort", 1).await["runId"], "run-9");
}

#[tokio::test]
async fn slow_reader_receives_all_text() {
    let (server, _link, handle, mut heard) = open_openclaw_session().await;
    handle.send(send_request("run-1", "much")).await.unwrap();
    let mut all = String::new();
    for n in 0..3_000 {
        all += &format!("{n} ");
        server.send_chat("run-1", "delta", &all);
    }
    server.send_chat("run-1", "final", &all);
    let (entries, _) = collect_until(&mut heard, is_end).await;
    check_numbers(&entries);
    assert_eq!(joined_text(&entries), all);
}
