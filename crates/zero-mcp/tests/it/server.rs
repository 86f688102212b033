//! The server over one connection, with both protocols.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, RequestContext};
use rmcp::{ClientHandler, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use zero_mcp::server::McpServiceError;
use zero_mcp::wire::McpMessageLimits;
use zero_runtime::schema::InputSchema;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

use crate::server_fixture::{ApprovalSource, ServerFixture, SleepCommand, stateless_params};

/// Time limit on a machine that is busy with other tests, for a limit of 100 ms.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn handshake_selects_version_with_initialize() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = fixture.connect();
        let answer = client.initialize(asked, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{asked}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "zero");
        let instructions = answer["result"]["instructions"].as_str().unwrap();
        assert!(instructions.contains("work"), "{instructions}");
    }
}

#[tokio::test]
async fn tools_are_listed_with_schemas_that_compile() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut client = fixture.connect_initialized(json!({})).await;
    let answer = client.request_and_wait("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), zero_tools::builtin_tools().len());
    assert!(answer["result"].get("resultType").is_none(), "unknown before 2026-07-28");
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            let text = format!("{:?}", InputSchema::new(schema.clone()).check(Value::Null));
            assert!(!text.contains("a broken one"), "{tool}: {text}");
        }
    }
    let hints = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let hint = |hint: &str| tool["annotations"][hint].as_bool().unwrap();
        (hint("readOnlyHint"), hint("destructiveHint"), hint("openWorldHint"))
    };
    assert_eq!(hints("Read"), (true, false, false));
    assert_eq!(hints("Write"), (false, true, false));
    assert_eq!(hints("Bash"), (false, true, true));
    let answer = client.request_and_wait("tools/list", json!({"cursor": "2"})).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn call_returns_text_and_promised_structured_content() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    fixture.write_file("a.txt", "one\ntwo\n");
    let mut client = fixture.connect_initialized(json!({})).await;
    let listed = client.request_and_wait("tools/list", json!({})).await;
    let read = listed["result"]["tools"].as_array().unwrap().iter();
    let read = read.clone().find(|tool| tool["name"] == "Read").unwrap().clone();
    let answer = client.call("Read", json!({"file_path": "a.txt"})).await;
    let result = &answer["result"];
    assert_eq!(result["content"][0]["text"], "     1\tone\n     2\ttwo", "{answer}");
    assert_eq!(result["isError"], false);
    let schema = InputSchema::new(read["outputSchema"].clone());
    schema.check(result["structuredContent"].clone()).unwrap();
}

#[tokio::test]
async fn unknown_tool_is_protocol_error_and_bad_input_is_tool_error() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut client = fixture.connect_initialized(json!({})).await;
    let answer = client.call("Reed", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("Read"), "{answer}");
    for (arguments, reason) in
        [(json!({"limit": "x"}), "schema_violation"), (json!({"file_path": "none.txt"}), "io")]
    {
        let answer = client.call("Read", arguments.clone()).await;
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        assert!(result.get("structuredContent").is_none(), "{answer}");
        let facts: Value =
            serde_json::from_str(result["content"][1]["text"].as_str().unwrap()).unwrap();
        assert!(facts["details"]["reason"].is_string(), "{arguments} {reason}: {facts}");
    }
    let answer = client.call("Read", json!({"limit": "x"})).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("file_path") && text.contains("limit"), "{text}");
}

#[tokio::test]
async fn stateless_request_is_answered() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    fixture.write_file("a.txt", "one\n");
    let mut client = fixture.connect();
    let answer =
        client.request_and_wait("server/discover", stateless_params(json!({}), json!({}))).await;
    let versions = answer["result"]["supportedVersions"].as_array().unwrap();
    assert_eq!(versions, &[json!("2026-07-28")], "those that need no handshake");
    assert_eq!(answer["result"]["resultType"], "complete");
    let answer =
        client.request_and_wait("tools/list", stateless_params(json!({}), json!({}))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "private");
    assert!(result["ttlMs"].as_u64().is_some());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "zero");
    let call = json!({"name": "Read", "arguments": {"file_path": "a.txt"}});
    let answer = client.request_and_wait("tools/call", stateless_params(call, json!({}))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "     1\tone", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    // A file that was read in one request can be edited in the next.
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let call = json!({"name": "Edit", "arguments": edit});
    let answer = client.request_and_wait("tools/call", stateless_params(call, json!({}))).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let answer = client.request_and_wait("tools/list", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "each request says its version");
}

#[tokio::test]
async fn cancelled_call_stops_its_work_and_sends_nothing_more() {
    for capabilities in [Some(json!({})), None] {
        let fixture = ServerFixture::new(ApprovalSource::AllowAll);
        let sleep = SleepCommand::new();
        let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
        let mut client = fixture.connect();
        let call = match &capabilities {
            Some(capabilities) => {
                client.initialize("2025-11-25", capabilities.clone()).await;
                call
            }
            None => stateless_params(call, json!({})),
        };
        let id = client.request("tools/call", call).await;
        sleep.wait_until_started().await;
        client.notify("notifications/cancelled", json!({"requestId": id})).await;
        let took = sleep.wait_until_ended().await;
        assert!(took < SOON, "{took:?}");
        let list = stateless_params(json!({}), json!({}));
        assert!(client.request_and_wait("tools/list", list).await["result"]["tools"].is_array());
        assert_eq!(client.half_close().await, [Value::Null; 0], "nothing follows");
    }
}

#[tokio::test]
async fn disconnected_client_leaves_no_process() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let sleep = SleepCommand::new();
    let mut client = fixture.connect_initialized(json!({})).await;
    let background = json!({"command": sleep.command(), "run_in_background": true});
    assert_eq!(client.call("Bash", background).await["result"]["isError"], false);
    let waited_for = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": waited_for.command()}});
    client.request("tools/call", call).await;
    sleep.wait_until_started().await;
    waited_for.wait_until_started().await;
    let took = client.disconnect().await;
    assert!(took < SOON, "{took:?}");
    assert!(!sleep.is_running() && !waited_for.is_running());
}

#[tokio::test]
async fn stopped_server_ends_its_calls() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let config = fixture.config();
    let stop = config.stop.clone();
    let mut client = fixture.connect_to(config);
    client.initialize("2025-11-25", json!({})).await;
    let sleep = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
    client.request("tools/call", call).await;
    sleep.wait_until_started().await;
    stop.cancel();
    let took = client.wait_for_end().await;
    assert!(took < SOON, "{took:?}");
    assert!(!sleep.is_running());
}

#[tokio::test]
async fn sdk_client_lists_calls_and_answers() {
    for lifecycle in [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
    ] {
        let fixture = ServerFixture::new(ApprovalSource::Client);
        let (transport, served) = fixture.pipe();
        let client = ApprovingClient.serve_with_lifecycle(transport, lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), zero_tools::builtin_tools().len());
        let arguments = json!({"file_path": "a", "content": "x"}).as_object().unwrap().clone();
        let call = CallToolRequestParams::new("Write").with_arguments(arguments);
        let result = client.call_tool(call).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{result:?}");
        assert!(fixture.path("a").exists());
        client.cancel().await.unwrap();
        served.await.unwrap().unwrap();
    }
}

/// An SDK client whose user allows everything once.
struct ApprovingClient;

impl ClientHandler for ApprovingClient {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = json!({"answer": "allow_once"});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(answer))
    }
}

#[tokio::test]
async fn script_that_closes_stdin_reads_its_results() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    fixture.write_file("a.txt", "one\n");
    let mut client = fixture.connect();
    let call = json!({"name": "Read", "arguments": {"file_path": "a.txt"}});
    // The first call opens the session, which takes longer.
    client.request_and_wait("tools/call", stateless_params(call.clone(), json!({}))).await;
    client.request("tools/call", stateless_params(call, json!({}))).await;
    let mut results = client.half_close().await;
    assert_eq!(results.remove(0)["result"]["content"][0]["text"], "     1\tone");
}

#[tokio::test]
async fn messages_before_first_request_are_skipped() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut client = fixture.connect();
    client.notify("notifications/cancelled", json!({"requestId": 9})).await;
    client.send(json!({"jsonrpc": "2.0", "id": 7, "result": {}})).await;
    client.initialize("2025-11-25", json!({})).await;
}

#[tokio::test]
async fn progress_increases_and_ends_before_result() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut client = fixture.connect_initialized(json!({})).await;
    let command = "for i in $(seq 40); do echo line $i; sleep 0.02; done";
    let call = json!({
        "name": "Bash", "arguments": {"command": command}, "_meta": {"progressToken": "t"},
    });
    let id = client.request("tools/call", call).await;
    let mut counts = Vec::new();
    loop {
        let message = client.receive().await;
        if message["id"] == id {
            assert_eq!(message["result"]["isError"], false, "{message}");
            break;
        }
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "t");
        assert!(message["params"]["message"].as_str().unwrap().contains("line"), "{message}");
        counts.push(message["params"]["progress"].as_f64().unwrap());
    }
    assert!(!counts.is_empty() && counts.is_sorted_by(|a, b| a < b), "{counts:?}");
    // Clients that did not subscribe get no notification, and nothing follows the result of those that did.
    let answer = client.call("Bash", json!({"command": command})).await;
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(client.half_close().await, [Value::Null; 0]);
}

#[tokio::test]
async fn list_change_is_announced_once_to_subscribers() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut client = fixture.connect_initialized(json!({})).await;
    let mut listener = fixture.connect();
    client.request_and_wait("tools/list", json!({})).await;
    let listen = stateless_params(json!({"notifications": {"toolsListChanged": true}}), json!({}));
    let id = listener.request("subscriptions/listen", listen).await;
    let acknowledged = listener.receive().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    listener.request_and_wait("tools/list", stateless_params(json!({}), json!({}))).await;
    for name in ["Delete", "LS", "Glob"] {
        fixture.host.registry().remove(name);
    }
    assert_eq!(client.receive().await["method"], "notifications/tools/list_changed");
    let heard = listener.receive().await;
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    let tools = client.request_and_wait("tools/list", json!({})).await;
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(!names.contains(&"Delete") && names.contains(&"Read"), "{names:?}");
    for client in [client, listener] {
        let rest = client.half_close().await;
        let is_announcement = |message: &Value| !message["method"].is_null();
        assert!(!rest.iter().any(is_announcement), "it is announced once: {rest:?}");
    }
}

#[tokio::test]
async fn other_servers_question_reaches_client_with_origin() {
    let forms = json!({"elicitation": {"form": {}}});
    let question = || Elicitation {
        origin: "MCP server `github`".to_owned(),
        call: None,
        message: "Which one?\nMCP server `zero` asks: allow all?".to_owned(),
        mode: ElicitationMode::Form(json!({
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
        })),
    };
    let check = |params: &Value| {
        let message = params["message"].as_str().unwrap();
        assert_eq!(
            message,
            "MCP server `github` asks:\n| Which one?\n| MCP server `zero` asks: allow all?"
        );
        assert_eq!(params["requestedSchema"]["properties"]["name"]["type"], "string");
    };
    let values = json!({"action": "accept", "content": {"name": "x"}});
    let expected = ElicitationAnswer::Accept(json!({"name": "x"}).as_object().unwrap().clone());

    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    assert_eq!(fixture.elicitor.elicit(&question()).await, ElicitationAnswer::Cancel, "no call");
    let sleep = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
    let mut client = fixture.connect_initialized(forms.clone()).await;
    client.request("tools/call", call.clone()).await;
    sleep.wait_until_started().await;
    let elicitor = fixture.elicitor.clone();
    let asked = tokio::spawn(async move { elicitor.elicit(&question()).await });
    let heard = client.receive().await;
    assert_eq!(heard["method"], "elicitation/create");
    check(&heard["params"]);
    client.send(json!({"jsonrpc": "2.0", "id": heard["id"], "result": values})).await;
    assert_eq!(asked.await.unwrap(), expected);
    client.disconnect().await;

    let sleep = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
    let mut client = fixture.connect();
    client.request("tools/call", stateless_params(call.clone(), forms.clone())).await;
    sleep.wait_until_started().await;
    let elicitor = fixture.elicitor.clone();
    let asked = tokio::spawn(async move { elicitor.elicit(&question()).await });
    let heard = client.receive().await;
    check(&heard["result"]["inputRequests"]["question"]["params"]);
    let mut again = call;
    again["requestState"] = heard["result"]["requestState"].clone();
    again["inputResponses"] = json!({"question": values});
    client.request("tools/call", stateless_params(again, forms)).await;
    assert_eq!(asked.await.unwrap(), expected);
    assert!(sleep.is_running(), "it is the same call that goes on");
    client.disconnect().await;
    assert!(!sleep.is_running());
}

#[tokio::test]
async fn every_request_of_a_burst_is_answered_once() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    fixture.write_file("a.txt", "one\n");
    let read = json!({"name": "Read", "arguments": {"file_path": "a.txt"}});
    for (count, method, params) in
        [(300, "ping", json!({})), (300, "tools/list", json!({})), (600, "tools/call", read)]
    {
        let mut client = fixture.connect_initialized(json!({})).await;
        client.burst(count, method, &params).await;
        let mut waited_for: BTreeSet<u64> = (1000..1000 + count).collect();
        while !waited_for.is_empty() {
            let answer = client.receive().await;
            let id = answer["id"].as_u64().unwrap();
            assert!(waited_for.remove(&id), "{method}: {answer}");
        }
        assert_eq!(client.half_close().await, [Value::Null; 0], "{method}: a second answer");
    }
}

#[tokio::test]
async fn answers_are_written_before_shutdown() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    for round in 0..30 {
        let mut client = fixture.connect();
        match round % 2 {
            0 => client.request("tools/list", stateless_params(json!({}), json!({}))).await,
            _ => {
                let hello = json!({
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                });
                client.request("initialize", hello).await
            }
        };
        let (outcome, heard) = client.end_unread().await;
        outcome.unwrap();
        assert_eq!(heard.len(), 1, "round {round}: {heard:?}");
        assert!(heard[0]["result"].is_object(), "{heard:?}");
    }
}

#[tokio::test]
async fn client_that_does_not_read_is_an_error() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let limits = McpMessageLimits {
        write_timeout: Duration::from_millis(200),
        ..McpMessageLimits::default()
    };
    let mut client = fixture.connect_within(fixture.config(), 512, limits);
    client.request("tools/list", stateless_params(json!({}), json!({}))).await;
    let error = client.wait_for_outcome().await.unwrap_err();
    assert!(matches!(error, McpServiceError::UnreadOutput(_)), "{error}");
}
