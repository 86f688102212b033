//! `zero stats`: call counts, results and durations from the audit log.

use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_core::ErrorType;
use zero_runtime::audit::{AuditLog, AuditRow};
use zero_runtime::metrics::{CallMetrics, CallSample, CallStatus, ToolStats};

use super::audit_rows::{self, LogSummary};
use crate::AppContext;
use crate::cli::StatsArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{
    BAD, FAINT, GOOD, NOTABLE, STRONG, TableCell, TerminalStream, TextTable, damaged_lines_note,
    format_short_duration,
};

pub(super) fn run(app: &AppContext, args: &StatsArgs) -> anyhow::Result<ExitOutcome> {
    let audit = AuditLog::new(&app.config.state_dir()?);
    let since = audit_rows::timestamp_before(args.since);
    let metrics = CallMetrics::default();
    let LogSummary { damaged, open_calls } =
        audit_rows::for_each_since(app, &audit, since, |row| {
            // Connections and background services have records of their own, which are not calls.
            if row.is_call() {
                metrics.record(&to_sample(row));
            }
        })?;
    let unfinished = open_calls.unfinished.len() as u64 + open_calls.left_out;
    let tools = metrics.tools();
    let out = &app.terminal.out;
    if args.json {
        let tools: Map<String, Value> =
            tools.iter().map(|(name, stats)| (name.clone(), to_json(stats))).collect();
        out.write_pretty_json(&json!({
            "since": since.to_string(),
            "damaged_lines": damaged,
            "running": open_calls.running,
            "unfinished": unfinished,
            "tools": tools,
        }))?;
        return Ok(ExitOutcome::Ok);
    }
    if tools.is_empty() {
        out.write("no calls in this time span; use a longer one with `--since 30d`, or make a call with `zero tools call`\n")?;
    } else {
        out.write(&render_table(tools.iter(), out))?;
    }
    if unfinished > 0 {
        app.terminal.print_note(&format!(
            "not counted: {unfinished} unfinished, because zero was stopped while they ran; `zero audit verify` names them"
        ));
    }
    if damaged > 0 {
        app.terminal.print_note(&damaged_lines_note(damaged));
    }
    Ok(ExitOutcome::Ok)
}

fn to_sample(row: &AuditRow) -> CallSample<'_> {
    let error_type = row.error_type.as_deref();
    // The name of an unknown tool is arbitrary text, so all unknown tools share one row.
    let unknown = row.reason.as_deref() == Some("unknown_tool");
    CallSample {
        tool: if unknown { "(unknown)" } else { &row.tool },
        status: CallStatus::parse(&row.status).unwrap_or(CallStatus::Error),
        error_type: ErrorType::ALL.into_iter().find(|known| Some(known.as_str()) == error_type),
        duration: Duration::from_micros(row.duration_us),
        queue_depth: row.queue_depth,
    }
}

fn to_json(stats: &ToolStats) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut value = json!({
        "success_rate": stats.success_rate(),
        "mean_us": micros(stats.mean()),
        "p50_us": micros(stats.quantile(0.5)),
        "p95_us": micros(stats.quantile(0.95)),
    });
    if let (Some(object), Ok(Value::Object(counts))) =
        (value.as_object_mut(), serde_json::to_value(stats))
    {
        object.extend(counts);
    }
    value
}

/// Success rate to a tenth of a percent. 100 % and 0 % are reserved for all and none.
fn format_percentage(stats: &ToolStats) -> String {
    let tenths = (stats.success_rate() * 1000.0).round() as u64;
    let tenths = match stats.ok {
        0 => 0,
        ok if ok == stats.calls => 1000,
        _ => tenths.clamp(1, 999),
    };
    format!("{}.{}%", tenths / 10, tenths % 10)
}

fn render_table<'a>(
    tools: impl Iterator<Item = (&'a String, &'a ToolStats)>,
    out: &TerminalStream,
) -> String {
    let mut table = TextTable::new([
        "TOOL",
        "CALLS",
        "OK",
        "DENIED",
        "CANCELLED",
        "TIMEOUTS",
        "PANICS",
        "MEAN",
        "P50",
        "P95",
        "QUEUE",
        "ERRORS",
    ]);
    for (name, stats) in tools {
        let rate = stats.success_rate();
        let rate_style = match rate {
            rate if rate >= 0.95 => GOOD,
            rate if rate >= 0.5 => NOTABLE,
            _ => BAD,
        };
        let number = |count: u64| {
            TableCell::styled(count.to_string(), if count == 0 { FAINT } else { STRONG })
        };
        let errors: Vec<String> =
            stats.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        table.add_row([
            TableCell::styled(name, STRONG),
            stats.calls.to_string().into(),
            TableCell::styled(format_percentage(stats), rate_style),
            number(stats.denied),
            number(stats.cancelled),
            number(stats.timeouts),
            number(stats.panics),
            format_short_duration(stats.mean()).into(),
            format_short_duration(stats.quantile(0.5)).into(),
            format_short_duration(stats.quantile(0.95)).into(),
            stats.queue_depth_max.to_string().into(),
            errors.join(", ").into(),
        ]);
    }
    table.render(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_never_rounds_to_all_or_none() {
        for (ok, calls, shown) in [
            (3, 7, "42.9%"),
            (0, 7, "0.0%"),
            (7, 7, "100.0%"),
            (99_999, 100_000, "99.9%"),
            (1, 100_000, "0.1%"),
        ] {
            let mut stats = ToolStats::default();
            (stats.ok, stats.calls) = (ok, calls);
            assert_eq!(format_percentage(&stats), shown);
        }
    }
}
