//! Converts tools and results to their MCP form.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use zero_core::{RiskLevel, ToolCategory, ToolError, ToolKind, ToolResultPart, ToolSpec};
use zero_runtime::CallOutcome;
use zero_runtime::dialect::DialectTool;

/// Converts a tool to JSON as in `tools/list`.
pub fn to_tool_json(offered: &DialectTool) -> Value {
    // Plain data can always be serialized.
    serde_json::to_value(to_tool(offered)).unwrap_or_default()
}

/// Converts a tool to the SDK's type.
pub(super) fn to_tool(offered: &DialectTool) -> Tool {
    let spec = offered.registered.tool.spec();
    let input = to_json_object(&offered.input_schema).unwrap_or_default();
    let mut tool = Tool::new(offered.name.clone(), offered.description.clone(), Arc::new(input))
        .with_title(spec.display_name.clone())
        .with_annotations(tool_annotations(spec));
    // Clients before 2026-07-28 support only objects as structured results.
    if spec.output_schema.get("type").is_some_and(|name| name == "object") {
        tool.output_schema = to_json_object(&spec.output_schema).map(Arc::new);
    }
    tool
}

fn to_json_object(schema: &Value) -> Option<JsonObject> {
    schema.as_object().cloned()
}

/// Returns hints that a client may show before a call.
fn tool_annotations(spec: &ToolSpec) -> ToolAnnotations {
    let read_only = match spec.kind {
        ToolKind::Read | ToolKind::Search => true,
        ToolKind::Fetch => spec.risk <= RiskLevel::Medium,
        ToolKind::Think | ToolKind::Other => spec.risk == RiskLevel::Low,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Execute => false,
    };
    let destroys =
        matches!(spec.kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Execute)
            || spec.risk >= RiskLevel::High;
    let reaches_out = matches!(spec.kind, ToolKind::Fetch | ToolKind::Execute)
        || matches!(spec.category, ToolCategory::Network | ToolCategory::External);
    ToolAnnotations::with_title(spec.display_name.clone())
        .read_only(read_only)
        .destructive(destroys && !read_only)
        .idempotent(spec.idempotent)
        .open_world(reaches_out)
}

/// Whether a result has structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StructuredContentMode {
    /// The tool is listed with an output schema, which the content matches.
    Promised,
    /// The tool has no output schema.
    Absent,
}

/// Converts a result, as the dialect rendered it for the model.
pub(super) fn to_call_result(
    outcome: CallOutcome,
    structured: StructuredContentMode,
) -> CallToolResult {
    let CallOutcome { result, rendered } = outcome;
    let mut uris = result.content.iter().filter_map(|content| match content {
        ToolResultPart::Resource { uri, .. } => Some(uri.as_str()),
        _ => None,
    });
    let content =
        rendered.content.into_iter().map(|piece| to_content_block(piece, &mut uris)).collect();
    let mut written = CallToolResult::success(content);
    if structured == StructuredContentMode::Promised {
        written.structured_content = Some(result.structured);
    }
    written
}

/// Converts an error: a text for the model, then details for programs. It has no structured
/// content, because that would have to match the output schema.
pub(super) fn to_error_result(error: ToolError) -> CallToolResult {
    let facts =
        json!({"tool": error.tool, "error_type": error.error_type, "details": error.details});
    CallToolResult::error(vec![
        ContentBlock::text(error.message),
        ContentBlock::text(facts.to_string()),
    ])
}

/// Converts one part of a result. Each dialect renders parts in its own format.
fn to_content_block<'a>(
    mut piece: Value,
    uris: &mut impl Iterator<Item = &'a str>,
) -> ContentBlock {
    if piece["type"] == "content" {
        piece = take_field(&mut piece, "content");
    }
    let kind = piece["type"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "diff" if piece["diff"].is_string() => ContentBlock::text(format!(
            "{}\n{}",
            take_text(&mut piece, "path"),
            take_text(&mut piece, "diff")
        )),
        "image" if piece["source"].is_object() => {
            let mut source = take_field(&mut piece, "source");
            to_media_block(
                take_text(&mut source, "mediaType"),
                take_text(&mut source, "data"),
                uris,
            )
        }
        "image" | "audio" => {
            to_media_block(take_text(&mut piece, "mimeType"), take_text(&mut piece, "data"), uris)
        }
        "resource" => {
            let mut resource = take_field(&mut piece, "resource");
            to_media_block(
                take_text(&mut resource, "mimeType"),
                take_text(&mut resource, "blob"),
                uris,
            )
        }
        "" if piece["inlineData"].is_object() => {
            let mut data = take_field(&mut piece, "inlineData");
            to_media_block(take_text(&mut data, "mimeType"), take_text(&mut data, "data"), uris)
        }
        _ if piece["text"].is_string() => ContentBlock::text(take_text(&mut piece, "text")),
        // An unknown format is passed on as JSON.
        _ => ContentBlock::text(piece.to_string()),
    }
}

/// Converts binary data according to its media type.
fn to_media_block<'a>(
    mime: String,
    data: String,
    uris: &mut impl Iterator<Item = &'a str>,
) -> ContentBlock {
    match mime.split('/').next() {
        Some("image") => ContentBlock::image(data, mime),
        Some("audio") => ContentBlock::audio(data, mime),
        _ => {
            let uri = uris.next().unwrap_or("zero:result").to_owned();
            let blob = ResourceContents::blob(data, uri).with_mime_type(mime);
            ContentBlock::resource(blob)
        }
    }
}

/// Takes a string out of an object.
fn take_text(object: &mut Value, field: &str) -> String {
    match take_field(object, field) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

fn take_field(object: &mut Value, field: &str) -> Value {
    object.get_mut(field).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use zero_core::{FileDiff, ResultDisplay, ToolResult};
    use zero_runtime::{Dialect, DialectName};

    use super::*;

    #[track_caller]
    fn check(content: ToolResultPart, dialects: &[DialectName], expected: Value) {
        for dialect in dialects {
            let content = vec![content.clone()];
            let display = ResultDisplay::markdown("");
            let result = ToolResult { content, display, structured: json!({}), locations: vec![] };
            let rendered = Dialect::new(*dialect).render("x", &result);
            let written = super::to_call_result(
                CallOutcome { result, rendered },
                StructuredContentMode::Absent,
            );
            let written = serde_json::to_value(&written.content[0]).unwrap();
            assert_eq!(written, expected, "{dialect}");
        }
    }

    #[test]
    fn every_dialect_yields_valid_mcp_blocks() {
        let all = &DialectName::ALL;
        let (mime, data) = ("image/png".to_owned(), "AA==".to_owned());
        check(ToolResultPart::Text("a".into()), all, json!({"type": "text", "text": "a"}));
        check(
            ToolResultPart::Image { mime, data: data.clone() },
            all,
            json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
        );
        check(
            ToolResultPart::Audio { mime: "audio/wav".into(), data: data.clone() },
            all,
            json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}),
        );
        check(
            ToolResultPart::Resource {
                uri: "file:///a.pdf".into(),
                mime: "application/pdf".into(),
                data,
            },
            all,
            json!({"type": "resource", "resource": {
                "uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "AA==",
            }}),
        );
    }

    #[test]
    fn diff_becomes_text_block() {
        let diff = FileDiff {
            path: "a.rs".into(),
            unified: "-a\n+b".into(),
            old_text: None,
            new_text: None,
            partial: true,
        };
        let change = ToolResultPart::Diff { summary: "changed a.rs".into(), diff };
        check(
            change.clone(),
            &[DialectName::Canonical, DialectName::Qwen, DialectName::Opencode],
            json!({"type": "text", "text": "changed a.rs\n-a\n+b"}),
        );
        check(change, &[DialectName::Acp], json!({"type": "text", "text": "a.rs\n-a\n+b"}));
    }
}
