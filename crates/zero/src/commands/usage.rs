//! `zero usage`: what runs used, by day, session, model, agent or owner.

use std::time::Duration;

use serde_json::{Value, json};
use zero_core::UsageDimension;
use zero_core::digit_grouping::group_digits;
use zero_gateway::AuthConfig;
use zero_session::run_usage::{RunUsageQuery, UsageTotal};
use zero_session::usage_report::{UsageReport, weigh_usage};

use super::audit_rows;
use crate::AppContext;
use crate::cli::{UsageArgs, UsageGrouping};
use crate::exit::ExitOutcome;
use crate::host_setup::small_runtime;
use crate::session_store::StoreChoice;
use crate::terminal::{FAINT, STRONG, TableCell, TextTable, format_short_duration};

/// Columns of the longest bar.
const BAR_COLUMNS: usize = 16;

/// Name of a group, and what it used.
type UsageRow = (String, UsageTotal);

pub(super) fn run(app: &AppContext, args: &UsageArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let since = audit_rows::timestamp_before(args.since);
    let query = RunUsageQuery { since_ms: since.as_millisecond(), ..RunUsageQuery::default() };
    let runtime = small_runtime()?;
    let cwd = workspace.cwd().to_owned();
    let by = args.by.to_dimension();
    let read = runtime.block_on(async {
        let (auth, store) = (AuthConfig::deny_all(), StoreChoice::of_settings(app, &settings)?);
        let config = app.gateway_config(&settings, &[], cwd, auth, store).await?;
        anyhow::Ok(UsageReport::read(&**config.sessions.store(), query, by).await?)
    });
    runtime.shutdown_background();
    let UsageReport { rows, total } = read?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&json!({
            "since": since.to_string(),
            "by": by.as_str(),
            "rows": rows.iter().map(|(name, spent)| row_to_json(name, spent)).collect::<Vec<_>>(),
            "total": total_to_json(&total),
        }))?;
        return Ok(ExitOutcome::Ok);
    }
    if rows.is_empty() {
        out.write("no runs in this time span; use a longer one with `--since 30d`\n")?;
        return Ok(ExitOutcome::Ok);
    }
    out.write(&render(app, by, &rows, &total))?;
    let unpriced = total.unpriced_input_tokens.saturating_add(total.unpriced_output_tokens);
    if unpriced > 0 {
        app.terminal.print_note(&format!(
            "the price of {} tokens is not known; `models` in the settings can name prices",
            group_digits(unpriced)
        ));
    }
    Ok(ExitOutcome::Ok)
}

impl UsageGrouping {
    fn to_dimension(self) -> UsageDimension {
        match self {
            Self::Day => UsageDimension::Day,
            Self::Session => UsageDimension::Session,
            Self::Model => UsageDimension::Model,
            Self::Agent => UsageDimension::Agent,
            Self::Owner => UsageDimension::Owner,
        }
    }
}

fn render(app: &AppContext, by: UsageDimension, rows: &[UsageRow], total: &UsageTotal) -> String {
    let out = &app.terminal.out;
    let mut table = TextTable::new([
        by.as_str(),
        "runs",
        "requests",
        "tokens in",
        "cached",
        "tokens out",
        "calls",
        "time",
        "cost",
        "",
    ]);
    let most = rows.iter().map(|(_, spent)| weigh_usage(spent)).fold(0.0, f64::max);
    let mut add = |name: TableCell, spent: &UsageTotal, bar: String| {
        let usage = &spent.usage;
        let percent = usage.cache_read_tokens.saturating_mul(100) / usage.input_tokens.max(1);
        table.add_row([
            name,
            spent.runs.to_string().into(),
            usage.requests.to_string().into(),
            group_digits(usage.input_tokens).into(),
            format!("{percent} %").into(),
            group_digits(usage.output_tokens).into(),
            usage.tool_calls.to_string().into(),
            format_short_duration(Duration::from_millis(usage.work_ms)).into(),
            format_cost(spent).into(),
            TableCell::styled(bar, FAINT),
        ]);
    };
    for (name, spent) in rows {
        add(name.into(), spent, bar(weigh_usage(spent), most));
    }
    if rows.len() > 1 {
        add(TableCell::styled("total", STRONG), total, String::new());
    }
    table.render(out)
}

fn bar(weight: f64, most: f64) -> String {
    if most <= 0.0 {
        return String::new();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let columns = (weight / most * BAR_COLUMNS as f64).ceil() as usize;
    "█".repeat(columns.min(BAR_COLUMNS))
}

/// The cost; tokens without a known price are marked.
fn format_cost(spent: &UsageTotal) -> String {
    let is_unpriced = spent.unpriced_input_tokens > 0 || spent.unpriced_output_tokens > 0;
    match (spent.usage.cost_usd, is_unpriced) {
        (Some(cost), false) => format!("${cost:.4}"),
        (Some(cost), true) => format!("${cost:.4} + ?"),
        (None, true) => "?".to_owned(),
        (None, false) => "–".to_owned(),
    }
}

fn row_to_json(name: &str, spent: &UsageTotal) -> Value {
    let mut row = total_to_json(spent);
    if let Some(fields) = row.as_object_mut() {
        fields.insert("name".to_owned(), name.into());
    }
    row
}

fn total_to_json(spent: &UsageTotal) -> Value {
    let usage = &spent.usage;
    json!({
        "runs": spent.runs,
        "requests": usage.requests,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "toolCalls": usage.tool_calls,
        "workMs": usage.work_ms,
        "failedRuns": usage.failed_runs,
        "failedCalls": usage.failed_calls,
        "callMs": usage.call_ms,
        "costUsd": usage.cost_usd,
        "unpricedInputTokens": spent.unpriced_input_tokens,
        "unpricedOutputTokens": spent.unpriced_output_tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_of_the_largest_is_full_and_of_the_smallest_visible() {
        assert_eq!(bar(2.0, 2.0).chars().count(), BAR_COLUMNS);
        assert_eq!(bar(0.0001, 2.0).chars().count(), 1);
        assert_eq!(bar(0.0, 0.0), "");
    }
}
