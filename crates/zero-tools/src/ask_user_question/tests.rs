//! Questions to a scripted user who gives a fixed answer, or never answers.

use std::sync::Mutex;
use std::task::Poll;

use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Elicitation, Elicitor};

use super::*;
use crate::test_host::TestHost;

/// Gives a fixed answer and records the questions.
struct ScriptedUser {
    answer: Option<ElicitationAnswer>,
    asked: Mutex<Vec<Elicitation>>,
    asked_notify: Notify,
}

impl ScriptedUser {
    fn answering(answer: Option<ElicitationAnswer>) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default(), asked_notify: Notify::new() })
    }
}

impl Elicitor for ScriptedUser {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        self.asked.lock().unwrap().push(elicitation.clone());
        self.asked_notify.notify_one();
        match &self.answer {
            Some(answer) => Box::pin(std::future::ready(answer.clone())),
            None => Box::pin(std::future::pending()),
        }
    }
}

fn question(text: &str, multi: bool) -> Value {
    json!({
        "question": text,
        "header": "Database",
        "options": [
            {"label": "PostgreSQL", "description": "Relational"},
            {"label": "Redis", "description": "Key-value"},
        ],
        "multiSelect": multi,
    })
}

fn accept(values: Value) -> Option<ElicitationAnswer> {
    let values: Map<String, Value> = values.as_object().unwrap().clone();
    Some(ElicitationAnswer::Accept(values))
}

/// Asks two questions, the second with multiple choice, and checks the answers or the error reason.
#[track_caller]
fn check(answer: Option<ElicitationAnswer>, expected: Result<Value, ErrorReason>) {
    let host = TestHost::new().with_elicitor(ScriptedUser::answering(answer));
    let input = json!({"questions": [question("Which?", false), question("Any?", true)]});
    let report = host.block_on(host.call("AskUserQuestion", input));
    match (report.outcome, expected) {
        (Ok(outcome), Ok(answers)) => {
            assert_eq!(outcome.result.structured, json!({ "answers": answers }));
        }
        (Err(error), Err(reason)) => assert_eq!(error.reason(), Some(reason), "{error}"),
        (outcome, expected) => {
            panic!("{:?} instead of {expected:?}", outcome.map(|one| one.result))
        }
    }
}

#[test]
fn answers_hold_choices_and_free_text() {
    check(
        accept(json!({"q1": "Redis", "q2": ["PostgreSQL", "Redis"]})),
        Ok(json!({"Which?": "Redis", "Any?": "PostgreSQL, Redis"})),
    );
    check(
        accept(json!({"q1_other": " SQLite \n", "q2": ["Redis"], "q2_other": "DuckDB"})),
        Ok(json!({"Which?": "SQLite", "Any?": "Redis, DuckDB"})),
    );
    check(accept(json!({"q1": "Redis"})), Ok(json!({"Which?": "Redis"})));
    check(
        accept(
            json!({"q1": "other", "q1_other": "SQLite", "q2": ["Redis", "other"], "q2_other": "DuckDB"}),
        ),
        Ok(json!({"Which?": "SQLite", "Any?": "Redis, DuckDB"})),
    );
}

#[test]
fn pending_free_text_is_asked_in_the_reply() {
    let values = accept(json!({"q1": "other", "q2": ["Redis", "other"], "q2_other": " "}));
    let host = TestHost::new().with_elicitor(ScriptedUser::answering(values));
    let input = json!({"questions": [question("Which?", false), question("Any?", true)]});
    assert_eq!(
        host.ok("AskUserQuestion", input.clone()).structured,
        json!({"answers": {"Any?": "Redis"}, "in_own_words": ["Which?", "Any?"]})
    );
    let text = host.text("AskUserQuestion", input);
    for part in [
        "- Which?\n  (something else, in their own words)",
        "- Any?\n  Redis, and (something else, in their own words)",
        "Ask for it in your reply, in plain words, and end your turn",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn empty_or_invalid_answer_is_an_error() {
    check(accept(json!({})), Err(ErrorReason::Rejected));
    check(accept(json!({"q1_other": "  ", "q2": []})), Err(ErrorReason::Rejected));
    check(Some(ElicitationAnswer::Decline), Err(ErrorReason::Rejected));
    check(Some(ElicitationAnswer::Cancel), Err(ErrorReason::NoApprover));
    check(accept(json!({"q1": "Oracle"})), Err(ErrorReason::RemoteFailure));
    check(accept(json!({"q2": ["Oracle"]})), Err(ErrorReason::RemoteFailure));
}

#[test]
fn missing_user_is_reported_to_model() {
    let error =
        TestHost::new().err("AskUserQuestion", json!({"questions": [question("Which?", false)]}));
    assert_eq!(error.reason(), Some(ErrorReason::NoApprover));
    assert!(error.message.starts_with("no user is available to answer"), "{error}");
}

#[test]
fn form_shows_every_question_and_option() {
    let person = ScriptedUser::answering(accept(json!({"q1": "Redis"})));
    let host = TestHost::new().with_elicitor(Arc::clone(&person) as Arc<dyn Elicitor>);
    host.ok("AskUserQuestion", json!({"questions": [question("Which?", false)]}));
    let asked = person.asked.lock().unwrap();
    let Elicitation { origin, call, message, mode: wanted } = &asked[0];
    assert_eq!((origin.as_str(), message.as_str(), call.is_some()), ("the agent", "Which?", true));
    let ElicitationMode::Form(schema) = wanted else { panic!("{wanted:?}") };
    assert_eq!(
        schema["properties"]["q1"],
        json!({
            "type": "string",
            "oneOf": [
                {"const": "PostgreSQL", "title": "PostgreSQL – Relational"},
                {"const": "Redis", "title": "Redis – Key-value"},
                {"const": "other", "title": "Other – in your own words"},
            ],
            "title": "Database",
        })
    );
    assert_eq!(schema["properties"]["q1_other"]["title"], "Database: other");
}

#[test]
fn answer_may_outlast_tool_timeout_and_be_cancelled() {
    let person = ScriptedUser::answering(None);
    let host = TestHost::new().with_elicitor(Arc::clone(&person) as Arc<dyn Elicitor>);
    let tool = AskUserQuestionTool::default();
    let plan = tool
        .plan(
            serde_json::from_value(json!({"questions": [question("Which?", false)]})).unwrap(),
            host.workspace(),
        )
        .unwrap();
    assert!(tool.deadline(&plan) > Some(Duration::from_secs(3_600)));
    let stop = CancellationToken::new();
    let input = json!({"questions": [question("Which?", false)]});
    let report = host.block_on(async {
        let call = host.call_until("AskUserQuestion", input, &stop);
        let stopped = async {
            person.asked_notify.notified().await;
            assert_eq!(
                host.calls_in_flight(),
                0,
                "a call that waits for the user does not count as running"
            );
            stop.cancel();
        };
        tokio::join!(call, stopped).0
    });
    assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
}

#[test]
fn pending_calls_are_bounded() {
    let person = ScriptedUser::answering(None);
    let host = TestHost::new().with_elicitor(Arc::clone(&person) as Arc<dyn Elicitor>);
    let input = || json!({"questions": [question("Which?", false)]});
    let stop = CancellationToken::new();
    host.block_on(async {
        let calls = (0..20).map(|_| host.call_until("AskUserQuestion", input(), &stop));
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        let mut refused = Vec::new();
        // The refused calls return while the others wait.
        std::future::poll_fn(|cx| {
            calls.retain_mut(|call| match call.as_mut().poll(cx) {
                Poll::Ready(report) => {
                    refused.push(report.outcome.unwrap_err());
                    false
                }
                Poll::Pending => true,
            });
            if calls.len() == PENDING_CALLS_MAX { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        for error in refused {
            assert_eq!(error.reason(), Some(ErrorReason::QueueFull), "{error}");
            assert!(error.message.contains("wait for their answers"), "{error}");
        }
        assert_eq!(person.asked.lock().unwrap().len(), PENDING_CALLS_MAX);
        stop.cancel();
        for call in calls {
            assert_eq!(call.await.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
        }
        // Calls that have ended no longer count.
        let stop = CancellationToken::new();
        let call = host.call_until("AskUserQuestion", input(), &stop);
        let stopped = async {
            while person.asked.lock().unwrap().len() <= PENDING_CALLS_MAX {
                person.asked_notify.notified().await;
            }
            stop.cancel();
        };
        let (report, ()) = tokio::join!(call, stopped);
        assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
    });
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut Value), pointer: &str, expected: &str) {
    let mut input = json!({"questions": [question("Which?", false)]});
    change(&mut input);
    let message = TestHost::new().err("AskUserQuestion", input).message;
    assert!(message.contains(pointer) && message.contains(expected), "{message}");
}

#[test]
fn violations_name_their_field() {
    let first = "/questions/0";
    check_rejected(|input| input["questions"] = json!([]), "/questions", "1");
    check_rejected(
        |input| {
            input["questions"] =
                json!((0..5).map(|n| question(&n.to_string(), false)).collect::<Vec<_>>())
        },
        "/questions",
        "4",
    );
    check_rejected(
        |input| input["questions"][0]["header"] = json!("a long header"),
        "/questions/0/header",
        "at most 12, found \"a long header\" (13 characters)",
    );
    check_rejected(
        |input| input["questions"][0]["options"] = json!([{"label": "a", "description": "b"}]),
        "/questions/0/options",
        "2",
    );
    check_rejected(
        |input| input["questions"][0]["options"][1]["label"] = json!("other"),
        "/questions/0/options/1/label",
        "free text is always offered",
    );
    check_rejected(
        |input| input["questions"][0]["options"][1]["label"] = json!("postgresql"),
        "/questions/0/options/1/label",
        "no other option has",
    );
    check_rejected(
        |input| input["questions"] = json!([question("Same?", false), question("Same?", true)]),
        "/questions/1/question",
        "a text that differs from question 0",
    );
    check_rejected(|input| input["questions"][0]["question"] = json!(" "), first, "an empty text");
    check_rejected(
        |input| input["questions"][0]["header"] = json!(""),
        "/questions/0/header",
        "at least 1",
    );
    check_rejected(
        |input| input["questions"][0]["options"][1]["label"] = json!("one two three four five six"),
        "/questions/0/options/1/label",
        "at most 5 words; explain in `description`, found 6 words",
    );
    let mut fitting = json!({"questions": [question("Which?", false)]});
    fitting["questions"][0]["options"][1]["label"] = json!("one two three four five (recommended)");
    let args: AskUserQuestionArgs = serde_json::from_value(fitting).unwrap();
    assert!(find_violations(&args.questions).is_empty());
    check_rejected(
        |input| input["questions"][0]["options"][0]["label"] = json!("x".repeat(81)),
        "/questions/0/options/0/label",
        "at most 80",
    );
}

#[test]
fn schema_states_the_limits() {
    let schema = serde_json::to_value(schemars::schema_for!(AskUserQuestionArgs)).unwrap();
    let bound = |pointer: &str| schema.pointer(pointer).and_then(Value::as_u64);
    let question = "/properties/questions/items/properties";
    for (pointer, expected) in [
        ("/properties/questions/minItems".to_owned(), 1),
        ("/properties/questions/maxItems".to_owned(), 4),
        (format!("{question}/options/minItems"), 2),
        (format!("{question}/options/maxItems"), 4),
        (format!("{question}/header/minLength"), 1),
        (format!("{question}/header/maxLength"), 12),
    ] {
        assert_eq!(bound(&pointer), Some(expected), "{pointer}");
    }
}
