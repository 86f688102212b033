//! From the text of a script to its tree, the way `bash -c` reads it.
//!
//! One pass, by recursive descent, with a bounded depth. An error never throws away what was read
//! before it: bash runs a script line by line, so what stands before an error may well run. To
//! that end an error moves the reader to the end of the text; everything under way then ends as it
//! would at the end of input, and hands over what it has.
//!
//! Where bash's own reading is doubtful (it differs between versions, or a text is expanded twice)
//! the answer is an error: what cannot be read is asked about, never allowed. Reading something
//! else than bash does would be the worst answer.

mod ansi_c;
mod arithmetic;
mod backtick;
mod command;
mod compound;
mod conditional;
mod dollar_expansion;
mod heredoc;
mod list;
mod reader;
mod redirect;
mod simple_command;
mod word;

use super::ast::CommandList;
use reader::ScriptReader;

/// How deep constructs may be nested, all kinds together. People stay below ten.
const DEPTH_MAX: usize = 100;

/// What was read of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedScript {
    /// The commands; with an error, those up to it, and the finished parts of the one it is in.
    pub list: CommandList,
    /// The first thing that could not be read.
    pub error: Option<ShellSyntaxError>,
}

/// Why a script could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShellSyntaxError {
    /// What is wrong.
    pub message: String,
    /// The byte it was found at.
    pub at: usize,
}

impl ShellSyntaxError {
    /// Whether the script is nested deeper than anybody looks; then nothing is known of the rest.
    pub fn is_too_deep(&self) -> bool {
        self.message == reader::TOO_DEEP
    }
}

/// Reads a script as `bash -c` would: no aliases, no history, no `extglob`.
pub fn parse(source: &str) -> ParsedScript {
    // No argument of a process holds a NUL, and bash drops them from files: nothing to rely on.
    let text = source.split('\0').next().unwrap_or_default();
    let (list, mut error) = ScriptReader::new(text).parse_script();
    if text.len() < source.len() && error.is_none() {
        error = Some(ShellSyntaxError { message: "a NUL byte".to_owned(), at: text.len() });
    }
    ParsedScript { list, error }
}

#[cfg(test)]
mod tests;
