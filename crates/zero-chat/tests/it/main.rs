//! Tests of the chat against real terminals.
#![expect(clippy::disallowed_methods, reason = "tests start terminals and make pipes for them")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod inline_screen_test;
mod shown_row;
mod terminal_under_test;
mod tmux_terminal;
mod vt100_terminal;
mod xterm_terminal;
