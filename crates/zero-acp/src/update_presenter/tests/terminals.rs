//! Tests for command output while the command runs, with and without a terminal of the client.

use zero_core::{ErrorReason, ErrorType};

use super::*;

#[test]
fn command_gets_terminal_if_client_supports_it() {
    let mut presenter = presenter(terminal_features());
    let now = Instant::now();
    let input = json!({"command": "make"});
    check(
        presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, input.clone())),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "name": "Bash",
                "kind": "execute", "rawInput": input,
                "content": [{"type": "terminal", "terminalId": "c1"}],
                "_meta": {"terminal_info": {"terminal_id": "c1", "cwd": "/w"}}}]),
    );
    check(
        updates_json(presenter.present_call_start("c1")),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}]),
    );
    let output = |data: &str| {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
        "_meta": {"terminal_output": {"terminal_id": "c1", "data": data}}})
    };
    check(
        updates_json(presenter.present_output("c1", "\u{1b}[1mone\n\u{1b}]0;", now)),
        json!([output("\u{1b}[1mone\n")]),
    );
    check(
        updates_json(presenter.present_output("c1", "title\u{7}two", now)),
        json!([output("two")]),
    );
    assert_eq!(presenter.next_output_due(), None);
    let updates = presenter.present_live(command_ended(
        "c1",
        "one\ntwo\n(exit code 2)\n(now in `x`)",
        json!({"exit_code": 2, "cwd": "x"}),
    ));
    assert_eq!(updates[0], output("\n(exit code 2)\n(now in `x`)"));
    assert_eq!(updates[1]["content"], json!([{"type": "terminal", "terminalId": "c1"}]));
    assert_eq!(updates[1]["status"], "completed");
    assert_eq!(updates[1]["rawOutput"]["metadata"]["exitCode"], 2);
    assert_eq!(
        updates[1]["_meta"],
        json!({"terminal_exit": {"terminal_id": "c1", "exit_code": 2, "signal": null}})
    );
}

#[test]
fn terminal_receives_output_at_end_if_none_was_streamed() {
    let mut presenter = presenter(terminal_features());
    presenter.present_replay(call_started(
        "c1",
        "Bash",
        ToolKind::Execute,
        json!({"command": "ls"}),
    ));
    let result = ToolResult {
        display: ResultDisplay::markdown("\u{1b}[34ma\u{1b}[m"),
        structured: json!({"exit_code": 0}),
        ..ToolResult::text("a")
    };
    let updates = presenter.present_replay(EventKind::tool_ended("c1", result.into()));
    assert_eq!(updates[0]["_meta"]["terminal_output"]["data"], "\u{1b}[34ma\u{1b}[m");
    assert_eq!(updates[1]["_meta"]["terminal_exit"]["exit_code"], 0);
    assert_eq!(updates.len(), 2);
}

#[test]
fn exit_status_is_sent_as_far_as_known() {
    #[track_caller]
    fn check(end: EventKind, code: Value, signal: Value) {
        let mut presenter = presenter(terminal_features());
        presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, json!({})));
        let updates = presenter.present_live(end);
        let exit = &updates.last().unwrap()["_meta"]["terminal_exit"];
        assert_eq!((&exit["exit_code"], &exit["signal"]), (&code, &signal));
    }
    let ended = |text: &str, structured: Value| command_ended("c1", text, structured);
    check(ended("x", json!({"exit_code": 0})), json!(0), Value::Null);
    check(ended("x\n(exit code 1)", json!({"exit_code": 1})), json!(1), Value::Null);
    // Printed text is not the exit status.
    check(ended("(exit code 7)", json!({"exit_code": 0})), json!(0), Value::Null);
    let killed = json!({"exit_code": 137, "signal": "SIGKILL"});
    check(ended("x", killed), json!(137), json!("SIGKILL"));
    check(ended("job 1", json!({"job_id": "1"})), Value::Null, Value::Null);
    let status = |status, text| call_ended("c1", status, text);
    check(status(ToolCallStatus::Denied, "denied"), Value::Null, Value::Null);
    check(status(ToolCallStatus::Cancelled, "stopped"), Value::Null, Value::Null);
    check(status(ToolCallStatus::Completed, "(exit code 7)"), Value::Null, Value::Null);
}

#[test]
fn unused_terminal_is_replaced_by_text() {
    let content = |printed: bool| {
        let mut presenter = presenter(terminal_features());
        presenter.present_live(call_started(
            "c1",
            "Bash",
            ToolKind::Execute,
            json!({"command": "ls"}),
        ));
        if printed {
            presenter.present_output("c1", "x", Instant::now());
        }
        let updates =
            presenter.present_live(call_ended("c1", ToolCallStatus::Failed, "stopped after 2 s"));
        assert_eq!(updates.len(), 1);
        updates[0]["content"].clone()
    };
    let words =
        json!({"type": "content", "content": {"type": "text", "text": "stopped after 2 s"}});
    assert_eq!(content(false), json!([words]));
    assert_eq!(content(true), json!([{"type": "terminal", "terminalId": "c1"}, words]));
}

#[test]
fn output_of_failed_command_is_shown_once_as_code() {
    let content = |features: ClientFeatures, printed: bool| {
        let mut presenter = presenter(features);
        let input = json!({"command": "cat x"});
        presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, input));
        if printed {
            presenter.present_output("c1", "![x](http://x)\n", Instant::now());
        }
        let error = ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, "too slow")
            .with_detail("output", "![x](http://x)\n");
        let updates = presenter.present_live(EventKind::tool_ended("c1", error.into()));
        updates.last().unwrap()["content"].clone()
    };
    let words = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
    let output = words("```console\n![x](http://x)\n```");
    let message = words("too slow");
    for (features, printed) in
        [(plain_features(), true), (plain_features(), false), (terminal_features(), false)]
    {
        assert_eq!(content(features, printed), json!([message, output]));
    }
    let terminal = json!({"type": "terminal", "terminalId": "c1"});
    assert_eq!(content(terminal_features(), true), json!([terminal, message]));
}

#[test]
fn terminal_stream_is_bounded() {
    let mut presenter = presenter(terminal_features());
    presenter.present_live(call_started(
        "c1",
        "Bash",
        ToolKind::Execute,
        json!({"command": "yes"}),
    ));
    let piece = "ä".repeat(1 << 19);
    let mut bytes = 0;
    for _ in 0..12 {
        for update in updates_json(presenter.present_output("c1", &piece, Instant::now())) {
            let data = update["_meta"]["terminal_output"]["data"].as_str().unwrap_or_default();
            assert!(data.len() <= 256 * 1024);
            bytes += data.len();
        }
    }
    assert!((8 << 20..9 << 20).contains(&bytes), "{bytes}");
    let updates = presenter.present_live(call_ended(
        "c1",
        ToolCallStatus::Completed,
        &format!("{piece}the end"),
    ));
    let data = updates[0]["_meta"]["terminal_output"]["data"].as_str().unwrap();
    assert!(data.ends_with("the end") && data.len() <= 64 * 1024);
}

#[test]
fn client_without_terminal_gets_throttled_snapshots() {
    let mut presenter = presenter(plain_features());
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    presenter.present_live(call_started(
        "c1",
        "Bash",
        ToolKind::Execute,
        json!({"command": "make"}),
    ));
    let shown = |updates: Vec<SessionUpdate>| -> Vec<String> {
        let text =
            |update: &Value| update["content"][0]["content"]["text"].as_str().map(str::to_owned);
        updates_json(updates).iter().filter_map(text).collect()
    };
    assert_eq!(shown(presenter.present_output("c1", "1\n", at(0))), ["```console\n1\n```"]);
    assert_eq!(presenter.next_output_due(), None);
    assert_eq!(shown(presenter.present_output("c1", "2\n", at(100))), Vec::<String>::new());
    assert_eq!(presenter.next_output_due(), Some(at(250)));
    assert_eq!(shown(presenter.present_held_output(at(249))), Vec::<String>::new());
    assert_eq!(shown(presenter.present_held_output(at(250))), ["```console\n1\n2\n```"]);
    assert_eq!(presenter.next_output_due(), None);
    let times: usize =
        (0..1000).map(|n| presenter.present_output("c1", "ä", at(250 + n)).len()).sum();
    assert!(times <= 4, "{times}");
    let last = shown(presenter.present_output("c1", &"äö".repeat(100_000), at(5000)));
    assert!(last[0].len() <= 64 * 1024 + 20 && last[0].ends_with("äö\n```"), "{}", last[0].len());
    presenter.present_output("c1", "x", at(5001));
    let ended = command_ended("c1", "all\n(exit code 1)", json!({"exit_code": 1}));
    let updates = presenter.present_live(ended);
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["content"][0]["content"]["text"], "```console\nall\n(exit code 1)\n```");
    assert_eq!(updates[0]["rawOutput"]["metadata"]["exitCode"], 1);
    assert_eq!(
        (presenter.next_output_due(), presenter.present_held_output(at(9000)).len()),
        (None, 0)
    );
}
