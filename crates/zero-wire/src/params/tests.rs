//! Tests of what [`parse_params`] accepts, what it refuses, and the wording of its errors.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::chat::{AgentWait, ChatAbort, ChatHistory, ChatSend, Health};
use crate::handshake::Connect;
use crate::method::MethodInfo;
use crate::schema::methods;
use crate::sessions::{
    SessionsDelete, SessionsGet, SessionsList, SessionsPatch, SessionsPatchParams, SessionsPreview,
    SessionsReset, SessionsResolve,
};
use crate::tools::{ToolsProgress, ToolsResult};

#[track_caller]
fn check<M: GatewayMethod>(written: Value, expected: &str) {
    let outcome = match parse_params::<M>(Some(written.clone())) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.message,
    };
    assert_eq!(outcome, expected, "{written}");
}

fn connect_params(more: Value) -> Value {
    let mut connect = json!({
        "minProtocol": 4, "maxProtocol": 4,
        "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
    });
    for (name, value) in more.as_object().unwrap() {
        connect[name] = value.clone();
    }
    connect
}

#[test]
fn errors_use_openclaw_wording() {
    check::<ChatSend>(
        json!({"sessionKey": "main", "idempotencyKey": "1"}),
        "invalid chat.send params: must have required property 'message'",
    );
    check::<ChatSend>(
        json!({"sessionKey": "main", "message": "x", "idempotencyKey": "1", "zzz": 1}),
        "invalid chat.send params: at root: unexpected property 'zzz'",
    );
    check::<ChatSend>(
        json!({"sessionKey": "main", "zzz": 1, "idempotencyKey": "1"}),
        "invalid chat.send params: must have required property 'message'; \
         at root: unexpected property 'zzz'",
    );
    check::<ChatSend>(
        json!({"sessionKey": 1, "message": "x", "idempotencyKey": ""}),
        "invalid chat.send params: at /sessionKey: must be string; \
         at /idempotencyKey: must NOT have fewer than 1 characters",
    );
    check::<ChatSend>(
        json!({"sessionKey": "a".repeat(513), "message": "x", "idempotencyKey": "1"}),
        "invalid chat.send params: at /sessionKey: must NOT have more than 512 characters",
    );
    check::<ChatSend>(json!([]), "invalid chat.send params: must be object");
    check::<ChatSend>(
        json!({"sessionKey": "é".repeat(512), "message": "", "idempotencyKey": "1"}),
        "ok",
    );
    check::<ChatSend>(
        json!({"sessionKey": "s", "message": "", "idempotencyKey": "1", "queueMode": "later"}),
        "invalid chat.send params: at /queueMode: must be equal to one of the allowed values",
    );
    check::<ChatSend>(
        json!({"sessionKey": "s", "message": "", "idempotencyKey": "1",
               "attachments": [{"type": "image", "sizeBytes": 3}, {"mimeType": 4}]}),
        "invalid chat.send params: at /attachments/1/mimeType: must be string",
    );
    check::<ChatHistory>(
        json!({"sessionKey": "s", "limit": 1001}),
        "invalid chat.history params: at /limit: must be <= 1000",
    );
    check::<ChatHistory>(
        json!({"sessionKey": "s", "limit": -1}),
        "invalid chat.history params: at /limit: must be >= 1",
    );
    check::<AgentWait>(
        json!({"runId": "r", "timeoutMs": 1.5}),
        "invalid agent.wait params: at /timeoutMs: must be integer",
    );
    check::<SessionsPreview>(
        json!({"keys": []}),
        "invalid sessions.preview params: at /keys: must NOT have fewer than 1 items",
    );
    check::<SessionsReset>(
        json!({"key": "k", "reason": "why"}),
        "invalid sessions.reset params: at /reason: must be equal to one of the allowed values",
    );
    check::<SessionsReset>(
        json!({"key": "k", "reason": 7}),
        "invalid sessions.reset params: at /reason: must be string",
    );
    check::<ToolsResult>(
        json!({"sessionId": "s", "toolCallId": "c", "isError": false,
               "content": [{"type": "text", "text": "x", "more": 1}]}),
        "invalid tools/result params: at /content/0: must match exactly one schema in oneOf",
    );
    check::<ToolsProgress>(
        json!({"sessionId": "", "toolCallId": "c"}),
        "invalid tools/progress params: at /sessionId: must NOT have fewer than 1 characters",
    );
}

#[test]
fn nested_error_names_its_path() {
    check::<Connect>(
        connect_params(json!({"x": 1})),
        "invalid connect params: at root: unexpected property 'x'",
    );
    check::<Connect>(
        connect_params(
            json!({"client": {"id": "zero", "version": "1", "platform": "l", "mode": "cli"}}),
        ),
        "invalid connect params: at /client/id: must be equal to one of the allowed values",
    );
    check::<Connect>(
        connect_params(json!({"client": {"id": "cli", "version": "", "mode": "cli", "os": 1}})),
        "invalid connect params: at /client: must have required property 'platform'; \
         at /client: unexpected property 'os'; \
         at /client/version: must NOT have fewer than 1 characters",
    );
    check::<Connect>(
        connect_params(json!({"permissions": {"a/b": 1}})),
        "invalid connect params: at /permissions/a~1b: must be boolean",
    );
    check::<Connect>(
        connect_params(json!({"maxProtocol": 4_294_967_296_u64})),
        "invalid connect params: at /maxProtocol: must be <= 4294967295",
    );
}

#[test]
fn refusal_never_quotes_input() {
    for auth in [json!("s3cret"), json!({"token": ["s3cret"]}), json!({"token": {"s3cret": 1}})] {
        let error =
            parse_params::<Connect>(Some(connect_params(json!({"auth": auth})))).unwrap_err();
        assert!(!error.message.contains("s3cret"), "{}", error.message);
    }
}

#[test]
fn refusal_is_short_for_any_input() {
    let names = (0..10_000).map(|n| (format!("\u{1b}[2J{n}{}", "x".repeat(1000)), json!(1)));
    let error = parse_params::<Health>(Some(Value::Object(names.collect()))).unwrap_err();
    assert!(error.message.len() < 2000, "{}", error.message.len());
    assert!(!error.message.contains('\u{1b}'));
    let keys = vec![json!(1); 1_000];
    let error = parse_params::<SessionsPreview>(Some(json!({"keys": keys}))).unwrap_err();
    assert_eq!(error.message.matches("must be string").count(), PROBLEMS_MAX);
}

/// Returns how many values are checked for a result with this many parts, and the problems found.
fn count_visited(parts: usize) -> (usize, String) {
    let content = vec![json!({"type": "image", "data": "", "mimeType": "image/png"}); parts];
    let result = json!({"sessionId": "s", "toolCallId": "c", "isError": false, "content": content});
    schema_rule::VISITED.set(0);
    let problems = ToolsResult::checker().check(&result).err().unwrap_or_default();
    (schema_rule::VISITED.get(), problems)
}

#[test]
fn list_check_is_linear_and_overlong_list_is_free() {
    let (few, many) = (count_visited(1_000), count_visited(10_000));
    assert_eq!((few.1.as_str(), many.1.as_str()), ("", ""));
    assert!(many.0 <= few.0 * 10, "{} values for ten times {}", many.0, few.0);
    let (values, problems) = count_visited(200_000);
    assert_eq!(problems, "at /content: must NOT have more than 10000 items");
    assert!(values < 10, "{values} values were checked");
}

#[test]
fn every_list_has_a_maximum_length() {
    fn check(schema: &Value, place: &str) {
        let Some(object) = schema.as_object() else { return };
        if object.contains_key("items") {
            assert!(object.contains_key("maxItems"), "{place} has no `maxItems`");
        }
        for (word, value) in object {
            match value {
                Value::Object(_) => check(value, &format!("{place}/{word}")),
                Value::Array(all) => all.iter().for_each(|one| check(one, place)),
                _ => {}
            }
        }
    }
    for method in methods() {
        check((method.checker)().schema(), method.name);
    }
}

#[test]
fn absent_params_count_as_empty() {
    assert!(parse_params::<Health>(None).is_ok());
    assert!(parse_params::<SessionsList>(Some(Value::Null)).is_ok());
    let error = parse_params::<ChatAbort>(None).unwrap_err();
    assert_eq!(
        error.message,
        "invalid chat.abort params: must have required property 'sessionKey'"
    );
}

#[test]
fn every_openclaw_field_is_accepted() {
    check::<Connect>(
        json!({
            "minProtocol": 4, "maxProtocol": 4,
            "client": {"id": "cli", "displayName": "ACP", "version": "acp", "buildId": "b",
                "platform": "linux", "deviceFamily": "Linux", "modelIdentifier": "m",
                "timeZone": "Europe/Berlin", "mode": "cli", "instanceId": "i"},
            "caps": ["exec-approvals", "tool-events"], "commands": ["c"], "computerUse": {},
            "workerRuns": {"bundleHash": "0"}, "permissions": {"a": true}, "pathEnv": "/bin",
            "role": "operator", "scopes": ["operator.admin"],
            "device": {"id": "d", "publicKey": "p", "signature": "s", "signedAt": 1, "nonce": "n"},
            "auth": {"token": "t", "bootstrapToken": "b", "deviceToken": "d", "password": "p",
                "approvalRuntimeToken": "a", "agentRuntimeIdentityToken": "i"},
            "locale": "de", "userAgent": "u",
        }),
        "ok",
    );
    check::<ChatSend>(
        json!({
            "sessionKey": "s", "agentId": "main", "sessionId": "i", "message": "m",
            "intent": {"kind": "session-goal-start", "version": 1, "issuedAtMs": 0},
            "thinking": "high", "fastMode": "auto", "fastAutoOnSeconds": 1, "queueMode": "steer",
            "deliver": false, "originatingChannel": "c", "originatingTo": "t",
            "originatingAccountId": "a", "originatingThreadId": "t", "replyToId": "r",
            "attachments": [{"type": "image", "mimeType": "image/png", "content": "AA==",
                "fileName": "f", "sizeBytes": 1, "durationMs": 1.5, "width": 1, "height": 1}],
            "toolBindings": {"a": {}}, "timeoutMs": 0,
            "systemInputProvenance": {"kind": "external_user"}, "systemProvenanceReceipt": "r",
            "suppressCommandInterpretation": true, "expectedLeafEntryId": null,
            "expectedSessionRoutingContract": "c", "expectedPermissionMode": "guarded",
            "expectedToolOverrides": null, "idempotencyKey": "k",
        }),
        "ok",
    );
    check::<ChatAbort>(
        json!({"sessionKey": "s", "agentId": "a", "runId": "r", "preserveSideRuns": true}),
        "ok",
    );
    check::<ChatHistory>(
        json!({"sessionKey": "s", "agentId": "a", "cursor": "", "limit": 1000, "offset": 0,
               "pendingBefore": 1, "inputRunIds": ["r"], "messageId": "m", "sessionId": "s",
               "maxChars": 500_000}),
        "ok",
    );
    check::<SessionsList>(
        json!({"limit": 1, "offset": 0, "activeMinutes": 1, "requireLastInteraction": true,
               "sortBy": "lastInteractionAt", "includeGlobal": true, "includeUnknown": true,
               "configuredAgentsOnly": true, "includeDerivedTitles": true,
               "includeLastMessage": true, "label": "l", "boardFace": "chat", "creatorId": "c",
               "ownerId": "o", "ownerFirst": true, "involvingMe": true,
               "involvingProfileId": "p", "includePeople": true, "spawnedBy": "s",
               "agentId": "a", "search": "", "archived": "all"}),
        "ok",
    );
    check::<SessionsResolve>(
        json!({"key": "k", "sessionId": "i", "label": "l", "shortId": "s", "slugHint": "h",
               "agentId": "a", "spawnedBy": "s", "includeGlobal": true, "includeUnknown": true,
               "allowMissing": true}),
        "ok",
    );
    check::<SessionsGet>(json!({"key": "k", "limit": 1_000_000}), "ok");
    check::<SessionsReset>(json!({"key": "k", "agentId": "a", "reason": "new"}), "ok");
    check::<SessionsDelete>(
        json!({"key": "k", "agentId": "a", "deleteTranscript": true, "expectedSessionId": "i",
               "expectedLifecycleRevision": "r", "expectedSessionUpdatedAt": 1.5,
               "emitLifecycleHooks": true, "archivedOnly": true}),
        "ok",
    );
}

#[test]
fn patch_distinguishes_null_from_absent_and_sets_scope() {
    let check = |written: Value, expected: &str| {
        let patch = parse_params::<SessionsPatch>(Some(written)).unwrap();
        assert_eq!(patch.required_scope().as_str(), expected, "{patch:?}");
        patch
    };
    let patch = check(json!({"key": "k", "label": null}), "operator.write");
    assert_eq!((patch.label, patch.model), (Some(None), None));
    let fields =
        json!({"key": "k", "label": "l", "model": "m", "thinkingLevel": null, "fastMode": "auto"});
    check(fields, "operator.write");
    let known = SessionsPatch::checker().schema()["properties"].as_object().unwrap().clone();
    let own = ["key", "agentId", "label", "model", "thinkingLevel", "fastMode"];
    let rest: Vec<&String> = known.keys().filter(|name| !own.contains(&name.as_str())).collect();
    assert_eq!(rest.len(), 33);
    for name in rest {
        check(json!({"key": "k", name.as_str(): null}), "operator.admin");
    }
    let nothing = SessionsPatchParams { key: "k".to_owned(), ..Default::default() };
    assert_eq!(serde_json::to_value(nothing).unwrap(), json!({"key": "k"}));
}

/// The formats that limit a number or only describe it.
const FORMATS: [&str; 6] = ["uint8", "uint16", "uint32", "uint64", "int64", "double"];

fn collect_formats(schema: &Value, formats: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            formats.extend(fields.get("format").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect_formats(field, formats));
        }
        Value::Array(all) => all.iter().for_each(|one| collect_formats(one, formats)),
        _ => {}
    }
}

/// For each method its checker, and a validator of the `jsonschema` crate for the same schema.
fn checker_pairs() -> Vec<(&'static str, &'static ParamsChecker, jsonschema::Validator)> {
    let pair = |method: &MethodInfo| {
        let checker = (method.checker)();
        let other = jsonschema::draft202012::new(checker.schema()).unwrap();
        (method.name, checker, other)
    };
    methods().map(pair).collect()
}

static CHECKER_PAIRS: LazyLock<Vec<(&'static str, &'static ParamsChecker, jsonschema::Validator)>> =
    LazyLock::new(checker_pairs);

fn field_values() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3000).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!("")),
        Just(json!("text")),
        Just(json!("x".repeat(513))),
        prop::sample::select(vec!["cli", "allow-once", "steer", "new", "read", "completed"])
            .prop_map(Value::from),
    ];
    plain.prop_recursive(3, 16, 4, |inner| {
        let names = prop::sample::select(vec![
            "type", "text", "id", "version", "platform", "mode", "token", "name", "path", "data",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_checker_means_what_the_schema_says(
        method in any::<prop::sample::Index>(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), field_values()), 0..6),
        starts_complete: bool,
        unknown_field in prop::option::of(field_values()),
    ) {
        let (name, checker, other) = &CHECKER_PAIRS[method.index(CHECKER_PAIRS.len())];
        // A method without parameters has no properties.
        let none = Map::new();
        let known = checker.schema().get("properties").and_then(Value::as_object).unwrap_or(&none);
        let mut fields = Map::new();
        let required = checker.schema().get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter(|_| starts_complete) {
            let is_list = known[name.as_str().unwrap()]["type"] == "array";
            let filler = if is_list { json!([]) } else { json!("text") };
            fields.insert(name.as_str().unwrap().to_owned(), filler);
        }
        for (pick, value) in picks {
            let names: Vec<&String> = known.keys().collect();
            if names.is_empty() {
                break;
            }
            fields.insert(names[pick.index(names.len())].clone(), value);
        }
        fields.extend(unknown_field.map(|value| ("zzz".to_owned(), value)));
        let value = Value::Object(fields);
        let outcome = checker.check(&value);
        let is_valid = other.is_valid(&value);
        prop_assert_eq!(outcome.is_ok(), is_valid, "{}: {} {:?}", name, value, outcome);
    }
}

#[test]
fn every_schema_keyword_is_supported() {
    for method in methods() {
        let schema = (method.checker)().schema();
        assert!(ParamsChecker::supports(schema), "{}: {schema}", method.name);
        let mut formats = Vec::new();
        collect_formats(schema, &mut formats);
        for format in formats {
            assert!(FORMATS.contains(&format.as_str()), "{}: {format}", method.name);
        }
    }
}

#[track_caller]
fn check_supports(schema: Value, expected: bool) {
    assert_eq!(ParamsChecker::supports(&schema), expected, "{schema}");
}

#[test]
fn unsupported_keyword_is_detected_anywhere() {
    check_supports(json!(true), true);
    check_supports(json!(false), false);
    check_supports(json!({"type": "object", "additionalProperties": false}), true);
    check_supports(json!({"type": "integer", "minimum": 1}), true);
    check_supports(json!({"type": ["integer", "null"], "maximum": 1}), true);
    check_supports(json!({"type": "number", "minimum": 1}), false);
    check_supports(json!({"type": "integer", "minimum": 1.5}), false);
    check_supports(json!({"minimum": 1}), false);
    check_supports(json!({"type": "number"}), true);
    check_supports(json!({"oneOf": [{"type": "string"}], "anyOf": [{"type": "string"}]}), false);
    for place in ["items", "additionalProperties"] {
        check_supports(json!({place: {"pattern": "x"}}), false);
        check_supports(json!({place: {"type": "string"}}), true);
    }
    for place in ["oneOf", "anyOf"] {
        check_supports(json!({place: [{"type": "string"}, {"pattern": "x"}]}), false);
    }
    for word in ["pattern", "not", "allOf", "$ref", "uniqueItems", "exclusiveMinimum", "multipleOf"]
    {
        check_supports(json!({"properties": {"a": {word: {}}}}), false);
    }
}
