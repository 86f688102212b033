//! Results of `tools/list`.

use std::collections::HashSet;

use rmcp::model::{Icon, JsonObject, ListToolsResult, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value};

use super::{NodeBudget, remove_if_mistyped};
use zero_core::sanitize::is_safe_char;

use crate::wire::json_scan::{self, MalformedJsonError};
use crate::wire::{ConnectionDiagnostics, McpMessageLimits};

/// Maximum length of a tool's name, in characters. The protocol says 128; longer ones occur.
const NAME_MAX: usize = 256;

/// Parses a page of a tool list. Malformed tools are left out and recorded.
pub(super) fn read_tool_list(
    written: &[u8],
    limits: &McpMessageLimits,
    diagnostics: &ConnectionDiagnostics,
) -> Result<ListToolsResult, String> {
    let mut budget = NodeBudget::new(limits);
    let mut list = ListToolsResult::with_all_items(Vec::new());
    list.result_type = None;
    let mut tools = None;
    for piece in json_scan::members(written) {
        let piece = piece.map_err(|MalformedJsonError| "its result is not valid JSON")?;
        match piece.key {
            b"tools" => tools = Some(piece.value),
            b"nextCursor" if piece.value != b"null" => {
                let cursor =
                    json_scan::parse_text(piece.value).ok_or("its `nextCursor` is not a string")?;
                list.next_cursor = Some(cursor);
            }
            b"_meta" => list.meta = budget.read(piece.value).ok(),
            b"ttlMs" => list.ttl_ms = read_number(piece.value),
            b"cacheScope" => list.cache_scope = serde_json::from_slice(piece.value).ok(),
            _ => {}
        }
    }
    let tools = tools.ok_or("its result has no `tools`")?;
    let mut names = HashSet::new();
    for (index, piece) in json_scan::elements(tools).enumerate() {
        let piece = piece.map_err(|MalformedJsonError| "its `tools` are not a valid list")?;
        match read_tool(piece.value, &mut budget, diagnostics) {
            Ok(tool) if names.insert(tool.name.clone()) => list.tools.push(tool),
            Ok(tool) => diagnostics.quarantine(&tool.name, "another tool has the same name"),
            Err(reason) => {
                let name = json_scan::member(piece.value, "name").and_then(json_scan::parse_text);
                let name = name.filter(|name| !name.trim().is_empty());
                let name = name.unwrap_or_else(|| format!("(number {})", index + 1));
                diagnostics.quarantine(&name, &reason);
            }
        }
    }
    Ok(list)
}

fn read_number(written: &[u8]) -> Option<u64> {
    let number: f64 = serde_json::from_slice(written).ok()?;
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "it saturates")]
    Some(number.max(0.0) as u64)
}

/// Parses a tool, or says why it cannot be offered.
fn read_tool(
    written: &[u8],
    budget: &mut NodeBudget<'_>,
    diagnostics: &ConnectionDiagnostics,
) -> Result<Tool, String> {
    let Value::Object(mut tool) = budget.read::<Value>(written)? else {
        return Err("it is not an object".into());
    };
    let name = check_name(&tool)?;
    check_schema(&tool)?;
    let of = format!("the tool `{name}`");
    remove_if_mistyped::<String>(&mut tool, "title", &of, diagnostics);
    remove_if_mistyped::<String>(&mut tool, "description", &of, diagnostics);
    remove_if_mistyped::<JsonObject>(&mut tool, "outputSchema", &of, diagnostics);
    remove_if_mistyped::<Vec<Icon>>(&mut tool, "icons", &of, diagnostics);
    remove_if_mistyped::<MetaObject>(&mut tool, "_meta", &of, diagnostics);
    if let Some(Value::Object(hints)) = tool.get_mut("annotations") {
        remove_if_mistyped::<String>(hints, "title", &of, diagnostics);
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            remove_if_mistyped::<bool>(hints, hint, &of, diagnostics);
        }
    }
    remove_if_mistyped::<ToolAnnotations>(&mut tool, "annotations", &of, diagnostics);
    serde_json::from_value(Value::Object(tool))
        .map_err(|error| format!("it is not a valid tool: {error}"))
}

fn check_name(tool: &Map<String, Value>) -> Result<String, String> {
    let name = match tool.get("name") {
        None => return Err("its name is missing".into()),
        Some(Value::String(name)) => name,
        Some(_) => return Err("its name is not a string".into()),
    };
    if name.trim().is_empty() {
        return Err("its name is empty".into());
    }
    if name.chars().count() > NAME_MAX {
        return Err(format!("its name is longer than {NAME_MAX} characters"));
    }
    if !name.chars().all(is_safe_char) {
        return Err("its name contains invisible characters".into());
    }
    Ok(name.clone())
}

fn check_schema(tool: &Map<String, Value>) -> Result<(), String> {
    let schema = match tool.get("inputSchema") {
        None | Some(Value::Null) => return Err("its input schema is missing".into()),
        Some(Value::Object(schema)) => schema,
        Some(_) => return Err("its input schema is not an object".into()),
    };
    match schema.get("type") {
        None => Ok(()),
        Some(Value::String(kind)) if kind == "object" => Ok(()),
        Some(_) => Err("its input schema does not describe an object".into()),
    }
}
