//! The wall clock, as ledgers and wires write it.

use jiff::Timestamp;

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}
