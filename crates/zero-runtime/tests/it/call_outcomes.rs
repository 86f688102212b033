//! Every outcome of a call, and its records.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, ErrorType, HostLimits, RiskLevel};
use zero_runtime::audit::AuditRow;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CallReport, Hook, HookFailureAction, HookSettings,
    LaunchAccess, ToolPattern, erase,
};

use crate::fixture::{FixedApprover, HostFixture, PuppetTool};

fn short_limits() -> HostLimits {
    HostLimits {
        file_timeout: Duration::from_millis(50),
        stop_grace: Duration::from_millis(20),
        ..HostLimits::default()
    }
}

fn error_reason(report: &CallReport) -> Option<ErrorReason> {
    report.outcome.as_ref().err().and_then(|error| error.reason())
}

/// Makes one call and checks that exactly one row, one sample and one event record it.
async fn check_call(
    fixture: &HostFixture,
    input: Value,
    status: &str,
    error: Option<(ErrorType, ErrorReason)>,
) {
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
async fn every_outcome_is_recorded_once() {
    use ErrorType::{ExecutionFailed, InvalidInput, Timeout};
    check_call(&HostFixture::new(), json!({"act": "work"}), "ok", None).await;
    check_call(
        &HostFixture::new(),
        json!({"act": "misuse"}),
        "error",
        Some((InvalidInput, ErrorReason::NoMatch)),
    )
    .await;
    check_call(
        &HostFixture::new(),
        json!({"act": "fail"}),
        "error",
        Some((ExecutionFailed, ErrorReason::Io)),
    )
    .await;
    check_call(
        &HostFixture::new(),
        json!({"act": "panic"}),
        "panic",
        Some((ExecutionFailed, ErrorReason::Panic)),
    )
    .await;
    check_call(
        &HostFixture::new(),
        json!({"act": "panic_early"}),
        "panic",
        Some((ExecutionFailed, ErrorReason::Panic)),
    )
    .await;
    check_call(
        &HostFixture::new(),
        json!({"act": 3}),
        "error",
        Some((InvalidInput, ErrorReason::SchemaViolation)),
    )
    .await;
    let tools = || vec![erase(PuppetTool::<'p'>::new())];
    let timeout = Some((Timeout, ErrorReason::Deadline));
    check_call(
        &HostFixture::with_limits(short_limits(), None, tools()),
        json!({"act": "hang"}),
        "timeout",
        timeout,
    )
    .await;
    check_call(
        &HostFixture::with_limits(short_limits(), None, tools()),
        json!({"act": "block"}),
        "timeout",
        timeout,
    )
    .await;
}

#[tokio::test]
async fn cancelled_call_is_recorded_when_caller_is_gone() {
    let fixture = HostFixture::new();
    let cancel = CancellationToken::new();
    let runs = async || {
        while fixture.host.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let call = fixture.call_with_cancel("Puppet", json!({"act": "hang"}), &cancel);
    let (report, ()) = tokio::join!(call, async {
        runs().await;
        cancel.cancel();
    });
    assert_eq!(error_reason(&report), Some(ErrorReason::Cancelled));

    tokio::select! {
        _ = fixture.call("Puppet", json!({"act": "hang"})) => panic!("it ends"),
        () = runs() => {}
    }
    let statuses: Vec<String> = fixture.rows().into_iter().map(|row| row.status).collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
    assert_eq!(fixture.host.in_flight(), 0);
}

#[tokio::test]
async fn unknown_tool_suggests_nearest_names() {
    let fixture = HostFixture::new();
    let error = fixture.call("Pupet", json!({})).await.outcome.unwrap_err();
    assert_eq!((error.error_type, error.tool.as_str()), (ErrorType::NotFound, "Pupet"));
    assert_eq!(error.message, "there is no tool `Pupet`; did you mean Puppet?");
    assert_eq!(fixture.rows()[0].status, "error");
}

#[tokio::test]
async fn risky_call_asks_for_approval() {
    let ask = |answer| Arc::new(FixedApprover { answer, questions: Default::default() });
    let risky = || vec![erase(PuppetTool::<'p'> { risk: RiskLevel::High, ..PuppetTool::new() })];

    let report = HostFixture::with_limits(HostLimits::default(), None, risky())
        .call("Puppet", json!({"act": "work"}))
        .await;
    let error = report.outcome.unwrap_err();
    assert_eq!(
        (error.error_type, error.reason()),
        (ErrorType::PermissionDenied, Some(ErrorReason::NoApprover))
    );
    assert!(error.message.contains("pass --yes"), "{error}");

    let yes = ask(ApprovalAnswer::AllowOnce);
    let fixture = HostFixture::with_limits(
        HostLimits::default(),
        Some(Arc::clone(&yes) as Arc<dyn Approver>),
        risky(),
    );
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
    assert_eq!(yes.questions.lock().unwrap()[0].risk, RiskLevel::High);
    assert_eq!(
        fixture.rows()[0].decision.as_ref().unwrap().answered.as_deref(),
        Some("test: allow once")
    );

    let fixture = HostFixture::with_limits(
        HostLimits::default(),
        Some(ask(ApprovalAnswer::RejectOnce)),
        risky(),
    );
    let report = fixture.call("Puppet", json!({"act": "work"})).await;
    assert_eq!(error_reason(&report), Some(ErrorReason::Rejected));
    assert_eq!(fixture.rows()[0].status, "denied");
}

#[tokio::test]
async fn low_risk_ends_at_workspace_border() {
    let fixture = HostFixture::new();
    assert!(fixture.call("Puppet", json!({"act": "work", "path": "a"})).await.outcome.is_ok());
    for outside in ["/etc/passwd", "../state", "a/../../state"] {
        std::fs::create_dir_all(fixture.temp.path().join("work/a")).unwrap();
        let report = fixture.call("Puppet", json!({"act": "work", "path": outside})).await;
        assert_eq!(error_reason(&report), Some(ErrorReason::NoApprover), "{outside}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_transient_idempotent_failures_are_retried() {
    let puppet = PuppetTool::<'p'>::new();
    let runs = Arc::clone(&puppet.runs);
    let fixture = HostFixture::with_limits(HostLimits::default(), None, vec![erase(puppet)]);
    assert!(fixture.call("Puppet", json!({"act": "flake"})).await.outcome.is_ok());
    assert_eq!((runs.load(Ordering::Relaxed), fixture.rows()[0].attempts), (3, Some(3)));
    fixture.call("Puppet", json!({"act": "fail"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 4, "not a passing failure");

    let once = PuppetTool::<'p'> { idempotent: false, ..PuppetTool::new() };
    let runs = Arc::clone(&once.runs);
    let fixture = HostFixture::with_limits(HostLimits::default(), None, vec![erase(once)]);
    fixture.call("Puppet", json!({"act": "flake"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 1, "not idempotent");
}

/// Thinks for a while before it allows a call.
struct ThinkingApprover(Duration);

impl Approver for ThinkingApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        std::thread::sleep(self.0);
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

#[tokio::test]
async fn time_of_questions_is_recorded_apart_from_duration() {
    let thought = Duration::from_millis(40);
    let risky = PuppetTool::<'p'> { risk: RiskLevel::High, ..PuppetTool::new() };
    let approver = Arc::new(ThinkingApprover(thought));
    let fixture =
        HostFixture::with_limits(HostLimits::default(), Some(approver), vec![erase(risky)]);
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
    let row = &fixture.rows()[0];
    let asked = Duration::from_micros(row.user_wait_us);
    assert!(asked >= thought && row.user_wait_us <= row.duration_us, "{row:?}");
    let stats = &fixture.host.metrics().tools()["Puppet"];
    let worked = u128::from(row.duration_us - row.user_wait_us);
    assert!(stats.duration_us_total.abs_diff(worked) <= 1, "{stats:?} {row:?}");
    assert_eq!(stats.user_wait_us_total, u128::from(row.user_wait_us));
}

#[tokio::test]
async fn fallback_is_tried_when_tool_fails() {
    let first = PuppetTool::<'p'> { fallback: Some("Spare"), ..PuppetTool::new() };
    let spare = PuppetTool::<'s'>::new();
    let runs = Arc::clone(&spare.runs);
    let fixture =
        HostFixture::with_limits(HostLimits::default(), None, vec![erase(first), erase(spare)]);
    fixture.call("Puppet", json!({"act": "misuse"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 0, "a wrong input is wrong for both");
    fixture.call("Puppet", json!({"act": "fail"})).await.outcome.unwrap_err();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(fixture.rows()[1].fallback.as_deref(), Some("Spare"));
}

#[tokio::test]
async fn fallback_runs_its_own_hooks() {
    let first = PuppetTool::<'p'> { fallback: Some("Spare"), ..PuppetTool::new() };
    let spare = PuppetTool::<'s'>::new();
    let runs = [Arc::clone(&first.runs), Arc::clone(&spare.runs)];
    // This program cannot start processes, so the hook fails and denies the call.
    let hook = Hook {
        tools: vec![ToolPattern::Named("Spare".to_owned())],
        words: vec!["true".to_owned()],
        timeout: Duration::from_secs(60),
        access: LaunchAccess::ReadOnly,
        on_failure: HookFailureAction::Deny,
        files: Vec::new(),
        written_at: "test:1".to_owned(),
    };
    let hooks = HookSettings { before: vec![hook], after: vec![] };
    let fixture = HostFixture::with_hooks(hooks, vec![erase(first), erase(spare)]);
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
    let report = fixture.call("Puppet", json!({"act": "fail"})).await;
    assert_eq!(error_reason(&report), Some(ErrorReason::Denied));
    assert_eq!(runs.map(|runs| runs.load(Ordering::Relaxed)), [2, 0]);
    let rows = fixture.rows();
    assert_eq!((rows[0].hooks.len(), rows[1].hooks.len()), (0, 1));
    assert_eq!((rows[1].hooks[0].said.as_str(), rows[1].status.as_str()), ("failed", "denied"));
}

#[tokio::test(start_paused = true)]
async fn repeatedly_failing_tool_is_paused() {
    let limits = HostLimits {
        breaker_failures_max: 3,
        breaker_pause: Duration::from_secs(100),
        ..HostLimits::default()
    };
    let fixture = HostFixture::with_limits(limits, None, vec![erase(PuppetTool::<'p'>::new())]);
    for _ in 0..20 {
        fixture.call("Puppet", json!({"act": "misuse"})).await.outcome.unwrap_err();
        fixture.call("Puppet", json!({"bad": 1})).await.outcome.unwrap_err();
    }
    for _ in 0..3 {
        assert_eq!(
            error_reason(&fixture.call("Puppet", json!({"act": "fail"})).await),
            Some(ErrorReason::Io)
        );
    }
    let report = fixture.call("Puppet", json!({"act": "work"})).await;
    assert_eq!(error_reason(&report), Some(ErrorReason::CircuitOpen));
    tokio::time::sleep(Duration::from_secs(101)).await;
    assert!(fixture.call("Puppet", json!({"act": "work"})).await.outcome.is_ok());
}

/// Time advances when no task can make progress.
#[tokio::test(start_paused = true)]
async fn running_calls_and_queue_are_bounded() {
    let limits = HostLimits { session_calls_max: 2, queue_calls_max: 3, ..HostLimits::default() };
    let fixture = HostFixture::with_limits(limits, None, vec![erase(PuppetTool::<'p'>::new())]);
    let calls = (0..7).map(|_| fixture.call("Puppet", json!({"act": "work", "millis": 50})));
    let watch = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        (fixture.host.in_flight(), fixture.host.queue_depth())
    };
    let (reports, (running, waiting)) = tokio::join!(futures_util::future::join_all(calls), watch);
    assert_eq!((running, waiting), (2, 3));
    let refused = reports
        .iter()
        .filter(|report| error_reason(report) == Some(ErrorReason::QueueFull))
        .count();
    assert_eq!(refused, 2);
    assert!(fixture.rows().iter().any(|row| row.queue_depth > 0));
    assert_eq!((fixture.host.in_flight(), fixture.host.queue_depth()), (0, 0));
}

#[tokio::test]
async fn caller_deadline_is_respected() {
    let fixture = HostFixture::new();
    let mut call = HostFixture::tool_call("Puppet", json!({"act": "hang"}));
    call.timeout = Some(Duration::from_millis(20));
    let report = fixture
        .host
        .call(&fixture.session, &fixture.dialect, call, &CancellationToken::new())
        .await;
    assert_eq!(report.outcome.unwrap_err().error_type, ErrorType::Timeout);
}

#[tokio::test]
async fn running_call_is_in_log_before_tool_runs() {
    let tool = PuppetTool::<'p'>::new();
    let fixture = HostFixture::with_limits(HostLimits::default(), None, vec![erase(tool)]);
    let cancel = CancellationToken::new();
    let call = HostFixture::tool_call("Puppet", json!({"act": "hang"}));
    let id = call.id.to_string();
    let begins = || {
        let mut begins = Vec::new();
        for day in fixture.host.audit().days().unwrap() {
            let mut day = fixture.host.audit().open_day(&day).unwrap();
            let mut add = |row: AuditRow| begins.extend(row.is_begin().then_some(row));
            day.for_each_written_row(|row, _| add(row)).unwrap();
        }
        begins
    };
    let calling = fixture.host.call(&fixture.session, &fixture.dialect, call, &cancel);
    let watching = async {
        while begins().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(fixture.rows().is_empty(), "it has no end yet");
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(calling, watching);
    report.outcome.unwrap_err();
    let begins = begins();
    assert_eq!((begins.len(), &begins[0].call, begins[0].decision.is_some()), (1, &id, true));
    assert_eq!((fixture.rows().len(), &fixture.rows()[0].call), (1, &id));
    // A call that does not run has its end only.
    fixture.call("Nothing", json!({})).await.outcome.unwrap_err();
    assert_eq!(fixture.rows().len(), 2);
}
