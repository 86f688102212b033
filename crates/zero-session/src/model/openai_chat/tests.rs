//! Table: requests sent and replies decoded.

use serde_json::{Value, json};
use url::Url;

use super::OpenAiChatProtocol;
use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput, share_messages};
use crate::model::http_model::complete_body;
use crate::model::model_config::ApiKey;
use crate::model::protocol::ModelProtocol;
use crate::model::{
    ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStopReason,
    ModelToolDefinition, ThinkingEffort,
};

fn info(id: &str, family: &str) -> ModelInfo {
    ModelInfo {
        name: format!("x/{id}"),
        id: id.to_owned(),
        family: family.to_owned(),
        context_window: 100_000,
        output_tokens_max: 1000,
        takes_images: true,
        prices: None,
    }
}

fn protocol_at(base: &str) -> OpenAiChatProtocol {
    OpenAiChatProtocol::for_base_url(Some(&Url::parse(base).unwrap()))
}

fn request_body(request: &ModelRequest) -> Value {
    complete_body(&protocol_at("http://localhost/v1"), &info("qwen3", "qwen"), request)
}

fn call(id: &str, input: Value) -> MessageBlock {
    let input = ToolInput::from(input);
    MessageBlock::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input, opaque: Value::Null }
}

fn result(id: &str, content: Vec<ResultContent>, is_error: bool) -> MessageBlock {
    MessageBlock::ToolResult { id: id.to_owned(), name: "Read".to_owned(), content, is_error }
}

#[test]
fn conversation_is_encoded_portably() {
    let image = ResultContent::Image { mime: "image/png".into(), data: "AA==".into() };
    let text = ResultContent::Text { text: "hello".into() };
    let request = ModelRequest {
        system: "You help.".into(),
        messages: share_messages(vec![
            ModelMessage::user("look"),
            ModelMessage::assistant(vec![
                MessageBlock::Thinking {
                    text: "hm".into(),
                    opaque: json!({"openai_chat": {"field": "reasoning"}}),
                },
                MessageBlock::text("I look"),
                call("1", json!({"path": "a"})),
                call("2", json!({})),
            ]),
            ModelMessage {
                role: MessageRole::User,
                blocks: vec![
                    result("1", vec![text, image], false),
                    result("2", vec![ResultContent::Text { text: "no".into() }], true),
                    MessageBlock::text("and then?"),
                ],
            },
        ]),
        tools: [ModelToolDefinition {
            name: "Read".into(),
            description: "Reads".into(),
            input_schema: json!({"type": "object"}),
        }]
        .into(),
        output_tokens_max: Some(500),
        thinking: ThinkingEffort::High,
        output_schema: None,
    };
    assert_eq!(
        request_body(&request),
        json!({
            "model": "qwen3",
            "messages": [
                {"role": "system", "content": "You help."},
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": "I look", "reasoning": "hm", "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"a\"}"}},
                    {"id": "2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "1", "content": "hello"},
                {"role": "tool", "tool_call_id": "2", "content": "error: no"},
                {"role": "user", "content": [
                    {"type": "text", "text": "From `Read`:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "text", "text": "and then?"},
                ]},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "Read", "description": "Reads", "parameters": {"type": "object"}}}],
            "max_tokens": 500,
        })
    );
}

#[test]
fn old_thoughts_and_empty_messages_are_not_sent() {
    let thought = |text: &str| MessageBlock::Thinking {
        text: text.to_owned(),
        opaque: json!({"openai_chat": {"field": "reasoning_content"}}),
    };
    let foreign = MessageBlock::Thinking { text: "x".into(), opaque: json!({"signature": "abc"}) };
    let request = ModelRequest {
        messages: share_messages(vec![
            ModelMessage::user("one"),
            ModelMessage::assistant(vec![thought("old"), call("1", json!({}))]),
            ModelMessage { role: MessageRole::User, blocks: vec![result("1", vec![], false)] },
            ModelMessage::assistant(vec![thought("nothing more")]),
            ModelMessage::user("two"),
            ModelMessage::assistant(vec![foreign, thought("new"), call("2", json!({}))]),
            ModelMessage { role: MessageRole::User, blocks: vec![result("2", vec![], false)] },
        ]),
        ..ModelRequest::default()
    };
    let body = request_body(&request);
    assert!(body.get("tools").is_none() && body.get("max_tokens").is_none());
    let messages = body["messages"].as_array().unwrap();
    let thoughts: Vec<&str> = messages
        .iter()
        .map(|message| message["reasoning_content"].as_str().unwrap_or("-"))
        .collect();
    assert_eq!(thoughts, ["-", "-", "-", "-", "new", "-"]);
}

#[test]
fn unreadable_arguments_go_back_as_json() {
    let input = ToolInput::parse("{\"a\": ");
    assert!(matches!(input, ToolInput::Unreadable { .. }));
    let block =
        MessageBlock::ToolUse { id: "1".into(), name: "Read".into(), input, opaque: Value::Null };
    let messages =
        share_messages(vec![ModelMessage::user("x"), ModelMessage::assistant(vec![block])]);
    let body = request_body(&ModelRequest { messages, ..ModelRequest::default() });
    let arguments = body["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(arguments, r#"{"unreadable_arguments":"{\"a\": "}"#);
}

#[test]
fn each_server_gets_only_known_fields() {
    #[track_caller]
    fn check(base: &str, id: &str, thinking: ThinkingEffort, expected: &str) {
        let request =
            ModelRequest { output_tokens_max: Some(7), thinking, ..ModelRequest::default() };
        let body = complete_body(&protocol_at(base), &info(id, "any"), &request);
        let fields = ["max_tokens", "max_completion_tokens", "reasoning_effort"];
        let found = fields.iter().filter_map(|field| Some(format!("{field}={}", body.get(field)?)));
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{base} {id}");
    }
    let (openai, other) = ("https://api.openai.com/v1", "https://openrouter.ai/api/v1");
    check(openai, "gpt-4o", ThinkingEffort::High, "max_completion_tokens=7");
    check(
        openai,
        "gpt-5",
        ThinkingEffort::High,
        "max_completion_tokens=7 reasoning_effort=\"high\"",
    );
    check(openai, "gpt-5", ThinkingEffort::Default, "max_completion_tokens=7");
    check("https://x.openai.azure.com/v1", "mine", ThinkingEffort::Low, "max_completion_tokens=7");
    check(
        other,
        "openai/o3",
        ThinkingEffort::Off,
        "max_completion_tokens=7 reasoning_effort=\"low\"",
    );
    check(other, "qwen/qwen3-coder", ThinkingEffort::High, "max_tokens=7");
}

#[test]
fn key_header_depends_on_server() {
    let key = ApiKey::new("k");
    let headers = |base: &str| protocol_at(base).headers(Some(&key));
    assert_eq!(headers("https://api.openai.com/v1"), [("authorization", "Bearer k".to_owned())]);
    assert_eq!(headers("https://x.openai.azure.com"), [("api-key", "k".to_owned())]);
    assert!(protocol_at("http://localhost").headers(None).is_empty());
}

#[test]
fn mistral_call_ids_are_shortened() {
    let messages = vec![
        ModelMessage::user("x"),
        ModelMessage::assistant(vec![
            call("call_0123456789abcdef", json!({})),
            call("abcDEF123", json!({})),
        ]),
        ModelMessage {
            role: MessageRole::User,
            blocks: vec![result("call_0123456789abcdef", vec![], false)],
        },
    ];
    let request = ModelRequest { messages: share_messages(messages), ..ModelRequest::default() };
    let mistral = protocol_at("https://api.mistral.ai/v1");
    let body = complete_body(&mistral, &info("mistral-large", "mistral"), &request);
    let id = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][2]["tool_call_id"], id);
    assert_eq!(body["messages"][1]["tool_calls"][1]["id"], "abcDEF123");
}

/// Decodes a reply; returns the streamed events and the result.
fn decode(chunks: &[&str]) -> (Vec<ModelEvent>, Result<ModelReply, ModelError>) {
    let mut decoder = protocol_at("http://localhost").new_decoder();
    let mut events = Vec::new();
    for chunk in chunks {
        match decoder.decode_event("", chunk) {
            Ok(more) => events.extend(more),
            Err(error) => return (events, Err(error)),
        }
    }
    (events, decoder.finish())
}

/// A reply in short form: events, then blocks and the stop reason.
fn render_short(chunks: &[&str]) -> String {
    let (events, end) = decode(chunks);
    let mut lines: Vec<String> = events
        .iter()
        .map(|event| match event {
            ModelEvent::Text(text) => format!("text {text}"),
            ModelEvent::Thought(text) => format!("thought {text}"),
            ModelEvent::ToolUse { id, name } => format!("tool {} {name}", mask_generated_id(id)),
            other => format!("{other:?}"),
        })
        .collect();
    match end {
        Err(error) => lines.push(format!("{}: {}", error.kind.as_str(), error.message)),
        Ok(reply) => {
            lines.extend(reply.blocks.iter().map(|block| match block {
                MessageBlock::Text { text } => format!("= {text}"),
                MessageBlock::Thinking { text, .. } => format!("= ({text})"),
                MessageBlock::ToolUse { id, name, input: ToolInput::Json(input), .. } => {
                    format!("= {} {name}{input}", mask_generated_id(id))
                }
                MessageBlock::ToolUse {
                    id,
                    name,
                    input: ToolInput::Unreadable { unreadable, .. },
                    ..
                } => {
                    format!("= {} {name}?{unreadable}", mask_generated_id(id))
                }
                other => format!("{other:?}"),
            }));
            lines.push(format!("{:?}", reply.stop));
        }
    }
    lines.join(" | ")
}

/// The id, or `new` for a generated one.
fn mask_generated_id(id: &str) -> &str {
    if id.len() == 21 && id.starts_with("call_") { "new" } else { id }
}

#[track_caller]
fn check(chunks: &[&str], expected: &str) {
    assert_eq!(render_short(chunks), expected);
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

fn end(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

#[test]
fn text_and_thoughts_keep_order() {
    let events = [
        delta(r#"{"role":"assistant","content":""}"#),
        delta(r#"{"reasoning_content":"let me","content":null}"#),
        delta(r#"{"reasoning":" see"}"#),
        delta(r#"{"content":"He"}"#),
        delta(r#"{"content":"llo"}"#),
        end("stop"),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    check(
        &events,
        "thought let me | thought  see | text He | text llo | = (let me see) | = Hello | End",
    );
    let parts = delta(
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}"#,
    );
    check(&[&parts, &end("stop")], "thought hm | text yes | = (hm) | = yes | End");
    let both = delta(r#"{"reasoning_content":"once","reasoning":"once"}"#);
    check(&[&both, &end("stop")], "thought once | = (once) | End");
}

#[test]
fn calls_are_assembled_from_any_split() {
    let usual = [
        delta(
            r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"Read","arguments":""}}]}"#,
        ),
        delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":"}}]}"#),
        delta(
            r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"Grep","arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}"#,
        ),
        end("tool_calls"),
    ];
    let usual: Vec<&str> = usual.iter().map(String::as_str).collect();
    check(&usual, r#"tool a Read | tool b Grep | = a Read{"p":1} | = b Grep{} | ToolUse"#);

    // Without an index, an id or a name begins a call; a delta with neither continues the last one.
    let unnumbered = [
        delta(r#"{"tool_calls":[{"id":"a","function":{"name":"Read","arguments":"{\"p\""}}]}"#),
        delta(r#"{"tool_calls":[{"function":{"arguments":":1}"}}]}"#),
        delta(
            r#"{"tool_calls":[{"id":"b","function":{"name":"Read","arguments":"{}"}},{"function":{"name":"Grep","arguments":"{}"}}]}"#,
        ),
        end("stop"),
    ];
    let unnumbered: Vec<&str> = unnumbered.iter().map(String::as_str).collect();
    check(
        &unnumbered,
        r#"tool a Read | tool b Read | tool new Grep | = a Read{"p":1} | = b Read{} | = new Grep{} | ToolUse"#,
    );

    // All calls with the same index, arguments as objects.
    let zeros = delta(
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"Read","arguments":{"p":1}}},{"index":0,"id":"b","function":{"name":"Read","arguments":{}}}]}"#,
    );
    check(
        &[&zeros, &end("stop")],
        r#"tool a Read | tool b Read | = a Read{"p":1} | = b Read{} | ToolUse"#,
    );

    // A very large index is an identifier like any other.
    let far =
        delta(r#"{"tool_calls":[{"index":18446744073709551615,"function":{"name":"Read"}}]}"#);
    check(&[&far, &end("tool_calls")], "tool new Read | = new Read{} | ToolUse");

    let old = [
        delta(r#"{"function_call":{"name":"Read","arguments":"{\"p\":"}}"#),
        delta(r#"{"function_call":{"arguments":"1}"}}"#),
        end("function_call"),
    ];
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    check(&old, r#"tool new Read | = new Read{"p":1} | ToolUse"#);

    let bad = delta(
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"NoSuchTool","arguments":"{oops"}},{"index":1,"id":"c","function":{"arguments":"{}"}}]}"#,
    );
    check(
        &[&bad, &end("tool_calls")],
        "tool a NoSuchTool | = a NoSuchTool?{oops | = c unnamed{} | ToolUse",
    );
}

#[test]
fn reply_ends_on_finish_reason() {
    let hi = delta(r#"{"content":"hi"}"#);
    let broken = "network: the connection broke in mid-answer; send the message again";
    check(&[&hi, &end("stop")], "text hi | = hi | End");
    check(&[&hi, "[DONE]"], "text hi | = hi | End");
    check(&[&hi], &format!("text hi | {broken}"));
    check(&[], broken);
    check(&["[DONE]"], broken);
    check(&[&hi, &end("length"), "[DONE]"], "text hi | = hi | MaxTokens");
    check(&[&hi, &end("eos")], "text hi | = hi | End");
    check(&[&end("tool_calls")], "End");
    let filter = r#"Refusal("the provider's content filter stopped the answer")"#;
    check(&[&hi, &end("content_filter")], &format!("text hi | = hi | {filter}"));
    let refusal = [delta(r#"{"refusal":"I "}"#), delta(r#"{"refusal":"cannot"}"#), end("stop")];
    check(&[&refusal[0], &refusal[1], &refusal[2]], r#"Refusal("I cannot")"#);
    check(
        &[&hi, r#"{"error":{"message":"Overloaded","code":503}}"#],
        "text hi | server: the provider reported an error: Overloaded",
    );
    check(
        &[&hi, r#"{"choices":[{"error":{"message":"slow","code":429},"finish_reason":"error"}]}"#],
        "text hi | rate_limit: the provider reported an error: slow",
    );
    assert!(
        render_short(&[&hi, &end("error")]).contains("server: the provider failed in mid-answer")
    );
    assert!(
        render_short(&["{nonsense"])
            .starts_with("server: the provider sent an event that is not JSON")
    );
}

#[test]
fn usage_includes_cached_tokens() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":64}}}"#;
    let (_, reply) = decode(&[&end("stop"), usage, "[DONE]"]);
    let usage = reply.unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (100, 7, 64));
}

#[test]
fn calls_and_arguments_are_bounded() {
    let calls = |count: usize| {
        let calls = (0..count).map(|index| json!({"index": index, "id": format!("c{index}"), "function": {"name": "Read", "arguments": "{}"}}));
        json!({"choices": [{"delta": {"tool_calls": calls.collect::<Vec<_>>()}}]}).to_string()
    };
    let (events, reply) = decode(&[&calls(256), &end("tool_calls")]);
    assert_eq!((events.len(), reply.unwrap().blocks.len()), (256, 256));
    assert!(
        render_short(&[&calls(257)])
            .ends_with("more than 256 tool calls at once; try again, or choose another model")
    );
    let long = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "x".repeat(5 << 20)}}]}}]}).to_string();
    assert!(decode(&[&long, &end("tool_calls")]).1.is_ok());
    assert!(render_short(&[&long, &long]).contains("bytes of arguments"));
}

#[test]
fn opaque_fields_go_back_to_provider() {
    let chunks = [
        delta(
            r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","index":0,"text":"a"}]}"#,
        ),
        delta(
            r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"s"}]}"#,
        ),
        delta(
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"Read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"t"}}}]}"#,
        ),
        end("tool_calls"),
    ];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let reply = decode(&chunks).1.unwrap();
    assert_eq!(reply.stop, ModelStopReason::ToolUse);
    let results =
        ModelMessage { role: MessageRole::User, blocks: vec![result("1", vec![], false)] };
    let messages = vec![ModelMessage::user("x"), ModelMessage::assistant(reply.blocks), results];
    let body = request_body(&ModelRequest {
        messages: share_messages(messages),
        ..ModelRequest::default()
    });
    assert_eq!(
        body["messages"][1],
        json!({
            "role": "assistant",
            "content": null,
            "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}],
            "tool_calls": [{
                "id": "1",
                "type": "function",
                "function": {"name": "Read", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "t"}},
            }],
        })
    );
}
