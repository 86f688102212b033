//! Reads the body of a plain request to its end and no further.
//!
//! Bytes after the body would be another request, perhaps for another host at the same address. So
//! the proxy finds the end itself and rewrites chunked bodies: the server cannot see a different
//! end.

/// Longest chunk-size line, in bytes.
const SIZE_LINE_MAX: usize = 256;
/// Longest trailer, in bytes.
const TRAILER_MAX: usize = 8 * 1024;

/// A body that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedBody;

/// Parses a body incrementally.
#[derive(Debug)]
pub(super) struct RequestBodyReader {
    form: BodyFraming,
    state: BodyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

#[derive(Debug, PartialEq, Eq)]
enum BodyState {
    /// Bytes left of a body that is not chunked.
    Plain(u64),
    /// The chunk-size line, as far as it was read.
    Size(Vec<u8>),
    /// Bytes left of a chunk.
    Chunk(u64),
    /// The line break after a chunk, of which so many bytes were read.
    ChunkEnd(usize),
    /// The trailer: the length of the current line and of all lines.
    Trailer {
        line: Vec<u8>,
        all: usize,
    },
    Done,
}

impl RequestBodyReader {
    pub(super) fn none() -> Self {
        Self { form: BodyFraming::None, state: BodyState::Done }
    }

    pub(super) fn with_length(length: u64) -> Self {
        let state = if length == 0 { BodyState::Done } else { BodyState::Plain(length) };
        Self { form: BodyFraming::Length(length), state }
    }

    pub(super) fn chunked() -> Self {
        Self { form: BodyFraming::Chunked, state: BodyState::Size(Vec::new()) }
    }

    /// The header that declares this body, with its line break.
    pub(super) fn header(&self) -> String {
        match self.form {
            BodyFraming::None => String::new(),
            BodyFraming::Length(length) => format!("Content-Length: {length}\r\n"),
            BodyFraming::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        }
    }

    /// Whether the whole body was read.
    pub(super) fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// Parses more input and appends what is forwarded to `out`. Returns the bytes after the body.
    pub(super) fn feed<'a>(
        &mut self,
        mut input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], MalformedBody> {
        while !self.is_done() && !input.is_empty() {
            input = self.step(input, out)?;
        }
        Ok(input)
    }

    /// Parses at least one byte.
    fn step<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], MalformedBody> {
        let Some((byte, rest)) = input.split_first() else { return Ok(input) };
        match &mut self.state {
            BodyState::Done => Ok(input),
            BodyState::Plain(left) => {
                let (part, rest) = split(input, *left);
                out.extend_from_slice(part);
                *left -= part.len() as u64;
                if *left == 0 {
                    self.state = BodyState::Done;
                }
                Ok(rest)
            }
            BodyState::Chunk(left) => {
                let (part, rest) = split(input, *left);
                out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                out.extend_from_slice(part);
                out.extend_from_slice(b"\r\n");
                *left -= part.len() as u64;
                if *left == 0 {
                    self.state = BodyState::ChunkEnd(0);
                }
                Ok(rest)
            }
            BodyState::ChunkEnd(seen) => {
                self.state = match (*seen, byte) {
                    (0, b'\r') => BodyState::ChunkEnd(1),
                    (1, b'\n') => BodyState::Size(Vec::new()),
                    _ => return Err(MalformedBody),
                };
                Ok(rest)
            }
            BodyState::Size(line) => {
                if let Some(line) = add_to_line(line, *byte, SIZE_LINE_MAX)? {
                    self.state = match chunk_size(&line)? {
                        0 => BodyState::Trailer { line: Vec::new(), all: 0 },
                        size => BodyState::Chunk(size),
                    };
                }
                Ok(rest)
            }
            BodyState::Trailer { line, all } => {
                *all += 1;
                if let Some(line) = add_to_line(line, *byte, TRAILER_MAX.saturating_sub(*all))?
                    && line.is_empty()
                {
                    out.extend_from_slice(b"0\r\n\r\n");
                    self.state = BodyState::Done;
                }
                Ok(rest)
            }
        }
    }
}

fn split(input: &[u8], most: u64) -> (&[u8], &[u8]) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    input.split_at_checked(most).unwrap_or((input, &[]))
}

/// Appends a byte. Returns the line when it is complete; only CR LF ends it.
fn add_to_line(
    line: &mut Vec<u8>,
    byte: u8,
    most: usize,
) -> Result<Option<Vec<u8>>, MalformedBody> {
    let after_cr = line.last() == Some(&b'\r');
    match byte {
        b'\n' if after_cr => {
            line.pop();
            Ok(Some(std::mem::take(line)))
        }
        b'\n' => Err(MalformedBody),
        _ if after_cr || line.len() >= most => Err(MalformedBody),
        _ => {
            line.push(byte);
            Ok(None)
        }
    }
}

/// Parses `1a` or `1a;name=value`.
fn chunk_size(line: &[u8]) -> Result<u64, MalformedBody> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let is_number = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number).ok_or(MalformedBody)?;
    u64::from_str_radix(digits, 16).map_err(|_| MalformedBody)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the input in parts of `size` bytes.
    fn feed(
        mut body: RequestBodyReader,
        input: &str,
        size: usize,
    ) -> Result<String, MalformedBody> {
        let (mut out, mut surplus) = (Vec::new(), Vec::new());
        for part in input.as_bytes().chunks(size) {
            surplus.extend_from_slice(body.feed(part, &mut out)?);
        }
        let state = if body.is_done() { "done" } else { "open" };
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok(format!("{}|{}|{state}", text(out), text(surplus)))
    }

    #[track_caller]
    fn check(body: RequestBodyReader, input: &str, expected: Result<&str, MalformedBody>) {
        let fed = feed(body, input, input.len().max(1));
        assert_eq!(fed.as_deref().map_err(|error| *error), expected, "{input:?}");
    }

    #[test]
    fn body_ends_at_declared_length() {
        check(RequestBodyReader::none(), "GET /", Ok("|GET /|done"));
        check(RequestBodyReader::with_length(0), "x", Ok("|x|done"));
        check(RequestBodyReader::with_length(3), "abcdef", Ok("abc|def|done"));
        check(RequestBodyReader::with_length(9), "abc", Ok("abc||open"));
        let chunks = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\nGET /";
        check(
            RequestBodyReader::chunked(),
            chunks,
            Ok("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n|GET /|done"),
        );
        check(RequestBodyReader::chunked(), "0\r\n\r\n", Ok("0\r\n\r\n||done"));
        check(RequestBodyReader::chunked(), "5\r\nab", Ok("2\r\nab\r\n||open"));
    }

    #[test]
    fn body_parsing_is_independent_of_splits() {
        let chunks = "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nrest";
        for size in 1..chunks.len() {
            let fed = feed(RequestBodyReader::chunked(), chunks, size).unwrap();
            assert!(fed.ends_with("|rest|done"), "{size}: {fed}");
        }
    }

    #[test]
    fn malformed_chunks_fail() {
        for input in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\n",
            "1\rX",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rx",
            "ffffffffffffffff\r\n",
            "0\r\n\n",
            "0\r\nX\n",
        ] {
            check(RequestBodyReader::chunked(), input, Err(MalformedBody));
        }
        let long = format!("1;{}", "x".repeat(SIZE_LINE_MAX));
        check(RequestBodyReader::chunked(), &long, Err(MalformedBody));
        let trailers = format!("0\r\n{}", "T: 1\r\n".repeat(TRAILER_MAX));
        check(RequestBodyReader::chunked(), &trailers, Err(MalformedBody));
    }
}
