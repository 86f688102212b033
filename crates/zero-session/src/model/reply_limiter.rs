//! Limits the size of a reply.

use crate::model::{ModelError, ModelErrorKind};

/// Maximum number of parts of one reply: texts, thoughts and calls.
pub(crate) const PARTS_MAX: usize = 256;
/// Maximum size of one reply in bytes: text, thoughts, arguments and opaque data.
pub(crate) const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Size of a reply so far.
#[derive(Debug, Default)]
pub(crate) struct ReplyLimiter {
    parts: usize,
    bytes: usize,
}

impl ReplyLimiter {
    /// Counts one more part; fails after `PARTS_MAX` of them.
    pub(crate) fn count_part(&mut self) -> Result<(), ModelError> {
        self.parts = self.parts.saturating_add(1);
        if self.parts > PARTS_MAX {
            return Err(too_large_error(&format!("more than {PARTS_MAX} parts")));
        }
        Ok(())
    }

    /// Counts bytes before they are stored.
    pub(crate) fn count_bytes(&mut self, count: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(count);
        if self.bytes > BYTES_MAX {
            return Err(too_large_error(&format!("more than {} MiB", BYTES_MAX >> 20)));
        }
        Ok(())
    }
}

/// Not retried: the next reply to the same request would be as long.
fn too_large_error(what: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::InvalidRequest,
        format!("the model's answer has {what} and was stopped; ask for less at a time"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_over_limit_is_error() {
        let mut tally = ReplyLimiter::default();
        for _ in 0..PARTS_MAX {
            tally.count_part().unwrap();
        }
        assert!(tally.count_part().unwrap_err().message.contains("256 parts"));
        tally.count_bytes(BYTES_MAX).unwrap();
        assert!(tally.count_bytes(1).unwrap_err().message.contains("8 MiB"));
        assert!(tally.count_bytes(usize::MAX).is_err());
    }
}
