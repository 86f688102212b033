//! Denials, the user's answers, and how long an answer applies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use zero_core::{
    CommandLimitChange, ErrorReason, ErrorType, HostLimits, RiskLevel, SessionId, ToolError,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CommandPolicy, EffectDecision, GrantDecision,
    GrantScope, PendingAnswer, Policy, PolicyDecision, PolicyRequest, SavedGrant,
    ToolHostSessionConfig, Verdict, erase,
};

use crate::fixture::{FixedApprover, HostFixture, PuppetTool};

/// Decides as configured, except that a granted scope is allowed.
struct ScriptedPolicy {
    verdict: Verdict,
    risk: RiskLevel,
    rule: Option<&'static str>,
    source: Option<&'static str>,
    grants: Vec<GrantScope>,
    panics: AtomicBool,
}

impl ScriptedPolicy {
    fn new(verdict: Verdict) -> Self {
        let grants = vec![grant("Bash(git push:*)")];
        let panics = AtomicBool::new(false);
        Self { verdict, risk: RiskLevel::High, rule: None, source: None, grants, panics }
    }
}

impl CommandPolicy for ScriptedPolicy {}

impl Policy for ScriptedPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        assert!(!self.panics.load(Ordering::Relaxed), "a bug in a rule");
        let granted = !self.grants.is_empty()
            && self.grants.iter().all(|grant| request.grants.contains(grant));
        let verdict = if granted { Verdict::Allow } else { self.verdict };
        let rule = self.rule.map(str::to_owned);
        PolicyDecision {
            verdict,
            reason: "the test says so".to_owned(),
            rule: rule.clone(),
            source: if granted { Some("grant".to_owned()) } else { self.source.map(str::to_owned) },
            risk: self.risk,
            effects: vec![EffectDecision {
                kind: "exec",
                target: "git push".to_owned(),
                decision: verdict,
                rule,
                source: None,
                reason: "it pushes".to_owned(),
                origin: zero_core::event::EffectOrigin::Call,
            }],
            grants: self.grants.clone(),
            limits: CommandLimitChange::default(),
            access: None,
        }
    }
}

fn grant(rule: &str) -> GrantScope {
    GrantScope { rule: rule.to_owned(), folder: Some("/work".to_owned()), program: None }
}

fn fixture(policy: ScriptedPolicy, approver: Option<Arc<dyn Approver>>) -> HostFixture {
    let tools = vec![erase(PuppetTool::<'p'>::new())];
    let fixture =
        HostFixture::with_policy(Arc::new(policy), HostLimits::default(), approver, tools);
    let session = fixture.host.open_session(SessionId::new("s1").unwrap()).unwrap();
    HostFixture { session, ..fixture }
}

fn fixed_approver(answer: ApprovalAnswer) -> Arc<FixedApprover> {
    Arc::new(FixedApprover { answer, questions: Mutex::default() })
}

async fn call_puppet(fixture: &HostFixture) -> Result<(), ToolError> {
    fixture.call("Puppet", json!({"act": "work"})).await.outcome.map(drop)
}

fn count_questions(approver: &FixedApprover) -> usize {
    approver.questions.lock().unwrap().len()
}

fn rules(answers: &[zero_runtime::SessionGrant]) -> Vec<&str> {
    answers.iter().map(|answer| answer.grant.rule.as_str()).collect()
}

#[tokio::test]
async fn denial_names_rule_source_and_remedy() {
    let policy = ScriptedPolicy {
        rule: Some("Bash(git push:*)"),
        source: Some(".zero/settings.toml:12"),
        risk: RiskLevel::Critical,
        ..ScriptedPolicy::new(Verdict::Deny)
    };
    let yes = fixed_approver(ApprovalAnswer::AllowOnce);
    let fixture = fixture(policy, Some(Arc::clone(&yes) as Arc<dyn Approver>));
    let error = call_puppet(&fixture).await.unwrap_err();
    assert_eq!(
        (error.error_type, error.reason()),
        (ErrorType::PermissionDenied, Some(ErrorReason::Denied))
    );
    assert_eq!(
        error.message,
        "Work: denied by rule `Bash(git push:*)`, the test says so; to allow it, remove or narrow that rule in .zero/settings.toml:12"
    );
    assert_eq!(error.details["matched_rule"], "Bash(git push:*)");
    assert_eq!(error.details["rule_source"], ".zero/settings.toml:12");
    assert_eq!(error.details["risk"], "critical", "not the low one of the tool");
    assert_eq!(count_questions(&yes), 0);
    let row = &fixture.rows()[0];
    let decision = row.decision.as_ref().unwrap();
    assert_eq!(decision.source.as_deref(), Some(".zero/settings.toml:12"));
    assert_eq!(decision.risk.as_deref(), Some("critical"));
    let effect = &row.effects[0];
    assert_eq!((effect.kind.as_str(), effect.target.as_str()), ("exec", "git push"));
    assert_eq!(effect.decision.as_deref(), Some("deny"));
    assert_eq!(effect.rule.as_deref(), Some("Bash(git push:*)"));
}

#[tokio::test]
async fn session_grant_is_not_asked_again_until_revoked() {
    let yes = fixed_approver(ApprovalAnswer::AllowSession);
    let fixture =
        fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::clone(&yes) as Arc<dyn Approver>));
    for _ in 0..3 {
        call_puppet(&fixture).await.unwrap();
    }
    assert_eq!(count_questions(&yes), 1);
    {
        let questions = yes.questions.lock().unwrap();
        assert_eq!(questions[0].risk, RiskLevel::High, "the risk of the call, not of the tool");
        assert_eq!(questions[0].judged[0].reason, "it pushes");
    }
    let grants = fixture.session.grants();
    assert_eq!((rules(&grants), grants[0].by.as_str()), (vec!["Bash(git push:*)"], "test"));
    let rows = fixture.rows();
    let decision = |row: usize| rows[row].decision.as_ref().unwrap();
    assert_eq!(decision(0).answered.as_deref(), Some("test: allow in this session"));
    assert_eq!(decision(0).grants, ["Bash(git push:*)"]);
    assert_eq!(decision(1).source.as_deref(), Some("grant"));
    assert!(decision(1).answered.is_none() && decision(1).grants.is_empty());

    assert!(fixture.session.revoke(grants[0].id));
    assert!(fixture.session.grants().is_empty());
    call_puppet(&fixture).await.unwrap();
    assert_eq!(count_questions(&yes), 2);
    assert_eq!(fixture.session.revoke_all(), 1);
}

#[tokio::test]
async fn rejected_tool_is_denied_until_revoked() {
    let no = fixed_approver(ApprovalAnswer::RejectTool);
    let fixture =
        fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::clone(&no) as Arc<dyn Approver>));
    for _ in 0..2 {
        let error = call_puppet(&fixture).await.unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::Rejected));
    }
    assert_eq!(count_questions(&no), 1);
    let rejections = fixture.session.rejections();
    assert_eq!((rules(&rejections), &rejections[0].grant.folder), (vec!["Puppet"], &None));
    let rows = fixture.rows();
    let decision = |row: usize| rows[row].decision.as_ref().unwrap();
    assert_eq!(decision(0).answered.as_deref(), Some("test: reject the tool in this session"));
    assert_eq!(decision(0).grants, ["Puppet"]);
    let later = Some("test: reject the tool, earlier in this session");
    assert_eq!(decision(1).answered.as_deref(), later);
    // A call that a later answer allows is one of the tool, too.
    let error = call_puppet(&fixture).await.unwrap_err();
    assert!(error.message.contains("rejected every call of `Puppet` for this session"), "{error}");
    assert_eq!(fixture.session.revoke_rule("Other"), 0);
    assert_eq!(fixture.session.revoke_rule("Puppet"), 1);
    call_puppet(&fixture).await.unwrap_err();
    assert_eq!(count_questions(&no), 2, "it is asked about again");
}

#[tokio::test]
async fn rejected_tool_is_denied_even_if_rules_allow_it() {
    let no = fixed_approver(ApprovalAnswer::RejectTool);
    let fixture = fixture(ScriptedPolicy::new(Verdict::Allow), Some(no));
    call_puppet(&fixture).await.unwrap();
    let rejected = SavedGrant {
        decision: GrantDecision::Rejected,
        grant: GrantScope { rule: "Puppet".to_owned(), folder: None, program: None },
        time: jiff::Timestamp::UNIX_EPOCH,
        by: "me".to_owned(),
    };
    let config = ToolHostSessionConfig { grants: vec![rejected], ..Default::default() };
    let id = SessionId::new("s2").unwrap();
    let session = fixture.host.open_session_with(id, config).unwrap();
    let fixture = HostFixture { session, ..fixture };
    let error = call_puppet(&fixture).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::Rejected));
}

#[tokio::test]
async fn session_rejection_is_denied_without_asking() {
    let no = fixed_approver(ApprovalAnswer::RejectSession);
    let fixture =
        fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::clone(&no) as Arc<dyn Approver>));
    for _ in 0..2 {
        let error = call_puppet(&fixture).await.unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::Rejected));
    }
    assert_eq!(count_questions(&no), 1);
    let error = call_puppet(&fixture).await.unwrap_err();
    assert!(error.message.contains("rejected `git push:*` for this session"), "{error}");
    assert_eq!(rules(&fixture.session.rejections()), ["Bash(git push:*)"]);
    let rows = fixture.rows();
    let answered = |row: usize| rows[row].decision.as_ref().unwrap().answered.clone().unwrap();
    assert_eq!(answered(0), "test: reject in this session");
    assert_eq!(answered(1), "test: reject, earlier in this session");
    fixture.session.revoke_all();
    call_puppet(&fixture).await.unwrap_err();
    assert_eq!(count_questions(&no), 2);
}

#[tokio::test]
async fn rejection_covers_calls_containing_rejected_part() {
    let policy = ScriptedPolicy {
        grants: vec![grant("Bash(git push:*)"), grant("Bash(git tag:*)")],
        ..ScriptedPolicy::new(Verdict::Ask)
    };
    let no = fixed_approver(ApprovalAnswer::RejectSession);
    let both = fixture(policy, Some(Arc::clone(&no) as Arc<dyn Approver>));
    call_puppet(&both).await.unwrap_err();
    let rejections = both.session.rejections();
    assert!(both.session.revoke(rejections[1].id));
    let error = call_puppet(&both).await.unwrap_err();
    assert_eq!(count_questions(&no), 1, "the other one is rejected still");
    assert!(error.message.contains("rejected `git push:*` for this session"), "{error}");
    assert!(both.session.revoke(rejections[0].id));
    call_puppet(&both).await.unwrap_err();
    assert_eq!(count_questions(&no), 2, "nothing is rejected any more");
}

/// Checks an answer that does not apply to the session.
#[track_caller]
fn check_once(fixture: &HostFixture, row: usize, expected: &str) {
    let rows = fixture.rows();
    let decision = rows[row].decision.as_ref().unwrap();
    assert_eq!(decision.answered.as_deref(), Some(expected));
    assert!(decision.grants.is_empty());
    assert!(fixture.session.grants().is_empty() && fixture.session.rejections().is_empty());
}

#[tokio::test]
async fn unoffered_answer_counts_once() {
    let critical =
        || ScriptedPolicy { risk: RiskLevel::Critical, ..ScriptedPolicy::new(Verdict::Ask) };
    let ungrantable = || ScriptedPolicy { grants: vec![], ..ScriptedPolicy::new(Verdict::Ask) };

    let yes = fixed_approver(ApprovalAnswer::AllowSession);
    let answered = fixture(critical(), Some(Arc::clone(&yes) as Arc<dyn Approver>));
    for row in 0..2 {
        call_puppet(&answered).await.unwrap();
        check_once(&answered, row, "test: allow once");
    }
    assert_eq!(count_questions(&yes), 2, "calls with critical risk are asked about every time");

    let many = (0..17).map(|number| grant(&format!("Bash(a{number})"))).collect();
    let unreadable = ScriptedPolicy { grants: many, ..ScriptedPolicy::new(Verdict::Ask) };
    let answered = fixture(unreadable, Some(fixed_approver(ApprovalAnswer::AllowSession)));
    call_puppet(&answered).await.unwrap();
    check_once(&answered, 0, "test: allow once");

    let answered = fixture(ungrantable(), Some(fixed_approver(ApprovalAnswer::RejectSession)));
    call_puppet(&answered).await.unwrap_err();
    check_once(&answered, 0, "test: reject");

    let yes = fixed_approver(ApprovalAnswer::AllowSession);
    let answered =
        fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::clone(&yes) as Arc<dyn Approver>));
    let one_shot =
        HostFixture { session: answered.host.open_one_shot_session().unwrap(), ..answered };
    call_puppet(&one_shot).await.unwrap();
    check_once(&one_shot, 0, "test: allow once");
    assert!(yes.questions.lock().unwrap()[0].grants.is_empty());
    assert_eq!(yes.questions.lock().unwrap()[0].options().len(), 2);
}

#[tokio::test]
async fn grant_does_not_apply_to_other_session() {
    let yes = fixed_approver(ApprovalAnswer::AllowSession);
    let first =
        fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::clone(&yes) as Arc<dyn Approver>));
    call_puppet(&first).await.unwrap();
    let session = first.host.open_session(SessionId::new("s2").unwrap()).unwrap();
    let second = HostFixture { session, ..first };
    call_puppet(&second).await.unwrap();
    assert_eq!(count_questions(&yes), 2);
}

/// Two clients that answer at once.
struct TwoClients;

impl Approver for TwoClients {
    fn name(&self) -> &str {
        "clients"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            let (pending, first) = PendingAnswer::new();
            assert!(pending.answer(ApprovalAnswer::AllowSession));
            assert!(!pending.answer(ApprovalAnswer::RejectSession));
            first.await
        })
    }
}

#[tokio::test]
async fn two_answers_leave_one_record() {
    let fixture = fixture(ScriptedPolicy::new(Verdict::Ask), Some(Arc::new(TwoClients)));
    call_puppet(&fixture).await.unwrap();
    let rows = fixture.rows();
    assert_eq!(rows.len(), 1);
    let answered = rows[0].decision.as_ref().unwrap().answered.as_deref();
    assert_eq!(answered, Some("clients: allow in this session"));
    assert!(fixture.session.rejections().is_empty());
}

#[tokio::test]
async fn failing_policy_allows_nothing() {
    let policy = ScriptedPolicy::new(Verdict::Allow);
    policy.panics.store(true, Ordering::Relaxed);
    let fixture = fixture(policy, None);
    let error = call_puppet(&fixture).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::Panic));
    assert_eq!(fixture.rows().len(), 1);
}
