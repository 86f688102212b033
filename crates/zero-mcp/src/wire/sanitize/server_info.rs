//! What servers say of themselves, with and without a handshake.

use rmcp::model::{
    CacheScope, DiscoverResult, ExperimentalCapabilities, ExtensionCapabilities, Icon,
    InitializeResult, JsonObject, MetaObject, PromptsCapability, ResourcesCapability,
    ServerCapabilities, ToolsCapability,
};
use serde_json::{Map, Value, json};

use super::{fits, keep_if, whole};
use crate::wire::{ConnectionDiagnostics, McpMessageLimits};

/// Reads the answer to a greeting.
pub(super) fn greeting(
    written: &[u8],
    limits: &McpMessageLimits,
    troubles: &ConnectionDiagnostics,
) -> Result<InitializeResult, String> {
    if let Ok(greeting) = whole(written, limits) {
        return Ok(greeting);
    }
    let mut greeting = object(written, limits)?;
    mend_common(&mut greeting, troubles);
    let mut info = match greeting.remove("serverInfo") {
        Some(Value::Object(info)) => info,
        _ => Map::new(),
    };
    for key in ["name", "version", "title", "description", "websiteUrl"] {
        keep_if::<String>(&mut info, key, "`serverInfo`", troubles);
    }
    keep_if::<Vec<Icon>>(&mut info, "icons", "`serverInfo`", troubles);
    info.entry("name").or_insert(json!("unknown"));
    info.entry("version").or_insert(json!("unknown"));
    greeting.insert("serverInfo".into(), Value::Object(info));
    read(greeting)
}

/// Reads the answer to a discovery.
pub(super) fn discovery(
    written: &[u8],
    limits: &McpMessageLimits,
    troubles: &ConnectionDiagnostics,
) -> Result<DiscoverResult, String> {
    if let Ok(discovery) = whole(written, limits) {
        return Ok(discovery);
    }
    let mut discovery = object(written, limits)?;
    mend_common(&mut discovery, troubles);
    keep_if::<String>(&mut discovery, "resultType", "the discovery", troubles);
    keep_if::<u64>(&mut discovery, "ttlMs", "the discovery", troubles);
    keep_if::<CacheScope>(&mut discovery, "cacheScope", "the discovery", troubles);
    discovery.entry("resultType").or_insert(json!("complete"));
    discovery.entry("ttlMs").or_insert(json!(0));
    discovery.entry("cacheScope").or_insert(json!("private"));
    if let Some(Value::Array(versions)) = discovery.get_mut("supportedVersions") {
        versions.retain(Value::is_string);
    }
    read(discovery)
}

fn object(written: &[u8], limits: &McpMessageLimits) -> Result<Map<String, Value>, String> {
    fits(written, limits)?;
    serde_json::from_slice(written).map_err(|error| format!("it is no valid JSON: {error}"))
}

fn read<T: serde::de::DeserializeOwned>(mended: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(mended))
        .map_err(|error| format!("it cannot be read: {error}"))
}

fn mend_common(answer: &mut Map<String, Value>, troubles: &ConnectionDiagnostics) {
    keep_if::<String>(answer, "instructions", "the greeting", troubles);
    keep_if::<MetaObject>(answer, "_meta", "the greeting", troubles);
    if let Some(Value::Object(capabilities)) = answer.get_mut("capabilities") {
        let of = "`capabilities`";
        keep_if::<ExperimentalCapabilities>(capabilities, "experimental", of, troubles);
        keep_if::<ExtensionCapabilities>(capabilities, "extensions", of, troubles);
        keep_if::<JsonObject>(capabilities, "logging", of, troubles);
        keep_if::<JsonObject>(capabilities, "completions", of, troubles);
        keep_if::<PromptsCapability>(capabilities, "prompts", of, troubles);
        keep_if::<ResourcesCapability>(capabilities, "resources", of, troubles);
        // A server whose word on its tools cannot be read is asked for them all the same.
        if capabilities.get("tools").is_some_and(|tools| tools.is_boolean()) {
            capabilities.insert("tools".into(), json!({}));
        }
        keep_if::<ToolsCapability>(capabilities, "tools", of, troubles);
    }
    keep_if::<ServerCapabilities>(answer, "capabilities", "the greeting", troubles);
    answer.entry("capabilities").or_insert(json!({}));
}
