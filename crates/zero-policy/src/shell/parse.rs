//! Parses the text of a script into its tree, like `bash -c`.
//!
//! One pass, by recursive descent, with a bounded depth. An error does not discard what was parsed
//! before it: bash runs a script line by line, so the lines before an error may run. To this end an
//! error moves the reader to the end of the text; every open construct then ends as it would at the
//! end of input, and returns what it has.
//!
//! If bash's own parsing is ambiguous (it differs between versions, or a text is expanded twice),
//! the result is an error: zero asks about scripts that cannot be parsed, and never allows them.
//! Parsing differently from bash would be the worst result.

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

/// Deepest nesting of constructs, of all kinds together. Ordinary scripts stay below ten.
const DEPTH_MAX: usize = 100;

/// The result of parsing a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedScript {
    /// The commands; with an error, those before it, and the finished parts of the one with the
    /// error.
    pub list: CommandList,
    /// The first error.
    pub error: Option<ShellSyntaxError>,
}

/// Why a script could not be parsed to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShellSyntaxError {
    /// The error message.
    pub message: String,
    /// The byte offset of the error.
    pub at: usize,
}

impl ShellSyntaxError {
    /// Whether the script is nested too deeply; then nothing is known about the rest.
    pub fn is_too_deep(&self) -> bool {
        self.message == reader::TOO_DEEP
    }
}

/// Parses a script like `bash -c`: no aliases, no history, no `extglob`.
pub fn parse(source: &str) -> ParsedScript {
    // No argument of a process contains a NUL, and bash drops them from files: do not rely on it.
    let text = source.split('\0').next().unwrap_or_default();
    let (list, mut error) = ScriptReader::new(text).parse_script();
    if text.len() < source.len() && error.is_none() {
        error = Some(ShellSyntaxError { message: "a NUL byte".to_owned(), at: text.len() });
    }
    ParsedScript { list, error }
}

#[cfg(test)]
mod tests;
