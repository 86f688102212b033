//! The bounds of what is said to and by a provider.

use std::time::Duration;

use crate::model::retry::RetryLimits;

/// The bounds of what is said to and by a provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelHttpLimits {
    /// How long connecting may take, TLS included.
    pub connect_time: Duration,
    /// How long the head of an answer may take. A local server reads the whole conversation first.
    pub head_time: Duration,
    /// How long an answer may be without a byte.
    pub idle_time: Duration,
    /// How long a whole answer may take.
    pub answer_time: Duration,
    /// Longest event of an answer, in bytes.
    pub event_bytes_max: usize,
    /// Longest answer, in bytes of the stream.
    pub answer_bytes_max: u64,
    /// When it is asked again.
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
