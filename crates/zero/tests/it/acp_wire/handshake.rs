//! The first words, and the last.

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::AcpClient;

fn initialize_params(version: Value) -> Value {
    json!({"protocolVersion": version, "clientCapabilities": {}})
}

#[test]
fn init_001_agent_reports_capabilities() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    let response = acp.call_ok("initialize", initialize_params(json!(1)));
    assert!(response["protocolVersion"].is_u64());
    let can = &response["agentCapabilities"];
    assert_eq!(can["loadSession"], true);
    assert_eq!(can["promptCapabilities"]["image"], false, "there is no model");
    assert_eq!(can["promptCapabilities"]["embeddedContext"], true);
    assert_ne!(can["promptCapabilities"]["audio"], true);
    assert_eq!(can["mcpCapabilities"]["http"], true);
    assert_ne!(can["mcpCapabilities"]["sse"], true);
    for name in ["list", "resume", "close", "delete", "fork", "additionalDirectories"] {
        assert!(can["sessionCapabilities"][name].is_object(), "{name}: {can}");
    }
    assert!(can.get("auth").is_none_or(|auth| auth.get("logout").is_none()), "{can}");
    acp.close();
}

#[test]
fn image_capability_is_that_of_the_model() {
    let images = |value: Value| json!({"models": {"scripted": {"images": value}}});
    let blind = json!({"agents": {"blind": {"model": "blind"}}});
    for (changed, args, expected) in [
        (images(json!(true)), &[][..], true),
        (images(json!(false)), &[], false),
        (images(json!(false)), &["--url", "ws://127.0.0.1:9"], true),
        (blind, &["--agent", "blind"], false),
    ] {
        let fixture = AcpFixture::new();
        let settings = fixture.model.settings_json(json!({}));
        let settings: Value = serde_json::from_str(&settings).unwrap();
        let mut settings = super::merge_json(settings, json!({}));
        if let Some(agents) = changed.get("agents") {
            settings["agents"] = agents.clone();
            settings["models"]["blind"] = settings["models"]["scripted"].clone();
            settings["models"]["blind"]["images"] = json!(false);
        } else {
            settings["models"]["scripted"]["images"] =
                changed["models"]["scripted"]["images"].clone();
        }
        let file = crate::config::USER_FILE;
        crate::config::write_file(&fixture.zero, file, settings.to_string());
        let mut acp = AcpClient::spawn(&fixture.zero, args);
        let response = acp.call_ok("initialize", initialize_params(json!(1)));
        let can = &response["agentCapabilities"]["promptCapabilities"];
        assert_eq!(can["image"], expected, "{changed} {args:?}");
        acp.close();
    }
}

#[test]
fn init_002_requested_version_is_used() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    assert_eq!(acp.call_ok("initialize", initialize_params(json!(1)))["protocolVersion"], 1);
    acp.close();
}

#[test]
fn init_003_other_version_is_answered_with_ours() {
    let fixture = AcpFixture::without_model();
    for version in [0, 2, 3, 65_535] {
        let mut acp = AcpClient::spawn(&fixture.zero, &[]);
        assert_eq!(
            acp.call_ok("initialize", initialize_params(json!(version)))["protocolVersion"],
            1
        );
        acp.close();
    }
}

#[test]
fn invalid_version_is_refused_and_initialize_can_be_retried() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    for version in [json!("1"), json!(-1), json!(1.5), json!(65_536), json!([1]), Value::Null] {
        acp.call_error("initialize", initialize_params(version), -32602);
    }
    acp.call_error("initialize", json!({}), -32602);
    acp.initialize(json!({}));
    acp.close();
}

#[test]
fn init_004_agent_reports_its_name() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    let info = &acp.call_ok("initialize", initialize_params(json!(1)))["agentInfo"];
    assert_eq!(info["name"], "zero");
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    acp.close();
}

#[test]
fn first_line_answers_initialize_despite_broken_setup() {
    let fixture = AcpFixture::without_model();
    crate::config::write_file(&fixture.zero, crate::config::USER_FILE, "{ not settings");
    let mut acp = AcpClient::spawn(&fixture.zero, &["--verbose", "--url", "ws://127.0.0.1:9"]);
    let response = acp.initialize(json!({}));
    assert_eq!(response["protocolVersion"], 1);
    let first = acp.agent_messages().next().unwrap();
    assert_eq!((&first["id"], first.get("result").is_some()), (&json!(1), true), "{first}");
    acp.close();
}

#[test]
fn initialize_must_come_first_and_may_repeat() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    for method in ["session/new", "session/list", "session/prompt", "_zero/tools/list"] {
        let error = acp.call_error(method, json!({}), -32600);
        assert!(error["message"].as_str().unwrap().contains("`initialize`"), "{error}");
    }
    acp.initialize(json!({}));
    acp.initialize(json!({}));
    acp.open_session(&fixture);
    acp.close();
}

#[test]
fn invalid_capabilities_count_as_none() {
    let fixture = AcpFixture::without_model();
    for can in [
        json!({"fs": 1}),
        json!({"fs": {"readTextFile": "yes"}}),
        json!({"elicitation": []}),
        json!({"session": "all"}),
        json!({"terminal": null, "new": {"things": true}}),
    ] {
        let mut acp = AcpClient::spawn(&fixture.zero, &[]);
        // What is not in the schema is not held against it here.
        let params = json!({"protocolVersion": 1, "clientCapabilities": can});
        assert!(acp.call("initialize", params).is_ok(), "{can}");
        let session = acp.open_session(&fixture);
        acp.run_turn(&session, "/read hello.txt", "end_turn");
        assert_eq!(acp.requests(0, "fs/read_text_file").len(), 0);
        let (status, _) = acp.disconnect_unchecked();
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
fn auth_001_auth_methods_have_unique_ids() {
    let fixture = AcpFixture::without_model();
    for can in [json!({}), json!({"auth": {"terminal": true}})] {
        let mut acp = AcpClient::spawn(&fixture.zero, &[]);
        let response = acp.initialize(can);
        let ways = response["authMethods"].as_array().cloned().unwrap_or_default();
        let mut ids: Vec<&str> = ways.iter().map(|way| way["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ways.len());
        acp.close();
    }
}

#[test]
fn auth_002_terminal_login_needs_client_terminal() {
    let fixture = AcpFixture::without_model();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    let response = acp.initialize(json!({}));
    let ways = response["authMethods"].as_array().cloned().unwrap_or_default();
    assert!(ways.iter().all(|way| way["type"] != "terminal"), "{response}");
    acp.close();
}

#[test]
fn auth_003_unknown_auth_method_is_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.call_error("authenticate", json!({"methodId": "made-up"}), -32602);
    acp.close();
}

#[test]
fn auth_004_logout_is_not_offered() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.call_error("logout", json!({}), -32601);
    acp.close();
}

#[test]
fn auth_005_sessions_open_without_login() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.open_session(&fixture);
    acp.close();
}

#[test]
fn shutdown_001_agent_exits_at_stdin_eof() {
    let fixture = AcpFixture::without_model();
    let mut silent = AcpClient::spawn(&fixture.zero, &[]);
    let (status, stderr) = silent.disconnect();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    let mut acp = fixture.start_client();
    acp.open_session(&fixture);
    assert_eq!(acp.close(), "");
}
