//! A file of lines that several processes add to.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A file of lines that several processes add to. Each line is one write, so lines do not mix.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    /// Whether the last line was cut off, by a full disk or a crash: the next must start afresh.
    is_torn: bool,
    /// Room that is left of what was reserved, in bytes.
    reserved: u64,
}

impl AppendFile {
    pub(crate) fn new(mut file: File) -> io::Result<Self> {
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { file, is_torn: last != [b'\n'], reserved: 0 })
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
            // The size stays as it is: readers see lines only.
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, bytes * 4) {
                // A file system that cannot reserve says at the write when it is full.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.reserved = bytes * 4;
        Ok(())
    }

    /// Adds a line.
    pub fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let start: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let whole = [start, line, b"\n"].concat();
        let written = self.file.write_all(&whole);
        self.is_torn = written.is_err();
        self.reserved = self.reserved.saturating_sub(whole.len() as u64);
        written
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use crate::StateDir;

    #[test]
    fn a_line_never_continues_a_torn_one() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(temp.path());
        std::fs::write(temp.path().join("log"), "whole\ntor").unwrap();
        let mut file = dir.append_lines("log").unwrap();
        file.reserve(1_000).unwrap();
        file.line(b"next").unwrap();
        file.line(b"last").unwrap();
        assert_eq!(
            std::fs::read_to_string(temp.path().join("log")).unwrap(),
            "whole\ntor\nnext\nlast\n"
        );
    }
}
