//! How much the person here lets be done without asking.
//!
//! Settings say it until the person chooses. What they choose in the editor is as much their word as a
//! file is. So is what a gateway in this very process keeps with a session: only those who may answer
//! for this person write there, and no tool does, since none reaches the folder it lies in. What a
//! gateway elsewhere keeps is a wish: it may ask for less, never for more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_client::Place;
use zero_client::wire::SessionInfo;
use zero_policy::Mode;
use zero_session::hands::{Hands, HandsError};

/// How much the person here lets be done without asking, in one session.
pub(crate) struct OwnMode {
    place: Place,
    /// As settings say.
    usual: Mode,
    said: Mutex<Said>,
    /// Held while hands are told: what they are told last is what holds.
    telling: tokio::sync::Mutex<()>,
}

/// What was said, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The person's word.
    own: Mode,
    /// What the gateway wants.
    wanted: Mode,
    /// Entries of the ledger up to this one say nothing new of it.
    known_until: u64,
}

impl OwnMode {
    /// For a session as its gateway keeps it.
    pub(crate) fn new(place: Place, usual: Mode, info: &SessionInfo) -> Self {
        let kept = info.mode.as_deref().and_then(|mode| mode.parse().ok());
        let own = match place {
            Place::Here => kept.unwrap_or(usual),
            Place::Elsewhere => usual,
        };
        let said = Said { own, wanted: own, known_until: info.last_seq };
        Self { place, usual, said: Mutex::new(said), telling: tokio::sync::Mutex::default() }
    }

    /// The person's word.
    pub(crate) fn own(&self) -> Mode {
        self.said().own
    }

    /// The person chose in the editor; gives back what was said before.
    pub(crate) fn choose(&self, mode: Mode) -> Said {
        let mut said = self.said();
        let before = *said;
        (said.own, said.wanted) = (mode, mode);
        before
    }

    /// What was chosen came to nothing at the gateway. A stricter mode holds all the same, and so
    /// does one that was chosen since.
    pub(crate) fn take_back(&self, chosen: Mode, before: Said) {
        let mut said = self.said();
        if said.own == chosen && !chosen.is_within(before.own) {
            (said.own, said.wanted) = (before.own, before.wanted);
        }
    }

    /// The ledger has what was chosen; whatever it said until then is older.
    pub(crate) fn is_kept(&self, until: u64) {
        let mut said = self.said();
        said.known_until = said.known_until.max(until);
    }

    /// The ledger says that the mode of the session is this now, or none.
    pub(crate) fn heard(&self, mode: Option<Mode>, seq: u64) {
        let mut said = self.said();
        if self.place == Place::Here && seq > said.known_until {
            let own = mode.unwrap_or(self.usual);
            *said = Said { own, wanted: own, known_until: seq };
        }
    }

    /// The gateway wants the tools to work in this mode.
    pub(crate) fn wish(&self, mode: Mode) {
        self.said().wanted = mode;
    }

    /// What holds.
    pub(crate) fn holds(&self) -> Mode {
        let said = self.said();
        if said.wanted.is_within(said.own) { said.wanted } else { said.own }
    }

    /// Tells the hands what holds.
    pub(crate) async fn tell(&self, hands: &dyn Hands) -> Result<(), HandsError> {
        let _last = self.telling.lock().await;
        hands.set_mode(self.holds()).await
    }

    /// What the person has to know where this mode was chosen for the session and does not hold.
    pub(crate) fn unheeded(&self, chosen: Option<Mode>) -> Option<String> {
        let chosen = chosen.filter(|chosen| !chosen.is_within(self.own()))?;
        Some(format!(
            "`{chosen}` does not hold here; the mode stays `{}`. The gateway is elsewhere, and what it keeps cannot let more be done on this machine. Choose the mode in the editor (`session/set_mode`), or set `permissions.mode` in your settings.",
            self.own()
        ))
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(mode: Option<&str>) -> SessionInfo {
        SessionInfo { mode: mode.map(str::to_owned), last_seq: 10, ..SessionInfo::default() }
    }

    #[track_caller]
    fn check(own: &OwnMode, wanted: Mode, holds: Mode) {
        own.wish(wanted);
        assert_eq!(own.holds(), holds, "{wanted}");
    }

    #[test]
    fn a_gateway_elsewhere_never_lets_more_be_done() {
        let own = OwnMode::new(Place::Elsewhere, Mode::Ask, &kept(Some("auto")));
        assert_eq!(own.holds(), Mode::Ask);
        own.heard(Some(Mode::Auto), 11);
        check(&own, Mode::Auto, Mode::Ask);
        check(&own, Mode::AcceptEdits, Mode::Ask);
        check(&own, Mode::Ask, Mode::Ask);
        check(&own, Mode::Plan, Mode::Plan);
        let words = own.unheeded(Some(Mode::Auto)).unwrap();
        assert!(words.starts_with("`auto` does not hold here; the mode stays `ask`."), "{words}");
        assert_eq!(own.unheeded(Some(Mode::Plan)), None);
        let before = own.choose(Mode::AcceptEdits);
        check(&own, Mode::Auto, Mode::AcceptEdits);
        check(&own, Mode::AcceptEdits, Mode::AcceptEdits);
        check(&own, Mode::Ask, Mode::Ask);
        own.take_back(Mode::AcceptEdits, before);
        check(&own, Mode::AcceptEdits, Mode::Ask);
        // A stricter one holds though the gateway does not keep it, and so does one that was chosen
        // since.
        let before = own.choose(Mode::Plan);
        own.take_back(Mode::Plan, before);
        check(&own, Mode::Auto, Mode::Plan);
        let before = own.choose(Mode::Auto);
        own.choose(Mode::Ask);
        own.take_back(Mode::Auto, before);
        check(&own, Mode::Auto, Mode::Ask);
    }

    #[test]
    fn what_is_kept_in_this_process_is_the_persons_word() {
        let own = |mode| OwnMode::new(Place::Here, Mode::AcceptEdits, &kept(mode));
        assert_eq!(own(None).holds(), Mode::AcceptEdits);
        assert_eq!(own(Some("nonsense")).holds(), Mode::AcceptEdits);
        assert_eq!(own(Some("plan")).holds(), Mode::Plan);
        let own = own(Some("auto"));
        check(&own, Mode::Auto, Mode::Auto);
        own.heard(Some(Mode::Plan), 11);
        // What the gateway wanted before that is still under way.
        check(&own, Mode::Auto, Mode::Plan);
        own.heard(None, 12);
        assert_eq!((own.holds(), own.unheeded(None)), (Mode::AcceptEdits, None));
    }

    #[test]
    fn what_the_ledger_said_before_a_choice_does_not_undo_it() {
        let own = OwnMode::new(Place::Here, Mode::Ask, &kept(None));
        own.choose(Mode::Auto);
        own.is_kept(11);
        own.choose(Mode::Plan);
        own.heard(Some(Mode::Auto), 11);
        assert_eq!(own.holds(), Mode::Plan);
        own.is_kept(12);
        own.heard(Some(Mode::Plan), 12);
        own.heard(Some(Mode::Ask), 13);
        assert_eq!(own.holds(), Mode::Ask);
    }
}
