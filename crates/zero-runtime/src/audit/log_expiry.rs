//! Removes the oldest days of the log.
//!
//! The chain stays verifiable: the last row that was removed is recorded before its file goes, in
//! the form of `head`, and the first row that is left must name its hash. The newest day always
//! stays, since the next row is linked to its last one.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use zero_sandbox::StateDir;
use zero_sandbox::expiry::{self, ExpiryMode, ExpiryReport, ExpiryRules, StoredItem};
use zero_sandbox::locked_line::LockedLine;

use super::chain_writer::find_last_position;
use super::log_head::{HEAD, LogHead};
use super::{AuditLog, day_file_name, list_days};

/// The file with the last row that was removed, and its name while it is written.
const PRUNED: &str = "pruned";
const PRUNED_DRAFT: &str = "pruned.new";
/// Longest content of that file that is read, in bytes.
const PRUNED_BYTES_MAX: u64 = 1024;

impl AuditLog {
    /// Removes the days that the rules no longer keep, oldest first and without gaps. Other
    /// processes can write rows meanwhile.
    pub fn expire(
        &self,
        rules: &ExpiryRules,
        now: Timestamp,
        mode: ExpiryMode,
    ) -> io::Result<ExpiryReport> {
        let lock = LockedLine::open_existing(&self.dir, HEAD)?;
        let _held = lock.as_ref().map(LockedLine::lock).transpose()?;
        let days = list_days(&self.dir)?;
        let newest = days.last().copied();
        let mut items = Vec::with_capacity(days.len());
        for day in days {
            let bytes = self.dir.size(&day_file_name(day))?;
            // The newest day is as young as can be.
            let age = if Some(day) == newest { Duration::ZERO } else { age_of(day, now) };
            items.push(StoredItem {
                key: day,
                age,
                bytes,
                share: String::new(),
                is_useless: false,
                is_in_use: false,
            });
        }
        let mut failed = false;
        Ok(expiry::expire(items, rules, mode, |day| {
            // A later day must not go before this one.
            if failed {
                return Err(io::Error::other("an earlier day could not be removed"));
            }
            let removed = self.remove_day(*day);
            failed = removed.is_err();
            removed
        }))
    }

    fn remove_day(&self, day: Date) -> io::Result<()> {
        let name = day_file_name(day);
        let file = self.dir.open_append(&name)?;
        let size = file.size()?.unwrap_or_default();
        if let Some(pin) = find_last_position(&file, size)? {
            write_pruned(&self.dir, &LogHead { pin, day, size })?;
        }
        self.dir.remove(&name)
    }

    /// The last row that was removed, if that was recorded.
    pub(super) fn last_pruned_row(&self) -> io::Result<Option<LogHead>> {
        let mut line = Vec::new();
        match self.dir.open(PRUNED) {
            Ok(file) => {
                file.take(PRUNED_BYTES_MAX).read_to_end(&mut line)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(LogHead::parse(&line))
    }
}

/// Records the row on the disk before its file is removed.
fn write_pruned(dir: &StateDir, last: &LogHead) -> io::Result<()> {
    dir.remove(PRUNED_DRAFT)?;
    let mut file = dir.create_new(PRUNED_DRAFT)?;
    file.write_all(last.to_line().as_bytes())?;
    file.sync_all()?;
    dir.rename(PRUNED_DRAFT, PRUNED)?;
    dir.sync()
}

/// Time since the end of a day.
fn age_of(day: Date, now: Timestamp) -> Duration {
    let end = day.checked_add(1.day()).and_then(|next| next.to_zoned(TimeZone::UTC));
    let age = end.map(|end| now.duration_since(end.timestamp()));
    age.ok().and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}
