//! Messages of a run on their way into the transcript.
//!
//! They are saved concurrently with other work. Only actions that cannot be undone wait for them.

use std::sync::Arc;

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::message::ModelMessage;
use crate::store::{ClaimEpoch, Store, StoreError, TranscriptPosition};

/// Messages that are not in the transcript yet.
pub(super) struct UnsavedMessages<'a> {
    messages: Vec<Arc<ModelMessage>>,
    /// Where in the transcripts the first of them belongs.
    at: TranscriptPosition,
    /// The save in progress and the number of messages it covers.
    saving: Option<(usize, BoxFuture<'a, Result<(), StoreError>>)>,
}

impl<'a> UnsavedMessages<'a> {
    /// Messages for the end of a transcript, which is there.
    pub(super) fn new(at: TranscriptPosition) -> Self {
        Self { messages: Vec::new(), at, saving: None }
    }

    /// Notes that a new transcript was begun. Everything before is saved.
    pub(super) fn start_transcript(&mut self, at: TranscriptPosition) {
        self.at = at;
    }

    /// What could not be saved. No save is in progress.
    pub(super) fn into_rest(self) -> UnsavedRest {
        UnsavedRest { messages: self.messages, at: self.at }
    }

    /// Adds messages.
    pub(super) fn add(&mut self, messages: Vec<Arc<ModelMessage>>) {
        self.messages.extend(messages);
    }

    /// Whether there is nothing left to save.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether a save is in progress.
    pub(super) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Starts saving all messages, unless a save is in progress.
    pub(super) fn start_save(
        &mut self,
        store: &'a dyn Store,
        session: &SessionId,
        claim: ClaimEpoch,
    ) {
        if self.saving.is_none() && !self.messages.is_empty() {
            let saving = store.add_messages(session, claim, self.messages.clone());
            self.saving = Some((self.messages.len(), saving));
        }
    }

    /// Waits for the save in progress; messages of a failed one are kept. Cancel-safe.
    pub(super) async fn wait_for_save(&mut self) -> Result<(), StoreError> {
        let Some((count, saving)) = &mut self.saving else { return Ok(()) };
        let (count, saved) = (*count, saving.await);
        self.saving = None;
        if saved.is_ok() {
            let saved = self.messages.drain(..count.min(self.messages.len())).count();
            self.at.messages = self.at.messages.saturating_add(saved as u64);
        }
        saved
    }
}

/// Messages that a run could not save, or was not told that they are saved.
#[derive(Default)]
pub(super) struct UnsavedRest {
    messages: Vec<Arc<ModelMessage>>,
    at: TranscriptPosition,
}

impl UnsavedRest {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Saves what the transcript does not have of them. Earlier attempts cannot succeed any more: the
    /// claim was renewed since. Can be repeated.
    pub(super) async fn save(
        &mut self,
        store: &dyn Store,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> Result<(), StoreError> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let end = store.transcript(session, None).await?.end();
        if end.transcript != self.at.transcript {
            // Its begin was stored without an answer. Nothing was added to it since.
            self.at = end;
        }
        let stored = end.messages.saturating_sub(self.at.messages);
        let stored = usize::try_from(stored).unwrap_or(usize::MAX).min(self.messages.len());
        self.messages.drain(..stored);
        self.at = end;
        if !self.messages.is_empty() {
            store.add_messages(session, claim, self.messages.clone()).await?;
            self.messages.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::tests::fixture::SessionTestBed;
    use crate::store::ClaimOutcome;

    fn user_message(text: &str) -> Vec<Arc<ModelMessage>> {
        vec![ModelMessage::user(text).into()]
    }

    #[tokio::test]
    async fn messages_added_during_save_are_saved_next() {
        let fixture = SessionTestBed::new(&[]).await;
        let (store, id) = (&*fixture.store, fixture.record().await.id);
        let ClaimOutcome::Claimed(claim) = store.claim(&id, "here", None).await.unwrap() else {
            panic!("nothing runs there")
        };
        let mut unsaved = UnsavedMessages::new(TranscriptPosition::default());
        unsaved.add(user_message("a"));
        unsaved.start_save(store, &id, claim);
        unsaved.add(user_message("b"));
        unsaved.start_save(store, &id, claim);
        assert!(unsaved.is_saving());
        unsaved.wait_for_save().await.unwrap();
        assert!(!unsaved.is_saving() && !unsaved.is_empty());
        fixture.store.fail_writes([1]);
        unsaved.start_save(store, &id, claim);
        assert!(unsaved.wait_for_save().await.is_err() && !unsaved.is_empty());
        unsaved.start_save(store, &id, claim);
        unsaved.wait_for_save().await.unwrap();
        assert!(unsaved.is_empty());
        let kept = fixture.store.transcript(&id, None).await.unwrap();
        let texts: Vec<String> = kept.messages.iter().map(ModelMessage::text).collect();
        assert_eq!(texts, ["a", "b"]);
    }
}
