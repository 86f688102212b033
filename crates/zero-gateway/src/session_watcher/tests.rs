//! Every entry is delivered once, even if the bus dropped some.

use super::*;
use crate::testing::{SentFrames, begin_run, run_id, send_queue, sessions};
use serde_json::{Value, json};
use tempfile::TempDir;
use zero_core::event::{RunOutcome, TokenUsage};
use zero_session::key::SessionKey;
use zero_session::sessions::OpenSessionOptions;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{NewEvent, Store as _};

struct WatcherFixture {
    sessions: SessionManager,
    session: SessionRecord,
    watch: WatchHandle,
    frames: SentFrames,
    gone: CancellationToken,
    folder: TempDir,
    /// Reports runs whose ends are not recorded.
    unrecorded: broadcast::Sender<UnrecordedEnd>,
}

impl WatcherFixture {
    async fn start(audience: WatchAudience) -> Self {
        let folder = TempDir::new().unwrap();
        let sessions = sessions(folder.path()).await;
        let session = open_session(&sessions, "main").await;
        begin_run(&sessions, &session.id, "r").await;
        let (outbox, frames) = send_queue();
        let gone = CancellationToken::new();
        let owner = "ann".to_owned();
        let (unrecorded, ends) = broadcast::channel(8);
        let watch = WatchHandle::start_with_ends(
            sessions.clone(),
            outbox,
            audience,
            owner,
            gone.clone(),
            ends,
        );
        Self { sessions, session, watch, frames, gone, folder, unrecorded }
    }

    /// Appends entries to the ledger, as a run does, and returns them with their sequence numbers.
    async fn append(&self, whats: Vec<EventKind>) -> Vec<Arc<Event>> {
        let entry = |kind| NewEvent { run: Some(run_id("r")), time_ms: 5, kind };
        let entries = whats.into_iter().map(entry).collect();
        let events = self.sessions.store().append(&self.session.id, None, entries).await.unwrap();
        events.into_iter().map(Arc::new).collect()
    }

    fn publish(&self, events: &[Arc<Event>]) {
        self.sessions.bus().publish(&self.session.id, events);
    }

    async fn next_payload(&mut self) -> Value {
        self.frames.next_event().await.payload.unwrap()
    }
}

async fn open_session(sessions: &SessionManager, key: &str) -> SessionRecord {
    let key = SessionKey::resolve(key, "main").unwrap();
    let wanted = OpenSessionOptions {
        key: Some(key.to_string()),
        owner: "ann".to_owned(),
        ..OpenSessionOptions::default()
    };
    sessions.open(wanted).await.unwrap()
}

fn prompt() -> EventKind {
    EventKind::Prompt { text: "go".to_owned(), attachments: Vec::new() }
}

fn text(text: &str) -> EventKind {
    EventKind::Text { text: text.to_owned() }
}

fn run_ended() -> EventKind {
    EventKind::RunEnded { end: RunOutcome::Completed, usage: TokenUsage::default() }
}

#[tokio::test]
async fn native_client_receives_raw_entries() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    let early = rig.append(vec![prompt()]).await;
    let last = rig.watch.watch(&rig.session).await.unwrap();
    assert_eq!(last, early.last().unwrap().seq);
    let events = rig.append(vec![text("Hi"), run_ended()]).await;
    rig.publish(&early);
    rig.publish(&events);
    let mut lines = Vec::new();
    for _ in 0..events.len() {
        let frame = rig.frames.next_event().await;
        lines.push(format!("{} {}", frame.event, frame.payload.unwrap()));
    }
    let lines = lines.join("\n").replace(&format!("\"seq\":{}", last + 1), "\"seq\":N+1");
    let lines = lines.replace(&format!("\"seq\":{}", last + 2), "\"seq\":N+2");
    insta::assert_snapshot!(lines);
}

#[tokio::test]
async fn entries_dropped_by_bus_are_read_from_store() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    let last = rig.watch.watch(&rig.session).await.unwrap();
    let events = rig.append(vec![prompt(), text("a"), text("b"), run_ended()]).await;
    rig.publish(&events[3..]);
    for seq in last + 1..=last + 4 {
        assert_eq!(rig.next_payload().await["event"]["seq"], seq);
    }
}

fn unrecorded_end(session: &SessionId, is_abandoned: bool) -> UnrecordedEnd {
    UnrecordedEnd {
        session: session.clone(),
        run: run_id("r"),
        message: "the disk is full".to_owned(),
        is_abandoned,
    }
}

#[tokio::test]
async fn unrecorded_run_end_is_reported_once_and_again_when_abandoned() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    rig.watch.watch(&rig.session).await.unwrap();
    let id = rig.session.id.clone();
    let other = SessionId::new("sess_other").unwrap();
    for end in [
        unrecorded_end(&other, false),
        unrecorded_end(&id, false),
        unrecorded_end(&id, false),
        unrecorded_end(&id, true),
    ] {
        rig.unrecorded.send(end).unwrap();
    }
    for is_abandoned in [false, true] {
        let frame = rig.frames.next_event().await;
        assert_eq!(frame.event, RUN_UNRECORDED);
        let expected = json!({
            "sessionKey": "agent:main:main", "runId": "r", "message": "the disk is full",
            "isAbandoned": is_abandoned,
        });
        assert_eq!(frame.payload.unwrap(), expected);
    }
}

#[tokio::test]
async fn openclaw_client_gets_end_of_abandoned_run() {
    let mut rig = WatcherFixture::start(WatchAudience::OpenClaw(RelayInterest::default())).await;
    rig.watch.watch(&rig.session).await.unwrap();
    let events = rig.append(vec![prompt(), text("Hi")]).await;
    rig.publish(&events);
    while rig.next_payload().await["state"] != "delta" {}
    rig.unrecorded.send(unrecorded_end(&rig.session.id, true)).unwrap();
    loop {
        let payload = rig.next_payload().await;
        if payload["state"] == "error" {
            assert_eq!(payload["errorMessage"], "the disk is full", "{payload}");
            return;
        }
    }
}

#[tokio::test]
async fn full_subscription_loses_nothing_including_run_end() {
    let mut rig = WatcherFixture::start(WatchAudience::OpenClaw(RelayInterest::default())).await;
    rig.watch.watch(&rig.session).await.unwrap();
    let many = ENTRIES_MAX * 2;
    let whats = std::iter::once(prompt()).chain((0..many).map(|_| text("x"))).chain([run_ended()]);
    let events = rig.append(whats.collect()).await;
    // Published without an await, so the task cannot receive any meanwhile, and nothing follows the
    // end.
    rig.publish(&events);
    loop {
        let frame = rig.frames.next_event().await;
        let payload = frame.payload.unwrap();
        if payload["state"] == "final" {
            let text = payload["message"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(text.len(), many);
            return;
        }
    }
}

#[tokio::test]
async fn held_text_is_flushed_after_delay() {
    let mut rig = WatcherFixture::start(WatchAudience::OpenClaw(RelayInterest::default())).await;
    rig.watch.watch(&rig.session).await.unwrap();
    let events = rig.append(vec![prompt(), text(&"x".repeat(100_000))]).await;
    rig.publish(&events);
    while rig.next_payload().await["state"] != "delta" {}
    // Ledger entries can be read before they are published, and would be in the delta above.
    let events = rig.append(vec![text("y")]).await;
    rig.publish(&events);
    let mut payload = rig.next_payload().await;
    while payload["state"] != "delta" {
        payload = rig.next_payload().await;
    }
    assert_eq!(payload["deltaText"], "y");
}

#[tokio::test]
async fn slow_ledger_client_catches_up_from_store() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    let last = rig.watch.watch(&rig.session).await.unwrap();
    // Far more than its queue holds, while it reads nothing.
    let large = "x".repeat(64 * 1024);
    let (batches, per_batch) = (20, 64);
    for _ in 0..batches {
        let events = rig.append((0..per_batch).map(|_| text(&large)).collect()).await;
        rig.publish(&events);
        // The task has handled the events when it answers.
        rig.watch.watch(&rig.session).await.unwrap();
    }
    for seq in last + 1..=last + batches * per_batch {
        assert_eq!(rig.next_payload().await["event"]["seq"], seq);
    }
    let events = rig.append(vec![run_ended()]).await;
    rig.publish(&events);
    assert_eq!(rig.next_payload().await["event"]["seq"], events[0].seq);
}

#[tokio::test]
async fn unwatched_session_is_silent() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    rig.watch.watch(&rig.session).await.unwrap();
    rig.watch.unwatch(&rig.session.id).await;
    let unheard = rig.append(vec![prompt()]).await;
    rig.publish(&unheard);
    let last = rig.watch.watch(&rig.session).await.unwrap();
    assert_eq!(last, unheard.last().unwrap().seq);
    let events = rig.append(vec![run_ended()]).await;
    rig.publish(&events);
    assert_eq!(rig.next_payload().await["event"]["seq"], last + 1);
    rig.gone.cancel();
    // The task drops its end of the queue when it ends.
    while rig.watch.watch(&rig.session).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn entries_of_other_processes_arrive_once_few_sessions_are_watched() {
    let mut rig = WatcherFixture::start(WatchAudience::Ledger).await;
    // The first look at the store tells nothing.
    let mut writes = rig.sessions.foreign_writes();
    writes.changed().await.unwrap();
    rig.watch.watch(&rig.session).await.unwrap();
    let mut others = Vec::new();
    for number in 0..SHARED_SESSIONS_MAX {
        let other = open_session(&rig.sessions, &format!("other-{number}")).await;
        rig.watch.watch(&other).await.unwrap();
        others.push(other);
    }
    let theirs = SqliteStore::open(&rig.folder.path().join("sessions.db")).unwrap();
    let entry = NewEvent { run: None, time_ms: 5, kind: text("theirs") };
    let written = theirs.append(&rig.session.id, None, vec![entry]).await.unwrap();
    writes.changed().await.unwrap();
    rig.watch.unwatch(&others[0].id).await;
    let seen = rig.next_payload().await;
    assert_eq!(seen["event"]["seq"], written[0].seq, "{seen}");
}
