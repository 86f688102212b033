//! The near side of a gateway: a connection that comes back, sessions in one set of words whichever
//! gateway has them, and tools hosted for it.
//!
//! A gateway of zero's own is asked for its ledger. Another one of the family has only chat messages
//! and streams; what it says is told here as entries of a ledger, so that no face has to know which
//! of both it talks to.

pub mod dial;
mod early;
mod error;
mod family;
mod heard;
mod inbox;
pub mod link;
pub mod near;
mod own;
mod slot;
pub mod tool_service;
mod unheard;

pub use error::LinkError;
pub use link::{Dial, Dialled, Link, Place};
pub use near::{Change, Heard, Listed, Listing, Near, News, Opening, Overlap, Page, Sending};
/// What is known of sessions, in the words of the wire.
pub mod wire {
    pub use zero_wire::zero_sessions::{ChoicesResult, CommandInfo, SessionInfo};
}
