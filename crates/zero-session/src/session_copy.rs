//! What a copy of a session gets: the same from each store.

use crate::store::{ForkPoint, NewFork, NewSession, SessionPatch, SessionRecord, StoreError};
use crate::stored_form::to_sql_int;

/// The messages that a copy gets.
#[derive(Clone, Copy)]
pub(crate) struct MessageRange {
    pub(crate) transcript: i64,
    /// The position after the last one.
    pub(crate) end: i64,
}

impl MessageRange {
    /// The messages before a point. `newest` is the number of the current transcript, and `completed`
    /// has the messages before the oldest unfinished run, if an older zero did not begin it.
    pub(crate) fn before(
        point: ForkPoint,
        is_at_end: bool,
        newest: i64,
        completed: Option<(i64, i64)>,
    ) -> Result<Self, StoreError> {
        match point {
            ForkPoint::Before { position, .. } => Ok(Self {
                transcript: to_sql_int(position.transcript),
                end: to_sql_int(position.messages).saturating_add(1),
            }),
            _ if is_at_end => Ok(Self { transcript: newest, end: i64::MAX }),
            _ => {
                let (transcript, end) = completed.ok_or(StoreError::Busy)?;
                Ok(Self { transcript, end })
            }
        }
    }
}

/// The number before which entries are copied.
pub(crate) fn end_of_entries(point: ForkPoint) -> i64 {
    match point {
        ForkPoint::Before { seq, .. } => to_sql_int(seq),
        ForkPoint::End(_) | ForkPoint::LastCompleted => i64::MAX,
    }
}

/// The copy as a new session.
pub(crate) fn new_session(source: &SessionRecord, fork: &NewFork) -> NewSession {
    NewSession {
        key: fork.key.clone(),
        label: None,
        cwd: source.cwd.clone(),
        model: source.model.clone(),
        mode: source.mode,
        owner: source.owner.clone(),
        owned_max: fork.owned_max,
        tool_host: source.tool_host.clone(),
        parent: None,
    }
}

/// What the copy takes over besides. The size of the context is known only if the copy has all messages.
pub(crate) fn settings_patch(
    source: SessionRecord,
    fork: &NewFork,
    is_at_end: bool,
) -> SessionPatch {
    SessionPatch {
        title: Some(fork.title.clone()),
        agent: Some(source.agent),
        thinking: Some(source.thinking),
        context_tokens: source.context_tokens.filter(|_| is_at_end),
        ..SessionPatch::default()
    }
}
