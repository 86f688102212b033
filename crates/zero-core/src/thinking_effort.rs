//! How much reasoning a model is asked for.

use serde::Deserialize;

/// How much reasoning a model uses, by the words of settings and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingEffort {
    /// The model's default.
    #[default]
    Default,
    /// None, where the model allows that.
    Off,
    /// Little reasoning.
    Low,
    /// A medium amount of reasoning.
    Medium,
    /// Much reasoning.
    High,
}

impl ThinkingEffort {
    /// All levels, from the default up.
    pub const ALL: [Self; 5] = [Self::Default, Self::Off, Self::Low, Self::Medium, Self::High];

    /// The word in settings and requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
