//! Lines that are no messages.

use serde_json::{Value, json};

use super::AcpFixture;

/// What such an error must hold: a code, a line, and nothing of what was sent.
#[track_caller]
fn check_error(error: &Value, codes: &[i64], sent: &str) {
    let code = error["code"].as_i64().unwrap();
    assert!(codes.contains(&code), "{sent}: {error}");
    assert!(!error.to_string().contains("hunter2"), "{sent}: {error}");
}

#[test]
fn garbage_line_gets_only_an_error() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for (line, codes) in [
        (&b"hunter2"[..], &[-32700][..]),
        (b"{", &[-32700]),
        (b"{\"a\": hunter2}", &[-32700]),
        (b"\xff\xfe hunter2", &[-32700]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1", &[-32700]),
        (b"null", &[-32700, -32600]),
        (b"7", &[-32700, -32600]),
        (b"\"hunter2\"", &[-32700, -32600]),
        (b"\x1b[31mhunter2\x1b[0m", &[-32700]),
        (b"Content-Length: 20", &[-32700]),
    ] {
        let error = acp.send_garbage(line);
        check_error(&error, codes, &String::from_utf8_lossy(line));
    }
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
}

#[test]
fn batch_is_refused_as_one() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let batch = br#"[{"jsonrpc":"2.0","id":91,"method":"session/list"},{"jsonrpc":"2.0","id":92,"method":"session/list"}]"#;
    check_error(&acp.send_garbage(batch), &[-32600], "a batch");
    check_error(&acp.send_garbage(b"[]"), &[-32600], "an empty batch");
    acp.call_ok("session/list", json!({}));
    acp.close();
}

#[test]
fn empty_lines_and_odd_line_ends_are_ignored() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.send_bytes(b"\n\r\n   \n\t\n");
    acp.send_message_text(
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/list\",\"params\":{}}\r",
    );
    assert!(acp.wait(&json!("a")).is_ok());
    acp.close();
}

#[test]
fn message_may_arrive_in_chunks_or_with_others() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let line = r#"{"jsonrpc":"2.0","id":"a","method":"session/list","params":{}}"#;
    let (start, end) = line.split_at(20);
    acp.send_bytes(start.as_bytes());
    acp.send_bytes(&end.as_bytes()[..3]);
    acp.send_bytes(format!("{}\n{}\n", &end[3..], line.replace("\"a\"", "\"b\"")).as_bytes());
    for id in ["a", "b"] {
        acp.wait_for_message(0, id, |message| {
            message["id"] == id && message.get("result").is_some()
        });
    }
    // They were said past the log.
    let (status, _) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn line_of_100_megabytes_is_skipped() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let line = vec![b'x'; 100 * 1024 * 1024];
    let error = acp.send_garbage(&line);
    check_error(&error, &[-32700, -32600], "a long line");
    assert!(error.to_string().len() < 1_000, "{error}");
    // The same as a message that would be fine otherwise, and without an end of its line at first.
    acp.send_bytes(
        br#"{"jsonrpc":"2.0","id":"big","method":"session/prompt","params":{"sessionId":""#,
    );
    let error = acp.send_garbage(&line);
    check_error(&error, &[-32700, -32600], "a long message");
    let peak = acp.memory_kb("VmHWM");
    assert!(peak < 200 * 1024, "{peak} kB");
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
}

#[test]
fn invalid_json_rpc_messages_are_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for line in [
        r#"{"id":"x","method":"session/list"}"#,
        r#"{"jsonrpc":"1.0","id":"x","method":"session/list"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"session/list"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"session/list"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":7}"#,
        r#"{"jsonrpc":"2.0","id":"x"}"#,
        "{}",
    ] {
        let from = acp.log_position();
        acp.send_bytes(format!("{line}\n").as_bytes());
        acp.request("session/list", json!({}));
        let answer = acp.wait_for_message(from, line, |message| message.get("method").is_none());
        let is_refused = answer["error"]["code"] == -32600;
        // What has neither a method nor a result may also be ignored, but not obeyed.
        assert!(is_refused || answer["id"].is_u64(), "{line}: {answer}");
    }
    let (status, _) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn unsolicited_answers_are_ignored() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for id in [json!(4711), json!("nothing"), json!(null), json!(-1)] {
        acp.reply(&id, json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}}));
        acp.send_message_text(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "x"}}).to_string(),
        );
    }
    let from = acp.log_position();
    acp.call_ok("session/list", json!({}));
    assert_eq!(acp.log().len() - from, 2);
    acp.close();
}

#[test]
fn deep_and_wide_messages_do_not_end_agent() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = acp.send_garbage(deep.as_bytes());
    check_error(&error, &[-32700, -32600], "a deep line");
    let wide = format!(
        r#"{{"jsonrpc":"2.0","id":"w","method":"session/list","params":{{"_meta":{{"a":[{}0]}}}}}}"#,
        "0,".repeat(500_000)
    );
    acp.send_message_text(&wide);
    assert!(acp.wait(&json!("w")).is_ok());
    acp.close();
}
