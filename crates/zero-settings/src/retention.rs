//! Settings for how long zero keeps its own data (`retention`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `retention`.
pub const KEYS: [&str; 10] = [
    "retention.auditDays",
    "retention.auditBytes",
    "retention.journalDays",
    "retention.journalBytes",
    "retention.vanishedJournalDays",
    "retention.resultDays",
    "retention.resultBytes",
    "retention.pinDays",
    "retention.pinBytes",
    "retention.packageBytes",
];

/// Which of its own data `zero prune` removes; none when absent. Only your own settings apply here,
/// never a project's. For sessions, see `gateway.retention`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct DataRetentionSettings {
    /// How many days the audit log is kept; for ever when absent.
    #[schemars(range(min = 1))]
    pub audit_days: Option<u32>,
    /// Size of the audit log in bytes above which the oldest days are removed.
    #[schemars(range(min = 1))]
    pub audit_bytes: Option<u64>,
    /// How many days a change can be undone; for ever when absent.
    #[schemars(range(min = 1))]
    pub journal_days: Option<u32>,
    /// Size of all recorded changes in bytes above which the oldest are removed.
    #[schemars(range(min = 1))]
    pub journal_bytes: Option<u64>,
    /// How many days after the last change the journal of a folder that does not exist any more is
    /// kept; for ever when absent.
    #[schemars(range(min = 1))]
    pub vanished_journal_days: Option<u32>,
    /// How many days large results are kept, if their session exists that long; as long as the
    /// session when absent.
    #[schemars(range(min = 1))]
    pub result_days: Option<u32>,
    /// Size of all large results in bytes above which the oldest are removed.
    #[schemars(range(min = 1))]
    pub result_bytes: Option<u64>,
    /// How many days approved tool definitions of an MCP server are kept after their last use; for
    /// ever when absent.
    #[schemars(range(min = 1))]
    pub pin_days: Option<u32>,
    /// Size of all approved tool definitions in bytes above which those are removed that were not
    /// used for longest.
    #[schemars(range(min = 1))]
    pub pin_bytes: Option<u64>,
    /// Size of all caches of package managers in bytes above which those are removed that were not
    /// used for longest, once a day; 10 GB when absent. Caches are also removed after 30 days
    /// without use.
    #[schemars(range(min = 1))]
    pub package_bytes: Option<u64>,
}

impl DataRetentionSettings {
    /// Reads the values of the keys.
    pub(crate) fn from_values(value: impl Fn(&str) -> Option<u64>) -> Self {
        let days = |key: &str| value(key).map(|days| u32::try_from(days).unwrap_or(u32::MAX));
        let [
            audit_days,
            audit_bytes,
            journal_days,
            journal_bytes,
            vanished,
            result_days,
            result_bytes,
            pin_days,
            pin_bytes,
            package_bytes,
        ] = KEYS;
        Self {
            audit_days: days(audit_days),
            audit_bytes: value(audit_bytes),
            journal_days: days(journal_days),
            journal_bytes: value(journal_bytes),
            vanished_journal_days: days(vanished),
            result_days: days(result_days),
            result_bytes: value(result_bytes),
            pin_days: days(pin_days),
            pin_bytes: value(pin_bytes),
            package_bytes: value(package_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn retention_is_read_from_user_file_only() {
        const TEXT: &str = r#"{"retention": {"auditDays": 400, "auditBytes": 5,
            "journalDays": 90, "journalBytes": 6, "vanishedJournalDays": 30, "resultDays": 7,
            "resultBytes": 8, "pinDays": 365, "pinBytes": 9, "packageBytes": 10}}"#;
        let read = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).retention()
        };
        let expected = DataRetentionSettings {
            audit_days: Some(400),
            audit_bytes: Some(5),
            journal_days: Some(90),
            journal_bytes: Some(6),
            vanished_journal_days: Some(30),
            result_days: Some(7),
            result_bytes: Some(8),
            pin_days: Some(365),
            pin_bytes: Some(9),
            package_bytes: Some(10),
        };
        assert_eq!(read(SettingsLayerKind::User), expected);
        assert_eq!(read(SettingsLayerKind::Project), DataRetentionSettings::default());
    }
}
