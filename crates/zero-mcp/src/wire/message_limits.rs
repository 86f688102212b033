//! The limits of a connection.

use std::time::Duration;

/// Limits for the messages of a peer, and for the time that it may take to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpMessageLimits {
    /// Maximum length of a line, in bytes. The rest of a longer one is read and dropped.
    pub line_bytes_max: usize,
    /// Maximum nesting depth of a message.
    pub depth_max: usize,
    /// Maximum number of values in a message. Each takes some hundred bytes once parsed, however
    /// short it is.
    pub nodes_max: usize,
    /// How long the peer may not read.
    pub write_timeout: Duration,
    /// Maximum number of messages that wait to be written.
    pub queue_max: usize,
    /// Maximum number of the peer's requests that are processed at a time.
    pub requests_max: usize,
}

impl Default for McpMessageLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 8 << 20,
            depth_max: 128,
            nodes_max: 200_000,
            write_timeout: Duration::from_secs(5),
            queue_max: 64,
            requests_max: 256,
        }
    }
}
