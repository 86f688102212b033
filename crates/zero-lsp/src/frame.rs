//! Messages on a pipe: a header that says how long each is, and so many bytes of JSON.
//!
//! Whatever comes in is bounded before it is parsed: the header, the length, how deep the JSON goes
//! and how many values it holds. What is no message ends the conversation, since nothing tells where
//! the next one would begin.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest header.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// Largest message that is taken.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Most values in a message; each costs far more than its bytes once it is parsed.
const VALUES_MAX: usize = 400_000;
/// How deep a message may go.
const DEPTH_MAX: usize = 64;
/// How much of what is no message is shown.
const SHOWN_BYTES: usize = 120;

/// Why nothing more can be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspFrameError {
    /// There is nothing more to read.
    #[error("its output ended")]
    Ended,
    /// What came is no message.
    #[error("it wrote what is no message of a language server: `{0}`")]
    InvalidMessage(String),
    /// A message is larger than is taken.
    #[error("it sent a message of {0} bytes; at most {MESSAGE_BYTES_MAX} are taken")]
    TooLarge(u64),
    /// A message holds too much for its size.
    #[error("it sent a message with more than {VALUES_MAX} values, or one deeper than {DEPTH_MAX}")]
    TooComplex,
}

/// Reads messages one after the other.
#[derive(Debug)]
pub struct LspFrameReader<R> {
    source: R,
    /// What was read and belongs to no message yet.
    held: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LspFrameReader<R> {
    /// Reads from `source`.
    pub fn new(source: R) -> Self {
        Self { source, held: Vec::new() }
    }

    /// The next message. After an error there is none.
    pub async fn next(&mut self) -> Result<Vec<u8>, LspFrameError> {
        let header = loop {
            if let Some(end) = find_header_end(&self.held) {
                break end;
            }
            if self.held.len() > HEADER_BYTES_MAX || !may_be_header(&self.held) {
                return Err(LspFrameError::InvalidMessage(render_prefix(&self.held)));
            }
            self.read_more(HEADER_BYTES_MAX).await?;
        };
        let length = parse_content_length(self.held.get(..header).unwrap_or_default())?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= MESSAGE_BYTES_MAX)
            .ok_or(LspFrameError::TooLarge(length))?;
        self.held.drain(..header);
        // Room is made as bytes come, so that a long promise costs nothing.
        while self.held.len() < length {
            self.read_more(length - self.held.len()).await?;
        }
        let rest = self.held.split_off(length);
        let message = std::mem::replace(&mut self.held, rest);
        if is_within_limits(&message) { Ok(message) } else { Err(LspFrameError::TooComplex) }
    }

    async fn read_more(&mut self, wanted: usize) -> Result<(), LspFrameError> {
        let mut chunk = vec![0; wanted.clamp(1, 64 << 10)];
        match self.source.read(&mut chunk).await {
            Ok(length @ 1..) => {
                self.held.extend_from_slice(chunk.get(..length).unwrap_or_default());
                Ok(())
            }
            Ok(0) | Err(_) => Err(LspFrameError::Ended),
        }
    }
}

/// A message with its header.
pub fn encode_frame(body: &[u8]) -> Vec<u8> {
    let mut message = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    message.extend_from_slice(body);
    message
}

/// Where the body begins, once all of the header is there.
fn find_header_end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..bytes.len().min(HEADER_BYTES_MAX))?;
    header.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Whether a header can still come of it: one is a name and a colon, and a log line is not.
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

/// Whether it holds no more than is taken, by its marks alone.
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
