//! Verifies the hash chain of the whole log.
//!
//! The log is read once, line by line, in constant memory. Only rows that existed at the start are
//! checked; rows added meanwhile are not.
//!
//! The chain detects changes by anyone who did not recompute it. Anyone who can write the files can
//! recompute it, so the user can store the last row elsewhere and
//! [require it](VerifyOptions::expect) later.

mod chain_verifier;

use std::fmt;
use std::io;

use jiff::civil::Date;
use serde::de::IgnoredAny;
use zero_sandbox::locked_line::LockedLine;

use self::chain_verifier::{ChainVerifier, LogLinePosition};
use super::log_head::{HEAD, LogHead};
use super::open_calls::{OpenCalls, UnfinishedCalls};
use super::{AuditLog, ChainLink, ChainPosition, DayLogLine, day_file_name, list_days, utc_date};

/// Findings reported individually; the rest are counted.
pub const FINDINGS_MAX: usize = 1_000;

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// First day to read; `None` reads all days.
    pub since: Option<Date>,
    /// Most bytes to read: older days are left out, but never the newest one.
    pub bytes_max: Option<u64>,
    /// A row that must exist, from an earlier verification.
    pub expect: Option<ChainPosition>,
    /// Where the log must begin.
    pub begin: LogStart,
}

/// Where the log must begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStart {
    /// Anywhere: old days may have been removed on purpose.
    #[default]
    Anywhere,
    /// At row 1: a log whose oldest days were removed is faulty.
    FirstRow,
}

/// Result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerificationReport {
    /// Rows in the chain.
    pub rows: u64,
    /// Rows written by versions of zero without a chain.
    pub untied: u64,
    /// Days that were read.
    pub days: usize,
    /// The first day that was read, if older ones were left out because there were too many bytes.
    pub unread_before: Option<Date>,
    /// Sequence number of the first row.
    pub first: Option<u64>,
    /// The last row before the first one, if it was removed with its day because it was no longer
    /// kept.
    pub pruned: Option<PrunedRow>,
    /// Position of the last row.
    pub head: Option<ChainPosition>,
    /// Faults, in the order of the log.
    pub findings: Vec<IntegrityFinding>,
    /// Number of further faults.
    pub findings_left_out: u64,
    /// File and line of truncated lines, left by writers that were stopped. They are not faults.
    pub torn: Vec<(String, u64)>,
    /// Number of further truncated lines.
    pub torn_left_out: u64,
    /// Calls that began and have no end. They are not faults: the chain shows that no row is
    /// missing.
    pub open_calls: UnfinishedCalls,
}

impl VerificationReport {
    /// Whether there are no faults.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The last row that was removed because it was no longer kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedRow {
    /// Its position in the chain, which the next row continues.
    pub position: ChainPosition,
    /// The day of its file.
    pub day: Date,
}

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityFinding {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1; `None` if the fault concerns the whole file.
    pub line: Option<u64>,
    /// The fault, with the numbers of the affected rows.
    pub fault: IntegrityFault,
}

/// Kinds of faults. Numbers are sequence numbers of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntegrityFault {
    /// A row does not match its own hash.
    Edited(u64),
    /// A row does not name the hash of the row before it, though both match their own hash.
    Replaced(u64),
    /// Rows are missing before a line.
    Removed(u64, u64),
    /// Rows are missing at the end.
    CutOff(u64, u64),
    /// A row that is not part of the chain.
    Inserted(u64),
    /// Rows that occur twice.
    Repeated(u64, u64),
    /// Rows in the wrong order.
    Moved(u64, u64),
    /// A row without a chain link, after rows with one.
    Untied,
    /// A row at the start of a file for another day.
    OtherDay(u64),
    /// A line that is neither a row nor the start of one.
    Foreign,
    /// The head file is missing or unreadable.
    HeadMissing,
    /// The head names a different row than the log has.
    HeadDiffers(u64),
    /// The head names a row long before the last one.
    HeadBehind(u64, u64),
    /// The expected row has a different hash.
    NotExpected(u64),
    /// The expected row is missing.
    ExpectedMissing(u64),
}

impl IntegrityFault {
    /// Stable identifier, used in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Edited(_) => "edited",
            Self::Replaced(_) => "replaced",
            Self::Removed(..) => "removed",
            Self::CutOff(..) => "cut_off",
            Self::Inserted(_) => "inserted",
            Self::Repeated(..) => "repeated",
            Self::Moved(..) => "moved",
            Self::Untied => "untied",
            Self::OtherDay(_) => "other_day",
            Self::Foreign => "foreign",
            Self::HeadMissing => "head_missing",
            Self::HeadDiffers(_) => "head_differs",
            Self::HeadBehind(..) => "head_behind",
            Self::NotExpected(_) => "not_expected",
            Self::ExpectedMissing(_) => "expected_missing",
        }
    }

    /// First and last affected row.
    pub fn row_range(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Edited(seq)
            | Self::Replaced(seq)
            | Self::Inserted(seq)
            | Self::OtherDay(seq)
            | Self::HeadDiffers(seq)
            | Self::HeadBehind(seq, _)
            | Self::NotExpected(seq)
            | Self::ExpectedMissing(seq) => Some((seq, seq)),
            Self::Removed(first, last)
            | Self::CutOff(first, last)
            | Self::Repeated(first, last)
            | Self::Moved(first, last) => Some((first, last)),
            Self::Untied | Self::Foreign | Self::HeadMissing => None,
        }
    }
}

impl fmt::Display for IntegrityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Edited(seq) => {
                write!(f, "row {seq} was changed: it does not match its hash")
            }
            Self::Replaced(seq) => {
                let before = seq.saturating_sub(1);
                write!(
                    f,
                    "row {seq} does not name the hash of row {before}: one of the two was replaced"
                )
            }
            Self::Removed(first, last) => {
                write!(f, "{} missing before this line", format_rows(first, last, "is", "are"))
            }
            Self::CutOff(first, last) => {
                write!(f, "{} missing at the end", format_rows(first, last, "is", "are"))
            }
            Self::Inserted(seq) => {
                write!(f, "row {seq} was inserted: it is not part of the chain")
            }
            Self::Repeated(first, last) => {
                write!(f, "{} repeated", format_rows(first, last, "is", "are"))
            }
            Self::Moved(first, last) => {
                write!(f, "{} out of order", format_rows(first, last, "is", "are"))
            }
            Self::Untied => f.write_str("unchained row after chained rows"),
            Self::OtherDay(seq) => write!(
                f,
                "row {seq}, the first in this file, belongs to another day: the file was renamed, or earlier rows were removed"
            ),
            Self::Foreign => f.write_str("not a row"),
            Self::HeadMissing => f.write_str(
                "the head file does not name the last row, so rows may be missing at the end",
            ),
            Self::HeadDiffers(seq) => {
                write!(f, "the head file names a different row {seq} than the log has")
            }
            Self::HeadBehind(seq, last) => {
                write!(
                    f,
                    "the head file names row {seq} as the last, but the log has rows up to {last}"
                )
            }
            Self::NotExpected(seq) => write!(f, "row {seq} does not have the expected hash"),
            Self::ExpectedMissing(seq) => write!(f, "the expected row {seq} is missing"),
        }
    }
}

fn format_rows(first: u64, last: u64, one: &str, many: &str) -> String {
    if first == last {
        format!("row {first} {one}")
    } else {
        format!("rows {first} to {last} {many}")
    }
}

impl AuditLog {
    /// Verifies the log; calls `progress` with each day before it is read.
    pub fn verify(
        &self,
        check: &VerifyOptions,
        mut progress: impl FnMut(&str),
    ) -> io::Result<VerificationReport> {
        let snapshot = self.snapshot()?;
        let is_asked = |day: &Date| check.since.is_none_or(|since| *day >= since);
        let mut days: Vec<(Date, u64)> =
            snapshot.days.into_iter().filter(|(day, _)| is_asked(day)).collect();
        let unread_before = leave_out_oldest(&mut days, check.bytes_max);
        // Parts that are left out were not requested.
        let check = &VerifyOptions { since: unread_before.or(check.since), ..check.clone() };
        let is_wanted = |day: &Date| check.since.is_none_or(|since| *day >= since);
        let mut chain =
            ChainVerifier::new(days.iter().map(|(day, _)| day_file_name(*day)).collect(), check);
        if let LogHeadState::Known(head) = &snapshot.head {
            chain.expect_row(&head.pin);
        }
        if let Some(LogHead { pin: position, day, .. }) = snapshot.pruned {
            chain.expect_start(PrunedRow { position, day });
        }
        let mut open_calls = OpenCalls::default();
        for (index, (day, size)) in days.iter().enumerate() {
            let name = day.to_string();
            progress(&name);
            let mut reader = self.open_day_prefix(&name, *size)?;
            let mut file = DayFile { index, day: *day, is_begun: false };
            let file_name = day_file_name(*day);
            reader.for_each_line(|line| {
                open_calls.add_line(&file_name, line);
                file.check_line(&mut chain, line);
            })?;
            if let Some(line) = reader.unfinished_line() {
                file.check_line(&mut chain, line);
            }
        }
        // The head of an unread day says nothing about the days that are read.
        let head_is_meant = match &snapshot.head {
            LogHeadState::Known(head) => is_wanted(&head.day),
            LogHeadState::Empty | LogHeadState::Missing => true,
        };
        let verified = chain.finish(check, head_is_meant.then_some(&snapshot.head));
        let newest = days.last().map(|(day, _)| *day);
        let open_calls = self.classify_open_calls(open_calls, newest)?;
        Ok(VerificationReport { open_calls, unread_before, ..verified })
    }

    /// Classifies the calls without an end, after the log was read up to some row of `newest`.
    pub fn classify_open_calls(
        &self,
        open_calls: OpenCalls,
        newest: Option<Date>,
    ) -> io::Result<UnfinishedCalls> {
        open_calls.finish(self, |open_calls| {
            let is_later = |day: &Date| newest.is_none_or(|newest| *day >= newest);
            for day in list_days(&self.dir)?.into_iter().filter(is_later) {
                let name = day_file_name(day);
                let mut reader = self.open_day(&day.to_string())?;
                reader.for_each_line(|line| open_calls.add_line(&name, line))?;
            }
            Ok(())
        })
    }

    /// The state of the log at one moment, while no writer holds the lock.
    fn snapshot(&self) -> io::Result<LogSnapshot> {
        let line = LockedLine::open_existing(&self.dir, HEAD)?;
        let line_guard = line.as_ref().map(LockedLine::lock_shared).transpose()?;
        let bytes = line_guard.as_ref().map(|lock_guard| lock_guard.read()).transpose()?.flatten();
        let head = match bytes.as_deref() {
            Some([]) => LogHeadState::Empty,
            Some(bytes) => LogHead::parse(bytes).map_or(LogHeadState::Missing, LogHeadState::Known),
            None => LogHeadState::Missing,
        };
        // Rows may still be added to the second-last file: the next day's file is created before
        // its first row is written.
        let with_size = |day| Ok((day, self.dir.size(&day_file_name(day))?));
        let days = list_days(&self.dir)?.into_iter().map(with_size).collect::<io::Result<_>>()?;
        Ok(LogSnapshot { head, days, pruned: self.last_pruned_row()? })
    }
}

/// The contents of the head file.
#[derive(Debug)]
pub(super) enum LogHeadState {
    /// The end of the log.
    Known(LogHead),
    /// Empty: the first writer created the file and was interrupted after its row.
    Empty,
    /// Missing or unreadable.
    Missing,
}

/// Removes the oldest of some days with their sizes, until the rest has at most `bytes_max`; the newest day
/// stays. Returns the first day that is left, if others were removed.
fn leave_out_oldest(days: &mut Vec<(Date, u64)>, bytes_max: Option<u64>) -> Option<Date> {
    let mut left = bytes_max?;
    let newer = days.iter().rev().skip(1);
    left = left.saturating_sub(days.last()?.1);
    let fitting = newer.take_while(|(_, bytes)| match left.checked_sub(*bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    let removed = days.len() - 1 - fitting.count();
    days.drain(..removed);
    days.first().map(|(day, _)| *day).filter(|_| removed > 0)
}

struct LogSnapshot {
    head: LogHeadState,
    /// The days, oldest first, each with the size of its file.
    days: Vec<(Date, u64)>,
    /// The last row that was removed.
    pruned: Option<LogHead>,
}

/// The file of one day, while it is read.
struct DayFile {
    index: usize,
    day: Date,
    /// Whether a chained row was found.
    is_begun: bool,
}

impl DayFile {
    fn check_line(&mut self, chain: &mut ChainVerifier, line: DayLogLine<'_>) {
        let place = LogLinePosition { day: self.index, line: line.number };
        match ChainLink::parse(line.bytes) {
            Some(link) => {
                let is_first = !std::mem::replace(&mut self.is_begun, true);
                // A row is only in a later file than its day's if that file already has rows.
                if is_first
                    && link.is_valid()
                    && line.parse_row().map(|row| utc_date(row.time)) != Some(self.day)
                {
                    chain.report_fault(place, IntegrityFault::OtherDay(link.pin.seq));
                }
                chain.add_linked_row(place, link);
            }
            None if line.parse_row().is_some() => chain.add_unlinked_row(place),
            None if is_row_prefix(line.bytes) => chain.record_torn_line(place),
            None => chain.report_fault(place, IntegrityFault::Foreign),
        }
    }
}

/// Whether a line is the beginning of a row, as an interrupted writer leaves it. A complete object
/// is not, nor is anything that cannot become a row.
fn is_row_prefix(line: &[u8]) -> bool {
    const ROW_START: &[u8] = br#"{"time":""#;
    let common = line.len().min(ROW_START.len());
    let ends_early = serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof());
    !line.is_empty() && line.get(..common) == ROW_START.get(..common) && ends_early
}
