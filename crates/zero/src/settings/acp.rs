//! How editors are served, as settings say it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zero_acp::{Habits, OnEof};
use zero_client::Overlap;

use super::Settings;

/// The keys below `acp`.
pub(crate) const KEYS: [&str; 2] = ["acp.overlap", "acp.onExit"];

/// How editors are served. Only your own settings count here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct AcpSettings {
    /// What a second prompt does while one is at work in its session; `queue` when absent.
    overlap: OverlapSetting,
    /// What becomes of what agents work on when the editor goes away; `abort` when absent.
    on_exit: OnExitSetting,
}

/// What a second prompt does while one is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OverlapSetting {
    /// It waits for its turn.
    #[default]
    Queue,
    /// The one at work is stopped.
    Replace,
}

/// What becomes of what agents work on when the editor goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OnExitSetting {
    /// It is stopped.
    #[default]
    Abort,
    /// A gateway elsewhere goes on with it.
    Detach,
}

impl Settings {
    /// What the person's own settings say of editors.
    pub(crate) fn acp(&self) -> Habits {
        let fields = self.active().filter_map(|entry| {
            let name = entry.key.strip_prefix("acp.")?;
            Some((name.to_owned(), entry.value.clone()))
        });
        // Each was checked when its file was read.
        let said: AcpSettings =
            serde_json::from_value(Value::Object(fields.collect())).unwrap_or_default();
        Habits {
            overlap: match said.overlap {
                OverlapSetting::Queue => Overlap::Queue,
                OverlapSetting::Replace => Overlap::Replace,
            },
            on_eof: match said.on_exit {
                OnExitSetting::Abort => OnEof::Abort,
                OnExitSetting::Detach => OnEof::Detach,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LayerKind;
    use super::super::tests::layers;
    use super::*;
    use crate::trust::Standing;

    #[track_caller]
    fn check(layer: LayerKind, text: &str, expected: Habits) {
        let settings = Settings::merge(&layers(&[(layer, text)]), Standing::supposed());
        assert_eq!(settings.acp(), expected, "{text}");
    }

    #[test]
    fn only_the_persons_own_word_counts() {
        let both = r#"{"acp": {"overlap": "replace", "onExit": "detach"}}"#;
        let said = Habits { overlap: Overlap::Replace, on_eof: OnEof::Detach };
        check(LayerKind::User, both, said);
        check(LayerKind::Project, both, Habits::default());
        check(LayerKind::User, "{}", Habits::default());
        let one = Habits { overlap: Overlap::Replace, ..Habits::default() };
        check(LayerKind::User, r#"{"acp": {"overlap": "replace"}}"#, one);
    }
}
