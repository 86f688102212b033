//! Whether the user looks at the terminal, as far as the terminal reports it.
//!
//! Not every terminal reports focus, and none does while a question or another program has the keyboard.
//! As long as it is not known, the user may look elsewhere.

/// What is known of the focus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TerminalFocus {
    /// Whether the terminal ever reported it.
    is_reported: bool,
    /// Whether the terminal has it; `None` if that is not known.
    has_focus: Option<bool>,
}

impl TerminalFocus {
    /// The terminal reported it.
    pub(crate) fn report(&mut self, has_focus: bool) {
        *self = Self { is_reported: true, has_focus: Some(has_focus) };
    }

    /// The user pressed a key. Without focus reports, zero would not learn when the user leaves.
    pub(crate) fn note_key(&mut self) {
        if self.is_reported {
            self.has_focus = Some(true);
        }
    }

    /// It was not reported for a while.
    pub(crate) fn forget(&mut self) {
        self.has_focus = None;
    }

    /// Whether the user is known to look at the terminal.
    pub(crate) fn is_known(self) -> bool {
        self.has_focus == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn focus_is_unknown_without_reports() {
        let mut focus = TerminalFocus::default();
        focus.note_key();
        assert!(!focus.is_known(), "it would never be known when the user leaves");
        focus.report(false);
        assert!(!focus.is_known());
        focus.note_key();
        assert!(focus.is_known(), "a report was missed");
        focus.forget();
        assert!(!focus.is_known());
        focus.report(true);
        assert!(focus.is_known());
    }
}
