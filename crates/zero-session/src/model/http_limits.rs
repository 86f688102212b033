//! The bounds of what is said to and by a provider.

use std::time::Duration;

use crate::model::retry::RetryLimits;

/// Limits of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelHttpLimits {
    /// Time limit for connecting, including TLS.
    pub connect_time: Duration,
    /// Time limit for the response head. A local server processes the whole conversation first.
    pub head_time: Duration,
    /// Maximum time without any data.
    pub idle_time: Duration,
    /// Time limit for a whole reply.
    pub answer_time: Duration,
    /// Maximum size of one event, in bytes.
    pub event_bytes_max: usize,
    /// Maximum size of a reply, in bytes of the stream.
    pub answer_bytes_max: u64,
    /// Limits of retries.
    pub retry: RetryLimits,
}

impl Default for ModelHttpLimits {
    fn default() -> Self {
        Self {
            connect_time: Duration::from_secs(15),
            head_time: Duration::from_secs(600),
            idle_time: Duration::from_secs(300),
            answer_time: Duration::from_secs(3600),
            event_bytes_max: 16 * 1024 * 1024,
            answer_bytes_max: 256 * 1024 * 1024,
            retry: RetryLimits::default(),
        }
    }
}
