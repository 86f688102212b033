//! The marks at the start of zero's own rows, and rows of others that could be taken for them.
//!
//! Only zero's own rows begin with a mark in the first column. A row of an answer that would begin so
//! is indented, since without colours nothing else would tell the two apart.

use std::borrow::Cow;

use super::ViewOptions;
use crate::styled_row::{letter_columns, row_text};

/// What precedes zero's own rows.
pub(crate) struct Marks {
    pub(crate) prompt: &'static str,
    pub(crate) done: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) denied: &'static str,
    pub(crate) stopped: &'static str,
    pub(crate) running: &'static str,
    pub(crate) question: &'static str,
    pub(crate) thought: &'static str,
    pub(crate) notice: &'static str,
    pub(crate) run_end: &'static str,
    pub(crate) current_step: &'static str,
    pub(crate) step_done: &'static str,
    pub(crate) step_open: &'static str,
    /// Where something was cut.
    pub(crate) ellipsis: &'static str,
}

const GLYPHS: Marks = Marks {
    prompt: "›",
    done: "•",
    failed: "✗",
    denied: "⊘",
    stopped: "■",
    running: "◦",
    question: "?",
    thought: "✻",
    notice: "!",
    run_end: "■",
    current_step: "▸",
    step_done: "✓",
    step_open: "·",
    ellipsis: "…",
};

const WORDS: Marks = Marks {
    prompt: "[you]",
    done: "[done]",
    failed: "[failed]",
    denied: "[denied]",
    stopped: "[stopped]",
    running: "[running]",
    question: "[question]",
    thought: "[thought]",
    notice: "[note]",
    run_end: "[run]",
    current_step: "[>]",
    step_done: "[x]",
    step_open: "[ ]",
    ellipsis: "...",
};

/// Signs that every terminal has.
const ASCII: Marks = Marks {
    prompt: ">",
    done: "*",
    failed: "x",
    denied: "0",
    stopped: "=",
    running: "o",
    question: "?",
    thought: "~",
    notice: "!",
    run_end: "=",
    current_step: ">",
    step_done: "x",
    step_open: "-",
    ellipsis: "...",
};

/// Characters that are drawn like a mark, or nearly so.
const LOOKALIKES: &[char] =
    &['●', '∙', '⦁', '❯', '✘', '✕', '⊗', '∅', '○', '▪', '◼', '▶', '✔', '＞'];

impl Marks {
    /// The marks of a view.
    pub(crate) fn new(options: ViewOptions) -> &'static Self {
        match (options.plain, options.ascii) {
            (true, _) => &WORDS,
            (false, true) => &ASCII,
            (false, false) => &GLYPHS,
        }
    }

    /// The marks in the first column.
    fn first_column(&self) -> [&'static str; 12] {
        [
            self.prompt,
            self.done,
            self.failed,
            self.denied,
            self.stopped,
            self.running,
            self.question,
            self.thought,
            self.notice,
            self.run_end,
            self.current_step,
            self.step_done,
        ]
    }

    /// Whether a row begins as one of zero's own.
    pub(crate) fn begins(&self, row: &str) -> bool {
        let text = row_text(row);
        // Characters without a width do not move what follows them.
        let text = text.trim_start_matches(|letter| letter_columns(letter) == 0);
        let has_mark = |mark: &str| match text.strip_prefix(mark) {
            // `?`, `!` and others of one byte are common at the start of words.
            Some(rest) if mark.len() == 1 => rest.is_empty() || rest.starts_with(' '),
            rest => rest.is_some(),
        };
        self.first_column().into_iter().any(has_mark) || text.starts_with(LOOKALIKES)
    }

    /// A row of an answer, indented if it could be taken for one of zero's own.
    pub(crate) fn guard_row<'a>(&self, row: &'a str) -> Cow<'a, str> {
        if self.begins(row) { Cow::Owned(format!("  {row}")) } else { Cow::Borrowed(row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_begin_with_mark_are_indented() {
        for row in ["› a", "• a", "•", "✗ a", "⊘a", "◦ a", "? a", "! a", "\u{301}• a", "● a", "■"]
        {
            assert_eq!(GLYPHS.guard_row(row), format!("  {row}"));
        }
        assert_eq!(GLYPHS.guard_row("\x1b[32m•\x1b[0m a"), "  \x1b[32m•\x1b[0m a");
        for row in ["", "a", "- a", "  • a", "!a", "?", "[done] a"] {
            let is_mark = row == "?";
            assert_eq!(GLYPHS.guard_row(row) != row, is_mark, "{row}");
        }
        assert_eq!(WORDS.guard_row("[done] a"), "  [done] a");
        assert_eq!(WORDS.guard_row("[link] a"), "[link] a");
    }
}
