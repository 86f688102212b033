//! Shell scripts: from text to a tree, from a tree to the commands that would run.

mod arg;
pub mod ast;

pub use arg::Arg;
