//! Tests of what is printed of a run, and of its exit code.

use zero_core::event::ResultContent;
use zero_core::{FileDiff, ResultDisplay};
use zero_session::agent::DIRECT;

use super::call_rendering::{ERROR_LINES_MAX, OUTPUT_LINES_MAX, join_text, push_wrapped};
use super::*;

fn make_event(kind: EventKind) -> Event {
    Event { seq: 1, run: None, time_ms: 0, kind }
}

#[track_caller]
fn check_events(events: Vec<EventKind>, exit: ExitOutcome, out: &str, err: &str) {
    check_detailed_events(RunDetails::default(), events, exit, out, err);
}

#[track_caller]
fn check_detailed_events(
    details: RunDetails,
    events: Vec<EventKind>,
    exit: ExitOutcome,
    out: &str,
    err: &str,
) {
    let terminal = Terminal::for_test();
    let mut show =
        RunPrinter::new(&terminal, OutputFormat::Text, details, ElapsedCounter::new(&terminal.err));
    let mut ended = None;
    for kind in events {
        ended = show.print_event(&make_event(kind)).unwrap();
    }
    assert_eq!(ended, Some(exit));
    assert_eq!(
        (terminal.out.written_text().as_str(), terminal.err.written_text().as_str()),
        (out, err)
    );
}

fn make_call_started(call: &str) -> EventKind {
    EventKind::ToolStarted {
        call: call.to_owned(),
        name: "Edit".to_owned(),
        title: "Edit `a`".to_owned(),
        kind: ToolKind::Edit,
        input: serde_json::Value::Null,
        locations: vec![],
        waits: false,
        transcript_id: None,
    }
}

fn make_call_end(
    status: ToolCallStatus,
    content: Vec<ResultContent>,
    display: Option<ResultDisplay>,
) -> EventKind {
    let outcome = ToolOutcome::from_content(status, content, display, vec![]);
    EventKind::tool_ended("c", outcome)
}

fn make_run_end(end: RunOutcome) -> EventKind {
    EventKind::RunEnded { end, usage: TokenUsage::default() }
}

fn make_text(text: &str) -> EventKind {
    EventKind::Text { text: text.to_owned() }
}

#[test]
fn run_without_a_logged_call_fails() {
    let call = |status, text: &str| {
        make_call_end(status, vec![ResultContent::Text { text: text.to_owned() }], None)
    };
    let unlogged = || {
        let text = "the audit log cannot be written (No space left on device), so nothing was done";
        call(ToolCallStatus::Failed, text)
    };
    let exit = |events: Vec<EventKind>| {
        let terminal = Terminal::for_test();
        let counter = ElapsedCounter::new(&terminal.err);
        let details = RunDetails::default();
        let mut printer = RunPrinter::new(&terminal, OutputFormat::Json, details, counter);
        let events = events.into_iter().chain([make_run_end(RunOutcome::Completed)]);
        events.filter_map(|kind| printer.print_event(&make_event(kind)).unwrap()).last()
    };
    assert_eq!(exit(vec![unlogged()]), Some(ExitOutcome::Error));
    let other = call(ToolCallStatus::Failed, "no such file");
    assert_eq!(exit(vec![other]), Some(ExitOutcome::Ok));
    let logged = call(ToolCallStatus::Completed, "done");
    assert_eq!(exit(vec![logged, unlogged()]), Some(ExitOutcome::Ok));
}

#[test]
fn sent_request_is_shown_in_full() {
    let begun = EventKind::ToolStarted {
        call: "c".to_owned(),
        name: "WebRequest".to_owned(),
        title: "POST `http://a.test/`".to_owned(),
        kind: ToolKind::Fetch,
        input: serde_json::Value::Null,
        locations: vec![],
        waits: false,
        transcript_id: None,
    };
    let request = "```http\nPOST http://a.test/\nx-a: b\n\nwords\n```\n\nHTTP 200 OK";
    let done =
        make_call_end(ToolCallStatus::Completed, vec![], Some(ResultDisplay::markdown(request)));
    check_events(
        vec![begun, done, make_run_end(RunOutcome::Completed)],
        ExitOutcome::Ok,
        "",
        "● POST `http://a.test/`\n  ```http\n  POST http://a.test/\n  x-a: b\n\n  words\n  ```\n\n  HTTP 200 OK\n",
    );
}

#[test]
fn sent_request_is_shown_when_no_answer_came() {
    for (status, mark, is_shown, exit) in [
        (ToolCallStatus::Failed, "✗", true, ExitOutcome::Ok),
        (ToolCallStatus::Cancelled, "■", true, ExitOutcome::Ok),
        (ToolCallStatus::Denied, "⊘", false, ExitOutcome::Denied),
    ] {
        let begun = EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "WebRequest".to_owned(),
            title: "POST".to_owned(),
            kind: ToolKind::Fetch,
            input: serde_json::json!({
                "url": "http://a.test/", "method": "POST", "body": "one\n\ntwo",
                "headers": {"x-a": "b", "authorization": "Bearer abcdef123456"},
            }),
            locations: vec![],
            waits: false,
            transcript_id: None,
        };
        let done = make_call_end(status, vec![], None);
        let sent = match is_shown {
            true => {
                "  POST http://a.test/\n  x-a: b\n  authorization: [redacted]\n\n  one\n\n  two\n"
            }
            false => "",
        };
        let events = vec![begun, done, make_run_end(RunOutcome::Completed)];
        check_events(events, exit, "", &format!("{mark} POST\n{sent}"));
    }
}

#[test]
fn notes_about_command_and_its_failure_are_shown() {
    let make_begun = |kind: ToolKind| EventKind::ToolStarted {
        call: "c".to_owned(),
        name: "Bash".to_owned(),
        title: "make".to_owned(),
        kind,
        input: serde_json::Value::Null,
        locations: vec![],
        waits: false,
        transcript_id: None,
    };
    let note = "`.vscode` was moved to quarantine";
    let noted = format!("● make\n  {note}\n");
    let long = "line\n".repeat(OUTPUT_LINES_MAX + 1);
    let failed = serde_json::json!({"exit_code": 2, "stdout": long, "stderr": " "});
    let cut = "  … 1 line before; --verbose shows all\n";
    let lines = "  line\n".repeat(OUTPUT_LINES_MAX);
    let shown = format!("✗ make (exit code 2)\n{cut}{lines}");
    let passed = serde_json::json!({"exit_code": 0, "stdout": long, "stderr": "1\n2\nOK\n"});
    let ends = format!("● make\n{cut}{lines}{cut}  2\n  OK\n");
    let both = serde_json::json!({"exit_code": 0, "stdout": "out\n\n", "stderr": "err"});
    let errors = serde_json::json!({"exit_code": 1, "stdout": "out", "stderr": "err\x1b[2J"});
    for (structured, kind, expected) in [
        (serde_json::json!({"notes": [note]}), ToolKind::Execute, noted.as_str()),
        (serde_json::json!({"jobs": [{"notes": [note]}]}), ToolKind::Execute, noted.as_str()),
        (serde_json::json!({"notes": [note]}), ToolKind::Other, "● make\n"),
        (serde_json::json!({"exit_code": 0, "stdout": "x"}), ToolKind::Read, "● make\n"),
        (both, ToolKind::Execute, "● make\n  out\n  err\n"),
        (passed, ToolKind::Execute, ends.as_str()),
        (errors, ToolKind::Execute, "✗ make (exit code 1)\n  out\n  err\\u{1b}[2J\n"),
        (failed, ToolKind::Execute, shown.as_str()),
    ] {
        let mut outcome =
            ToolOutcome::from_content(ToolCallStatus::Completed, vec![], None, vec![]);
        if let ToolOutcome::Result(result) = &mut outcome {
            if let Some(note) = structured["notes"][0].as_str() {
                result.metadata.add_note(note);
            } else {
                result.structured = structured;
            }
        }
        let done = EventKind::tool_ended("c", outcome);
        let events = vec![make_begun(kind), done, make_run_end(RunOutcome::Completed)];
        check_events(events, ExitOutcome::Ok, "", expected);
    }
}

#[test]
fn notes_about_command_are_wrapped_between_words() {
    let stream = Terminal::for_test().err.with_columns(24).without_colours();
    let mut text = String::new();
    push_wrapped(&mut text, &stream, FAINT, "one two three four five six");
    assert_eq!(text, "  one two three four\n  five six\n");
    push_wrapped(&mut text, &Terminal::for_test().err, FAINT, "");
    assert!(text.ends_with("six\n  \n"), "{text:?}");
}

#[test]
fn whole_output_is_shown_on_request() {
    let make_events = || {
        let mut outcome =
            ToolOutcome::from_content(ToolCallStatus::Completed, vec![], None, vec![]);
        if let ToolOutcome::Result(result) = &mut outcome {
            let stdout = (1..=20).map(|line| format!("{line}\n")).collect::<String>();
            result.structured = serde_json::json!({"exit_code": 0, "stdout": stdout});
        }
        let begun = EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "Bash".to_owned(),
            title: "seq".to_owned(),
            kind: ToolKind::Execute,
            input: serde_json::Value::Null,
            locations: vec![],
            waits: false,
            transcript_id: None,
        };
        vec![begun, EventKind::tool_ended("c", outcome), make_run_end(RunOutcome::Completed)]
    };
    let lines = |from: usize| (from..=20).map(|line| format!("  {line}\n")).collect::<String>();
    let cut = format!("● seq\n  … 15 lines before; --verbose shows all\n{}", lines(16));
    check_events(make_events(), ExitOutcome::Ok, "", &cut);
    let details = RunDetails { whole_output: true, ..RunDetails::default() };
    let whole = format!("● seq\n{}", lines(1));
    check_detailed_events(details.clone(), make_events(), ExitOutcome::Ok, "", &whole);
}

#[test]
fn output_of_slash_command_is_shown_once_and_its_failure_fails_the_run() {
    let text = |text: &str| vec![ResultContent::Text { text: text.to_owned() }];
    let make_events = |answer: &str, exit_code: i64| {
        let content = text("out\n");
        let mut outcome =
            ToolOutcome::from_content(ToolCallStatus::Completed, content, None, vec![]);
        if let ToolOutcome::Result(result) = &mut outcome {
            result.structured = serde_json::json!({"exit_code": exit_code, "stdout": "out\n"});
        }
        let answer = match answer {
            "" => join_text(&outcome),
            answer => answer.to_owned(),
        };
        let begun = EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "Bash".to_owned(),
            title: "Run `x`".to_owned(),
            kind: ToolKind::Execute,
            input: serde_json::Value::Null,
            locations: vec![],
            waits: false,
            transcript_id: None,
        };
        let done = EventKind::tool_ended("c", outcome);
        vec![begun, done, make_text(&answer), make_run_end(RunOutcome::Completed)]
    };
    let details = RunDetails { slash_command: true, ..RunDetails::default() };
    let (called, failed) = ("● Run `x`\n", "✗ Run `x` (exit code 3)\n");
    check_detailed_events(details.clone(), make_events("", 0), ExitOutcome::Ok, "out\n", called);
    check_detailed_events(details.clone(), make_events("", 3), ExitOutcome::Error, "out\n", failed);
    // A stored prompt of the user, which the model answers.
    let shown = format!("{called}  out\n");
    check_detailed_events(
        details.clone(),
        make_events("Well.", 0),
        ExitOutcome::Ok,
        "Well.\n",
        &shown,
    );
}

#[test]
fn answer_goes_to_stdout_and_progress_to_stderr() {
    let diff = ResultDisplay::Diff(FileDiff {
        path: "a".to_owned(),
        unified: "@@ -1 +1 @@\n-x\n+y\n".to_owned(),
        old_text: None,
        new_text: None,
        partial: false,
    });
    let done = make_call_end(ToolCallStatus::Completed, vec![], Some(diff));
    check_events(
        vec![
            make_text("I edit"),
            make_text(" it."),
            make_call_started("c"),
            done,
            make_text("Done.\n"),
            make_run_end(RunOutcome::Completed),
        ],
        ExitOutcome::Ok,
        "I edit it.\nDone.\n",
        "● Edit `a`\n@@ -1 +1 @@\n-x\n+y\n",
    );
}

#[test]
fn answer_is_rendered_on_terminal_unless_plain() {
    let text = "# Head\n\nSome **bold** text.\n";
    let rendered = "\x1b[1m\x1b[4mHead\x1b[0m\n\nSome \x1b[1mbold\x1b[0m text.\n";
    for (plain, model, expected) in
        [(false, "m", rendered), (true, "m", text), (false, DIRECT, text)]
    {
        let mut terminal = Terminal::for_test();
        terminal.out = terminal.out.with_columns(80);
        let details = RunDetails { plain, ..RunDetails::default() };
        let counter = ElapsedCounter::new(&terminal.err);
        let mut printer = RunPrinter::new(&terminal, OutputFormat::Text, details, counter);
        let started = EventKind::RunStarted {
            agent: "main".to_owned(),
            model: model.to_owned(),
            parent: None,
        };
        printer.print_event(&make_event(started)).unwrap();
        for piece in text.split_inclusive(' ') {
            printer.print_event(&make_event(make_text(piece))).unwrap();
        }
        printer.print_event(&make_event(make_run_end(RunOutcome::Completed))).unwrap();
        assert_eq!(terminal.out.written_text(), expected, "{plain} {model}");
    }
}

#[test]
fn run_end_sets_exit_code() {
    let text = |text: &str| vec![ResultContent::Text { text: text.to_owned() }];
    let denied = make_call_end(ToolCallStatus::Denied, text("Edit `a`: denied by a rule"), None);
    check_events(
        vec![make_call_started("c"), denied, make_text("no"), make_run_end(RunOutcome::Completed)],
        ExitOutcome::Denied,
        "no\n",
        "⊘ Edit `a`\n  denied by a rule\n",
    );
    let failed = |words: &str| make_call_end(ToolCallStatus::Failed, text(words), None);
    // The answer to a slash command is printed once, and the run fails.
    check_events(
        vec![
            make_call_started("c"),
            failed("no `a`"),
            make_text("no `a`"),
            make_run_end(RunOutcome::Completed),
        ],
        ExitOutcome::Error,
        "",
        "✗ Edit `a`\n  no `a`\n",
    );
    check_events(
        vec![
            make_call_started("c"),
            failed("no `a`"),
            make_text("Never mind."),
            make_run_end(RunOutcome::Completed),
        ],
        ExitOutcome::Ok,
        "Never mind.\n",
        "✗ Edit `a`\n  no `a`\n",
    );
    let long = "line\n".repeat(ERROR_LINES_MAX + 1);
    let shown = "  line\n".repeat(ERROR_LINES_MAX);
    check_events(
        vec![
            make_call_started("c"),
            failed(&long),
            make_text(&long),
            make_run_end(RunOutcome::Completed),
        ],
        ExitOutcome::Ok,
        &long,
        &format!("✗ Edit `a`\n{shown}  … 1 line more; --json shows all\n"),
    );
    check_events(
        vec![make_run_end(RunOutcome::Failed {
            kind: "auth".to_owned(),
            message: "no key".to_owned(),
        })],
        ExitOutcome::Error,
        "",
        "error: no key\n",
    );
    check_events(
        vec![make_text("half"), make_run_end(RunOutcome::Aborted { by: "rpc".to_owned() })],
        ExitOutcome::Interrupted,
        "half\n",
        "error: stopped\n",
    );
}
