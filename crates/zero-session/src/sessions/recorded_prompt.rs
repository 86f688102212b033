//! Finds the prompt of a run in the ledger, to tell a repeated request from another one.

use zero_core::{RunId, SessionId};

use crate::event::{EventKind, PromptAttachment};
use crate::sessions::SessionError;
use crate::store::{LedgerReadLimit, Store};

/// Limits of one read.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1_000, bytes: 4 * 1024 * 1024 };
/// Most reads; a request is repeated soon, so its prompt is among the newest entries.
const PAGES_MAX: usize = 16;

/// A prompt as it was recorded.
pub(super) struct RecordedPrompt {
    pub(super) text: String,
    pub(super) attachments: Vec<PromptAttachment>,
}

/// The prompt that started a run; `None` if it is not among the newest entries.
pub(super) async fn find_prompt(
    store: &dyn Store,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<RecordedPrompt>, SessionError> {
    let mut before = u64::MAX;
    for _ in 0..PAGES_MAX {
        let events = store.last_events(session, before, PAGE).await?;
        let Some(first) = events.first() else { return Ok(None) };
        before = first.seq;
        let found = events.into_iter().find_map(|event| match event.kind {
            EventKind::Prompt { text, attachments } if event.run.as_ref() == Some(run) => {
                Some(RecordedPrompt { text, attachments })
            }
            _ => None,
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
