//! Fast path for events with text only, the most common kind, without building a JSON value.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The text of an event; `None` if it contains, or may contain, anything else.
pub(super) fn parse_text(data: &str) -> Option<Cow<'_, str>> {
    let chunk: TextChunk<'_> = serde_json::from_str(data).ok()?;
    let [choice] = chunk.choices;
    Some(choice.delta.content)
}

/// Irrelevant fields may have any value, relevant ones must be null, and unknown ones are left to
/// the full decoder. It is more lenient than the full decoder: it also accepts a list in place of
/// an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextChunk<'a> {
    #[serde(borrow)]
    choices: [TextChoice<'a>; 1],
    #[serde(default, rename = "usage")]
    _usage: (),
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    #[serde(default, rename = "object")]
    _object: IgnoredAny,
    #[serde(default, rename = "created")]
    _created: IgnoredAny,
    #[serde(default, rename = "model")]
    _model: IgnoredAny,
    #[serde(default, rename = "provider")]
    _provider: IgnoredAny,
    #[serde(default, rename = "service_tier")]
    _service_tier: IgnoredAny,
    #[serde(default, rename = "system_fingerprint")]
    _system_fingerprint: IgnoredAny,
    #[serde(default, rename = "obfuscation")]
    _obfuscation: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextChoice<'a> {
    #[serde(borrow)]
    delta: TextDelta<'a>,
    #[serde(default, rename = "finish_reason")]
    _finish_reason: (),
    #[serde(default, rename = "native_finish_reason")]
    _native_finish_reason: IgnoredAny,
    #[serde(default, rename = "index")]
    _index: IgnoredAny,
    #[serde(default, rename = "logprobs")]
    _logprobs: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextDelta<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
    #[serde(default, rename = "refusal")]
    _refusal: (),
    #[serde(default, rename = "reasoning")]
    _reasoning: (),
    #[serde(default, rename = "reasoning_content")]
    _reasoning_content: (),
    #[serde(default, rename = "tool_calls")]
    _tool_calls: (),
    #[serde(default, rename = "function_call")]
    _function_call: (),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ChatDecoder;
    use super::*;
    use crate::model::protocol::ReplyDecoder;

    /// The fast path returns what the full decoder returns.
    #[track_caller]
    fn check(data: &str, expected: Option<&str>) {
        assert_eq!(parse_text(data).as_deref(), expected, "{data}");
        if expected.is_none() {
            return;
        }
        let value = serde_json::from_str(data).unwrap();
        let (mut quick, mut close) = (ChatDecoder::default(), ChatDecoder::default());
        let (quick_says, close_says) = (quick.decode_event("", data), close.apply_chunk(&value));
        assert_eq!(format!("{quick_says:?}"), format!("{close_says:?}"), "{data}");
        let ends = [&mut quick, &mut close].map(|decoder| format!("{:?}", decoder.finish()));
        assert_eq!(ends[0], ends[1], "{data}");
    }

    #[test]
    fn text_only_chunk_is_parsed() {
        let chunk = |choice: serde_json::Value| json!({"id": "1", "choices": [choice]}).to_string();
        check(&chunk(json!({"index": 0, "delta": {"content": "a"}})), Some("a"));
        check(&chunk(json!({"delta": {"role": "assistant", "content": ""}})), Some(""));
        check(
            &chunk(json!({"delta": {"content": "\"\\ü\n"}, "finish_reason": null})),
            Some("\"\\ü\n"),
        );
        check(
            r#" {"choices":[{"delta":{"content":"\u0041","refusal":null,"tool_calls":null}}],"usage":null} "#,
            Some("A"),
        );
        for choice in [
            json!({"delta": {}}),
            json!({"delta": {"content": null}}),
            json!({"delta": {"content": [{"text": "a"}]}}),
            json!({"delta": {"content": "a"}, "finish_reason": "stop"}),
            json!({"delta": {"content": "a"}, "error": {"message": "no"}}),
            json!({"delta": {"content": "a", "refusal": "no"}}),
            json!({"delta": {"content": "a", "reasoning": "hm"}}),
            json!({"delta": {"content": "a", "reasoning_details": [{"type": "x"}]}}),
            json!({"delta": {"content": "a", "tool_calls": [{"index": 0, "id": "1",
                "function": {"name": "Read", "arguments": "{}"}}]}}),
            json!({"message": {"content": "a"}}),
            json!({"delta": {"content": "a"}, "message": {"content": "b"}}),
        ] {
            check(&chunk(choice), None);
        }
        let one = json!({"delta": {"content": "a"}});
        for whole in [
            json!({"choices": []}),
            json!({"choices": [one, one]}),
            json!({"choices": [one], "usage": {"prompt_tokens": 1}}),
            json!({"choices": [one], "error": {"message": "no"}}),
            json!({"choices": [one], "new": 1}),
            json!([]),
        ] {
            check(&whole.to_string(), None);
        }
        for broken in [
            "",
            "{",
            r#"{"choices":[{"delta":{"content":"a"}}]"#,
            r#"{"choices":[{"delta":{"content":"a"}}]} x"#,
        ] {
            check(broken, None);
        }
    }
}
