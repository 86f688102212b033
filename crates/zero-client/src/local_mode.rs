//! The permission mode that applies to the tools hosted here.
//!
//! The mode comes from settings until the user chooses one. A mode stored by the
//! gateway in this process counts as the user's choice: only clients that act for this user can
//! write it, and tools cannot access the folder of the store. The mode of a remote gateway is only
//! a request: it can make the mode stricter, never more permissive.

use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_policy::PermissionMode;
use zero_runtime::tool_backend::{ToolBackend, ToolBackendError};
use zero_wire::zero_sessions::SessionInfo;

use crate::gateway_dialer::GatewayLocality;

/// The permission mode of one session.
pub struct LocalMode {
    locality: GatewayLocality,
    /// The mode from settings.
    usual: PermissionMode,
    state: Mutex<ModeState>,
    /// Held while the mode is passed to the tool backend, so that the last change applies.
    report_lock: tokio::sync::Mutex<()>,
}

/// The user's mode and the gateway's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeState {
    /// The user's choice.
    local_mode: PermissionMode,
    /// The gateway's request.
    requested: PermissionMode,
    /// Ledger entries up to this number do not change the mode.
    known_until: u64,
}

impl LocalMode {
    /// The mode of a session as its gateway stores it.
    pub fn new(locality: GatewayLocality, usual: PermissionMode, info: &SessionInfo) -> Self {
        let stored_mode = info.mode.as_deref().and_then(|mode| mode.parse().ok());
        let local_mode = match locality {
            GatewayLocality::InProcess => stored_mode.unwrap_or(usual),
            GatewayLocality::Remote => usual,
        };
        let state = ModeState { local_mode, requested: local_mode, known_until: info.last_seq };
        Self {
            locality,
            usual,
            state: Mutex::new(state),
            report_lock: tokio::sync::Mutex::default(),
        }
    }

    /// The user's choice.
    pub fn chosen_mode(&self) -> PermissionMode {
        self.lock_state().local_mode
    }

    /// Sets the mode that the user chose; returns the previous state.
    pub fn choose(&self, mode: PermissionMode) -> ModeState {
        let mut state = self.lock_state();
        let before = *state;
        (state.local_mode, state.requested) = (mode, mode);
        before
    }

    /// Reverts a choice that the gateway failed to store. A stricter mode stays, and so does a mode
    /// that was chosen since.
    pub fn revert_choice(&self, chosen: PermissionMode, before: ModeState) {
        let mut state = self.lock_state();
        if state.local_mode == chosen && !chosen.is_within(before.local_mode) {
            (state.local_mode, state.requested) = (before.local_mode, before.requested);
        }
    }

    /// Records that the ledger contains the choice; older entries are ignored.
    pub fn confirm_stored(&self, until: u64) {
        let mut state = self.lock_state();
        state.known_until = state.known_until.max(until);
    }

    /// Applies a mode change from the ledger; `None` resets the mode.
    pub fn apply_ledger_mode(&self, mode: Option<PermissionMode>, seq: u64) {
        let mut state = self.lock_state();
        if self.locality == GatewayLocality::InProcess && seq > state.known_until {
            let local_mode = mode.unwrap_or(self.usual);
            *state = ModeState { local_mode, requested: local_mode, known_until: seq };
        }
    }

    /// Sets the mode that the gateway requests for the tools; `None` if it requests none.
    pub fn request_mode(&self, mode: Option<PermissionMode>) {
        let mut state = self.lock_state();
        state.requested = mode.unwrap_or(state.local_mode);
    }

    /// The mode that applies.
    pub fn effective_mode(&self) -> PermissionMode {
        let state = self.lock_state();
        if state.requested.is_within(state.local_mode) { state.requested } else { state.local_mode }
    }

    /// Passes the effective mode to the tool backend.
    pub async fn apply_to_backend(
        &self,
        backend: &dyn ToolBackend,
    ) -> Result<(), ToolBackendError> {
        let _last = self.report_lock.lock().await;
        backend.set_mode(Some(self.effective_mode())).await
    }

    /// A message for the user if this mode was chosen for the session and does not apply.
    pub fn ignored_mode_message(&self, chosen: Option<PermissionMode>) -> Option<String> {
        let chosen = chosen.filter(|chosen| !chosen.is_within(self.chosen_mode()))?;
        Some(format!(
            "`{chosen}` does not apply here; the mode stays `{}`. The gateway is remote, and its stored mode cannot permit more on this machine. Choose the mode in the editor (`session/set_mode`), or set `permissions.mode` in your settings.",
            self.chosen_mode()
        ))
    }

    fn lock_state(&self) -> MutexGuard<'_, ModeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session_with_mode(mode: Option<&str>) -> SessionInfo {
        SessionInfo { mode: mode.map(str::to_owned), last_seq: 10, ..SessionInfo::default() }
    }

    #[track_caller]
    fn check(own: &LocalMode, requested: PermissionMode, holds: PermissionMode) {
        own.request_mode(Some(requested));
        assert_eq!(own.effective_mode(), holds, "{requested}");
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
        assert!(words.starts_with("`auto` does not apply here; the mode stays `ask`."), "{words}");
        assert_eq!(own.ignored_mode_message(Some(PermissionMode::Plan)), None);
        let before = own.choose(PermissionMode::AcceptEdits);
        check(&own, PermissionMode::Auto, PermissionMode::AcceptEdits);
        check(&own, PermissionMode::AcceptEdits, PermissionMode::AcceptEdits);
        check(&own, PermissionMode::Ask, PermissionMode::Ask);
        own.revert_choice(PermissionMode::AcceptEdits, before);
        check(&own, PermissionMode::AcceptEdits, PermissionMode::Ask);
        // A stricter mode stays even if the gateway does not store it, and so does a mode that was
        // chosen since.
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
        // The gateway's earlier request still applies.
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
