//! Formats the steps of a plan for the terminal.

use zero_core::event::PlanEntry;

use crate::terminal::{FAINT, GOOD, NOTABLE, TerminalStream, escape_line};

/// One step as a line, with a mark for its status.
pub(crate) fn render_step(stream: &TerminalStream, entry: &PlanEntry) -> String {
    let (mark, style) = match entry.status.as_str() {
        "completed" => ("✓", GOOD),
        "in_progress" => ("▸", NOTABLE),
        _ => ("·", FAINT),
    };
    format!("  {} {}", stream.paint(style, mark), escape_line(&entry.content))
}
