//! What was said in a run, on its way into the transcript.
//!
//! It is saved beside everything else: nobody waits for it, but whoever is about to do something that
//! cannot be taken back.

use std::sync::Arc;

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::message::ModelMessage;
use crate::store::{Store, StoreError};

/// Messages that are not in the transcript yet.
#[derive(Default)]
pub(super) struct UnsavedMessages<'a> {
    messages: Vec<Arc<ModelMessage>>,
    /// The first of them, being saved: how many.
    saving: Option<(usize, BoxFuture<'a, Result<(), StoreError>>)>,
}

impl<'a> UnsavedMessages<'a> {
    /// Takes more.
    pub(super) fn add(&mut self, messages: Vec<Arc<ModelMessage>>) {
        self.messages.extend(messages);
    }

    /// Whether there is nothing left to save.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether some are being saved.
    pub(super) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Begins to save all there is, unless that is under way.
    pub(super) fn start_save(&mut self, store: &'a dyn Store, session: &SessionId) {
        if self.saving.is_none() && !self.messages.is_empty() {
            let saving = store.add_messages(session, self.messages.clone());
            self.saving = Some((self.messages.len(), saving));
        }
    }

    /// Waits for what is being saved; what could not be stays here. May be given up and called again.
    pub(super) async fn wait_for_save(&mut self) -> Result<(), StoreError> {
        let Some((count, saving)) = &mut self.saving else { return Ok(()) };
        let (count, saved) = (*count, saving.await);
        self.saving = None;
        if saved.is_ok() {
            self.messages.drain(..count.min(self.messages.len()));
        }
        saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::tests::fixture::SessionTestBed;

    fn user_message(text: &str) -> Vec<Arc<ModelMessage>> {
        vec![ModelMessage::user(text).into()]
    }

    #[tokio::test]
    async fn messages_added_during_save_are_saved_next() {
        let lab = SessionTestBed::new(&[]).await;
        let (store, id) = (&*lab.store, lab.record().await.id);
        let mut unsaved = UnsavedMessages::default();
        unsaved.add(user_message("a"));
        unsaved.start_save(store, &id);
        unsaved.add(user_message("b"));
        unsaved.start_save(store, &id);
        assert!(unsaved.is_saving());
        unsaved.wait_for_save().await.unwrap();
        assert!(!unsaved.is_saving() && !unsaved.is_empty());
        lab.store.fail_writes([1]);
        unsaved.start_save(store, &id);
        assert!(unsaved.wait_for_save().await.is_err() && !unsaved.is_empty());
        unsaved.start_save(store, &id);
        unsaved.wait_for_save().await.unwrap();
        assert!(unsaved.is_empty());
        let kept = lab.store.transcript(&id, None).await.unwrap();
        let texts: Vec<String> = kept.messages.iter().map(ModelMessage::text).collect();
        assert_eq!(texts, ["a", "b"]);
    }
}
