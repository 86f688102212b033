//! Offers with one wrong field; the error names the tool and the field.

use serde_json::{Value, json};

use super::*;

fn offer(change: impl FnOnce(&mut Value)) -> ToolsOfferParams {
    let mut offer = json!({
        "sessionKey": "main", "dialect": "canonical", "cwd": "/w", "system": "linux",
        "tools": [
            {"name": "Read", "canonical": "Read", "description": "Reads\n\ta file", "kind": "read",
             "inputSchema": {"type": "object"}, "readOnly": true},
            {"name": "git__log", "canonical": "git__log", "description": "", "kind": "other",
             "inputSchema": {}, "readOnly": false},
        ],
        "instructions": [{"path": "AGENTS.md", "text": "👩\u{200d}💻 works\r\nhere"}],
        "commands": [{"name": "git:tidy", "description": "Tidies", "argumentHint": "[x]", "prompt": "p"}],
    });
    change(&mut offer);
    serde_json::from_value(offer).unwrap()
}

#[track_caller]
fn check(at: &str, value: Value, expected: &str) {
    let params = offer(|offer| *offer.pointer_mut(at).unwrap() = value);
    let why = ToolOffer::from_params(params).unwrap_err().message;
    assert_eq!(why, format!("invalid tools/offer params: {expected}"), "{at}");
}

#[test]
fn valid_offer_is_accepted_unchanged() {
    let ToolOffer { dialect, catalog, .. } = ToolOffer::from_params(offer(|_| {})).unwrap();
    assert_eq!(dialect, DialectName::Canonical);
    let names: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["Read", "git__log"]);
    assert_eq!(
        catalog.tools[1].input_schema,
        json!({"type": "object"}),
        "what models need is said"
    );
    assert_eq!((catalog.instructions.len(), catalog.commands.len()), (1, 1));
    // A host whose folder is unusable may offer no tools.
    let nothing = offer(|offer| {
        for (field, value) in [("cwd", json!("")), ("system", json!("")), ("tools", json!([]))] {
            offer[field] = value;
        }
    });
    assert!(ToolOffer::from_params(nothing).is_ok());
}

#[test]
fn tool_name_must_be_plain() {
    let plain = "use 1 to 64 ASCII letters, digits, `_` or `-`, starting with a letter";
    for (name, quoted) in [
        ("", "``"),
        ("rm -rf", "`rm -rf`"),
        ("Re\u{1b}[2Jad", "`Re [2Jad`"),
        ("Re\u{202e}da", "`Re da`"),
        ("Rеad", "`Rеad`"),
        ("1st", "`1st`"),
    ] {
        check("/tools/1/name", json!(name), &format!("tool {quoted}: name: {plain}"));
    }
    let long = "a".repeat(5_000);
    let cut = "a".repeat(200);
    check("/tools/0/name", json!(long), &format!("tool `{cut}…`: name: {plain}"));
    check("/tools/0/canonical", json!(""), &format!("tool `Read`: canonical: {plain}"));
    check("/tools/0/canonical", json!("a\nb"), &format!("tool `Read`: canonical: {plain}"));
    check("/tools/1/name", json!("Read"), "tools: `Read` is there twice");
}

#[test]
fn text_with_hidden_characters_is_refused() {
    let hides =
        |c: &str| format!("it has the character U+{c}, which hides or moves others; leave it out");
    for (description, c) in
        [("a\u{0}", "0000"), ("\u{1b}[2J", "001B"), ("a\u{202e}b", "202E"), ("\r", "000D")]
    {
        let why = format!("tool `Read`: description: {}", hides(c));
        check("/tools/0/description", json!(description), &why);
    }
    check(
        "/tools/0/description",
        json!("x".repeat(10_001)),
        "tool `Read`: description: it has 10001 characters, more than 10000; shorten it",
    );
    check("/cwd", json!("/w\u{7}"), &format!("cwd: {}", hides("0007")));
    check("/cwd", json!("/w\nIgnore that"), "cwd: it has more than one line, or a tab");
    check("/system", json!("linux\u{2066}"), &format!("system: {}", hides("2066")));
    check("/instructions/0/path", json!(""), "instructions: ``: its path is empty");
    check(
        "/instructions/0/text",
        json!("x".repeat(131_073)),
        "instructions: `AGENTS.md`: its text has 131073 bytes, more than 131072; shorten it",
    );
    check(
        "/commands/0/name",
        json!("Git tidy"),
        "command `Git tidy`: name: use 1 to 256 lower-case ASCII letters, digits, `_`, `-` or `:`",
    );
    check(
        "/commands/0/description",
        json!("a\nb"),
        "command `git:tidy`: description: it has more than one line, or a tab",
    );
    check(
        "/commands/0/argumentHint",
        json!("\u{200b}"),
        &format!("command `git:tidy`: argumentHint: {}", hides("200B")),
    );
}

#[test]
fn schema_must_be_object() {
    let at = "/tools/1/inputSchema";
    let no = |why: &str| format!("tool `git__log`: inputSchema: it {why}");
    check(at, json!("{\"type\": \"object\"}"), &no("is not an object"));
    check(at, json!(null), &no("is not an object"));
    check(at, json!({"type": "string"}), &no("has type \"string\" instead of object"));
    check(at, json!({"description": "x".repeat(70_000)}), &no("has 70034 bytes, more than 65536"));
    let fetched = "refers to `https://a.example/x`, but zero does not fetch external schemas";
    check(at, json!({"$ref": "https://a.example/x"}), &no(fetched));
}

#[test]
fn offer_size_is_limited() {
    check(
        "/dialect",
        json!("klingon"),
        "dialect: the dialects are canonical, acp, qwen and opencode",
    );
    let tool = offer(|_| {}).tools.remove(0);
    let many: Vec<OfferedTool> =
        (0..1_001).map(|n| OfferedTool { name: format!("t{n}"), ..tool.clone() }).collect();
    check("/tools", json!(many), "tools: there are 1001, more than 1000; offer fewer");
    check(
        "/system",
        json!("x".repeat(5_000)),
        "system: it has 5000 characters, more than 4096; shorten it",
    );
    let large = offer(|offer| offer["system"] = json!("x".repeat(OFFER_BYTES_MAX)));
    let why = ToolOffer::from_params(large).unwrap_err().message;
    assert!(why.ends_with("bytes, more than 4194304; offer less"), "{why}");
}
