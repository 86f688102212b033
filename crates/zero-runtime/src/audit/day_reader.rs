//! Reads the log of one day, and continues where it stopped when rows are added.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};

use super::AuditRow;

/// Longest row that is read, in bytes; a longer one is damage.
const ROW_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads the log of one day, and continues where it stopped when rows are added.
#[derive(Debug)]
pub struct DayReader {
    day: String,
    file: BufReader<Take<File>>,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
    /// Whether the current line is so long that it was passed on in parts.
    overlong: bool,
    lines: u64,
    damaged: usize,
}

/// One line of a day's file.
#[derive(Clone, Copy, Debug)]
pub struct DayLogLine<'a> {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its bytes, without the line break.
    pub bytes: &'a [u8],
}

impl DayLogLine<'_> {
    /// Parses the row; `None` if it is damaged.
    pub fn parse_row(&self) -> Option<AuditRow> {
        serde_json::from_slice(self.bytes).ok()
    }
}

impl DayReader {
    /// Reads at most the first `bytes_max` bytes, even if the file grows.
    pub(super) fn new(day: &str, file: File, bytes_max: u64) -> Self {
        Self {
            day: day.to_owned(),
            file: BufReader::new(file.take(bytes_max)),
            partial: Vec::new(),
            overlong: false,
            lines: 0,
            damaged: 0,
        }
    }

    /// The day in the log's file name.
    pub fn day(&self) -> &str {
        &self.day
    }

    /// Number of lines so far that are not rows.
    pub fn damaged_lines(&self) -> usize {
        self.damaged
    }

    /// Passes the rows added since the last call to `each`, except those of a begin.
    pub fn for_each_row(&mut self, mut each: impl FnMut(AuditRow)) -> io::Result<()> {
        self.for_each_row_line(|row, _| each(row))
    }

    /// Like [`DayReader::for_each_row`], with the line of each row.
    pub fn for_each_row_line(
        &mut self,
        mut each: impl FnMut(AuditRow, DayLogLine<'_>),
    ) -> io::Result<()> {
        self.for_each_written_row(|row, line| {
            if !row.is_begin() {
                each(row, line);
            }
        })
    }

    /// Like [`DayReader::for_each_row_line`], including the rows that were written before their
    /// calls ran.
    pub fn for_each_written_row(
        &mut self,
        mut each: impl FnMut(AuditRow, DayLogLine<'_>),
    ) -> io::Result<()> {
        let mut damaged = 0;
        self.for_each_line(|line| match line.parse_row() {
            Some(row) => each(row, line),
            None => damaged += 1,
        })?;
        self.damaged += damaged;
        Ok(())
    }

    /// Passes the lines added since the last call to `each`, whether or not they are rows. A line
    /// longer than any row is passed in parts with the same number.
    pub fn for_each_line(&mut self, mut each: impl FnMut(DayLogLine<'_>)) -> io::Result<()> {
        loop {
            let room = ROW_BYTES_MAX.saturating_sub(self.partial.len() as u64);
            let count = self.file.by_ref().take(room).read_until(b'\n', &mut self.partial)?;
            let ended = self.partial.ends_with(b"\n");
            let complete = ended || self.partial.len() as u64 >= ROW_BYTES_MAX;
            if count == 0 && !complete {
                return Ok(());
            }
            if complete {
                self.lines += u64::from(!self.overlong);
                let bytes = self.partial.strip_suffix(b"\n").unwrap_or(&self.partial);
                each(DayLogLine { number: self.lines, bytes });
                self.overlong = !ended;
                self.partial.clear();
            }
        }
    }

    /// The beginning of a line that is not complete, as far as it was read.
    pub fn unfinished_line(&self) -> Option<DayLogLine<'_>> {
        let number = self.lines + u64::from(!self.overlong);
        (!self.partial.is_empty()).then_some(DayLogLine { number, bytes: &self.partial })
    }
}
