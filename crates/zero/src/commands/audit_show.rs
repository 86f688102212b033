//! `zero audit show`: everything recorded about one call.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_runtime::audit::{
    AuditConnection, AuditForward, AuditHook, AuditJob, AuditLog, AuditRow, AuditService,
    ChainLink, DayLogLine,
};
use zero_runtime::name_suggestions::suggest_names;

use super::audit_rows::begin_status;
use super::audit_tail::status_style;
use crate::AppContext;
use crate::cli::AuditShowArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{
    BAD, ElapsedCounter, FAINT, GOOD, STRONG, TerminalStream, escape_line, format_short_duration,
};

/// Records listed when several match.
const LISTED_MAX: usize = 10;
/// Newest calls that are searched for similar IDs.
const RECENT_MAX: usize = 1_000;

pub(super) fn run(app: &AppContext, args: &AuditShowArgs) -> anyhow::Result<ExitOutcome> {
    let audit = AuditLog::new(&app.config.state_dir()?);
    let record = find_record(app, &audit, &args.call)?;
    let out = &app.terminal.out;
    match args.json {
        true => out.write_pretty_json(&record_to_json(&record))?,
        false => out.write(&render_record(out, &audit, &record))?,
    }
    Ok(ExitOutcome::Ok)
}

/// The record of a call, as `--json` prints it.
pub(crate) fn show_record(app: &AppContext, call: &str) -> anyhow::Result<Value> {
    let audit = AuditLog::new(&app.config.state_dir()?);
    Ok(record_to_json(&find_record(app, &audit, call)?))
}

fn find_record(app: &AppContext, audit: &AuditLog, call: &str) -> anyhow::Result<RecordHit> {
    let counter = ElapsedCounter::new(&app.terminal.err);
    counter.start("reading the audit log");
    let found = find_records(audit, call, &counter);
    counter.stop();
    let found = found?;
    match found.records() {
        [_, _, ..] => Err(UsageError(ambiguous_message(call, found.records())).into()),
        _ => {
            let missing = not_found_message(call, &found);
            Ok(found.into_first().ok_or(UsageError(missing))?)
        }
    }
}

/// A record and its position in the log.
struct RecordHit {
    file: String,
    line: u64,
    row: AuditRow,
    /// The stored record, including fields that this build does not know.
    value: Value,
    link: Option<ChainLink>,
}

/// Records that match the search, and data for suggestions.
#[derive(Default)]
struct RecordMatches {
    /// Records whose ID or sequence number matches exactly.
    exact: Vec<RecordHit>,
    /// Records whose ID starts with the search text.
    alike: Vec<RecordHit>,
    recent: VecDeque<String>,
    first_seq: Option<u64>,
    last_seq: Option<u64>,
}

impl RecordMatches {
    /// Exact matches, or prefix matches if there are none.
    fn records(&self) -> &[RecordHit] {
        if self.exact.is_empty() { &self.alike } else { &self.exact }
    }

    fn into_first(self) -> Option<RecordHit> {
        self.exact.into_iter().chain(self.alike).next()
    }
}

fn find_records(
    audit: &AuditLog,
    query: &str,
    counter: &ElapsedCounter,
) -> io::Result<RecordMatches> {
    let mut found = RecordMatches::default();
    for day in audit.days()? {
        counter.progress(&format!("reading the audit log of {day}"));
        let file = format!("{day}.jsonl");
        audit
            .open_day(&day)?
            .for_each_written_row(|row, line| match_row(&mut found, query, &file, row, line))?;
    }
    Ok(found)
}

fn match_row(
    found: &mut RecordMatches,
    query: &str,
    file: &str,
    row: AuditRow,
    line: DayLogLine<'_>,
) {
    let link = ChainLink::parse(line.bytes);
    let seq = link.as_ref().map(|link| link.pin.seq);
    found.first_seq = found.first_seq.or(seq);
    found.last_seq = seq.or(found.last_seq);
    found.recent.push_back(row.call.clone());
    if found.recent.len() > RECENT_MAX {
        found.recent.pop_front();
    }
    let short = row.call.strip_prefix("call_").unwrap_or(&row.call);
    let is_place = seq.is_some_and(|seq| seq.to_string() == query);
    let is_exact = is_place || [&*row.call, short].contains(&query);
    let is_alike = || {
        // A number is always a sequence number, since IDs are random and may start with digits.
        !is_number(query) && (row.call.starts_with(query) || short.starts_with(query))
    };
    let list = match is_exact {
        true => &mut found.exact,
        false if is_alike() => &mut found.alike,
        false => return,
    };
    // The end of a call replaces its begin, unless the begin was asked for by its number.
    if !is_place && !row.is_begin() {
        list.retain(|hit| !(hit.row.is_begin() && hit.row.call == row.call));
    }
    // Keep one more than is listed, to know that there are more.
    if list.len() <= LISTED_MAX {
        let value = serde_json::from_slice(line.bytes).unwrap_or_default();
        list.push(RecordHit { file: file.to_owned(), line: line.number, row, value, link });
    }
}

fn not_found_message(query: &str, found: &RecordMatches) -> String {
    let shown = escape_line(query);
    let hint = match (is_number(query), found.first_seq, found.last_seq) {
        (true, Some(first), Some(last)) => format!("the log has rows {first} to {last}"),
        _ => match &suggest_names(query, found.recent.iter().map(String::as_str), 3)[..] {
            [] => "run `zero audit tail --json` to see the newest rows with their IDs".to_owned(),
            similar => format!("did you mean {}?", similar.join(", ")),
        },
    };
    format!("there is no record `{shown}`; {hint}")
}

fn is_number(query: &str) -> bool {
    query.bytes().all(|byte| byte.is_ascii_digit())
}

fn ambiguous_message(query: &str, records: &[RecordHit]) -> String {
    let mut text = format!("`{}` matches more than one record:\n", escape_line(query));
    for RecordHit { row, link, .. } in records.iter().take(LISTED_MAX) {
        let seq = link.as_ref().map_or_else(|| "-".to_owned(), |link| link.pin.seq.to_string());
        let _ = writeln!(text, "  {seq:>6}  {}  {}  {}", row.call, row.time, row.tool);
    }
    if records.len() > LISTED_MAX {
        text.push_str("  and more\n");
    }
    text + "pass the number of a record, or more characters of its ID"
}

fn record_to_json(record: &RecordHit) -> Value {
    let chain = record.link.as_ref().map(|link| {
        let is_right = link.is_valid();
        json!({"seq": link.pin.seq, "prev": link.prev, "hash": link.pin.hash, "hash_is_right": is_right})
    });
    json!({
        "file": record.file,
        "line": record.line,
        "chain": chain,
        "record": record.value,
    })
}

/// Renders a record as text, one field per line.
fn render_record(out: &TerminalStream, audit: &AuditLog, record: &RecordHit) -> String {
    let row = &record.row;
    let mut page = RecordText { out, text: String::new() };
    page.push_text("call", &row.call);
    page.push_text("when", &row.time.to_string());
    let asked_as = row.asked_as.as_ref().map(|name| format!(" (called as {name})"));
    page.push_text("tool", &format!("{}{}", row.tool, asked_as.unwrap_or_default()));
    page.push_text("title", row.title.as_deref().unwrap_or_default());
    page.push_text("session", row.session.as_deref().unwrap_or_default());
    page.push_text("workspace", &row.workspace);
    page.push_text("dialect", &row.dialect);
    page.push_json("input", &row.input);
    for (index, effect) in row.effects.iter().enumerate() {
        let name = if index == 0 { "effects" } else { "" };
        page.push_text(name, &format!("{} {}", effect.kind, effect.target));
    }
    if row.effects.is_empty() {
        page.push_text("effects", "none declared");
    }
    if let Some(connection) = &row.connection {
        self::render_connection(&mut page, connection);
    }
    if let Some(service) = &row.service {
        self::render_service(&mut page, service);
    }
    if let Some(job) = &row.job {
        self::render_job(&mut page, job);
    }
    if let Some(AuditForward { connections, sent_bytes, received_bytes }) = &row.forward {
        let traffic = format!(
            "{connections} connections, {sent_bytes} bytes sent, {received_bytes} received"
        );
        page.push_text("traffic", &traffic);
    }
    // The decision on a job is that on the call which started it.
    if row.job.is_none() {
        render_decision(&mut page, record.value.get("decision").and_then(Value::as_object));
    }
    render_hooks(&mut page, &row.hooks);
    match row.is_begin() {
        true => render_begin(&mut page, audit, row),
        false => render_outcome(&mut page, row),
    }
    page.push_text("recorded", &format!("{} line {}", record.file, record.line));
    render_chain(&mut page, record.link.as_ref());
    page.text
}

/// Target and traffic of a connection.
fn render_connection(page: &mut RecordText<'_>, connection: &AuditConnection) {
    let AuditConnection { protocol, of_call, address, sent_bytes, received_bytes } = connection;
    page.push_text("protocol", protocol);
    page.push_text("of call", of_call.as_deref().unwrap_or_default());
    page.push_text("address", address.as_deref().unwrap_or("none: no connection was made"));
    page.push_text("traffic", &format!("{sent_bytes} bytes sent, {received_bytes} received"));
}

/// Exit status of a background program.
fn render_service(page: &mut RecordText<'_>, service: &AuditService) {
    let AuditService { exit_code, signal } = service;
    let shown = |number: &Option<i32>| number.map(|number| number.to_string()).unwrap_or_default();
    page.push_text("exit code", &shown(exit_code));
    page.push_text("signal", &shown(signal));
}

/// Origin and exit status of a background job.
fn render_job(page: &mut RecordText<'_>, job: &AuditJob) {
    let AuditJob { of_call, exit_code, signal } = job;
    page.push_text("of call", of_call);
    let (exit_code, signal) = (*exit_code, *signal);
    render_service(page, &AuditService { exit_code, signal });
}

/// Policy decision, including fields that this build does not know.
fn render_decision(page: &mut RecordText<'_>, decision: Option<&Map<String, Value>>) {
    let Some(decision) = decision else {
        page.push_text("decision", "none: the call ended before the policy check");
        return;
    };
    let text = |name: &str| decision.get(name).and_then(Value::as_str).unwrap_or_default();
    page.push_text("decision", &format!("{}: {}", text("verdict"), text("reason")));
    for (name, value) in decision {
        match (name.as_str(), value) {
            ("verdict" | "reason", _) => {}
            (name, Value::String(value)) => {
                page.push_text(&format!("  {}", humanize_name(name)), value)
            }
            (name, value) => page.push_json(&format!("  {}", humanize_name(name)), value),
        }
    }
}

/// Results of the hooks, in order.
fn render_hooks(page: &mut RecordText<'_>, hooks: &[AuditHook]) {
    for AuditHook { event, hook, source, said, reason, input, duration_us } in hooks {
        let took = format_short_duration(Duration::from_micros(*duration_us));
        page.push_text("hook", &format!("{event} {hook} ({source}): {said}, {took}"));
        page.push_text("  why", reason.as_deref().unwrap_or_default());
        if let Some(input) = input {
            page.push_json("  input", input);
        }
    }
}

fn humanize_name(name: &str) -> String {
    name.replace('_', " ")
}

/// Why a record of a begin has no outcome.
fn render_begin(page: &mut RecordText<'_>, audit: &AuditLog, row: &AuditRow) {
    let text = match begin_status(audit, row) {
        "running" => "none yet: this is the record of its begin, and its process lives",
        _ => {
            "none here: this is the record of its begin; if the log has no other record of the call, zero was stopped while it ran"
        }
    };
    page.push_text("outcome", text);
}

fn render_outcome(page: &mut RecordText<'_>, row: &AuditRow) {
    let status = page.out.paint(status_style(&row.status), &escape_line(&row.status)).into_owned();
    let kind = [&row.error_type, &row.reason].into_iter().flatten().cloned().collect::<Vec<_>>();
    let kind = if kind.is_empty() { String::new() } else { format!(" ({})", kind.join(", ")) };
    page.push_styled("outcome", &format!("{status}{}", escape_line(&kind)));
    page.push_text("message", row.message.as_deref().unwrap_or_default());
    if let Some(attempts) = row.attempts {
        page.push_text("attempts", &attempts.to_string());
    }
    page.push_text("fallback", row.fallback.as_deref().unwrap_or_default());
    page.push_text("took", &format_short_duration(Duration::from_micros(row.duration_us)));
}

fn render_chain(page: &mut RecordText<'_>, link: Option<&ChainLink>) {
    let Some(link) = link else {
        page.push_text(
            "chain",
            "not chained: written by an older version of zero, or added by others",
        );
        return;
    };
    let verdict = match link.is_valid() {
        true => page.out.paint(GOOD, "the record matches its hash"),
        false => page.out.paint(BAD, "the record was changed: it does not match its hash"),
    };
    let verdict = format!("row {}; {verdict}", link.pin.seq);
    page.push_styled("chain", &verdict);
    page.push_text("  hash", &link.pin.hash);
    page.push_text("  prev", &link.prev);
}

/// Text with a name column. Untrusted values are escaped.
struct RecordText<'a> {
    out: &'a TerminalStream,
    text: String,
}

impl RecordText<'_> {
    /// Adds a field; empty values are omitted.
    fn push_text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let mut name = name;
        for line in value.lines() {
            self.push_styled(name, &escape_line(line));
            name = "";
        }
    }

    /// Adds a field with indented JSON.
    fn push_json(&mut self, name: &str, value: &Value) {
        self.push_text(name, &serde_json::to_string_pretty(value).unwrap_or_default());
    }

    /// Adds a line that is already escaped.
    fn push_styled(&mut self, name: &str, value: &str) {
        let name = format!("{:<10}", escape_line(name));
        let style = if name.starts_with(' ') { FAINT } else { STRONG };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}  {value}", self.out.paint(style, &name));
    }
}
