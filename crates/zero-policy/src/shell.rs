//! Shell scripts: from text to a tree, from a tree to the commands that would run.

mod arg;
pub mod ast;
mod parse;

pub use arg::Arg;
pub use parse::{Parsed, SyntaxError, parse};
