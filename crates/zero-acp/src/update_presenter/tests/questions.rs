//! Tests for permission questions and the state of their calls.

use super::*;

#[test]
fn question_repeats_call_and_keeps_it_pending() {
    let mut presenter = presenter(terminal_features());
    let input = json!({"command": "rm -rf x", "description": "Tidy up"});
    presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, input.clone()));
    presenter.present_description("c1", "Tidy up", ToolKind::Execute, &[]);
    let (first, question) = presenter.present_approval(&request("c1", &["rm -rf x"]));
    check(
        updates_json(first),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "rm -rf x"}]),
    );
    let question = serde_json::to_value(question).unwrap();
    assert_eq!(question["toolCallId"], "c1");
    assert_eq!(question["title"], "rm -rf x");
    assert_eq!(question["kind"], "execute");
    assert_eq!(question["status"], "pending");
    assert_eq!(question["rawInput"], input);
    assert_eq!(question["content"][0]["content"]["text"], "```sh\nrm -rf x\n```\n\nin `/w`");
    // The model's description does not return while the question is pending.
    let echo = EventKind::ToolUpdated {
        call: "c1".to_owned(),
        title: Some("Tidy up".to_owned()),
        kind: None,
        locations: vec![],
        progress: Some(zero_core::CallProgress::new("waiting")),
        begins: false,
        subagent: None,
    };
    let updates = presenter.present_live(echo);
    assert!(
        updates
            .iter()
            .all(|it| it["status"].is_null() && it["title"].is_null() && it["content"].is_null())
    );
    assert!(
        updates_json(presenter.present_output("c1", "x", Instant::now()))
            .iter()
            .all(|it| it["status"].is_null())
    );
    check(
        updates_json(presenter.present_call_start("c1")),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
                "content": [{"type": "terminal", "terminalId": "c1"}]}]),
    );
    check(updates_json(presenter.resolve_question("ask_1", "allow_once")), json!([]));
}

#[test]
fn question_shows_rewritten_input() {
    let rewritten = json!({"command": "npm install --ignore-scripts"});
    let asked = ApprovalRequest {
        input: Some(Box::new(rewritten.clone())),
        ..request("c1", &["npm install --ignore-scripts"])
    };
    let wrote = || call_started("c1", "Bash", ToolKind::Execute, json!({"command": "npm install"}));
    let mut known = presenter(terminal_features());
    known.present_live(wrote());
    let (first, question) = known.present_approval(&asked);
    assert_eq!(question.fields.raw_input.as_ref(), Some(&rewritten));
    assert_eq!(updates_json(first)[0]["rawInput"], rewritten);
    // The ledger may be slower, and has the model's input.
    let mut unknown = presenter(terminal_features());
    unknown.present_approval(&asked);
    assert!(unknown.present_live(wrote()).iter().all(|update| update["rawInput"].is_null()));
}

#[test]
fn question_can_announce_unknown_call() {
    let mut presenter = presenter(terminal_features());
    let (first, question) = presenter.present_approval(&request("c1", &["ls"]));
    let first = updates_json(first);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["sessionUpdate"], "tool_call");
    assert_eq!(first[0]["title"], "ls");
    assert_eq!(first[0]["rawInput"], json!({"command": "ls", "cwd": "/w"}));
    assert_eq!(question.fields.raw_input, Some(json!({"command": "ls", "cwd": "/w"})));
    // The model's input is better.
    let updates = presenter.present_live(call_started(
        "c1",
        "Bash",
        ToolKind::Execute,
        json!({"command": "ls", "x": 1}),
    ));
    check(
        updates,
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": {"command": "ls", "x": 1}}]),
    );
}

#[test]
fn ledger_answers_resume_calls_and_end_lone_questions() {
    let resolved = |answer: &str| EventKind::ApprovalResolved {
        id: "ask_1".to_owned(),
        answer: answer.to_owned(),
        by: "person".to_owned(),
    };
    let status = |call: &str, answer: &str| {
        let mut presenter = presenter(plain_features());
        presenter.present_live(EventKind::ApprovalRequested(request(call, &[])));
        let (first, question) = presenter.present_approval(&request(call, &[]));
        assert_eq!(updates_json(first)[0]["sessionUpdate"], "tool_call");
        let id = if call.is_empty() { "ask_1" } else { call };
        assert_eq!(&*question.tool_call_id.0, id);
        let updates = presenter.present_live(resolved(answer));
        assert_eq!(presenter.present_live(resolved(answer)), Vec::<Value>::new());
        updates.first().map(|update| update["status"].clone())
    };
    assert_eq!(status("c1", "allow_once"), Some(json!("in_progress")));
    assert_eq!(status("c1", "reject_once"), None);
    assert_eq!(status("", "allow_once"), Some(json!("completed")));
    assert_eq!(status("", "reject_once"), Some(json!("failed")));
    assert_eq!(status("", "cancelled"), Some(json!("failed")));
}

#[test]
fn choice_is_shown_as_call_and_ends_with_answer() {
    let long = format!("a server asks: {}", "which one? ".repeat(100));
    for (answer, status) in
        [("allow_once", "completed"), ("reject_once", "failed"), ("cancelled", "failed")]
    {
        let mut presenter = presenter(plain_features());
        let (first, question) = presenter.present_choice("q1", &long);
        let (first, question) = (updates_json(first), serde_json::to_value(question).unwrap());
        assert_eq!(first[0]["sessionUpdate"], "tool_call");
        assert_eq!(first[0]["toolCallId"], "question_q1");
        assert_eq!(question["toolCallId"], "question_q1");
        assert!(question["title"].as_str().unwrap().len() < 300, "{question}");
        assert_eq!(question["content"][0]["content"]["text"], long);
        assert_eq!(presenter.resolve_question("another", answer), Vec::new());
        assert_eq!(updates_json(presenter.resolve_question("q1", answer))[0]["status"], status);
        assert_eq!(presenter.resolve_question("q1", answer), Vec::new());
        assert_eq!(presenter.end_lone_questions(), Vec::new());
    }
}

#[test]
fn withdrawn_question_ends_but_its_call_stays_open() {
    let mut presenter = presenter(plain_features());
    presenter.present_live(call_started("c1", "Bash", ToolKind::Execute, json!({"command": "ls"})));
    presenter.present_approval(&request("c1", &["ls"]));
    presenter.present_choice("q1", "which one?");
    let updates = updates_json(presenter.end_lone_questions());
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("question_q1"), &json!("failed"))
    );
    assert_eq!(updates_json(presenter.abandon_all("closed"))[0]["toolCallId"], "c1");
}
