//! A client that hosts tools, and the errors it can make.

use std::path::PathBuf;

use super::*;
use crate::testing::{SentFrames, send_queue};
use serde_json::{Value, json};
use zero_core::{CallId, CallProgress, SessionId, ToolResult, ToolResultPart};
use zero_session::key::SessionKey;
use zero_session::store::ToolHostLocation;
use zero_wire::tools::{OfferedTool, ToolContent, ToolsOfferParams};

/// How long the host of these tests may say nothing about a call.
const SILENCE_MAX: Duration = Duration::from_secs(900);

struct RemoteBackendFixture {
    backend: Arc<RemoteToolBackend>,
    frames: SentFrames,
    gone: CancellationToken,
    cancel: CancellationToken,
    log: Arc<CallLog>,
}

#[derive(Default)]
struct CallLog(Mutex<Vec<String>>);

impl CallObserver for CallLog {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        let note = format!("{title} {} {}", kind.as_str(), locations.len());
        self.0.lock().unwrap().push(note);
    }

    fn on_progress(&self, CallProgress { message, .. }: CallProgress) {
        self.0.lock().unwrap().push(message);
    }
}

fn fixture() -> RemoteBackendFixture {
    let session = SessionRecord {
        id: SessionId::new("sess_1").unwrap(),
        key: SessionKey::resolve("main", "main").unwrap(),
        label: None,
        title: None,
        agent: "main".to_owned(),
        model: None,
        mode: None,
        thinking: None,
        cwd: None,
        owner: "ann".to_owned(),
        tool_host: ToolHostLocation::Gateway,
        created_ms: 0,
        updated_ms: 0,
        transcript: 1,
        usage: Default::default(),
        context_tokens: None,
        parent: None,
    };
    let (outbox, frames) = send_queue();
    let gone = CancellationToken::new();
    let backend = RemoteToolBackend::new(
        &session,
        "ann",
        "laptop",
        outbox,
        gone.clone(),
        Duration::ZERO,
        SILENCE_MAX,
    );
    RemoteBackendFixture {
        backend,
        frames,
        gone,
        cancel: CancellationToken::new(),
        log: Arc::default(),
    }
}

fn kept_result(call: &str, text: &str) -> ToolsResultParams {
    ToolsResultParams {
        session_id: "sess_1".to_owned(),
        tool_call_id: call.to_owned(),
        is_error: false,
        outcome: Some(Box::new(ToolResult::text(text).into())),
        content: Vec::new(),
        status: None,
        title: None,
        kind: None,
        display: None,
        locations: Vec::new(),
        plan: None,
    }
}

#[tokio::test(start_paused = true)]
async fn kept_outcomes_have_one_limit_and_are_forgotten() {
    let rig = fixture();
    rig.backend.accept_kept_outcomes();
    let large = "x".repeat(RESULT_BYTES_MAX * 2 / 3);
    rig.backend.handle_result(kept_result("call_1", &large)).unwrap();
    // A repeated report replaces the one before.
    rig.backend.handle_result(kept_result("call_1", &large)).unwrap();
    let refused = rig.backend.handle_result(kept_result("call_2", &large)).unwrap_err();
    assert!(refused.message.contains("bytes of others are kept"), "{refused:?}");
    for call in 2..=CALLS_MAX {
        rig.backend.handle_result(kept_result(&format!("call_{call}"), "done")).unwrap();
    }
    let refused = rig.backend.handle_result(kept_result("one_more", "done")).unwrap_err();
    assert!(refused.message.contains("64 earlier calls are kept already"), "{refused:?}");
    rig.backend.set_offer(offer("canonical", &["Read"]));
    let taken = rig.backend.take_outcomes(vec!["call_1".to_owned()]).await;
    assert_eq!(taken.len(), 1);
    let kept = || rig.backend.kept_outcomes.get().unwrap().lock().unwrap();
    assert!(kept().outcomes.len() == CALLS_MAX - 1 && kept().bytes < RESULT_BYTES_MAX / 2);
    tokio::time::sleep(KEPT_TIME_MAX + Duration::from_secs(1)).await;
    assert!(kept().outcomes.is_empty() && kept().bytes == 0);
}

#[tokio::test]
async fn kept_outcomes_are_taken_once_and_only_before_the_offer() {
    let rig = fixture();
    let result = |call: &str| kept_result(call, "done");
    // Without other gateways, no gateway has made such a call.
    assert!(rig.backend.handle_result(result("call_1")).is_err());
    assert!(!rig.backend.set_initial_terms(None, None).recovers);
    rig.backend.accept_kept_outcomes();
    assert!(rig.backend.set_initial_terms(None, None).recovers);
    rig.backend.handle_result(result("call_1")).unwrap();
    rig.backend.set_offer(offer("canonical", &["Read"]));
    assert!(rig.backend.handle_result(result("call_2")).is_err());
    let calls = || vec!["call_1".to_owned(), "call_2".to_owned()];
    let outcomes = rig.backend.take_outcomes(calls()).await;
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["call_1"]);
    assert!(rig.backend.take_outcomes(calls()).await.is_empty());
}

fn offer(dialect: &str, tools: &[&str]) -> ToolOffer {
    let tool = |name: &&str| OfferedTool {
        name: (*name).to_owned(),
        canonical: "Read".to_owned(),
        display_name: None,
        description: String::new(),
        input_schema: json!({}),
        kind: ToolKind::Read,
        read_only: true,
    };
    ToolOffer::from_params(ToolsOfferParams {
        session_key: "main".to_owned(),
        dialect: dialect.to_owned(),
        cwd: "/w".to_owned(),
        system: "linux".to_owned(),
        tools: tools.iter().map(tool).collect(),
        ..ToolsOfferParams::default()
    })
    .unwrap()
}

fn result(call: &str, text: &str, is_error: bool) -> ToolsResultParams {
    ToolsResultParams {
        session_id: "sess_1".to_owned(),
        tool_call_id: call.to_owned(),
        outcome: None,
        content: vec![ToolContent::Text { text: text.to_owned() }],
        is_error,
        status: None,
        title: None,
        kind: None,
        display: None,
        locations: Vec::new(),
        plan: None,
    }
}

fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id).unwrap(),
        session: None,
        tool: tool.to_owned(),
        input: json!({"path": "a"}),
        timeout: None,
    }
}

fn result_text(end: &ToolOutcome) -> (ToolCallStatus, &str) {
    let text = match end {
        ToolOutcome::Error(error) => &error.message,
        ToolOutcome::Result(result) => match &result.content[..] {
            [ToolResultPart::Text(text)] => text,
            other => panic!("{other:?}"),
        },
    };
    (end.status(), text)
}

impl RemoteBackendFixture {
    /// Offers `read` in the dialect of the calls.
    fn with_offer() -> Self {
        let rig = fixture();
        rig.backend.set_offer(offer("acp", &["read"]));
        rig
    }

    fn start_call(&self, id: &str, tool: &str) -> tokio::task::JoinHandle<ToolOutcome> {
        let (backend, cancel) = (Arc::clone(&self.backend), self.cancel.clone());
        let (call, watch) = (call(id, tool), Arc::clone(&self.log));
        tokio::spawn(async move { backend.call(call, DialectName::Acp, cancel, watch).await })
    }

    async fn next_event(&mut self) -> (String, Value) {
        let frame = self.frames.next_event().await;
        (frame.event, frame.payload.unwrap())
    }
}

#[tokio::test]
async fn call_is_sent_to_host_and_result_returned() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    let (name, payload) = rig.next_event().await;
    assert_eq!(name, "tools/use");
    let expected = json!({
        "sessionId": "sess_1", "toolCallId": "c1", "toolName": "read", "input": {"path": "a"}
    });
    assert_eq!(payload, expected);
    let progress = |title: Option<&str>, message: Option<&str>| ToolsProgressParams {
        session_id: "sess_1".to_owned(),
        tool_call_id: "c1".to_owned(),
        title: title.map(str::to_owned),
        message: message.map(str::to_owned),
        ..ToolsProgressParams::default()
    };
    rig.backend.handle_progress(progress(Some("Read a"), None)).unwrap();
    rig.backend.handle_progress(progress(None, Some("half\u{1b}[2J"))).unwrap();
    rig.backend.handle_progress(progress(Some("Rm\n\u{202e}a"), None)).unwrap();
    // Only says that the call is still under way.
    rig.backend.handle_progress(progress(None, None)).unwrap();
    rig.backend.handle_result(result("c1", "the text", false)).unwrap();
    assert_eq!(result_text(&asked.await.unwrap()), (ToolCallStatus::Completed, "the text"));
    assert_eq!(
        *rig.log.0.lock().unwrap(),
        ["Read a read 0", "half\u{FFFD}[2J", "Rm \\u{202e}a read 0"]
    );
}

#[tokio::test]
async fn fast_call_describes_itself_with_result() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    let (title, kind) = (Some("Delete\n\u{202e}a".to_owned()), Some(ToolKind::Delete));
    rig.backend
        .handle_result(ToolsResultParams { title, kind, ..result("c1", "done", false) })
        .unwrap();
    assert_eq!(result_text(&asked.await.unwrap()), (ToolCallStatus::Completed, "done"));
    assert_eq!(*rig.log.0.lock().unwrap(), ["Delete \\u{202e}a delete 0"]);
}

#[tokio::test]
async fn result_is_accepted_once_and_only_for_known_call() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    let refused =
        |call: &str| rig.backend.handle_result(result(call, "x", false)).unwrap_err().message;
    assert!(refused("c2").starts_with("nothing waits for call `c2` here"));
    rig.backend.handle_result(result("c1", "first", true)).unwrap();
    assert!(refused("c1").starts_with("nothing waits for call `c1` here"));
    assert_eq!(result_text(&asked.await.unwrap()), (ToolCallStatus::Failed, "first"));
}

#[tokio::test]
async fn vanished_host_fails_its_calls() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    rig.gone.cancel();
    let end = asked.await.unwrap();
    let (status, text) = result_text(&end);
    assert_eq!(status, ToolCallStatus::Failed);
    assert!(text.contains("laptop went away; whether it happened is not known"), "{text}");
    assert!(rig.backend.lock_calls().is_empty());
    // Later calls are not sent to the host.
    let end = rig.start_call("c2", "read").await.unwrap();
    assert!(result_text(&end).1.contains("which is not connected"), "{end:?}");
    let away = ToolBackendError::ClientDisconnected { host: "laptop".to_owned() };
    assert_eq!(rig.backend.set_mode(Some(PermissionMode::Plan)).await, Err(away.clone()));
    assert_eq!(rig.backend.load_catalog(DialectName::Qwen).await, Err(away));
}

#[tokio::test]
async fn displaced_host_is_notified_and_its_calls_fail() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    rig.backend.displace("desktop");
    rig.backend.displace("phone");
    let end = asked.await.unwrap();
    assert!(result_text(&end).1.contains("whether it happened is not known"), "{end:?}");
    let (name, payload) = rig.next_event().await;
    let expected =
        json!({"sessionKey": "agent:main:main", "sessionId": "sess_1", "host": "desktop"});
    assert_eq!((name.as_str(), payload), ("tools/displaced", expected));
    assert_eq!((rig.backend.displaced_by(), rig.backend.is_attached()), (Some("desktop"), false));
    assert!(rig.backend.handle_result(result("c1", "late", false)).is_err());
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_ends_by_host_or_after_grace() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    rig.cancel.cancel();
    let (name, payload) = rig.next_event().await;
    assert_eq!((name.as_str(), &payload["toolCallId"]), ("tools/cancel", &json!("c1")));
    let stopped = ToolsResultParams {
        status: Some(ToolCallStatus::Cancelled),
        ..result("c1", "stopped", true)
    };
    rig.backend.handle_result(stopped).unwrap();
    assert_eq!(result_text(&asked.await.unwrap()), (ToolCallStatus::Cancelled, "stopped"));

    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    rig.cancel.cancel();
    let end = asked.await.unwrap();
    assert_eq!(result_text(&end).0, ToolCallStatus::Cancelled);
    assert!(result_text(&end).1.contains("did not report the outcome within 5 s"), "{end:?}");
    assert!(rig.backend.handle_result(result("c1", "late", false)).is_err());
}

#[tokio::test(start_paused = true)]
async fn silent_host_does_not_hold_call() {
    let mut rig = RemoteBackendFixture::with_offer();
    let begun = Instant::now();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    // Each report counts, also one that says nothing new.
    tokio::time::sleep(SILENCE_MAX - Duration::from_secs(1)).await;
    let report = ToolsProgressParams {
        session_id: "sess_1".to_owned(),
        tool_call_id: "c1".to_owned(),
        ..ToolsProgressParams::default()
    };
    rig.backend.handle_progress(report).unwrap();
    let end = asked.await.unwrap();
    assert_eq!(begun.elapsed(), SILENCE_MAX * 2 - Duration::from_secs(1));
    assert_eq!(end.error().unwrap().reason(), Some(ErrorReason::Deadline), "{end:?}");
    assert!(result_text(&end).1.contains("laptop said nothing about this call for 900 s"));
    assert_eq!(rig.next_event().await.0, "tools/cancel");
    assert!(rig.backend.handle_result(result("c1", "late", false)).is_err());
    // A call with a deadline of its own ends soon after it.
    let begun = Instant::now();
    let (backend, watch) = (Arc::clone(&rig.backend), Arc::clone(&rig.log));
    let short = ToolCall { timeout: Some(Duration::from_secs(2)), ..call("c2", "read") };
    let end = backend.call(short, DialectName::Acp, rig.cancel.clone(), watch).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2) + DEADLINE_MARGIN);
    assert_eq!(end.error().unwrap().reason(), Some(ErrorReason::Deadline), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn host_that_reports_as_asked_is_never_given_up() {
    let rig = RemoteBackendFixture::with_offer();
    let interval = rig.backend.set_initial_terms(None, None).report_ms.unwrap();
    for (number, timeout) in [None, Some(0), Some(2), Some(120), Some(3_600)].iter().enumerate() {
        let id = format!("c{number}");
        let timeout = timeout.map(Duration::from_secs);
        let call = ToolCall { timeout, ..call(&id, "read") };
        let (backend, watch) = (Arc::clone(&rig.backend), Arc::clone(&rig.log));
        let cancel = rig.cancel.clone();
        let asked =
            tokio::spawn(async move { backend.call(call, DialectName::Acp, cancel, watch).await });
        // A call may wait for an approval at the host for long, whatever its own deadline.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(interval)).await;
            let report = ToolsProgressParams {
                session_id: "sess_1".to_owned(),
                tool_call_id: id.clone(),
                ..ToolsProgressParams::default()
            };
            rig.backend.handle_progress(report).unwrap();
        }
        rig.backend.handle_result(result(&id, "done", false)).unwrap();
        assert_eq!(result_text(&asked.await.unwrap()), (ToolCallStatus::Completed, "done"));
    }
}

#[tokio::test]
async fn abandoned_call_is_cancelled_at_host() {
    let mut rig = RemoteBackendFixture::with_offer();
    let asked = rig.start_call("c1", "read");
    rig.next_event().await;
    asked.abort();
    assert_eq!(rig.next_event().await.0, "tools/cancel");
    assert!(rig.backend.lock_calls().is_empty());
}

#[tokio::test]
async fn only_offered_tools_are_called() {
    let rig = RemoteBackendFixture::with_offer();
    let end = rig.start_call("c1", "rm").await.unwrap();
    assert_eq!(
        result_text(&end),
        (ToolCallStatus::Failed, "the hosting client laptop has no tool `rm` now")
    );
    rig.cancel.cancel();
    let end = rig.start_call("c1", "read").await.unwrap();
    assert_eq!(result_text(&end), (ToolCallStatus::Cancelled, "stopped before it was begun"));
}

#[tokio::test]
async fn calls_and_results_are_bounded() {
    let mut rig = RemoteBackendFixture::with_offer();
    let mut asked = Vec::new();
    for n in 0..CALLS_MAX {
        asked.push(rig.start_call(&format!("c{n}"), "read"));
        rig.next_event().await;
    }
    let end = rig.start_call("more", "read").await.unwrap();
    assert!(result_text(&end).1.contains("has 64 running calls"), "{end:?}");
    let large = "x".repeat(RESULT_BYTES_MAX);
    let refused = rig.backend.handle_result(result("c0", &large, false)).unwrap_err();
    assert!(refused.message.contains("recorded as failed"), "{}", refused.message);
    let end = asked.swap_remove(0).await.unwrap();
    assert_eq!(result_text(&end).0, ToolCallStatus::Failed);
    assert!(result_text(&end).1.contains("ask for less at a time"), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn offer_is_requested_in_dialect_and_awaited() {
    let mut rig = fixture();
    let terms = rig.backend.set_initial_terms(None, Some(PermissionMode::Plan));
    assert_eq!((terms.dialect.as_str(), terms.mode.as_deref()), ("canonical", Some("plan")));
    assert!(terms.outcome);
    assert_eq!(terms.report_ms, Some(20_000));
    let backend = Arc::clone(&rig.backend);
    let catalog = tokio::spawn(async move { backend.load_catalog(DialectName::Acp).await });
    let (name, payload) = rig.next_event().await;
    assert_eq!((name.as_str(), &payload["dialect"]), ("tools/terms", &json!("acp")));
    rig.backend.set_offer(offer("canonical", &["Read"]));
    rig.backend.set_offer(offer("acp", &["read"]));
    let catalog = catalog.await.unwrap().unwrap();
    assert_eq!((catalog.tools[0].name.as_str(), catalog.cwd), ("read", PathBuf::from("/w")));
    // The wait for a host that never offers the dialect is bounded.
    let error = rig.backend.load_catalog(DialectName::Qwen).await.unwrap_err();
    assert!(error.to_string().contains("in the dialect `qwen` within 15 s"), "{error}");
    rig.next_event().await;
    rig.backend.set_mode(Some(PermissionMode::Auto)).await.unwrap();
    assert_eq!(rig.next_event().await.1["mode"], "auto");
    // A mode that is cleared is that of the client.
    rig.backend.set_mode(None).await.unwrap();
    assert_eq!(rig.next_event().await.1["mode"], json!(null));
}

#[test]
fn error_result_cannot_be_success() {
    for (status, is_error, expected) in [
        (None, false, ToolCallStatus::Completed),
        (None, true, ToolCallStatus::Failed),
        (Some(ToolCallStatus::Completed), true, ToolCallStatus::Failed),
        (Some(ToolCallStatus::Denied), true, ToolCallStatus::Denied),
        (Some(ToolCallStatus::Cancelled), false, ToolCallStatus::Cancelled),
    ] {
        let params = ToolsResultParams { status, ..result("c", "x", is_error) };
        assert_eq!(to_outcome(params, "read").status(), expected, "{status:?} {is_error}");
    }
}

#[tokio::test]
async fn whole_outcome_arrives() {
    let mut rig = RemoteBackendFixture::with_offer();
    let result_of = ToolResult { structured: json!({"exit_code": 7}), ..ToolResult::text("x") };
    let error = ToolError::new(zero_core::ErrorType::Timeout, ErrorReason::Deadline, "slow")
        .with_detail("output", "half")
        .with_tool("read");
    for (id, outcome) in [("c1", ToolOutcome::Result(result_of)), ("c2", error.into())] {
        let asked = rig.start_call(id, "read");
        rig.next_event().await;
        let is_error = outcome.error().is_some();
        let params = ToolsResultParams {
            outcome: Some(Box::new(outcome.clone())),
            content: Vec::new(),
            ..result(id, "", is_error)
        };
        rig.backend.handle_result(params).unwrap();
        assert_eq!(asked.await.unwrap(), outcome);
    }
}
