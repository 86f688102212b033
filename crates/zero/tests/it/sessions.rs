//! `zero sessions`.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use serde_json::{Value, json};

use crate::config::{USER, write};
use crate::model_server::ModelServer;
use crate::program::Program;

#[test]
fn a_session_is_listed_shown_written_down_reset_and_removed() {
    let (zero, model) = (Program::new(), ModelServer::start());
    write(&zero, USER, model.settings(json!({})));
    let seen = zero.run(&["sessions", "list"]);
    assert!(seen.starts_with("exit 0\n--- stderr") && seen.contains("zero run"), "{seen}");
    zero.stdout(&["run", "--session", "bug-42", "hi"]);
    assert!(zero.stdout(&["sessions", "list"]).contains("agent:main:bug-42"));
    let listed: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "list", "--json"])).unwrap();
    assert_eq!(listed[0]["key"], "agent:main:bug-42");
    for name in ["bug-42", "agent:main:bug-42"] {
        let shown = zero.stdout(&["sessions", "show", name]);
        assert!(shown.contains("> hi") && shown.contains("Hello from the model."), "{shown}");
    }
    let lines = zero.stdout(&["sessions", "export", "bug-42", "--format", "jsonl"]);
    let seqs =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone());
    assert!(seqs.eq((1..=lines.lines().count()).map(Value::from)), "{lines}");
    zero.stdout(&["sessions", "export", "bug-42", "-o", "out.md"]);
    let written = std::fs::read_to_string(zero.folder().join("out.md")).unwrap();
    assert!(written.contains("Hello from the model."), "{written}");
    let seen = zero.run(&["sessions", "export", "bug-42", "-o", "out.md"]);
    assert!(seen.starts_with("exit 2") && seen.contains("is there already"), "{seen}");
    zero.stdout(&["sessions", "reset", "bug-42"]);
    zero.stdout(&["run", "--session", "bug-42", "anew"]);
    let request = model.requests().pop().unwrap().to_string();
    assert!(!request.contains("\"hi\"") && request.contains("anew"), "{request}");
    assert!(zero.stdout(&["sessions", "show", "bug-42"]).contains("> hi"), "what was shown stays");
    let seen = zero.run(&["sessions", "delete", "bug-42"]);
    assert!(seen.starts_with("exit 2") && seen.contains("--yes"), "{seen}");
    zero.stdout(&["sessions", "delete", "bug-42", "--yes"]);
    for what in ["show", "export", "reset", "delete"] {
        let seen = zero.run(&["sessions", what, "bug-42"]);
        assert!(seen.starts_with("exit 2") && seen.contains("no session"), "{what}: {seen}");
    }
}
