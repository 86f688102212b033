//! The end of a run in one line, and how times and costs are written.

use zero_core::event::RunOutcome;
use zero_terminal::{BAD, FAINT, NOTABLE};

use super::row_writer::RowWriter;
use crate::cell::RunEndCell;

/// Shortest duration of a run or call that is shown, in milliseconds.
pub(crate) const NOTED_MS_MIN: u64 = 5_000;

/// Adds the end of a run; nothing if it is a short one that succeeded.
pub(super) fn push_run_end(writer: &mut RowWriter<'_>, cell: &RunEndCell) {
    let details = describe_usage(cell);
    let mark = writer.marks.run_end;
    let Some(problem) = describe_problem(&cell.end) else {
        if !details.is_empty() {
            writer.push_marked(mark, FAINT, FAINT, &format!("done in {details}"));
        }
        return;
    };
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    let style = match cell.end {
        RunOutcome::Failed { .. } | RunOutcome::Refused { .. } => BAD,
        _ => NOTABLE,
    };
    writer.push_marked(mark, style, FAINT, &format!("{problem}{details}"));
}

/// Time and cost of a run that took long.
fn describe_usage(cell: &RunEndCell) -> String {
    if cell.elapsed_ms < NOTED_MS_MIN {
        return String::new();
    }
    let time = format_elapsed(cell.elapsed_ms);
    match cell.usage.cost_usd {
        Some(cost) => format!("{time}, {}", format_cost(cost)),
        None => time,
    }
}

/// How a run ended and what to do next; `None` if it succeeded.
fn describe_problem(end: &RunOutcome) -> Option<String> {
    Some(match end {
        RunOutcome::Completed => return None,
        RunOutcome::MaxTokens => {
            "output limit reached, the reply is cut off; to go on, send \"continue\"".to_owned()
        }
        RunOutcome::MaxTurns { turns } => format!(
            "the run reached its limit of {turns} model requests; to go on, send \"continue\", or raise `maxTurns` of the agent"
        ),
        RunOutcome::Budget { message } => format!("budget: {message}"),
        RunOutcome::Refused { message } => format!("the model refused: {message}"),
        RunOutcome::Aborted { by } => match by.as_str() {
            "loop_guard" => "stopped: the model kept repeating the same calls",
            "timeout" => "stopped: the run took too long",
            "shutdown" => "stopped: the gateway is shutting down; send the prompt again later",
            "reset" | "delete" => "stopped: the session was reset or deleted",
            _ => "stopped",
        }
        .to_owned(),
        RunOutcome::Failed { message, .. } => format!("error: {message}"),
        RunOutcome::Interrupted => {
            "zero exited before the run ended; to go on, send \"continue\"".to_owned()
        }
    })
}

/// A time in its two largest units.
pub(crate) fn format_elapsed(elapsed_ms: u64) -> String {
    let secs = elapsed_ms / 1_000;
    match secs {
        0..60 => format!("{secs} s"),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        _ => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
    }
}

/// A cost in US dollars.
pub(crate) fn format_cost(cost_usd: f64) -> String {
    if cost_usd < 1.0 { format!("${cost_usd:.4}") } else { format!("${cost_usd:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_has_two_units() {
        for (elapsed_ms, expected) in [
            (999, "0 s"),
            (59_999, "59 s"),
            (72_000, "1 min 12 s"),
            (3_600_000, "1 h 0 min"),
            (u64::MAX, "5124095576030 h 25 min"),
        ] {
            assert_eq!(format_elapsed(elapsed_ms), expected);
        }
        assert_eq!(
            (format_cost(0.04211), format_cost(12.345)),
            ("$0.0421".into(), "$12.35".into())
        );
    }
}
