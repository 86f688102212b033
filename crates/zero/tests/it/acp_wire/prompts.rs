//! What a prompt can hold.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::{AcpFixture, prompt_params};
use crate::config::{USER_FILE, write_file};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn prompt_with_blocks(session: &str, blocks: Value) -> Value {
    json!({"sessionId": session, "prompt": blocks})
}

fn last_model_message(fixture: &AcpFixture) -> String {
    let request = fixture.model.requests().pop().unwrap();
    request["messages"].as_array().unwrap().last().unwrap()["content"].to_string()
}

fn open_client(fixture: &AcpFixture) -> (AcpClient, String) {
    let mut acp = fixture.start_client();
    let session = acp.open_session(fixture);
    (acp, session)
}

#[test]
fn prompt_001_prompt_is_answered() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "hi", "end_turn");
    assert_eq!(acp.message_text(from, &session), "Hello from the model.");
    acp.close();
}

#[test]
fn prompt_002_stop_reason_is_defined_by_protocol() {
    // That is what the schema is for; here, that each turn has one and the chunks one message.
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    for _ in 0..3 {
        let from = acp.log_position();
        acp.run_turn(&session, "hi", "end_turn");
        let updates = acp.updates(from, &session);
        let chunks = updates.iter().filter(|it| it["sessionUpdate"] == "agent_message_chunk");
        let mut messages: Vec<&Value> = chunks.map(|chunk| &chunk["messageId"]).collect();
        messages.dedup();
        assert_eq!(messages.len(), 1, "one message has one id: {messages:?}");
        assert!(messages[0].is_string());
    }
    acp.close();
}

#[test]
fn prompt_003_links_are_accepted() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let uri = format!("file://{}", fixture.project_path("hello.txt").display());
    let link = json!({"type": "resource_link", "uri": uri, "name": "hello.txt",
        "mimeType": "text/plain", "size": 6});
    let words = json!({"type": "text", "text": "Look at"});
    let end = acp.call_ok("session/prompt", prompt_with_blocks(&session, json!([words, link])));
    assert_eq!(end["stopReason"], "end_turn");
    let heard = last_model_message(&fixture);
    assert!(heard.contains(&uri) && heard.contains("hello.txt"), "{heard}");
    acp.close();
}

#[test]
fn promptcap_001_images_are_accepted() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let words = json!({"type": "text", "text": "What is it?"});
    let picture = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let from = acp.log_position();
    acp.call_ok("session/prompt", prompt_with_blocks(&session, json!([words, picture])));
    assert_eq!(acp.message_text(from, &session), "I see 1 picture.");
    for (what, block) in [
        ("base64", json!({"type": "image", "data": "!!!", "mimeType": "image/png"})),
        ("image/tiff", json!({"type": "image", "data": PNG, "mimeType": "image/tiff"})),
        ("empty", json!({"type": "image", "data": "", "mimeType": "image/png"})),
    ] {
        let error = acp.call_error(
            "session/prompt",
            prompt_with_blocks(&session, json!([words, block])),
            -32602,
        );
        assert!(error["message"].as_str().unwrap().contains(what), "{what}: {error}");
    }
    acp.close();
}

#[test]
fn image_for_model_without_sight_becomes_a_note() {
    let fixture = AcpFixture::new();
    let mut settings: Value =
        serde_json::from_str(&fixture.model.settings_json(json!({}))).unwrap();
    settings["models"]["scripted"]["images"] = json!(false);
    write_file(&fixture.zero, USER_FILE, settings.to_string());
    let (mut acp, session) = open_client(&fixture);
    let words = json!({"type": "text", "text": "What is it?"});
    let picture = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let from = acp.log_position();
    let end = acp.call_ok("session/prompt", prompt_with_blocks(&session, json!([words, picture])));
    assert_eq!(end["stopReason"], "end_turn");
    assert_eq!(acp.message_text(from, &session), "Hello from the model.");
    let notes = super::chunk_text(&acp.updates(from, &session), "agent_thought_chunk");
    assert!(notes.contains("the model `scripted` does not accept images"), "{notes}");
    let heard = last_model_message(&fixture);
    assert!(heard.contains("What is it?") && !heard.contains("image_url"), "{heard}");
    // An image that is only linked is not read, so that it does not matter whether it can be.
    let uri = format!("file://{}", fixture.project_path("nowhere.png").display());
    let link = json!([{"type": "resource_link", "uri": uri, "name": "n", "mimeType": "image/png"}]);
    let from = acp.log_position();
    let end = acp.call_ok("session/prompt", prompt_with_blocks(&session, link));
    assert_eq!(end["stopReason"], "end_turn");
    let notes = super::chunk_text(&acp.updates(from, &session), "agent_thought_chunk");
    assert!(notes.contains("nowhere.png` was not read: the model `scripted`"), "{notes}");
    assert!(last_model_message(&fixture).contains("nowhere.png"));
    acp.close();
}

#[test]
fn promptcap_002_audio_is_refused() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let sound = json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]);
    let error = acp.call_error("session/prompt", prompt_with_blocks(&session, sound), -32602);
    assert!(error["message"].as_str().unwrap().contains("audio"), "{error}");
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn promptcap_003_embedded_text_is_accepted() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let resource =
        json!({"uri": "file:///a/b.rs", "text": "fn embedded() {}", "mimeType": "text/x-rust"});
    let prompt =
        json!([{"type": "text", "text": "Mind"}, {"type": "resource", "resource": resource}]);
    acp.call_ok("session/prompt", prompt_with_blocks(&session, prompt));
    let heard = last_model_message(&fixture);
    assert!(heard.contains("fn embedded() {}") && heard.contains("/a/b.rs"), "{heard}");
    acp.close();
}

#[test]
fn linked_image_is_read_under_tool_rules() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"deny": ["Read(secret.png)"]}}));
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
    for name in ["dot.png", "secret.png"] {
        std::fs::write(fixture.project_path(name), &bytes).unwrap();
    }
    let (mut acp, session) = open_client(&fixture);
    let link = |name: &str| {
        let uri = format!("file://{}", fixture.project_path(name).display());
        json!([{"type": "resource_link", "uri": uri, "name": name, "mimeType": "image/png"}])
    };
    let from = acp.log_position();
    acp.call_ok("session/prompt", prompt_with_blocks(&session, link("dot.png")));
    assert_eq!(acp.message_text(from, &session), "I see 1 picture.");
    for name in ["secret.png", "nowhere.png"] {
        acp.call_error("session/prompt", prompt_with_blocks(&session, link(name)), -32602);
    }
    assert_eq!(fixture.model.requests().len(), 1, "what cannot be read is not sent without it");
    acp.close();
}

/// A web server with an image, a page that is called an image, and an image that is too large.
struct ImageServer {
    port: u16,
    paths: Arc<Mutex<Vec<String>>>,
}

impl ImageServer {
    fn start() -> Self {
        use base64::Engine as _;
        let png = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&paths);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while reader.read_line(&mut line).unwrap_or(0) > 2 && !line.ends_with("\r\n\r\n") {}
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let (kind, body) = match path.as_str() {
                    "/page.png" => ("image/png", b"<html>no image</html>".to_vec()),
                    "/html.png" => ("text/html", png.clone()),
                    "/large.png" => ("image/png", [png.clone(), vec![0; 7 << 20]].concat()),
                    _ => ("image/png", png.clone()),
                };
                seen.lock().unwrap().push(path);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
        });
        Self { port, paths }
    }

    fn link(&self, host: &str, path: &str) -> Value {
        let uri = format!("http://{host}:{}{path}", self.port);
        json!([{"type": "resource_link", "uri": uri, "name": "dot", "mimeType": "image/png"}])
    }

    fn seen_paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }
}

#[test]
fn linked_web_image_is_fetched_under_network_policy() {
    let server = ImageServer::start();
    let rules = json!({"allow": ["WebFetch(domain:127.0.0.1)"]});
    let fixture = AcpFixture::with_settings(json!({"permissions": rules}));
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    let link = server.link("127.0.0.1", "/dot.png?size=1");
    acp.call_ok("session/prompt", prompt_with_blocks(&session, link));
    assert_eq!(acp.message_text(from, &session), "I see 1 picture.");
    for (host, path, why) in [
        ("127.0.0.1", "/page.png", "not an image type"),
        ("127.0.0.1", "/html.png", "not an image type"),
        ("127.0.0.1", "/large.png", "larger than 6 MiB"),
        // No rule names it, and it is an address of this machine.
        ("127.0.0.2", "/dot.png", "127.0.0.2"),
    ] {
        let link = prompt_with_blocks(&session, server.link(host, path));
        let error = acp.call_error("session/prompt", link, -32602);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("cannot be attached") && message.contains(why), "{error}");
    }
    let expected = ["/dot.png?size=1", "/page.png", "/html.png", "/large.png"];
    assert_eq!(server.seen_paths(), expected);
    assert_eq!(fixture.model.requests().len(), 1, "no prompt is sent without its image");
    acp.close();
}

#[test]
fn linked_web_image_is_asked_about_before_it_is_fetched() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let link = json!([{"type": "resource_link", "name": "dot.png", "mimeType": "image/png",
        "uri": "http://pictures.invalid/dot.png"}]);
    // An address of this machine is never asked about, so the name leads nowhere.
    for (answer, why) in [("reject_once", "rejected"), ("allow_once", "could not resolve")] {
        acp.always_select(answer);
        let from = acp.log_position();
        let error =
            acp.call_error("session/prompt", prompt_with_blocks(&session, link.clone()), -32602);
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        let asked = acp.requests(from, "session/request_permission");
        let [question] = &asked[..] else { panic!("{asked:?}") };
        assert!(question["params"]["toolCall"].to_string().contains("/dot.png"), "{question}");
    }
    acp.close();
}

#[test]
fn prompt_begins_with_folder_unless_switched_off() {
    let never = json!({"acp": {"prefixCwd": false}});
    for (settings, args, meta, is_expected) in [
        (json!({}), &[][..], json!({}), true),
        (never.clone(), &[], json!({}), false),
        (json!({}), &["--no-prefix-cwd"], json!({}), false),
        (never, &[], json!({"prefixCwd": true}), true),
        (json!({}), &[], json!({"prefixCwd": false}), false),
    ] {
        let fixture = AcpFixture::with_settings(settings.clone());
        let mut acp = fixture.start_client_with(args, json!({}));
        let opening = fixture.session_params_with(json!({"_meta": meta}));
        let opened = acp.call_ok("session/new", opening);
        let session = opened["sessionId"].as_str().unwrap();
        let from = acp.log_position();
        acp.run_turn(session, "hi", "end_turn");
        let heard = last_model_message(&fixture);
        let prefix = format!("[Working directory: {}]\\n\\nhi", fixture.project.display());
        let case = format!("{settings} {args:?} {meta}: {heard}");
        assert_eq!(heard.contains(&prefix), is_expected, "{case}");
        assert_eq!(heard.contains("Working directory"), is_expected, "{case}");
        let update = acp.wait_for_update(from, "the title", |update| update["title"].is_string());
        assert_eq!(update["title"], "hi", "{case}");
        acp.close();
    }
}

/// However the person answers: what they were shown is settled.
#[test]
fn image_needing_permission_is_finished_for_any_answer() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"ask": ["Read(dot.png)"]}}));
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
    std::fs::write(fixture.project_path("dot.png"), &bytes).unwrap();
    let uri = format!("file://{}", fixture.project_path("dot.png").display());
    let link = json!([{"type": "resource_link", "uri": uri, "name": "dot.png",
        "mimeType": "image/png"}]);
    for (answer, ends, status) in [
        (Some("allow_once"), Some("end_turn"), "completed"),
        (Some("reject_once"), None, "failed"),
        (None, Some("cancelled"), "failed"),
    ] {
        let (mut acp, session) = open_client(&fixture);
        acp.set_reply_policy(move |_, _| match answer {
            Some(option) => ClientReply::Result(selected_outcome(option)),
            None => ClientReply::Defer,
        });
        let from = acp.log_position();
        let turn = acp.request("session/prompt", prompt_with_blocks(&session, link.clone()));
        acp.wait_for_request(from, "session/request_permission");
        if answer.is_none() {
            acp.notify("session/cancel", json!({"sessionId": session}));
        }
        match ends {
            Some(reason) => acp.expect_end(&turn, reason),
            None => assert_eq!(acp.wait(&turn).expect_err("it is denied")["code"], -32602),
        }
        let asked = super::only_call(&acp.updates(from, &session));
        assert_eq!(asked["status"], status, "{answer:?}: {asked}");
        acp.close();
    }
}

#[test]
fn session_can_be_closed_while_image_permission_is_pending() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"ask": ["Read(dot.png)"]}}));
    fixture.write_project_file("dot.png", "no picture");
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let uri = format!("file://{}", fixture.project_path("dot.png").display());
    let link = json!([{"type": "resource_link", "uri": uri, "name": "dot.png",
        "mimeType": "image/png"}]);
    let from = acp.log_position();
    let turn = acp.request("session/prompt", prompt_with_blocks(&session, link));
    acp.wait_for_request(from, "session/request_permission");
    acp.call_ok("session/close", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    assert_eq!(super::only_call(&acp.updates(from, &session))["status"], "failed");
    acp.close();
}

#[test]
fn invalid_prompt_is_refused() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
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
        acp.call_error("session/prompt", prompt_with_blocks(&session, prompt), -32602);
    }
    assert_eq!(fixture.model.requests().len(), 0);
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn slash_commands_bypass_the_model() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    acp.call_ok("session/prompt", prompt_params(&session, "/read hello.txt"));
    let updates = acp.updates(from, &session);
    assert!(super::call_text(&super::only_call(&updates)).contains("hello"), "{updates:#?}");
    assert_eq!(fixture.model.requests().len(), 0);
    acp.close();
}
