//! Tests with recorded conversations of gateways, and with known variants.

use serde_json::json;

use zero_core::event::ToolCallStatus;
use zero_runtime::dialect::render_plain;

use super::*;

const FIXTURES: [(&str, &str); 6] = [
    (
        "new_and_prompt",
        include_str!("../../../../zero-gateway/tests/fixtures/bridge/new_and_prompt.jsonl"),
    ),
    ("tool_calls", include_str!("../../../../zero-gateway/tests/fixtures/bridge/tool_calls.jsonl")),
    (
        "approval_allow",
        include_str!("../../../../zero-gateway/tests/fixtures/bridge/approval_allow.jsonl"),
    ),
    (
        "approval_deny",
        include_str!("../../../../zero-gateway/tests/fixtures/bridge/approval_deny.jsonl"),
    ),
    ("cancel", include_str!("../../../../zero-gateway/tests/fixtures/bridge/cancel.jsonl")),
    (
        "overlapping",
        include_str!("../../../../zero-gateway/tests/fixtures/bridge/overlapping.jsonl"),
    ),
];

fn translator() -> OpenClawTranslator {
    OpenClawTranslator::new("main".to_owned(), "m".to_owned(), 0)
}

/// The entries for the events of a recording.
fn replay(recorded: &str) -> Vec<Event> {
    let mut translator = translator();
    let mut events = Vec::new();
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let frame = &line["frame"];
        let payload = &frame["payload"];
        if frame["method"] == "chat.send" {
            let params = &frame["params"];
            let run = params["idempotencyKey"].as_str().unwrap();
            translator.expect_run(
                run,
                params["message"].as_str().unwrap().to_owned(),
                Vec::new(),
                1,
            );
        }
        events.extend(match frame["event"].as_str() {
            Some("chat") => translator.handle_chat(payload, 1),
            Some("agent") => translator.handle_agent(payload, 1),
            Some("exec.approval.requested") => translator.handle_approval_request(payload, 1),
            Some("exec.approval.resolved") => translator.handle_approval_resolved(payload, 1),
            _ => Vec::new(),
        });
    }
    assert!(translator.active_runs(0).is_empty(), "every run ended");
    events
}

fn format_event(event: &Event) -> String {
    match &event.kind {
        EventKind::Prompt { .. } => "prompt".to_owned(),
        EventKind::RunStarted { model, .. } => format!("started {model}"),
        EventKind::Text { text } => format!("text {text:?}"),
        EventKind::Thought { text } => format!("thought {text:?}"),
        EventKind::ToolStarted { title, kind, .. } => format!("tool {title} ({})", kind.as_str()),
        EventKind::ToolUpdated { title, progress, .. } => format!("update {title:?} {progress:?}"),
        EventKind::ToolEnded { status, outcome, .. } => {
            format!("tool {status:?} {}", render_plain(outcome).len())
        }
        EventKind::ApprovalRequested(request) => {
            let options: Vec<&str> = request.options.iter().map(|o| o.id.as_str()).collect();
            format!("asked {} {}", request.title, options.join(","))
        }
        EventKind::ApprovalResolved { answer, .. } => format!("answered {answer}"),
        EventKind::UsageReported { context_tokens, .. } => format!("usage {context_tokens}"),
        EventKind::RunEnded { end, .. } => format!("ended {end:?}"),
        other => format!("{other:?}"),
    }
}

fn format_events(events: &[Event]) -> Vec<String> {
    events.iter().map(format_event).collect()
}

/// The complete text of each run.
fn texts_by_run(events: &[Event]) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for event in events {
        if let (Some(run), EventKind::Text { text }) = (&event.run, &event.kind) {
            *texts.entry(run.to_string()).or_insert_with(String::new) += text;
        }
    }
    texts
}

#[test]
fn recorded_runs_translate_once_and_in_order() {
    for (name, recorded) in FIXTURES {
        let events = replay(recorded);
        for (event, seq) in events.iter().zip(LIVE_BASE + 1..) {
            assert_eq!(event.seq, seq, "{name}");
        }
        let mut finals = BTreeMap::new();
        for line in recorded.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let payload = &line["frame"]["payload"];
            if line["frame"]["event"] == "chat" && run_end::parse_run_end(payload).is_some() {
                let (_, text) = message_texts(&payload["message"]);
                if !text.is_empty() {
                    finals.insert(payload["runId"].as_str().unwrap().to_owned(), text);
                }
            }
        }
        assert_eq!(texts_by_run(&events), finals, "{name}: what was said is what is told");
        let count =
            |wanted: fn(&EventKind) -> bool| events.iter().filter(|e| wanted(&e.kind)).count();
        let prompts = count(|kind| matches!(kind, EventKind::Prompt { .. }));
        assert_eq!(count(|kind| matches!(kind, EventKind::RunEnded { .. })), prompts, "{name}");
        let started = count(|kind| matches!(kind, EventKind::ToolStarted { .. }));
        assert_eq!(count(|kind| matches!(kind, EventKind::ToolEnded { .. })), started, "{name}");
    }
}

#[test]
fn recorded_call_translates_unchanged() {
    let events = format_events(&replay(FIXTURES[1].1));
    let expected = [
        "prompt",
        "started scripted",
        r#"text "I ""#,
        r#"text "look first.""#,
        "usage 15",
        "tool Read: hello.txt (read)",
        r#"update Some("Read `hello.txt`") None"#,
        r#"update Some("Read `hello.txt`") None"#,
        "tool Completed 1",
        r#"text "\n\nThe ""#,
        r#"text "tool ""#,
        r#"text "said:      1\thello""#,
        "usage 15",
        "ended Completed",
    ];
    assert_eq!(events, expected);
}

#[test]
fn recorded_approvals_are_requested_and_resolved() {
    for (at, expected) in [(2, "answered allow_once"), (3, "answered reject_once")] {
        let events = format_events(&replay(FIXTURES[at].1));
        let asked = events.iter().position(|line| line.starts_with("asked exec: ")).unwrap();
        let answered = events.iter().position(|line| line == expected);
        assert!(answered.is_some_and(|answered| answered > asked), "{events:#?}");
        assert!(events[asked].ends_with("reject_once"), "{}", events[asked]);
    }
}

#[test]
fn aborted_run_ends_as_aborted() {
    let events = format_events(&replay(FIXTURES[4].1));
    assert!(events.contains(&r#"ended Aborted { by: "rpc" }"#.to_owned()), "{events:#?}");
    assert_eq!(events.last().unwrap(), "ended Completed");
}

fn agent_event(stream: &str, data: Value) -> Value {
    json!({"runId": "r", "sessionKey": "k", "seq": 1, "ts": 5, "stream": stream, "data": data})
}

#[test]
fn text_before_call_outside_chat_is_emitted() {
    let mut translator = translator();
    let mut events = Vec::new();
    let item = |phase: &str, text: &str| {
        agent_event(
            "item",
            json!({"kind": "preamble", "phase": phase, "itemId": "i", "progressText": text}),
        )
    };
    events.extend(translator.handle_agent(&item("update", "I look"), 1));
    events.extend(translator.handle_agent(&item("end", "I look first."), 1));
    let call = json!({"phase": "start", "name": "read", "toolCallId": "c", "args": {"path": "/a"}});
    events.extend(translator.handle_agent(&agent_event("tool", call), 1));
    let message = json!({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Seen."}]});
    let chat = |state: &str| json!({"runId": "r", "state": state, "message": message, "stopReason": "length"});
    events.extend(translator.handle_chat(&chat("delta"), 1));
    events.extend(translator.handle_chat(&chat("final"), 1));
    // Some gateways report it twice.
    events.extend(translator.handle_chat(&json!({"runId": "r", "state": "error"}), 1));
    let expected = [
        "started m",
        r#"text "I look""#,
        r#"text " first.""#,
        "tool read: /a (read)",
        r#"thought "hm""#,
        r#"text "Seen.""#,
        "tool Interrupted 1",
        "ended MaxTokens",
    ];
    assert_eq!(format_events(&events), expected);
}

#[test]
fn text_missed_during_disconnect_is_emitted_later() {
    let mut translator = translator();
    translator.expect_run("r", "hi".to_owned(), Vec::new(), 1);
    let delta = json!({"runId": "r", "state": "delta", "message": {"content": "One "}});
    let mut events = translator.handle_chat(&delta, 1);
    let still = json!({"runId": "r", "status": "timeout"});
    assert_eq!(
        translator.handle_wait_result("r", &still, 1),
        (RunWaitOutcome::Unresolved, Vec::new())
    );
    let over = json!({"runId": "r", "status": "ok",
        "terminalReply": {"disposition": "visible", "text": "One two"}});
    let (settled, more) = translator.handle_wait_result("r", &over, 1);
    events.extend(more);
    assert_eq!(settled, RunWaitOutcome::Ended);
    let expected = ["prompt", "started m", r#"text "One ""#, r#"text "two""#, "ended Completed"];
    assert_eq!(format_events(&events), expected);
    assert!(translator.handle_wait_result("r", &over, 1).1.is_empty(), "once");
    translator.expect_run("s", "hi".to_owned(), Vec::new(), 1);
    let failed = json!({"runId": "s", "status": "error", "error": "no key"});
    let events = format_events(&translator.handle_wait_result("s", &failed, 1).1);
    assert!(events.last().unwrap().contains("no key"), "{events:?}");
}

#[test]
fn tool_error_is_never_success() {
    let status = |is_error, details| crate::openclaw::run::parse_status(is_error, &details);
    assert_eq!(status(true, json!({"status": "completed"})), ToolCallStatus::Failed);
    assert_eq!(status(true, json!({})), ToolCallStatus::Failed);
    assert_eq!(status(true, json!({"status": "denied"})), ToolCallStatus::Denied);
    assert_eq!(status(false, json!({"status": "failed"})), ToolCallStatus::Completed);
}

#[test]
fn approval_always_allows_deny_and_ends_with_run() {
    let mut translator = translator();
    let asked = json!({"id": "q", "request": {"command": "rm x", "runId": "r", "cwd": null,
        "allowedDecisions": ["allow-once"]}, "expiresAtMs": 9});
    let mut events = translator.handle_approval_request(&asked, 1);
    assert!(translator.handle_approval_request(&asked, 1).is_empty(), "asked once");
    events.extend(translator.handle_chat(&json!({"runId": "r", "state": "aborted"}), 1));
    let expected = [
        "started m",
        "asked exec: rm x allow_once,reject_once",
        "answered cancelled",
        r#"ended Aborted { by: "rpc" }"#,
    ];
    assert_eq!(format_events(&events), expected);
}

#[test]
fn garbage_payload_yields_no_events() {
    let mut translator = translator();
    for payload in
        [Value::Null, json!(7), json!([]), json!({"runId": 7}), json!({"state": "final"})]
    {
        assert!(translator.handle_chat(&payload, 1).is_empty());
        assert!(translator.handle_agent(&payload, 1).is_empty());
        assert!(translator.handle_approval_request(&payload, 1).is_empty());
        assert!(translator.handle_approval_resolved(&payload, 1).is_empty());
    }
}
