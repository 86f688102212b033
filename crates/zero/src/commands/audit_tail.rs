//! `zero audit tail`: the newest calls and, with `--follow`, new ones.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use anstyle::Style;
use serde::Deserialize;
use zero_runtime::audit::{AuditDecision, AuditLog, AuditRow, DayLogLine, DayReader};
use zero_runtime::metrics::CallStatus;

use super::audit_rows::{begin_status, describe_damaged_lines};
use crate::AppContext;
use crate::cli::AuditTailArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{
    BAD, FAINT, GOOD, NOTABLE, STRONG, TerminalStream, escape_line, format_short_duration,
    format_short_time,
};

/// Time between two reads of the log with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) fn run(app: &AppContext, args: &AuditTailArgs) -> anyhow::Result<ExitOutcome> {
    let state = app.config.state_dir()?;
    let audit = AuditLog::new(&state);
    let mut newest = open_newest_day(&audit)?;
    let (mut rows, damaged) = read_last_rows(&audit, newest.as_mut(), args.lines as usize)?;
    let out = &app.terminal.out;
    if newest.is_none() && !args.json {
        app.terminal.print_note("no calls recorded yet; make one with `zero tools call`");
    }
    for recorded in &mut rows {
        if recorded.row.is_begin() {
            recorded.row.status = begin_status(&audit, &recorded.row).to_owned();
        }
        print_row(out, args, recorded)?;
    }
    if damaged > 0 {
        app.terminal.print_note(&describe_damaged_lines(damaged));
    }
    if args.follow { follow(out, args, &audit, newest) } else { Ok(ExitOutcome::Ok) }
}

/// A record and its line in the log. `--json` prints the line unchanged, so that programs can check
/// its hash.
struct RawAuditRow {
    row: AuditRow,
    line: String,
}

/// The part of a line that tells its position.
#[derive(Deserialize)]
struct RowPosition {
    seq: Option<u64>,
}

impl RawAuditRow {
    fn new(row: AuditRow, line: DayLogLine<'_>) -> Self {
        Self { row, line: String::from_utf8_lossy(line.bytes).into_owned() }
    }

    /// Its position in the chain.
    fn position(&self) -> Option<u64> {
        serde_json::from_str::<RowPosition>(&self.line).ok()?.seq
    }
}

/// Prints new records until interrupted or until stdout is closed.
fn follow(
    out: &TerminalStream,
    args: &AuditTailArgs,
    audit: &AuditLog,
    mut day: Option<DayReader>,
) -> anyhow::Result<ExitOutcome> {
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let next = open_newest_day(audit)?;
        // Print the rest of the old day before the first record of the new one.
        if let Some(day) = &mut day {
            let mut rows = Vec::new();
            day.for_each_row_line(|row, line| rows.push(RawAuditRow::new(row, line)))?;
            for recorded in &rows {
                print_row(out, args, recorded)?;
            }
        }
        let is_newer = |next: &DayReader| day.as_ref().is_none_or(|day| day.day() < next.day());
        if let Some(next) = next.filter(is_newer) {
            day = Some(next);
        }
    }
}

/// The last `count` records, oldest first, and the number of damaged lines. The newest day is read
/// through `newest`, which is then at its end, so that `follow` misses no record.
fn read_last_rows(
    audit: &AuditLog,
    newest: Option<&mut DayReader>,
    count: usize,
) -> io::Result<(VecDeque<RawAuditRow>, usize)> {
    let Some(newest) = newest else { return Ok((VecDeque::new(), 0)) };
    let mut rows = NewestRows::default();
    newest.for_each_written_row(|row, line| rows.push(RawAuditRow::new(row, line), count))?;
    let mut damaged = newest.damaged_lines();
    for day in audit.days()?.into_iter().rev().skip_while(|day| day.as_str() >= newest.day()) {
        if rows.rows.len() >= count {
            break;
        }
        let mut earlier = NewestRows::default();
        let mut day = audit.open_day(&day)?;
        let room = count - rows.rows.len();
        day.for_each_written_row(|row, line| earlier.push(RawAuditRow::new(row, line), room))?;
        damaged += day.damaged_lines();
        for recorded in rows.rows {
            earlier.push(recorded, count);
        }
        rows = earlier;
    }
    Ok((rows.rows, damaged))
}

/// The newest rows, oldest first. The row with the end of a call takes the place of that with its
/// begin.
#[derive(Default)]
struct NewestRows {
    rows: VecDeque<RawAuditRow>,
    /// The calls of which the begin is among the rows.
    open_calls: HashSet<String>,
}

impl NewestRows {
    fn push(&mut self, recorded: RawAuditRow, most: usize) {
        let call = &recorded.row.call;
        if recorded.row.is_begin() {
            self.open_calls.insert(call.clone());
        } else if self.open_calls.remove(call) {
            self.rows.retain(|other| other.row.call != *call);
        }
        self.rows.push_back(recorded);
        if self.rows.len() > most
            && let Some(oldest) = self.rows.pop_front()
            && oldest.row.is_begin()
        {
            self.open_calls.remove(&oldest.row.call);
        }
    }
}

/// Opens the newest day of the log, if there is one.
fn open_newest_day(audit: &AuditLog) -> io::Result<Option<DayReader>> {
    audit.days()?.pop().map(|day| audit.open_day(&day)).transpose()
}

fn print_row(out: &TerminalStream, args: &AuditTailArgs, recorded: &RawAuditRow) -> io::Result<()> {
    match args.json {
        true => out.write_json_text(&format!("{}\n", recorded.line)),
        false => out.write(&render_line(out, recorded)),
    }
}

/// One call in one line: number, time, status, tool, title and duration. `zero audit show` takes the
/// number.
fn render_line(out: &TerminalStream, recorded: &RawAuditRow) -> String {
    let row = &recorded.row;
    // Rows of earlier versions have no number.
    let number = recorded.position().map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let number = format!("{number:>5}");
    let status = format!("{:<9}", row.status);
    let about = match (&row.title, &row.message) {
        (Some(title), Some(message)) if !message.starts_with(title.as_str()) => {
            format!("{title}: {message}")
        }
        (_, Some(message)) => message.clone(),
        (Some(title), None) => title.clone(),
        (None, None) => String::new(),
    };
    let mut about = about.lines().collect::<Vec<_>>().join(" ");
    if let Some(decision) = row.decision.as_ref().and_then(describe_decision) {
        about.push_str(&decision);
    }
    let time = format_short_time(row.time);
    let tool = format!("{:<8}", escape_line(&row.tool));
    let took = format!("({})", format_short_duration(Duration::from_micros(row.duration_us)));
    let others =
        [&number, &time, &status, &tool, &took].iter().map(|part| part.chars().count() + 2).sum();
    format!(
        "{}  {}  {}  {}  {}  {}\n",
        out.paint(FAINT, &number),
        out.paint(FAINT, &time),
        out.paint(status_style(&row.status), &escape_line(&status)),
        out.paint(STRONG, &tool),
        out.truncate_line(&escape_line(&about), others),
        out.paint(FAINT, &took),
    )
}

/// Policy decision, unless the call was simply allowed.
fn describe_decision(decision: &AuditDecision) -> Option<String> {
    match (decision.verdict.as_str(), &decision.answered, &decision.rule) {
        ("allow", ..) => None,
        ("ask", Some(answered), _) => Some(format!(" [asked; {answered}]")),
        ("ask", None, _) => Some(" [asked; not answered]".to_owned()),
        (verdict, _, Some(rule)) => Some(format!(" [{verdict} by {rule}]")),
        (verdict, _, None) => Some(format!(" [{verdict}]")),
    }
}

pub(super) fn status_style(status: &str) -> Style {
    match CallStatus::parse(status) {
        Some(CallStatus::Ok) => GOOD,
        Some(CallStatus::Denied | CallStatus::Cancelled | CallStatus::Timeout) => NOTABLE,
        None if status == "running" => NOTABLE,
        Some(CallStatus::Error | CallStatus::Panic) | None => BAD,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use zero_sandbox::StateDir;

    fn make_row(tool: &str) -> String {
        format!(
            r#"{{"time":"2026-01-02T03:04:05Z","call":"c","workspace":"/w","tool":"{tool}","dialect":"canonical","input":{{}},"status":"ok","duration_us":7}}"#
        )
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "half a line is what no writer of ours writes")]
    fn tail_reads_across_days_and_resumes_after_partial_line() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path());
        let (audit, dir) = (AuditLog::new(&state), state.child("audit"));
        let write = |day: &str, text: &str| {
            dir.create().unwrap();
            let path = dir.path().join(format!("{day}.jsonl"));
            let mut file =
                std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap()
        };
        write("2026-01-01", &format!("{}\n{}\n", make_row("A"), make_row("B")));
        let last = make_row("D");
        let (half, rest) = last.split_at(10);
        write("2026-01-02", &format!("{}\nnot json\n{half}", make_row("C")));
        let mut newest = open_newest_day(&audit).unwrap().unwrap();
        let tools =
            |rows: &mut dyn Iterator<Item = AuditRow>| rows.map(|row| row.tool).collect::<String>();
        let (rows, damaged) = read_last_rows(&audit, Some(&mut newest), 2).unwrap();
        assert_eq!(
            (tools(&mut rows.into_iter().map(|recorded| recorded.row)), damaged),
            ("BC".to_owned(), 1)
        );
        write("2026-01-02", &format!("{rest}\n"));
        let mut more = Vec::new();
        newest.for_each_row(|row| more.push(row)).unwrap();
        assert_eq!(tools(&mut more.into_iter()), "D");
    }

    #[test]
    fn end_of_call_takes_place_of_its_begin() {
        let row = |call: &str, status: &str| {
            let text = make_row("A").replace(r#""call":"c""#, &format!(r#""call":"{call}""#));
            let text = text.replace(r#""status":"ok""#, &format!(r#""status":"{status}""#));
            RawAuditRow { row: serde_json::from_str(&text).unwrap(), line: text }
        };
        let mut rows = NewestRows::default();
        for (call, status) in
            [("a", "started"), ("b", "started"), ("b", "ok"), ("c", "denied"), ("d", "started")]
        {
            rows.push(row(call, status), 3);
        }
        let shown = |rows: &NewestRows| {
            let lines = rows.rows.iter().map(|it| format!("{} {}", it.row.call, it.row.status));
            lines.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown(&rows), "b ok, c denied, d started", "the oldest made room");
        rows.push(row("a", "ok"), 3);
        rows.push(row("d", "ok"), 3);
        assert_eq!(shown(&rows), "c denied, a ok, d ok");
    }

    #[test]
    fn row_shows_decision_unless_plainly_allowed() {
        for (decision, shown) in [
            (r#"{"verdict":"allow","reason":"r"}"#, None),
            (
                r#"{"verdict":"ask","reason":"r","answered":"person: allow once"}"#,
                Some("[asked; person: allow once]"),
            ),
            (r#"{"verdict":"ask","reason":"r"}"#, Some("[asked; not answered]")),
            (r#"{"verdict":"deny","reason":"r","rule":"Write(x)"}"#, Some("[deny by Write(x)]")),
        ] {
            let decision = serde_json::from_str(decision).unwrap();
            let mut row: AuditRow = serde_json::from_str(&make_row("A")).unwrap();
            row.decision = Some(decision);
            let line = r#"{"seq":42}"#.to_owned();
            let recorded = RawAuditRow { row, line };
            let line = render_line(&crate::terminal::Terminal::for_test().out, &recorded);
            assert!(line.contains("   42"), "{line}");
            match shown {
                Some(shown) => assert!(line.contains(shown), "{line}"),
                None => assert!(!line.contains("[a") && !line.contains("[d"), "{line}"),
            }
        }
    }
}
