//! Copies of sessions.

use zero_core::SessionId;

use super::claims;
use super::database::Transaction;
use super::postgres_error::PostgresError;
use super::{ledger, sessions};
use crate::key::SessionAddress;
use crate::session_copy::{MessageRange, end_of_entries, new_session, settings_patch};
use crate::store::{ForkPoint, NewFork, SessionRecord, StoreError};
use crate::stored_form::EncodedEvents;

/// Copies a session: its settings, its current transcript, and its ledger since the last reset.
pub(super) async fn fork(
    transaction: &Transaction,
    source: &SessionId,
    point: ForkPoint,
    fork: &NewFork,
    last: &EncodedEvents,
    now_ms: i64,
) -> Result<SessionRecord, PostgresError> {
    let from = match point {
        ForkPoint::End(claim) => claims::lock_claimed(transaction, source, claim).await?,
        ForkPoint::LastCompleted | ForkPoint::Before { .. } => {
            claims::lock(transaction, source).await?
        }
    };
    let record = sessions::read(transaction, source).await?;
    let address = SessionAddress::new(&record.owner, fork.key.clone());
    if sessions::lock_owner(transaction, &address).await? {
        return Err(StoreError::KeyTaken(fork.key.clone()).into());
    }
    sessions::create(transaction, &fork.id, &new_session(&record, fork), now_ms).await?;
    let is_at_end = match point {
        ForkPoint::End(_) => true,
        ForkPoint::LastCompleted => !claims::has_unfinished_runs(transaction, from.row).await?,
        ForkPoint::Before { .. } => false,
    };
    let messages = MessageRange::before(point, is_at_end, from.transcript, from.completed)?;
    let end_seq = end_of_entries(point);
    let patch = settings_patch(record, fork, is_at_end);
    sessions::patch(transaction, &address, &patch).await?;
    let copy = CopiedSession {
        from: from.row,
        to: ledger::find_row(transaction, &fork.id).await?,
        reset: last_reset(transaction, from.row, end_seq).await?,
        end_seq,
        messages,
    };
    copy.copy_messages(transaction, source, &fork.id).await?;
    copy.copy_entries(transaction, source, &fork.id).await?;
    copy.copy_rewind_points(transaction).await?;
    copy.count(transaction).await?;
    ledger::append_in_transaction(transaction, &fork.id, last).await?;
    sessions::read(transaction, &fork.id).await
}

/// The last reset before an entry; 0 if there is none.
async fn last_reset(
    transaction: &Transaction,
    session: i64,
    end_seq: i64,
) -> Result<i64, PostgresError> {
    let find = "SELECT seq FROM zero.events WHERE session = $1 AND seq < $2 AND is_reset
                ORDER BY seq DESC LIMIT 1";
    let found = transaction.first(find, &[&session, &end_seq]).await?;
    found.map_or(Ok(0), |row| Ok(row.try_get(0)?))
}

/// Two sessions by their rows, and what one gets of the other.
struct CopiedSession {
    from: i64,
    to: i64,
    /// The entries after this one are copied,
    reset: i64,
    /// and before this one.
    end_seq: i64,
    messages: MessageRange,
}

/// Entries that are copied: those of unfinished runs are not. The values are the source, the reset and
/// the end.
const COPIED_ENTRIES: &str = "session = $1 AND seq > $2 AND seq < $3 AND (run IS NULL OR run NOT IN
    (SELECT id FROM zero.runs WHERE runs.session = $1 AND runs.outcome IS NULL))";

impl CopiedSession {
    /// Copies messages to the first transcript of the copy.
    async fn copy_messages(
        &self,
        transaction: &Transaction,
        old: &SessionId,
        new: &SessionId,
    ) -> Result<(), PostgresError> {
        let copy = "INSERT INTO zero.messages (session, transcript, position, body)
                    SELECT $2, 1, position, replace(body, $3, $4) FROM zero.messages
                    WHERE session = $1 AND transcript = $5 AND position < $6";
        let MessageRange { transcript, end } = self.messages;
        let (old, new) = (old.as_str(), new.as_str());
        transaction.run(copy, &[&self.from, &self.to, &old, &new, &transcript, &end]).await
    }

    async fn copy_entries(
        &self,
        transaction: &Transaction,
        old: &SessionId,
        new: &SessionId,
    ) -> Result<(), PostgresError> {
        let copy = format!(
            "INSERT INTO zero.events (session, seq, run, time_ms, is_reset, body)
             SELECT $4, row_number() OVER (ORDER BY seq), run, time_ms, is_reset,
                 replace(body, $5, $6)
             FROM zero.events WHERE {COPIED_ENTRIES}"
        );
        let (old, new) = (old.as_str(), new.as_str());
        let (from, to) = (&self.from, &self.to);
        transaction.run(&copy, &[from, &self.reset, &self.end_seq, to, &old, &new]).await
    }

    /// Copies the rewind points of the copied entries. The copy has one transcript, so that only those
    /// in it keep their position.
    async fn copy_rewind_points(&self, transaction: &Transaction) -> Result<(), PostgresError> {
        let copy = format!(
            "WITH copied AS (
                 SELECT seq, row_number() OVER (ORDER BY seq) AS new_seq FROM zero.events
                 WHERE {COPIED_ENTRIES})
             INSERT INTO zero.rewind_points (session, seq, time_ms, words, rewind, before, scope,
                 transcript, messages)
             SELECT $4, copied.new_seq, time_ms, words, rewind,
                 (SELECT new_seq FROM copied WHERE copied.seq = points.before), scope,
                 CASE WHEN transcript = $5 AND messages < $6 THEN 1 END,
                 CASE WHEN transcript = $5 AND messages < $6 THEN messages END
             FROM zero.rewind_points AS points JOIN copied ON copied.seq = points.seq
             WHERE points.session = $1"
        );
        let MessageRange { transcript, end } = self.messages;
        let (from, to) = (&self.from, &self.to);
        transaction.run(&copy, &[from, &self.reset, &self.end_seq, to, &transcript, &end]).await
    }

    /// Counts what was copied.
    async fn count(&self, transaction: &Transaction) -> Result<(), PostgresError> {
        transaction
            .run(
                "UPDATE zero.sessions SET last_seq = entries.last, last_message = messages.last,
                     bytes = entries.bytes + messages.bytes
                 FROM (SELECT coalesce(max(seq), 0) AS last,
                           coalesce(sum(octet_length(body)), 0)::int8 AS bytes
                       FROM zero.events WHERE session = $1) AS entries,
                     (SELECT coalesce(max(position), 0) AS last,
                          coalesce(sum(octet_length(body)), 0)::int8 AS bytes
                      FROM zero.messages WHERE session = $1) AS messages
                 WHERE row_id = $1",
                &[&self.to],
            )
            .await
    }
}
