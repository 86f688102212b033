//! Conversations and the request bodies for them.

use proptest::prelude::*;

use super::*;
use crate::message::{ToolInput, share_messages};
use crate::model::ModelToolDefinition;
use crate::model::anthropic::AnthropicProtocol;
use crate::model::arbitrary_json::any_json;
use crate::model::conversation::tests::{call, result, user};
use crate::model::http_model::complete_body;

pub(crate) fn info(id: &str) -> ModelInfo {
    ModelInfo {
        name: format!("anthropic/{id}"),
        id: id.into(),
        family: "claude".into(),
        context_window: 200_000,
        output_tokens_max: 8_192,
        takes_images: true,
        prices: None,
    }
}

/// The whole body.
fn body(info: &ModelInfo, request: &ModelRequest) -> Value {
    complete_body(&AnthropicProtocol, info, request)
}

fn ask(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { messages: share_messages(messages), ..ModelRequest::default() }
}

fn tool(name: &str) -> ModelToolDefinition {
    let input_schema = json!({"type": "object"});
    ModelToolDefinition { name: name.into(), description: String::new(), input_schema }
}

fn image() -> MessageBlock {
    MessageBlock::Image { mime: "image/png".into(), data: "aW1n".into() }
}

fn thought(text: &str, opaque: Value) -> MessageBlock {
    MessageBlock::Thinking { text: text.into(), opaque }
}

/// Removes the cache marks, which have their own test.
fn strip_cache_marks(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(|field| *field = strip_cache_marks(field.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = strip_cache_marks(item.take()));
        }
        _ => {}
    }
    value
}

#[track_caller]
fn check_messages(messages: Vec<ModelMessage>, expected: Value) {
    let request = ModelRequest { tools: [tool("X")].into(), ..ask(messages) };
    let body = strip_cache_marks(body(&info("claude-sonnet-4-5"), &request));
    assert_eq!(body["messages"], expected);
}

#[test]
fn complete_request_is_encoded() {
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: share_messages(vec![ModelMessage::user("Hello")]),
        tools: [ModelToolDefinition {
            name: "Read".into(),
            description: "Reads a file.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }]
        .into(),
        output_tokens_max: Some(1_000),
        thinking: ThinkingEffort::Off,
        output_schema: None,
    };
    let mark = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 1000,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [{
            "name": "Read",
            "description": "Reads a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
            "cache_control": mark,
        }],
        "messages": [{
            "role": "user",
            "content": [{"type": "text", "text": "Hello", "cache_control": mark}],
        }],
    });
    assert_eq!(body(&info("claude-sonnet-4-5"), &request), expected);
}

#[test]
fn empty_content_is_left_out() {
    let body = body(&info("claude-sonnet-4-5"), &ask(vec![ModelMessage::user("a")]));
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["model", "max_tokens", "stream", "messages"]);
    assert_eq!(body["max_tokens"], 8_192);
}

#[test]
fn cache_marks_are_at_most_four() {
    let mut messages = Vec::new();
    for n in 0..10 {
        messages.push(ModelMessage::user(format!("q{n}")));
        messages.push(ModelMessage::assistant(vec![MessageBlock::text(format!("a{n}"))]));
    }
    messages.push(ModelMessage::user("last"));
    let request =
        ModelRequest { system: "s".into(), tools: [tool("A"), tool("B")].into(), ..ask(messages) };
    let body = body(&info("claude-sonnet-4-5"), &request);
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
    let marked: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message.to_string().contains("cache_control"))
        .map(|message| message["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(marked, ["q9", "last"]);
    assert!(body["tools"][1].to_string().contains("cache_control"));
}

#[test]
fn images_go_only_to_models_that_take_them() {
    let content = vec![
        ResultContent::Text { text: "seen:".into() },
        ResultContent::Image { mime: "image/webp".into(), data: "d2Vi".into() },
        ResultContent::Image { mime: "image/svg+xml".into(), data: "c3Zn".into() },
    ];
    let result =
        MessageBlock::ToolResult { id: "t".into(), name: "Look".into(), content, is_error: false };
    let messages = vec![
        user(vec![MessageBlock::text("See"), image()]),
        ModelMessage::assistant(vec![call("t", "Look")]),
        user(vec![result]),
    ];
    let image = |mime: &str, data: &str| {
        json!({"type": "image",
            "source": {"type": "base64", "media_type": mime, "data": data}})
    };
    check_messages(
        messages.clone(),
        json!([
            {"role": "user",
             "content": [{"type": "text", "text": "See"}, image("image/png", "aW1n")]},
            {"role": "assistant",
             "content": [{"type": "tool_use", "id": "t", "name": "Look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "text", "text": "seen:"},
                image("image/webp", "d2Vi"),
                {"type": "text",
                 "text": "(An image of the type `image/svg+xml`, which is not supported.)"},
            ]}]},
        ]),
    );
    let blind = ModelInfo { takes_images: false, ..info("claude-sonnet-4-5") };
    let body = body(&blind, &ask(messages)).to_string();
    assert!(!body.contains("base64") && !body.contains("aW1n"), "{body}");
    assert_eq!(body.matches("cannot see").count(), 3);
}

#[test]
fn tools_and_results_are_encoded() {
    let failed = MessageBlock::ToolResult {
        id: "b".into(),
        name: "Bash".into(),
        content: vec![ResultContent::Text { text: "exit 1".into() }],
        is_error: true,
    };
    let silent = result("c", "Bash", " ");
    check_messages(
        vec![
            ModelMessage::user("Go"),
            ModelMessage::assistant(vec![
                MessageBlock::text("Now."),
                MessageBlock::text(""),
                MessageBlock::ToolUse {
                    id: "a".into(),
                    name: "Read".into(),
                    input: ToolInput::from(json!({"z": 1, "a": 2})),
                    opaque: Value::Null,
                },
                call("b", "Bash"),
                call("c", "Bash"),
                call("d", "Bash"),
            ]),
            user(vec![silent, failed]),
            user(vec![MessageBlock::text("And?"), result("a", "Read", "text")]),
        ],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Now."},
                {"type": "tool_use", "id": "a", "name": "Read", "input": {"z": 1, "a": 2}},
                {"type": "tool_use", "id": "b", "name": "Bash", "input": {}},
                {"type": "tool_use", "id": "c", "name": "Bash", "input": {}},
                {"type": "tool_use", "id": "d", "name": "Bash", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a",
                 "content": [{"type": "text", "text": "text"}]},
                {"type": "tool_result", "tool_use_id": "b",
                 "content": [{"type": "text", "text": "exit 1"}], "is_error": true},
                {"type": "tool_result", "tool_use_id": "c"},
                {"type": "tool_result", "tool_use_id": "d",
                 "content": [{"type": "text", "text": "This call was not run."}],
                 "is_error": true},
                {"type": "text", "text": "And?"},
            ]},
        ]),
    );
}

#[test]
fn unreadable_arguments_become_object() {
    let input = ToolInput::Unreadable { unreadable: "{\"a".into(), why: "EOF".into() };
    let bad =
        MessageBlock::ToolUse { id: "a".into(), name: "X".into(), input, opaque: Value::Null };
    let messages = vec![
        ModelMessage::user("Go"),
        ModelMessage::assistant(vec![bad]),
        user(vec![result("a", "X", "not JSON")]),
    ];
    let body = body(&info("claude-sonnet-4-5"), &ask(messages));
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({"unreadable": "{\"a"}));
}

#[test]
fn call_ids_match_pattern_and_are_unique() {
    let ids = ["toolu_1", "toolu_1", "fc:1|2", "fc:1|2", "", "toolu_1_again", "ä"];
    let mut messages = Vec::new();
    for id in ids {
        messages.push(ModelMessage::user("q"));
        messages.push(ModelMessage::assistant(vec![call(id, "weird tool.name")]));
        messages.push(user(vec![result(id, "weird tool.name", "r")]));
    }
    let body = body(&info("claude-sonnet-4-5"), &ask(messages));
    let messages = body["messages"].as_array().unwrap();
    let of = |kind: &str, field: &str| -> Vec<String> {
        let blocks = messages.iter().flat_map(|message| message["content"].as_array().unwrap());
        blocks
            .filter(|block| block["type"] == kind)
            .map(|block| block[field].as_str().unwrap().to_owned())
            .collect()
    };
    let sent = of("tool_use", "id");
    assert_eq!(sent, of("tool_result", "tool_use_id"));
    assert!(sent.iter().all(|id| is_plain_id(id)), "{sent:?}");
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{sent:?}");
    assert_eq!(sent[0], "toolu_1");
    assert_eq!(sent[1], "toolu_1_again");
    assert_eq!(sent[2], format!("call_{}", short_hash("fc:1|2")));
    assert!(of("tool_use", "name").iter().all(|name| is_plain_id(name)));
}

#[test]
fn hundred_parallel_calls_and_results_are_encoded() {
    let ids: Vec<String> = (0..100).map(|n| format!("toolu_{n}")).collect();
    let messages = vec![
        ModelMessage::user("Go"),
        ModelMessage::assistant(ids.iter().map(|id| call(id, "Read")).collect()),
        user(ids.iter().rev().map(|id| result(id, "Read", id)).collect()),
    ];
    let uses: Vec<Value> = ids
        .iter()
        .map(|id| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}}))
        .collect();
    let results: Vec<Value> = ids
        .iter()
        .map(|id| {
            json!({"type": "tool_result", "tool_use_id": id,
                "content": [{"type": "text", "text": id}]})
        })
        .collect();
    check_messages(
        messages,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        ]),
    );
}

#[test]
fn thoughts_go_back_unchanged_in_order() {
    let model = "claude-sonnet-4-5-20250929";
    check_messages(
        vec![
            ModelMessage::user("Go"),
            ModelMessage::assistant(vec![
                thought("Hm", json!({"type": "thinking", "signature": "c2ln", "model": model})),
                thought("", json!({"type": "redacted_thinking", "data": "ZW5j", "model": model})),
                thought("", json!({"type": "thinking", "signature": "aGlk"})),
                call("a", "X"),
            ]),
            user(vec![result("a", "X", "r")]),
        ],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZW5j"},
                {"type": "thinking", "thinking": "", "signature": "aGlk"},
                {"type": "tool_use", "id": "a", "name": "X", "input": {}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
                "content": [{"type": "text", "text": "r"}]}]},
        ]),
    );
}

#[test]
fn unacceptable_thoughts_are_left_out() {
    for opaque in [
        Value::Null,
        json!({"type": "thinking"}),
        json!({"type": "thinking", "signature": ""}),
        json!({"type": "reasoning", "encrypted_content": "x"}),
        json!({"thoughtSignature": "x"}),
        json!({"type": "thinking", "signature": "s", "model": "claude-opus-4-5"}),
        json!({"type": "thinking", "signature": "s", "model": "claude-sonnet-4-6"}),
    ] {
        let blocks = vec![thought("secret", opaque.clone()), MessageBlock::text("a")];
        let messages =
            vec![ModelMessage::user("q"), ModelMessage::assistant(blocks), ModelMessage::user("r")];
        let body = body(&info("claude-sonnet-4-5"), &ask(messages));
        assert_eq!(
            body["messages"][1]["content"],
            json!([{"type": "text", "text": "a"}]),
            "{opaque}"
        );
    }
}

#[test]
fn thinking_levels_are_mapped() {
    use ThinkingEffort::*;
    let budget = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    let adaptive = || json!({"thinking": {"type": "adaptive", "display": "summarized"}});
    let effort = |effort: &str| {
        let mut fields = adaptive();
        fields["output_config"] = json!({"effort": effort});
        fields
    };
    for (id, output_max, level, expected) in [
        ("claude-sonnet-4-5", 64_000, Default, json!({})),
        ("claude-sonnet-4-5", 64_000, Off, json!({})),
        ("claude-sonnet-4-5", 64_000, Low, budget(4_096)),
        ("claude-sonnet-4-5", 64_000, Medium, budget(12_288)),
        ("claude-3-7-sonnet-latest", 64_000, High, budget(32_768)),
        ("claude-sonnet-4-5", 8_000, High, budget(6_000)),
        ("claude-sonnet-4-5", 1_200, High, json!({})),
        ("claude-sonnet-4-5", 0, High, json!({})),
        ("claude-3-5-haiku-latest", 8_192, High, json!({})),
        ("some-other-model", 64_000, Low, budget(4_096)),
        ("claude-opus-4-6", 64_000, Default, adaptive()),
        ("claude-opus-4-7", 64_000, Off, json!({})),
        ("claude-opus-4-7", 64_000, Low, effort("low")),
        ("claude-opus-4-7", 64_000, Medium, effort("medium")),
        ("claude-opus-5-5", 64_000, High, effort("high")),
        ("claude-opus-5-5", 64_000, Default, adaptive()),
        ("claude-fable-5", 64_000, Off, effort("low")),
        ("claude-mythos-preview", 64_000, High, effort("high")),
    ] {
        let info = ModelInfo { output_tokens_max: output_max, ..info(id) };
        let request = ModelRequest { thinking: level, ..ask(vec![ModelMessage::user("q")]) };
        let body = body(&info, &request);
        let mut found = Map::new();
        for field in ["thinking", "output_config"] {
            found.extend(body.get(field).map(|value| (field.to_owned(), value.clone())));
        }
        assert_eq!(Value::Object(found), expected, "{id} {level:?} {output_max}");
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
        assert!(budget < body["max_tokens"].as_u64().unwrap());
    }
}

#[test]
fn turn_started_without_thought_gets_no_thinking() {
    let signed = || thought("t", json!({"type": "thinking", "signature": "s"}));
    for (blocks, expected) in [
        (vec![call("a", "X")], false),
        (vec![MessageBlock::text("Hm"), signed(), call("a", "X")], false),
        (vec![signed(), call("a", "X")], true),
    ] {
        let messages = vec![
            ModelMessage::user("q"),
            ModelMessage::assistant(blocks),
            user(vec![result("a", "X", "r")]),
        ];
        let tools = vec![tool("X")];
        let request =
            ModelRequest { thinking: ThinkingEffort::Low, tools: tools.into(), ..ask(messages) };
        let body = body(&info("claude-sonnet-4-5"), &request);
        assert_eq!(body.get("thinking").is_some(), expected);
    }
}

#[test]
fn tools_are_declared_when_history_has_calls() {
    let signed = thought("t", json!({"type": "thinking", "signature": "s"}));
    let messages = vec![
        ModelMessage::user("q"),
        ModelMessage::assistant(vec![
            signed,
            call("a", "Read"),
            call("b", "Read"),
            call("c", "Bash"),
        ]),
        ModelMessage::user("Sum it up."),
    ];
    let body = strip_cache_marks(body(&info("claude-sonnet-4-5"), &ask(messages)));
    assert_eq!(
        body["tools"],
        json!([
            {"name": "Bash", "input_schema": {"type": "object"}},
            {"name": "Read", "input_schema": {"type": "object"}},
        ])
    );
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let kinds = body["messages"][1]["content"].as_array().unwrap().iter().map(|b| &b["type"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["tool_use"; 3], "thoughts stay behind");
}

const WORDS: &[&str] = &["type", "thinking", "redacted_thinking", "signature", "data", "model"];

proptest! {
    /// Transcripts may have been written by other versions.
    #[test]
    fn no_transcript_panics(
        opaque in any_json(WORDS), input in any_json(WORDS), id in ".{0,80}", name in ".{0,80}",
        model in ".{0,20}",
    ) {
        let blocks = vec![
            thought(&name, opaque.clone()),
            MessageBlock::ToolUse {
                id: id.clone(), name: name.clone(), input: ToolInput::from(input), opaque,
            },
        ];
        let messages = vec![ModelMessage::assistant(blocks), user(vec![result(&id, &name, &name)])];
        let body = body(&info(&model), &ask(messages));
        prop_assert_eq!(body["messages"][0]["role"].as_str(), Some("user"));
    }
}
