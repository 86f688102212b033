//! How a connection ends: WebSocket close codes, and [`CloseReason`], a code with a text.

use std::fmt;
use zero_core::text_shortening::head;

/// The connection ended as intended.
pub const NORMAL: u16 = 1000;
/// The peer is going away.
pub const GOING_AWAY: u16 = 1001;
/// The peer violated the protocol, or supports no common version of it.
pub const PROTOCOL_ERROR: u16 = 1002;
/// The connection ended without a close frame. Never sent.
pub const LOST: u16 = 1006;
/// The peer sent a text message that is not UTF-8.
pub const NOT_TEXT: u16 = 1007;
/// The peer was refused, or reads too slowly.
pub const POLICY: u16 = 1008;
/// A message was too long.
pub const TOO_LONG: u16 = 1009;
/// The gateway is restarting.
pub const RESTART: u16 = 1012;
/// Temporarily not possible; the peer should try again later.
pub const TRY_LATER: u16 = 1013;
/// The peer sent nothing for too long.
pub const SILENT: u16 = 4000;

/// Maximum length of a reason on the wire, in bytes.
pub const REASON_BYTES_MAX: usize = 123;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// The WebSocket close code.
    pub code: u16,
    /// The reason as text; may be empty.
    pub reason: String,
}

impl CloseReason {
    /// Creates a reason. A text that is too long for the wire is cut.
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        reason.truncate(head(&reason, REASON_BYTES_MAX).len());
        Self { code, reason }
    }

    /// The reason of a connection that ended without a close frame.
    pub fn lost() -> Self {
        Self::new(LOST, "connection lost")
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.reason.is_empty() {
            // The peer wrote this text, and it may be printed on a terminal.
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
