//! Results of stored sessions that are too large for a model.
//!
//! A transcript names these files, so they live as long as it: a session that continues after a
//! restart, or weeks later, can read them. Whoever deletes or resets the session removes them.

use std::io;

use zero_core::SessionId;
use zero_sandbox::StateDir;

/// Where they are, in zero's own folder, by session.
pub(crate) const SESSION_RESULTS: &str = "spill-sessions";

/// How long the oversized results of a session exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultLifetime {
    /// Until the tool host's session ends, or its process.
    #[default]
    Process,
    /// Until [`remove`] is called for the stored session.
    Session,
}

/// The folder of a session's results.
pub(crate) fn folder(state: &StateDir, session: &SessionId) -> StateDir {
    state.child(SESSION_RESULTS).child(session.as_str())
}

/// Removes the results of a session, if there are any.
pub fn remove(state: &StateDir, session: &SessionId) -> io::Result<()> {
    folder(state, session).remove_all()
}

/// The sessions that have results.
pub fn list(state: &StateDir) -> io::Result<Vec<SessionId>> {
    let names = state.child(SESSION_RESULTS).list_names()?;
    Ok(names.into_iter().filter_map(|name| SessionId::new(name).ok()).collect())
}
