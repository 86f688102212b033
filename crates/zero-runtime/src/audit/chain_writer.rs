//! Adds rows to the chain, beside other threads and processes that do the same.
//!
//! Whoever adds a row holds the lock on `head` from learning what the last row is until the new one
//! is written. Usually `head` says it: it is believed as long as the file it speaks of has the
//! length it had then. Otherwise a writer was stopped between the two, or somebody else had a
//! hand in it, and the file is read from its end.
//!
//! The further of the two counts, and `head` where they are equally far. So rows that somebody
//! removed or replaced at the end leave a gap or a broken link that no later row closes.

use std::io;

use jiff::civil::Date;
use zero_sandbox::StateDir;
use zero_sandbox::append_file::{AppendFile, LineStart};
use zero_sandbox::locked_line::{LockedLine, LockedLineGuard};

use super::chain_link::{ChainLink, ChainPosition, link_row};
use super::log_head::{HEAD, LogHead};
use super::{AuditRow, day_file_name, list_days};

/// Room on the disk that a call must find for its row, in bytes; a cleaned row is shorter.
const ROW_ROOM_BYTES: u64 = 64 * 1024;
/// How far back a file is searched for its last row, in bytes.
const SEARCH_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The files that are added to.
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

/// What a line says about itself, for whoever goes on after it.
enum LastRow {
    Linked(ChainPosition),
    /// A row of the time before there was a chain: nothing before it is tied either.
    Unlinked,
}

/// Whether the work was done or the files have to be opened anew, because they were removed.
pub(super) enum AppendOutcome {
    Done,
    Removed,
}

impl ChainWriter {
    pub(super) fn open(dir: &StateDir) -> io::Result<Self> {
        Ok(Self { head: LockedLine::open(dir, HEAD)?, today: None })
    }

    /// Makes sure that a row of `day` can be added: nobody keeps the lock, and there is room.
    pub(super) fn ensure_writable(
        &mut self,
        dir: &StateDir,
        day: Date,
    ) -> io::Result<AppendOutcome> {
        let held = self.head.lock()?;
        let today = match &mut self.today {
            Some(today) if today.day >= day => today,
            today => {
                let Some(head) = read_head(&held)? else { return Ok(AppendOutcome::Removed) };
                open_day(dir, today, latest_day(day, head.as_ref()))?
            }
        };
        today.file.reserve(ROW_ROOM_BYTES)?;
        Ok(AppendOutcome::Done)
    }

    /// Adds a row, given as a JSON object, to the file of its day, or of the newest one: a call may
    /// end after others of the next day did, and the order of files is that of the rows.
    pub(super) fn append(
        &mut self,
        dir: &StateDir,
        day: Date,
        row: &[u8],
    ) -> io::Result<AppendOutcome> {
        let held = self.head.lock()?;
        let Some(head) = read_head(&held)? else { return Ok(AppendOutcome::Removed) };
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
            return Err(io::Error::other("a row that is no JSON object"));
        };
        let size = size + today.file.append_line(start, &line)?;
        held.write(LogHead { pin, day, size }.to_line().as_bytes())?;
        Ok(AppendOutcome::Done)
    }
}

/// What `head` says, if anything; nothing at all when the file was removed.
#[expect(clippy::option_option, reason = "no file and no head in it are not the same")]
fn read_head(held: &LockedLineGuard<'_>) -> io::Result<Option<Option<LogHead>>> {
    Ok(held.read()?.map(|line| LogHead::parse(&line)))
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
        _ => CurrentDayFile { day, file: dir.open_append(&day_file_name(day))? },
    };
    Ok(today.insert(open))
}

/// The last row of the log, found by looking, and what the next line of today's file starts with.
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

fn parse_last_row(line: &[u8]) -> Option<LastRow> {
    match ChainLink::parse(line) {
        Some(link) => link.is_valid().then_some(LastRow::Linked(link.pin)),
        None => serde_json::from_slice::<AuditRow>(line).ok().map(|_| LastRow::Unlinked),
    }
}
