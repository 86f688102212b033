//! Reads the whole log and says whether it is as it was written, and where it is not.
//!
//! The log is read once, line by line, in memory that does not grow with it. What is looked at is the
//! log as it stood at the beginning: rows that are added meanwhile are left for the next time.
//!
//! The chain shows what was done to the files by somebody who did not recompute it. Whoever can
//! write the files can do that too, so a person can note the last row elsewhere and have it
//! [expected](Check::expect).

mod chain_verifier;

use std::fmt;
use std::io;

use jiff::civil::Date;
use serde::de::IgnoredAny;
use zero_sandbox::locked_line::LockedLine;

use self::chain_verifier::{ChainVerifier, LogLinePosition};
use super::log_head::{HEAD, LogHead};
use super::{AuditLog, ChainLink, ChainPosition, DayLogLine, day_file_name, list_days, utc_date};

/// Most findings that are kept; further ones are counted.
pub const FINDINGS_MAX: usize = 1_000;

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The first day that is read; all when absent.
    pub since: Option<Date>,
    /// A row that must be there, as noted before.
    pub expect: Option<ChainPosition>,
    /// Where the log has to begin.
    pub begin: LogStart,
}

/// Where the log has to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStart {
    /// Anywhere: old days may have been removed on purpose.
    #[default]
    Anywhere,
    /// With row 1.
    FirstRow,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct VerificationReport {
    /// Rows that are tied to the chain.
    pub rows: u64,
    /// Rows of the time before there was a chain.
    pub untied: u64,
    /// Days that were read.
    pub days: usize,
    /// The place of the first row that is there.
    pub first: Option<u64>,
    /// The last row that is there.
    pub head: Option<ChainPosition>,
    /// What is wrong, in the order of the log.
    pub findings: Vec<IntegrityFinding>,
    /// How many more things are wrong.
    pub findings_left_out: u64,
    /// Lines that were cut off when a writer was stopped. They broke nothing.
    pub torn: Vec<(String, u64)>,
    /// How many more such lines there are.
    pub torn_left_out: u64,
}

impl VerificationReport {
    /// Whether nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityFinding {
    /// The file it was noticed in.
    pub file: String,
    /// The line, from 1; absent when it is about the file.
    pub line: Option<u64>,
    /// What is wrong.
    pub fault: IntegrityFault,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntegrityFault {
    /// A row does not have the hash it says.
    Edited(u64),
    /// A row does not name the hash of the one before it, though both have their own.
    Replaced(u64),
    /// Rows are missing before a line.
    Removed(u64, u64),
    /// Rows are missing at the end.
    CutOff(u64, u64),
    /// A row that the chain does not lead through.
    Inserted(u64),
    /// Rows that were there before.
    Repeated(u64, u64),
    /// Rows that belong elsewhere.
    Moved(u64, u64),
    /// A row without a place, after rows that have one.
    Untied,
    /// A row that begins the file of another day than its own.
    OtherDay(u64),
    /// A line that is no row and no beginning of one.
    Foreign,
    /// The head is gone, or nothing that can be read.
    HeadMissing,
    /// The head names another row than the last one.
    HeadDiffers(u64),
    /// The head names a row long before the last one.
    HeadBehind(u64, u64),
    /// Another row stands where one was expected.
    NotExpected(u64),
    /// There is no row where one was expected.
    ExpectedMissing(u64),
}

impl IntegrityFault {
    /// Stable word for it.
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

    /// The first and the last row it is about.
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
                write!(f, "row {seq} was changed: it does not have the hash it says")
            }
            Self::Replaced(seq) => {
                let before = seq.saturating_sub(1);
                write!(
                    f,
                    "row {seq} does not follow row {before} as it stands: row {before} was replaced, or row {seq} was"
                )
            }
            Self::Removed(first, last) => {
                write!(f, "{} missing before this line", format_rows(first, last, "is", "are"))
            }
            Self::CutOff(first, last) => {
                write!(f, "{} missing at the end", format_rows(first, last, "is", "are"))
            }
            Self::Inserted(seq) => {
                write!(f, "this row {seq} was put in: the chain does not lead through it")
            }
            Self::Repeated(first, last) => {
                write!(f, "{} here a second time", format_rows(first, last, "stands", "stand"))
            }
            Self::Moved(first, last) => {
                write!(f, "{} out of order", format_rows(first, last, "stands", "stand"))
            }
            Self::Untied => f.write_str("a row that is not chained, after rows that are"),
            Self::OtherDay(seq) => write!(
                f,
                "row {seq}, the first here, is of another day: the file was renamed, or what stood before it is gone"
            ),
            Self::Foreign => f.write_str("this line is no row"),
            Self::HeadMissing => f.write_str(
                "it does not say which row is the last, so rows may be missing at the end",
            ),
            Self::HeadDiffers(seq) => {
                write!(f, "it names another row {seq} than the log has")
            }
            Self::HeadBehind(seq, last) => {
                write!(f, "it says that row {seq} is the last, but the log goes on to row {last}")
            }
            Self::NotExpected(seq) => write!(f, "row {seq} is not the expected one"),
            Self::ExpectedMissing(seq) => write!(f, "row {seq} is expected, and is not here"),
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
    /// Checks the log; `progress` hears of each day before it is read.
    pub fn verify(
        &self,
        check: &VerifyOptions,
        mut progress: impl FnMut(&str),
    ) -> io::Result<VerificationReport> {
        let snapshot = self.snapshot()?;
        let is_wanted = |day: &Date| check.since.is_none_or(|since| *day >= since);
        let days: Vec<Date> = snapshot.days.into_iter().filter(is_wanted).collect();
        let mut chain =
            ChainVerifier::new(days.iter().map(|day| day_file_name(*day)).collect(), check);
        if let LogHeadState::Known(head) = &snapshot.head {
            chain.expect_row(&head.pin);
        }
        for (index, day) in days.iter().enumerate() {
            let name = day.to_string();
            progress(&name);
            let is_newest = index + 1 == days.len();
            let size = if is_newest { snapshot.newest_size } else { u64::MAX };
            let mut reader = self.open_day_prefix(&name, size)?;
            let mut file = DayFile { index, day: *day, is_begun: false };
            reader.for_each_line(|line| file.check_line(&mut chain, line))?;
            if let Some(line) = reader.unfinished_line() {
                file.check_line(&mut chain, line);
            }
        }
        // A head of a day that is not looked at says nothing about those that are.
        let head_is_meant = match &snapshot.head {
            LogHeadState::Known(head) => is_wanted(&head.day),
            LogHeadState::Empty | LogHeadState::Missing => true,
        };
        Ok(chain.finish(check, head_is_meant.then_some(&snapshot.head)))
    }

    /// The log as it stands while nobody adds to it.
    fn snapshot(&self) -> io::Result<LogSnapshot> {
        let line = LockedLine::open_existing(&self.dir, HEAD)?;
        let held = line.as_ref().map(LockedLine::lock_shared).transpose()?;
        let bytes = held.as_ref().map(|held| held.read()).transpose()?.flatten();
        let head = match bytes.as_deref() {
            Some([]) => LogHeadState::Empty,
            Some(bytes) => LogHead::parse(bytes).map_or(LogHeadState::Missing, LogHeadState::Known),
            None => LogHeadState::Missing,
        };
        let days = list_days(&self.dir)?;
        let newest_size = match days.last() {
            Some(day) => self.dir.size(&day_file_name(*day))?,
            None => 0,
        };
        Ok(LogSnapshot { head, days, newest_size })
    }
}

/// What the head's file says.
#[derive(Debug)]
pub(super) enum LogHeadState {
    /// Where the log ends.
    Known(LogHead),
    /// Nothing yet: the first writer made the file and came no further than its row.
    Empty,
    /// There is none, or none that can be read.
    Missing,
}

struct LogSnapshot {
    head: LogHeadState,
    days: Vec<Date>,
    newest_size: u64,
}

/// The file of one day, while it is read.
struct DayFile {
    index: usize,
    day: Date,
    /// Whether a row of the chain was met.
    is_begun: bool,
}

impl DayFile {
    fn check_line(&mut self, chain: &mut ChainVerifier, line: DayLogLine<'_>) {
        let place = LogLinePosition { day: self.index, line: line.number };
        match ChainLink::parse(line.bytes) {
            Some(link) => {
                let is_first = !std::mem::replace(&mut self.is_begun, true);
                // A row is put into a later file than its day's only where that file has rows.
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

/// Whether a line is the beginning of a row: what is left when its writer was stopped. A whole
/// object is none, nor is anything else that can no longer become a row.
fn is_row_prefix(line: &[u8]) -> bool {
    const ROW_START: &[u8] = br#"{"time":""#;
    let common = line.len().min(ROW_START.len());
    let ends_early = serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof());
    !line.is_empty() && line.get(..common) == ROW_START.get(..common) && ends_early
}
