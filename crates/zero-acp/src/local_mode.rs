//! How much the person here lets be done without asking.
//!
//! Settings say it until the person chooses. What they choose in the editor is as much their word as a
//! file is. So is what a gateway in this very process keeps with a session: only those who may answer
//! for this person write there, and no tool does, since none reaches the folder it lies in. What a
//! gateway elsewhere keeps is a wish: it may ask for less, never for more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_client::GatewayLocality;
use zero_client::wire::SessionInfo;
use zero_policy::PermissionMode;
use zero_runtime::tool_backend::{ToolBackend, ToolBackendError};

/// How much the person here lets be done without asking, in one session.
pub(crate) struct LocalMode {
    place: GatewayLocality,
    /// As settings say.
    usual: PermissionMode,
    said: Mutex<ModeState>,
    /// Held while hands are told: what they are told last is what holds.
    telling: tokio::sync::Mutex<()>,
}

/// What was said, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeState {
    /// The person's word.
    own: PermissionMode,
    /// What the gateway wants.
    wanted: PermissionMode,
    /// Entries of the ledger up to this one say nothing new of it.
    known_until: u64,
}

impl LocalMode {
    /// For a session as its gateway keeps it.
    pub(crate) fn new(place: GatewayLocality, usual: PermissionMode, info: &SessionInfo) -> Self {
        let kept = info.mode.as_deref().and_then(|mode| mode.parse().ok());
        let own = match place {
            GatewayLocality::InProcess => kept.unwrap_or(usual),
            GatewayLocality::Remote => usual,
        };
        let said = ModeState { own, wanted: own, known_until: info.last_seq };
        Self { place, usual, said: Mutex::new(said), telling: tokio::sync::Mutex::default() }
    }

    /// The person's word.
    pub(crate) fn chosen_mode(&self) -> PermissionMode {
        self.lock_state().own
    }

    /// The person chose in the editor; gives back what was said before.
    pub(crate) fn choose(&self, mode: PermissionMode) -> ModeState {
        let mut said = self.lock_state();
        let before = *said;
        (said.own, said.wanted) = (mode, mode);
        before
    }

    /// What was chosen came to nothing at the gateway. A stricter mode holds all the same, and so
    /// does one that was chosen since.
    pub(crate) fn revert_choice(&self, chosen: PermissionMode, before: ModeState) {
        let mut said = self.lock_state();
        if said.own == chosen && !chosen.is_within(before.own) {
            (said.own, said.wanted) = (before.own, before.wanted);
        }
    }

    /// The ledger has what was chosen; whatever it said until then is older.
    pub(crate) fn confirm_stored(&self, until: u64) {
        let mut said = self.lock_state();
        said.known_until = said.known_until.max(until);
    }

    /// The ledger says that the mode of the session is this now, or none.
    pub(crate) fn apply_ledger_mode(&self, mode: Option<PermissionMode>, seq: u64) {
        let mut said = self.lock_state();
        if self.place == GatewayLocality::InProcess && seq > said.known_until {
            let own = mode.unwrap_or(self.usual);
            *said = ModeState { own, wanted: own, known_until: seq };
        }
    }

    /// The gateway wants the tools to work in this mode.
    pub(crate) fn request_mode(&self, mode: PermissionMode) {
        self.lock_state().wanted = mode;
    }

    /// What holds.
    pub(crate) fn effective_mode(&self) -> PermissionMode {
        let said = self.lock_state();
        if said.wanted.is_within(said.own) { said.wanted } else { said.own }
    }

    /// Tells the hands what holds.
    pub(crate) async fn apply_to_backend(
        &self,
        hands: &dyn ToolBackend,
    ) -> Result<(), ToolBackendError> {
        let _last = self.telling.lock().await;
        hands.set_mode(self.effective_mode()).await
    }

    /// What the person has to know where this mode was chosen for the session and does not hold.
    pub(crate) fn ignored_mode_message(&self, chosen: Option<PermissionMode>) -> Option<String> {
        let chosen = chosen.filter(|chosen| !chosen.is_within(self.chosen_mode()))?;
        Some(format!(
            "`{chosen}` does not hold here; the mode stays `{}`. The gateway is elsewhere, and what it keeps cannot let more be done on this machine. Choose the mode in the editor (`session/set_mode`), or set `permissions.mode` in your settings.",
            self.chosen_mode()
        ))
    }

    fn lock_state(&self) -> MutexGuard<'_, ModeState> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session_with_mode(mode: Option<&str>) -> SessionInfo {
        SessionInfo { mode: mode.map(str::to_owned), last_seq: 10, ..SessionInfo::default() }
    }

    #[track_caller]
    fn check(own: &LocalMode, wanted: PermissionMode, holds: PermissionMode) {
        own.request_mode(wanted);
        assert_eq!(own.effective_mode(), holds, "{wanted}");
    }

    #[test]
    fn remote_gateway_cannot_loosen_mode() {
        let own = LocalMode::new(
            GatewayLocality::Remote,
            PermissionMode::Ask,
            &session_with_mode(Some("auto")),
        );
        assert_eq!(own.effective_mode(), PermissionMode::Ask);
        own.apply_ledger_mode(Some(PermissionMode::Auto), 11);
        check(&own, PermissionMode::Auto, PermissionMode::Ask);
        check(&own, PermissionMode::AcceptEdits, PermissionMode::Ask);
        check(&own, PermissionMode::Ask, PermissionMode::Ask);
        check(&own, PermissionMode::Plan, PermissionMode::Plan);
        let words = own.ignored_mode_message(Some(PermissionMode::Auto)).unwrap();
        assert!(words.starts_with("`auto` does not hold here; the mode stays `ask`."), "{words}");
        assert_eq!(own.ignored_mode_message(Some(PermissionMode::Plan)), None);
        let before = own.choose(PermissionMode::AcceptEdits);
        check(&own, PermissionMode::Auto, PermissionMode::AcceptEdits);
        check(&own, PermissionMode::AcceptEdits, PermissionMode::AcceptEdits);
        check(&own, PermissionMode::Ask, PermissionMode::Ask);
        own.revert_choice(PermissionMode::AcceptEdits, before);
        check(&own, PermissionMode::AcceptEdits, PermissionMode::Ask);
        // A stricter one holds though the gateway does not keep it, and so does one that was chosen
        // since.
        let before = own.choose(PermissionMode::Plan);
        own.revert_choice(PermissionMode::Plan, before);
        check(&own, PermissionMode::Auto, PermissionMode::Plan);
        let before = own.choose(PermissionMode::Auto);
        own.choose(PermissionMode::Ask);
        own.revert_choice(PermissionMode::Auto, before);
        check(&own, PermissionMode::Auto, PermissionMode::Ask);
    }

    #[test]
    fn in_process_gateway_mode_counts_as_user_choice() {
        let own = |mode| {
            LocalMode::new(
                GatewayLocality::InProcess,
                PermissionMode::AcceptEdits,
                &session_with_mode(mode),
            )
        };
        assert_eq!(own(None).effective_mode(), PermissionMode::AcceptEdits);
        assert_eq!(own(Some("nonsense")).effective_mode(), PermissionMode::AcceptEdits);
        assert_eq!(own(Some("plan")).effective_mode(), PermissionMode::Plan);
        let own = own(Some("auto"));
        check(&own, PermissionMode::Auto, PermissionMode::Auto);
        own.apply_ledger_mode(Some(PermissionMode::Plan), 11);
        // What the gateway wanted before that is still under way.
        check(&own, PermissionMode::Auto, PermissionMode::Plan);
        own.apply_ledger_mode(None, 12);
        assert_eq!(
            (own.effective_mode(), own.ignored_mode_message(None)),
            (PermissionMode::AcceptEdits, None)
        );
    }

    #[test]
    fn older_ledger_entry_does_not_undo_choice() {
        let own = LocalMode::new(
            GatewayLocality::InProcess,
            PermissionMode::Ask,
            &session_with_mode(None),
        );
        own.choose(PermissionMode::Auto);
        own.confirm_stored(11);
        own.choose(PermissionMode::Plan);
        own.apply_ledger_mode(Some(PermissionMode::Auto), 11);
        assert_eq!(own.effective_mode(), PermissionMode::Plan);
        own.confirm_stored(12);
        own.apply_ledger_mode(Some(PermissionMode::Plan), 12);
        own.apply_ledger_mode(Some(PermissionMode::Ask), 13);
        assert_eq!(own.effective_mode(), PermissionMode::Ask);
    }
}
