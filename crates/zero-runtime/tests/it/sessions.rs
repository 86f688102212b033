//! Many sessions on one host: each has its own person, watcher and mode, and none the other's.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zero_core::{Limits, Reason, Risk, SessionId, ToolError};
use zero_policy::rule::{Owner, Source};
use zero_policy::{Engine, EngineConfig, Mode, Rule};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    Answer, Approver, Grant, Observer, PendingAnswer, Question, RulePolicy, Session, SessionConfig,
    Stand, Standing, Verdict, erase,
};

use crate::fixture::{Endings, Fixed, Fixture, Puppet};

/// A host whose one tool changes something, with somebody who says no to it.
struct Rig {
    fixture: Fixture,
    host_person: Arc<Fixed>,
}

impl Rig {
    fn new(rules: &[(Verdict, &str)], mode: Mode) -> Self {
        let rule = |(verdict, text): &(Verdict, &str)| {
            let source = Source { name: "test".to_owned(), line: None, owner: Owner::Person };
            Rule::parse(text, *verdict, source).unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        let roots = vec!["/".into()];
        let engine = Engine::new(EngineConfig { rules, mode, roots, ..EngineConfig::default() });
        let policy = Arc::new(RulePolicy::new(engine, Vec::new()));
        let host_person = always(Answer::RejectOnce);
        let tool = Puppet::<'p'> { risk: Risk::Medium, ..Puppet::new() };
        let fixture = Fixture::judged_by(
            policy,
            Limits::default(),
            Some(Arc::clone(&host_person) as Arc<dyn Approver>),
            vec![erase(tool)],
        );
        Self { fixture, host_person }
    }

    fn open(&self, id: &str, config: SessionConfig) -> Session {
        self.fixture.host.open_session_with(SessionId::new(id).unwrap(), config).unwrap()
    }

    async fn work(&self, session: &Session) -> Result<(), ToolError> {
        self.call(session, json!({"act": "work"})).await
    }

    async fn call(&self, session: &Session, input: Value) -> Result<(), ToolError> {
        let call = Fixture::tool_call("Puppet", input);
        let Fixture { host, dialect, .. } = &self.fixture;
        host.call(session, dialect, call, &CancellationToken::new()).await.outcome.map(drop)
    }
}

fn always(answer: Answer) -> Arc<Fixed> {
    Arc::new(Fixed { answer, questions: Mutex::default() })
}

fn asked(person: &Fixed) -> usize {
    person.questions.lock().unwrap().len()
}

fn of(person: &Arc<Fixed>, mode: Mode) -> SessionConfig {
    SessionConfig {
        approver: Some(Arc::clone(person) as Arc<dyn Approver>),
        mode: Some(mode),
        ..SessionConfig::default()
    }
}

#[tokio::test]
async fn each_session_has_its_own_person_watcher_and_mode() {
    let rig = Rig::new(&[], Mode::Ask);
    let (yes, no) = (always(Answer::AllowOnce), always(Answer::RejectOnce));
    let watcher = Arc::new(Endings::default());
    let asks = rig.open(
        "asks",
        SessionConfig {
            observer: Some(Arc::clone(&watcher) as Arc<dyn Observer>),
            ..of(&yes, Mode::Ask)
        },
    );
    let plans = rig.open("plans", of(&no, Mode::Plan));
    let plain = rig.open("plain", SessionConfig::default());
    assert_eq!(
        (asks.mode(), plans.mode(), plain.mode()),
        (Some(Mode::Ask), Some(Mode::Plan), None)
    );
    for _ in 0..2 {
        rig.work(&asks).await.unwrap();
        let planned = rig.work(&plans).await.unwrap_err();
        assert_eq!(planned.reason(), Some(Reason::Denied));
        assert!(planned.message.contains("plan mode changes and runs nothing"), "{planned}");
        assert_eq!(rig.work(&plain).await.unwrap_err().reason(), Some(Reason::Rejected));
    }
    assert_eq!((asked(&yes), asked(&no), asked(&rig.host_person)), (2, 0, 2));
    assert_eq!(*watcher.0.lock().unwrap(), ["ok", "ok"]);
    assert_eq!(*rig.fixture.endings.0.lock().unwrap(), ["denied"; 4], "of the two others");

    // What one changes of itself is nothing to the others.
    asks.set_mode(Some(Mode::Plan));
    plans.set_mode(Some(Mode::Ask));
    assert_eq!(rig.work(&asks).await.unwrap_err().reason(), Some(Reason::Denied));
    assert_eq!(rig.work(&plans).await.unwrap_err().reason(), Some(Reason::Rejected));
    assert_eq!(rig.work(&plain).await.unwrap_err().reason(), Some(Reason::Rejected));
    assert_eq!((asked(&yes), asked(&no), asked(&rig.host_person)), (2, 1, 3));
}

#[tokio::test]
async fn the_mode_of_a_session_takes_the_place_of_that_of_the_settings() {
    let yes = always(Answer::AllowOnce);
    let rig = Rig::new(&[], Mode::Plan);
    let session = rig.open("s", of(&yes, Mode::Ask));
    rig.work(&session).await.unwrap();
    session.set_mode(None);
    assert_eq!(rig.work(&session).await.unwrap_err().reason(), Some(Reason::Denied));
}

#[tokio::test]
async fn a_deny_rule_holds_in_every_mode() {
    let rule = "Read(//**/secret)";
    let rig = Rig::new(&[(Verdict::Deny, rule)], Mode::Auto);
    for mode in Mode::ALL {
        let yes = always(Answer::AllowSession);
        let standing = [rule, "Read", "*"].map(|rule| Standing {
            stand: Stand::Allowed,
            grant: Grant { rule: rule.to_owned(), folder: None, program: None },
            time: jiff::Timestamp::now(),
            by: "person".to_owned(),
        });
        let config = SessionConfig { standing: standing.to_vec(), ..of(&yes, mode) };
        let session = rig.open(mode.as_str(), config);
        let input = json!({"act": "work", "path": "secret"});
        let error = rig.call(&session, input).await.unwrap_err();
        assert_eq!(error.details["matched_rule"], rule, "{mode}");
        assert_eq!((error.reason(), asked(&yes)), (Some(Reason::Denied), 0), "{mode}");
    }
}

/// Somebody who takes their time.
#[derive(Default)]
struct Slow {
    asked: Notify,
    pending: Mutex<Option<PendingAnswer>>,
}

impl Approver for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
        let (pending, answer) = PendingAnswer::new();
        *self.pending.lock().unwrap() = Some(pending);
        self.asked.notify_one();
        Box::pin(answer)
    }
}

#[tokio::test]
async fn who_plans_by_the_time_of_the_answer_only_plans() {
    let rig = Rig::new(&[], Mode::Ask);
    for (mode, expected) in
        [(Some(Mode::Plan), Some(Reason::Denied)), (Some(Mode::AcceptEdits), None), (None, None)]
    {
        let slow = Arc::new(Slow::default());
        let approver = Some(Arc::clone(&slow) as Arc<dyn Approver>);
        let session = rig.open("s", SessionConfig { approver, ..SessionConfig::default() });
        let answer = async {
            slow.asked.notified().await;
            session.set_mode(mode);
            let pending = slow.pending.lock().unwrap().take().unwrap();
            assert!(pending.answer(Answer::AllowOnce));
        };
        let (outcome, ()) = tokio::join!(rig.work(&session), answer);
        let reason = outcome.err().and_then(|error| error.reason());
        assert_eq!(reason, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn a_host_that_judges_by_risk_only_plans_too() {
    let tool = Puppet::<'p'> { risk: Risk::Medium, ..Puppet::new() };
    let yes = always(Answer::AllowOnce);
    let fixture = Fixture::with(Limits::default(), None, vec![erase(tool)]);
    let open = |id: &str, mode| {
        let config = of(&yes, mode);
        fixture.host.open_session_with(SessionId::new(id).unwrap(), config).unwrap()
    };
    for (mode, expected) in [
        (Mode::Plan, Some(Reason::Denied)),
        (Mode::Ask, None),
        (Mode::AcceptEdits, None),
        (Mode::Auto, None),
    ] {
        let session = open(mode.as_str(), mode);
        let call = Fixture::tool_call("Puppet", json!({"act": "work"}));
        let host = &fixture.host;
        let report = host.call(&session, &fixture.dialect, call, &CancellationToken::new()).await;
        let reason = report.outcome.err().and_then(|error| error.reason());
        assert_eq!(reason, expected, "{mode}");
    }
    assert_eq!(asked(&yes), 3, "asked in each of the others");
}
