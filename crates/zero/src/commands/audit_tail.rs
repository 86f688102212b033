//! `zero audit tail`: the newest calls, and those that follow.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use anstyle::Style;
use zero_runtime::audit::{Audit, AuditDecision, AuditRow};
use zero_runtime::metrics::Status;
use zero_sandbox::StateDir;

use crate::App;
use crate::cli::TailArgs;
use crate::exit::Exit;
use crate::terminal::{
    BAD, FAINT, GOOD, NOTABLE, STRONG, Stream, damaged_lines, escape_line, short_duration,
    short_time,
};

/// Pause between two looks at the log.
const POLL: Duration = Duration::from_millis(250);
/// Longest line read, in bytes; what is longer is damage.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(super) fn run(app: &App, args: &TailArgs) -> anyhow::Result<Exit> {
    let state = app.config.state()?;
    let audit = Audit::new(&state);
    let mut newest = DayReader::newest(&audit, state.child("audit"))?;
    let rows = last_rows(&audit, newest.as_mut(), args.lines as usize)?;
    let damaged = newest.as_ref().map_or(0, |day| day.damaged);
    let out = &app.terminal.out;
    if newest.is_none() && !args.json {
        app.terminal.note("no calls are recorded yet; `zero tools call` makes one");
    }
    for row in &rows {
        show(out, args, row)?;
    }
    if damaged > 0 {
        app.terminal.note(&damaged_lines(damaged));
    }
    if args.follow { follow(out, args, &audit, &state, newest) } else { Ok(Exit::Ok) }
}

/// Shows rows as they come, until somebody interrupts it or the reader goes away.
fn follow(
    out: &Stream,
    args: &TailArgs,
    audit: &Audit,
    state: &StateDir,
    mut day: Option<DayReader>,
) -> anyhow::Result<Exit> {
    loop {
        std::thread::sleep(POLL);
        let next = DayReader::newest(audit, state.child("audit"))?;
        // What is left of the old day comes before the first row of the new one.
        if let Some(day) = &mut day {
            for row in day.rows()? {
                show(out, args, &row)?;
            }
        }
        let is_newer = |next: &DayReader| day.as_ref().is_none_or(|day| day.name < next.name);
        if let Some(next) = next.filter(is_newer) {
            day = Some(next);
        }
    }
}

/// The last `count` rows, oldest first. The newest day is read through `newest`, which then stands
/// at its end, so that no row falls between the two.
fn last_rows(
    audit: &Audit,
    newest: Option<&mut DayReader>,
    count: usize,
) -> io::Result<VecDeque<AuditRow>> {
    let Some(newest) = newest else { return Ok(VecDeque::new()) };
    let mut rows = VecDeque::new();
    newest.each(|row| push_bounded(&mut rows, row, count))?;
    for day in audit.days()?.into_iter().rev().skip_while(|day| *day >= newest.name) {
        if rows.len() >= count {
            break;
        }
        let mut earlier = VecDeque::new();
        newest.damaged += audit.read_day(&day, |row| {
            push_bounded(&mut earlier, row, count - rows.len());
            true
        })?;
        earlier.append(&mut rows);
        rows = earlier;
    }
    Ok(rows)
}

fn push_bounded(rows: &mut VecDeque<AuditRow>, row: AuditRow, most: usize) {
    rows.push_back(row);
    if rows.len() > most {
        rows.pop_front();
    }
}

/// Reads the log of one day, and goes on where it stopped when there is more.
struct DayReader {
    name: String,
    file: BufReader<File>,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
    damaged: usize,
}

impl DayReader {
    fn newest(audit: &Audit, dir: StateDir) -> io::Result<Option<Self>> {
        let Some(name) = audit.days()?.pop() else { return Ok(None) };
        let file = BufReader::new(dir.open(&format!("{name}.jsonl"))?);
        Ok(Some(Self { name, file, partial: Vec::new(), damaged: 0 }))
    }

    /// The rows that came since the last look.
    fn rows(&mut self) -> io::Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        self.each(|row| rows.push(row))?;
        Ok(rows)
    }

    fn each(&mut self, mut each: impl FnMut(AuditRow)) -> io::Result<()> {
        loop {
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len() as u64);
            let count = self.file.by_ref().take(room).read_until(b'\n', &mut self.partial)?;
            let complete =
                self.partial.ends_with(b"\n") || self.partial.len() as u64 >= LINE_BYTES_MAX;
            if count == 0 && !complete {
                return Ok(());
            }
            if complete {
                match serde_json::from_slice(&self.partial) {
                    Ok(row) => each(row),
                    Err(_) => self.damaged += 1,
                }
                self.partial.clear();
            }
        }
    }
}

fn show(out: &Stream, args: &TailArgs, row: &AuditRow) -> io::Result<()> {
    if args.json { out.write_line(row) } else { out.write(&line(out, row)) }
}

/// One call in one line: when, how it ended, which tool, what it was about, how long it took.
fn line(out: &Stream, row: &AuditRow) -> String {
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
    if let Some(judged) = row.decision.as_ref().and_then(judged) {
        about.push_str(&judged);
    }
    let time = short_time(row.time);
    let tool = format!("{:<8}", escape_line(&row.tool));
    let took = format!("({})", short_duration(Duration::from_micros(row.duration_us)));
    let others = [&time, &status, &tool, &took].iter().map(|part| part.chars().count() + 2).sum();
    format!(
        "{}  {}  {}  {}  {}\n",
        out.paint(FAINT, &time),
        out.paint(status_style(&row.status), &escape_line(&status)),
        out.paint(STRONG, &tool),
        out.cut(&escape_line(&about), others),
        out.paint(FAINT, &took),
    )
}

/// How a call was judged, when it was not simply allowed.
fn judged(decision: &AuditDecision) -> Option<String> {
    match (decision.verdict.as_str(), &decision.answered, &decision.rule) {
        ("allow", ..) => None,
        ("ask", Some(answered), _) => Some(format!(" [asked; {answered}]")),
        ("ask", None, _) => Some(" [asked; nobody answered]".to_owned()),
        (verdict, _, Some(rule)) => Some(format!(" [{verdict} by {rule}]")),
        (verdict, _, None) => Some(format!(" [{verdict}]")),
    }
}

fn status_style(status: &str) -> Style {
    match Status::from_word(status) {
        Some(Status::Ok) => GOOD,
        Some(Status::Denied | Status::Cancelled | Status::Timeout) => NOTABLE,
        Some(Status::Error | Status::Panic) | None => BAD,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn row(tool: &str) -> String {
        format!(
            r#"{{"time":"2026-01-02T03:04:05Z","call":"c","workspace":"/w","tool":"{tool}","dialect":"canonical","input":{{}},"status":"ok","duration_us":7}}"#
        )
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "half a line is what no writer of ours writes")]
    fn the_newest_rows_come_across_days_and_go_on_after_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path());
        let (audit, dir) = (Audit::new(&state), state.child("audit"));
        let write = |day: &str, text: &str| {
            dir.create().unwrap();
            let path = dir.path().join(format!("{day}.jsonl"));
            let mut file =
                std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap()
        };
        write("2026-01-01", &format!("{}\n{}\n", row("A"), row("B")));
        let last = row("D");
        let (half, rest) = last.split_at(10);
        write("2026-01-02", &format!("{}\nnot json\n{half}", row("C")));
        let mut newest = DayReader::newest(&audit, dir.clone()).unwrap().unwrap();
        let tools =
            |rows: &mut dyn Iterator<Item = AuditRow>| rows.map(|row| row.tool).collect::<String>();
        let rows = last_rows(&audit, Some(&mut newest), 2).unwrap();
        assert_eq!((tools(&mut rows.into_iter()), newest.damaged), ("BC".to_owned(), 1));
        write("2026-01-02", &format!("{rest}\n"));
        assert_eq!(tools(&mut newest.rows().unwrap().into_iter()), "D");
    }

    #[test]
    fn a_line_says_how_a_call_was_judged_when_it_was_not_simply_allowed() {
        for (decision, shown) in [
            (r#"{"verdict":"allow","reason":"r"}"#, None),
            (
                r#"{"verdict":"ask","reason":"r","answered":"person: allow once"}"#,
                Some("[asked; person: allow once]"),
            ),
            (r#"{"verdict":"ask","reason":"r"}"#, Some("[asked; nobody answered]")),
            (r#"{"verdict":"deny","reason":"r","rule":"Write(x)"}"#, Some("[deny by Write(x)]")),
        ] {
            let decision = serde_json::from_str(decision).unwrap();
            let mut row: AuditRow = serde_json::from_str(&row("A")).unwrap();
            row.decision = Some(decision);
            let line = line(&crate::terminal::Terminal::for_test().out, &row);
            match shown {
                Some(shown) => assert!(line.contains(shown), "{line}"),
                None => assert!(!line.contains('['), "{line}"),
            }
        }
    }
}
