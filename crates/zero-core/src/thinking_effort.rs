//! How much a model is asked to think.

/// How much a model should think before it speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingEffort {
    /// As it likes.
    #[default]
    Default,
    /// None, where the model allows that.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
}

impl ThinkingEffort {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Default, Self::Off, Self::Low, Self::Medium, Self::High];

    /// Stable word.
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
