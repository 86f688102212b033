//! Checks how much of its own data zero has stored, against the limits in the settings.

use zero_core::host_limits::ByteSize;
use zero_sandbox::expiry::ExpiryMode;
use zero_sandbox::{Journal, StateDir};
use zero_settings::WorkspaceSettings;

use super::findings::DoctorReport;
use crate::AppContext;
use crate::data_retention::{DataKind, DataRetention};

const CHECK: &str = "storage";

/// Warns of data that is near its limit, before `zero prune` removes the oldest of it.
pub(super) fn check_stored_data(
    state: &StateDir,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let rules = DataRetention::from_settings(settings);
    for kind in DataKind::ALL {
        let Some(bytes_max) = rules.rules(kind).bytes_max else { continue };
        let (items, key) = (kind.items(), kind.bytes_key());
        let found = match rules.expire(kind, state, ExpiryMode::DryRun) {
            Ok(found) => found,
            Err(error) => {
                let message = format!("the {items} cannot be read: {error}");
                findings.add_warning(CHECK, message, "check the permissions of the state folder");
                continue;
            }
        };
        let bytes = found.removed.bytes.saturating_add(found.kept.bytes);
        let used = format!(
            "the {items} take {} of {} (`{key}`)",
            ByteSize::bytes(bytes),
            ByteSize::bytes(bytes_max)
        );
        match rules.rules(kind).is_near_limit(bytes) {
            true => findings.add_warning(
                CHECK,
                used,
                "raise the limit, or let `zero prune` remove the oldest; `--dry-run` shows how much",
            ),
            false => findings.add_ok(CHECK, used),
        }
    }
}

/// Says how much is kept to undo the commands in this folder.
pub(super) fn check_command_undo(
    app: &AppContext,
    state: &StateDir,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let undo = settings.undo();
    if !undo.commands {
        let message = "changes by commands are not recorded; set `undo.commands` to record them";
        findings.add_ok("undo", message.to_owned());
        return;
    }
    // A folder that cannot be opened has a finding of its own.
    let Ok(workspace) = app.config.open_workspace(&[]) else { return };
    let journal = Journal::new(state, workspace, ByteSize::bytes(0));
    let (commands, bytes) = journal.held_by_commands();
    let (held, most) = (ByteSize::bytes(bytes), undo.limits.bytes_max);
    let message = format!(
        "{commands} commands in this folder can be undone; they take {held} of {most} (`undo.bytes`)"
    );
    findings.add_ok("undo", message);
}
