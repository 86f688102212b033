//! The result of a call that the client ran: `{content, isError}`, as a result of the host.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zero_core::{
    ErrorReason, ResultDisplay, ResultMetadata, ToolError, ToolResult, ToolResultPart, sanitize,
};

/// Most content blocks of a result.
const BLOCKS_MAX: usize = 1_000;
/// Longest media type, in bytes.
const MIME_BYTES_MAX: usize = 100;

/// Parses the result of a call. If the client reports a failure, the error has everything that it
/// said. The pipeline masks and bounds both.
pub(super) fn to_tool_result(result: &Value) -> Result<ToolResult, ToolError> {
    let blocks = match result.get("content") {
        Some(Value::Array(blocks)) => blocks.as_slice(),
        Some(one @ (Value::Object(_) | Value::String(_))) => std::slice::from_ref(one),
        None | Some(Value::Null) => &[],
        Some(_) => {
            let message = "the editor's result is invalid: `content` is not a list";
            return Err(ToolError::failed(ErrorReason::RemoteFailure, message));
        }
    };
    let is_failed = |value: &Value| value.get("isError").and_then(Value::as_bool) == Some(true);
    let has_failed = is_failed(result) || blocks.iter().any(is_failed);
    let mut content: Vec<ToolResultPart> =
        blocks.iter().take(BLOCKS_MAX).map(convert_block).collect();
    if blocks.len() > BLOCKS_MAX {
        let left_out = blocks.len().saturating_sub(BLOCKS_MAX);
        content.push(ToolResultPart::Text(format!("[{left_out} more blocks were left out]")));
    }
    let texts: Vec<&str> = content.iter().map(part_text).collect();
    let text = texts.join("\n");
    if has_failed {
        let message = match text.trim() {
            "" => "the tool failed without a message".to_owned(),
            _ => text,
        };
        return Err(ToolError::failed(ErrorReason::RemoteFailure, message));
    }
    if content.is_empty() {
        content.push(ToolResultPart::Text("(the tool returned no output)".to_owned()));
    }
    let display = ResultDisplay::markdown(text);
    Ok(ToolResult {
        content,
        display,
        structured: Value::Null,
        locations: Vec::new(),
        metadata: ResultMetadata::default(),
    })
}

fn part_text(part: &ToolResultPart) -> &str {
    match part {
        ToolResultPart::Text(text) => text,
        _ => "[an image]",
    }
}

fn convert_block(block: &Value) -> ToolResultPart {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match (text("type"), block) {
        (_, Value::String(text)) => ToolResultPart::Text(text.clone()),
        (Some("text"), _) => ToolResultPart::Text(text("text").unwrap_or_default().to_owned()),
        (Some("diff"), _) => {
            let diff = text("diff").unwrap_or_default();
            ToolResultPart::Text(match text("path") {
                Some(path) => format!("{}\n{diff}", sanitize::to_line(path)),
                None => diff.to_owned(),
            })
        }
        (Some("image"), _) => {
            let source = block.get("source").unwrap_or(block);
            let field = |names: [&str; 2]| {
                names.iter().find_map(|name| source.get(*name)).and_then(Value::as_str)
            };
            let mime = field(["mediaType", "mimeType"]).unwrap_or_default();
            convert_image(mime, field(["data", "data"]).unwrap_or_default())
        }
        _ => ToolResultPart::Text("[a content block of an unknown kind was left out]".to_owned()),
    }
}

fn convert_image(mime: &str, data: &str) -> ToolResultPart {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-+.".contains(&b))
    };
    let is_image =
        mime.len() <= MIME_BYTES_MAX && mime.strip_prefix("image/").is_some_and(is_token);
    match is_image && !data.is_empty() && STANDARD.decode(data).is_ok() {
        true => ToolResultPart::Image { mime: mime.to_owned(), data: data.to_owned() },
        false => ToolResultPart::Text(
            "[an image was left out: its media type or its base64 is invalid]".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(result: &ToolResult) -> Vec<&str> {
        result.content.iter().map(part_text).collect()
    }

    #[test]
    fn each_kind_of_content_is_converted() {
        let result = json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "diff", "path": "src/a.rs", "diff": "@@"},
            {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "AA=="}},
            {"type": "image", "mimeType": "image/png", "data": "AA=="},
            {"type": "image", "mimeType": "text/html", "data": "AA=="},
            {"type": "video"},
        ], "isError": false});
        let result = to_tool_result(&result).unwrap();
        let image = ToolResultPart::Image { mime: "image/png".into(), data: "AA==".into() };
        assert_eq!((&result.content[2], &result.content[3]), (&image, &image));
        assert_eq!(texts(&result)[..2], ["a", "src/a.rs\n@@"]);
        assert!(texts(&result)[4].contains("left out") && texts(&result)[5].contains("left out"));
        assert_eq!(texts(&to_tool_result(&json!({})).unwrap()), ["(the tool returned no output)"]);
    }

    #[test]
    fn failure_has_its_message() {
        for result in [
            json!({"content": [{"type": "text", "text": "no disk"}], "isError": true}),
            json!({"content": [{"type": "text", "text": "no disk", "isError": true}]}),
        ] {
            let error = to_tool_result(&result).unwrap_err();
            assert_eq!(error.message, "no disk");
            assert_eq!(error.reason(), Some(ErrorReason::RemoteFailure));
        }
        let error = to_tool_result(&json!({"isError": true})).unwrap_err();
        assert_eq!(error.message, "the tool failed without a message");
        assert!(to_tool_result(&json!({"content": 7})).is_err());
    }
}
