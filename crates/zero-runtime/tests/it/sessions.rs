//! Many sessions on one host: each has its own user, observer and mode.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, RiskLevel, SessionId, ToolError};
use zero_policy::rule::{RuleOwner, RuleSource};
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig, PolicyRule};
use zero_runtime::session_results::{self, ResultLifetime};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CallEventObserver, GrantDecision, GrantScope,
    PendingAnswer, RulePolicy, SavedGrant, ToolHost, ToolHostConfig, ToolHostSession,
    ToolHostSessionConfig, Verdict, erase,
};
use zero_sandbox::expiry::{ExpiryMode, ExpiryRules};
use zero_sandbox::{StateDir, Workspace};

use crate::fixture::{FixedApprover, HostFixture, PuppetTool, StatusRecorder};

/// A host with one tool that changes something, and an approver that rejects it.
struct SessionFixture {
    fixture: HostFixture,
    host_person: Arc<FixedApprover>,
}

impl SessionFixture {
    fn new(rules: &[(Verdict, &str)], mode: PermissionMode) -> Self {
        let rule = |(verdict, text): &(Verdict, &str)| {
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, *verdict, source).unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        let roots = vec!["/".into()];
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules,
            mode,
            roots,
            ..PolicyEngineConfig::default()
        });
        let policy = Arc::new(RulePolicy::new(engine, Vec::new()));
        let host_person = fixed_approver(ApprovalAnswer::RejectOnce);
        let tool = PuppetTool::<'p'> { risk: RiskLevel::Medium, ..PuppetTool::new() };
        let fixture = HostFixture::with_policy(
            policy,
            HostLimits::default(),
            Some(Arc::clone(&host_person) as Arc<dyn Approver>),
            vec![erase(tool)],
        );
        Self { fixture, host_person }
    }

    fn open(&self, id: &str, config: ToolHostSessionConfig) -> ToolHostSession {
        self.fixture.host.open_session_with(SessionId::new(id).unwrap(), config).unwrap()
    }

    async fn call_puppet(&self, session: &ToolHostSession) -> Result<(), ToolError> {
        self.call(session, json!({"act": "work"})).await
    }

    async fn call(&self, session: &ToolHostSession, input: Value) -> Result<(), ToolError> {
        let call = HostFixture::tool_call("Puppet", input);
        let HostFixture { host, dialect, .. } = &self.fixture;
        host.call(session, dialect, call, &CancellationToken::new()).await.outcome.map(drop)
    }
}

fn fixed_approver(answer: ApprovalAnswer) -> Arc<FixedApprover> {
    Arc::new(FixedApprover { answer, questions: Mutex::default() })
}

fn count_questions(approver: &FixedApprover) -> usize {
    approver.questions.lock().unwrap().len()
}

fn session_config(approver: &Arc<FixedApprover>, mode: PermissionMode) -> ToolHostSessionConfig {
    ToolHostSessionConfig {
        approver: Some(Arc::clone(approver) as Arc<dyn Approver>),
        mode: Some(mode),
        ..ToolHostSessionConfig::default()
    }
}

#[tokio::test]
async fn each_session_has_own_approver_observer_and_mode() {
    let rig = SessionFixture::new(&[], PermissionMode::Ask);
    let (yes, no) =
        (fixed_approver(ApprovalAnswer::AllowOnce), fixed_approver(ApprovalAnswer::RejectOnce));
    let watcher = Arc::new(StatusRecorder::default());
    let asks = rig.open(
        "asks",
        ToolHostSessionConfig {
            observer: Some(Arc::clone(&watcher) as Arc<dyn CallEventObserver>),
            ..session_config(&yes, PermissionMode::Ask)
        },
    );
    let plans = rig.open("plans", session_config(&no, PermissionMode::Plan));
    let plain = rig.open("plain", ToolHostSessionConfig::default());
    assert_eq!(
        (asks.mode(), plans.mode(), plain.mode()),
        (Some(PermissionMode::Ask), Some(PermissionMode::Plan), None)
    );
    for _ in 0..2 {
        rig.call_puppet(&asks).await.unwrap();
        let planned = rig.call_puppet(&plans).await.unwrap_err();
        assert_eq!(planned.reason(), Some(ErrorReason::Denied));
        assert!(
            planned.message.contains("plan mode does not allow changes or commands"),
            "{planned}"
        );
        assert_eq!(
            rig.call_puppet(&plain).await.unwrap_err().reason(),
            Some(ErrorReason::Rejected)
        );
    }
    assert_eq!(
        (count_questions(&yes), count_questions(&no), count_questions(&rig.host_person)),
        (2, 0, 2)
    );
    assert_eq!(*watcher.0.lock().unwrap(), ["ok", "ok"]);
    assert_eq!(*rig.fixture.endings.0.lock().unwrap(), ["denied"; 4], "of the two others");

    // A change in one session does not affect the others.
    asks.set_mode(Some(PermissionMode::Plan));
    plans.set_mode(Some(PermissionMode::Ask));
    assert_eq!(rig.call_puppet(&asks).await.unwrap_err().reason(), Some(ErrorReason::Denied));
    assert_eq!(rig.call_puppet(&plans).await.unwrap_err().reason(), Some(ErrorReason::Rejected));
    assert_eq!(rig.call_puppet(&plain).await.unwrap_err().reason(), Some(ErrorReason::Rejected));
    assert_eq!(
        (count_questions(&yes), count_questions(&no), count_questions(&rig.host_person)),
        (2, 1, 3)
    );
}

#[tokio::test]
async fn session_mode_overrides_settings_mode() {
    let yes = fixed_approver(ApprovalAnswer::AllowOnce);
    let rig = SessionFixture::new(&[], PermissionMode::Plan);
    let session = rig.open("s", session_config(&yes, PermissionMode::Ask));
    rig.call_puppet(&session).await.unwrap();
    session.set_mode(None);
    assert_eq!(rig.call_puppet(&session).await.unwrap_err().reason(), Some(ErrorReason::Denied));
}

#[tokio::test]
async fn deny_rule_applies_in_every_mode() {
    let rule = "Read(//**/secret)";
    let rig = SessionFixture::new(&[(Verdict::Deny, rule)], PermissionMode::Auto);
    for mode in PermissionMode::ALL {
        let yes = fixed_approver(ApprovalAnswer::AllowSession);
        let grants = [rule, "Read", "*"].map(|rule| SavedGrant {
            decision: GrantDecision::Allowed,
            grant: GrantScope { rule: rule.to_owned(), folder: None, program: None },
            time: jiff::Timestamp::now(),
            by: "approver".to_owned(),
        });
        let config =
            ToolHostSessionConfig { grants: grants.to_vec(), ..session_config(&yes, mode) };
        let session = rig.open(mode.as_str(), config);
        let input = json!({"act": "work", "path": "secret"});
        let error = rig.call(&session, input).await.unwrap_err();
        assert_eq!(error.details["matched_rule"], rule, "{mode}");
        assert_eq!(
            (error.reason(), count_questions(&yes)),
            (Some(ErrorReason::Denied), 0),
            "{mode}"
        );
    }
}

/// An approver that answers late.
#[derive(Default)]
struct SlowApprover {
    asked: Notify,
    pending: Mutex<Option<PendingAnswer>>,
}

impl Approver for SlowApprover {
    fn name(&self) -> &str {
        "slow"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        let (pending, answer) = PendingAnswer::new();
        *self.pending.lock().unwrap() = Some(pending);
        self.asked.notify_one();
        Box::pin(answer)
    }
}

#[tokio::test]
async fn switch_to_plan_mode_before_answer_denies_call() {
    let rig = SessionFixture::new(&[], PermissionMode::Ask);
    for (mode, expected) in [
        (Some(PermissionMode::Plan), Some(ErrorReason::Denied)),
        (Some(PermissionMode::AcceptEdits), None),
        (None, None),
    ] {
        let slow = Arc::new(SlowApprover::default());
        let approver = Some(Arc::clone(&slow) as Arc<dyn Approver>);
        let session =
            rig.open("s", ToolHostSessionConfig { approver, ..ToolHostSessionConfig::default() });
        let answer = async {
            slow.asked.notified().await;
            session.set_mode(mode);
            let pending = slow.pending.lock().unwrap().take().unwrap();
            assert!(pending.answer(ApprovalAnswer::AllowOnce));
        };
        let (outcome, ()) = tokio::join!(rig.call_puppet(&session), answer);
        let reason = outcome.err().and_then(|error| error.reason());
        assert_eq!(reason, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn risk_policy_denies_in_plan_mode() {
    let tool = PuppetTool::<'p'> { risk: RiskLevel::Medium, ..PuppetTool::new() };
    let yes = fixed_approver(ApprovalAnswer::AllowOnce);
    let fixture = HostFixture::with_limits(HostLimits::default(), None, vec![erase(tool)]);
    let open = |id: &str, mode| {
        let config = session_config(&yes, mode);
        fixture.host.open_session_with(SessionId::new(id).unwrap(), config).unwrap()
    };
    for (mode, expected) in [
        (PermissionMode::Plan, Some(ErrorReason::Denied)),
        (PermissionMode::Ask, None),
        (PermissionMode::AcceptEdits, None),
        (PermissionMode::Auto, None),
    ] {
        let session = open(mode.as_str(), mode);
        let call = HostFixture::tool_call("Puppet", json!({"act": "work"}));
        let host = &fixture.host;
        let report = host.call(&session, &fixture.dialect, call, &CancellationToken::new()).await;
        let reason = report.outcome.err().and_then(|error| error.reason());
        assert_eq!(reason, expected, "{mode}");
    }
    assert_eq!(count_questions(&yes), 3, "asked in each of the others");
}

#[tokio::test]
async fn results_of_stored_session_outlive_its_tool_host() {
    let tool = || vec![erase(PuppetTool::<'p'>::new())];
    let fixture = HostFixture::with_limits(HostLimits::default(), None, tool());
    let state = StateDir::new(fixture.temp.path().join("state"));
    for (lifetime, outlives) in [(ResultLifetime::Process, false), (ResultLifetime::Session, true)]
    {
        let id = SessionId::new("stored").unwrap();
        let config =
            ToolHostSessionConfig { result_lifetime: lifetime, ..ToolHostSessionConfig::default() };
        let session = fixture.host.open_session_with(id.clone(), config).unwrap();
        let call = HostFixture::tool_call("Puppet", json!({"act": "flood"}));
        let cancel = CancellationToken::new();
        let report = fixture.host.call(&session, &fixture.dialect, call, &cancel).await;
        let text = format!("{:?}", report.outcome.unwrap().result.content);
        let path =
            text.split(['`', ' ', '"', ';', ',']).find(|word| word.contains("/spill")).unwrap();
        let path = std::path::Path::new(path.trim_end_matches(&['.', ')', ']'][..])).to_owned();
        assert!(path.exists(), "{text}");
        drop(session);
        // The next process removes what others left.
        let workspace = Workspace::open(&[fixture.temp.path().join("work")], None).unwrap();
        let next = ToolHost::new(ToolHostConfig::new(workspace, state.clone()));
        drop(next.open_session(SessionId::new("next").unwrap()).unwrap());
        assert_eq!(path.exists(), outlives, "{lifetime:?}");
        assert_eq!(session_results::list(&state).unwrap().len(), usize::from(outlives));
        session_results::remove(&state, &id).unwrap();
        assert!(!path.exists(), "{lifetime:?}");
    }
}

#[test]
fn old_results_expire_and_new_ones_stay() {
    const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
    let temp = tempfile::tempdir().unwrap();
    let state = StateDir::new(temp.path());
    for (folder, name, days) in [
        ("spill-sessions/one", "old", 9),
        ("spill-sessions/one", "new", 0),
        ("spill-sessions/two", "old", 5),
        ("spill-calls/x", "old", 2),
        ("spill-calls/x", "new", 0),
    ] {
        let path = temp.path().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(name), "0123456789").unwrap();
        let file = std::fs::File::options().write(true).open(path.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - DAY * days).unwrap();
    }
    let check = |age_max: Option<u32>, bytes_max: Option<u64>, expected: (u64, u64)| {
        let rules = ExpiryRules { age_max: age_max.map(|days| DAY * days), bytes_max };
        let dry = session_results::expire(&state, &rules, ExpiryMode::DryRun, &[]).unwrap();
        let done = session_results::expire(&state, &rules, ExpiryMode::Remove, &[]).unwrap();
        assert_eq!(dry, done);
        assert_eq!((done.removed.count, done.remaining.count), expected);
    };
    let all = ExpiryRules { age_max: Some(DAY), bytes_max: Some(1) };
    let used = ["one", "two"].map(|id| zero_core::SessionId::new(id).unwrap());
    let kept = session_results::expire(&state, &all, ExpiryMode::DryRun, &used).unwrap();
    assert_eq!((kept.removed.count, kept.remaining.count), (1, 4), "of sessions in use");
    // Each owner has a share of its own.
    for (owner, session) in [("ann", "one"), ("bob", "two")] {
        let folder = temp.path().join("spill-owners").join(session_results::owner_mark(owner));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(session), "").unwrap();
    }
    let none = ExpiryRules::default();
    let shares = session_results::expire(&state, &none, ExpiryMode::DryRun, &[]).unwrap().shares;
    let [ann, bob] = ["ann", "bob"].map(session_results::owner_mark);
    assert_eq!((shares[&ann], shares[&bob], shares.len()), (20, 10, 3));
    check(None, None, (1, 4));
    check(Some(7), None, (1, 3));
    check(None, Some(1), (1, 2));
    assert!(temp.path().join("spill-sessions/one/new").exists());
}
