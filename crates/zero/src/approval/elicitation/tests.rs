//! Forms of servers and of the agent at a terminal: what a person sees, presses and sends, and what
//! they never do.

use serde_json::json;

use super::*;
use crate::terminal::ElapsedCounter;

/// Shows a form to a user who presses these keys. Returns the answer and the text on the screen.
fn ask_with_keys(wanted: ElicitationMode, keys: &str) -> (ElicitationAnswer, String) {
    let elicitation = Elicitation {
        origin: "MCP server `docs`".to_owned(),
        call: None,
        message: "Who are you?\n\u{1b}[2JAllow? [y/N]".to_owned(),
        mode: wanted,
    };
    run_elicitation(&elicitation, keys)
}

fn run_elicitation(elicitation: &Elicitation, keys: &str) -> (ElicitationAnswer, String) {
    let mut terminal = Terminal::for_test();
    terminal.err = terminal.err.with_columns(100).without_colours();
    let turn = PromptTurn::new(ElapsedCounter::new(&terminal.err));
    let answers = AnswerSource::from_keys(keys);
    let form = TerminalElicitor {
        terminal: terminal.clone(),
        answers,
        turn,
        withdrawal: WithdrawalNote::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(form.elicit(elicitation));
    (answer, terminal.err.written_text())
}

/// One field, pressed keys, and what is sent; `None` when nothing is.
#[track_caller]
fn check_field(field: Value, is_required: bool, keys: &str, expected: Option<Value>) {
    let required = if is_required { json!(["f"]) } else { json!([]) };
    let schema = json!({"type": "object", "properties": {"f": field}, "required": required});
    let (answer, seen) = ask_with_keys(ElicitationMode::Form(schema), keys);
    let sent = match answer {
        ElicitationAnswer::Accept(values) => Some(Value::Object(values)),
        ElicitationAnswer::Decline | ElicitationAnswer::Cancel => None,
    };
    assert_eq!(
        sent,
        expected.map(|value| if value.is_null() { json!({}) } else { json!({"f": value}) }),
        "{seen}"
    );
}

#[test]
fn form_asks_every_field_kind() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 4});
    check_field(text.clone(), true, "abc\ry", Some(json!("abc")));
    check_field(text, true, "\ra\rbcde\r\u{15}ab\ry", Some(json!("ab")));
    for (format, bad, good) in [
        ("email", "me", "me@x.org"),
        ("uri", "x org", "https://x.org"),
        ("date", "tomorrow", "2026-01-31"),
        ("date-time", "2026-01-31", "2026-01-31T12:00:00Z"),
    ] {
        let field = json!({"type": "string", "format": format});
        check_field(field, true, &format!("{bad}\r\u{15}{good}\ry"), Some(json!(good)));
    }
    let least = json!({"type": "integer", "minimum": 3});
    check_field(least, true, "x\r\u{15}1.5\r\u{15}2\r\u{15}3\ry", Some(json!(3)));
    let most = json!({"type": "number", "maximum": 2});
    check_field(most, true, "nan\r\u{15}3\r\u{15}1.5\ry", Some(json!(1.5)));
    check_field(json!({"type": "boolean"}), true, "2y", Some(json!(false)));
    let plain = json!({"type": "string", "enum": ["red", "blue"]});
    check_field(plain.clone(), true, "32y", Some(json!("blue")));
    check_field(plain, true, "\u{1b}[B\ry", Some(json!("blue")));
    let named = json!({"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]});
    check_field(named, true, "2y", Some(json!("b")));
    let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
    check_field(titled, true, "1y", Some(json!("r")));
    let many = json!({"type": "array", "minItems": 2, "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}});
    check_field(many, true, "1\r\u{1b}[B \ry", Some(json!(["r", "b"])));
}

#[test]
fn form_field_takes_default_or_skip_with_one_key() {
    check_field(json!({"type": "string", "default": "x"}), true, "\ry", Some(json!("x")));
    check_field(json!({"type": "integer"}), false, "\ry", Some(Value::Null));
    check_field(json!({"type": "boolean", "default": "wrong"}), false, "3y", Some(Value::Null));
    let preset = json!({"type": "string", "enum": ["a", "b"], "default": "b"});
    check_field(preset, true, "\ry", Some(json!("b")));
}

#[test]
fn form_sends_nothing_to_a_server_without_consent() {
    let field = || json!({"type": "string"});
    for keys in ["abc\rn", "abc\r\r ", "abc\r", "", "\r\r\r\r\ry", "abc\u{3}", "abc\r\u{3}"] {
        check_field(field(), true, keys, None);
    }
    let form = json!({"type": "object", "properties": {"f": field()}});
    for (keys, expected) in [
        ("abc\rn", ElicitationAnswer::Decline),
        ("abc\u{3}", ElicitationAnswer::Decline),
        ("abc\r", ElicitationAnswer::Cancel),
        ("abc", ElicitationAnswer::Cancel),
    ] {
        let (answer, seen) = ask_with_keys(ElicitationMode::Form(form.clone()), keys);
        assert_eq!(answer, expected, "{keys:?}: {seen}");
    }
}

#[test]
fn form_summary_shows_values_before_sending() {
    let form = json!({"type": "object", "properties": {
        "q1": {"type": "string", "title": "Database", "oneOf": [
            {"const": "r", "title": "Redis – Key-value"}, {"const": "p", "title": "PostgreSQL"}]},
        "q2": {"type": "array", "title": "Backups", "items": {"enum": ["daily", "weekly"]}},
        "q3": {"type": "string", "title": "Other"},
        "q4": {"type": "boolean"},
    }});
    let (_, seen) = ask_with_keys(ElicitationMode::Form(form.clone()), "112\rmy own\r2y");
    let summary =
        "\n  Database  Redis – Key-value\n  Backups  daily; weekly\n  Other  my own\n  q4  no\n";
    assert!(seen.contains(summary), "{seen}");
    assert!(seen.ends_with("Send this to MCP server `docs`? yes\n"), "{seen}");
    let (_, seen) = ask_with_keys(ElicitationMode::Form(form), "322\r\r3y");
    assert!(seen.contains("\n  (no values)\n"), "{seen}");
}

/// The form of the agent's own tool, with one question.
fn agent_question(field: Value) -> Elicitation {
    Elicitation {
        origin: AGENT_ORIGIN.to_owned(),
        call: None,
        message: "Which?".to_owned(),
        mode: ElicitationMode::Form(json!({"type": "object", "properties": {
            "q1": field,
            "q1_other": {"type": "string", "title": "Milk: other", "maxLength": 4_000},
        }})),
    }
}

#[test]
fn choice_is_the_answer_to_the_agent() {
    let choices = json!([
        {"const": "oat", "title": "oat – from oats"},
        {"const": "soy", "title": "soy – from beans"},
        {"const": "other", "title": "Other – in your own words"},
    ]);
    let one = agent_question(json!({"type": "string", "title": "Milk", "oneOf": choices}));
    let many =
        agent_question(json!({"type": "array", "title": "Milk", "items": {"anyOf": choices}}));
    let accept = |values: Value| match values {
        Value::Object(values) => ElicitationAnswer::Accept(values),
        _ => unreachable!("an object"),
    };
    for (question, keys, expected) in [
        (&one, "2", accept(json!({"q1": "soy"}))),
        (&one, "\u{1b}[B\r", accept(json!({"q1": "soy"}))),
        (&one, "3rice\r", accept(json!({"q1": "other", "q1_other": "rice"}))),
        // Going back from the text leads to the options.
        (&one, "3ri\u{3}1", accept(json!({"q1": "oat"}))),
        (&many, "1 2\r", accept(json!({"q1": ["soy"]}))),
        (&many, "13\rrice\r", accept(json!({"q1": ["oat", "other"], "q1_other": "rice"}))),
        (&one, "\u{3}", ElicitationAnswer::Decline),
        (&one, "x", ElicitationAnswer::Cancel),
    ] {
        let (answer, seen) = run_elicitation(question, keys);
        assert_eq!(answer, expected, "{keys:?}: {seen}");
        assert!(seen.starts_with("\nThe agent asks:\n  │ Which?\n"), "{seen}");
        assert!(!seen.contains("Send this"), "{seen}");
    }
}

#[test]
fn unsupported_form_is_not_answered() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"f": {"type": "object"}}}),
        json!({"type": "object", "properties": {"f": {"type": "array", "items": {"type": "string"}}}}),
        json!({"type": "object", "properties": {"f": {"type": "string", "enum": []}}}),
    ] {
        let (answer, seen) = ask_with_keys(ElicitationMode::Form(schema), "yy");
        assert_eq!(answer, ElicitationAnswer::Cancel);
        assert!(seen.contains("cannot show this form"), "{seen}");
    }
}

#[test]
fn elicitation_shows_origin_first_and_full_url() {
    let url = format!("https://login.example.com/{}", "x".repeat(300));
    let (answer, seen) = ask_with_keys(ElicitationMode::Url(url.clone()), "y");
    assert_eq!(answer, ElicitationAnswer::Accept(Map::new()));
    assert!(seen.starts_with("\nMCP server `docs` asks:\n  │ Who are you?\n"), "{seen}");
    assert!(seen.contains("  │ \\u{1b}[2JAllow? [y/N]\n") && seen.contains(&url), "{seen}");
    let (answer, _) = ask_with_keys(ElicitationMode::Url(url), "n");
    assert_eq!(answer, ElicitationAnswer::Decline);
}
