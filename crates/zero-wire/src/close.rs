//! How a connection ends: a code and a reason.

use std::fmt;

/// Done, as agreed.
pub const NORMAL: u16 = 1000;
/// The peer goes away.
pub const GOING_AWAY: u16 = 1001;
/// The peer did not keep to the protocol, or speaks another version.
pub const PROTOCOL_ERROR: u16 = 1002;
/// The connection ended without a word. Never sent.
pub const LOST: u16 = 1006;
/// The peer sent text that is none.
pub const NOT_TEXT: u16 = 1007;
/// Refused, or too slow.
pub const POLICY: u16 = 1008;
/// A message was too long.
pub const TOO_LONG: u16 = 1009;
/// The service restarts.
pub const RESTART: u16 = 1012;
/// Not now; try again later.
pub const TRY_LATER: u16 = 1013;
/// The peer was silent for too long.
pub const SILENT: u16 = 4000;

/// Most bytes of a reason on the wire.
pub const REASON_BYTES_MAX: usize = 123;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// The code, as WebSocket has them.
    pub code: u16,
    /// In words; may be empty.
    pub reason: String,
}

impl CloseReason {
    /// A reason. Words that are too long for the wire are cut.
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Self { code, reason }
    }

    /// The connection ended without a word.
    pub fn lost() -> Self {
        Self::new(LOST, "connection lost")
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.reason.is_empty() {
            // The peer chose these words; they may end up on a terminal.
            write!(f, " {}", self.reason.escape_debug())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reason: &str, expected: &str) {
        assert_eq!(CloseReason::new(POLICY, reason).to_string(), expected);
    }

    #[test]
    fn close_reason_is_short_and_safe_to_show() {
        check("", "1008");
        check("slow consumer", "1008 slow consumer");
        check("\u{1b}[2J", "1008 \\u{1b}[2J");
        check(&"é".repeat(100), &format!("1008 {}", "é".repeat(61)));
    }
}
