//! Appends rows to the chain, concurrently with other threads and processes.
//!
//! A writer holds the lock on `head` from reading the last row's position until the new row is
//! written. Usually `head` has that position; it is trusted while the file it names still has the
//! recorded length. Otherwise a writer was interrupted or the log was modified, and the file is
//! read from its end.
//!
//! The later of the two positions is used, and `head` if they are equal. So rows that were removed
//! or replaced at the end leave a gap or a broken link that no later row closes.

use std::fs::File;
use std::io;

use jiff::civil::Date;
use zero_sandbox::StateDir;
use zero_sandbox::append_file::{AppendFile, LineStart};
use zero_sandbox::locked_line::{LockedLine, LockedLineGuard};

use super::chain_link::{ChainLink, ChainPosition, link_row};
use super::log_head::{HEAD, LogHead};
use super::{AuditRow, day_file_name, list_days};

/// Free disk space required for a row, in bytes; a redacted row is shorter.
const ROW_ROOM_BYTES: u64 = 64 * 1024;
/// How far back a file is searched for its last row, in bytes.
const SEARCH_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The open files of the log.
#[derive(Debug)]
pub(super) struct ChainWriter {
    head: LockedLine,
    today: Option<CurrentDayFile>,
}

/// The newest day's file.
#[derive(Debug)]
struct CurrentDayFile {
    day: Date,
    file: AppendFile,
}

/// The last row, as far as the next row needs it.
enum LastRow {
    Linked(ChainPosition),
    /// A row from before the chain existed: nothing before it is linked either.
    Unlinked,
}

/// Whether the row was written, or the files must be reopened because they were removed.
pub(super) enum AppendOutcome {
    Done,
    Removed,
}

impl ChainWriter {
    pub(super) fn open(dir: &StateDir) -> io::Result<Self> {
        Ok(Self { head: LockedLine::open(dir, HEAD)?, today: None })
    }

    /// Checks that a row of `day` can be added: the lock is available, and the disk has space.
    pub(super) fn ensure_writable(
        &mut self,
        dir: &StateDir,
        day: Date,
    ) -> io::Result<AppendOutcome> {
        let line_guard = self.head.lock()?;
        let today = match &mut self.today {
            Some(today) if today.day >= day => today,
            today => {
                let Some(head) = read_head(&line_guard)? else { return Ok(AppendOutcome::Removed) };
                open_day(dir, today, latest_day(day, head.as_ref()))?
            }
        };
        today.file.reserve(ROW_ROOM_BYTES)?;
        Ok(AppendOutcome::Done)
    }

    /// Appends a row, given as a JSON object, to the file of its day or of the newest day: a call
    /// may end after calls of the next day, and the files must keep the order of the rows.
    pub(super) fn append(
        &mut self,
        dir: &StateDir,
        day: Date,
        row: &[u8],
    ) -> io::Result<AppendOutcome> {
        let line_guard = self.head.lock()?;
        let Some(head) = read_head(&line_guard)? else { return Ok(AppendOutcome::Removed) };
        let day = latest_day(day, head.as_ref());
        let mut today = open_day(dir, &mut self.today, day)?;
        let size = match today.file.size()? {
            Some(size) => size,
            None => {
                self.today = None;
                today = open_day(dir, &mut self.today, day)?;
                today.file.size()?.unwrap_or_default()
            }
        };
        let (before, start) = match head {
            Some(head) if head.day == day && head.size == size => (head.pin, LineStart::Fresh),
            head => find_last_row(dir, today, size, head)?,
        };
        let Some((line, pin)) = link_row(row, &before) else {
            return Err(io::Error::other("the row is not a JSON object"));
        };
        let size = size + today.file.append_line(start, &line)?;
        line_guard.write(LogHead { pin, day, size }.to_line().as_bytes())?;
        Ok(AppendOutcome::Done)
    }
}

impl ChainWriter {
    /// Another handle on the file of the last append.
    pub(super) fn clone_file(&self) -> io::Result<Option<File>> {
        self.today.as_ref().map(|today| today.file.try_clone()).transpose()
    }
}

/// The contents of `head`, if any; `None` if the file was removed.
#[expect(clippy::option_option, reason = "no file and no head in it are not the same")]
fn read_head(line_guard: &LockedLineGuard<'_>) -> io::Result<Option<Option<LogHead>>> {
    Ok(line_guard.read()?.map(|line| LogHead::parse(&line)))
}

fn latest_day(day: Date, head: Option<&LogHead>) -> Date {
    head.map_or(day, |head| head.day.max(day))
}

fn open_day<'a>(
    dir: &StateDir,
    today: &'a mut Option<CurrentDayFile>,
    day: Date,
) -> io::Result<&'a mut CurrentDayFile> {
    let open = match today.take() {
        Some(open) if open.day == day => open,
        _ => {
            let file = dir.open_append(&day_file_name(day))?;
            // A row that is flushed before its call runs would be lost with the file's name.
            if file.size()? == Some(0) {
                dir.sync()?;
            }
            CurrentDayFile { day, file }
        }
    };
    Ok(today.insert(open))
}

/// Searches for the last row of the log, and returns how the next line of today's file must start.
fn find_last_row(
    dir: &StateDir,
    today: &CurrentDayFile,
    size: u64,
    head: Option<LogHead>,
) -> io::Result<(ChainPosition, LineStart)> {
    let (mut last, start) = today.file.find_last_line(size, SEARCH_BYTES_MAX, parse_last_row)?;
    if last.is_none() {
        for day in list_days(dir)?.into_iter().rev().filter(|day| *day < today.day) {
            let file = dir.open_append(&day_file_name(day))?;
            let size = file.size()?.unwrap_or_default();
            if let Some(head) = head.as_ref().filter(|head| head.day == day && head.size == size) {
                return Ok((head.pin.clone(), start));
            }
            (last, _) = file.find_last_line(size, SEARCH_BYTES_MAX, self::parse_last_row)?;
            if last.is_some() {
                break;
            }
        }
    }
    let found = match last {
        Some(LastRow::Linked(pin)) => pin,
        Some(LastRow::Unlinked) | None => ChainPosition::origin(),
    };
    let before = match head {
        Some(head) if head.pin.seq >= found.seq => head.pin,
        _ => found,
    };
    Ok((before, start))
}

/// The position of the last row of a file; `None` if it has no place in the chain.
pub(super) fn find_last_position(
    file: &AppendFile,
    size: u64,
) -> io::Result<Option<ChainPosition>> {
    let (last, _) = file.find_last_line(size, SEARCH_BYTES_MAX, parse_last_row)?;
    Ok(match last {
        Some(LastRow::Linked(pin)) => Some(pin),
        Some(LastRow::Unlinked) | None => None,
    })
}

fn parse_last_row(line: &[u8]) -> Option<LastRow> {
    match ChainLink::parse(line) {
        Some(link) => link.is_valid().then_some(LastRow::Linked(link.pin)),
        None => serde_json::from_slice::<AuditRow>(line).ok().map(|_| LastRow::Unlinked),
    }
}
