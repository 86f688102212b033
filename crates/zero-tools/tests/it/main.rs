//! The canonical tools, used through the whole path as a face would.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]

mod changes;
mod contracts;
mod crash;
mod fixture;
mod undo;
