//! What goes over the wire, bounded: our own transport under the SDK, for both sides.
//!
//! Whoever is at the other end may be broken or hostile. It may write lines without end, nest
//! without end, answer what nobody asked, mix its log into its answers, or never read. Here each of
//! that has a bound and is counted in [`Troubles`]; an answer that cannot be taken becomes an error
//! for the one who waits for it, at once, and one bad tool or content block leaves its neighbours
//! alone.
//!
//! [`Lines`] is the transport over pipes. [`Intake`] is what it does with each message that comes
//! in, for other transports to do the same.

mod clean;
mod envelope;
mod intake;
pub(crate) mod json;
mod ledger;
mod lines;
mod outbox;
mod role;
#[cfg(test)]
mod tests;
mod troubles;

use std::time::Duration;

pub(crate) use intake::refusal_in;
pub use intake::{Intake, Taken};
pub use ledger::Asked;
pub use lines::Lines;
pub use outbox::WireError;
pub use role::Role;
pub use troubles::{Closed, Quarantined, TroubleReport, Troubles};

/// How much is taken from the other end, and how long it may take to read what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line. The rest of a longer one is read and thrown away.
    pub line_bytes_max: usize,
    /// Deepest nesting of a message.
    pub depth_max: usize,
    /// Most values in a message. Parsed, each takes some hundred bytes however short it is.
    pub nodes_max: usize,
    /// How long the other end may let us wait until it reads on.
    pub write_timeout: Duration,
    /// Messages that wait to be written.
    pub queue_max: usize,
    /// Requests of the other end that are worked on at a time.
    pub requests_max: usize,
}

impl Default for Limits {
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
