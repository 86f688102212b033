//! Whatever events hold, the terminal only gets text and styles.

use proptest::prelude::*;
use zero_core::event::RunOutcome;
use zero_core::sanitize::is_safe_in_prose;
use zero_core::{
    CallProgress, ErrorReason, FileDiff, ResultDisplay, ToolError, ToolKind, ToolResult,
};
use zero_terminal::{Terminal, text_columns};

use super::super::*;
use super::event_samples::*;
use crate::styled_row::row_text;

/// Pieces that texts are made of.
const FRAGMENTS: &[&str] = &[
    "\u{1b}[2J",
    "\u{1b}]0;x\u{7}",
    "\u{9b}31m",
    "\r",
    "\n",
    "\n\n",
    "\t",
    "\u{202e}",
    "\u{200b}",
    "• ",
    "✗ ",
    "⊘",
    "› ",
    "◦ ",
    "? ",
    "! ",
    "[done] ",
    "■",
    "* ",
    "- ",
    "> ",
    "```\n",
    "`",
    "**",
    "| a | b |\n|-|-|\n",
    "# ",
    "&#27;[1m",
    "&#8226; x",
    "<b>",
    "[a](b)",
    "界",
    "é",
    "\u{301}",
    "\u{26a0}\u{fe0f}",
    "👨\u{200d}👩",
    "word ",
    "a",
    "\0",
    "\u{7f}",
    "+x\n",
    "-y\n",
    "@@ ",
    "/",
    "1. ",
    "    ",
    "~~~",
    "\u{2028}",
    "\u{feff}",
];

fn any_text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        8 => proptest::sample::select(FRAGMENTS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-z ]{1,40}",
    ];
    proptest::collection::vec(fragment, 0..20).prop_map(|fragments| fragments.concat())
}

fn any_outcome() -> impl Strategy<Value = ToolOutcome> {
    prop_oneof![
        (any_text(), any_text(), 0..2_i64).prop_map(|(out, err, code)| output(&out, &err, code)),
        any_text().prop_map(|text| ToolError::failed(ErrorReason::Io, text).into()),
        any_text().prop_map(|text| {
            let diff = ResultDisplay::Diff(FileDiff {
                path: String::new(),
                unified: text,
                old_text: None,
                new_text: None,
                partial: true,
            });
            ToolResult { display: diff, ..ToolResult::text("") }.into()
        }),
        any_text().prop_map(|text| {
            let display = ResultDisplay::markdown(text);
            ToolResult { display, ..ToolResult::text("") }.into()
        }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let call = || proptest::sample::select(&["a", "b", "c"][..]);
    let kind = proptest::sample::select(&[ToolKind::Execute, ToolKind::Fetch, ToolKind::Read][..]);
    let status = proptest::sample::select(&["pending", "in_progress", "completed"][..]);
    let event = prop_oneof![
        2 => any_text().prop_map(|text| prompt(&text)),
        1 => any_text().prop_map(|model| run_started(&model)),
        1 => Just(run_started("direct")),
        8 => any_text().prop_map(|it| text(&it)),
        4 => any_text().prop_map(|text| thought(&text)),
        4 => (call(), any_text(), kind).prop_map(|(id, title, kind)| call_started(id, &title, kind)),
        1 => (call(), any_text()).prop_map(|(id, title)| waiting_call(id, &title)),
        1 => call().prop_map(call_begins),
        3 => (call(), any_text()).prop_map(|(id, text)| call_progress(id, CallProgress::new(text))),
        5 => (call(), any_outcome()).prop_map(|(id, outcome)| call_ended(id, outcome)),
        1 => (any_text(), status).prop_map(|(text, status)| plan(&[(&text, status)])),
        1 => any_text().prop_map(|text| notice(&text)),
        1 => call().prop_map(approval_requested),
        1 => Just(approval_resolved()),
        1 => Just(compacted()),
        1 => any_text().prop_map(|text| changed("model", Some(&text))),
        1 => any_text().prop_map(|message| {
            run_ended(RunOutcome::Failed { kind: String::new(), message })
        }),
        1 => Just(run_ended(RunOutcome::Completed)),
    ];
    let run = proptest::sample::select(&["r1", "r2"][..]);
    (event, any::<i64>(), run).prop_map(|(event, time_ms, run)| in_run(run, at(time_ms, event)))
}

fn any_options() -> impl Strategy<Value = ViewOptions> {
    any::<(bool, bool, bool)>().prop_map(|(thoughts, whole_output, plain)| ViewOptions {
        raw: false,
        ascii: false,
        thoughts,
        whole_output,
        plain,
    })
}

/// Joins emoji; the tests of `escape_prose` say between which letters it stays.
const JOINER: char = '\u{200D}';

/// Fails unless the text has only characters that are drawn, line breaks and styles.
fn check_harmless(text: &str) -> Result<(), TestCaseError> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        prop_assert!(
            before.chars().all(|c| c == '\n' || is_safe_in_prose(c) || c == JOINER),
            "{text:?}"
        );
        let style = after.split_once('m').map(|(style, _)| style).unwrap_or("?");
        let is_style = style.strip_prefix('[').is_some_and(|style| {
            style.len() < 16 && style.bytes().all(|b| b.is_ascii_digit() || b == b';')
        });
        prop_assert!(is_style, "{text:?}");
        rest = after;
    }
    prop_assert!(rest.chars().all(|c| c == '\n' || is_safe_in_prose(c) || c == JOINER), "{text:?}");
    prop_assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_never_control_the_terminal_and_live_rows_fit(
        events in proptest::collection::vec(any_event(), 0..30),
        options in any_options(),
        coloured in any::<bool>(),
        columns in 1..130_usize,
        rows_max in 0..12_usize,
    ) {
        let stream = Terminal::for_test().out.with_columns(columns);
        let stream = if coloured { stream } else { stream.without_colours() };
        let mut transcript = ChatTranscript::new(&stream, options);
        for event in &events {
            check_harmless(&transcript.apply(event))?;
            let rows = transcript.live_rows(columns, rows_max, event.time_ms);
            prop_assert!(rows.len() <= rows_max);
            for row in rows {
                check_harmless(&format!("{row}\n"))?;
                prop_assert!(!row.contains('\n'), "{row:?}");
                prop_assert!(text_columns(&row_text(&row)) <= columns, "{columns}: {row:?}");
            }
        }
        for cell in transcript.cells() {
            for row in render_cell(cell, &stream, columns, options, Fold::Open) {
                prop_assert!(!row.contains('\n'), "{row:?}");
                check_harmless(&format!("{row}\n"))?;
                for part in crate::wrap_row(&row, columns) {
                    prop_assert!(text_columns(&row_text(&part)) <= columns.max(8), "{part:?}");
                }
            }
        }
        check_harmless(&transcript.finish())?;
    }

    #[test]
    fn answers_and_output_never_begin_as_zeros_own_rows(
        texts in proptest::collection::vec(any_text(), 1..6),
        output_text in any_text(),
        plain in any::<bool>(),
    ) {
        let options = ViewOptions { plain, whole_output: true, ..ViewOptions::default() };
        let marks = ["›", "•", "✗", "⊘", "◦", "■", "✻", "? ", "! ", "[done]"];
        let stream = Terminal::for_test().out.with_columns(40).without_colours();
        let mut transcript = ChatTranscript::new(&stream, options);
        let mut shown = transcript.apply(&run_started("m"));
        shown.extend(texts.iter().map(|it| transcript.apply(&text(it))));
        shown.push_str(&transcript.finish());
        for row in shown.lines() {
            let is_mark = |mark: &str| row.starts_with(mark) && (plain == mark.starts_with('['));
            prop_assert!(!marks.iter().any(|mark| is_mark(mark)), "{row:?}");
        }
        let mut transcript = ChatTranscript::new(&stream, options);
        transcript.apply(&call_started("c", "title", ToolKind::Execute));
        let shown = transcript.apply(&call_ended("c", output(&output_text, "", 0)));
        for row in shown.lines().skip(1) {
            prop_assert!(row.is_empty() || row.starts_with("    "), "{row:?}");
        }
    }
}
