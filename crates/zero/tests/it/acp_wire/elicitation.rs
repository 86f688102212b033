//! What the agent asks the person: as a form, or among the options of a permission.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::{AcpFixture, call_step, calls, make_script};

/// A question with one answer, and one with several.
fn question_input() -> Value {
    let options = json!([
        {"label": "PostgreSQL", "description": "Relational"},
        {"label": "Redis", "description": "Key-value"},
        {"label": "SQLite", "description": "A file"},
    ]);
    json!({"questions": [
        {"question": "Which database?", "header": "Database", "options": options},
        {"question": "Which backups?", "header": "Backups", "options": options, "multiSelect": true},
    ]})
}

/// What the model is told of the answers.
fn run_questions(fixture: &AcpFixture, acp: &mut AcpClient) -> String {
    let session = acp.open_session(fixture);
    let ask = call_step("AskUserQuestion", question_input());
    acp.run_turn(&session, &make_script(&[&ask, "turn", "say Ok."]), "end_turn");
    let request = fixture.model.requests().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].to_string()
}

#[test]
fn questions_use_form_if_client_has_forms() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&[], json!({"elicitation": {"form": {}}}));
    acp.set_reply_policy(|method, params| match method {
        "elicitation/create" => {
            let fields = &params["requestedSchema"]["properties"];
            assert_eq!(fields["q2"]["type"], "array", "{params}");
            let content = json!({"q1": "Redis", "q2": ["PostgreSQL", "SQLite"]});
            ClientReply::Result(json!({"action": "accept", "content": content}))
        }
        _ => ClientReply::Error(-32601),
    });
    let text = run_questions(&fixture, &mut acp);
    assert!(text.contains("Redis") && text.contains("PostgreSQL, SQLite"), "{text}");
    acp.close();
}

#[test]
fn questions_are_asked_one_by_one_without_forms() {
    let fixture = AcpFixture::new();
    // What is chosen each time it is asked, and what comes of it.
    for (picks, expected) in [
        (&["Redis", "SQLite", "PostgreSQL", "Done"][..], &["Redis", "PostgreSQL, SQLite"][..]),
        (&["Redis", "SQLite", "PostgreSQL", "Redis", "Done"], &["PostgreSQL, Redis, SQLite"]),
        (&["None of these", "SQLite", "Done"], &["(no answer)", "SQLite"]),
        (&["Redis", "SQLite", "None of these"], &["Redis", "(no answer)"]),
        (&["None of these", "None of these"], &["chose not to answer"]),
        (
            &["Other", "SQLite", "Other", "Done"],
            &[
                "(something else, in their own words)",
                "SQLite, and (something else",
                "end your turn",
            ],
        ),
    ] {
        let mut acp = fixture.start_client();
        let mut left = picks.iter();
        acp.set_reply_policy(move |method, params| {
            assert_eq!(method, "session/request_permission");
            let pick = left.next().expect("it asks too often");
            let options = params["options"].as_array().unwrap();
            let is_meant = |option: &&Value| option["name"].as_str().unwrap().starts_with(pick);
            let option =
                options.iter().find(is_meant).unwrap_or_else(|| panic!("{pick}: {params}"));
            ClientReply::Result(selected_outcome(option["optionId"].as_str().unwrap()))
        });
        let text = run_questions(&fixture, &mut acp);
        for part in expected {
            assert!(text.contains(part), "{picks:?}: {text}");
        }
        let asked = acp.requests(0, "session/request_permission");
        assert_eq!(asked.len(), picks.len(), "{picks:?}");
        assert_eq!(acp.requests(0, "elicitation/create").len(), 0);
        acp.close();
    }
}

#[test]
fn withdrawn_question_is_finished() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    acp.set_reply_policy(|_, _| ClientReply::Result(json!({"outcome": {"outcome": "cancelled"}})));
    let from = acp.log_position();
    let session = acp.open_session(&fixture);
    let ask = call_step("AskUserQuestion", question_input());
    acp.run_turn(&session, &make_script(&[&ask, "turn", "say Ok."]), "end_turn");
    let calls = calls(&acp.updates(from, &session));
    let ended = |call: &Value| matches!(call["status"].as_str(), Some("completed" | "failed"));
    assert!(!calls.is_empty() && calls.iter().all(ended), "{calls:#?}");
    acp.close();
}
