//! Checks how much of its own data zero has stored, against the limits in the settings.

use zero_core::host_limits::ByteSize;
use zero_sandbox::StateDir;
use zero_sandbox::expiry::ExpiryMode;
use zero_settings::WorkspaceSettings;

use super::findings::DoctorReport;
use crate::data_retention::{DataKind, DataRetention, SessionsInUse};

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
