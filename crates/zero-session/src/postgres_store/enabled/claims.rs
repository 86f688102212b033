//! Which process may write to a session, and the lock that each write holds.

use tokio_postgres::Row;
use zero_core::SessionId;

use super::database::Transaction;
use super::node_leases;
use super::postgres_error::PostgresError;
use crate::claim_rule::{ClaimDecision, StoredClaim};
use crate::store::{ClaimEpoch, ClaimOutcome, SessionClaim, StoreError};
use crate::stored_form::{from_sql_int, to_sql_int};

/// A session whose row is locked until the transaction ends.
pub(super) struct LockedSession {
    pub(super) row: i64,
    pub(super) node: Option<String>,
    pub(super) epoch: ClaimEpoch,
    /// Number of its current transcript.
    pub(super) transcript: i64,
    /// Position of the last message in it.
    pub(super) last_message: i64,
    /// Where its transcript was before its oldest unfinished run.
    pub(super) completed: Option<(i64, i64)>,
}

/// Locks a session. Later statements of the transaction read its current state.
pub(super) async fn lock(
    transaction: &Transaction,
    session: &SessionId,
) -> Result<LockedSession, PostgresError> {
    let found = transaction
        .first(
            "SELECT row_id, node, epoch, transcript, last_message, completed_transcript,
                 completed_messages
             FROM zero.sessions WHERE id = $1 AND NOT removed FOR UPDATE",
            &[&session.as_str()],
        )
        .await?;
    read_locked(&found.ok_or_else(|| no_session_error(session))?)
}

fn read_locked(row: &Row) -> Result<LockedSession, PostgresError> {
    let (transcript, messages): (Option<i64>, Option<i64>) = (row.try_get(5)?, row.try_get(6)?);
    Ok(LockedSession {
        row: row.try_get(0)?,
        node: row.try_get(1)?,
        epoch: ClaimEpoch(from_sql_int(row.try_get(2)?)),
        transcript: row.try_get(3)?,
        last_message: row.try_get(4)?,
        completed: transcript.zip(messages),
    })
}

/// Locks a session. Fails unless the claim is the current one.
pub(super) async fn lock_claimed(
    transaction: &Transaction,
    session: &SessionId,
    claim: ClaimEpoch,
) -> Result<LockedSession, PostgresError> {
    let locked = lock(transaction, session).await?;
    check_epoch(session, locked.epoch, claim)?;
    Ok(locked)
}

fn check_epoch(
    session: &SessionId,
    stored: ClaimEpoch,
    claim: ClaimEpoch,
) -> Result<(), PostgresError> {
    match stored == claim {
        true => Ok(()),
        false => Err(claim_lost_error(session)),
    }
}

pub(super) fn claim_lost_error(session: &SessionId) -> PostgresError {
    StoreError::ClaimLost(session.to_string()).into()
}

pub(super) fn no_session_error(session: &SessionId) -> PostgresError {
    StoreError::NoSession(session.to_string()).into()
}

/// Claims a session for a process; `dead` is a claim whose process is said to have died. While that
/// has a lease, it has not.
pub(super) async fn claim(
    transaction: &Transaction,
    session: &SessionId,
    node: &str,
    dead: Option<ClaimEpoch>,
) -> Result<(LockedSession, ClaimOutcome), PostgresError> {
    let mut locked = lock(transaction, session).await?;
    let epoch = locked.epoch;
    let has_unfinished_runs = has_unfinished_runs(transaction, locked.row).await?;
    let stored = StoredClaim { holder: locked.node.as_deref(), epoch, has_unfinished_runs };
    let holder = stored.holder.unwrap_or_default();
    let is_refused = match stored.decide(node, dead) {
        ClaimDecision::Keep => return Ok((locked, ClaimOutcome::Claimed(epoch))),
        ClaimDecision::Replace => false,
        ClaimDecision::ReplaceIfDead => node_leases::lock_live(transaction, holder).await?,
        ClaimDecision::Refuse => true,
    };
    if is_refused {
        let claim = SessionClaim { node: holder.to_owned(), epoch };
        return Ok((locked, ClaimOutcome::Held(claim)));
    }
    let next = ClaimEpoch(epoch.0.saturating_add(1));
    transaction
        .run(
            "UPDATE zero.sessions SET node = $1, epoch = $2 WHERE row_id = $3",
            &[&node, &to_sql_int(next.0), &locked.row],
        )
        .await?;
    locked.node = Some(node.to_owned());
    locked.epoch = next;
    Ok((locked, ClaimOutcome::Claimed(next)))
}

/// Lets any process claim the session again, as if the holder had died.
pub(super) async fn release(
    transaction: &Transaction,
    session: &SessionId,
    claim: ClaimEpoch,
) -> Result<(), PostgresError> {
    let row = lock_claimed(transaction, session, claim).await?.row;
    // Not null: without a holder, a run could begin beside the one that waits.
    transaction.run("UPDATE zero.sessions SET node = '' WHERE row_id = $1", &[&row]).await?;
    let free = "UPDATE zero.runs SET node = '' WHERE session = $1 AND outcome IS NULL";
    transaction.run(free, &[&row]).await
}

pub(super) async fn has_unfinished_runs(
    transaction: &Transaction,
    session: i64,
) -> Result<bool, PostgresError> {
    let find = "SELECT 1 FROM zero.runs WHERE session = $1 AND outcome IS NULL LIMIT 1";
    Ok(transaction.first(find, &[&session]).await?.is_some())
}
