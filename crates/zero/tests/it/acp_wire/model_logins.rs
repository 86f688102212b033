//! Keys of models that are missing, and how a person is told and gives them.

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::AcpClient;
use crate::config::{USER_FILE, write_file};
use crate::gateway_process::GatewayProcess;

/// A fixture whose model wants a key from a file that is not there.
fn fixture_without_key() -> AcpFixture {
    let fixture = AcpFixture::new();
    let mut settings: Value =
        serde_json::from_str(&fixture.model.settings_json(json!({}))).unwrap();
    let file = fixture.zero.folder().join("home/model.key");
    settings["models"]["scripted"]["apiKey"] = json!({"file": file});
    write_file(&fixture.zero, USER_FILE, settings.to_string());
    fixture
}

fn auth_methods(can: Value, args: &[&str]) -> Vec<Value> {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, args);
    let ways = acp.initialize(can)["authMethods"].as_array().cloned().unwrap_or_default();
    acp.close();
    ways
}

#[test]
fn auth_method_fits_client_capabilities() {
    let [by_hand] = &auth_methods(json!({}), &[])[..] else { panic!("one way") };
    assert_eq!(by_hand["id"], "model-key");
    assert!(by_hand.get("type").is_none() && by_hand.get("_meta").is_none(), "{by_hand}");
    assert!(by_hand["description"].as_str().unwrap().contains("`zero acp --login`"), "{by_hand}");

    let [by_terminal, by_hand] = &auth_methods(json!({"auth": {"terminal": true}}), &[])[..] else {
        panic!("two ways")
    };
    assert_eq!(
        (&by_terminal["type"], &by_terminal["args"]),
        (&json!("terminal"), &json!(["--login"]))
    );
    assert_eq!(by_hand["id"], "model-key");

    let args = ["--agent", "direct"];
    let [by_hand] = &auth_methods(json!({"_meta": {"terminal-auth": true}}), &args)[..] else {
        panic!("one way")
    };
    let terminal = &by_hand["_meta"]["terminal-auth"];
    assert_eq!(terminal["args"], json!(["acp", "--agent", "direct", "--login"]), "{by_hand}");
    assert_eq!(terminal["command"], env!("CARGO_BIN_EXE_zero"), "{by_hand}");
}

#[test]
fn missing_key_is_reported_and_can_be_set() {
    let fixture = fixture_without_key();
    let mut acp = fixture.start_client();
    // A session needs none.
    let session = acp.open_session(&fixture);
    let error = acp.prompt(&session, "hi").expect_err("there is no key");
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32000), &json!("auth")));
    assert!(error["message"].as_str().unwrap().contains("model.key"), "{error}");
    let method = json!({"methodId": "model-key"});
    let error = acp.call_error("authenticate", method.clone(), -32000);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`scripted` has no key") && message.contains("model.key"), "{error}");
    assert_eq!(error["data"]["kind"], "auth");
    let seen = fixture.zero.run(&["acp", "--login"]);
    assert!(seen.starts_with("exit 2") && seen.contains("model.key"), "{seen}");

    write_file(&fixture.zero, "home/model.key", "key-0123456789");
    assert_eq!(acp.call_ok("authenticate", method), json!({}));
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
    let seen = fixture.zero.run(&["acp", "--login"]);
    assert!(seen.starts_with("exit 0") && !seen.contains("key-0123456789"), "{seen}");
}

#[test]
fn no_login_without_model() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    assert_eq!(acp.call_ok("authenticate", json!({"methodId": "model-key"})), json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
    let seen = fixture.zero.run(&["acp", "--login"]);
    assert!(seen.starts_with("exit 0") && seen.contains("no API key is needed"), "{seen}");
    // Nor with the agent that has none, whatever others want.
    let fixture = fixture_without_key();
    let mut acp = fixture.start_client_with(&["--agent", "direct"], json!({}));
    assert_eq!(acp.call_ok("authenticate", json!({"methodId": "model-key"})), json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
}

/// What a gateway elsewhere lacks nobody here can give.
#[test]
fn remote_gateway_key_is_not_requested_locally() {
    let fixture = fixture_without_key();
    let gateway = GatewayProcess::start(&fixture.zero);
    let mut acp = AcpClient::spawn(&fixture.zero, &["--url", &gateway.url]);
    let response = acp.initialize(json!({"auth": {"terminal": true}}));
    assert!(response["authMethods"].as_array().is_none_or(Vec::is_empty), "{response}");
    let session = acp.open_session(&fixture);
    let error = acp.prompt(&session, "hi").expect_err("there is no key");
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32603), &json!("auth")));
    acp.close();
}

#[test]
fn settings_mistake_is_not_missing_key() {
    let fixture = AcpFixture::new();
    write_file(&fixture.zero, USER_FILE, "{\n  \"model\": 3\n}");
    let mut acp = fixture.start_client();
    let error = acp.call_error("authenticate", json!({"methodId": "model-key"}), -32603);
    assert_eq!(error["data"]["kind"], "settings", "{error}");
    assert!(error["message"].as_str().unwrap().contains("settings.json:2:"), "{error}");
    acp.close();
}
