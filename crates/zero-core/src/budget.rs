//! A budget: how much may be spent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much may be spent. An absent field is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Budget {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Requests to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Calls of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Time of runs in seconds, without the time in which a gateway waits for answers of its clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl Budget {
    /// Whether it limits anything.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// Why its values are no budget, if so.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.usd {
            Some(usd) if !usd.is_finite() || usd < 0.0 => {
                Err("`usd` must be an amount of dollars, such as 0.5")
            }
            _ => Ok(()),
        }
    }

    /// The lower limit of the two, field by field.
    #[must_use]
    pub fn with_lower(self, other: Self) -> Self {
        fn lower<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(if other < one { other } else { one }),
                (one, other) => one.or(other),
            }
        }
        Self {
            usd: lower(self.usd, other.usd),
            tokens: lower(self.tokens, other.tokens),
            requests: lower(self.requests, other.requests),
            tool_calls: lower(self.tool_calls, other.tool_calls),
            seconds: lower(self.seconds, other.seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_limit_applies_field_by_field() {
        let one = Budget { usd: Some(0.5), tokens: Some(10), ..Budget::default() };
        let other = Budget { usd: Some(0.25), requests: Some(3), ..Budget::default() };
        let expected =
            Budget { usd: Some(0.25), tokens: Some(10), requests: Some(3), ..Budget::default() };
        assert_eq!(one.with_lower(other), expected);
        assert!(expected.is_limited() && !Budget::default().is_limited());
    }

    #[test]
    fn amount_must_be_a_number_of_dollars() {
        for (usd, is_valid) in [(0.0, true), (0.5, true), (-1.0, false), (f64::NAN, false)] {
            let budget = Budget { usd: Some(usd), ..Budget::default() };
            assert_eq!(budget.check().is_ok(), is_valid, "{usd}");
        }
    }
}
