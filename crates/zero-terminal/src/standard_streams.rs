//! [`StandardStreams`], what is known of the streams of the process.

use crate::terminal_kind::ReflowKind;

/// Properties of the standard streams and the terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardStreams {
    /// Whether stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// Whether to use colors on a terminal.
    pub colours: bool,
    /// Whether the locale uses UTF-8.
    pub utf8: bool,
    /// Whether the locale uses another encoding. Without a locale, as in containers, neither is known.
    pub ascii: bool,
    /// Width of the terminal in columns, if there is one.
    pub columns: Option<usize>,
    /// What the terminal does with its rows when its width changes.
    pub reflow: ReflowKind,
}
