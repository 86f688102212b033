//! The note about changes of a command that cannot be undone.

use zero_sandbox::command_capture::CaptureOutcome;

/// Most reasons that a note has.
const REASONS_MAX: usize = 3;

/// A note about changes that cannot be undone, or not for long, if there are any.
pub(crate) fn describe_losses(outcome: &CaptureOutcome) -> Vec<String> {
    let excess = outcome.totals.excess.as_ref().zip(outcome.id).map(|(why, id)| {
        format!("undo: this command's changes can be undone only now, with `zero undo {id}`: {why}")
    });
    excess.into_iter().chain(describe_lost(outcome)).collect()
}

fn describe_lost(outcome: &CaptureOutcome) -> Option<String> {
    let losses = &outcome.totals.losses;
    let named: Vec<&str> = losses.iter().take(REASONS_MAX).map(String::as_str).collect();
    let more = match losses.len().saturating_sub(REASONS_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let what = match outcome.id {
        Some(_) => "some of this command's changes cannot be undone",
        None => "this command's changes cannot be undone",
    };
    (!named.is_empty()).then(|| format!("undo: {what}: {}{more}", named.join("; ")))
}
