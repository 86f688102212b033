//! `zero.usage` and `zero.budgets`: what runs used, and what is left.

use std::sync::Arc;

use zero_session::run_usage::{RunUsageQuery, UsageTotal};
use zero_session::sessions::budget_report::{BudgetLimit, day_end_ms};
use zero_session::usage_report::UsageReport;
use zero_wire::ErrorPayload;
use zero_wire::usage::{
    BudgetLimitInfo, BudgetsParams, BudgetsResult, UsageGroup, UsageParams, UsageResult,
};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::to_error_shape;

/// Maximum number of rows per response.
const ROWS_MAX: usize = 1_000;

pub(super) async fn report(
    peer: &Arc<AuthenticatedConnection>,
    params: UsageParams,
) -> Result<UsageResult, ErrorPayload> {
    let query = RunUsageQuery {
        owner: peer.visible_owner().map(str::to_owned),
        since_ms: params.since_ms.unwrap_or(0),
        ..RunUsageQuery::default()
    };
    let report = UsageReport::read(&**peer.sessions().store(), query, params.by).await;
    let UsageReport { rows, total } = report.map_err(|error| to_error_shape(error.into()))?;
    let omitted = rows.len().saturating_sub(ROWS_MAX) as u64;
    let rows = rows.into_iter().take(ROWS_MAX);
    let rows = rows.map(|(name, spent)| to_group(name, &spent)).collect();
    Ok(UsageResult { by: params.by, rows, omitted, total: to_group(String::new(), &total) })
}

pub(super) async fn list_budgets(
    peer: &Arc<AuthenticatedConnection>,
    _: BudgetsParams,
) -> Result<BudgetsResult, ErrorPayload> {
    let limits = peer.sessions().budget_limits(peer.owner(), peer.visible_owner()).await;
    let limits = limits.map_err(to_error_shape)?;
    let to_info = |limit: BudgetLimit| BudgetLimitInfo {
        scope: limit.scope.as_str().to_owned(),
        name: limit.name,
        measure: limit.measure.as_str().to_owned(),
        most: limit.most,
        spent: limit.spent,
    };
    let limits = limits.into_iter().take(ROWS_MAX).map(to_info).collect();
    Ok(BudgetsResult { limits, day_ends_at_ms: day_end_ms() })
}

fn to_group(name: String, spent: &UsageTotal) -> UsageGroup {
    UsageGroup {
        name,
        runs: spent.runs,
        usage: spent.usage,
        unpriced_input_tokens: spent.unpriced_input_tokens,
        unpriced_output_tokens: spent.unpriced_output_tokens,
    }
}
