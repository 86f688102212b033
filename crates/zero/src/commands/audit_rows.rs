//! Reads the records of the audit log since a point in time.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use zero_runtime::audit::open_calls::{OpenCalls, UnfinishedCalls};
use zero_runtime::audit::{AuditLog, AuditRow};

use crate::AppContext;
use crate::terminal::ElapsedCounter;

/// Timestamp `ago` before now.
pub(super) fn timestamp_before(ago: Duration) -> Timestamp {
    let ago = SignedDuration::try_from(ago).ok();
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok()).unwrap_or(Timestamp::MIN)
}

/// What is known of the log besides its records.
pub(super) struct LogSummary {
    /// Number of lines that are not records.
    pub(super) damaged: usize,
    /// Calls that began and have no record of their end.
    pub(super) open_calls: UnfinishedCalls,
}

/// How a call stands of which only the begin is recorded.
pub(super) fn begin_status(audit: &AuditLog, row: &AuditRow) -> &'static str {
    match row.process.as_deref().is_some_and(|process| audit.is_alive(process)) {
        true => "running",
        false => "unfinished",
    }
}

/// Calls `each` for every record since a point in time, oldest first.
pub(super) fn for_each_since(
    app: &AppContext,
    audit: &AuditLog,
    since: Timestamp,
    mut each: impl FnMut(&AuditRow),
) -> io::Result<LogSummary> {
    let counter = ElapsedCounter::new(&app.terminal.err);
    counter.start("reading the audit log");
    let mut read = || {
        let (mut damaged, mut open_calls, mut newest) = (0, OpenCalls::default(), None);
        // Files are named by day, so sorting them as text sorts them by time.
        let first_day = since.strftime("%Y-%m-%d").to_string();
        for day in audit.days()?.into_iter().filter(|day| *day >= first_day) {
            counter.progress(&format!("reading the audit log of {day}"));
            newest = day.parse().ok();
            let mut day = audit.open_day(&day)?;
            let file = day.day().to_owned();
            day.for_each_written_row(|row, line| {
                if row.time >= since {
                    open_calls.add_row(&file, line.number, &row);
                    if !row.is_begin() {
                        each(&row);
                    }
                }
            })?;
            damaged += day.damaged_lines();
        }
        let open_calls = audit.classify_open_calls(open_calls, newest)?;
        Ok(LogSummary { damaged, open_calls })
    };
    let read = read();
    counter.stop();
    read
}

/// Message about audit log lines that could not be parsed.
pub(super) fn describe_damaged_lines(count: usize) -> String {
    match count {
        1 => "skipped 1 damaged line of the audit log".to_owned(),
        _ => format!("skipped {count} damaged lines of the audit log"),
    }
}
