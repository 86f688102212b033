//! The wire: what stands on stdout, and how requests and answers belong together.

use std::path::PathBuf;

use serde_json::json;

use super::{AcpFixture, call_step, make_script};
use crate::acp_wire::acp_client::{AcpClient, MessagePeer};
use crate::mcp_fixture::wait_for;
use crate::process_cleanup::{find_sleepers, unique_seconds};

#[test]
fn transport_001_stdout_is_only_json() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&["--verbose"], json!({}));
    let session = acp.open_session(&fixture);
    // What commands print goes to the model and the client, as text in messages.
    let noisy = call_step("Bash", json!({"command": "echo out; echo err >&2; printf 'no end'"}));
    acp.run_turn(&session, &make_script(&[&noisy]), "end_turn");
    let count = acp.log().iter().filter(|entry| entry.by == MessagePeer::Agent).count();
    assert!(count > 5);
    acp.close();
}

/// What a process has open, by number.
fn open_files(process: u32) -> Vec<(u32, PathBuf)> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open = files.filter_map(|file| {
        let number = file.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(file.path()).ok()?))
    });
    open.collect()
}

/// Processes that a process started, and those that they did.
fn descendants(of: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            Some((process, parent))
        })
        .collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child);
        found.extend(children);
        at += 1;
    }
    found.split_off(1)
}

/// The wire has a number that nobody knows, and no child has it at all: what a library, a panic or a
/// child writes to stdout comes out of stderr.
#[test]
fn wire_descriptor_is_not_inherited() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let seconds = unique_seconds(63);
    let command = format!("echo out; echo err >&2; sleep {seconds} & sleep {seconds}");
    let from = acp.log_position();
    let turn = acp
        .begin_prompt(&session, &make_script(&[&call_step("Bash", json!({"command": command}))]));
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    wait_for("two sleepers", || find_sleepers(seconds).len() == 2);
    let own = open_files(acp.process_id());
    let by_number = |number: u32| own.iter().find(|(open, _)| *open == number).unwrap().1.clone();
    assert_eq!(by_number(1), by_number(2), "stdout is stderr: {own:?}");
    let wires: Vec<u32> =
        own.iter().filter(|(_, file)| *file == acp.wire).map(|(number, _)| *number).collect();
    assert!(matches!(wires[..], [number] if number > 2), "{own:?}");
    let children = descendants(acp.process_id());
    let of_children: Vec<(u32, PathBuf)> =
        children.iter().flat_map(|child| open_files(*child)).collect();
    assert!(children.len() >= 2 && of_children.len() >= 2, "{children:?}: {of_children:?}");
    assert!(of_children.iter().all(|(_, file)| *file != acp.wire), "{of_children:?}");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.close();
}

#[test]
fn transport_002_text_is_utf_8() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&["say Grüße 日本語 🦀 \u{1f469}\u{200d}\u{1f4bb}"]),
        "end_turn",
    );
    assert_eq!(acp.message_text(from, &session), "Grüße 日本語 🦀 \u{1f469}\u{200d}\u{1f4bb}");
    // The same where the client spells it with escapes.
    let from = acp.log_position();
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":"esc","method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"script:\nsay \ud83e\udd80"}}]}}}}"#
    );
    acp.send_message_text(&line);
    acp.expect_end(&json!("esc"), "end_turn");
    assert_eq!(acp.message_text(from, &session), "🦀");
    acp.close();
}

#[test]
fn jsonrpc_001_ids_are_echoed() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for id in [json!(7), json!(0), json!("a"), json!("1"), json!(9_007_199_254_740_991_u64)] {
        acp.request_as(&id, "session/list", json!({}));
        assert!(acp.wait(&id).is_ok(), "{id}");
    }
    acp.close();
}

#[test]
fn jsonrpc_002_answer_is_result_or_error() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.call_ok("session/list", json!({}));
    acp.call_error("session/nothing", json!({}), -32601);
    for message in acp.agent_messages().filter(|message| message.get("method").is_none()) {
        assert_ne!(message.get("result").is_some(), message.get("error").is_some(), "{message}");
    }
    acp.close();
}

#[test]
fn jsonrpc_003_notifications_get_no_answer() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let from = acp.log_position();
    acp.notify("session/cancel", json!({"sessionId": "nobody"}));
    acp.notify("session/cancel", json!({}));
    acp.notify("$/cancel_request", json!({"requestId": 4711}));
    acp.notify("session/nothing", json!({"a": 1}));
    acp.notify("_zero/nothing", json!({}));
    acp.notify("initialized", json!({}));
    acp.call_ok("session/list", json!({}));
    let answers =
        acp.log().iter().skip(from).filter(|entry| entry.by == MessagePeer::Agent).count();
    assert_eq!(answers, 1);
    acp.close();
}

#[test]
fn jsonrpc_004_unknown_method_is_not_found() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for method in
        ["session/nothing", "Initialize", "", "fs/read_text_file", "session/update", "logout"]
    {
        acp.call_error(method, json!({}), -32601);
    }
    acp.close();
}

#[test]
fn jsonrpc_005_wrong_parameters_are_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for (method, params) in [
        ("session/new", json!({"cwd": fixture.project})),
        ("session/new", json!({"mcpServers": []})),
        ("session/new", json!({"cwd": 1, "mcpServers": []})),
        ("session/new", json!([])),
        (
            "session/new",
            fixture.session_params_with(json!({"mcpServers": [{"name": "a", "command": "/a"}]})),
        ),
        ("session/prompt", json!({})),
        ("session/prompt", json!({"sessionId": 1, "prompt": []})),
        ("session/load", json!({"sessionId": "a"})),
        ("session/list", json!({"cwd": 1})),
        ("session/list", json!({"cwd": "relative"})),
        ("session/list", json!({"cursor": "made up"})),
        ("session/set_mode", json!({"sessionId": "a"})),
        ("session/close", json!({})),
        ("session/delete", json!({"sessionId": null})),
        ("authenticate", json!({})),
    ] {
        acp.call_error(method, params, -32602);
    }
    acp.close();
}

#[test]
fn error_001_errors_say_what_to_do() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let error = acp.call_error("session/prompt", super::prompt_params("nobody", "hi"), -32002);
    assert_eq!(error["data"]["sessionId"], "nobody");
    assert!(error["message"].as_str().unwrap().contains("`session/load`"), "{error}");
    let error = acp.call_error("session/new", json!({"cwd": "here", "mcpServers": []}), -32602);
    assert!(error["message"].as_str().unwrap().contains("absolute"), "{error}");
    acp.close();
}

#[test]
fn ext_001_unknown_extension_is_answered() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.call_error("_example.com/ping", json!({"a": [1, 2]}), -32601);
    for method in ["_zero/nothing", "session/nothing"] {
        let error = acp.call_error(method, json!({}), -32601);
        assert_eq!(error["data"]["kind"], "unknown_method", "{error}");
        assert!(error["data"]["advice"].is_string(), "{error}");
    }
    acp.close();
}

#[test]
fn meta_001_meta_is_accepted_everywhere() {
    let fixture = AcpFixture::new();
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    let meta = json!({"example.com/a": {"b": [1]}, "traceparent": "00-0-0-00"});
    let first = json!({"protocolVersion": 1, "_meta": meta,
        "clientCapabilities": {"_meta": meta, "fs": {"_meta": meta}}});
    acp.call_ok("initialize", first);
    let made = acp.call_ok("session/new", fixture.session_params_with(json!({"_meta": meta})));
    let session = made["sessionId"].as_str().unwrap();
    let mut prompt = super::prompt_params(session, "hi");
    prompt["_meta"] = meta.clone();
    prompt["prompt"][0]["_meta"] = meta;
    assert_eq!(acp.call_ok("session/prompt", prompt)["stopReason"], "end_turn");
    acp.close();
}

#[test]
fn schema_001_every_message_of_turn_fits_schema() {
    let fixture = AcpFixture::new();
    let can = json!({"session": {"notices": {}, "compaction": {}}});
    let mut acp = fixture.start_client_with(&[], can);
    let session = acp.open_session(&fixture);
    let (read, write, run) = (
        call_step("Read", json!({"file_path": "hello.txt"})),
        call_step("Write", json!({"file_path": "new.txt", "content": "new\n"})),
        call_step("Bash", json!({"command": "echo hi; false"})),
    );
    let steps = ["think Hm.", "say First.", &read, &write, "turn", &run, "turn", "say Last."];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    acp.close();
}

#[test]
fn schema_002_extensions_are_under_meta() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let end = acp.prompt(&session, "hi").unwrap();
    assert_eq!(end["_meta"]["zero"]["state"], "complete", "{end}");
    assert!(end["_meta"]["zero"]["runId"].is_string(), "{end}");
    // That nothing of the kind stands elsewhere is checked of every talk.
    acp.close();
}
