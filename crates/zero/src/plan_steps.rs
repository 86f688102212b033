//! The steps of a plan at the terminal, the same wherever they are shown.

use zero_core::event::PlanEntry;

use crate::terminal::{FAINT, GOOD, NOTABLE, TerminalStream, escape_line};

/// One step, with a mark for how far it is.
pub(crate) fn render_step(stream: &TerminalStream, entry: &PlanEntry) -> String {
    let (mark, style) = match entry.status.as_str() {
        "completed" => ("✓", GOOD),
        "in_progress" => ("▸", NOTABLE),
        _ => ("·", FAINT),
    };
    format!("  {} {}", stream.paint(style, mark), escape_line(&entry.content))
}
