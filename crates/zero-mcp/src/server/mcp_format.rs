//! Converts tools and results to their MCP form.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use zero_core::{RiskLevel, ToolCategory, ToolError, ToolKind, ToolResult, ToolSpec};
use zero_runtime::DialectName;
use zero_runtime::dialect::{DialectTool, RenderedPart, render_parts};

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

/// Converts the result of a tool, in the words of the dialect.
pub(super) fn to_call_result(
    (dialect, tool): (DialectName, &str),
    result: ToolResult,
    structured: StructuredContentMode,
) -> CallToolResult {
    let parts = render_parts(dialect, tool, &result);
    let mut written = CallToolResult::success(parts.into_iter().map(to_content_block).collect());
    if structured == StructuredContentMode::Promised {
        written.structured_content = Some(result.structured);
    }
    if !result.metadata.is_empty() {
        let rendered = serde_json::to_value(&result.metadata).unwrap_or_default();
        written.meta.get_or_insert_default().insert("zero/metadata".to_owned(), rendered);
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

/// Converts one part of a result. Media that is neither an image nor sound becomes a document.
fn to_content_block(part: RenderedPart<'_>) -> ContentBlock {
    let (uri, mime, data) = match part {
        RenderedPart::Text(text) => return ContentBlock::text(text),
        RenderedPart::Image { mime, data } | RenderedPart::Audio { mime, data } => {
            ("zero:result", mime, data)
        }
        RenderedPart::Resource { uri, mime, data } => (uri, mime, data),
    };
    match mime.split('/').next() {
        Some("image") => ContentBlock::image(data, mime),
        Some("audio") => ContentBlock::audio(data, mime),
        _ => ContentBlock::resource(ResourceContents::blob(data, uri).with_mime_type(mime)),
    }
}

#[cfg(test)]
mod tests {
    use zero_core::{FileDiff, ResultDisplay, ToolResultPart};

    use super::*;

    #[track_caller]
    fn check(content: ToolResultPart, dialects: &[DialectName], expected: Value) {
        for dialect in dialects {
            let content = vec![content.clone()];
            let display = ResultDisplay::markdown("");
            let result = ToolResult {
                content,
                display,
                structured: json!({}),
                locations: vec![],
                metadata: zero_core::ResultMetadata::default(),
            };
            let written =
                super::to_call_result((*dialect, "x"), result, StructuredContentMode::Absent);
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
