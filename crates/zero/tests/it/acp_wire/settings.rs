//! Mistakes in what a person wrote: reported at once with their location, and gone when they are corrected.

use serde_json::{Value, json};

use super::AcpFixture;
use crate::config::{USER_FILE, write_file};

const WRONG_SETTINGS: &str = "{\n  \"permissions\": {\"mode\": \"bold\"}\n}";

/// The message of an error about settings.
#[track_caller]
fn settings_error_message(error: &Value) -> &str {
    assert_eq!(error["data"]["kind"], "settings", "{error}");
    assert_eq!(error["data"]["retryable"], false, "{error}");
    error["message"].as_str().unwrap()
}

#[test]
fn settings_mistake_is_reported_until_fixed() {
    let fixture = AcpFixture::new();
    for mended in [USER_FILE, "project/.zero/settings.json"] {
        let before = fixture.model.settings_json(json!({}));
        write_file(&fixture.zero, mended, WRONG_SETTINGS);
        let mut acp = fixture.start_client();
        for _ in 0..3 {
            let error = acp.call_error("session/new", fixture.session_params(), -32603);
            let message = settings_error_message(&error);
            assert!(message.contains("settings.json:2:"), "{mended}: {error}");
            assert!(message.contains("accept-edits"), "what it can be: {error}");
        }
        if mended == USER_FILE {
            let error = acp.call_error("session/list", json!({}), -32603);
            settings_error_message(&error);
        }
        write_file(&fixture.zero, mended, if mended == USER_FILE { &before } else { "{}" });
        // At once: nobody waits for what a person has just mended.
        let session = acp.open_session(&fixture);
        acp.run_turn(&session, "hi", "end_turn");
        acp.close();
    }
}

#[test]
fn invalid_address_is_reported_without_echo() {
    let fixture = AcpFixture::new();
    for (url, why) in [
        ("ws://me:s3cret@127.0.0.1:9", "must not contain credentials"),
        ("ws://s3cret@127.0.0.1:9", "must not contain credentials"),
        ("ws://127.0.0.1:9/?token=s3cret", "must not have a query"),
        ("s3cret", "not a URL"),
    ] {
        let settings = json!({"gateway": {"remote": {"url": url}}}).to_string();
        for (written, args) in
            [("{}", &["--verbose", "--url", url][..]), (&settings, &["--verbose"])]
        {
            write_file(&fixture.zero, USER_FILE, written);
            let mut acp = fixture.start_client_with(args, json!({}));
            let error = acp.call_error("session/new", fixture.session_params(), -32603);
            let message = settings_error_message(&error);
            let at = if args.len() > 1 { "`--url`: " } else { "`gateway.remote.url`: " };
            assert!(message.starts_with(at) && message.contains(why), "{error}");
            let messages = acp.agent_messages().map(ToString::to_string).collect::<String>();
            let stderr = acp.close();
            assert!(
                !messages.contains("s3cret") && !stderr.contains("s3cret"),
                "{messages}{stderr}"
            );
        }
        let seen = fixture.zero.run(&["doctor"]);
        assert!(!seen.contains("s3cret"), "{seen}");
    }
}

#[test]
fn missing_settings_file_is_reported() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&["--settings", "nowhere.json"], json!({}));
    let error = acp.call_error("session/new", fixture.session_params(), -32603);
    assert!(settings_error_message(&error).contains("nowhere.json"), "{error}");
    acp.close();
}
