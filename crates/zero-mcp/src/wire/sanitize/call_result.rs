//! Results of `tools/call`.

use rmcp::model::{Annotations, CallToolResult, ContentBlock, Icon, MetaObject, ResultType};
use serde_json::{Value, json};

use super::{NodeBudget, check_size, remove_if_mistyped};
use crate::wire::connection_diagnostics::sanitize_sample;
use crate::wire::json_scan::{self, MalformedJsonError};
use crate::wire::{ConnectionDiagnostics, McpMessageLimits};

/// Maximum number of content blocks that are read: each takes some hundred bytes, however short it
/// is. One less than a result may have, so that there is room for a note.
const BLOCKS_MAX: usize = 999;

/// Parses the result of a call. It succeeds whenever the JSON around the parts is valid.
pub(super) fn read_call_result(
    written: &[u8],
    limits: &McpMessageLimits,
    diagnostics: &ConnectionDiagnostics,
) -> Result<CallToolResult, String> {
    if !has_too_many_blocks(written)
        && check_size(written, limits).is_ok()
        && let Ok(result) = serde_json::from_slice(written)
    {
        return Ok(result);
    }
    let mut budget = NodeBudget::new(limits);
    let mut result = CallToolResult::default();
    result.result_type = None;
    for piece in json_scan::members(written) {
        let piece = piece.map_err(|MalformedJsonError| "its result is not valid JSON")?;
        match piece.key {
            b"resultType" if piece.value != b"null" => {
                result.result_type = Some(ResultType::COMPLETE);
            }
            b"content" => {
                result.content.extend(read_content(piece.value, &mut budget, diagnostics)?)
            }
            b"structuredContent" => match budget.read(piece.value) {
                Ok(value) => result.structured_content = Some(value),
                Err(why) => {
                    result.content.push(omitted_block("structured content", &why, diagnostics))
                }
            },
            b"isError" => result.is_error = is_error(piece.value),
            b"_meta" => result.meta = budget.read(piece.value).ok(),
            _ => {}
        }
    }
    Ok(result)
}

/// Whether a result has more blocks than are read.
fn has_too_many_blocks(written: &[u8]) -> bool {
    json_scan::member(written, "content")
        .is_some_and(|content| json_scan::elements(content).nth(BLOCKS_MAX).is_some())
}

/// Whether a result is an error. In case of doubt, it is.
fn is_error(written: &[u8]) -> Option<bool> {
    match written {
        b"null" => None,
        b"false" | br#""false""# | b"0" | br#""""# => Some(false),
        _ => Some(true),
    }
}

fn read_content(
    written: &[u8],
    budget: &mut NodeBudget<'_>,
    diagnostics: &ConnectionDiagnostics,
) -> Result<Vec<ContentBlock>, String> {
    match written.first() {
        Some(b'[') => {
            let mut blocks = Vec::new();
            let mut too_many = 0_usize;
            for piece in json_scan::elements(written) {
                let piece =
                    piece.map_err(|MalformedJsonError| "its `content` is not a valid list")?;
                match blocks.len() < BLOCKS_MAX {
                    true => blocks.push(read_block(piece.value, budget, diagnostics)),
                    false => too_many += 1,
                }
            }
            if too_many > 0 {
                let why = format!("there were {too_many} more than the {BLOCKS_MAX} that are read");
                blocks.push(omitted_block("part", &why, diagnostics));
            }
            Ok(blocks)
        }
        Some(b'n') => Ok(Vec::new()),
        _ => Ok(vec![read_block(written, budget, diagnostics)]),
    }
}

/// Parses a content block, or returns one that says what is missing.
fn read_block(
    written: &[u8],
    budget: &mut NodeBudget<'_>,
    diagnostics: &ConnectionDiagnostics,
) -> ContentBlock {
    let mut block = match budget.read::<Value>(written) {
        Ok(Value::Object(block)) => block,
        Ok(Value::String(text)) => return ContentBlock::text(text),
        Ok(other) => {
            return omitted_block(
                "block",
                &format!("it is `{}`", sanitize_sample(&other.to_string())),
                diagnostics,
            );
        }
        Err(why) => return omitted_block("block", &why, diagnostics),
    };
    let kind = match block.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        _ => return omitted_block("block", "it does not say what kind it is", diagnostics),
    };
    if !["text", "image", "audio", "resource", "resource_link"].contains(&kind.as_str()) {
        return omitted_block(
            "block",
            &format!("its kind `{}` is unknown", sanitize_sample(&kind)),
            diagnostics,
        );
    }
    remove_if_mistyped::<Annotations>(&mut block, "annotations", "a block", diagnostics);
    remove_if_mistyped::<MetaObject>(&mut block, "_meta", "a block", diagnostics);
    match kind.as_str() {
        "text" => {
            let text = block.entry("text").or_insert(json!(""));
            if !text.is_string() {
                *text = Value::String(text.to_string());
            }
        }
        "resource" => {
            if let Some(Value::Object(resource)) = block.get_mut("resource") {
                remove_if_mistyped::<String>(resource, "mimeType", "a resource", diagnostics);
                remove_if_mistyped::<MetaObject>(resource, "_meta", "a resource", diagnostics);
            }
        }
        "resource_link" => {
            for key in ["title", "description", "mimeType"] {
                remove_if_mistyped::<String>(&mut block, key, "a link", diagnostics);
            }
            remove_if_mistyped::<u64>(&mut block, "size", "a link", diagnostics);
            remove_if_mistyped::<Vec<Icon>>(&mut block, "icons", "a link", diagnostics);
            if !block.get("name").is_some_and(Value::is_string)
                && let Some(uri) = block.get("uri").cloned()
            {
                block.insert("name".into(), uri);
            }
        }
        _ => {}
    }
    serde_json::from_value(Value::Object(block)).unwrap_or_else(|error| {
        omitted_block(&format!("`{kind}` block"), &error.to_string(), diagnostics)
    })
}

/// A block in place of one that was left out.
fn omitted_block(what: &str, why: &str, diagnostics: &ConnectionDiagnostics) -> ContentBlock {
    let text = format!("a {what} of the server's answer was left out: {}", sanitize_sample(why));
    diagnostics.record_repair(&text);
    ContentBlock::text(format!("[{text}]"))
}
