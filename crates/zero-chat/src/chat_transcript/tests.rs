//! What a session looks like, and what it never does to a terminal.

mod event_samples;
mod hostile_events;

use zero_core::event::{PlanEntry, RunOutcome, ToolCallStatus};
use zero_core::{CallProgress, ErrorReason, ErrorType, ToolError, ToolKind, ToolResult};
use zero_terminal::Terminal;

use self::event_samples::*;
use super::*;
use crate::styled_row::row_columns;

fn make_stream(columns: usize) -> TerminalStream {
    Terminal::for_test().out.with_columns(columns).without_colours()
}

/// Everything that the events give, with the rest.
fn render_on(stream: &TerminalStream, options: ViewOptions, events: &[Event]) -> String {
    let mut transcript = ChatTranscript::new(stream, options);
    let mut shown: String = events.iter().map(|event| transcript.apply(event)).collect();
    shown.push_str(&transcript.finish());
    shown
}

fn render(events: &[Event]) -> String {
    render_on(&make_stream(80), ViewOptions::default(), events)
}

/// The same events in each of the views.
fn render_views(events: &[Event]) -> String {
    let coloured = Terminal::for_test().out.with_columns(80);
    let usual = ViewOptions::default();
    let plain = ViewOptions { plain: true, ..usual };
    let whole = ViewOptions { thoughts: true, whole_output: true, ..usual };
    let views = [
        ("80 columns", render_on(&make_stream(80), usual, events)),
        ("24 columns", render_on(&make_stream(24), usual, events)),
        ("colours", render_on(&coloured, usual, events).replace('\x1b', "^")),
        ("plain", render_on(&make_stream(80), plain, events)),
        ("thoughts and whole output", render_on(&make_stream(80), whole, events)),
    ];
    let views = views.map(|(name, shown)| format!("=== {name} ===\n{shown}"));
    views.join("\n")
}

fn live_rows(events: &[Event], columns: usize, rows_max: usize, now_ms: i64) -> String {
    let mut transcript = ChatTranscript::new(&make_stream(columns), ViewOptions::default());
    for event in events {
        transcript.apply(event);
    }
    transcript.live_rows(columns, rows_max, now_ms).join("\n")
}

#[test]
fn conversation_is_shown() {
    insta::assert_snapshot!(render_views(&conversation()));
}

#[test]
fn calls_are_shown() {
    insta::assert_snapshot!(render_views(&calls()));
}

#[test]
fn plans_and_notices_are_shown() {
    insta::assert_snapshot!(render_views(&plans_and_notices()));
}

#[test]
fn ends_of_runs_are_shown() {
    insta::assert_snapshot!(render_views(&run_ends()));
}

#[test]
fn pages_show_everything_in_rows_that_fit() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    let all = [conversation(), calls(), plans_and_notices(), unfinished()].concat();
    for event in &all {
        transcript.apply(event);
    }
    transcript.finish();
    let all_rows = |columns: usize| -> Vec<String> {
        let numbers = transcript.first_number()..=transcript.end_number();
        numbers.flat_map(|number| transcript.numbered_rows(number, columns, Fold::Open)).collect()
    };
    insta::assert_snapshot!(all_rows(80).join("\n"));
    for columns in [8, 24, 80] {
        let rows = all_rows(columns);
        let widest = rows.iter().map(|row| row_columns(row)).max();
        assert!(widest <= Some(columns), "{widest:?}");
    }
}

#[test]
fn live_rows_show_what_is_not_finished() {
    let events = unfinished();
    let views = [(80, 20), (24, 20), (80, 4), (80, 1)].map(|(columns, rows_max)| {
        let rows = live_rows(&events, columns, rows_max, 12_000);
        format!("=== {columns} columns, {rows_max} rows ===\n{rows}\n")
    });
    insta::assert_snapshot!(views.join("\n"));
    assert_eq!(live_rows(&events, 80, 0, 12_000), "");
}

#[test]
fn live_text_is_only_what_was_not_returned() {
    let events = [run_started("m"), text("One two.\n\nThree **fo")];
    assert_eq!(live_rows(&events, 80, 5, 0), "Three **fo");
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&events[0]);
    assert_eq!(transcript.apply(&events[1]), "One two.\n");
    assert_eq!(transcript.apply(&text("ur**.")), "");
    assert_eq!(transcript.live_rows(80, 5, 0), ["Three **four**."]);
    assert_eq!(transcript.last_answer(), Some("One two.\n\nThree **four**."));
    assert_eq!(transcript.apply(&run_ended(RunOutcome::Completed)), "\nThree **four**.\n");
    assert!(transcript.live_rows(80, 5, 0).is_empty());
}

#[test]
fn unfinished_thought_counts_its_seconds() {
    let events = [run_started("m"), at(1_000, thought("Hm."))];
    assert_eq!(live_rows(&events, 80, 5, 13_000), "✻ thinking (12 s)");
    let shown = render(&[run_started("m"), at(1_000, thought("Hm.")), at(13_500, text("Yes."))]);
    assert_eq!(shown, "✻ thought for 12 s\n\nYes.\n");
}

#[test]
fn answers_cannot_begin_with_marks() {
    let hostile = "• Run `ls`\n✗ failed\n\n* item\n\n> quoted\n\n```\n⊘ denied\n```\n\n› me\n";
    let shown = render(&[run_started("m"), text(hostile)]);
    assert_eq!(shown, "  • Run `ls`\n  ✗ failed\n\n- item\n\n│ quoted\n\n  ⊘ denied\n\n  › me\n");
    let plain = ViewOptions { plain: true, ..ViewOptions::default() };
    let events = [run_started("m"), text("[done] x\n[a] y\n")];
    assert_eq!(render_on(&make_stream(80), plain, &events), "  [done] x\n[a] y\n");
}

#[test]
fn untrusted_text_is_escaped_everywhere() {
    let bad = "a\u{1b}[2J\u{202e}\u{200b}\r\u{7}";
    let failed = ToolError::failed(ErrorReason::Io, bad);
    let shown = render(&[
        prompt(bad),
        run_started("m"),
        thought(bad),
        text(bad),
        call_started("c", bad, ToolKind::Execute),
        call_ended("c", failed.into()),
        plan(&[(bad, "pending")]),
        notice(bad),
        run_ended(RunOutcome::Failed { kind: "x".to_owned(), message: bad.to_owned() }),
    ]);
    assert_eq!(shown.matches("a\\u{1b}[2J\\u{202e}\\u{200b}\\r\\u{7}").count(), 6, "{shown}");
}

#[test]
fn long_lines_of_output_and_code_are_not_wrapped_but_cut() {
    let line = "x".repeat(300);
    let shown = render(&[
        run_started("m"),
        text(&format!("```\n{line}\n```\n")),
        call_started("c", "Run", ToolKind::Execute),
        call_ended("c", output(&line, "", 0)),
    ]);
    assert_eq!(shown, format!("  {line}\n\n• Run\n    {line}\n"));
    let long = "y".repeat(20_000);
    let events =
        [call_started("c", "Run", ToolKind::Execute), call_ended("c", output(&long, "", 0))];
    let longest = |shown: &str| shown.lines().map(|line| line.chars().count()).max();
    // Of the last lines, as much as does not fill the screen.
    let cut = render(&events);
    assert_eq!(longest(&cut), Some(4 + 400 + 1));
    assert!(cut.ends_with("y…\n    … long lines are cut (Ctrl-T shows all)\n"), "{cut}");
    let whole = ViewOptions { whole_output: true, ..ViewOptions::default() };
    let whole = render_on(&make_stream(80), whole, &events);
    assert_eq!(longest(&whole), Some(10_000));
    assert!(whole.ends_with("y…\n"));
}

#[test]
fn long_line_of_a_prompt_does_not_fill_the_scrollback() {
    let long = render(&[prompt(&"z".repeat(100_000))]);
    assert!(long.len() < 5_000, "{}", long.len());
    assert!(long.ends_with("z…\n  … the rest is cut (Ctrl-T shows all)\n"));
}

#[test]
fn wrapped_lines_cannot_continue_with_marks() {
    // Each line is as wide as the window where the mark follows.
    let after = |indent: usize, text: &str| format!("{}{text}", "a".repeat(40 - indent));
    let diff = format!("@@ -1 +1,2 @@\n {}\n+{}\n", after(5, "• Run `x`"), after(5, "› me"));
    let code = format!("```\n{}\n```\n\n", after(2, "✗ Run `x`"));
    let events = [
        prompt(&after(2, "■ done")),
        run_started("m"),
        thought(&after(2, "? Write")),
        text(&format!("{code}{}\n\n| a |\n|---|\n| b |\n", after(0, "⊘ Run"))),
        call_started("c", "Edit", ToolKind::Edit),
        call_ended("c", change("x.rs", &diff)),
        call_started("d", "Run", ToolKind::Execute),
        call_ended("d", output(&after(4, "! note"), &after(4, "◦ Run"), 1)),
        notice(&after(2, "› me")),
    ];
    let coloured = Terminal::for_test().out.with_columns(40);
    for stream in [make_stream(40), coloured] {
        let all = ViewOptions { thoughts: true, ..ViewOptions::default() };
        let shown = render_on(&stream, all, &events);
        // As a terminal wraps it.
        let mut screen = vt100::Parser::new(60, 40, 0);
        screen.process(shown.replace('\n', "\r\n").as_bytes());
        let begins =
            |row: &String| row.chars().next().is_some_and(|letter| "•›✗■?⊘!◦".contains(letter));
        let own: Vec<String> = screen.screen().rows(0, 40).filter(begins).collect();
        let words: Vec<&str> = own.iter().map(|row| row.get(..row.len().min(6)).unwrap()).collect();
        assert_eq!(words, ["› aa", "• Ed", "✗ Ru", "! aaaa"], "{}", screen.screen().contents());
    }
}

#[test]
fn direct_run_shows_output_once_and_not_as_markdown() {
    let shown = render(&[
        prompt("/bash ls"),
        run_started("direct"),
        call_started("c", "Run `ls`", ToolKind::Execute),
        call_ended("c", output("*a*\n", "", 0)),
        text("*a*\n"),
        run_ended(RunOutcome::Completed),
    ]);
    assert_eq!(shown, "› /bash ls\n\n• Run `ls`\n\n*a*\n");
}

#[test]
fn slash_command_shows_repeated_output_once() {
    let run = |answer: &str| {
        render(&[
            prompt("/bash ls"),
            run_started("m"),
            call_started("c", "Run `ls`", ToolKind::Execute),
            call_ended("c", output("*a*\n", "", 0)),
            text(answer),
            run_ended(RunOutcome::Completed),
        ])
    };
    assert_eq!(run("*a*\n"), "› /bash ls\n\n• Run `ls`\n\n*a*\n");
    // A stored prompt of the user, which the model answers.
    assert_eq!(run("Well."), "› /bash ls\n\n• Run `ls`\n    *a*\n\nWell.\n");
    let failed = ToolError::failed(ErrorReason::Io, "no `a`");
    let shown = render(&[
        prompt("/read a"),
        run_started("m"),
        call_started("c", "Read `a`", ToolKind::Read),
        call_ended("c", failed.into()),
        text("no `a`"),
        run_ended(RunOutcome::Completed),
    ]);
    assert_eq!(shown, "› /read a\n\n✗ Read `a`\n    no `a`\n");
}

#[test]
fn queued_prompt_is_shown_when_its_run_starts() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&prompt("one"));
    assert!(transcript.is_running());
    transcript.apply(&run_started("m"));
    transcript.apply(&text("Half a "));
    assert_eq!(transcript.apply(&in_run("r2", prompt("two"))), "");
    assert_eq!(transcript.live_rows(80, 5, 0), ["Half a", "› two (queued)"]);
    assert_eq!(transcript.apply(&text("sentence.")), "");
    assert_eq!(transcript.apply(&run_ended(RunOutcome::Completed)), "\nHalf a sentence.\n");
    assert!(transcript.is_running());
    assert_eq!(transcript.apply(&in_run("r2", run_started("m"))), "\n› two\n");
    transcript.apply(&in_run("r2", run_ended(RunOutcome::Completed)));
    assert!(!transcript.is_running());
}

#[test]
fn cancelled_prompt_leaves_current_run_running() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&run_started("m"));
    transcript.apply(&in_run("r2", prompt("two")));
    let aborted = RunOutcome::Aborted { by: "rpc".to_owned() };
    assert_eq!(transcript.apply(&in_run("r2", run_ended(aborted))), "› two\n\n■ stopped\n");
    assert!(transcript.is_running());
}

#[test]
fn lost_connection_ends_everything() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    for event in unfinished() {
        transcript.apply(&event);
    }
    insta::assert_snapshot!(transcript.finish());
    assert!(!transcript.is_running());
    assert!(transcript.live_rows(80, 10, 0).is_empty());
    assert_eq!(transcript.finish(), "");
}

#[test]
fn rejection_has_a_message_for_the_user() {
    let stream = make_stream(80);
    let transcript = ChatTranscript::new(&stream, ViewOptions::default());
    let mut transcript = transcript.with_error_text(|message| {
        message.replace("the user rejected this call.", "rejected").into()
    });
    let denied = ToolError::new(
        ErrorType::PermissionDenied,
        ErrorReason::Rejected,
        "Write `a`: the user rejected this call.",
    );
    transcript.apply(&call_started("c", "Write `a`", ToolKind::Edit));
    let shown = transcript.apply(&call_ended("c", denied.into()));
    assert_eq!(shown, "⊘ Write `a`\n    rejected\n");
}

#[test]
fn prompt_that_is_shown_as_queued_needs_no_notice() {
    let waits = || in_run("r2", waits_for_others("waits for one other in this session"));
    for (plain, expected) in [(false, ""), (true, "[note] waits for one other in this session\n")] {
        let options = ViewOptions { plain, ..ViewOptions::default() };
        let mut transcript = ChatTranscript::new(&make_stream(80), options);
        transcript.apply(&prompt("one"));
        transcript.apply(&run_started("m"));
        transcript.apply(&in_run("r2", prompt("two")));
        let shown = transcript.apply(&waits());
        assert!(shown.ends_with(expected) && shown.is_empty() != plain, "{shown}");
    }
    // A run that waits for those of other sessions is below no other.
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&in_run("r2", prompt("two")));
    assert!(transcript.apply(&waits()).contains("! waits for one other"));
}

#[test]
fn question_asked_where_the_call_runs_does_not_count() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&call_started("c", "Run `ls`", ToolKind::Execute));
    transcript.exclude_waiting("c", 60_000);
    let shown = transcript.apply(&at(64_000, call_ended("c", output("", "", 0))));
    assert_eq!(shown, "• Run `ls`\n");
}

#[test]
fn command_of_the_chat_is_above_its_output() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    let shown = ["/usage", "/jobs"]
        .map(|command| transcript.add_command(command) + &transcript.add_printed("rows"));
    assert_eq!(shown.concat(), "› /usage\n\nrows\n\n› /jobs\n\nrows\n");
}

#[test]
fn long_output_of_a_command_waits_for_the_end_of_the_answer_and_says_so() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&run_started("m"));
    transcript.apply(&text("An answer "));
    assert_eq!(transcript.add_printed("1\n2\n3\n4\n5\n"), "");
    let live = ["An answer", "1", "2", "3", "… more follows the answer"];
    assert_eq!(transcript.live_rows(80, 8, 0), live);
    let shown = transcript.apply(&run_ended(RunOutcome::Completed));
    assert_eq!(shown, "An answer\n\n1\n2\n3\n4\n5\n");
}

#[test]
fn blank_line_separates_a_call_from_the_question_about_it() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    let read = [call_started("c", "Read `a`", ToolKind::Read), call_ended("c", output("", "", 0))];
    let shown: String = read.iter().map(|event| transcript.apply(event)).collect();
    assert_eq!(shown, "• Read `a`\n");
    transcript.apply(&call_started("d", "Run `b`", ToolKind::Execute));
    transcript.note_question();
    assert_eq!(transcript.apply(&call_ended("d", output("", "", 0))), "\n• Run `b`\n");
}

#[test]
fn approval_time_does_not_count() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&call_started("c", "Run `ls`", ToolKind::Execute));
    transcript.apply(&at(1_000, approval_requested("c")));
    assert_eq!(transcript.live_rows(80, 5, 30_000), ["? Run `ls` (needs your approval)"]);
    transcript.apply(&at(60_000, approval_resolved()));
    assert_eq!(transcript.live_rows(80, 5, 63_000), ["◦ Run `ls` (3 s)"]);
    let shown = transcript.apply(&at(64_000, call_ended("c", output("", "", 0))));
    assert_eq!(shown, "• Run `ls`\n");
}

#[test]
fn call_that_waits_counts_from_its_beginning() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    transcript.apply(&waiting_call("c", "Read `a`"));
    assert_eq!(transcript.live_rows(80, 5, 9_000), ["◦ Read `a` (waiting)"]);
    transcript.apply(&at(10_000, call_begins("c")));
    let half = CallProgress { message: "one\n\ntwo".to_owned(), percentage: Some(50) };
    transcript.apply(&call_progress("c", half));
    assert_eq!(
        transcript.live_rows(80, 5, 12_000),
        ["◦ Read `a` (2 s, 50 %)", "    one", "    two"]
    );
}

#[test]
fn usage_and_model_follow_events() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    assert_eq!((transcript.model(), transcript.usage()), (None, SessionUsage::default()));
    transcript.apply(&run_started("m"));
    transcript.apply(&usage_reported(100, 1_000));
    assert_eq!(transcript.usage().context_tokens, 100);
    transcript.apply(&call_started("t", "Task", ToolKind::Think));
    transcript.apply(&fallback());
    assert_eq!(transcript.model(), Some("small"));
    transcript.apply(&compacted());
    assert_eq!((transcript.usage().context_tokens, transcript.usage().context_window), (20, 1_000));
    transcript.apply(&changed("model", None));
    assert_eq!(transcript.model(), None);
    let shown = transcript.apply(&changed("title", Some("A title")));
    assert_eq!(shown, "");
}

#[test]
fn unchanged_plan_is_shown_once() {
    let one = plan(&[("a", "pending")]);
    assert_eq!(render(&[one.clone(), one]), "  · a\n");
    let done = render(&[plan(&[("a", "pending")]), plan(&[("a", "completed")])]);
    assert_eq!(done, "  · a\n\n  ✓ a\n");
}

#[test]
fn old_cells_are_dropped() {
    let mut transcript = ChatTranscript::new(&make_stream(80), ViewOptions::default());
    for number in 0..CELLS_MAX + 10 {
        transcript.apply(&notice(&number.to_string()));
    }
    assert_eq!(transcript.cells().count(), CELLS_MAX);
    assert_eq!(transcript.cells().next(), Some(&Cell::notice("10")));
    let long = thought(&"x".repeat(64 * 1024));
    for _ in 0..1_100 {
        transcript.apply(&long);
        transcript.apply(&notice("."));
    }
    assert!(transcript.finished_bytes <= CELLS_BYTES_MAX);
    assert!(transcript.cells().count() < 2_100);
}

#[test]
fn call_whose_start_was_not_seen_is_shown_by_its_id() {
    let shown = render(&[call_ended("c7", ToolResult::text("x").into())]);
    assert_eq!(shown, "• c7\n");
}

#[test]
fn status_of_older_ledgers_is_shown() {
    let mut event = call_ended("c", ToolResult::text("x").into());
    if let EventKind::ToolEnded { status, .. } = &mut event.kind {
        *status = ToolCallStatus::Cancelled;
    }
    assert_eq!(render(&[event]), "■ c (stopped)\n");
}

#[test]
fn current_step_is_shown_while_a_run_works_on_it() {
    let entry = PlanEntry {
        content: "x".to_owned(),
        priority: "high".to_owned(),
        status: "in_progress".to_owned(),
    };
    let event = make_event(EventKind::Plan { entries: vec![entry] });
    // Without a run, no step is in progress.
    assert_eq!(live_rows(std::slice::from_ref(&event), 80, 5, 0), "");
    assert_eq!(live_rows(&[run_started("m"), event], 80, 5, 0), "▸ 1/1 x");
}
