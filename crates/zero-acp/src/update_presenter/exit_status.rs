//! How a command ended, as far as its result says so. The result is words: what it wrote, and after
//! that notes, one line each, in parentheses.

use serde_json::Value;
use zero_core::event::ToolCallStatus;

use super::call_content::CallResultView;

/// Lines at the end of a result among which notes are looked for.
const NOTES_MAX: usize = 20;

/// The exit code and the signal.
pub(super) fn parse_exit_status(
    outcome: &CallResultView<'_>,
    input: Option<&Value>,
) -> (Option<i64>, Option<String>) {
    let told = outcome.model_text();
    for note in trailing_notes(&told).iter().rev() {
        let note = note.trim_start_matches('(').trim_end_matches(')');
        let (signal, code) = match note.strip_prefix("ended by ") {
            Some(ended) => ended
                .split_once(", ")
                .map_or((None, note), |(signal, code)| (Some(signal.to_owned()), code)),
            None => (None, note),
        };
        if let Some(Ok(code)) = code.strip_prefix("exit code ").map(str::parse) {
            return (Some(code), signal);
        }
    }
    let in_background = |input: &Value| {
        ["run_in_background", "is_background"]
            .iter()
            .any(|name| input.get(name).and_then(Value::as_bool).unwrap_or(false))
    };
    let is_known = outcome.status == ToolCallStatus::Completed && !input.is_some_and(in_background);
    (is_known.then_some(0), None)
}

/// What a result says after what a command wrote.
pub(super) fn trailing_notes(told: &str) -> Vec<&str> {
    let is_note = |line: &&str| line.starts_with('(') && line.ends_with(')');
    let mut notes: Vec<&str> =
        told.trim_end().rsplit('\n').take(NOTES_MAX).take_while(is_note).collect();
    notes.reverse();
    notes
}
