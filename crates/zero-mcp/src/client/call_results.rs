//! Converts the result of a server's tool call into a [`ToolResult`] of the host.
//!
//! Every content block is kept, in the server's order. Structured content follows as JSON, unless a
//! text block already contains it. Media whose type or encoding is wrong is replaced by a note. The
//! pipeline limits the length.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::{Map, Value};
use zero_core::text_shortening::head;
use zero_core::{
    ErrorReason, ResultDisplay, ResultMetadata, ToolError, ToolResult, ToolResultPart,
};
use zero_runtime::schema::InputSchema;

use super::sanitize;
use crate::server_definition::ServerAlias;

/// Maximum number of content blocks of a result.
const BLOCKS_MAX: usize = 1_000;
/// Maximum size of the part that the user is shown, in bytes. The pipeline limits what the model
/// gets.
const SHOWN_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a media type, in bytes.
const MIME_BYTES_MAX: usize = 100;
/// Maximum number of schema violations to list.
const VIOLATIONS_SHOWN_MAX: usize = 5;

/// Converts the answer to a call. If the tool reports a failure, the error contains everything that
/// it said.
pub(crate) fn to_tool_result(
    alias: &ServerAlias,
    answer: CallToolResult,
    promised: Option<&InputSchema>,
) -> Result<ToolResult, ToolError> {
    let has_failed = answer.is_error == Some(true);
    let left_out = answer.content.len().saturating_sub(BLOCKS_MAX);
    let mut content: Vec<ToolResultPart> =
        answer.content.into_iter().take(BLOCKS_MAX).map(convert_block).collect();
    if left_out > 0 {
        content.push(ToolResultPart::Text(format!("[{left_out} more blocks were left out]")));
    }
    if let Some(structured) = &answer.structured_content
        && !contains_structured(&content, structured)
    {
        let text = serde_json::to_string_pretty(structured).unwrap_or_default();
        content.push(ToolResultPart::Text(text));
    }
    if has_failed {
        return Err(to_tool_error(alias, &content, answer.structured_content));
    }
    content.extend(
        schema_violation(answer.structured_content.as_ref(), promised).map(ToolResultPart::Text),
    );
    if content.is_empty() {
        content.push(ToolResultPart::Text("(the tool returned no output)".to_owned()));
    }
    let display = build_display(&content);
    let structured = answer.structured_content.unwrap_or(Value::Null);
    Ok(ToolResult {
        content,
        display,
        structured,
        locations: Vec::new(),
        metadata: ResultMetadata::default(),
    })
}

/// Builds the error of a tool that reported a failure.
fn to_tool_error(
    alias: &ServerAlias,
    content: &[ToolResultPart],
    structured: Option<Value>,
) -> ToolError {
    let texts: Vec<&str> = content.iter().map(content_text).collect();
    let mut message = texts.join("\n");
    if message.trim().is_empty() {
        message = "the tool failed without a message".to_owned();
    }
    let error = ToolError::failed(ErrorReason::RemoteFailure, message)
        .with_detail("server", alias.as_str());
    match structured {
        Some(structured) => error.with_detail("structured", structured),
        None => error,
    }
}

fn content_text(content: &ToolResultPart) -> &str {
    match content {
        ToolResultPart::Text(text) => text,
        ToolResultPart::Image { .. } => "[an image]",
        ToolResultPart::Audio { .. } => "[sound]",
        _ => "[a document]",
    }
}

/// Converts a content block.
fn convert_block(block: ContentBlock) -> ToolResultPart {
    match block {
        ContentBlock::Text(text) => ToolResultPart::Text(text.text),
        ContentBlock::Image(image) => {
            convert_media("image", image.mime_type, image.data, |mime, data| {
                ToolResultPart::Image { mime, data }
            })
        }
        ContentBlock::Audio(audio) => {
            convert_media("audio", audio.mime_type, audio.data, |mime, data| {
                ToolResultPart::Audio { mime, data }
            })
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                ToolResultPart::Text(format!("[{}]\n{text}", sanitize::to_line(&uri)))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                let uri = sanitize::to_line(&uri);
                convert_media("", mime, blob, |mime, data| ToolResultPart::Resource {
                    uri,
                    mime,
                    data,
                })
            }
            _ => unknown_block(),
        },
        ContentBlock::ResourceLink(link) => ToolResultPart::Text(describe_link(&link)),
        _ => unknown_block(),
    }
}

fn unknown_block() -> ToolResultPart {
    ToolResultPart::Text("[a content block of an unknown kind was left out]".to_owned())
}

/// Describes a resource that the server links to but does not send.
fn describe_link(link: &Resource) -> String {
    let name = sanitize::to_line(link.title.as_deref().unwrap_or(&link.name));
    let mut text = format!("[resource {name}: {}", sanitize::to_line(&link.uri));
    if let Some(mime) = &link.mime_type {
        text.push_str(&format!(", {}", sanitize::to_line(mime)));
    }
    if let Some(size) = link.size {
        text.push_str(&format!(", {size} bytes"));
    }
    text.push(']');
    if let Some(description) = &link.description {
        text.push_str(&format!(" {}", sanitize::to_line(description)));
    }
    text
}

/// Checks that media has a plausible type and is base64.
fn convert_media(
    family: &str,
    mime: String,
    data: String,
    make: impl FnOnce(String, String) -> ToolResultPart,
) -> ToolResultPart {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_media_type = essence.len() <= MIME_BYTES_MAX
        && essence.split_once('/').is_some_and(|(kind, of)| {
            is_token(kind) && is_token(of) && (family.is_empty() || kind == family)
        });
    if !is_media_type {
        let mime = sanitize::to_quoted_line(&mime);
        return ToolResultPart::Text(format!(
            "[data was left out: {mime} is not a media type for it]"
        ));
    }
    let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    match STANDARD.decode(&data) {
        Ok(_) => make(essence, data),
        Err(_) => ToolResultPart::Text(format!(
            "[data of type `{essence}` was left out: it is not base64]"
        )),
    }
}

/// Whether a text block already contains the structured content.
fn contains_structured(content: &[ToolResultPart], structured: &Value) -> bool {
    content.iter().any(|content| match content {
        ToolResultPart::Text(text) => is_same_json(text, structured),
        _ => false,
    })
}

fn is_same_json(text: &str, structured: &Value) -> bool {
    let text = text.trim();
    if serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured) {
        return true;
    }
    // Some servers wrap a plain value in an object with one field, such as `result`, and write only
    // the value in the text.
    let only = |fields: &Map<String, Value>| match fields.len() {
        1 => fields.values().next().cloned(),
        _ => None,
    };
    match structured {
        Value::String(inner) => inner.trim() == text,
        Value::Object(fields) => match only(fields) {
            Some(Value::String(inner)) => inner.trim() == text,
            Some(inner) => serde_json::from_str::<Value>(text).is_ok_and(|value| value == inner),
            None => false,
        },
        _ => false,
    }
}

/// Returns a note if the structured content does not match the tool's output schema.
fn schema_violation(structured: Option<&Value>, promised: Option<&InputSchema>) -> Option<String> {
    let promised = promised?;
    let Some(structured) = structured else {
        return Some(
            "[note: the tool has an output schema, but sent no structured content]".to_owned(),
        );
    };
    let violations = promised.check(structured.clone()).err()?;
    let shown: Vec<String> =
        violations.iter().take(VIOLATIONS_SHOWN_MAX).map(ToString::to_string).collect();
    Some(format!(
        "[note: the structured content does not match the tool's output schema: {}]",
        shown.join("; ")
    ))
}

/// Builds what the user sees: the texts without unsafe characters, and a placeholder for everything
/// else.
fn build_display(content: &[ToolResultPart]) -> ResultDisplay {
    let mut texts = String::new();
    for text in content.iter().map(content_text) {
        if !texts.is_empty() {
            texts.push('\n');
        }
        let left = SHOWN_BYTES_MAX.saturating_sub(texts.len());
        texts.push_str(head(text, left));
        if text.len() > left {
            texts.push_str("\n[the rest is not shown]");
            break;
        }
    }
    ResultDisplay::markdown(sanitize::to_code_block(&texts, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render_content(content: &ToolResultPart) -> String {
        match content {
            ToolResultPart::Text(text) => text.clone(),
            ToolResultPart::Image { mime, data } => format!("image {mime} {data}"),
            ToolResultPart::Audio { mime, data } => format!("audio {mime} {data}"),
            ToolResultPart::Resource { uri, mime, data } => format!("resource {uri} {mime} {data}"),
            other => format!("{other:?}"),
        }
    }

    #[track_caller]
    fn check(answer: Value, expected: &[&str]) {
        check_promised(answer, None, expected);
    }

    #[track_caller]
    fn check_promised(answer: Value, promised: Option<Value>, expected: &[&str]) {
        let parsed: CallToolResult = serde_json::from_value(answer.clone()).unwrap();
        let promised = promised.map(InputSchema::new);
        let result = to_tool_result(&ServerAlias::new("a").unwrap(), parsed, promised.as_ref());
        let pieces = match result {
            Ok(result) => result.content.iter().map(render_content).collect(),
            Err(error) => vec![format!("{:?}: {error}", error.reason().unwrap())],
        };
        assert_eq!(pieces, expected, "{answer}");
    }

    #[test]
    fn every_content_kind_is_converted() {
        check(
            json!({"content": [
                {"type": "text", "text": "one\u{1b}[0m"},
                {"type": "image", "mimeType": "image/PNG; x=y", "data": "aGk="},
                {"type": "audio", "mimeType": "audio/wav", "data": "aG\nk="},
                {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "words"}},
                {"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "aGk="}},
                {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
                {"type": "resource_link", "uri": "file:///c", "name": "c", "mimeType": "text/plain", "size": 3, "description": "a file"},
                {"type": "text", "text": "last"},
            ]}),
            &[
                "one\u{1b}[0m",
                "image image/png aGk=",
                "audio audio/wav aGk=",
                "[file:///a.txt]\nwords",
                "resource file:///a.pdf application/pdf aGk=",
                "resource file:///b application/octet-stream aGk=",
                "[resource c: file:///c, text/plain, 3 bytes] a file",
                "last",
            ],
        );
        check(json!({"content": []}), &["(the tool returned no output)"]);
    }

    #[test]
    fn mislabeled_content_is_omitted_and_reported() {
        check(
            json!({"content": [
                {"type": "image", "mimeType": "image/png", "data": "not base64!"},
                {"type": "image", "mimeType": "text/html", "data": "aGk="},
                {"type": "image", "mimeType": "image/png\u{1b}[2J", "data": "aGk="},
                {"type": "audio", "mimeType": "", "data": "aGk="},
            ]}),
            &[
                "[data of type `image/png` was left out: it is not base64]",
                "[data was left out: `text/html` is not a media type for it]",
                "[data was left out: `image/png [2J` is not a media type for it]",
                "[data was left out: `` is not a media type for it]",
            ],
        );
    }

    #[test]
    fn structured_content_is_rendered_once() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        check(
            json!({"content": text("{\"a\": 1, \"b\": [2]}"), "structuredContent": {"b": [2], "a": 1}}),
            &["{\"a\": 1, \"b\": [2]}"],
        );
        check(
            json!({"content": text("a is 1"), "structuredContent": {"a": 1, "b": 2}}),
            &["a is 1", "{\n  \"a\": 1,\n  \"b\": 2\n}"],
        );
        check(json!({"content": [], "structuredContent": {"a": 1}}), &["{\n  \"a\": 1\n}"]);
        check(json!({"structuredContent": [1]}), &["[\n  1\n]"]);
        check(
            json!({"content": text("hello"), "structuredContent": {"result": "hello"}}),
            &["hello"],
        );
        check(json!({"content": text("3"), "structuredContent": {"result": 3}}), &["3"]);
        check(json!({"content": text("hello"), "structuredContent": "hello"}), &["hello"]);
        check(
            json!({"content": text("hello"), "structuredContent": {"result": "bye"}}),
            &["hello", "{\n  \"result\": \"bye\"\n}"],
        );
    }

    #[test]
    fn schema_mismatch_is_a_note_not_an_error() {
        let promised = || {
            Some(
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
            )
        };
        let text = json!([{"type": "text", "text": "{\"n\": \"x\"}"}]);
        check_promised(
            json!({"content": text, "structuredContent": {"n": "x"}}),
            promised(),
            &[
                "{\"n\": \"x\"}",
                "[note: the structured content does not match the tool's output schema: /n: expected a whole number, found \"x\"]",
            ],
        );
        check_promised(
            json!({"content": [{"type": "text", "text": "hi"}]}),
            promised(),
            &["hi", "[note: the tool has an output schema, but sent no structured content]"],
        );
        check_promised(
            json!({"content": [], "structuredContent": {"n": 1}}),
            promised(),
            &["{\n  \"n\": 1\n}"],
        );
    }

    #[test]
    fn failure_includes_all_tool_output() {
        check(
            json!({"isError": true, "content": [{"type": "text", "text": "no such repo"}, {"type": "text", "text": "try again"}], "structuredContent": {"code": 4}}),
            &["RemoteFailure: no such repo\ntry again\n{\n  \"code\": 4\n}"],
        );
        check(
            json!({"isError": true, "content": []}),
            &["RemoteFailure: the tool failed without a message"],
        );
        check(json!({"isError": false, "content": [{"type": "text", "text": "fine"}]}), &["fine"]);
    }
}
