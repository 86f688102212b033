//! Parses shell scripts and analyzes the commands that they would run.
//!
//! [`parse`] builds the syntax tree like bash, in one pass and with bounded depth. [`analyse`] walks
//! the tree and collects the effects.

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
pub(crate) use variables::VariableEffect;
pub use variables::{changes_what_runs, is_locale_name, is_plain_locale};
pub(crate) use walk::analyze_program as analyse_program;
pub use walk::analyze_script as analyse;
pub(crate) use walk::{analyze_command_line, analyze_reading_script};
