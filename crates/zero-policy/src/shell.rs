//! Shell scripts: from text to a tree, from a tree to the commands that would run.
//!
//! [`parse`] reads bash as bash does, in one pass and bounded depth. [`analyse`] follows the tree.

pub mod analysis;
mod arg;
pub mod ast;
mod expand;
mod parse;
mod shell_state;
mod variables;
mod walk;

pub use arg::ShellArg;
pub use parse::{ParsedScript, ShellSyntaxError, parse};
pub use variables::changes_what_runs;
pub(crate) use walk::analyze_program as analyse_program;
pub use walk::analyze_script as analyse;
