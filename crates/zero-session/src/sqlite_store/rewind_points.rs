//! The points before which a session can be rewound or copied: its prompts, and its rewinds.
//!
//! Where the transcript was is known once no earlier run is left: a prompt that waits for another gets
//! its position when that one ends. A rewind starts a new transcript with the messages up to there;
//! the others keep theirs, so that a rewind can be taken back.

use rusqlite::Connection;
use zero_core::{RunId, SessionId};

use super::claims;
use super::database_error::DatabaseError;
use super::sessions::{find_row, from_json, to_json};
use super::{ledger, transcripts};
use crate::store::{
    ClaimEpoch, NewEvent, RewindPoint, RewindPointKind, StoreError, TranscriptPosition,
    TranscriptStart,
};
use crate::stored_form::{EncodedEvents, RewindRow, from_sql_int, to_sql_int};

/// Stores the point before a prompt, without a position.
pub(super) fn insert_prompt(
    db: &Connection,
    session: i64,
    seq: u64,
    run: &RunId,
    time_ms: i64,
    words: &str,
) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "INSERT INTO rewind_points (session, seq, run, time_ms, words) VALUES (?, ?, ?, ?, ?)",
    )?
    .execute((session, to_sql_int(seq), run.as_str(), time_ms, words))?;
    Ok(())
}

/// Stores where the transcript is as the position of the oldest unfinished run.
pub(super) fn set_position(db: &Connection, session: i64) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "UPDATE rewind_points SET transcript = (SELECT transcript FROM sessions WHERE row = ?1),
             messages = (SELECT coalesce(max(position), 0) FROM messages
                 WHERE messages.session = ?1 AND messages.transcript =
                     (SELECT transcript FROM sessions WHERE row = ?1))
         WHERE session = ?1 AND transcript IS NULL AND run =
             (SELECT id FROM runs WHERE session = ?1 AND end IS NULL ORDER BY row LIMIT 1)",
    )?
    .execute([session])?;
    Ok(())
}

/// The points of a session, oldest first.
pub(super) fn list(
    db: &Connection,
    session: &SessionId,
) -> Result<Vec<RewindPoint>, DatabaseError> {
    let row = find_row(db, session)?;
    let mut list = db.prepare_cached(
        "SELECT seq, time_ms, words, rewind, before, transcript, messages, scope FROM rewind_points
         WHERE session = ? ORDER BY seq",
    )?;
    let mut rows = list.query([row])?;
    let (mut points, mut number) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let rewind: Option<String> = row.get(3)?;
        let kind = match rewind {
            Some(id) => {
                let before = row.get::<_, Option<i64>>(4)?.map(from_sql_int);
                let scope: String = row.get(7)?;
                let scope = from_json("the scope of a rewind", &scope)?;
                RewindPointKind::Rewind { id, before, scope }
            }
            None => {
                number += 1;
                RewindPointKind::Prompt { number, words: row.get(2)? }
            }
        };
        let transcript = row.get::<_, Option<i64>>(5)?.map(from_sql_int);
        let messages = row.get::<_, Option<i64>>(6)?.map(from_sql_int);
        points.push(RewindPoint {
            seq: from_sql_int(row.get(0)?),
            time_ms: row.get(1)?,
            kind,
            position: transcript
                .zip(messages)
                .map(|(transcript, messages)| TranscriptPosition { transcript, messages }),
        });
    }
    Ok(points)
}

/// Stores a rewind: a new transcript with the messages before a point, and the entry about it. Returns
/// the sequence number of that.
pub(super) fn rewind(
    db: &Connection,
    session: &SessionId,
    claim: ClaimEpoch,
    rewind: &RewindRow,
    entry: &EncodedEvents,
) -> Result<u64, DatabaseError> {
    let row = claims::check(db, session, claim)?;
    let (transcript, messages): (i64, i64) = db
        .prepare_cached(
            "SELECT transcript, (SELECT coalesce(max(position), 0) FROM messages
                 WHERE messages.session = row AND messages.transcript = sessions.transcript)
             FROM sessions WHERE row = ?",
        )?
        .query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(position) = rewind.position {
        let from = to_sql_int(position.transcript);
        if !(1..=transcript).contains(&from) {
            let (session, number) = (session.to_string(), position.transcript);
            return Err(StoreError::NoTranscript { session, number }.into());
        }
        let next = transcripts::start_transcript(
            db,
            session,
            TranscriptStart::Rewound,
            &[],
            rewind.time_ms,
        )?;
        copy_messages(db, row, from, to_sql_int(position.messages), to_sql_int(next))?;
    }
    let seq = ledger::append_in_transaction(db, session, entry)?;
    let RewindPointKind::Rewind { id, before, scope } = &rewind.kind else {
        return Err(NewEvent::not_a_rewind().into());
    };
    db.prepare_cached(
        "INSERT INTO rewind_points (session, seq, time_ms, words, rewind, before, scope,
             transcript, messages) VALUES (?, ?, ?, '', ?, ?, ?, ?, ?)",
    )?
    .execute((
        row,
        to_sql_int(seq),
        rewind.time_ms,
        id,
        before.map(to_sql_int),
        to_json(scope)?,
        transcript,
        messages,
    ))?;
    Ok(seq)
}

/// Copies the first messages of a transcript to another one of the session.
fn copy_messages(
    db: &Connection,
    session: i64,
    from: i64,
    count: i64,
    to: i64,
) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "INSERT INTO messages (session, transcript, position, body)
         SELECT session, ?4, position, body FROM messages
         WHERE session = ?1 AND transcript = ?2 AND position <= ?3",
    )?
    .execute((session, from, count, to))?;
    db.prepare_cached(
        "UPDATE sessions SET bytes = bytes + (SELECT coalesce(sum(octet_length(body)), 0)
             FROM messages WHERE session = ?1 AND transcript = ?2) WHERE row = ?1",
    )?
    .execute((session, to))?;
    Ok(())
}
