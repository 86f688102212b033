//! Buffers the events of a run on their way into the ledger.
//!
//! Events that arrive during a write are buffered, and consecutive text events are merged. A slow
//! disk therefore leads to fewer and longer entries, not to a longer queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinHandle;
use zero_core::{ErrorReason, RunId, ToolError};

use crate::event::{EventKind, TokenUsage};
use crate::node_membership::NodeMembership;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::store::{NewEvent, StoreError};

/// Buffer size in bytes above which the run waits for the disk.
const GATHERED_BYTES_MAX: usize = 1024 * 1024;

/// Buffered events of a run.
pub(super) struct LedgerOutbox {
    recorder: LedgerRecorder,
    run: RunId,
    nodes: Arc<dyn NodeMembership>,
    /// In which generation of the lease the last write was sent, or this was made.
    generation: u64,
    /// Entries of a write that failed. They may be stored nevertheless.
    failed: Vec<NewEvent>,
    gathered: Vec<NewEvent>,
    gathered_bytes: usize,
    writing: Option<JoinHandle<Result<(), FailedLedgerWrite>>>,
    /// Calls that have started and not ended.
    open: BTreeSet<String>,
    usage: TokenUsage,
    /// The error after which nothing more is written.
    broken: Option<StoreError>,
}

/// Entries that could not be written, with the error.
struct FailedLedgerWrite {
    entries: Vec<NewEvent>,
    error: StoreError,
}

impl LedgerOutbox {
    pub(super) fn new(
        recorder: LedgerRecorder,
        run: RunId,
        nodes: &Arc<dyn NodeMembership>,
    ) -> Self {
        Self {
            recorder,
            run,
            nodes: Arc::clone(nodes),
            generation: nodes.lease_generation(),
            failed: Vec::new(),
            gathered: Vec::new(),
            gathered_bytes: 0,
            writing: None,
            open: BTreeSet::new(),
            usage: TokenUsage::default(),
            broken: None,
        }
    }

    /// Notes the calls that had not ended when the run was parked, and what it had used.
    pub(super) fn resume(&mut self, open: impl IntoIterator<Item = String>, usage: TokenUsage) {
        self.open.extend(open);
        self.usage = usage;
    }

    /// Adds an event.
    pub(super) fn push(&mut self, kind: EventKind) {
        match &kind {
            EventKind::ToolStarted { call, .. } => {
                self.open.insert(call.clone());
            }
            EventKind::ToolEnded { call, .. } => {
                self.open.remove(call);
            }
            EventKind::UsageReported { run_usage, .. } => self.usage = *run_usage,
            EventKind::Text { text } | EventKind::Thought { text } => {
                self.gathered_bytes = self.gathered_bytes.saturating_add(text.len());
            }
            _ => {}
        }
        let last = self.gathered.last_mut().map(|last| &mut last.kind);
        if let Some(kind) = match last {
            Some(last) => merge_events(last, kind),
            None => Some(kind),
        } {
            self.gathered.push(new_event(Some(&self.run), kind));
        }
    }

    /// Whether the run should wait for the disk.
    pub(super) fn is_full(&self) -> bool {
        self.gathered_bytes > GATHERED_BYTES_MAX
    }

    /// Whether a write is in progress.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether writing has failed permanently.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// In which generation of the lease the last write was sent; see
    /// [`NodeMembership::can_act_since`].
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Token usage of the run recorded so far.
    pub(super) fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Starts writing the buffered events, unless a write is in progress.
    pub(super) fn start_write(&mut self) {
        self.start_write_with(LedgerRecorder::write_in_task);
    }

    fn start_write_with<W>(&mut self, write: impl FnOnce(LedgerRecorder, Vec<NewEvent>) -> W)
    where
        W: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        if self.writing.is_some() || self.gathered.is_empty() || self.broken.is_some() {
            return;
        }
        let entries = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        self.generation = self.nodes.lease_generation();
        let written = write(self.recorder.clone(), entries.clone());
        self.writing = Some(tokio::spawn(async move {
            match written.await {
                Ok(()) => Ok(()),
                Err(error) => Err(FailedLedgerWrite { entries, error }),
            }
        }));
    }

    /// Waits for the write in progress. Cancel-safe.
    pub(super) async fn wait_for_write(&mut self) -> Result<(), StoreError> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let result = writing.await;
        self.writing = None;
        let error = match result {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(FailedLedgerWrite { entries, error })) => {
                // None of them were published. They are written first when the run ends or goes on.
                self.failed = entries;
                error
            }
            Err(error) => StoreError::Broken { verb: "write", why: error.to_string() },
        };
        self.broken = Some(error.clone());
        Err(error)
    }

    /// Writes all buffered events.
    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        self.wait_for_write().await?;
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.start_write();
        self.wait_for_write().await
    }

    /// Like [`Self::flush`], and the buffered events would survive a power cut.
    pub(super) async fn flush_durable(&mut self) -> Result<(), StoreError> {
        self.wait_for_write().await?;
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.start_write_with(LedgerRecorder::write_durable_in_task);
        self.wait_for_write().await
    }

    /// Why nothing more is written.
    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.broken.as_ref()
    }

    /// Writes what is left after a failure, with nothing twice. The claim was
    /// [renewed](LedgerRecorder::renew_claim) since. Can be repeated.
    pub(super) async fn write_rest(&mut self) -> Result<(), StoreError> {
        // Its error is known.
        let _ = self.wait_for_write().await;
        loop {
            self.recorder.write_unless_stored(&self.run, &self.failed).await?;
            self.failed = std::mem::take(&mut self.gathered);
            self.gathered_bytes = 0;
            if self.failed.is_empty() {
                self.broken = None;
                return Ok(());
            }
        }
    }

    /// Marks writing as failed permanently.
    pub(super) fn mark_broken(&mut self, error: StoreError) {
        self.broken.get_or_insert(error);
    }

    /// Returns the remaining entries, with an end entry for every unfinished call.
    pub(super) async fn close(mut self, why: &str) -> Vec<NewEvent> {
        // Entries of a failed write are kept and written with the end of the run.
        let _ = self.wait_for_write().await;
        for call in std::mem::take(&mut self.open) {
            let error = ToolError::failed(ErrorReason::Interrupted, why.to_owned());
            self.push(EventKind::tool_ended(call, error.into()));
        }
        self.failed.into_iter().chain(self.gathered).collect()
    }
}

/// Merges an event into the last one if both carry the same kind of text.
fn merge_events(last: &mut EventKind, kind: EventKind) -> Option<EventKind> {
    match (last, kind) {
        (EventKind::Text { text }, EventKind::Text { text: more })
        | (EventKind::Thought { text }, EventKind::Thought { text: more }) => {
            text.push_str(&more);
            None
        }
        (
            EventKind::ToolUpdated { call, title, kind, locations, progress, begins, subagent },
            EventKind::ToolUpdated {
                call: same,
                title: t,
                kind: k,
                locations: l,
                progress: p,
                begins: b,
                subagent: s,
            },
        ) if *call == same => {
            *begins |= b;
            *title = t.or(title.take());
            *kind = k.or(*kind);
            *progress = p.or(progress.take());
            *subagent = s.or(subagent.take());
            if !l.is_empty() {
                *locations = l;
            }
            None
        }
        (_, kind) => Some(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::tests::fixture::{SessionTestBed, event_line};
    use crate::store::NewRun;

    fn text(text: &str) -> EventKind {
        EventKind::Text { text: text.to_owned() }
    }

    #[tokio::test]
    async fn text_is_merged_while_write_is_pending() {
        let fixture = SessionTestBed::new(&[]).await;
        let session = fixture.record().await.id;
        let state = fixture.sessions.inner.session_state(&session);
        let run = NewRun {
            id: RunId::from_bits(1),
            session,
            node: "node".to_owned(),
            started_ms: 0,
            options: Default::default(),
            first: Vec::new(),
        };
        state.recorder.begin_run(run).await.unwrap();
        let nodes = &fixture.sessions.inner.config.nodes;
        let mut outbox = LedgerOutbox::new(state.recorder.clone(), RunId::from_bits(1), nodes);
        outbox.push(text("a"));
        outbox.start_write();
        assert!(outbox.is_writing());
        for more in ["b", "c"] {
            outbox.push(text(more));
            outbox.start_write();
        }
        outbox.push(EventKind::Thought { text: "d".to_owned() });
        outbox.push(text("e"));
        outbox.flush().await.unwrap();
        let ledger = fixture.store.ledger(&fixture.record().await.id);
        let lines: Vec<String> = ledger.iter().map(|event| event_line(&event.kind)).collect();
        assert_eq!(lines, ["text a", "text bc", "thought d", "text e"]);
    }

    #[tokio::test]
    async fn failed_entries_come_first_at_close() {
        let fixture = SessionTestBed::new(&[]).await;
        let state = fixture.sessions.inner.session_state(&fixture.record().await.id);
        let nodes = &fixture.sessions.inner.config.nodes;
        let mut outbox = LedgerOutbox::new(state.recorder.clone(), RunId::from_bits(1), nodes);
        fixture.store.fail_writes([1]);
        outbox.push(text("a"));
        outbox.start_write();
        outbox.push(text("b"));
        assert!(outbox.flush().await.is_err() && outbox.is_broken());
        assert!(outbox.flush().await.is_err(), "it stays so");
        let left: Vec<String> =
            outbox.close("").await.iter().map(|left| event_line(&left.kind)).collect();
        assert_eq!(left, ["text a", "text b"]);
        assert!(fixture.store.ledger(&fixture.record().await.id).is_empty());
    }

    #[test]
    fn updates_of_one_call_are_merged() {
        let update =
            |call: &str, title: Option<&str>, progress: Option<&str>| EventKind::ToolUpdated {
                call: call.to_owned(),
                title: title.map(str::to_owned),
                kind: None,
                locations: Vec::new(),
                progress: progress.map(zero_core::CallProgress::new),
                begins: false,
                subagent: None,
            };
        let mut last = update("1", Some("old"), Some("half"));
        assert_eq!(merge_events(&mut last, update("1", Some("new"), None)), None);
        assert_eq!(last, update("1", Some("new"), Some("half")));
        let other = update("2", None, None);
        assert_eq!(merge_events(&mut last, other.clone()), Some(other));
    }
}
