//! Generates call ids.

use zero_core::CallId;

/// A new unique call id.
pub fn new_call_id() -> CallId {
    CallId::from_bits(fastrand::u128(..))
}
