//! Results of `initialize` and `server/discover`.

use rmcp::model::{
    CacheScope, DiscoverResult, ExperimentalCapabilities, ExtensionCapabilities, Icon,
    InitializeResult, JsonObject, MetaObject, PromptsCapability, ResourcesCapability,
    ServerCapabilities, ToolsCapability,
};
use serde_json::{Map, Value, json};

use super::{check_size, read_whole, remove_if_mistyped};
use crate::wire::{ConnectionDiagnostics, McpMessageLimits};

/// Parses the result of `initialize`.
pub(super) fn read_initialize_result(
    written: &[u8],
    limits: &McpMessageLimits,
    diagnostics: &ConnectionDiagnostics,
) -> Result<InitializeResult, String> {
    if let Ok(result) = read_whole(written, limits) {
        return Ok(result);
    }
    let mut result = parse_object(written, limits)?;
    repair_common_fields(&mut result, diagnostics);
    let mut info = match result.remove("serverInfo") {
        Some(Value::Object(info)) => info,
        _ => Map::new(),
    };
    for key in ["name", "version", "title", "description", "websiteUrl"] {
        remove_if_mistyped::<String>(&mut info, key, "`serverInfo`", diagnostics);
    }
    remove_if_mistyped::<Vec<Icon>>(&mut info, "icons", "`serverInfo`", diagnostics);
    info.entry("name").or_insert(json!("unknown"));
    info.entry("version").or_insert(json!("unknown"));
    result.insert("serverInfo".into(), Value::Object(info));
    into_typed(result)
}

/// Parses the result of `server/discover`.
pub(super) fn read_discover_result(
    written: &[u8],
    limits: &McpMessageLimits,
    diagnostics: &ConnectionDiagnostics,
) -> Result<DiscoverResult, String> {
    if let Ok(result) = read_whole(written, limits) {
        return Ok(result);
    }
    let mut result = parse_object(written, limits)?;
    repair_common_fields(&mut result, diagnostics);
    remove_if_mistyped::<String>(&mut result, "resultType", "the handshake answer", diagnostics);
    remove_if_mistyped::<u64>(&mut result, "ttlMs", "the handshake answer", diagnostics);
    remove_if_mistyped::<CacheScope>(
        &mut result,
        "cacheScope",
        "the handshake answer",
        diagnostics,
    );
    result.entry("resultType").or_insert(json!("complete"));
    result.entry("ttlMs").or_insert(json!(0));
    result.entry("cacheScope").or_insert(json!("private"));
    if let Some(Value::Array(versions)) = result.get_mut("supportedVersions") {
        versions.retain(Value::is_string);
    }
    into_typed(result)
}

fn parse_object(written: &[u8], limits: &McpMessageLimits) -> Result<Map<String, Value>, String> {
    check_size(written, limits)?;
    serde_json::from_slice(written).map_err(|error| format!("it is not valid JSON: {error}"))
}

fn into_typed<T: serde::de::DeserializeOwned>(mended: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(mended))
        .map_err(|error| format!("it cannot be read: {error}"))
}

fn repair_common_fields(answer: &mut Map<String, Value>, diagnostics: &ConnectionDiagnostics) {
    remove_if_mistyped::<String>(answer, "instructions", "the handshake answer", diagnostics);
    remove_if_mistyped::<MetaObject>(answer, "_meta", "the handshake answer", diagnostics);
    if let Some(Value::Object(capabilities)) = answer.get_mut("capabilities") {
        let of = "`capabilities`";
        remove_if_mistyped::<ExperimentalCapabilities>(
            capabilities,
            "experimental",
            of,
            diagnostics,
        );
        remove_if_mistyped::<ExtensionCapabilities>(capabilities, "extensions", of, diagnostics);
        remove_if_mistyped::<JsonObject>(capabilities, "logging", of, diagnostics);
        remove_if_mistyped::<JsonObject>(capabilities, "completions", of, diagnostics);
        remove_if_mistyped::<PromptsCapability>(capabilities, "prompts", of, diagnostics);
        remove_if_mistyped::<ResourcesCapability>(capabilities, "resources", of, diagnostics);
        // Some servers send a boolean; they are asked for their tools in any case.
        if capabilities.get("tools").is_some_and(|tools| tools.is_boolean()) {
            capabilities.insert("tools".into(), json!({}));
        }
        remove_if_mistyped::<ToolsCapability>(capabilities, "tools", of, diagnostics);
    }
    remove_if_mistyped::<ServerCapabilities>(
        answer,
        "capabilities",
        "the handshake answer",
        diagnostics,
    );
    answer.entry("capabilities").or_insert(json!({}));
}
