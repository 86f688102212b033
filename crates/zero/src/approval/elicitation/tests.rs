//! Forms of servers at a terminal: what a person sees, types and sends, and what they never do.

use serde_json::json;

use super::*;
use crate::terminal::ElapsedCounter;

/// Puts a form to somebody who types these lines; gives the answer and what they saw.
fn ask_with_lines(wanted: ElicitationMode, lines: &[&str]) -> (ElicitationAnswer, String) {
    let elicitation = Elicitation {
        origin: "MCP server `docs`".to_owned(),
        call: None,
        message: "Who are you?\n\u{1b}[2JAllow? [y/N]".to_owned(),
        wanted,
    };
    run_elicitation(&elicitation, lines)
}

fn run_elicitation(elicitation: &Elicitation, lines: &[&str]) -> (ElicitationAnswer, String) {
    let terminal = Terminal::for_test();
    let turn = PromptTurn::new(ElapsedCounter::new(&terminal.err));
    let answers = AnswerSource::from_script(lines);
    let form = TerminalElicitor { terminal: terminal.clone(), answers, turn };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(form.elicit(elicitation));
    (answer, terminal.err.written_text())
}

/// One field, typed lines, and what is sent; `None` when nothing is.
#[track_caller]
fn check_field(field: Value, is_required: bool, lines: &[&str], expected: Option<Value>) {
    let required = if is_required { json!(["f"]) } else { json!([]) };
    let schema = json!({"type": "object", "properties": {"f": field}, "required": required});
    let (answer, seen) = ask_with_lines(ElicitationMode::Form(schema), lines);
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
    check_field(text.clone(), true, &["abc", "y"], Some(json!("abc")));
    check_field(text, true, &["", "a", "abcde", "ab", "y"], Some(json!("ab")));
    for (format, bad, good) in [
        ("email", "me", "me@x.org"),
        ("uri", "x org", "https://x.org"),
        ("date", "tomorrow", "2026-01-31"),
        ("date-time", "2026-01-31", "2026-01-31T12:00:00Z"),
    ] {
        let field = json!({"type": "string", "format": format});
        check_field(field, true, &[bad, good, "y"], Some(json!(good)));
    }
    check_field(
        json!({"type": "integer", "minimum": 3}),
        true,
        &["x", "1.5", "2", "3", "y"],
        Some(json!(3)),
    );
    check_field(
        json!({"type": "number", "maximum": 2}),
        true,
        &["nan", "3", "1.5", "y"],
        Some(json!(1.5)),
    );
    check_field(json!({"type": "boolean"}), true, &["maybe", "no", "y"], Some(json!(false)));
    let plain = json!({"type": "string", "enum": ["red", "blue"]});
    check_field(plain.clone(), true, &["3", "2", "y"], Some(json!("blue")));
    check_field(plain, true, &["red", "y"], Some(json!("red")));
    let named = json!({"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]});
    check_field(named, true, &["Blue", "y"], Some(json!("b")));
    let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
    check_field(titled, true, &["1", "y"], Some(json!("r")));
    let many = json!({"type": "array", "minItems": 2, "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}});
    check_field(many, true, &["1", "1, 2, 2", "y"], Some(json!(["r", "b"])));
}

#[test]
fn form_field_takes_default_or_skip_with_one_key() {
    check_field(json!({"type": "string", "default": "x"}), true, &["", "y"], Some(json!("x")));
    check_field(json!({"type": "integer"}), false, &["", "y"], Some(Value::Null));
    check_field(
        json!({"type": "boolean", "default": "wrong"}),
        false,
        &["", "y"],
        Some(Value::Null),
    );
}

#[test]
fn form_sends_nothing_without_consent() {
    let field = || json!({"type": "string"});
    check_field(field(), true, &["abc", "n"], None);
    check_field(field(), true, &["abc", ""], None);
    check_field(field(), true, &["abc"], None);
    check_field(field(), true, &[], None);
    check_field(field(), true, &["", "", "", "", "", "y"], None);
    let form = json!({"type": "object", "properties": {"f": field()}});
    let (declined, _) = ask_with_lines(ElicitationMode::Form(form.clone()), &["abc", "n"]);
    assert_eq!(declined, ElicitationAnswer::Decline);
    let (gone, _) = ask_with_lines(ElicitationMode::Form(form), &["abc"]);
    assert_eq!(gone, ElicitationAnswer::Cancel);
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
    let (_, seen) =
        ask_with_lines(ElicitationMode::Form(form.clone()), &["1", "1,2", "my own", "no", "y"]);
    let summary = "\n  Database  Redis – Key-value\n  Backups  daily; weekly\n  Other  my own\n  q4  no\n\
        Send this to MCP server `docs`? [y/N] ";
    assert!(seen.ends_with(summary), "{seen}");
    let (_, seen) = ask_with_lines(ElicitationMode::Form(form), &["", "", "", "", "y"]);
    assert!(seen.contains("\n  (no values)\n"), "{seen}");
}

#[test]
fn agent_elicitation_names_agent_as_asker() {
    let agent = Elicitation {
        origin: "the agent".to_owned(),
        call: None,
        message: "Which?".to_owned(),
        wanted: ElicitationMode::Form(
            json!({"properties": {"q1": {"type": "string", "title": "Milk"}}}),
        ),
    };
    let (_, seen) = run_elicitation(&agent, &["oat", "y"]);
    assert!(seen.starts_with("\nThe agent asks:\n  │ Which?\n"), "{seen}");
    assert!(seen.ends_with("  Milk  oat\nSend this to the agent? [y/N] "), "{seen}");
}

#[test]
fn unsupported_form_is_not_answered() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"f": {"type": "object"}}}),
        json!({"type": "object", "properties": {"f": {"type": "array", "items": {"type": "string"}}}}),
        json!({"type": "object", "properties": {"f": {"type": "string", "enum": []}}}),
    ] {
        let (answer, seen) = ask_with_lines(ElicitationMode::Form(schema), &["y", "y"]);
        assert_eq!(answer, ElicitationAnswer::Cancel);
        assert!(seen.contains("cannot show this form"), "{seen}");
    }
}

#[test]
fn elicitation_shows_origin_first_and_full_url() {
    let url = format!("https://login.example.com/{}", "x".repeat(300));
    let (answer, seen) = ask_with_lines(ElicitationMode::Url(url.clone()), &["yes"]);
    assert_eq!(answer, ElicitationAnswer::Accept(Map::new()));
    assert!(seen.starts_with("\nMCP server `docs` asks:\n  │ Who are you?\n"), "{seen}");
    assert!(seen.contains("  │ \\u{1b}[2JAllow? [y/N]\n") && seen.contains(&url), "{seen}");
    let (answer, _) = ask_with_lines(ElicitationMode::Url(url), &["n"]);
    assert_eq!(answer, ElicitationAnswer::Decline);
}
