//! A client that hosts the tools of a session, answers calls or disconnects.

use std::time::Duration;

use serde_json::{Value, json};
use zero_gateway::GatewayLimits;
use zero_session::store::ToolHostLocation;
use zero_wire::chat::ChatSend;
use zero_wire::method::TokenScope;
use zero_wire::tools::{ToolsAttach, ToolsOffer, ToolsResult};
use zero_wire::zero_sessions::{ZeroSessionsChoices, ZeroSessionsOpen, ZeroSessionsUnsubscribe};

use crate::test_gateway::{TestClient, TestGateway};

/// Attaches a host to the main session.
pub(crate) async fn attach_host(fixture: &TestGateway) -> TestClient {
    let host = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    host.request::<ZeroSessionsOpen>(json!({"sessionKey": "main"})).await;
    let terms = host.request::<ToolsAttach>(json!({"sessionKey": "main", "host": "laptop"})).await;
    offer_tools(&host, &terms.dialect).await;
    host
}

async fn offer_tools(host: &TestClient, dialect: &str) {
    host.request::<ToolsOffer>(json!({
        "sessionKey": "main", "dialect": dialect, "cwd": "/w", "system": "linux",
        "tools": [{
            "name": "look", "canonical": "Read", "description": "Looks", "kind": "read",
            "inputSchema": {"type": "object"}, "readOnly": true,
        }],
        "commands": [{"name": "review", "description": "Reviews", "prompt": "review $1"}],
    }))
    .await;
}

/// Waits for the next call to the host; offers the tools in any requested dialect.
pub(crate) async fn next_call(host: &mut TestClient) -> Value {
    loop {
        let event = host.next_event().await;
        let payload = event.payload.unwrap_or_default();
        match event.event.as_str() {
            "tools/terms" => offer_tools(host, payload["dialect"].as_str().unwrap()).await,
            "tools/use" => return payload,
            _ => {}
        }
    }
}

pub(crate) fn send_params(run: &str) -> Value {
    json!({"sessionKey": "main", "message": "look", "idempotencyKey": run})
}

#[tokio::test]
async fn host_commands_are_listed_in_choices() {
    let fixture = TestGateway::start(&[]).await;
    let host = attach_host(&fixture).await;
    let names = async |params: Value| {
        let choices = host.request::<ZeroSessionsChoices>(params).await;
        choices.commands.into_iter().map(|command| command.name).collect::<Vec<_>>()
    };
    let own = names(json!({})).await;
    assert_eq!(own.first().map(String::as_str), Some("help"));
    let with_host = names(json!({"sessionKey": "main"})).await;
    assert_eq!(with_host, [own, vec!["review".to_owned()]].concat());
}

#[tokio::test]
async fn host_that_unsubscribes_gives_its_tools_back() {
    let fixture = TestGateway::start(&[]).await;
    let host = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    // More than a connection may host at the same time.
    for number in 0..300 {
        let key = json!({"sessionKey": format!("s{number}")});
        host.request::<ZeroSessionsOpen>(key.clone()).await;
        let attach = json!({"sessionKey": key["sessionKey"], "host": "laptop"});
        host.request::<ToolsAttach>(attach).await;
        host.request::<ZeroSessionsUnsubscribe>(key).await;
    }
    // Another host needs no takeover, and the first one cannot continue as before.
    let attach = json!({"sessionKey": "s0", "host": "desktop"});
    let second = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    second.request::<ToolsAttach>(attach).await;
    let offer = json!({"sessionKey": "s0", "dialect": "canonical", "cwd": "/w", "system": "linux", "tools": []});
    let refused = host.expect_refusal::<ToolsOffer>(offer).await;
    assert!(refused.contains("does not host the tools"), "{refused}");
}

#[tokio::test]
async fn silent_host_does_not_hold_run() {
    let limits = GatewayLimits {
        tool_host_silence_max: Duration::from_millis(300),
        ..GatewayLimits::default()
    };
    let fixture = TestGateway::with_limits(&["Looking look:a", "Gone on"], limits).await;
    let mut host = attach_host(&fixture).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["tool-events"]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    next_call(&mut host).await;
    // The host stays connected and never answers.
    let heard = ann.collect_until_end().await;
    let last = heard.last().unwrap().payload.as_ref().unwrap();
    assert_eq!(last["message"]["content"][0]["text"], "Looking \n\nGone on ", "{last}");
    let cancelled = host.collect_until(|name, _| name == "tools/cancel").await;
    assert!(!cancelled.is_empty());
}

#[tokio::test]
async fn client_hosts_tool_call_and_run_continues() {
    let fixture = TestGateway::start(&["Looking look:a", "Seen"]).await;
    let mut host = attach_host(&fixture).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["tool-events"]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    let call = next_call(&mut host).await;
    assert_eq!((&call["toolName"], &call["input"]), (&json!("look"), &json!({"path": "a"})));
    // Another client cannot answer for the host.
    let result = json!({
        "sessionId": call["sessionId"], "toolCallId": call["toolCallId"],
        "content": [{"type": "text", "text": "it is there"}], "isError": false,
    });
    let refused = ann.expect_refusal::<ToolsResult>(result.clone()).await;
    assert!(refused.contains("does not host the tools of session"), "{refused}");
    host.request::<ToolsResult>(result.clone()).await;
    let twice = host.expect_refusal::<ToolsResult>(result).await;
    assert!(twice.contains("nothing waits for call"), "{twice}");
    let heard = ann.collect_until_end().await;
    let told = |wanted: &str| {
        let phases = heard.iter().map(|event| event.payload.as_ref().unwrap());
        phases
            .filter(|payload| payload["stream"] == "tool" && payload["data"]["phase"] == wanted)
            .count()
    };
    assert_eq!((told("start"), told("result")), (1, 1));
    let last = heard.last().unwrap().payload.as_ref().unwrap();
    assert_eq!(last["message"]["content"][0]["text"], "Looking \n\nSeen ");
}

#[tokio::test]
async fn host_lost_mid_call_fails_call_not_session() {
    let fixture = TestGateway::start(&["look:a", "It is gone", "never"]).await;
    let mut host = attach_host(&fixture).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["tool-events"]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    next_call(&mut host).await;
    host.client.close().await;
    let heard = ann.collect_until_end().await;
    let is_result = |payload: &&Value| payload["data"]["phase"] == "result";
    let payloads = heard.iter().map(|event| event.payload.as_ref().unwrap());
    let results: Vec<&Value> = payloads.filter(is_result).collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["data"]["isError"], true);
    let text = results[0]["data"]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("laptop"), "{text}");
    // The gateway never executes the calls itself.
    let key = fixture.sessions.resolve_key("main").unwrap();
    let address = zero_session::key::SessionAddress::new("ann", key);
    let record = fixture.sessions.get(&address).await.unwrap().unwrap();
    assert_eq!(record.tool_host, ToolHostLocation::Client { name: "laptop".to_owned() });
    ann.request::<ChatSend>(send_params("run-2")).await;
    let heard = ann.collect_until_end().await;
    let last = heard.last().unwrap().payload.as_ref().unwrap();
    assert_eq!(last["state"], "error");
    assert!(last["errorMessage"].as_str().unwrap().contains("laptop"), "{last}");
    // After it attaches again, the host can work.
    self::attach_host(&fixture).await;
}

#[tokio::test]
async fn invalid_offer_is_rejected_whole() {
    let fixture = TestGateway::start(&["look:a", "Seen"]).await;
    let mut host = attach_host(&fixture).await;
    let tool = |name: &str, schema: Value| {
        json!({
            "name": name, "canonical": "Read", "description": "Looks", "kind": "read",
            "inputSchema": schema, "readOnly": true,
        })
    };
    for (tools, why) in [
        (json!([tool("fine", json!({})), tool("\u{202e}kool", json!({}))]), "tool `kool`: name: "),
        (json!([tool("fine", json!({})), tool("look", json!("{}"))]), "tool `look`: inputSchema: "),
    ] {
        let offer = json!({
            "sessionKey": "main", "dialect": "canonical", "cwd": "/w", "system": "linux",
            "tools": tools,
        });
        let refused = host.expect_refusal::<ToolsOffer>(offer).await;
        assert!(refused.contains(why), "{refused}");
    }
    // The earlier offer is still valid.
    let ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    assert_eq!(next_call(&mut host).await["toolName"], "look");
}

fn attach_params(host: &str, take_over: bool) -> Value {
    json!({"sessionKey": "main", "host": host, "takeOver": take_over})
}

#[tokio::test]
async fn host_is_replaced_only_with_take_over() {
    let fixture = TestGateway::start(&["look:a", "It is gone", "look:b", "Seen"]).await;
    let mut first = attach_host(&fixture).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["tool-events"]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    let call = next_call(&mut first).await;
    // Neither by accident nor by another user, whatever they may see.
    let mut second = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let refused = second.expect_refusal::<ToolsAttach>(attach_params("desktop", false)).await;
    assert!(refused.contains("hosted by `laptop`") && refused.contains("takeOver"), "{refused}");
    let root = fixture.connect("root", &[TokenScope::Admin], &[]).await;
    for take_over in [false, true] {
        let mut params = attach_params("server", take_over);
        params["sessionKey"] = json!("owner:ann:agent:main:main");
        let refused = root.expect_refusal::<ToolsAttach>(params).await;
        assert!(refused.contains("that host belongs to another user"), "{refused}");
    }
    // With an explicit takeover the first host is notified and its pending calls end.
    let terms = second.request::<ToolsAttach>(attach_params("desktop", true)).await;
    let heard = first.collect_until(|event, _| event == "tools/displaced").await;
    let told = heard.last().unwrap().payload.clone().unwrap();
    assert_eq!(
        (&told["sessionKey"], &told["host"]),
        (&json!("agent:main:main"), &json!("desktop"))
    );
    offer_tools(&second, &terms.dialect).await;
    let heard = ann.collect_until_end().await;
    let payloads = heard.iter().map(|event| event.payload.as_ref().unwrap());
    let failed = payloads.filter(|payload| payload["data"]["phase"] == "result");
    assert_eq!(
        failed.map(|payload| payload["data"]["isError"].clone()).collect::<Vec<_>>(),
        [true]
    );
    // The first host cannot continue as before.
    let offered = json!({"sessionKey": "main", "dialect": "canonical", "cwd": "/w", "system": "linux", "tools": []});
    let refused = first.expect_refusal::<ToolsOffer>(offered).await;
    assert!(
        refused.contains("`desktop` hosts the tools") && refused.contains("takeOver"),
        "{refused}"
    );
    let late = json!({
        "sessionId": call["sessionId"], "toolCallId": call["toolCallId"],
        "content": [{"type": "text", "text": "late"}], "isError": false,
    });
    let refused = first.expect_refusal::<ToolsResult>(late).await;
    assert!(refused.contains("`desktop` hosts the tools"), "{refused}");
    let refused = first.expect_refusal::<ToolsAttach>(attach_params("laptop", false)).await;
    assert!(refused.contains("hosted by `desktop`"), "{refused}");
    // The second host executes the calls now.
    ann.request::<ChatSend>(send_params("run-2")).await;
    assert_eq!(next_call(&mut second).await["toolName"], "look");
    // A repeated attach on the same connection replaces nobody.
    second.request::<ToolsAttach>(attach_params("desktop", false)).await;
    // After the second host disconnects, a new host needs no takeover.
    second.client.close().await;
    let heard = ann.collect_until_end().await;
    assert_eq!(heard.last().unwrap().payload.as_ref().unwrap()["state"], "error");
    first.request::<ToolsAttach>(attach_params("laptop", false)).await;
}
