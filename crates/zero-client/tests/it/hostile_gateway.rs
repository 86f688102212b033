//! Tests with a gateway that identifies as one of zero and misbehaves.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zero_client::wire::SessionInfo;
use zero_client::{GatewayLink, GatewayLinkError, GatewayUpdate, SessionHandle, SessionUpdates};
use zero_core::event::{Event, EventKind};
use zero_core::{ToolCall, ToolError, ToolOutcome};
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{CallObserver, ToolBackend, ToolBackendError, ToolCatalog};
use zero_session::PermissionMode;

use crate::openclaw_server::OpenClawServer;
use crate::test_gateway::{PATIENCE, RecordingToolBackend, TcpDialer, next_update, open_session};

const KEY: &str = "agent:main:acp:1";

/// Opens a session at such a gateway, with a ledger of the given length.
async fn open_hostile_session(
    last_seq: u64,
) -> (OpenClawServer, GatewayLink, SessionHandle, SessionUpdates) {
    let server = OpenClawServer::start().await;
    let hello = json!({
        "type": "hello-ok", "protocol": 4, "server": {"version": "1.2.3", "connId": "c"},
        "features": {"methods": [], "events": [], "capabilities": ["zero.sessions", "zero.tools"]},
        "snapshot": {"presence": [], "health": {}, "uptimeMs": 1,
            "stateVersion": {"presence": 0, "health": 0}},
        "auth": {"role": "operator", "scopes": ["operator.admin"]},
        "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000},
    });
    // Once more for a client that reconnects.
    server.set_answer("connect", Ok(hello.clone()));
    server.set_answer("connect", Ok(hello));
    let info = SessionInfo {
        session_key: KEY.to_owned(),
        session_id: "session_1".to_owned(),
        transcript: 1,
        last_seq,
        ..SessionInfo::default()
    };
    let info = serde_json::to_value(info).unwrap();
    server.set_answer("zero.sessions.open", Ok(info.clone()));
    server.set_answer("zero.sessions.open", Ok(info));
    let link = GatewayLink::new(TcpDialer::new(server.address));
    let (handle, heard) = open_session(&link, "acp:1").await;
    (server, link, handle, heard)
}

fn entry(seq: u64) -> Value {
    let kind = EventKind::Text { text: format!("entry {seq}") };
    serde_json::to_value(Event { seq, run: None, time_ms: 1, kind }).unwrap()
}

fn send_entry(server: &OpenClawServer, seq: u64) {
    server.send_event("zero.session.event", json!({"sessionKey": KEY, "event": entry(seq)}));
}

fn set_page(server: &OpenClawServer, numbers: &[u64], has_more: bool) {
    let events: Vec<Value> = numbers.iter().map(|seq| entry(*seq)).collect();
    server.set_answer("zero.sessions.events", Ok(json!({"events": events, "hasMore": has_more})));
}

fn is_entry(news: &GatewayUpdate, seq: u64) -> bool {
    matches!(news, GatewayUpdate::Entry(event) if event.seq == seq)
}

#[tokio::test]
async fn stalled_ledger_is_read_once() {
    for (numbers, has_more) in
        [(&[1_u64, 2][..], true), (&[4, 4][..], true), (&[][..], true), (&[u64::MAX][..], false)]
    {
        let (server, _link, handle, mut heard) = open_hostile_session(3).await;
        set_page(&server, numbers, has_more);
        // Entries before this one are missing, so the ledger is read.
        send_entry(&server, 9);
        let GatewayUpdate::Lost(error) = next_update(&mut heard).await else {
            panic!("{numbers:?}")
        };
        assert!(error.to_string().contains("does not continue after entry 3"), "{error}");
        assert_eq!(server.request_count("zero.sessions.events"), 1);
        set_page(&server, numbers, has_more);
        let read = handle.read_events(3).await;
        assert!(matches!(read, Err(GatewayLinkError::Unreachable { .. })), "{read:?}");
    }
}

#[tokio::test]
async fn maximum_sequence_number_does_not_panic() {
    let (server, _link, _near, mut heard) = open_hostile_session(u64::MAX - 1).await;
    send_entry(&server, u64::MAX);
    assert!(is_entry(&next_update(&mut heard).await, u64::MAX));
    let (_server, _link, handle, _heard) = open_hostile_session(u64::MAX).await;
    assert_eq!(handle.info().last_seq, u64::MAX);
}

/// A tool backend that delays its catalog.
#[derive(Default)]
struct SlowToolBackend {
    looking: RecordingToolBackend,
    asked: tokio::sync::Notify,
    gate: Option<Semaphore>,
}

impl SlowToolBackend {
    fn new() -> Arc<Self> {
        Arc::new(Self { gate: Some(Semaphore::new(0)), ..Self::default() })
    }

    /// Releases the catalog.
    fn release(&self) {
        self.gate.iter().for_each(Semaphore::close);
    }
}

impl ToolBackend for SlowToolBackend {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        Box::pin(async move {
            self.asked.notify_one();
            if let Some(gate) = &self.gate {
                assert!(gate.acquire().await.is_err());
            }
            self.looking.load_catalog(dialect).await
        })
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        self.looking.call(call, dialect, cancel, watch)
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        self.looking.set_mode(mode)
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        self.looking.rewind_files(request, requester)
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    fn location(&self) -> String {
        "a test".to_owned()
    }
}

fn use_tool(server: &OpenClawServer, call: usize) {
    let wanted = json!({"sessionId": "session_1", "toolCallId": call.to_string(),
        "toolName": "look", "input": {}});
    server.send_event("tools/use", wanted);
}

/// Attaches tools while the gateway sends further events.
async fn host_while(
    server: &OpenClawServer,
    handle: &SessionHandle,
    heard: &mut SessionUpdates,
    backend: &Arc<SlowToolBackend>,
    meanwhile: impl FnOnce(&OpenClawServer),
) {
    let terms = json!({"sessionKey": KEY, "sessionId": "session_1", "dialect": "canonical"});
    server.set_answer("tools/attach", Ok(terms));
    let hosting = tokio::spawn({
        let (handle, backend) = (handle.clone(), Arc::clone(backend));
        async move { handle.host_tools("here", backend, PermissionMode::Ask).await }
    });
    timeout(PATIENCE, backend.asked.notified()).await.unwrap();
    meanwhile(server);
    // Later events are delivered after it.
    send_entry(server, 4);
    assert!(is_entry(&next_update(heard).await, 4));
    backend.release();
    timeout(PATIENCE, hosting).await.unwrap().unwrap().unwrap();
}

fn displace(server: &OpenClawServer) {
    let displaced = json!({"sessionKey": KEY, "sessionId": "session_1", "host": "laptop"});
    server.send_event("tools/displaced", displaced);
}

#[tokio::test]
async fn displacement_during_attach_is_detected() {
    let (server, _link, handle, mut heard) = open_hostile_session(3).await;
    let refused = json!({"code": "INVALID_REQUEST", "message": "hosted elsewhere",
        "details": {"code": "TOOLS_HOSTED", "host": "laptop"}});
    server.set_answer("tools/offer", Ok(json!({"ok": true})));
    server.set_answer("tools/offer", Err(&refused.to_string()));
    let backend = SlowToolBackend::new();
    host_while(&server, &handle, &mut heard, &backend, displace).await;
    assert_eq!(
        next_update(&mut heard).await,
        GatewayUpdate::Displaced { host: "laptop".to_owned() }
    );
    server.wait_for_request("tools/offer", 2).await;
    // Calls that arrive nevertheless are not run here.
    use_tool(&server, 1);
    assert_eq!(server.wait_for_request("tools/result", 1).await["isError"], true);
    assert!(backend.looking.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn displacement_before_attach_is_ignored() {
    let (server, _link, handle, mut heard) = open_hostile_session(3).await;
    let backend = SlowToolBackend::new();
    host_while(&server, &handle, &mut heard, &backend, displace).await;
    server.wait_for_request("tools/offer", 2).await;
    use_tool(&server, 1);
    assert_eq!(server.wait_for_request("tools/result", 1).await["isError"], false);
    send_entry(&server, 5);
    assert!(is_entry(&next_update(&mut heard).await, 5), "nothing else was told");
}

#[tokio::test]
async fn rewind_of_remote_gateway_is_not_the_users() {
    let (server, _link, handle, mut heard) = open_hostile_session(3).await;
    let backend = SlowToolBackend::new();
    host_while(&server, &handle, &mut heard, &backend, |_| {}).await;
    let wanted = json!({"sessionId": "session_1", "toolCallId": "r", "toolName": "zero.rewind",
        "input": {"rewind": "rewind_1", "calls": ["call_1"], "action": "overwrite"}});
    server.send_event("tools/use", wanted);
    assert_eq!(server.wait_for_request("tools/result", 1).await["isError"], false);
    assert_eq!(*backend.looking.rewinds.lock().unwrap(), ["gateway"]);
}

#[tokio::test]
async fn refused_result_is_reported_again_after_reconnect() {
    let (server, _link, handle, mut heard) = open_hostile_session(3).await;
    let terms = json!({"sessionKey": KEY, "sessionId": "session_1", "dialect": "canonical",
        "outcome": true, "recovers": true});
    server.set_answer("tools/attach", Ok(terms.clone()));
    server.set_answer("tools/attach", Ok(terms));
    let refused = json!({"code": "INVALID_REQUEST", "message": "nothing waits for it here"});
    server.set_answer("tools/result", Err(&refused.to_string()));
    server.set_answer("tools/result", Ok(json!({"ok": true})));
    let backend = Arc::new(RecordingToolBackend::default());
    handle.host_tools("here", backend, PermissionMode::Ask).await.unwrap();
    use_tool(&server, 1);
    server.wait_for_request("tools/result", 1).await;
    send_entry(&server, 4);
    assert!(is_entry(&next_update(&mut heard).await, 4));
    // The gateway has given its runs to another one, which wants to know what happened.
    server.drop_connections();
    assert_eq!(server.wait_for_request("tools/result", 2).await["toolCallId"], "1");
}

#[tokio::test]
async fn early_calls_are_run_or_rejected() {
    let (server, _link, handle, mut heard) = open_hostile_session(3).await;
    let backend = SlowToolBackend::new();
    let many = |server: &OpenClawServer| (0..100).for_each(|call| use_tool(server, call));
    host_while(&server, &handle, &mut heard, &backend, many).await;
    server.wait_for_request("tools/result", 100).await;
    assert_eq!(backend.looking.calls.lock().unwrap().len(), 64);
}

#[tokio::test]
async fn early_calls_are_rejected_if_attach_fails() {
    for is_left in [false, true] {
        let (server, _link, handle, mut heard) = open_hostile_session(3).await;
        let terms = json!({"sessionKey": KEY, "sessionId": "session_1", "dialect": "canonical"});
        server.set_answer("tools/attach", Ok(terms));
        let refused = json!({"code": "INVALID_REQUEST", "message": "no such tools"});
        server.set_answer("tools/offer", Err(&refused.to_string()));
        let backend = SlowToolBackend::new();
        let hosting = tokio::spawn({
            let (handle, backend) = (handle.clone(), Arc::clone(&backend));
            async move { handle.host_tools("here", backend, PermissionMode::Ask).await }
        });
        timeout(PATIENCE, backend.asked.notified()).await.unwrap();
        (0..3).for_each(|call| use_tool(&server, call));
        send_entry(&server, 4);
        assert!(is_entry(&next_update(&mut heard).await, 4));
        if is_left {
            timeout(PATIENCE, handle.leave()).await.unwrap();
        } else {
            backend.release();
            assert!(timeout(PATIENCE, hosting).await.unwrap().unwrap().is_err());
        }
        assert_eq!(server.wait_for_request("tools/result", 3).await["isError"], true);
        assert!(backend.looking.calls.lock().unwrap().is_empty());
    }
}
