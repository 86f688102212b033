//! Reads lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// How much of either end of an overlong line is reported, in bytes.
pub const ENDS_KEPT: usize = 512;
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// A buffer larger than this is released after its line.
const KEPT_CAPACITY: usize = 256 << 10;

/// Reads lines. Dropping a read loses nothing: the next one continues from there.
pub struct LineReader {
    stream: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    line: Vec<u8>,
    line_bytes_max: usize,
    state: LineReaderState,
}

enum LineReaderState {
    Reading,
    /// The line was too long: its last bytes so far.
    Skipping(Vec<u8>),
    Ended,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// A line, without its line break.
    Whole(Vec<u8>),
    /// A line is too long: its beginning. Reported at once, because the line may never end.
    TooLong(Vec<u8>),
    /// A line that was too long has ended: its end.
    TooLongEnd(Vec<u8>),
    /// End of the stream: the bytes after the last complete line.
    End(Vec<u8>),
}

impl LineReader {
    /// Reads from a stream.
    pub fn new(stream: impl AsyncRead + Send + Unpin + 'static, line_bytes_max: usize) -> Self {
        Self {
            stream: BufReader::with_capacity(CHUNK, Box::new(stream)),
            line: Vec::new(),
            line_bytes_max,
            state: LineReaderState::Reading,
        }
    }

    /// Returns the buffer of a line for reuse.
    pub fn reuse(&mut self, mut line: Vec<u8>) {
        if self.line.is_empty() && line.capacity() <= KEPT_CAPACITY {
            line.clear();
            self.line = line;
        }
    }

    /// Reads until there is something to report.
    pub async fn next(&mut self) -> io::Result<LineEvent> {
        loop {
            if matches!(self.state, LineReaderState::Ended) {
                return Ok(LineEvent::End(Vec::new()));
            }
            let available = self.stream.fill_buf().await?;
            if available.is_empty() {
                let left = std::mem::take(&mut self.line);
                return Ok(match std::mem::replace(&mut self.state, LineReaderState::Ended) {
                    LineReaderState::Skipping(tail) => LineEvent::TooLongEnd(tail),
                    LineReaderState::Reading | LineReaderState::Ended => LineEvent::End(left),
                });
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
            let consumed = part.len() + usize::from(newline.is_some());
            match &mut self.state {
                LineReaderState::Skipping(tail) => append_tail(tail, part),
                _ if self.line.len() + part.len() > self.line_bytes_max => {
                    // The part stays in the stream, and the next read skips it.
                    let mut head = std::mem::take(&mut self.line);
                    let mut tail = Vec::new();
                    append_tail(&mut tail, &head);
                    head.extend_from_slice(part.get(..ENDS_KEPT).unwrap_or(part));
                    head.truncate(ENDS_KEPT);
                    head.shrink_to_fit();
                    self.state = LineReaderState::Skipping(tail);
                    return Ok(LineEvent::TooLong(head));
                }
                _ => {
                    // Doubling would allocate up to twice the limit.
                    let room = self.line.capacity() - self.line.len();
                    if part.len() > room {
                        let doubled = self.line.capacity().max(part.len());
                        let most = self.line_bytes_max - self.line.len();
                        self.line.reserve_exact(doubled.min(most).max(part.len()));
                    }
                    self.line.extend_from_slice(part);
                }
            }
            self.stream.consume(consumed);
            if newline.is_some() {
                return Ok(match std::mem::replace(&mut self.state, LineReaderState::Reading) {
                    LineReaderState::Skipping(tail) => LineEvent::TooLongEnd(tail),
                    LineReaderState::Reading | LineReaderState::Ended => {
                        LineEvent::Whole(std::mem::take(&mut self.line))
                    }
                });
            }
        }
    }
}

/// Appends to the known end of a line.
fn append_tail(tail: &mut Vec<u8>, part: &[u8]) {
    tail.extend_from_slice(part.get(part.len().saturating_sub(ENDS_KEPT)..).unwrap_or(part));
    let excess = tail.len().saturating_sub(ENDS_KEPT);
    tail.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_lines(bytes: &'static [u8], max: usize) -> Vec<LineEvent> {
        let mut reader = LineReader::new(bytes, max);
        let mut lines = Vec::new();
        loop {
            let line = reader.next().await.unwrap();
            let ended = matches!(line, LineEvent::End(_));
            lines.push(line);
            if ended {
                return lines;
            }
        }
    }

    #[tokio::test]
    async fn overlong_line_is_reported_at_both_ends() {
        let events = read_lines(b"ab\n123456\ncd\nef", 4).await;
        let expected = [
            LineEvent::Whole(b"ab".into()),
            LineEvent::TooLong(b"123456".into()),
            LineEvent::TooLongEnd(b"123456".into()),
            LineEvent::Whole(b"cd".into()),
            LineEvent::End(b"ef".into()),
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test]
    async fn overlong_line_without_end_stops_at_eof() {
        let events = read_lines(b"123456", 4).await;
        let expected = [
            LineEvent::TooLong(b"123456".into()),
            LineEvent::TooLongEnd(b"123456".into()),
            LineEvent::End(Vec::new()),
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test]
    async fn huge_line_uses_bounded_memory() {
        const CHUNKS: usize = 200 * 16;
        let (mut there, here) = tokio::io::duplex(CHUNK);
        let writing = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            let chunk = vec![b'x'; CHUNK];
            for _ in 0..CHUNKS {
                there.write_all(&chunk).await.unwrap();
            }
            there.write_all(b"\nafter\n").await.unwrap();
        });
        let mut reader = LineReader::new(here, 1 << 20);
        assert!(
            matches!(reader.next().await.unwrap(), LineEvent::TooLong(head) if head.len() == ENDS_KEPT)
        );
        assert!(
            matches!(reader.next().await.unwrap(), LineEvent::TooLongEnd(tail) if tail.len() == ENDS_KEPT)
        );
        assert!(reader.line.capacity() <= 1 << 20, "{}", reader.line.capacity());
        assert_eq!(reader.next().await.unwrap(), LineEvent::Whole(b"after".into()));
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn dropped_read_loses_nothing() {
        use tokio::io::AsyncWriteExt as _;
        let (mut there, here) = tokio::io::duplex(64);
        let mut reader = LineReader::new(here, 100);
        for byte in b"hello" {
            there.write_all(&[*byte]).await.unwrap();
            let short = std::time::Duration::from_millis(1);
            assert!(tokio::time::timeout(short, reader.next()).await.is_err());
        }
        there.write_all(b"\n").await.unwrap();
        assert_eq!(reader.next().await.unwrap(), LineEvent::Whole(b"hello".into()));
    }
}
