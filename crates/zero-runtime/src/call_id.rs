//! Names for calls.

use zero_core::CallId;

/// A name that no other call has.
pub fn new_call_id() -> CallId {
    CallId::from_bits(fastrand::u128(..))
}
