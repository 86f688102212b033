//! zero's method for what runs used, `zero.usage`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::UsageDimension;
use zero_core::event::TokenUsage;

use crate::methods;

methods! {
    /// Returns what runs used, of the client's own sessions, or of all for an administrator.
    ZeroUsage "zero.usage" Read UsageParams => UsageResult;
    /// Returns the budgets of the settings and how much of them is used.
    ZeroBudgets "zero.budgets" Read BudgetsParams => BudgetsResult;
}

/// Parameters of `zero.budgets`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetsParams {}

/// Result of `zero.budgets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetsResult {
    /// A row for each limit: of each agent and owner that was active today, and once of a run and a
    /// session; at most 1,000.
    pub limits: Vec<BudgetLimitInfo>,
    /// When the budgets of agents and owners begin anew, in milliseconds since 1970.
    pub day_ends_at_ms: i64,
}

/// A limit of a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetLimitInfo {
    /// What the budget is for: `run`, `session`, `agent` or `owner`.
    pub scope: String,
    /// The agent or owner; null for a run and a session, whose limits apply to each of them.
    pub name: Option<String>,
    /// What is limited: `usd`, `tokens`, `requests`, `toolCalls` or `seconds`.
    pub measure: String,
    /// How much may be used.
    pub most: f64,
    /// How much was used today; null for a run and a session.
    pub spent: Option<f64>,
}

/// Parameters of `zero.usage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// Only runs that began at this time or later, in milliseconds since the Unix epoch; all that are
    /// kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// What a row stands for; a day if absent.
    #[serde(default)]
    pub by: UsageDimension,
}

/// Result of `zero.usage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageResult {
    /// What rows stand for.
    pub by: UsageDimension,
    /// Days in their order, else the most expensive first; at most 1,000.
    pub rows: Vec<UsageGroup>,
    /// Number of rows that were left out.
    pub omitted: u64,
    /// What all runs used, those of rows that were left out too.
    pub total: UsageGroup,
}

/// What some runs used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageGroup {
    /// The day, session, model, agent or owner; empty for the total.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
    /// What they used; its cost is that of the tokens with a known price.
    pub usage: TokenUsage,
    /// Input tokens whose price is not known.
    pub unpriced_input_tokens: u64,
    /// Output tokens whose price is not known.
    pub unpriced_output_tokens: u64,
}
