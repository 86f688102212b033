//! Every way out of a call, and what is written down about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorType, Limits, Reason, Risk};
use zero_runtime::{Access, Answer, Approver, Hook, Hooks, OnFailure, Report, ToolPattern, erase};

use crate::fixture::{Fixed, Fixture, Puppet};

fn short() -> Limits {
    Limits {
        file_timeout: Duration::from_millis(50),
        stop_grace: Duration::from_millis(20),
        ..Limits::default()
    }
}

fn reason(report: &Report) -> Option<Reason> {
    report.outcome.as_ref().err().and_then(|error| error.reason())
}

/// Makes one call and checks that exactly one row, one sample and one ending tell of it.
async fn check(fixture: &Fixture, input: Value, status: &str, error: Option<(ErrorType, Reason)>) {
    let report = fixture.call("Puppet", input.clone()).await;
    let found =
        report.outcome.as_ref().err().map(|error| (error.error_type, error.reason().unwrap()));
    assert_eq!(found, error, "{input}");
    let rows = fixture.rows();
    assert_eq!(rows.len(), 1, "{input}");
    assert_eq!(rows[0].status, status, "{input}");
    assert_eq!(rows[0].tool, "Puppet");
    assert_eq!(*fixture.endings.0.lock().unwrap(), [status], "{input}");
    let stats = &fixture.host.metrics().tools()["Puppet"];
    assert_eq!((stats.calls, stats.ok), (1, u64::from(error.is_none())), "{input}");
}

#[tokio::test]
async fn every_way_out_is_recorded_once() {
    use ErrorType::{ExecutionFailed, InvalidInput, Timeout};
    check(&Fixture::new(), json!({"act": "work"}), "ok", None).await;
    check(
        &Fixture::new(),
        json!({"act": "misuse"}),
        "error",
        Some((InvalidInput, Reason::NoMatch)),
    )
    .await;
    check(&Fixture::new(), json!({"act": "fail"}), "error", Some((ExecutionFailed, Reason::Io)))
        .await;
    check(
        &Fixture::new(),
        json!({"act": "panic"}),
        "panic",
        Some((ExecutionFailed, Reason::Panic)),
    )
    .await;
    check(
        &Fixture::new(),
        json!({"act": "panic_early"}),
        "panic",
        Some((ExecutionFailed, Reason::Panic)),
    )
    .await;
    check(
        &Fixture::new(),
        json!({"act": 3}),
        "error",
        Some((InvalidInput, Reason::SchemaViolation)),
    )
    .await;
    let tools = || vec![erase(Puppet::<'p'>::new())];
    let timeout = Some((Timeout, Reason::Deadline));
    check(&Fixture::with(short(), None, tools()), json!({"act": "hang"}), "timeout", timeout).await;
    check(&Fixture::with(short(), None, tools()), json!({"act": "block"}), "timeout", timeout)
        .await;
}

#[tokio::test]
async fn a_cancelled_call_is_settled_also_when_its_caller_is_gone() {
    let fixture = Fixture::new();
    let cancel = CancellationToken::new();
    let call = fixture.call_until("Puppet", json!({"act": "hang"}), &cancel);
    let (report, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    });
    assert_eq!(reason(&report), Some(Reason::Cancelled));

    let dropped = fixture.call("Puppet", json!({"act": "hang"}));
    assert!(tokio::time::timeout(Duration::from_millis(20), dropped).await.is_err());
    let statuses: Vec<String> = fixture.rows().into_iter().map(|row| row.status).collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
    assert_eq!(fixture.host.in_flight(), 0);
}

#[tokio::test]
async fn an_unknown_tool_gets_the_nearest_names() {
    let fixture = Fixture::new();
    let error = fixture.call("Pupet", json!({})).await.outcome.unwrap_err();
    assert_eq!((error.error_type, error.tool.as_str()), (ErrorType::NotFound, "Pupet"));
    assert_eq!(error.message, "there is no tool `Pupet`; did you mean Puppet?");
    assert_eq!(fixture.rows()[0].status, "error");
}

#[tokio::test]
async fn what_is_more_than_looking_is_asked() {
    let ask = |answer| Arc::new(Fixed { answer, questions: Default::default() });
    let risky = || vec![erase(Puppet::<'p'> { risk: Risk::High, ..Puppet::new() })];

    let report = Fixture::with(Limits::default(), None, risky())
        .call("Puppet", json!({"act": "work"}))
        .await;
    let error = report.outcome.unwrap_err();
    assert_eq!(
        (error.error_type, error.reason()),
        (ErrorType::PermissionDenied, Some(Reason::NoApprover))
    );
    assert!(error.message.contains("pass --yes"), "{error}");

    let yes = ask(Answer::AllowOnce);
    let fixture =
        Fixture::with(Limits::default(), Some(Arc::clone(&yes) as Arc<dyn Approver>), risky());
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
    assert_eq!(yes.questions.lock().unwrap()[0].risk, Risk::High);
    assert_eq!(
        fixture.rows()[0].decision.as_ref().unwrap().answered.as_deref(),
        Some("test: allow once")
    );

    let fixture = Fixture::with(Limits::default(), Some(ask(Answer::RejectOnce)), risky());
    let report = fixture.call("Puppet", json!({"act": "work"})).await;
    assert_eq!(reason(&report), Some(Reason::Rejected));
    assert_eq!(fixture.rows()[0].status, "denied");
}

#[tokio::test]
async fn low_risk_ends_at_the_border_of_the_workspace() {
    let fixture = Fixture::new();
    assert!(fixture.call("Puppet", json!({"act": "work", "path": "a"})).await.outcome.is_ok());
    for outside in ["/etc/passwd", "../state", "a/../../state"] {
        std::fs::create_dir_all(fixture.temp.path().join("work/a")).unwrap();
        let report = fixture.call("Puppet", json!({"act": "work", "path": outside})).await;
        assert_eq!(reason(&report), Some(Reason::NoApprover), "{outside}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_passing_failures_of_idempotent_tools_are_tried_again() {
    let puppet = Puppet::<'p'>::new();
    let runs = Arc::clone(&puppet.runs);
    let fixture = Fixture::with(Limits::default(), None, vec![erase(puppet)]);
    assert!(fixture.call("Puppet", json!({"act": "flake"})).await.outcome.is_ok());
    assert_eq!((runs.load(Ordering::Relaxed), fixture.rows()[0].attempts), (3, Some(3)));
    fixture.call("Puppet", json!({"act": "fail"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 4, "not a passing failure");

    let once = Puppet::<'p'> { idempotent: false, ..Puppet::new() };
    let runs = Arc::clone(&once.runs);
    let fixture = Fixture::with(Limits::default(), None, vec![erase(once)]);
    fixture.call("Puppet", json!({"act": "flake"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 1, "not idempotent");
}

#[tokio::test]
async fn a_stand_in_is_tried_when_the_tool_is_unwell() {
    let first = Puppet::<'p'> { fallback: Some("Spare"), ..Puppet::new() };
    let spare = Puppet::<'s'>::new();
    let runs = Arc::clone(&spare.runs);
    let fixture = Fixture::with(Limits::default(), None, vec![erase(first), erase(spare)]);
    fixture.call("Puppet", json!({"act": "misuse"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 0, "a wrong input is wrong for both");
    fixture.call("Puppet", json!({"act": "fail"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(fixture.rows()[1].fallback.as_deref(), Some("Spare"));
}

#[tokio::test]
async fn a_stand_in_has_hooks_of_its_own() {
    let first = Puppet::<'p'> { fallback: Some("Spare"), ..Puppet::new() };
    let spare = Puppet::<'s'>::new();
    let runs = [Arc::clone(&first.runs), Arc::clone(&spare.runs)];
    // Nothing can be started by this program, so the hook fails, and that is a no.
    let hook = Hook {
        tools: vec![ToolPattern::Named("Spare".to_owned())],
        words: vec!["true".to_owned()],
        timeout: Duration::from_secs(60),
        access: Access::ReadOnly,
        on_failure: OnFailure::Deny,
        files: Vec::new(),
        written_at: "test:1".to_owned(),
    };
    let hooks = Hooks { before: vec![hook], after: vec![] };
    let fixture = Fixture::hooked(hooks, vec![erase(first), erase(spare)]);
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
    let report = fixture.call("Puppet", json!({"act": "fail"})).await;
    assert_eq!(reason(&report), Some(Reason::Denied));
    assert_eq!(runs.map(|runs| runs.load(Ordering::Relaxed)), [2, 0]);
    let rows = fixture.rows();
    assert_eq!((rows[0].hooks.len(), rows[1].hooks.len()), (0, 1));
    assert_eq!((rows[1].hooks[0].said.as_str(), rows[1].status.as_str()), ("failed", "denied"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_keeps_failing_rests() {
    let limits = Limits {
        breaker_failures_max: 3,
        breaker_pause: Duration::from_secs(100),
        ..Limits::default()
    };
    let fixture = Fixture::with(limits, None, vec![erase(Puppet::<'p'>::new())]);
    for _ in 0..20 {
        fixture.call("Puppet", json!({"act": "misuse"})).await.outcome.unwrap_err();
        fixture.call("Puppet", json!({"bad": 1})).await.outcome.unwrap_err();
    }
    for _ in 0..3 {
        assert_eq!(reason(&fixture.call("Puppet", json!({"act": "fail"})).await), Some(Reason::Io));
    }
    let report = fixture.call("Puppet", json!({"act": "work"})).await;
    assert_eq!(reason(&report), Some(Reason::CircuitOpen));
    tokio::time::sleep(Duration::from_secs(101)).await;
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
}

/// Time goes on when nobody has anything left to do.
#[tokio::test(start_paused = true)]
async fn places_and_the_queue_are_bounded() {
    let limits = Limits { session_calls_max: 2, queue_calls_max: 3, ..Limits::default() };
    let fixture = Fixture::with(limits, None, vec![erase(Puppet::<'p'>::new())]);
    let calls = (0..7).map(|_| fixture.call("Puppet", json!({"act": "work", "millis": 50})));
    let watch = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        (fixture.host.in_flight(), fixture.host.queue_depth())
    };
    let (reports, (running, waiting)) = tokio::join!(futures_util::future::join_all(calls), watch);
    assert_eq!((running, waiting), (2, 3));
    let refused = reports.iter().filter(|report| reason(report) == Some(Reason::QueueFull)).count();
    assert_eq!(refused, 2);
    assert!(fixture.rows().iter().any(|row| row.queue_depth > 0));
    assert_eq!((fixture.host.in_flight(), fixture.host.queue_depth()), (0, 0));
}

#[tokio::test]
async fn a_callers_own_deadline_is_kept() {
    let fixture = Fixture::new();
    let mut call = Fixture::tool_call("Puppet", json!({"act": "hang"}));
    call.timeout = Some(Duration::from_millis(20));
    let report = fixture
        .host
        .call(&fixture.session, &fixture.dialect, call, &CancellationToken::new())
        .await;
    assert_eq!(report.outcome.unwrap_err().error_type, ErrorType::Timeout);
}
