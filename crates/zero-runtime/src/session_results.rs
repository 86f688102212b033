//! Results of stored sessions that are too large for a model.
//!
//! A transcript names these files, so they live as long as it: a session that continues after a
//! restart, or weeks later, can read them. They are removed when the session is deleted or reset.
//! Rules of the user may remove old ones earlier.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use zero_core::SessionId;
use zero_exec::spill_quota::{OwnerSpace, SpillQuota};
use zero_sandbox::StateDir;
use zero_sandbox::expiry::{self, ExpiryMode, ExpiryReport, ExpiryRules, StoredItem};
use zero_sandbox::journal::sha256;

/// Where they are, in zero's own folder, by session.
pub(crate) const SESSION_RESULTS: &str = "spill-sessions";

/// Where results of calls without a session are, one folder per workspace. Separate from those of
/// sessions, whose ids are chosen by clients.
pub(crate) const CALL_RESULTS: &str = "spill-calls";
/// Which sessions of an owner have results, in zero's own folder, by the hash of the owner's name.
const OWNERS: &str = "spill-owners";

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

/// The room for a session's results, which it shares with the other sessions of its owner.
pub(crate) fn quota(state: &StateDir, session: &SessionId, owner: Option<&str>) -> SpillQuota {
    let Some(owner) = owner else { return SpillQuota::default() };
    let sessions = state.child(OWNERS).child(&owner_mark(owner));
    let results = state.child(SESSION_RESULTS);
    SpillQuota::default().with_owner(OwnerSpace::new(results, sessions, session.as_str()))
}

/// The mark of an owner, by which reports name the share of their results.
pub fn owner_mark(owner: &str) -> String {
    let mut mark = sha256(owner.as_bytes());
    mark.truncate(16);
    mark
}

/// The marks of the owners of sessions that have results.
fn list_owners(state: &StateDir) -> io::Result<BTreeMap<String, String>> {
    let owners = state.child(OWNERS);
    let mut marks = BTreeMap::new();
    for owner in owners.list_names()? {
        let sessions = owners.child(&owner).list_names().unwrap_or_default();
        marks.extend(sessions.into_iter().map(|session| (session, owner.clone())));
    }
    Ok(marks)
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

/// Removes the results that the rules no longer keep, of sessions and of single calls. Those of
/// single calls are kept for a day in any case, those of sessions that are in use for longer.
pub fn expire(
    state: &StateDir,
    rules: &ExpiryRules,
    mode: ExpiryMode,
    in_use: &[SessionId],
) -> io::Result<ExpiryReport> {
    let owners = list_owners(state)?;
    let mut items = Vec::new();
    for (subfolder, is_useless) in [(SESSION_RESULTS, false), (CALL_RESULTS, true)] {
        let state_dir = state.child(subfolder);
        for name in state_dir.list_names()? {
            let folder = state_dir.child(&name);
            if !folder.path().is_dir() {
                continue;
            }
            // Results of single calls, and of sessions without an owner, are one share.
            let share = owners.get(&name).cloned().unwrap_or_default();
            let is_in_use = !is_useless && in_use.iter().any(|session| session.as_str() == name);
            for name in folder.list_names()? {
                // Another process may have removed it meanwhile.
                if let (Ok(age), Ok(bytes)) = (folder.age(&name), folder.size(&name)) {
                    let key = (folder.clone(), name);
                    items.push(StoredItem {
                        key,
                        age,
                        bytes,
                        share: share.clone(),
                        is_useless,
                        is_in_use,
                    });
                }
            }
        }
    }
    Ok(expiry::expire(items, rules, mode, |(folder, name)| folder.remove(name)))
}
