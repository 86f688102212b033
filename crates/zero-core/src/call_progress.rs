//! How far a call is: a message, and a percentage where the tool knows one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The progress of a call. Serialized as an object, or as a text if there is no percentage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ProgressText", into = "ProgressText")]
#[schemars(with = "ProgressText")]
pub struct CallProgress {
    /// What the call does, for people.
    pub message: String,
    /// How much of it is done, from 0 to 100.
    pub percentage: Option<u8>,
}

impl CallProgress {
    /// Progress without a known share.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), percentage: None }
    }

    /// Adds how much is done. No percentage is added if `total` is unknown or the numbers make no
    /// sense: they may come from outside.
    #[must_use]
    pub fn with_share(self, done: f64, total: Option<f64>) -> Self {
        let share = total.filter(|total| *total > 0.0).map(|total| done / total * 100.0);
        let share = share.filter(|share| (0.0..=100.0).contains(share));
        // 100 means done, so the share is rounded down.
        Self { percentage: share.map(|share| share as u8), ..self }
    }
}

/// The serialized forms of [`CallProgress`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum ProgressText {
    /// A message alone.
    Message(String),
    /// A message with a percentage.
    Share {
        /// What the call does.
        message: String,
        /// How much of it is done, from 0 to 100.
        #[schemars(range(max = 100))]
        percentage: u8,
    },
}

impl From<ProgressText> for CallProgress {
    fn from(text: ProgressText) -> Self {
        match text {
            ProgressText::Message(message) => Self { message, percentage: None },
            ProgressText::Share { message, percentage } => {
                Self { message, percentage: Some(percentage.min(100)) }
            }
        }
    }
}

impl From<CallProgress> for ProgressText {
    fn from(progress: CallProgress) -> Self {
        let CallProgress { message, percentage } = progress;
        match percentage {
            None => Self::Message(message),
            Some(percentage) => Self::Share { message, percentage },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn share_is_percentage_or_nothing() {
        for (done, total, expected) in [
            (3.0, Some(4.0), Some(75)),
            (0.0, Some(9.0), Some(0)),
            (999.0, Some(1000.0), Some(99)),
            (5.0, Some(5.0), Some(100)),
            (6.0, Some(5.0), None),
            (-1.0, Some(5.0), None),
            (f64::NAN, Some(5.0), None),
            (1.0, Some(f64::INFINITY), Some(0)),
            (1.0, Some(0.0), None),
            (1.0, None, None),
        ] {
            let progress = CallProgress::new("x").with_share(done, total);
            assert_eq!(progress.percentage, expected, "{done} of {total:?}");
        }
    }

    #[test]
    fn progress_without_percentage_is_text() {
        let half = CallProgress { message: "half".to_owned(), percentage: Some(50) };
        for (progress, expected) in [
            (CallProgress::new("on"), json!("on")),
            (half, json!({"message": "half", "percentage": 50})),
        ] {
            assert_eq!(serde_json::to_value(&progress).unwrap(), expected);
            assert_eq!(serde_json::from_value::<CallProgress>(expected).unwrap(), progress);
        }
        let much: CallProgress =
            serde_json::from_value(json!({"message": "", "percentage": 200})).unwrap();
        assert_eq!(much.percentage, Some(100));
    }
}
