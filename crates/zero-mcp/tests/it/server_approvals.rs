//! Approvals that the policy requires, asked of the user behind the client.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server_fixture::{
    ApprovalSource, JsonLineClient, ServerFixture, SleepCommand, stateless_params, wait_until,
};

fn write_call(name: &str) -> Value {
    json!({"name": "Write", "arguments": {"file_path": name, "content": "text"}})
}

fn form_capability() -> Value {
    json!({"elicitation": {}})
}

fn accept_answer(id: &str) -> Value {
    json!({"action": "accept", "content": {"answer": id}})
}

fn result_text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn capable_client_is_asked_on_the_connection() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect_initialized(form_capability()).await;
    for (name, answer, allowed) in [
        ("a", accept_answer("allow_once"), true),
        ("b", accept_answer("reject_once"), false),
        ("c", accept_answer("allow_always"), false),
        ("d", json!({"action": "decline"}), false),
        ("e", json!({"action": "cancel"}), false),
        ("f", json!({"action": "accept"}), false),
    ] {
        let id = client.request("tools/call", write_call(name)).await;
        let question = client.receive().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let params = &question["params"];
        let message = params["message"].as_str().unwrap();
        assert!(message.contains("Risk: medium") && message.contains("| +text"), "{message}");
        let choices = &params["requestedSchema"]["properties"]["answer"]["oneOf"];
        assert_eq!(choices[0], json!({"const": "allow_once", "title": "Allow once"}));
        client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        let result = client.receive().await;
        assert_eq!(result["id"], id);
        assert_eq!(result["result"]["isError"], !allowed, "{name}: {result}");
        assert_eq!(fixture.path(name).exists(), allowed, "{name}");
    }
    let id = client.request("tools/call", write_call("g")).await;
    let question = client.receive().await;
    let error = json!({"code": -32601, "message": "no"});
    client.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": error})).await;
    let result = client.receive().await;
    assert_eq!((&result["id"], &result["result"]["isError"]), (&json!(id), &json!(true)));
}

#[tokio::test]
async fn question_is_withdrawn_when_call_is_cancelled() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect_initialized(form_capability()).await;
    let id = client.request("tools/call", write_call("a")).await;
    let question = client.receive().await;
    client.notify("notifications/cancelled", json!({"requestId": id})).await;
    let heard = client.receive().await;
    assert_eq!(heard["method"], "notifications/cancelled", "{heard}");
    assert_eq!(heard["params"]["requestId"], question["id"], "{heard}");
    client
        .send(
            json!({"jsonrpc": "2.0", "id": question["id"], "result": accept_answer("allow_once")}),
        )
        .await;
    assert!(client.request_and_wait("tools/list", json!({})).await["result"]["tools"].is_array());
    assert!(!fixture.path("a").exists());
}

#[tokio::test]
async fn client_without_forms_learns_how_to_allow() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect_initialized(json!({})).await;
    let answer = client.call("Write", write_call("a")["arguments"].clone()).await;
    assert_eq!(answer["result"]["isError"], true);
    let text = result_text(&answer);
    assert!(text.contains("--yes") && text.contains("permissions.allow"), "{text}");
    let mut client = fixture.connect();
    let answer =
        client.request_and_wait("tools/call", stateless_params(write_call("a"), json!({}))).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(!fixture.path("a").exists());
}

/// Makes a call that needs approval, and returns the state to repeat.
async fn call_stateless(client: &mut JsonLineClient, call: Value) -> Value {
    let answer =
        client.request_and_wait("tools/call", stateless_params(call, form_capability())).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let question = &result["inputRequests"]["question"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("Risk: medium"));
    result["requestState"].clone()
}

async fn answer_stateless(
    client: &mut JsonLineClient,
    mut call: Value,
    state: &Value,
    answer: Option<Value>,
) -> Value {
    call["requestState"] = state.clone();
    if let Some(answer) = answer {
        call["inputResponses"] = json!({"question": answer});
    }
    client.request_and_wait("tools/call", stateless_params(call, form_capability())).await
}

#[tokio::test]
async fn stateless_client_is_asked_in_the_result() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect();
    for (name, answer, allowed) in [
        ("a", accept_answer("allow_once"), true),
        ("b", accept_answer("reject_once"), false),
        ("c", json!({"action": "decline"}), false),
        ("d", json!({"action": "cancel"}), false),
    ] {
        let state = call_stateless(&mut client, write_call(name)).await;
        assert!(!fixture.path(name).exists(), "nothing runs before the answer");
        let result = answer_stateless(&mut client, write_call(name), &state, Some(answer)).await;
        assert_eq!(result["result"]["isError"], !allowed, "{name}: {result}");
        assert_eq!(result["result"]["resultType"], "complete");
        assert_eq!(fixture.path(name).exists(), allowed, "{name}");
    }
}

#[tokio::test]
async fn answer_counts_once_and_only_for_its_request() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect();
    let state = call_stateless(&mut client, write_call("a")).await;
    let yes = || Some(accept_answer("allow_once"));
    let bash = json!({"name": "Bash", "arguments": {"command": "touch x"}});
    let mut tampered = state.as_str().unwrap().to_owned();
    tampered.replace_range(..1, if tampered.starts_with('A') { "B" } else { "A" });
    for (call, state) in [
        (write_call("b"), state.clone()),
        (bash, state.clone()),
        (write_call("a"), json!(tampered)),
        (write_call("a"), json!("")),
    ] {
        let answer = answer_stateless(&mut client, call.clone(), &state, yes()).await;
        assert_eq!(answer["error"]["code"], -32602, "{call} {state}: {answer}");
    }
    let answer =
        answer_stateless(&mut client, write_call("a"), &state, Some(json!({"action": "maybe"})))
            .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let again = answer_stateless(&mut client, write_call("a"), &state, None).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_eq!(again["result"]["requestState"], state);
    assert!(!fixture.path("a").exists() && !fixture.path("b").exists());
    let done = answer_stateless(&mut client, write_call("a"), &state, yes()).await;
    assert_eq!(done["result"]["isError"], false, "{done}");
    let twice = answer_stateless(&mut client, write_call("a"), &state, yes()).await;
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
}

#[tokio::test]
async fn unanswered_question_expires() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut config = fixture.config();
    config.limits.pending_max = 2;
    let mut client = fixture.connect_to(config);
    call_stateless(&mut client, write_call("a")).await;
    call_stateless(&mut client, write_call("b")).await;
    let refused = client
        .request_and_wait("tools/call", stateless_params(write_call("c"), form_capability()))
        .await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    client.disconnect().await;
    let mut config = fixture.config();
    config.limits.pending_age_max = Duration::from_millis(200);
    config.limits.pending_max = 1;
    let mut client = fixture.connect_to(config);
    let state = call_stateless(&mut client, write_call("a")).await;
    // There is room for another question when the first has expired.
    loop {
        let params = stateless_params(write_call("c"), form_capability());
        let answer = client.request_and_wait("tools/call", params).await;
        if answer["result"]["isError"] != true {
            break;
        }
    }
    let answer =
        answer_stateless(&mut client, write_call("a"), &state, Some(accept_answer("allow_once")))
            .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(!fixture.path("a").exists());
    client.disconnect().await;
    assert!(!fixture.path("c").exists());
}

#[tokio::test]
async fn parked_call_can_be_cancelled_after_resume() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let mut client = fixture.connect();
    let sleep = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
    let asked = client
        .request_and_wait("tools/call", stateless_params(call.clone(), form_capability()))
        .await;
    let mut again = call;
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({"question": accept_answer("allow_once")});
    let id = client.request("tools/call", stateless_params(again, form_capability())).await;
    sleep.wait_until_started().await;
    client.notify("notifications/cancelled", json!({"requestId": id})).await;
    wait_until(|| !sleep.is_running()).await;
    assert_eq!(client.half_close().await, [Value::Null; 0], "nothing follows");
}
