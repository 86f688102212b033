//! Finds commands whose changes were not recorded, because recording is off.

use jiff::Timestamp;
use zero_core::text_shortening::one_line;
use zero_runtime::audit::{AuditLog, AuditRow};
use zero_sandbox::{StateDir, Workspace};

/// The tool that runs commands.
const TOOL: &str = "Bash";
/// Days of the audit log that are searched, newest first.
const DAYS_MAX: usize = 2;
/// Most characters of a command.
const COMMAND_CHARS_MAX: usize = 80;

/// The newest command in a workspace after a time that may have changed something.
pub(super) fn find_newest(
    state: &StateDir,
    workspace: &Workspace,
    after: Timestamp,
) -> Option<String> {
    let audit = AuditLog::new(state);
    let folder = workspace.cwd().display().to_string();
    let mut days = audit.days().ok()?;
    days.sort_unstable();
    let mut newest: Option<(Timestamp, String)> = None;
    for day in days.iter().rev().take(DAYS_MAX) {
        let Ok(mut log) = audit.open_day(day) else { continue };
        let read = log.for_each_row(|row| {
            let is_newer = newest.as_ref().is_none_or(|(time, _)| row.time > *time);
            if row.time > after && is_newer && row.workspace == folder && may_have_changed(&row) {
                let command = row.input.get("command").and_then(|value| value.as_str());
                let command = one_line(command.unwrap_or_default(), COMMAND_CHARS_MAX);
                newest = Some((row.time, command));
            }
        });
        // What cannot be read is not told.
        drop(read);
    }
    newest.map(|(_, command)| command)
}

/// Whether a row is of a command that ran, and that was not found to read only.
fn may_have_changed(row: &AuditRow) -> bool {
    let changes = |kind: &str| kind == "write" || kind == "delete";
    let was_asked = row.decision.as_ref().is_some_and(|decision| decision.verdict == "ask");
    row.tool == TOOL
        && row.is_call()
        && !row.is_begin()
        && matches!(row.status.as_str(), "ok" | "error" | "timeout" | "cancelled")
        && (was_asked || row.effects.iter().any(|effect| changes(&effect.kind)))
}
