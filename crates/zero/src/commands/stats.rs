//! `zero stats`: call counts, results, durations, errors, resources and sessions from the audit
//! log.

mod failure_patterns;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_core::{ByteSize, ErrorReason, ErrorSeverity, ErrorType};
use zero_runtime::audit::{AuditLog, AuditRow};
use zero_runtime::metrics::{CallMetrics, CallSample, CallStatus, SessionCallStats, ToolStats};

use self::failure_patterns::FailurePatterns;
use super::audit_rows::{self, LogSummary};
use crate::AppContext;
use crate::cli::StatsArgs;
use crate::commands::sessions::read_session_names;
use crate::exit::ExitOutcome;
use crate::terminal::{
    BAD, FAINT, GOOD, NOTABLE, STRONG, TableCell, TerminalStream, TextTable, format_short_duration,
};

/// Sessions in the table; `--json` has all that are counted.
const SESSIONS_SHOWN_MAX: usize = 10;
/// Tools that the table lists for a session, the most used first.
const SESSION_TOOLS_SHOWN_MAX: usize = 4;

pub(super) fn run(app: &AppContext, args: &StatsArgs) -> anyhow::Result<ExitOutcome> {
    let audit = AuditLog::new(&app.config.state_dir()?);
    let since = audit_rows::timestamp_before(args.since);
    let metrics = CallMetrics::default();
    let mut patterns = FailurePatterns::default();
    let LogSummary { damaged, open_calls } =
        audit_rows::for_each_since(app, &audit, since, |row| {
            // Connections and background services have records of their own, which are not calls.
            if row.is_call() {
                metrics.record(&to_sample(row));
                patterns.add(row);
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
            "sessions": metrics.sessions(),
            "failure_patterns": patterns.to_json(),
        }))?;
        return Ok(ExitOutcome::Ok);
    }
    if tools.is_empty() {
        out.write("no calls in this time span; use a longer one with `--since 30d`, or make a call with `zero tools call`\n")?;
    } else {
        out.write(&render_table(tools.iter(), out))?;
        let tables = [
            render_errors(tools.iter(), out),
            patterns.render(out),
            render_resources(tools.iter(), out),
            render_sessions(app, &metrics.sessions(), out),
        ];
        for table in tables.into_iter().flatten() {
            out.write(&format!("\n{table}"))?;
        }
    }
    if unfinished > 0 {
        app.terminal.print_note(&format!(
            "not counted: {unfinished} unfinished, because zero was stopped while they ran; `zero audit verify` names them"
        ));
    }
    if damaged > 0 {
        app.terminal.print_note(&audit_rows::describe_damaged_lines(damaged));
    }
    Ok(ExitOutcome::Ok)
}

/// The tool of a call. The name of an unknown tool is arbitrary text, so they share one name.
fn tool_name(row: &AuditRow) -> &str {
    match row.reason.as_deref() == Some("unknown_tool") {
        true => "(unknown)",
        false => &row.tool,
    }
}

fn to_sample(row: &AuditRow) -> CallSample<'_> {
    let error_type = row.error_type.as_deref();
    let error_type = ErrorType::ALL.into_iter().find(|known| Some(known.as_str()) == error_type);
    let reason = row.reason.as_deref().map(|reason| Value::String(reason.to_owned()));
    let reason: Option<ErrorReason> = reason.and_then(|word| serde_json::from_value(word).ok());
    let user_wait = Duration::from_micros(row.user_wait_us);
    CallSample {
        tool: tool_name(row),
        session: row.session.as_deref(),
        status: CallStatus::parse(&row.status).unwrap_or(CallStatus::Error),
        error: error_type.map(|error_type| (error_type, reason)),
        duration: Duration::from_micros(row.duration_us).saturating_sub(user_wait),
        user_wait,
        queue_depth: row.queue_depth,
        attempts: row.attempts.unwrap_or(1),
        fell_back: row.fallback.is_some(),
        usage: row.usage.unwrap_or_default(),
    }
}

fn to_json(stats: &ToolStats) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut value = json!({
        "success_rate": stats.success_rate(),
        "recovery_rate": stats.recovery_rate(),
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

fn count_cell(count: u64) -> TableCell {
    TableCell::styled(count.to_string(), if count == 0 { FAINT } else { STRONG })
}

/// Failures and how they ended, for the tools that had any; `None` if none had.
fn render_errors<'a>(
    tools: impl Iterator<Item = (&'a String, &'a ToolStats)>,
    out: &TerminalStream,
) -> Option<String> {
    let mut table = TextTable::new([
        "ERRORS OF",
        "LOW",
        "MEDIUM",
        "HIGH",
        "CRITICAL",
        "FOR USER",
        "FAILURES",
        "RECOVERED",
        "RETRIES",
        "FALLBACKS",
    ]);
    let mut has_rows = false;
    for (name, stats) in tools {
        let recoveries = stats.failures + stats.retries + stats.fallbacks;
        if stats.severities.is_empty() && recoveries == 0 {
            continue;
        }
        has_rows = true;
        let severity = |severity: ErrorSeverity| {
            count_cell(stats.severities.get(severity.as_str()).copied().unwrap_or_default())
        };
        let [low, medium, high, critical] = ErrorSeverity::ALL.map(severity);
        table.add_row([
            TableCell::styled(name, STRONG),
            low,
            medium,
            high,
            critical,
            count_cell(stats.user_errors),
            count_cell(stats.failures),
            count_cell(stats.recovered),
            count_cell(stats.retries),
            count_cell(stats.fallbacks),
        ]);
    }
    has_rows.then(|| table.render(out))
}

/// Resources of commands and the time of questions, for the tools that have any; `None` if none
/// has.
fn render_resources<'a>(
    tools: impl Iterator<Item = (&'a String, &'a ToolStats)>,
    out: &TerminalStream,
) -> Option<String> {
    let mut table = TextTable::new([
        "RESOURCES OF",
        "COMMANDS",
        "CPU",
        "PEAK MEMORY",
        "READ",
        "WRITTEN",
        "USER WAIT",
    ]);
    let mut has_rows = false;
    for (name, stats) in tools {
        if stats.usage.commands == 0 && stats.user_wait_us_total == 0 {
            continue;
        }
        has_rows = true;
        let micros = |micros: u128| {
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            TableCell::from(format_short_duration(Duration::from_micros(micros)))
        };
        let bytes = |bytes: u64| TableCell::from(ByteSize::bytes(bytes).to_string());
        table.add_row([
            TableCell::styled(name, STRONG),
            count_cell(stats.usage.commands),
            micros(u128::from(stats.usage.cpu_us)),
            bytes(stats.usage.memory_bytes),
            bytes(stats.usage.read_bytes),
            bytes(stats.usage.written_bytes),
            micros(stats.user_wait_us_total),
        ]);
    }
    has_rows.then(|| table.render(out))
}

/// The sessions with the most calls; `None` if no call belongs to one.
fn render_sessions(
    app: &AppContext,
    sessions: &BTreeMap<String, SessionCallStats>,
    out: &TerminalStream,
) -> Option<String> {
    let mut sessions: Vec<_> = sessions.iter().collect();
    sessions.sort_by_key(|(_, stats)| Reverse(stats.calls));
    sessions.truncate(SESSIONS_SHOWN_MAX);
    let ids = sessions.iter().map(|(id, _)| id.as_str()).collect();
    // The numbers are worth more than the names.
    let names = read_session_names(app, &ids).unwrap_or_default();
    let mut table = TextTable::new(["SESSION", "CALLS", "OK", "TOOLS"]);
    for (id, stats) in &sessions {
        let mut tools: Vec<_> = stats.tools.iter().collect();
        tools.sort_by_key(|(_, count)| Reverse(**count));
        let shown = tools.iter().take(SESSION_TOOLS_SHOWN_MAX);
        let mut shown: Vec<_> = shown.map(|(tool, count)| format!("{tool} {count}")).collect();
        let rest = tools.len().saturating_sub(SESSION_TOOLS_SHOWN_MAX);
        if rest > 0 {
            shown.push(format!("{rest} more"));
        }
        table.add_row([
            TableCell::styled(names.get(*id).unwrap_or(id), STRONG),
            stats.calls.to_string().into(),
            stats.ok.to_string().into(),
            shown.join(", ").into(),
        ]);
    }
    (!sessions.is_empty()).then(|| table.render(out))
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
