//! [`AppendFile`]: a file of lines that several processes append to.
//!
//! Each line is one write at the end of the file, so lines do not mix. A line that was cut off by a
//! full disk or a crash stays as it is: the next append first ends that line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file of lines that several processes append to.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    /// Bytes left of what was reserved on the disk.
    reserved: u64,
}

/// What precedes a new line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStart {
    /// Nothing, or a complete line.
    Fresh,
    /// A line that was cut off, which is ended first.
    AfterTorn,
}

impl AppendFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file, reserved: 0 }
    }

    /// The length of the file in bytes; `None` if it was removed, and appended lines would be lost.
    pub fn size(&self) -> io::Result<Option<u64>> {
        let stat = rustix::fs::fstat(&self.file)?;
        Ok((stat.st_nlink > 0).then(|| u64::try_from(stat.st_size).unwrap_or_default()))
    }

    /// Makes sure that `bytes` more fit on the disk.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if self.reserved >= bytes {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::FallocateFlags;
            use rustix::io::Errno;
            let end = self.file.metadata()?.len();
            // The size does not change: readers see complete lines only.
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, bytes * 4) {
                // A file system without reservations reports a full disk at the write.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.reserved = bytes * 4;
        Ok(())
    }

    /// Appends a line, which must not contain a line break. Returns by how many bytes the file
    /// grew.
    pub fn append_line(&mut self, start: LineStart, line: &[u8]) -> io::Result<u64> {
        use std::io::Write as _;
        let start: &[u8] = match start {
            LineStart::Fresh => b"",
            LineStart::AfterTorn => b"\n",
        };
        let whole = [start, line, b"\n"].concat();
        self.file.write_all(&whole)?;
        let bytes = whole.len() as u64;
        self.reserved = self.reserved.saturating_sub(bytes);
        Ok(bytes)
    }

    /// Another handle on the file, to flush it to the disk without blocking other writers.
    pub fn try_clone(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Finds the last line in the first `size` bytes for which `pick` returns a value, whether the
    /// line is complete or not, and what a next line has to start with. Reads at most `bytes_max`
    /// bytes, from the end.
    pub fn find_last_line<T>(
        &self,
        size: u64,
        bytes_max: u64,
        pick: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<(Option<T>, LineStart)> {
        /// Bytes of the first read: enough for several ordinary lines.
        const FIRST_READ_BYTES: u64 = 16 * 1024;
        let mut window = FIRST_READ_BYTES.min(bytes_max);
        loop {
            let from = size.saturating_sub(window);
            let mut bytes = vec![0; usize::try_from(size - from).unwrap_or(usize::MAX)];
            self.file.read_exact_at(&mut bytes, from)?;
            let is_torn = bytes.last().is_some_and(|last| *last != b'\n');
            let start = if is_torn { LineStart::AfterTorn } else { LineStart::Fresh };
            // The first part may be the end of a longer line.
            let skipped = usize::from(from > 0);
            let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').skip(skipped).collect();
            let found = lines.into_iter().rev().filter(|line| !line.is_empty()).find_map(&pick);
            if found.is_some() || from == 0 || window >= bytes_max {
                return Ok((found, start));
            }
            window = (window * 8).min(bytes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::StateDir;

    fn create_file_with(text: &str) -> (tempfile::TempDir, AppendFile) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("log"), text).unwrap();
        let file = StateDir::new(temp.path()).open_append("log").unwrap();
        (temp, file)
    }

    #[test]
    fn append_after_torn_line_starts_new_line() {
        let (temp, mut file) = create_file_with("whole\ntor");
        file.reserve(1_000).unwrap();
        let (_, start) = file.find_last_line(9, 1_000, |_| Some(())).unwrap();
        assert_eq!(file.append_line(start, b"next").unwrap(), 6);
        assert_eq!(file.append_line(LineStart::Fresh, b"last").unwrap(), 5);
        assert_eq!(
            std::fs::read_to_string(temp.path().join("log")).unwrap(),
            "whole\ntor\nnext\nlast\n"
        );
        assert_eq!(file.size().unwrap(), Some(20));
        std::fs::remove_file(temp.path().join("log")).unwrap();
        assert_eq!(file.size().unwrap(), None);
    }

    #[track_caller]
    fn check(text: &str, bytes_max: u64, expected: Option<&str>, start: LineStart) {
        let (_temp, file) = create_file_with(text);
        let row = |line: &[u8]| {
            line.starts_with(b"row").then(|| String::from_utf8(line.to_vec()).unwrap())
        };
        let (found, found_start) = file.find_last_line(text.len() as u64, bytes_max, row).unwrap();
        assert_eq!((found.as_deref(), found_start), (expected, start), "{:.40}", text);
    }

    #[test]
    fn last_line_is_found_before_invalid_lines() {
        use LineStart::{AfterTorn, Fresh};
        let junk = "junk\n".repeat(20_000);
        check("", 1_000, None, Fresh);
        check("row 1\nrow 2\n", 1_000, Some("row 2"), Fresh);
        check("row 1\nrow 2", 1_000, Some("row 2"), AfterTorn);
        check("row 1\n\nro", 1_000, Some("row 1"), AfterTorn);
        check("row 1\nrow 2\n", 6, None, Fresh);
        check(&format!("row 1\n{junk}"), 1_000_000, Some("row 1"), Fresh);
        check(&format!("row 1\n{junk}"), 50_000, None, Fresh);
        check(
            &format!("row {}\n", "x".repeat(30_000)),
            1_000_000,
            Some(&format!("row {}", "x".repeat(30_000))),
            Fresh,
        );
    }
}
