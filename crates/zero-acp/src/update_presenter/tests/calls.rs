//! Tests for a call from its announcement to its end; each fact is sent once.

use super::*;
use zero_core::{CallProgress, ErrorReason};

use crate::update_presenter::call_index::CALLS_MAX;

#[test]
fn call_is_announced_once_then_only_changes_are_sent() {
    let input = json!({"file_path": "a.rs"});
    let updated = || EventKind::ToolUpdated {
        call: "c1".to_owned(),
        title: Some("Read `a.rs`".to_owned()),
        kind: Some(ToolKind::Read),
        locations: vec![location("a.rs", Some(2))],
        progress: None,
        begins: false,
        subagent: None,
    };
    let locations = [location("/w/a.rs", Some(2))];
    // Ledger first.
    let mut one = presenter(plain_features());
    check(
        one.present_live(call_started("c1", "Read", ToolKind::Read, input.clone())),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read a.rs", "name": "Read",
                "kind": "read", "locations": [{"path": "/w/a.rs"}], "rawInput": input}]),
    );
    check(
        updates_json(one.present_description("c1", "Read `a.rs`", ToolKind::Read, &locations)),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "Read `a.rs`",
                "locations": [{"path": "/w/a.rs", "line": 2}]}]),
    );
    check(one.present_live(updated()), json!([]));
    // Tools first: a late fact of a lower rank changes nothing.
    let mut two = presenter(plain_features());
    check(
        updates_json(two.present_description("c1", "Read `a.rs`", ToolKind::Read, &locations)),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read `a.rs`", "kind": "read",
                "locations": [{"path": "/w/a.rs", "line": 2}]}]),
    );
    check(
        two.present_live(call_started("c1", "Read", ToolKind::Other, input.clone())),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "name": "Read", "rawInput": input}]),
    );
    check(two.present_live(updated()), json!([]));
    // An end without a start.
    let updates =
        presenter(plain_features()).present_live(call_ended("c9", ToolCallStatus::Completed, "x"));
    let kinds: Vec<_> = updates.iter().map(|update| &update["sessionUpdate"]).collect();
    assert_eq!(kinds, ["tool_call", "tool_call_update"]);
}

#[test]
fn titles_are_sanitized_and_name_subject() {
    #[track_caller]
    fn check(name: &str, title: &str, kind: ToolKind, input: Value, expected: &str) {
        assert_eq!(call_title(name, title, kind, &input), expected);
    }
    check("Bash", "Bash", ToolKind::Execute, json!({"command": "ls\n-la"}), "ls -la");
    check("Bash", "List", ToolKind::Execute, json!({"command": "ls"}), "List");
    check("Grep", "Grep", ToolKind::Search, json!({"pattern": "a\u{1b}b"}), "Grep a\\u{1b}b");
    check("x", "", ToolKind::Other, json!([1]), "x");
    check("x", "x", ToolKind::Other, json!({"command": "ls"}), "x");
    let long = call_title("x", &"y".repeat(5000), ToolKind::Other, &json!({}));
    assert_eq!(long.chars().count(), TITLE_CHARS_MAX + 1);
}

#[test]
fn every_call_end_is_completed_or_failed_with_text() {
    #[track_caller]
    fn check(status: ToolCallStatus, text: &str, expected: &str, words: &str) {
        let mut presenter = presenter(plain_features());
        presenter.present_live(call_started("c1", "X", ToolKind::Other, json!({})));
        let updates = presenter.present_live(call_ended("c1", status, text));
        assert_eq!(updates.len(), 1);
        assert_eq!(updates[0]["status"], expected);
        assert_eq!(updates[0]["content"][0]["content"]["text"], words);
        let raw = &updates[0]["rawOutput"];
        let field = if expected == "failed" { "error" } else { "output" };
        assert_eq!(raw[field], text);
        assert_eq!(raw["metadata"]["status"], json!(status));
        // It is sent once, whatever follows.
        assert_eq!(
            presenter.present_live(call_ended("c1", ToolCallStatus::Completed, "x")),
            Vec::<Value>::new()
        );
        assert_eq!(updates_json(presenter.present_call_start("c1")), Vec::<Value>::new());
        assert_eq!(
            updates_json(presenter.present_output("c1", "x", Instant::now())),
            Vec::<Value>::new()
        );
        assert_eq!(
            updates_json(presenter.present_description("c1", "y", ToolKind::Read, &[])),
            Vec::<Value>::new()
        );
        assert_eq!(presenter.present_live(run_ended(RunOutcome::Completed)).len(), 1);
    }
    check(ToolCallStatus::Completed, "done", "completed", "done");
    check(ToolCallStatus::Failed, "broken", "failed", "broken");
    check(ToolCallStatus::Denied, "denied by you", "failed", "denied by you");
    check(ToolCallStatus::Cancelled, "stopped", "failed", "stopped");
    check(ToolCallStatus::Interrupted, "", "failed", "zero stopped before the outcome was known");
}

#[test]
fn diff_stays_visible_after_call_ends() {
    let mut presenter = presenter(plain_features());
    presenter.present_live(call_started(
        "c1",
        "Write",
        ToolKind::Edit,
        json!({"file_path": "a", "content": "b"}),
    ));
    let diff = FileDiff {
        path: "a".to_owned(),
        unified: "-a\n+b".to_owned(),
        old_text: Some("a\n".to_owned()),
        new_text: Some("b\n".to_owned()),
        partial: false,
    };
    let result = ToolResult {
        content: vec![ToolResultPart::Diff { summary: "Wrote a".to_owned(), diff: diff.clone() }],
        display: ResultDisplay::Diff(diff),
        structured: json!({"success": true, "backup": "a.bak"}),
        locations: vec![location("a", Some(1))],
        metadata: zero_core::ResultMetadata::default(),
    };
    let updates = presenter.present_live(EventKind::tool_ended("c1", result.into()));
    assert_eq!(
        updates[0]["content"],
        json!([{"type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n"},
               {"type": "content", "content": {"type": "text", "text": "Wrote a"}}])
    );
    assert_eq!(updates[0]["locations"], json!([{"path": "/w/a", "line": 1}]));
    assert_eq!(updates[0]["status"], "completed");
    assert_eq!(
        updates[0]["rawOutput"],
        json!({"output": "Wrote a\n-a\n+b", "metadata": {
            "status": "completed", "linesChanged": 2, "backupCreated": true,
            "structured": {"success": true, "backup": "a.bak"},
        }})
    );
}

#[test]
fn error_shows_every_field() {
    let mut presenter = presenter(plain_features());
    presenter.present_live(call_started("c1", "Read", ToolKind::Read, json!({"path": "b"})));
    presenter.present_live(call_started("c2", "Read", ToolKind::Read, json!({"path": "b"})));
    let error = ToolError::not_found(ErrorReason::Io, "no such file");
    let named = (error.clone().with_detail("file", "/w/x"))
        .with_detail("nearest", json!(["y"]))
        .with_detail("errno", "ENOENT");
    let updates = presenter.present_live(EventKind::tool_ended("c1", named.into()));
    assert_eq!(
        updates[0]["rawOutput"],
        json!({"error": "ENOENT: no such file", "metadata": {
            "status": "failed", "errorType": "not_found", "errorCode": "ENOENT",
            "attemptedPath": "/w/x",
            "details": {"reason": "io", "file": "/w/x", "nearest": ["y"], "errno": "ENOENT"},
        }})
    );
    let updates = presenter.present_live(EventKind::tool_ended("c2", error.into()));
    assert_eq!(updates[0]["rawOutput"]["error"], "no such file");
    assert_eq!(updates[0]["rawOutput"]["metadata"]["errorCode"], "not_found");
    assert_eq!(updates[0]["rawOutput"]["metadata"]["attemptedPath"], "/w/b");
}

#[test]
fn announced_call_has_locations_of_its_input() {
    #[track_caller]
    fn check(kind: ToolKind, input: Value, expected: Value) {
        let updates =
            presenter(plain_features()).present_live(call_started("c1", "X", kind, input));
        assert_eq!(updates[0].get("locations").cloned().unwrap_or_default(), expected);
    }
    check(ToolKind::Read, json!({"file_path": "a.rs"}), json!([{"path": "/w/a.rs"}]));
    check(ToolKind::Edit, json!({"path": "/x/b"}), json!([{"path": "/x/b"}]));
    check(
        ToolKind::Read,
        json!({"paths": ["a", "src/*.rs", "b"]}),
        json!([{"path": "/w/a"}, {"path": "/w/b"}]),
    );
    check(ToolKind::Execute, json!({"command": "ls", "path": "a"}), Value::Null);
}

#[test]
fn results_are_rendered_by_kind() {
    #[track_caller]
    fn check(kind: ToolKind, display: Option<&str>, content: Vec<ResultContent>, expected: Value) {
        let mut presenter = presenter(plain_features());
        presenter.present_live(call_started("c1", "X", kind, json!({})));
        let display = display.map(ResultDisplay::markdown);
        let status = ToolCallStatus::Completed;
        let outcome = ToolOutcome::from_content(status, content, display, vec![]);
        let updates = presenter.present_live(EventKind::tool_ended("c1", outcome));
        let blocks: Vec<Value> = updates[0]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let block = &it["content"];
                block["text"].as_str().map_or_else(|| block.clone(), Value::from)
            })
            .collect();
        assert_eq!(Value::from(blocks), expected);
    }
    check(
        ToolKind::Read,
        Some("Read `a`"),
        text_content("1 x"),
        json!(["Read `a`", "```\n1 x\n```"]),
    );
    check(
        ToolKind::Search,
        Some("Found 1 file"),
        text_content("a"),
        json!(["Found 1 file", "```\na\n```"]),
    );
    check(ToolKind::Other, Some("**yes**"), text_content("yes"), json!(["**yes**"]));
    check(ToolKind::Other, None, text_content("yes"), json!(["yes"]));
    check(
        ToolKind::Execute,
        Some("\u{1b}[31mred\u{1b}[m\u{7}"),
        text_content("red"),
        json!(["```console\nred\n```"]),
    );
    check(ToolKind::Execute, None, vec![], json!([]));
    let image = ResultContent::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() };
    check(
        ToolKind::Read,
        Some("Read `a`"),
        vec![image],
        json!(["Read `a`", {"type": "image", "data": "AAAA", "mimeType": "image/png"}]),
    );
    let huge = ResultContent::Image { mime: "image/png".to_owned(), data: "A".repeat(9 << 20) };
    check(ToolKind::Other, None, vec![huge], json!(["(image/png, too large to show)"]));
}

#[test]
fn run_end_closes_open_calls() {
    let mut presenter = presenter(terminal_features());
    presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, json!({"command": "x"})));
    presenter.present_live(call_started("c2", "Read", ToolKind::Read, json!({})));
    presenter.present_live(call_ended("c2", ToolCallStatus::Completed, "x"));
    presenter.present_description("c3", "Of another run", ToolKind::Read, &[]);
    let updates = presenter.present_live(run_ended(RunOutcome::Aborted { by: "rpc".to_owned() }));
    assert_eq!(updates[0]["toolCallId"], "c1");
    assert_eq!(updates[0]["status"], "failed");
    assert_eq!(updates[0]["content"][0]["content"]["text"], "stopped with the run");
    assert_eq!(updates[0]["_meta"]["terminal_exit"]["exit_code"], Value::Null);
    assert_eq!(
        updates[1],
        json!({"sessionUpdate": "session_info_update", "updatedAt": "1970-01-01T00:00:01Z"})
    );
    assert_eq!(updates.len(), 2);
    presenter.present_approval(&request("", &[]));
    let updates = presenter.present_live(run_ended(RunOutcome::Completed));
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("ask_1"), &json!("failed"))
    );
    let left = updates_json(presenter.abandon_all("the gateway is gone"));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["toolCallId"], "c3");
    assert_eq!(updates_json(presenter.abandon_all("again")), Vec::<Value>::new());
}

#[test]
fn reused_call_id_starts_new_call() {
    let mut presenter = presenter(plain_features());
    let ids: Vec<Value> = (0..3)
        .flat_map(|_| {
            let mut updates =
                presenter.present_live(call_started("call_0", "Read", ToolKind::Read, json!({})));
            updates.extend(presenter.present_live(call_ended(
                "call_0",
                ToolCallStatus::Completed,
                "x",
            )));
            updates.into_iter().map(|update| update["toolCallId"].clone())
        })
        .collect();
    assert_eq!(ids, ["call_0", "call_0", "call_0#2", "call_0#2", "call_0#3", "call_0#3"]);
}

#[test]
fn call_unknown_to_ledger_ends() {
    let mut presenter = presenter(plain_features());
    presenter.present_description("t1", "Plan", ToolKind::Think, &[]);
    let entry = |status: &str, priority: &str| PlanEntry {
        content: "a\nb".to_owned(),
        priority: priority.to_owned(),
        status: status.to_owned(),
    };
    let entries = vec![entry("in_progress", "high"), entry("completed", "low"), entry("?", "?")];
    let display = ResultDisplay::Plan { entries };
    let end = ToolResult { display, ..ToolResult::text("ok") }.into();
    let updates = updates_json(presenter.present_client_call_end("t1", &end));
    assert_eq!(updates[0]["status"], "completed");
    assert_eq!(
        updates[1],
        json!({"sessionUpdate": "plan", "entries": [
            {"content": "a b", "priority": "high", "status": "in_progress"},
            {"content": "a b", "priority": "low", "status": "completed"},
            {"content": "a b", "priority": "medium", "status": "pending"},
        ]})
    );
}

#[test]
fn progress_is_sent_as_call_update() {
    let share = |percentage| EventKind::ToolUpdated {
        call: "c1".to_owned(),
        title: None,
        kind: None,
        locations: vec![],
        progress: Some(CallProgress { message: "3 of\n9".to_owned(), percentage }),
        begins: false,
        subagent: None,
    };
    let progress = || share(None);
    let mut one = presenter(plain_features());
    one.present_live(call_started("c1", "X", ToolKind::Other, json!({})));
    check(
        one.present_live(progress()),
        json!([
            {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "c1",
             "content": [{"type": "content", "content": {"type": "text", "text": "3 of 9"}}],
             "_meta": {"zero/progress": {"message": "3 of 9"}}},
        ]),
    );
    check(
        one.present_live(share(Some(33))),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1",
            "content": [{"type": "content", "content": {"type": "text", "text": "3 of 9"}}],
            "_meta": {"zero/progress": {"message": "3 of 9", "percentage": 33}}}]),
    );
    let mut two = presenter(plain_features());
    two.present_replay(call_started("c1", "X", ToolKind::Other, json!({})));
    check(two.present_replay(progress()), json!([]));
}

#[test]
fn remembered_calls_are_bounded() {
    let mut presenter = presenter(plain_features());
    for n in 0..CALLS_MAX + 10 {
        let updates =
            presenter.present_live(call_started(&format!("c{n}"), "X", ToolKind::Other, json!({})));
        // The oldest call is ended.
        assert_eq!(updates.len(), if n < CALLS_MAX { 1 } else { 2 });
    }
    assert_eq!(presenter.calls.open_calls().count(), CALLS_MAX);
}

#[test]
fn ended_calls_keep_only_names_up_to_limit() {
    let mut presenter = presenter(plain_features());
    for n in 0..CALLS_MAX + 10 {
        let call = format!("c{n}");
        presenter.present_client_call(&call, "Read", &json!({}));
        presenter.present_client_call_end(&call, &ToolResult::text("done").into());
        assert_eq!(presenter.calls.open_calls().count(), 0);
    }
    assert!(!presenter.has_shown("c9") && presenter.has_shown("c10"));
    // Late output is not sent, and a reused id is a new call.
    assert!(presenter.present_output("c10", "late", Instant::now()).is_empty());
    let again = updates_json(presenter.present_client_call("c10", "Read", &json!({})));
    assert_eq!(again[0]["toolCallId"], "c10#2", "{again:?}");
}

#[test]
fn silent_run_leaves_calls_of_other_runs_open() {
    let mut presenter = presenter(plain_features());
    for (run, call) in [("r1", "c1"), ("r2", "c2")] {
        presenter.present_entry(
            &run_event(run, call_started(call, "Bash", ToolKind::Execute, json!({}))),
            DeliveryMode::Live,
        );
    }
    presenter.present_client_call("own", "Read", &json!({}));
    assert_eq!(presenter.call_run("c1").map(RunId::as_str), Some("r1"));
    assert_eq!(presenter.call_run("own"), None);
    let of_r1 = |_: &str, run: Option<&RunId>| run.is_some_and(|run| run.as_str() == "r1");
    let updates = updates_json(presenter.abandon_matching("stopped", of_r1));
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("c1"), &json!("failed"))
    );
    assert_eq!(updates_json(presenter.abandon_all("closed")).len(), 2);
}

#[test]
fn call_never_shown_ends_without_update() {
    let mut presenter = presenter(plain_features());
    let end = ToolResult::text("read").into();
    assert_eq!(presenter.present_client_call_end("picture_1", &end), Vec::new());
    presenter.present_approval(&request("picture_1", &[]));
    assert_eq!(
        updates_json(presenter.present_client_call_end("picture_1", &end))[0]["status"],
        "completed"
    );
}
