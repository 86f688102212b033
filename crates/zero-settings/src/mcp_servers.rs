//! Settings for MCP servers (`mcpServers`), in the formats of several programs.
//!
//! A server that violates the schema is an error of the file, as everywhere. A valid server that
//! cannot be used here (a variable that is not set, an obsolete transport) is disabled by itself,
//! with the reason: a file from another program does not have to be perfect.

pub mod server_setting;
pub mod variable_expansion;

use serde_json::{Map, Value};
use zero_core::SchemaViolation;
use zero_core::schema_violation::join_pointer;

use self::server_setting::check_time;
pub use self::server_setting::{McpServerSetting, McpSettings, schema, violations};
pub use self::variable_expansion::is_reference;
use crate::sandbox;

/// Most tokens that all tool schemas may cost before tools are deferred behind a search.
pub const TOOL_SCHEMA_BUDGET: u32 = 20_000;
/// The name of the server that `mcp.mcpServerCommand` starts.
pub const COMMAND_ALIAS: &str = "default";

/// The name of a server in an array.
pub fn server_id(server: &Value) -> Option<&str> {
    server.get("id").or_else(|| server.get("name"))?.as_str()
}

/// The servers of a file, each with its JSON pointer.
fn iter_servers(file: &Value) -> Vec<(String, &Value)> {
    let pointer = "/mcpServers";
    match file.pointer(pointer) {
        Some(Value::Object(servers)) => {
            servers.iter().map(|(alias, server)| (join_pointer(pointer, alias), server)).collect()
        }
        Some(Value::Array(servers)) => {
            let numbered = servers.iter().enumerate();
            numbered
                .map(|(index, server)| (join_pointer(pointer, &index.to_string()), server))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Servers that violate the schema.
pub(crate) fn find_violations(file: &Value) -> Vec<SchemaViolation> {
    let servers = iter_servers(file).into_iter();
    servers.flat_map(|(pointer, server)| violations(&pointer, server)).collect()
}

/// Servers that match the schema but are invalid, by JSON pointer.
pub(crate) fn find_wrong_servers(file: &Value) -> Vec<(String, String)> {
    let mut wrong = find_unnamed(file);
    for (pointer, server) in iter_servers(file) {
        let Ok(setting) = serde_json::from_value::<McpServerSetting>(server.clone()) else {
            continue;
        };
        let Some(fields) = server.as_object() else { continue };
        wrong.extend(find_duplicate_fields(&pointer, fields));
        wrong.extend(find_wrong_timeouts(&pointer, fields, &setting));
        for (list, check) in [
            ("network", sandbox::check_host as sandbox::TextCheck),
            ("writable", sandbox::check_writable),
        ] {
            wrong.extend(sandbox::find_wrong_items(file, &join_pointer(&pointer, list), check));
        }
    }
    wrong
}

/// Servers in an array without a name or with a duplicate one.
fn find_unnamed(file: &Value) -> Vec<(String, String)> {
    let Some(Value::Array(servers)) = file.get("mcpServers") else { return Vec::new() };
    let mut wrong = Vec::new();
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| server.is_object()) {
        let pointer = join_pointer("/mcpServers", &index.to_string());
        let Some(name) = server_id(server) else {
            wrong.push((pointer, "the server has no name; add an `id`".to_owned()));
            continue;
        };
        let earlier = servers.iter().take(index);
        if earlier.filter_map(server_id).any(|earlier| earlier == name) {
            let what = format!("`{name}` is the name of an earlier server; use another `id`");
            wrong.push((join_pointer(&pointer, "id"), what));
        }
    }
    wrong
}

/// Fields of one server that are aliases of each other.
fn find_duplicate_fields(pointer: &str, fields: &Map<String, Value>) -> Vec<(String, String)> {
    const SYNONYMS: [&[&str]; 3] = [
        &["url", "httpUrl"],
        &["includeTools", "allowedTools", "enabled_tools"],
        &["excludeTools", "deniedTools", "disabled_tools"],
    ];
    let mut wrong = Vec::new();
    for names in SYNONYMS {
        let mut present = names.iter().filter(|name| fields.contains_key(**name));
        if let (Some(first), Some(second)) = (present.next(), present.next()) {
            let what = format!("`{second}` is an alias of `{first}`; keep one of them");
            wrong.push((join_pointer(pointer, second), what));
        }
    }
    wrong
}

fn find_wrong_timeouts(
    pointer: &str,
    fields: &Map<String, Value>,
    setting: &McpServerSetting,
) -> Vec<(String, String)> {
    let mut times: Vec<(String, &Value)> = Vec::new();
    for name in ["timeout", "startupTimeout", "maxTimeout"] {
        times.extend(fields.get(name).map(|time| (join_pointer(pointer, name), time)));
    }
    let tools = join_pointer(pointer, "toolTimeouts");
    let of_tools = fields.get("toolTimeouts").and_then(Value::as_object).into_iter().flatten();
    times.extend(of_tools.map(|(tool, time)| (join_pointer(&tools, tool), time)));
    let mut wrong: Vec<(String, String)> = times
        .into_iter()
        .filter_map(|(pointer, time)| Some((pointer, check_time(time).err()?)))
        .collect();
    if wrong.is_empty()
        && let Ok(times) = setting.timeouts()
        && let Some(longest) = times.longest
        && times.of_calls().any(|timeout| timeout > longest)
    {
        let what = "a timeout of this server is longer than its `maxTimeout`; raise that";
        wrong.push((join_pointer(pointer, "maxTimeout"), what.to_owned()));
    }
    wrong
}
