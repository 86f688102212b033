//! How much the person here lets be done without asking.
//!
//! Settings say it until the person chooses in the editor, which is as much their word as a file is.
//! A gateway may ask for less, never for more.

use std::sync::{Mutex, PoisonError};

use zero_policy::Mode;

/// How much the person here lets be done without asking.
pub(crate) struct OwnMode(Mutex<Mode>);

impl OwnMode {
    /// As settings say.
    pub(crate) fn new(mode: Mode) -> Self {
        Self(Mutex::new(mode))
    }

    /// The person chose; gives back what held before.
    pub(crate) fn choose(&self, mode: Mode) -> Mode {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), mode)
    }

    /// What holds when a gateway wants this.
    pub(crate) fn bounded(&self, wanted: Mode) -> Mode {
        let own = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.is_within(own) { wanted } else { own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_person_lets_more_be_done() {
        let own = OwnMode::new(Mode::Ask);
        for (wanted, holds) in [
            (Mode::Auto, Mode::Ask),
            (Mode::AcceptEdits, Mode::Ask),
            (Mode::Ask, Mode::Ask),
            (Mode::Plan, Mode::Plan),
        ] {
            assert_eq!(own.bounded(wanted), holds, "{wanted}");
        }
        assert_eq!(own.choose(Mode::AcceptEdits), Mode::Ask);
        for (wanted, holds) in [
            (Mode::Auto, Mode::AcceptEdits),
            (Mode::AcceptEdits, Mode::AcceptEdits),
            (Mode::Ask, Mode::Ask),
        ] {
            assert_eq!(own.bounded(wanted), holds, "{wanted}");
        }
    }
}
