//! Which process may write to a session.
//!
//! A process holds a session while it has unfinished runs in it. The claim has a number that grows
//! whenever the session goes to another process, and writes are conditional on it in their own
//! transaction. A process that was paused, taken for dead and replaced can therefore not write when
//! it wakes up.

use rusqlite::{Connection, OptionalExtension};
use zero_core::SessionId;

use super::database_error::DatabaseError;
use super::sessions::no_session_error;
use crate::claim_rule::{ClaimDecision, StoredClaim};
use crate::store::{ClaimEpoch, ClaimOutcome, SessionClaim, StoreError};
use crate::stored_form::{from_sql_int, to_sql_int};

/// Claims a session for a process; `dead` is a claim whose process has died.
pub(super) fn claim(
    db: &Connection,
    session: &SessionId,
    node: &str,
    dead: Option<ClaimEpoch>,
) -> Result<ClaimOutcome, DatabaseError> {
    let mut find = db.prepare_cached("SELECT row, node, epoch FROM live_sessions WHERE id = ?")?;
    let found = find.query_row([session.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?))
    });
    let (row, holder, epoch) = found.optional()?.ok_or_else(|| no_session_error(session))?;
    let epoch = ClaimEpoch(from_sql_int(epoch));
    let has_unfinished_runs = has_unfinished_runs(db, row)?;
    let stored = StoredClaim { holder: holder.as_deref(), epoch, has_unfinished_runs };
    match stored.decide(node, dead) {
        ClaimDecision::Keep => return Ok(ClaimOutcome::Claimed(epoch)),
        ClaimDecision::Refuse => {
            let node = holder.unwrap_or_default();
            return Ok(ClaimOutcome::Held(SessionClaim { node, epoch }));
        }
        // The caller has asked the kernel who is alive.
        ClaimDecision::Replace | ClaimDecision::ReplaceIfDead => {}
    }
    let next = ClaimEpoch(epoch.0.saturating_add(1));
    db.prepare_cached("UPDATE sessions SET node = ?, epoch = ? WHERE row = ?")?.execute((
        node,
        to_sql_int(next.0),
        row,
    ))?;
    Ok(ClaimOutcome::Claimed(next))
}

/// Lets any process claim the session again, as if the holder had died.
pub(super) fn release(
    db: &Connection,
    session: &SessionId,
    claim: ClaimEpoch,
) -> Result<(), DatabaseError> {
    let row = check(db, session, claim)?;
    // Not null: without a holder, a run could begin beside the one that waits.
    db.prepare_cached("UPDATE sessions SET node = '' WHERE row = ?")?.execute([row])?;
    db.prepare_cached("UPDATE runs SET node = '' WHERE session = ? AND end IS NULL")?
        .execute([row])?;
    Ok(())
}

/// Fails unless the claim is the current one. Returns the session's row.
pub(super) fn check(
    db: &Connection,
    session: &SessionId,
    claim: ClaimEpoch,
) -> Result<i64, DatabaseError> {
    let mut find = db.prepare_cached("SELECT row, epoch FROM live_sessions WHERE id = ?")?;
    let found = find
        .query_row([session.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let (row, epoch) = found.optional()?.ok_or_else(|| no_session_error(session))?;
    check_epoch(session, epoch, claim)?;
    Ok(row)
}

/// Fails unless the claim has the stored number.
pub(super) fn check_epoch(
    session: &SessionId,
    stored: i64,
    claim: ClaimEpoch,
) -> Result<(), DatabaseError> {
    match from_sql_int(stored) == claim.0 {
        true => Ok(()),
        false => Err(StoreError::ClaimLost(session.to_string()).into()),
    }
}

pub(super) fn has_unfinished_runs(db: &Connection, session: i64) -> Result<bool, DatabaseError> {
    let mut find =
        db.prepare_cached("SELECT 1 FROM runs WHERE session = ? AND end IS NULL LIMIT 1")?;
    Ok(find.exists([session])?)
}
