//! Calls of the Memory tool through the tool host.

use serde_json::{Value, json};

use super::*;
use crate::test_host::TestHost;

#[track_caller]
fn note_names(host: &TestHost, input: Value) -> Vec<String> {
    let result = host.ok("Memory", input);
    let notes = result.structured["notes"].as_array().unwrap();
    let name = |note: &Value| {
        let text = |field: &str| note[field].as_str().unwrap().to_owned();
        format!("{}/{}: {}", text("scope"), text("name"), text("text"))
    };
    notes.iter().map(name).collect()
}

#[test]
fn saved_note_is_found_and_forgotten() {
    let host = TestHost::with_session().with_notes();
    assert_eq!(
        host.text("Memory", json!({"action": "save", "text": "Run `just test` first.\nAlways."})),
        "Remembered as `run-just-test-first-always` (project)."
    );
    let save = |name: &str, text: &str| json!({"action": "save", "scope": "user", "name": name, "text": text});
    assert_eq!(host.text("Memory", save("tabs", "Tabs!")), "Remembered as `tabs` (user).");
    assert_eq!(host.text("Memory", save("tabs", "Tabs.")), "Replaced the note `tabs` (user).");
    assert!(host.path(".zero/memory/run-just-test-first-always.md").exists());
    let all = ["project/run-just-test-first-always: Run `just test` first.", "user/tabs: Tabs."];
    assert_eq!(note_names(&host, json!({"action": "list"})), all);
    assert_eq!(note_names(&host, json!({"action": "list", "scope": "user"})), all[1..]);
    assert_eq!(
        note_names(&host, json!({"action": "search", "query": "JUST always"})),
        ["project/run-just-test-first-always: Run `just test` first.\nAlways."]
    );
    assert_eq!(note_names(&host, json!({"action": "search", "query": "just never"})), [""; 0]);
    let text = host.text("Memory", json!({"action": "read", "name": "tabs"}));
    assert!(text.starts_with("tabs (user, by agent in session test, 20"), "{text}");
    assert!(text.ends_with("```markdown\nTabs.\n```"), "{text}");
    host.ok("Memory", json!({"action": "forget", "name": "tabs"}));
    let gone = host.err("Memory", json!({"action": "read", "name": "tabs"}));
    assert!(gone.message.starts_with("there is no note `tabs`"), "{gone}");
    assert_eq!(note_names(&host, json!({"action": "list"})), all[..1]);
}

#[test]
fn note_change_is_declared_as_effect() {
    let effects = |input: Value| {
        let host = TestHost::new();
        let plan =
            MemoryTool.plan(serde_json::from_value(input).unwrap(), host.workspace()).unwrap();
        let effects = MemoryTool.effects(&plan);
        effects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        effects(json!({"action": "save", "text": "a", "scope": "user"})),
        "keep the note `a` (user)"
    );
    assert_eq!(
        effects(json!({"action": "forget", "name": "a"})),
        "forget the note `a` (project), forget the note `a` (user)"
    );
    let host = TestHost::new();
    let save = serde_json::from_value(json!({"action": "save", "text": "a"})).unwrap();
    let plan = MemoryTool.plan(save, host.workspace()).unwrap();
    let [Effect::Note(note)] = &MemoryTool.effects(&plan)[..] else { panic!() };
    assert_eq!(note.file.as_ref().unwrap().canonical(), host.path(".zero/memory/a.md"));
}

#[test]
fn denied_note_is_not_disclosed() {
    let host = TestHost::new()
        .with_denied(&["secret.md"])
        .with_files(&[(".zero/memory/secret.md", "x"), (".zero/memory/open.md", "y")])
        .with_notes();
    assert_eq!(note_names(&host, json!({"action": "list"})), ["project/open: y"]);
    let error = host.err("Memory", json!({"action": "read", "name": "secret"}));
    assert!(error.message.contains("there is no note `secret`"), "{error}");
}

#[test]
fn missing_note_store_is_reported() {
    let error = TestHost::new().err("Memory", json!({"action": "list"}));
    assert!(error.message.starts_with("notes are not available here"), "{error}");
}

#[track_caller]
fn check_rejected(input: Value, expected: &[&str]) {
    let message = TestHost::new().err("Memory", input).message;
    for part in expected {
        assert!(message.contains(part), "{part}\n{message}");
    }
}

#[test]
fn violations_name_their_field() {
    check_rejected(json!({"action": "save"}), &["/text", "found nothing"]);
    check_rejected(json!({"action": "save", "text": "a\u{1b}[2J"}), &["/text", "U+001B"]);
    check_rejected(json!({"action": "save", "text": "x".repeat(9_000)}), &["/text", "9000 bytes"]);
    for name in ["../x", "/etc/passwd", "a.md", "", "Ünder"] {
        check_rejected(
            json!({"action": "save", "text": "a", "name": name}),
            &["/name", "lower-case letters"],
        );
    }
    check_rejected(json!({"action": "read"}), &["/name", "found nothing"]);
    check_rejected(json!({"action": "search", "query": " "}), &["/query", "0 characters"]);
    check_rejected(
        json!({"action": "list", "name": "a", "text": "b", "query": "c"}),
        &["/name: expected nothing for this action", "/text", "/query"],
    );
}
