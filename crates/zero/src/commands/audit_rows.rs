//! Reads the records of the audit log since a point in time.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use zero_runtime::audit::{AuditLog, AuditRow};

use crate::AppContext;
use crate::terminal::ElapsedCounter;

/// Timestamp `ago` before now.
pub(super) fn timestamp_before(ago: Duration) -> Timestamp {
    let ago = SignedDuration::try_from(ago).ok();
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok()).unwrap_or(Timestamp::MIN)
}

/// Calls `each` for every record since a point in time, oldest first. Returns the number of damaged
/// lines.
pub(super) fn for_each_since(
    app: &AppContext,
    audit: &AuditLog,
    since: Timestamp,
    mut each: impl FnMut(&AuditRow),
) -> io::Result<usize> {
    let counter = ElapsedCounter::new(&app.terminal.err);
    counter.start("reading the audit log");
    let mut read = || {
        let mut damaged = 0;
        // Files are named by day, so sorting them as text sorts them by time.
        let first_day = since.strftime("%Y-%m-%d").to_string();
        for day in audit.days()?.into_iter().filter(|day| *day >= first_day) {
            counter.progress(&format!("reading the audit log of {day}"));
            let mut day = audit.open_day(&day)?;
            day.for_each_row(|row| {
                if row.time >= since {
                    each(&row);
                }
            })?;
            damaged += day.damaged_lines();
        }
        Ok(damaged)
    };
    let read = read();
    counter.stop();
    read
}
