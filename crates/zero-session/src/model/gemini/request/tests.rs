//! Conversations and the request bodies for them.

use proptest::prelude::*;

use super::*;
use crate::message::{MessageBlock, ModelMessage, ToolInput, share_messages};
use crate::model::arbitrary_json::any_json;
use crate::model::conversation::tests::{call, result, user};
use crate::model::gemini::GeminiProtocol;
use crate::model::http_model::complete_body;

pub(crate) fn info(id: &str) -> ModelInfo {
    ModelInfo {
        name: format!("gemini/{id}"),
        id: id.into(),
        family: "gemini".into(),
        context_window: 1_000_000,
        output_tokens_max: 65_536,
        takes_images: true,
        prices: None,
    }
}

/// The whole body.
fn body(info: &ModelInfo, request: &ModelRequest) -> Value {
    complete_body(&GeminiProtocol, info, request)
}

fn ask(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { messages: share_messages(messages), ..ModelRequest::default() }
}

fn contents(id: &str, messages: Vec<ModelMessage>) -> Value {
    body(&info(id), &ask(messages))["contents"].take()
}

fn thought(text: &str, opaque: Value) -> MessageBlock {
    MessageBlock::Thinking { text: text.into(), opaque }
}

fn signed_call(id: &str, name: &str, opaque: Value) -> MessageBlock {
    let input = ToolInput::from(json!({"z": 1, "a": 2}));
    MessageBlock::ToolUse { id: id.into(), name: name.into(), input, opaque }
}

#[test]
fn complete_request_is_encoded() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"mode": {"const": "x"}},
        "additionalProperties": false,
    });
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: share_messages(vec![ModelMessage::user("Hello"), ModelMessage::user("there")]),
        tools: [ModelToolDefinition {
            name: "Read".into(),
            description: "Reads a file.".into(),
            input_schema: schema,
        }]
        .into(),
        output_tokens_max: Some(1_000),
        thinking: ThinkingEffort::Default,
        output_schema: None,
    };
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}, {"text": "there"}]}],
        "tools": [{"functionDeclarations": [{
            "name": "Read",
            "description": "Reads a file.",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"mode": {"const": "x"}},
                "additionalProperties": false,
            },
        }]}],
        "generationConfig": {
            "maxOutputTokens": 1000,
            "thinkingConfig": {"includeThoughts": true},
        },
    });
    assert_eq!(body(&info("gemini-2.5-flash"), &request), expected);
}

#[test]
fn empty_content_is_left_out() {
    let body = body(&info("gemini-2.0-flash"), &ask(vec![ModelMessage::user("a")]));
    let expected = json!({
        "contents": [{"role": "user", "parts": [{"text": "a"}]}],
        "generationConfig": {"maxOutputTokens": 65_536},
    });
    assert_eq!(body, expected);
}

#[test]
fn tool_round_trip_is_encoded() {
    let failed = MessageBlock::ToolResult {
        id: "call_2".into(),
        name: "Bash".into(),
        content: vec![ResultContent::Text { text: "exit 1".into() }],
        is_error: true,
    };
    let model = "gemini-3-pro-preview";
    let opaque = json!({"id": "x1", "thoughtSignature": "czE=", "model": model});
    let messages = vec![
        ModelMessage::user("Go"),
        ModelMessage::assistant(vec![
            MessageBlock::text("Now."),
            signed_call("x1", "Read", opaque),
            call("call_2", "Bash"),
            call("call_3", "Bash"),
        ]),
        user(vec![failed, result("x1", "Read", "text"), MessageBlock::text("And?")]),
    ];
    let expected = json!([
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [
            {"text": "Now."},
            {"functionCall": {"id": "x1", "name": "Read", "args": {"z": 1, "a": 2}},
             "thoughtSignature": "czE="},
            {"functionCall": {"name": "Bash", "args": {}}},
            {"functionCall": {"name": "Bash", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "x1", "name": "Read", "response": {"output": "text"}}},
            {"functionResponse": {"name": "Bash", "response": {"error": "exit 1"}}},
            {"functionResponse": {"name": "Bash",
                "response": {"error": "This call was not run."}}},
            {"text": "And?"},
        ]},
    ]);
    assert_eq!(contents("gemini-3-pro", messages), expected);
}

#[test]
fn newer_models_get_first_call_signed() {
    let foreign = json!({"thoughtSignature": "czE=", "model": "gemini-2.5-pro"});
    let messages = || {
        vec![
            ModelMessage::user("Go"),
            ModelMessage::assistant(vec![signed_call("a", "X", foreign.clone()), call("b", "X")]),
        ]
    };
    let signatures = |id: &str| {
        let contents = contents(id, messages());
        let parts = contents[1]["parts"].as_array().unwrap();
        parts
            .iter()
            .map(|part| part["thoughtSignature"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let stand_in = || Some(NO_SIGNATURE.to_owned());
    assert_eq!(signatures("gemini-3-flash"), [stand_in(), None]);
    assert_eq!(signatures("gemini-2.5-pro"), [Some("czE=".to_owned()), None]);
    assert_eq!(signatures("gemini-2.5-flash"), [None, None]);
    assert_eq!(signatures("gemma-3"), [Some("czE=".to_owned()), None]);
}

#[test]
fn signed_thoughts_go_back() {
    let model = "gemini-3-pro-preview";
    let blocks = vec![
        thought("shown only", Value::Null),
        thought("Hm", json!({"thoughtSignature": "dDE=", "model": model})),
        MessageBlock::text("So"),
        thought("", json!({"thoughtSignature": "dDI=", "part": "text", "model": model})),
        thought("other", json!({"type": "thinking", "signature": "x"})),
        thought("old", json!({"thoughtSignature": "x", "model": "gemini-2.5-pro"})),
    ];
    let messages =
        vec![ModelMessage::user("q"), ModelMessage::assistant(blocks), ModelMessage::user("r")];
    let expected = json!([
        {"text": "Hm", "thought": true, "thoughtSignature": "dDE="},
        {"text": "So"},
        {"text": "", "thoughtSignature": "dDI="},
    ]);
    assert_eq!(contents("gemini-3-pro", messages)[1]["parts"], expected);
}

#[test]
fn images_go_only_to_models_that_take_them() {
    let content = vec![
        ResultContent::Text { text: "seen:".into() },
        ResultContent::Image { mime: "image/png".into(), data: "cG5n".into() },
        ResultContent::Image { mime: "image/gif".into(), data: "Z2lm".into() },
    ];
    let looked = |id: &str| MessageBlock::ToolResult {
        id: id.into(),
        name: "Look".into(),
        content: content.clone(),
        is_error: false,
    };
    let image = MessageBlock::Image { mime: "image/jpeg".into(), data: "anBn".into() };
    let messages = vec![
        user(vec![MessageBlock::text("See"), image]),
        ModelMessage::assistant(vec![call("a", "Look"), call("b", "Look")]),
        user(vec![MessageBlock::text("Well?"), looked("a"), looked("b")]),
    ];
    let inline = |mime: &str, data: &str| json!({"inlineData": {"mimeType": mime, "data": data}});
    let output = "seen:\n(An image of the type `image/gif`, which is not supported.)";

    let new = contents("gemini-3-pro", messages.clone());
    assert_eq!(new[0]["parts"], json!([{"text": "See"}, inline("image/jpeg", "anBn")]));
    let answer = json!({"functionResponse": {"name": "Look", "response": {"output": output},
        "parts": [inline("image/png", "cG5n")]}});
    assert_eq!(new[2]["parts"], json!([answer, answer, {"text": "Well?"}]));

    let old = contents("gemini-2.5-pro", messages.clone());
    let answer = json!({"functionResponse": {"name": "Look", "response": {"output": output}}});
    let caption = json!({"text": "(Image from `Look`:)"});
    let image = inline("image/png", "cG5n");
    assert_eq!(
        old[2]["parts"],
        json!([answer, answer, caption, image, caption, image, {"text": "Well?"}])
    );

    let blind = ModelInfo { takes_images: false, ..info("gemini-3-pro") };
    let body = body(&blind, &ask(messages)).to_string();
    assert!(!body.contains("inlineData"), "{body}");
}

#[test]
fn unreadable_arguments_become_object() {
    let input = ToolInput::Unreadable { unreadable: "{\"a".into(), why: "EOF".into() };
    let bad =
        MessageBlock::ToolUse { id: "a".into(), name: "X".into(), input, opaque: Value::Null };
    let messages = vec![ModelMessage::user("Go"), ModelMessage::assistant(vec![bad])];
    let args = contents("gemini-2.5-pro", messages)[1]["parts"][0]["functionCall"]["args"].take();
    assert_eq!(args, json!({"unreadable": "{\"a"}));
}

#[test]
fn hundred_parallel_calls_and_results_are_encoded() {
    let ids: Vec<String> = (0..100).map(|n| format!("call_{n}")).collect();
    let messages = vec![
        ModelMessage::user("Go"),
        ModelMessage::assistant(ids.iter().map(|id| call(id, "Read")).collect()),
        user(ids.iter().rev().map(|id| result(id, "Read", id)).collect()),
    ];
    let calls = vec![json!({"functionCall": {"name": "Read", "args": {}}}); 100];
    let results: Vec<Value> = ids
        .iter()
        .map(|id| json!({"functionResponse": {"name": "Read", "response": {"output": id}}}))
        .collect();
    let expected = json!([
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": results},
    ]);
    assert_eq!(contents("gemini-2.5-pro", messages), expected);
}

#[test]
fn thinking_levels_are_mapped() {
    use ThinkingEffort::*;
    let shown = json!({"includeThoughts": true});
    let budget = |tokens: u64| json!({"includeThoughts": true, "thinkingBudget": tokens});
    let word = |word: &str| json!({"includeThoughts": true, "thinkingLevel": word});
    for (id, level, expected) in [
        ("gemini-2.0-flash", High, Value::Null),
        ("gemma-3-27b-it", High, Value::Null),
        ("gemini-2.5-flash", Default, shown.clone()),
        ("gemini-2.5-flash", Off, json!({"includeThoughts": false, "thinkingBudget": 0})),
        ("gemini-2.5-pro", Off, json!({"includeThoughts": false, "thinkingBudget": 128})),
        ("gemini-2.5-pro", Low, budget(2_048)),
        ("gemini-2.5-flash-lite", Medium, budget(8_192)),
        ("models/gemini-2.5-flash", High, budget(24_576)),
        ("gemini-3-pro-preview", Default, shown.clone()),
        ("gemini-3-pro-preview", Off, json!({"includeThoughts": false, "thinkingLevel": "LOW"})),
        ("gemini-3-pro-preview", Low, word("LOW")),
        ("gemini-3-pro-preview", Medium, shown.clone()),
        ("gemini-3.1-pro-preview", Medium, word("MEDIUM")),
        ("gemini-3-flash", Medium, word("MEDIUM")),
        ("gemini-4-argon", High, word("HIGH")),
        ("gemini-flash-latest", High, shown.clone()),
        ("gemini-flash-latest", Off, json!({"includeThoughts": false})),
    ] {
        let request = ModelRequest { thinking: level, ..ask(vec![ModelMessage::user("q")]) };
        let body = body(&info(id), &request);
        assert_eq!(body["generationConfig"]["thinkingConfig"], expected, "{id} {level:?}");
    }
}

const WORDS: &[&str] = &["thoughtSignature", "part", "text", "id", "model", "gemini-3-pro"];

proptest! {
    /// Transcripts may have been written by other versions.
    #[test]
    fn no_transcript_panics(
        opaque in any_json(WORDS), input in any_json(WORDS), id in ".{0,80}", name in ".{0,80}",
    ) {
        let blocks = vec![
            thought(&name, opaque.clone()),
            MessageBlock::ToolUse {
                id: id.clone(), name: name.clone(), input: ToolInput::from(input), opaque,
            },
        ];
        let messages = vec![ModelMessage::assistant(blocks), user(vec![result(&id, &name, &name)])];
        let contents = contents("gemini-3-pro", messages);
        prop_assert_eq!(contents[0]["role"].as_str(), Some("user"));
    }
}
