//! Reads the log of one day, and goes on where it stopped when there is more.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::AuditRow;

/// Longest row read back, in bytes; a longer one is damage.
const ROW_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads the log of one day, and goes on where it stopped when there is more.
#[derive(Debug)]
pub struct DayReader {
    day: String,
    file: BufReader<File>,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
    damaged: usize,
}

impl DayReader {
    pub(super) fn new(day: &str, file: File) -> Self {
        Self { day: day.to_owned(), file: BufReader::new(file), partial: Vec::new(), damaged: 0 }
    }

    /// The day, as the log's file is named.
    pub fn day(&self) -> &str {
        &self.day
    }

    /// How many lines were met so far that are no rows.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// Hands on the rows that came since the last look.
    pub fn each(&mut self, mut each: impl FnMut(AuditRow)) -> io::Result<()> {
        loop {
            let room = ROW_BYTES_MAX.saturating_sub(self.partial.len() as u64);
            let count = self.file.by_ref().take(room).read_until(b'\n', &mut self.partial)?;
            let complete =
                self.partial.ends_with(b"\n") || self.partial.len() as u64 >= ROW_BYTES_MAX;
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
