//! LSP framing: a header with the length of the message, then that many bytes of JSON.
//!
//! Everything is bounded before it is parsed: header, length, depth of the JSON and number of
//! values in it. A malformed frame ends the connection, because there is no way to find the start
//! of the next one.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest header, in bytes.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// Largest message that is accepted, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Most JSON values in a message: once parsed, each takes far more memory than its bytes.
const VALUES_MAX: usize = 400_000;
/// How deep the JSON of a message may be nested.
const DEPTH_MAX: usize = 64;
/// How many bytes of invalid input an error shows.
const SHOWN_BYTES: usize = 120;

/// Why no more messages can be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspFrameError {
    /// The stream ended.
    #[error("its output ended")]
    Ended,
    /// The input is not a frame. Carries the start of it, made printable.
    #[error("it wrote something that is not a language server message: `{0}`")]
    InvalidMessage(String),
    /// A message is larger than [`MESSAGE_BYTES_MAX`]. Carries its announced length.
    #[error("it sent a message of {0} bytes, more than the {MESSAGE_BYTES_MAX} allowed")]
    TooLarge(u64),
    /// A message has too many values or is nested too deeply.
    #[error(
        "it sent a message with more than {VALUES_MAX} values or nested deeper than {DEPTH_MAX} levels"
    )]
    TooComplex,
}

/// Reads the messages of a stream one by one.
#[derive(Debug)]
pub struct LspFrameReader<R> {
    source: R,
    /// Bytes that were read and not yet returned.
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LspFrameReader<R> {
    /// Creates a reader of `source`.
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// Returns the body of the next message. After an error, all further calls fail.
    pub async fn next(&mut self) -> Result<Vec<u8>, LspFrameError> {
        let header = loop {
            if let Some(end) = find_header_end(&self.buffer) {
                break end;
            }
            if self.buffer.len() > HEADER_BYTES_MAX || !may_be_header(&self.buffer) {
                return Err(LspFrameError::InvalidMessage(render_prefix(&self.buffer)));
            }
            self.read_more(HEADER_BYTES_MAX).await?;
        };
        let length = parse_content_length(self.buffer.get(..header).unwrap_or_default())?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= MESSAGE_BYTES_MAX)
            .ok_or(LspFrameError::TooLarge(length))?;
        self.buffer.drain(..header);
        // The buffer grows as bytes arrive, so that an announced length alone allocates nothing.
        while self.buffer.len() < length {
            self.read_more(length - self.buffer.len()).await?;
        }
        let rest = self.buffer.split_off(length);
        let message = std::mem::replace(&mut self.buffer, rest);
        if is_within_limits(&message) { Ok(message) } else { Err(LspFrameError::TooComplex) }
    }

    async fn read_more(&mut self, target_bytes: usize) -> Result<(), LspFrameError> {
        let mut chunk = vec![0; target_bytes.clamp(1, 64 << 10)];
        match self.source.read(&mut chunk).await {
            Ok(length @ 1..) => {
                self.buffer.extend_from_slice(chunk.get(..length).unwrap_or_default());
                Ok(())
            }
            Ok(0) | Err(_) => Err(LspFrameError::Ended),
        }
    }
}

/// Returns a message with its header.
pub fn encode_frame(body: &[u8]) -> Vec<u8> {
    let mut message = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    message.extend_from_slice(body);
    message
}

/// Returns where the body starts, once the header is complete.
fn find_header_end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..bytes.len().min(HEADER_BYTES_MAX))?;
    header.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Returns whether the bytes can still become a header: it has a name and a colon, which a line of
/// a log mostly lacks.
fn may_be_header(bytes: &[u8]) -> bool {
    let name = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    name.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-')
}

fn parse_content_length(header: &[u8]) -> Result<u64, LspFrameError> {
    let wrong = || LspFrameError::InvalidMessage(render_prefix(header));
    let text = std::str::from_utf8(header).map_err(|_| wrong())?;
    let mut lengths = text.split("\r\n").filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    let (Some(length), None) = (lengths.next(), lengths.next()) else { return Err(wrong()) };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    length.parse().ok().filter(|_| is_number).ok_or_else(wrong)
}

/// Checks the depth and the number of values by counting brackets and commas, without parsing.
fn is_within_limits(message: &[u8]) -> bool {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let (mut in_text, mut escaped) = (false, false);
    for byte in message {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (true, _) => {}
            (false, b'[' | b'{') => (depth, values) = (depth + 1, values + 1),
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, b',' | b':') => values += 1,
            (false, _) => {}
        }
        if depth > DEPTH_MAX || values > VALUES_MAX {
            return false;
        }
    }
    true
}

fn render_prefix(bytes: &[u8]) -> String {
    let bytes = bytes.get(..bytes.len().min(SHOWN_BYTES)).unwrap_or_default();
    zero_core::sanitize::to_line(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read_all(bytes: &[u8]) -> (Vec<String>, LspFrameError) {
        let mut reader = LspFrameReader::new(bytes);
        let mut messages = Vec::new();
        loop {
            match reader.next().await {
                Ok(message) => messages.push(String::from_utf8(message).unwrap()),
                Err(error) => return (messages, error),
            }
        }
    }

    #[tokio::test]
    async fn messages_are_read_in_sequence() {
        let two = [encode_frame(br#"{"a":1}"#), encode_frame("{\"é\":[]}".as_bytes())].concat();
        let (messages, error) = read_all(&two).await;
        assert_eq!(messages, [r#"{"a":1}"#, "{\"é\":[]}"]);
        assert_eq!(error, LspFrameError::Ended);
        let typed = b"content-length: 2\r\nContent-Type: application/vscode-jsonrpc\r\n\r\n{}";
        assert_eq!(read_all(typed).await.0, ["{}"]);
    }

    #[tokio::test]
    async fn invalid_message_ends_reading() {
        for (bytes, part) in [
            (&b"Server listening on stdio\n"[..], "Server listening"),
            (b"{\"jsonrpc\":\"2.0\"}\n", "jsonrpc"),
            (b"Content-Length: -1\r\n\r\n", "-1"),
            (b"Content-Length: +1\r\n\r\nx", "+1"),
            (b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "Content-Length"),
            (b"Content-Type: x\r\n\r\n{}", "Content-Type"),
            (&[b'a'; 3 * HEADER_BYTES_MAX], "aaa"),
        ] {
            let (messages, error) = read_all(bytes).await;
            assert!(messages.is_empty());
            let LspFrameError::InvalidMessage(shown) = error else { panic!("{error:?}") };
            assert!(shown.contains(part), "{shown}");
        }
        let huge = format!("Content-Length: {}\r\n\r\n", u64::MAX);
        assert_eq!(read_all(huge.as_bytes()).await.1, LspFrameError::TooLarge(u64::MAX));
    }

    #[tokio::test]
    async fn oversized_json_is_not_parsed() {
        let deep = "[".repeat(DEPTH_MAX + 1);
        assert_eq!(read_all(&encode_frame(deep.as_bytes())).await.1, LspFrameError::TooComplex);
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(read_all(&encode_frame(many.as_bytes())).await.1, LspFrameError::TooComplex);
        let text = format!(r#"["{}\"[[[["]"#, ",".repeat(VALUES_MAX * 2));
        assert_eq!(read_all(&encode_frame(text.as_bytes())).await.0.len(), 1);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (_, error) = runtime.block_on(read_all(&bytes));
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
