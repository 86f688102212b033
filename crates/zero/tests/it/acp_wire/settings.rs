//! Mistakes in what a person wrote: told at once, with where they stand, and gone when they are mended.

use serde_json::{Value, json};

use super::AcpFixture;
use crate::config::{USER, write};

const WRONG: &str = "{\n  \"permissions\": {\"mode\": \"bold\"}\n}";

/// The message of an error about settings.
#[track_caller]
fn about_settings(error: &Value) -> &str {
    assert_eq!(error["data"]["kind"], "settings", "{error}");
    assert_eq!(error["data"]["retryable"], false, "{error}");
    error["message"].as_str().unwrap()
}

#[test]
fn a_mistake_in_settings_is_told_with_its_place_and_gone_when_it_is_mended() {
    let desk = AcpFixture::new();
    for mended in [USER, "project/.zero/settings.json"] {
        let before = desk.model.settings(json!({}));
        write(&desk.zero, mended, WRONG);
        let mut acp = desk.acp();
        for _ in 0..3 {
            let error = acp.error("session/new", desk.wanted(), -32603);
            let message = about_settings(&error);
            assert!(message.contains("settings.json:2:"), "{mended}: {error}");
            assert!(message.contains("accept-edits"), "what it can be: {error}");
        }
        if mended == USER {
            let error = acp.error("session/list", json!({}), -32603);
            about_settings(&error);
        }
        write(&desk.zero, mended, if mended == USER { &before } else { "{}" });
        // At once: nobody waits for what a person has just mended.
        let session = acp.open(&desk);
        acp.turn(&session, "hi", "end_turn");
        acp.leave();
    }
}

#[test]
fn an_address_that_is_none_is_told_and_not_repeated() {
    let desk = AcpFixture::new();
    for (url, why) in [
        ("ws://me:s3cret@127.0.0.1:9", "must not hold credentials"),
        ("ws://s3cret@127.0.0.1:9", "must not hold credentials"),
        ("ws://127.0.0.1:9/?token=s3cret", "nothing behind a `?`"),
        ("s3cret", "this is no URL"),
    ] {
        let settings = json!({"gateway": {"remote": {"url": url}}}).to_string();
        for (written, args) in
            [("{}", &["--verbose", "--url", url][..]), (&settings, &["--verbose"])]
        {
            write(&desk.zero, USER, written);
            let mut acp = desk.acp_with(args, json!({}));
            let error = acp.error("session/new", desk.wanted(), -32603);
            let message = about_settings(&error);
            let at = if args.len() > 1 { "`--url`: " } else { "`gateway.remote.url`: " };
            assert!(message.starts_with(at) && message.contains(why), "{error}");
            let said = acp.heard().map(ToString::to_string).collect::<String>();
            let stderr = acp.leave();
            assert!(!said.contains("s3cret") && !stderr.contains("s3cret"), "{said}{stderr}");
        }
        let seen = desk.zero.run(&["doctor"]);
        assert!(!seen.contains("s3cret"), "{seen}");
    }
}

#[test]
fn a_settings_file_that_is_not_there_is_told() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp_with(&["--settings", "nowhere.json"], json!({}));
    let error = acp.error("session/new", desk.wanted(), -32603);
    assert!(about_settings(&error).contains("nowhere.json"), "{error}");
    acp.leave();
}
