//! What a prompt can hold.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected};
use super::{AcpFixture, said};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn blocks(session: &str, blocks: Value) -> Value {
    json!({"sessionId": session, "prompt": blocks})
}

fn last_said(desk: &AcpFixture) -> String {
    let request = desk.model.requests().pop().unwrap();
    request["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

fn opened(desk: &AcpFixture) -> (AcpClient, String) {
    let mut acp = desk.acp();
    let session = acp.open(desk);
    (acp, session)
}

#[test]
fn prompt_001_a_prompt_is_answered() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let from = acp.mark();
    acp.turn(&session, "hi", "end_turn");
    assert_eq!(acp.words(from, &session), "Hello from the model.");
    acp.leave();
}

#[test]
fn prompt_002_the_stop_reason_is_one_of_the_protocols() {
    // That is what the schema is for; here, that each turn has one and the chunks one message.
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    for _ in 0..3 {
        let from = acp.mark();
        acp.turn(&session, "hi", "end_turn");
        let updates = acp.updates(from, &session);
        let chunks = updates.iter().filter(|it| it["sessionUpdate"] == "agent_message_chunk");
        let mut messages: Vec<&Value> = chunks.map(|chunk| &chunk["messageId"]).collect();
        messages.dedup();
        assert_eq!(messages.len(), 1, "one message has one id: {messages:?}");
        assert!(messages[0].is_string());
    }
    acp.leave();
}

#[test]
fn prompt_003_links_are_taken() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let uri = format!("file://{}", desk.file("hello.txt").display());
    let link = json!({"type": "resource_link", "uri": uri, "name": "hello.txt",
        "mimeType": "text/plain", "size": 6});
    let words = json!({"type": "text", "text": "Look at"});
    let end = acp.ok("session/prompt", blocks(&session, json!([words, link])));
    assert_eq!(end["stopReason"], "end_turn");
    let heard = last_said(&desk);
    assert!(heard.contains(&uri) && heard.contains("hello.txt"), "{heard}");
    acp.leave();
}

#[test]
fn promptcap_001_pictures_are_taken() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let words = json!({"type": "text", "text": "What is it?"});
    let picture = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let from = acp.mark();
    acp.ok("session/prompt", blocks(&session, json!([words, picture])));
    assert_eq!(acp.words(from, &session), "I see 1 picture.");
    for (what, block) in [
        ("base64", json!({"type": "image", "data": "!!!", "mimeType": "image/png"})),
        ("image/tiff", json!({"type": "image", "data": PNG, "mimeType": "image/tiff"})),
        ("empty", json!({"type": "image", "data": "", "mimeType": "image/png"})),
    ] {
        let error = acp.error("session/prompt", blocks(&session, json!([words, block])), -32602);
        assert!(error["message"].as_str().unwrap().contains(what), "{what}: {error}");
    }
    acp.leave();
}

#[test]
fn promptcap_002_sounds_are_refused() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let sound = json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]);
    let error = acp.error("session/prompt", blocks(&session, sound), -32602);
    assert!(error["message"].as_str().unwrap().contains("audio"), "{error}");
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn promptcap_003_embedded_text_is_taken() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let resource =
        json!({"uri": "file:///a/b.rs", "text": "fn embedded() {}", "mimeType": "text/x-rust"});
    let prompt =
        json!([{"type": "text", "text": "Mind"}, {"type": "resource", "resource": resource}]);
    acp.ok("session/prompt", blocks(&session, prompt));
    let heard = last_said(&desk);
    assert!(heard.contains("fn embedded() {}") && heard.contains("/a/b.rs"), "{heard}");
    acp.leave();
}

#[test]
fn a_picture_that_is_only_named_is_read_as_tools_read() {
    let desk = AcpFixture::with(json!({"permissions": {"deny": ["Read(secret.png)"]}}));
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
    for name in ["dot.png", "secret.png"] {
        std::fs::write(desk.file(name), &bytes).unwrap();
    }
    let (mut acp, session) = opened(&desk);
    let link = |name: &str| {
        let uri = format!("file://{}", desk.file(name).display());
        json!([{"type": "resource_link", "uri": uri, "name": name, "mimeType": "image/png"}])
    };
    let from = acp.mark();
    acp.ok("session/prompt", blocks(&session, link("dot.png")));
    assert_eq!(acp.words(from, &session), "I see 1 picture.");
    for name in ["secret.png", "nowhere.png"] {
        acp.error("session/prompt", blocks(&session, link(name)), -32602);
    }
    assert_eq!(desk.model.requests().len(), 1, "what cannot be read is not sent without it");
    acp.leave();
}

/// However the person answers: what they were shown is settled.
#[test]
fn a_picture_that_has_to_be_asked_about_is_settled() {
    let desk = AcpFixture::with(json!({"permissions": {"ask": ["Read(dot.png)"]}}));
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
    std::fs::write(desk.file("dot.png"), &bytes).unwrap();
    let uri = format!("file://{}", desk.file("dot.png").display());
    let link = json!([{"type": "resource_link", "uri": uri, "name": "dot.png",
        "mimeType": "image/png"}]);
    for (answer, ends, status) in [
        (Some("allow_once"), Some("end_turn"), "completed"),
        (Some("reject_once"), None, "failed"),
        (None, Some("cancelled"), "failed"),
    ] {
        let (mut acp, session) = opened(&desk);
        acp.answers(move |_, _| match answer {
            Some(option) => ClientReply::Result(selected(option)),
            None => ClientReply::Hold,
        });
        let from = acp.mark();
        let turn = acp.request("session/prompt", blocks(&session, link.clone()));
        acp.until_asked(from, "session/request_permission");
        if answer.is_none() {
            acp.notify("session/cancel", json!({"sessionId": session}));
        }
        match ends {
            Some(reason) => acp.ends(&turn, reason),
            None => assert_eq!(acp.wait(&turn).expect_err("it is denied")["code"], -32602),
        }
        let asked = super::only_call(&acp.updates(from, &session));
        assert_eq!(asked["status"], status, "{answer:?}: {asked}");
        acp.leave();
    }
}

#[test]
fn a_session_can_be_closed_while_a_picture_is_asked_about() {
    let desk = AcpFixture::with(json!({"permissions": {"ask": ["Read(dot.png)"]}}));
    desk.write("dot.png", "no picture");
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Hold);
    let uri = format!("file://{}", desk.file("dot.png").display());
    let link = json!([{"type": "resource_link", "uri": uri, "name": "dot.png",
        "mimeType": "image/png"}]);
    let from = acp.mark();
    let turn = acp.request("session/prompt", blocks(&session, link));
    acp.until_asked(from, "session/request_permission");
    acp.ok("session/close", json!({"sessionId": session}));
    acp.ends(&turn, "cancelled");
    assert_eq!(super::only_call(&acp.updates(from, &session))["status"], "failed");
    acp.leave();
}

#[test]
fn what_is_no_prompt_is_refused() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let long = "x".repeat(3 * 1024 * 1024);
    for prompt in [
        json!([]),
        json!([{"type": "text", "text": "  \n"}]),
        json!([{"type": "text"}]),
        json!([{"type": "video", "data": "AAAA"}]),
        json!([{"type": "text", "text": "a\u{0}b"}]),
        json!([{"type": "text", "text": long}]),
        json!("hi"),
    ] {
        acp.error("session/prompt", blocks(&session, prompt), -32602);
    }
    assert_eq!(desk.model.requests().len(), 0);
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn commands_are_taken_past_the_model() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let from = acp.mark();
    acp.ok("session/prompt", said(&session, "/read hello.txt"));
    let updates = acp.updates(from, &session);
    assert!(super::shown(&super::only_call(&updates)).contains("hello"), "{updates:#?}");
    assert_eq!(desk.model.requests().len(), 0);
    acp.leave();
}
