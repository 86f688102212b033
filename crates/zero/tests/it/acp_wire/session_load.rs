//! A session that is loaded is told as it was: words, thoughts, calls and changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_client::url_dialer::UrlDialer;
use zero_client::{GatewayLink, GatewayUpdate, OpenRequest, OverlapPolicy, SendRequest};
use zero_core::event::{EventKind, PlanEntry};
use zero_core::{ResultDisplay, ToolCall, ToolKind, ToolOutcome, ToolResult};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, CatalogEntry, ToolBackend, ToolBackendError, ToolCatalog,
};
use zero_wire::client::{ConnectOptions, GatewayCredentials};

use super::remote_gateway::read_token;
use super::{AcpFixture, call_step, calls, chunk_text, make_script};
use crate::gateway_process::{GatewayProcess, TIMEOUT};

/// Everything of a call that a client keeps, but for what only a live one has.
fn replayed_fields(call: &Value) -> Value {
    json!({
        "toolCallId": call["toolCallId"],
        "title": call["title"],
        "kind": call["kind"],
        "status": call["status"],
        "content": call["content"],
        "locations": call["locations"],
        "rawInput": call["rawInput"],
    })
}

#[test]
fn load_001_session_is_replayed_as_it_was() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let (read, made, changed, run) = (
        call_step("Read", json!({"file_path": "hello.txt"})),
        call_step("Write", json!({"file_path": "new.txt", "content": "new\n"})),
        call_step("Write", json!({"file_path": "hello.txt", "content": "bye\n"})),
        call_step("Bash", json!({"command": "echo printed; exit 3"})),
    );
    let steps = [
        "think I wonder.",
        "say I look.",
        &read,
        "turn",
        &made,
        "turn",
        "think More.",
        &changed,
        "turn",
        &run,
        "turn",
        "say All done.",
    ];
    let from = acp.log_position();
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    acp.run_turn(&session, "and now?", "end_turn");
    let live = acp.updates(from, &session);
    acp.close();

    let mut acp = fixture.start_client();
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let told = acp.updates(0, &session);
    for kind in ["agent_message_chunk", "agent_thought_chunk"] {
        assert_eq!(chunk_text(&told, kind), chunk_text(&live, kind));
    }
    assert_eq!(chunk_text(&told, "agent_thought_chunk"), "I wonder.More.");
    let text = chunk_text(&told, "user_message_chunk");
    assert!(text.contains("say All done.") && text.contains("and now?"), "{text}");
    let (live, told) = (calls(&live), calls(&told));
    assert_eq!((live.len(), told.len()), (4, 4), "{told:#?}");
    for (live, told) in live.iter().zip(&told) {
        assert_eq!(replayed_fields(live), replayed_fields(told));
    }
    let diff = |call: &Value| call["content"][0].clone();
    let path = |name: &str| json!(fixture.project_path(name));
    assert_eq!(diff(&told[1])["type"], "diff");
    assert_eq!(diff(&told[1])["path"], path("new.txt"));
    let changed = json!({"type": "diff", "path": path("hello.txt"), "oldText": "hello\n", "newText": "bye\n"});
    assert_eq!(diff(&told[2]), changed);
    assert_eq!(told[3]["rawOutput"]["metadata"]["exitCode"], 3, "{}", told[3]);
    // And it goes on.
    acp.run_turn(&session, "go on", "end_turn");
    acp.close();
}

#[test]
fn replay_does_not_hold_other_sessions() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    // More bytes than the pipe to the client holds, and more updates than may wait.
    let calls = call_step("Nope", json!({})) + "\n";
    let script = make_script(&[&(calls.repeat(100) + "turn"), "say Done."]);
    acp.run_turn(&session, &format!("{}{script}", "filler ".repeat(40_000)), "end_turn");
    acp.close();
    let count = || {
        let listed = fixture.zero.stdout(&["sessions", "list", "--json"]);
        serde_json::from_str::<Vec<Value>>(&listed).unwrap().len()
    };
    assert_eq!(count(), 1);
    let mut acp = fixture.start_client();
    acp.stop_reading();
    let load =
        acp.request("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let new = acp.request("session/new", fixture.session_params());
    // The client reads nothing, so the history cannot be sent; the other session is opened anyway.
    let until = Instant::now() + TIMEOUT;
    while count() < 2 {
        assert!(Instant::now() < until, "the other session is not opened");
        std::thread::sleep(Duration::from_millis(50));
    }
    acp.resume_reading();
    acp.wait(&new).unwrap();
    acp.wait(&load).unwrap();
    assert!(!acp.message_text(0, &session).is_empty());
    acp.close();
}

#[test]
fn load_002_replay_comes_before_the_answer() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, &make_script(&["say Some words."]), "end_turn");
    acp.close();
    let mut acp = fixture.start_client();
    let from = acp.log_position();
    let loaded =
        acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    assert!(loaded["modes"].is_object() && loaded["configOptions"].is_array(), "{loaded}");
    // Nothing else was heard yet, so all of it was before.
    assert_eq!(acp.message_text(from, &session), "Some words.");
    let after = acp.log_position();
    acp.run_turn(&session, "/status", "end_turn");
    assert!(!acp.message_text(after, &session).contains("Some words."));
    acp.close();
}

#[test]
fn load_003_unknown_session_is_not_found() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for id in ["agent:main:acp:nobody", "nobody", "../../etc/passwd"] {
        let gone = fixture.session_params_with(json!({"sessionId": id}));
        let error = acp.call_error("session/load", gone, -32002);
        assert_eq!(error["data"]["sessionId"], id, "{error}");
    }
    for id in ["", "a\u{0}b"] {
        let unfit = fixture.session_params_with(json!({"sessionId": id}));
        let error = acp.call("session/load", unfit).expect_err("there cannot be such a session");
        assert!(error["code"] == -32002 || error["code"] == -32602, "{id:?}: {error}");
    }
    acp.close();
}

#[test]
fn open_session_can_be_loaded_again() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, &make_script(&["say Some words."]), "end_turn");
    for _ in 0..2 {
        let from = acp.log_position();
        acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
        assert_eq!(acp.message_text(from, &session), "Some words.");
    }
    acp.run_turn(&session, "go on", "end_turn");
    acp.close();
}

#[test]
fn denied_and_cancelled_calls_replay_as_failed() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    acp.always_select("reject_once");
    let session = acp.open_session(&fixture);
    let write = call_step("Write", json!({"file_path": "no.txt", "content": "no\n"}));
    acp.run_turn(&session, &make_script(&[&write, "turn", "say Pity."]), "end_turn");
    let from = acp.log_position();
    let turn = acp.begin_prompt(
        &session,
        &make_script(&[&call_step("Bash", json!({"command": "sleep 600"}))]),
    );
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.close();
    let mut acp = fixture.start_client();
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let told = calls(&acp.updates(0, &session));
    let ends: Vec<&Value> = told.iter().map(|call| &call["status"]).collect();
    assert_eq!(ends, ["failed", "failed"], "{told:#?}");
    acp.close();
}

/// Tools of somebody else: one that changes the plan.
struct PlanToolBackend;

impl ToolBackend for PlanToolBackend {
    fn load_catalog(&self, _: DialectName) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        let tool = CatalogEntry {
            name: "Planning".to_owned(),
            canonical: "Planning".to_owned(),
            display_name: None,
            description: "Plans.".to_owned(),
            input_schema: json!({"type": "object"}),
            kind: ToolKind::Think,
            read_only: true,
            info: None,
        };
        let cwd = PathBuf::from("/elsewhere");
        let catalog = ToolCatalog { cwd, tools: vec![tool].into(), ..ToolCatalog::default() };
        Box::pin(std::future::ready(Ok(catalog)))
    }

    fn call(
        &self,
        call: ToolCall,
        _: DialectName,
        _: CancellationToken,
        _: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let entry = |content: &str, priority: &str, status: &str| PlanEntry {
            content: content.to_owned(),
            priority: priority.to_owned(),
            status: status.to_owned(),
        };
        let first = if call.input["done"] == true { "completed" } else { "in_progress" };
        let plan = vec![entry("Dig", "high", first), entry("Plant", "low", "pending")];
        let display = ResultDisplay::Plan { entries: plan };
        let result = ToolResult { display, ..ToolResult::text("planned") };
        Box::pin(std::future::ready(result.into()))
    }

    fn set_mode(&self, _: Option<PermissionMode>) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn location(&self) -> String {
        "elsewhere".to_owned()
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }
}

#[test]
fn plans_are_replayed() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let (url, auth) =
        (gateway.url.parse().unwrap(), GatewayCredentials::token(read_token(&fixture)));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (begun, done) =
        (call_step("Planning", json!({})), call_step("Planning", json!({"done": true})));
    let text = make_script(&[&begun, "turn", &done, "turn", "say Dug."]);
    runtime.block_on(async {
        let options = ConnectOptions { auth, ..ConnectOptions::default() };
        let link = GatewayLink::new(Arc::new(UrlDialer::new(url, options)));
        let key = Some("agent:main:garden".to_owned());
        let (handle, mut heard) =
            link.open(OpenRequest { key, ..OpenRequest::default() }).await.unwrap();
        assert!(
            handle
                .host_tools("planner", Arc::new(PlanToolBackend), PermissionMode::Auto)
                .await
                .unwrap()
        );
        let (run, overlap) = ("run-1".to_owned(), OverlapPolicy::Queue);
        let sending = SendRequest { run, text, attachments: Vec::new(), thinking: None, overlap };
        handle.send(sending).await.unwrap();
        loop {
            let news = tokio::time::timeout(super::TIMEOUT, heard.next()).await;
            match news.expect("it ends").expect("it ends in order") {
                GatewayUpdate::Entry(event) if matches!(event.kind, EventKind::RunEnded { .. }) => {
                    break;
                }
                _ => {}
            }
        }
        link.close().await;
    });
    let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    let wanted = fixture.session_params_with(json!({"sessionId": "agent:main:garden"}));
    acp.call_ok("session/load", wanted);
    let updates = acp.updates(0, "agent:main:garden");
    let plans: Vec<&Value> =
        updates.iter().filter(|update| update["sessionUpdate"] == "plan").collect();
    let plan = |first: &str| {
        json!([{"content": "Dig", "priority": "high", "status": first},
            {"content": "Plant", "priority": "low", "status": "pending"}])
    };
    let entries: Vec<&Value> = plans.iter().map(|plan| &plan["entries"]).collect();
    assert_eq!(entries, [&plan("in_progress"), &plan("completed")], "{updates:#?}");
    acp.close();
}
