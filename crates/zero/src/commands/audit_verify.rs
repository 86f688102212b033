//! `zero audit verify`: checks the hash chain of the audit log.

use serde_json::{Value, json};
use zero_runtime::audit::open_calls::OpenCall;
use zero_runtime::audit::verification::{
    IntegrityFinding, LogStart, PrunedRow, VerificationReport, VerifyOptions,
};
use zero_runtime::audit::{AuditLog, ChainPosition};

use crate::AppContext;
use crate::cli::AuditVerifyArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{BAD, ElapsedCounter, GOOD, TerminalStream, escape_line};

pub(super) fn run(app: &AppContext, args: &AuditVerifyArgs) -> anyhow::Result<ExitOutcome> {
    let check = VerifyOptions {
        since: args.since,
        bytes_max: None,
        expect: args.expect.clone(),
        begin: if args.from_start { LogStart::FirstRow } else { LogStart::Anywhere },
    };
    let verified = verify(app, &check)?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&to_json(&verified))?;
    } else {
        out.write(&render_report(out, &verified))?;
        for note in collect_notes(args, &verified) {
            app.terminal.print_note(&note);
        }
    }
    Ok(if verified.is_intact() { ExitOutcome::Ok } else { ExitOutcome::Error })
}

/// Most bytes of the log that are read while the user waits; that takes seconds.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Checks the log, or its newest days if it is very long; the result is what `--json` prints.
pub(crate) fn verify_newest(app: &AppContext) -> anyhow::Result<Value> {
    let check = VerifyOptions { bytes_max: Some(BYTES_MAX), ..VerifyOptions::default() };
    let verified = verify(app, &check)?;
    let mut report = to_json(&verified);
    report["unread_before"] = json!(verified.unread_before.map(|day| day.to_string()));
    Ok(report)
}

fn verify(app: &AppContext, check: &VerifyOptions) -> anyhow::Result<VerificationReport> {
    let audit = AuditLog::new(&app.config.state_dir()?);
    let counter = ElapsedCounter::new(&app.terminal.err);
    counter.start("reading the audit log");
    let verified = audit.verify(check, |day| {
        counter.progress(&format!("reading the audit log of {day}"));
    });
    counter.stop();
    Ok(verified?)
}

/// Each finding with its position, and a summary line.
fn render_report(out: &TerminalStream, verified: &VerificationReport) -> String {
    let mut text = String::new();
    for finding in &verified.findings {
        let line = finding.line.map_or_else(String::new, |line| format!(":{line}"));
        let place = format!("{}{line}:", finding.file);
        text.push_str(&format!("{} {}\n", out.paint(BAD, &place), finding.fault));
    }
    let found = verified.findings.len() as u64 + verified.findings_left_out;
    let verdict = match found {
        0 => out.paint(GOOD, "intact").into_owned(),
        _ => format!("{}: {}", out.paint(BAD, "not intact"), count_noun(found, "finding")),
    };
    let rows = count_noun(verified.rows, "row");
    let days = count_noun(verified.days as u64, "day");
    let head = match &verified.head {
        Some(pin) => format!(", head {pin}"),
        None => String::new(),
    };
    text.push_str(&format!("{verdict}; {rows}, {days}{head}\n"));
    text
}

/// Facts that are not errors: missing first records, unchained records, truncated lines, calls
/// without an end.
fn collect_notes(args: &AuditVerifyArgs, verified: &VerificationReport) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = verified.first.filter(|first| *first > 1)
        && args.since.is_none()
        && !args.from_start
    {
        notes.push(match &verified.pruned {
            Some(PrunedRow { day, .. }) => format!(
                "the log starts at row {first}; `zero prune` removed the earlier rows, up to those of {day}"
            ),
            None => format!("the log starts at row {first}; earlier rows are missing"),
        });
    }
    if verified.untied > 0 {
        let rows = count_noun(verified.untied, "row");
        notes
            .push(format!("not chained: {rows} at the start, written by an older version of zero"));
    }
    for (file, line) in &verified.torn {
        notes.push(format!("{file}:{line}: truncated line, because its writer was stopped"));
    }
    let open_calls = &verified.open_calls;
    for OpenCall { file, line, call, tool, .. } in &open_calls.unfinished {
        notes.push(format!(
            "{file}:{line}: {} {} is unfinished: zero was stopped while it ran, so its effects are not known",
            escape_line(tool),
            escape_line(call)
        ));
    }
    if open_calls.running > 0 {
        notes.push(format!("still running: {}", count_noun(open_calls.running, "call")));
    }
    for (left_out, what) in [
        (verified.findings_left_out, "finding"),
        (verified.torn_left_out, "truncated line"),
        (open_calls.left_out, "call without an end"),
    ] {
        if left_out > 0 {
            notes.push(format!("not shown: {} more", count_noun(left_out, what)));
        }
    }
    notes
}

fn count_noun(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn to_json(verified: &VerificationReport) -> Value {
    let pin = |pin: &ChainPosition| json!({"seq": pin.seq, "hash": pin.hash});
    let torn = verified.torn.iter().map(|(file, line)| json!({"file": file, "line": line}));
    json!({
        "intact": verified.is_intact(),
        "rows": verified.rows,
        "not_chained": verified.untied,
        "days": verified.days,
        "first": verified.first,
        "pruned": verified.pruned.as_ref().map(|pruned| {
            json!({"seq": pruned.position.seq, "hash": pruned.position.hash, "day": pruned.day.to_string()})
        }),
        "head": verified.head.as_ref().map(pin),
        "findings": verified.findings.iter().map(finding_to_json).collect::<Vec<_>>(),
        "findings_left_out": verified.findings_left_out,
        "torn_lines": torn.collect::<Vec<_>>(),
        "torn_lines_left_out": verified.torn_left_out,
        "unfinished_calls": verified.open_calls.unfinished.iter().map(open_call_to_json).collect::<Vec<_>>(),
        "unfinished_calls_left_out": verified.open_calls.left_out,
        "running_calls": verified.open_calls.running,
    })
}

fn open_call_to_json(open: &OpenCall) -> Value {
    let OpenCall { file, line, call, tool, time, .. } = open;
    json!({"file": file, "line": line, "call": call, "tool": tool, "time": time.to_string()})
}

fn finding_to_json(finding: &IntegrityFinding) -> Value {
    let rows = finding.fault.row_range();
    json!({
        "file": finding.file,
        "line": finding.line,
        "seq": rows.map(|(first, _)| first),
        "last_seq": rows.map(|(_, last)| last),
        "kind": finding.fault.as_str(),
        "message": finding.fault.to_string(),
    })
}
