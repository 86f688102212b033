//! What can stand in the settings of one MCP server.
//!
//! zero's own names, and those of the programs that people bring their servers from, as far as
//! they mean one thing.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use zero_core::SchemaViolation;
use zero_core::host_limits::parse_duration;
use zero_runtime::schema::{self, InputSchema};

use crate::limit_setting::LimitSetting;

/// Longest time that a server may be given for anything.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How MCP servers are used.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct McpSettings {
    /// A command that starts one MCP server, which is then called `default`: one program with its
    /// arguments; no shell looks at it.
    mcp_server_command: Option<String>,
    /// Most tokens that the schemas of all MCP tools may cost; beyond that the tools are found by
    /// a search tool. 20000 when absent.
    tool_schema_budget: Option<u32>,
}

/// One MCP server: a command that is started here, confined, or an address that is reached by
/// HTTP. `${NAME}` and `${NAME:-default}` stand for variables in `command`, `args`, `env`, `url`,
/// `headers` and `oauth`.
#[derive(Clone, Debug, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct McpServerSetting {
    /// In an array: what the server is called, the first part of the names of its tools.
    id: Option<String>,
    /// In an array without `id`: the same. Elsewhere zero does not look at it.
    name: Option<String>,
    /// For people; zero does not look at it.
    description: Option<String>,
    /// How it is reached: `stdio` for a command, `http` for an address. May be left out.
    #[serde(rename = "type")]
    #[schemars(schema_with = "transport_schema")]
    pub transport: Option<TransportSetting>,
    /// The program that is started: a name or a path.
    pub command: Option<McpCommandSetting>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The variables it gets beside the usual few: an object, or an array of name and value.
    pub env: VariablesSetting,
    /// The folder it starts in, from the workspace's folder on. That folder when absent.
    pub cwd: Option<String>,
    /// Hosts that the command may reach, such as `api.example.com`, beside those that all commands
    /// may.
    pub network: Vec<String>,
    /// Folders that the command may change, such as `~/.cache/server`, beside those that all
    /// commands may.
    pub writable: Vec<String>,
    /// The address: `https`, or `http` on this machine.
    pub url: Option<String>,
    /// The same as `url`.
    pub http_url: Option<String>,
    /// Headers that every request carries.
    pub headers: BTreeMap<String, String>,
    /// How to log in, where the server does not say.
    pub oauth: OauthSetting,
    /// How long a call may be without an answer or a word of progress: milliseconds, or a text
    /// such as "120s". 120 seconds when absent.
    #[schemars(schema_with = "time_schema")]
    timeout: Option<LimitSetting>,
    /// How long the server may take until it has listed its tools. 30 seconds when absent.
    #[schemars(schema_with = "time_schema")]
    startup_timeout: Option<LimitSetting>,
    /// How long a call may take however much progress it tells of. 30 minutes when absent.
    #[schemars(schema_with = "time_schema")]
    max_timeout: Option<LimitSetting>,
    /// The same as `timeout` for some tools, by the server's own names for them.
    #[schemars(schema_with = "times_schema")]
    tool_timeouts: BTreeMap<String, LimitSetting>,
    /// The tools that are taken, by the server's own names for them. All when absent.
    include_tools: Option<Vec<String>>,
    /// The same as `includeTools`.
    allowed_tools: Option<Vec<String>>,
    /// The same as `includeTools`.
    #[serde(rename = "enabled_tools")]
    enabled_tools: Option<Vec<String>>,
    /// The tools that are not taken.
    exclude_tools: Option<Vec<String>>,
    /// The same as `excludeTools`.
    denied_tools: Option<Vec<String>>,
    /// The same as `excludeTools`.
    #[serde(rename = "disabled_tools")]
    disabled_tools: Option<Vec<String>>,
    /// Whether the server is left alone.
    disabled: bool,
    /// Whether it is used. True when absent.
    enabled: Option<bool>,
    /// Allows nothing: rules in `permissions.allow` do that.
    #[schemars(schema_with = "any_schema")]
    trust: Option<Value>,
    /// Allows nothing: rules in `permissions.allow` do that.
    #[schemars(schema_with = "any_schema")]
    auto_approve: Option<Value>,
    /// Allows nothing: rules in `permissions.allow` do that.
    #[schemars(schema_with = "any_schema")]
    always_allow: Option<Value>,
    /// zero does not look at it.
    source: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TransportSetting {
    /// By the standard streams of a command.
    #[serde(rename = "stdio")]
    Stdio,
    /// By streamable HTTP at the server's URL.
    #[serde(rename = "http", alias = "streamable-http", alias = "streamableHttp")]
    Http,
    /// By server-sent events, which nobody speaks any more.
    #[serde(rename = "sse")]
    Sse,
}

/// A program; alone, or with its arguments and variables.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpCommandSetting {
    /// A name or a path.
    Program(String),
    /// A path with what belongs to it.
    Parts(McpCommandParts),
}

/// A program with its arguments and variables.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpCommandParts {
    /// A name or a path.
    pub path: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The variables it gets beside the usual few.
    #[serde(default)]
    pub env: VariablesSetting,
}

/// Variables with their values.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum VariablesSetting {
    /// An object with the value of each variable by its name.
    ByName(BTreeMap<String, String>),
    /// One after the other.
    Listed(Vec<VariableSetting>),
}

impl Default for VariablesSetting {
    fn default() -> Self {
        Self::ByName(BTreeMap::new())
    }
}

impl VariablesSetting {
    /// Names and values.
    pub fn as_pairs(&self) -> Vec<(&str, &str)> {
        match self {
            Self::ByName(values) => {
                values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
            }
            Self::Listed(values) => {
                values.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect()
            }
        }
    }
}

/// A variable with its value.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariableSetting {
    /// Name of the variable in the server's environment.
    name: String,
    /// Value that the variable has for the server.
    value: String,
}

/// How to log in at a server that wants it and does not say how.
#[derive(Clone, Debug, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct OauthSetting {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// What to ask for.
    pub scopes: Vec<String>,
    /// The port of this machine that the browser is sent back to. Any free one when absent.
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

/// The times that are set for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// How long a call may be without an answer.
    pub call: Option<Duration>,
    /// How long it may take to start.
    pub startup: Option<Duration>,
    /// How long a call may take at most.
    pub longest: Option<Duration>,
    /// How long calls of some tools may be without an answer.
    pub of_tools: BTreeMap<String, Duration>,
}

impl ServerTimeouts {
    /// All timeouts of calls that are set.
    pub fn of_calls(&self) -> impl Iterator<Item = Duration> {
        self.call.into_iter().chain(self.of_tools.values().copied())
    }
}

impl McpServerSetting {
    /// The times that are set; the error says which of them is none.
    pub fn timeouts(&self) -> Result<ServerTimeouts, String> {
        let time = |setting: &Option<LimitSetting>| setting.as_ref().map(parse_time).transpose();
        let of_tools = self.tool_timeouts.iter();
        Ok(ServerTimeouts {
            call: time(&self.timeout)?,
            startup: time(&self.startup_timeout)?,
            longest: time(&self.max_timeout)?,
            of_tools: of_tools
                .map(|(tool, value)| Ok((tool.clone(), parse_time(value)?)))
                .collect::<Result<_, String>>()?,
        })
    }

    /// The tools that are taken; all when absent.
    pub fn tools_allowed(&self) -> Option<Vec<String>> {
        let said = [&self.include_tools, &self.allowed_tools, &self.enabled_tools];
        said.into_iter().flatten().next().cloned()
    }

    /// The tools that are not taken.
    pub fn tools_denied(&self) -> Vec<String> {
        let said = [&self.exclude_tools, &self.denied_tools, &self.disabled_tools];
        said.into_iter().flatten().next().cloned().unwrap_or_default()
    }

    /// Whether the server is left alone.
    pub fn is_disabled(&self) -> bool {
        self.disabled || self.enabled == Some(false)
    }

    /// Keys that would let tools run elsewhere, and are set to do so.
    pub fn self_trust_fields(&self) -> Vec<&'static str> {
        let claims = [
            ("trust", &self.trust),
            ("autoApprove", &self.auto_approve),
            ("alwaysAllow", &self.always_allow),
        ];
        let says_something = |value: &Value| match value {
            Value::Bool(value) => *value,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let claims = claims.into_iter();
        claims
            .filter(|(_, value)| value.as_ref().is_some_and(says_something))
            .map(|(n, _)| n)
            .collect()
    }
}

/// Whether a value is a time that a server can be given.
pub fn check_time(value: &Value) -> Result<(), String> {
    match LimitSetting::deserialize(value) {
        Ok(value) => parse_time(&value).map(drop),
        // The schema has told them.
        Err(_) => Ok(()),
    }
}

/// A number is in milliseconds, as other programs have it.
fn parse_time(value: &LimitSetting) -> Result<Duration, String> {
    let parsed = match value {
        LimitSetting::Number(milliseconds) => Some(Duration::from_millis(*milliseconds)),
        LimitSetting::Text(text) => parse_duration(text).ok(),
    };
    parsed.filter(|time| !time.is_zero() && *time <= TIME_MAX).ok_or_else(|| {
        format!(
            "`{}` is no time up to a day; write milliseconds such as 120000, or a text such as \"120s\"",
            value.to_text()
        )
    })
}

fn transport_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["stdio", "http", "streamable-http", "streamableHttp", "sse"]})
}

fn time_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]})
}

fn times_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": time_schema(generator)})
}

fn any_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

/// The JSON Schema of one server.
pub fn schema() -> Value {
    schema::derive_input_schema::<McpServerSetting>()
}

static SERVER_SCHEMA: LazyLock<InputSchema> = LazyLock::new(|| InputSchema::new(schema()));
static COMMAND_SCHEMA: LazyLock<InputSchema> =
    LazyLock::new(|| InputSchema::new(schema::derive_input_schema::<McpCommandParts>()));
static LIST_SCHEMA: LazyLock<InputSchema> =
    LazyLock::new(|| InputSchema::new(schema::derive_input_schema::<Vec<VariableSetting>>()));
static MAP_SCHEMA: LazyLock<InputSchema> = LazyLock::new(|| {
    InputSchema::new(json!({"type": "object", "additionalProperties": {"type": "string"}}))
});

/// What is wrong with the form of a server that stands at a JSON pointer.
pub fn violations(pointer: &str, server: &Value) -> Vec<SchemaViolation> {
    let found = SERVER_SCHEMA.check(server.clone()).err().unwrap_or_default();
    let exact = found.into_iter().flat_map(|violation| refine_violation(violation, server, 0));
    let placed = exact
        .map(|found| SchemaViolation { pointer: format!("{pointer}{}", found.pointer), ..found });
    placed.collect()
}

/// What exactly is wrong with something that has several forms, by the form it has.
fn refine_violation(found: SchemaViolation, server: &Value, depth: u8) -> Vec<SchemaViolation> {
    let name = found.pointer.rsplit('/').next().unwrap_or_default();
    let value = server.pointer(&found.pointer);
    let form = match (name, value) {
        ("command", Some(Value::Object(_))) => &COMMAND_SCHEMA,
        ("env", Some(Value::Object(_))) => &MAP_SCHEMA,
        ("env", Some(Value::Array(_))) => &LIST_SCHEMA,
        _ => return vec![found],
    };
    // A command has variables of its own; nothing lies deeper than that.
    let inner = value.map(|value| form.check(value.clone()));
    let Some(Err(inner)) = inner.filter(|_| depth < 2) else { return vec![found] };
    let placed = inner.into_iter().map(|inner| {
        let pointer = format!("{}{}", found.pointer, inner.pointer);
        SchemaViolation { pointer, ..inner }
    });
    placed.flat_map(|inner| refine_violation(inner, server, depth + 1)).collect()
}
