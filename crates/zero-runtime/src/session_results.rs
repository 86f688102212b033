//! Results of stored sessions that are too large for a model.
//!
//! A transcript names these files, so they live as long as it: a session that continues after a
//! restart, or weeks later, can read them. Whoever deletes or resets the session removes them.

use std::io;
use std::time::Duration;

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

/// Copies the results of a session to another one, under the same names. Results that the other one
/// has are kept.
pub fn copy(state: &StateDir, from: &SessionId, to: &SessionId) -> io::Result<()> {
    let (from, to) = (folder(state, from), folder(state, to));
    for name in from.list_names()? {
        let mut content = from.open(&name)?;
        match to.create_new(&name) {
            Ok(mut copy) => drop(io::copy(&mut content, &mut copy)?),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How long ago the folder of a session's results last changed.
pub fn age(state: &StateDir, session: &SessionId) -> io::Result<Duration> {
    state.child(SESSION_RESULTS).age(session.as_str())
}

/// The sessions that have results.
pub fn list(state: &StateDir) -> io::Result<Vec<SessionId>> {
    let names = state.child(SESSION_RESULTS).list_names()?;
    Ok(names.into_iter().filter_map(|name| SessionId::new(name).ok()).collect())
}
