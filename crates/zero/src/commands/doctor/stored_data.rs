//! Checks how much of its own data zero has stored, against the limits in the settings.

use zero_core::host_limits::ByteSize;
use zero_runtime::session_results;
use zero_sandbox::expiry::ExpiryMode;
use zero_sandbox::{Journal, StateDir};
use zero_settings::WorkspaceSettings;

use super::count_of;
use super::findings::DoctorReport;
use crate::AppContext;
use crate::data_retention::{DataKind, DataRetention, SessionsInUse};
use crate::token_holder::LOCAL_OWNER;

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
        let found = match rules.expire(kind, state, ExpiryMode::DryRun, &SessionsInUse::default()) {
            Ok(found) => found,
            Err(error) => {
                let message = format!("the {items} cannot be read: {error}");
                findings.add_warning(CHECK, message, "check the permissions of the state folder");
                continue;
            }
        };
        let bytes = found.removed.bytes.saturating_add(found.remaining.bytes);
        let used = format!(
            "the {items} take {} of {} (`{key}`)",
            ByteSize::bytes(bytes),
            ByteSize::bytes(bytes_max)
        );
        let used = match found.largest_share() {
            Some((share, bytes)) => format!(
                "{used}; {} has the largest share, {}",
                describe_share(kind, share, settings),
                ByteSize::bytes(bytes)
            ),
            None => used,
        };
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

/// Whose share it is: that of a folder, or of an owner by the name of their token.
fn describe_share(kind: DataKind, share: &str, settings: &WorkspaceSettings) -> String {
    if kind == DataKind::Journal {
        return format!("`{}`", share.escape_debug());
    }
    let tokens = settings.gateway().tokens;
    let owners = tokens.keys().map(String::as_str).chain([LOCAL_OWNER]);
    let mut owners = owners.filter(|owner| session_results::owner_mark(owner) == share);
    match owners.next() {
        Some(owner) => format!("`{}`", owner.escape_debug()),
        None => "one owner".to_owned(),
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
        let message = "changes by commands are not recorded, because `undo.commands` is off";
        findings.add_ok("undo", message.to_owned());
        return;
    }
    if !zero_sandbox::command_capture::is_available() {
        findings.add_warning(
            "undo",
            "the kernel does not report what commands change, so their changes cannot be undone",
            "use Linux 5.9 or later, or set `undo.commands` to false",
        );
        return;
    }
    // A folder that cannot be opened has a finding of its own.
    let Ok(workspace) = app.config.open_workspace(&[]) else { return };
    let journal = Journal::new(state, workspace, ByteSize::bytes(0));
    let (commands, bytes) = journal.held_by_commands();
    let (held, most) = (ByteSize::bytes(bytes), undo.limits.bytes_max);
    let message = format!(
        "{} in this folder can be undone, with {held} of {most} (`undo.bytes`)",
        count_of(commands, "command")
    );
    findings.add_ok("undo", message);
}
