//! Settings for how much may be spent (`budgets`).

use schemars::JsonSchema;
use serde::Deserialize;
use zero_core::Budget;

/// The keys below `budgets`.
pub const KEYS: [&str; 4] = ["budgets.run", "budgets.session", "budgets.agent", "budgets.owner"];

/// How much may be spent: US dollars, tokens, model requests, tool calls, seconds of work; without
/// limit when absent. A run that has used up a budget ends. Only your own settings apply here, never
/// a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetSettings {
    /// For each run, that is, each prompt.
    pub run: Budget,
    /// For each session, over all its runs.
    pub session: Budget,
    /// For each agent in a day, over all its sessions.
    pub agent: Budget,
    /// For each owner of sessions in a day: you, or the holder of a token of your gateway.
    pub owner: Budget,
}

impl BudgetSettings {
    /// Reads the values of the keys.
    pub(crate) fn from_values(value: impl Fn(&str) -> Option<Budget>) -> Self {
        let [run, session, agent, owner] = KEYS.map(|key| value(key).unwrap_or_default());
        Self { run, session, agent, owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayer, SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn budgets_are_read_from_user_file_only() {
        const TEXT: &str = r#"{"budgets": {"run": {"usd": 0.5, "toolCalls": 7},
            "owner": {"tokens": 9, "requests": 8, "seconds": 60}}}"#;
        let layers = parse_layers(&[(SettingsLayerKind::User, TEXT)]);
        let budgets = WorkspaceSettings::merge(&layers, TrustState::assumed()).budgets();
        let expected = BudgetSettings {
            run: Budget { usd: Some(0.5), tool_calls: Some(7), ..Budget::default() },
            owner: Budget {
                tokens: Some(9),
                requests: Some(8),
                seconds: Some(60),
                ..Budget::default()
            },
            ..BudgetSettings::default()
        };
        assert_eq!(budgets, expected);
        for kind in [SettingsLayerKind::Project, SettingsLayerKind::Local] {
            let refused = SettingsLayer::parse(kind, "file".to_owned(), TEXT.as_bytes());
            let problems = refused.unwrap_err();
            assert_eq!(problems.len(), 2, "{problems:?}");
            let text = problems.first().unwrap().to_string();
            assert!(text.contains("`budgets.run` limits nothing here"), "{text}");
        }
    }
}
