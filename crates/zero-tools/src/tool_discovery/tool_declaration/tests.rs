//! Declarations in every form, valid and invalid.

use super::*;

/// Checks the schema of each tool by its name, then the rejected declarations.
#[track_caller]
fn check_parsed(stdout: &Value, expected: &[&str]) {
    let (declared, quarantined) = parse_declarations(stdout.to_string().as_bytes()).unwrap();
    let declared = declared.iter().map(|tool| {
        let CommandToolDeclaration { name, original, description, input_schema } = tool;
        format!("{name} <- {original}: {description} {input_schema}")
    });
    let quarantined = quarantined.iter().map(|item| format!("{}: {}", item.name, item.reason));
    let seen: Vec<String> = declared.chain(quarantined).collect();
    assert_eq!(seen, expected, "{stdout:.200}");
}

#[track_caller]
fn check_unreadable(stdout: &[u8], expected: &str) {
    let error = parse_declarations(stdout).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error:?} is not {expected:?}");
}

#[test]
fn every_declaration_form_is_parsed() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = r#"cmd__weather <- weather: Says it. {"type":"object","properties":{"city":{"type":"string"}}}"#;
    for field in ["parameters", "parametersJsonSchema", "inputSchema", "input_schema"] {
        let item = json!({"name": "weather", "description": "Says it.", field: schema});
        check_parsed(&json!([item]), &[weather]);
        check_parsed(&json!([{"functionDeclarations": [item]}]), &[weather]);
        check_parsed(&json!([{"function_declarations": [item]}]), &[weather]);
        check_parsed(&json!({"functionDeclarations": [item]}), &[weather]);
        check_parsed(&json!([{"type": "function", "function": item}]), &[weather]);
        check_parsed(
            &json!([{"functionDeclarations": [{"type": "function", "function": item}]}]),
            &[weather],
        );
    }
    let gemini = json!({"type": "OBJECT", "properties": {"city": {"type": "STRING"}}});
    check_parsed(
        &json!([{"name": "weather", "description": "Says it.", "parameters": gemini}]),
        &[weather],
    );
    check_parsed(&json!([]), &[]);
    check_parsed(&json!([{"functionDeclarations": []}]), &[]);
}

#[test]
fn missing_parameters_mean_no_arguments() {
    let none = &[r#"cmd__now <- now:  {"type":"object","additionalProperties":false}"#];
    check_parsed(&json!([{"name": "now"}]), none);
    check_parsed(&json!([{"name": "now", "description": null, "parameters": null}]), none);
    // An empty schema accepts everything.
    let any = &[r#"cmd__now <- now:  {"type":"object"}"#];
    check_parsed(&json!([{"name": "now", "parameters": {}}]), any);
    check_parsed(
        &json!([{"name": "now", "inputSchema": {"$schema": "urn:x", "type": "object"}}]),
        any,
    );
    // The plainest schema is used.
    let both = json!({"name": "now", "parameters": {"type": "STRING"}, "inputSchema": {}});
    check_parsed(&json!([both]), any);
}

#[test]
fn declared_name_cannot_replace_another_tool() {
    check_parsed(
        &json!([{"name": "Read"}, {"name": "github__x"}, {"name": "cmd__x"}, {"name": "get.it"}]),
        &[
            r#"cmd__Read <- Read:  {"type":"object","additionalProperties":false}"#,
            r#"cmd__github__x <- github__x:  {"type":"object","additionalProperties":false}"#,
            r#"cmd__cmd__x <- cmd__x:  {"type":"object","additionalProperties":false}"#,
            r#"cmd__get_it_29cfcf59 <- get.it:  {"type":"object","additionalProperties":false}"#,
        ],
    );
    // A name that is made to look like the name of another.
    check_parsed(
        &json!([{"name": "get.it"}, {"name": "get_it_29cfcf59"}, {"name": "get.it"}]),
        &[
            r#"cmd__get_it_29cfcf59 <- get.it:  {"type":"object","additionalProperties":false}"#,
            "get_it_29cfcf59: an earlier declaration already maps to `cmd__get_it_29cfcf59`",
            "get.it: an earlier declaration already maps to `cmd__get_it_29cfcf59`",
        ],
    );
}

#[test]
fn invalid_declaration_rejects_only_itself() {
    #[track_caller]
    fn check_rejected(item: Value, expected: &str) {
        let good = r#"cmd__now <- now:  {"type":"object","additionalProperties":false}"#;
        check_parsed(&json!([item, {"name": "now"}]), &[good, expected]);
        let expected = expected.replace("item 1: ", "item 1, declaration 1: ");
        check_parsed(
            &json!([{"functionDeclarations": [item, {"name": "now"}]}]),
            &[good, &expected],
        );
    }
    check_rejected(json!(3), "item 1: it is a number, not a function declaration");
    check_rejected(json!("now"), "item 1: it is a string, not a function declaration");
    check_rejected(json!([{"name": "x"}]), "item 1: it is a list, not a function declaration");
    check_rejected(json!({"googleSearch": {}}), "item 1: it has no `name`");
    check_rejected(json!({"name": 3}), "item 1: its name is a number");
    check_rejected(json!({"name": ""}), "item 1: its name is empty");
    check_rejected(json!({"name": "  "}), "  : its name is empty");
    check_rejected(
        json!({"name": "a\u{1b}[0m"}),
        "a\\u{1b}[0m: its name contains control characters",
    );
    check_rejected(json!({"name": "a\u{0}"}), "a\\0: its name contains control characters");
    check_rejected(
        json!({"name": "--rm"}),
        "--rm: its name begins with `-` and would be taken for an option",
    );
    let long = "n".repeat(257);
    let expected = format!("{}…: its name is longer than 256 bytes", "n".repeat(256));
    check_rejected(json!({"name": long}), &expected);
    check_rejected(json!({"name": "x", "description": []}), "x: its description is a list");
    check_rejected(
        json!({"name": "x", "parameters": true}),
        "x: its schema is a boolean, not an object",
    );
    check_rejected(
        json!({"name": "x", "parameters": {"type": "ARRAY"}}),
        "x: its input is of type \"array\", but must be an object",
    );
}

#[test]
fn broken_schema_is_rejected_without_fetching() {
    #[track_caller]
    fn check_rejected(schema: Value, expected: &str) {
        let stdout = json!([{"name": "x", "inputSchema": schema}, {"name": "now"}]).to_string();
        let (declared, quarantined) = parse_declarations(stdout.as_bytes()).unwrap();
        assert_eq!(declared.len(), 1);
        let reason = &quarantined[0].reason;
        assert!(
            reason.starts_with("its schema is invalid: ") && reason.contains(expected),
            "{reason}"
        );
    }
    check_rejected(json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "strin");
    check_rejected(json!({"type": "object", "properties": []}), "[]");
    check_rejected(json!({"type": "object", "required": "a"}), "a");
    check_rejected(json!({"properties": {"a": {"pattern": "("}}}), "(");
    for elsewhere in
        ["http://127.0.0.1:1/schema.json", "https://example.com/s", "file:///etc/passwd"]
    {
        check_rejected(json!({"properties": {"a": {"$ref": elsewhere}}}), elsewhere);
    }
    check_rejected(json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), "none");
    let own =
        json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
    let stdout = json!([{"name": "x", "inputSchema": own}]).to_string();
    assert_eq!(parse_declarations(stdout.as_bytes()).unwrap().0.len(), 1);
}

#[test]
fn deep_schema_rejects_only_its_tool() {
    let deep = |levels: usize| {
        let schema = format!("{}{{}}{}", r#"{"not":"#.repeat(levels), "}".repeat(levels));
        let wrapper =
            format!(r#"{{"functionDeclarations":[{{"name":"deep","parameters":{schema}}}]}}"#);
        format!(r#"[{wrapper},{{"name":"now"}}]"#)
    };
    for levels in [DEPTH_MAX, DEPTH_MAX + 20, 50_000] {
        let (declared, quarantined) = parse_declarations(deep(levels).as_bytes()).unwrap();
        assert_eq!(declared[0].original, "now", "{levels}");
        assert_eq!(quarantined[0].reason, "its schema nests deeper than 64 levels", "{levels}");
    }
    assert_eq!(parse_declarations(deep(DEPTH_MAX - 1).as_bytes()).unwrap().0.len(), 2);
}

#[test]
fn every_declaration_limit_is_enforced() {
    let tools: Vec<Value> = (0..600).map(|at| json!({"name": format!("t{at}")})).collect();
    let (declared, quarantined) = parse_declarations(json!(tools).to_string().as_bytes()).unwrap();
    assert_eq!((declared.len(), quarantined.len()), (500, 100));
    assert_eq!(quarantined[0].name, "t500");
    assert_eq!(quarantined[0].reason, "there are 500 tools already, which is the limit");
    let (declared, quarantined) =
        parse_declarations(json!(vec![1; 1_000]).to_string().as_bytes()).unwrap();
    assert_eq!((declared.len(), quarantined.len()), (0, 101));
    assert_eq!(quarantined[100].name, "900 more");
    let wordy = json!([{"name": "x", "description": "ü".repeat(20_000)}]).to_string();
    assert_eq!(parse_declarations(wordy.as_bytes()).unwrap().0[0].description.len(), 16_003);
    check_unreadable(&vec![b' '; OUTPUT_BYTES_MAX + 1], "it printed more than 1000000 bytes");
}

#[test]
fn output_without_list_is_refused() {
    check_unreadable(b"", "its output is not JSON: EOF");
    check_unreadable(b"hello", "its output is not JSON: expected");
    check_unreadable(b"Loading...\n[]", "its output is not JSON: expected");
    check_unreadable(b"[] done", "its output is not JSON: trailing");
    check_unreadable(b"[\"\xff\"]", "its output is not JSON: invalid unicode");
    check_unreadable(b"[{\"name\": \"x\"", "its output is not JSON: EOF");
    check_unreadable(b"{\"name\": \"x\"}", "it printed an object instead of an array");
    check_unreadable(b"null", "it printed nothing instead of an array");
    assert_eq!(parse_declarations(b"\xef\xbb\xbf []\n").unwrap(), (vec![], vec![]));
}

#[test]
fn expensive_schema_rejects_only_its_tool() {
    #[track_caller]
    fn check_rejected(patterns: &[String], expected: &str) {
        let fields = patterns.iter().enumerate();
        let fields = fields.map(|(at, pattern)| (format!("p{at}"), json!({"pattern": pattern})));
        let schema = json!({"properties": fields.collect::<Map<_, _>>()});
        let stdout = json!([{"name": "dear", "parameters": schema}, {"name": "now"}]).to_string();
        let (declared, quarantined) = parse_declarations(stdout.as_bytes()).unwrap();
        assert_eq!(declared.len(), 1);
        assert_eq!(quarantined[0].reason, format!("its schema is invalid: {expected}"));
    }
    let pattern = "(a{900}){300}";
    check_rejected(&[pattern.to_owned()], "the pattern `(a{900}){300}` is too large");
    let many: Vec<String> = (0..51).map(|at| format!("a{at}")).collect();
    check_rejected(&many, "it has more than 50 patterns");
}
