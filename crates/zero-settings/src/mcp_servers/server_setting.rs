//! The settings of one MCP server.
//!
//! zero's own field names, and those of other programs where they mean the same.

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

/// Longest timeout that a server may have.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How MCP servers are used.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct McpSettings {
    /// A command that starts one MCP server, named `default`: one program with its arguments; no
    /// shell interprets it.
    mcp_server_command: Option<String>,
    /// Most tokens that the schemas of all MCP tools may cost; above that the model finds tools
    /// with a search tool. 20000 when absent.
    tool_schema_budget: Option<u32>,
}

/// One MCP server: a command that zero starts in a sandbox, or a URL that it connects to over HTTP.
/// `${NAME}` and `${NAME:-default}` are replaced with variables in `command`, `args`, `env`, `url`,
/// `headers` and `oauth`.
#[derive(Clone, Debug, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct McpServerSetting {
    /// In an array: the server's name, which is the first part of its tool names.
    id: Option<String>,
    /// In an array without `id`: the server's name. Ignored elsewhere.
    name: Option<String>,
    /// A comment; zero ignores it.
    description: Option<String>,
    /// The transport: `stdio` for a command, `http` for a URL. Optional.
    #[serde(rename = "type")]
    #[schemars(schema_with = "transport_schema")]
    pub transport: Option<TransportSetting>,
    /// The program to start: a name or a path.
    pub command: Option<McpCommandSetting>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables, in addition to the usual ones: an object, or an array of names and
    /// values.
    pub env: VariablesSetting,
    /// The folder it starts in, relative to the workspace; the workspace itself when absent.
    pub cwd: Option<String>,
    /// Hosts that the command may connect to, such as `api.example.com`, in addition to those of
    /// all commands.
    pub network: Vec<String>,
    /// Folders that the command may change, such as `~/.cache/server`, in addition to those of all
    /// commands.
    pub writable: Vec<String>,
    /// The URL: `https`, or `http` on this machine.
    pub url: Option<String>,
    /// Alias of `url`.
    pub http_url: Option<String>,
    /// Headers sent with each request.
    pub headers: BTreeMap<String, String>,
    /// OAuth parameters that the server does not announce itself.
    pub oauth: OauthSetting,
    /// How long a call may go without an answer or a progress message: milliseconds, or a string
    /// such as "120s". 120 seconds when absent.
    #[schemars(schema_with = "time_schema")]
    timeout: Option<LimitSetting>,
    /// How long the server may take to start and list its tools. 30 seconds when absent.
    #[schemars(schema_with = "time_schema")]
    startup_timeout: Option<LimitSetting>,
    /// How long a call may take in total, even if it reports progress. 30 minutes when absent.
    #[schemars(schema_with = "time_schema")]
    max_timeout: Option<LimitSetting>,
    /// `timeout` of single tools, by the server's own tool names.
    #[schemars(schema_with = "times_schema")]
    tool_timeouts: BTreeMap<String, LimitSetting>,
    /// The tools that are offered, by the server's own names. All when absent.
    include_tools: Option<Vec<String>>,
    /// Alias of `includeTools`.
    allowed_tools: Option<Vec<String>>,
    /// Alias of `includeTools`.
    #[serde(rename = "enabled_tools")]
    enabled_tools: Option<Vec<String>>,
    /// The tools that are not offered.
    exclude_tools: Option<Vec<String>>,
    /// Alias of `excludeTools`.
    denied_tools: Option<Vec<String>>,
    /// Alias of `excludeTools`.
    #[serde(rename = "disabled_tools")]
    disabled_tools: Option<Vec<String>>,
    /// Whether the server is disabled.
    disabled: bool,
    /// Whether the server is used; true when absent.
    enabled: Option<bool>,
    /// Has no effect: use rules in `permissions.allow`.
    #[schemars(schema_with = "any_schema")]
    trust: Option<Value>,
    /// Has no effect: use rules in `permissions.allow`.
    #[schemars(schema_with = "any_schema")]
    auto_approve: Option<Value>,
    /// Has no effect: use rules in `permissions.allow`.
    #[schemars(schema_with = "any_schema")]
    always_allow: Option<Value>,
    /// Ignored.
    source: Option<String>,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TransportSetting {
    /// The standard streams of a command.
    #[serde(rename = "stdio")]
    Stdio,
    /// Streamable HTTP at the server's URL.
    #[serde(rename = "http", alias = "streamable-http", alias = "streamableHttp")]
    Http,
    /// Server-sent events, an obsolete transport that zero does not support.
    #[serde(rename = "sse")]
    Sse,
}

/// A program, alone or with its arguments and variables.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpCommandSetting {
    /// A name or a path.
    Program(String),
    /// A path with arguments and variables.
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
    /// Environment variables, in addition to the usual ones.
    #[serde(default)]
    pub env: VariablesSetting,
}

/// Variables with their values.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum VariablesSetting {
    /// An object with the value of each variable by its name.
    ByName(BTreeMap<String, String>),
    /// A list of names and values.
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
    /// Value of the variable.
    value: String,
}

/// OAuth parameters for a server that does not announce them.
#[derive(Clone, Debug, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct OauthSetting {
    /// The id of a client that was registered in advance.
    pub client_id: Option<String>,
    /// The client's secret, if it has one.
    pub client_secret: Option<String>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The local port of the redirect URL; any free port when absent.
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

/// The timeouts that are set for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// How long a call may go without an answer.
    pub call: Option<Duration>,
    /// How long the server may take to start.
    pub startup: Option<Duration>,
    /// How long a call may take in total.
    pub longest: Option<Duration>,
    /// How long calls of single tools may go without an answer.
    pub of_tools: BTreeMap<String, Duration>,
}

impl ServerTimeouts {
    /// All timeouts of calls that are set.
    pub fn of_calls(&self) -> impl Iterator<Item = Duration> {
        self.call.into_iter().chain(self.of_tools.values().copied())
    }
}

impl McpServerSetting {
    /// The timeouts that are set; the error names the invalid one.
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

    /// The tools that are offered; all when absent.
    pub fn tools_allowed(&self) -> Option<Vec<String>> {
        let aliases = [&self.include_tools, &self.allowed_tools, &self.enabled_tools];
        aliases.into_iter().flatten().next().cloned()
    }

    /// The tools that are not offered.
    pub fn tools_denied(&self) -> Vec<String> {
        let aliases = [&self.exclude_tools, &self.denied_tools, &self.disabled_tools];
        aliases.into_iter().flatten().next().cloned().unwrap_or_default()
    }

    /// Whether the server is disabled.
    pub fn is_disabled(&self) -> bool {
        self.disabled || self.enabled == Some(false)
    }

    /// Fields that would allow tools without asking in other programs, if they are set.
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

/// Checks that a value is a valid timeout.
pub fn check_time(value: &Value) -> Result<(), String> {
    match LimitSetting::deserialize(value) {
        Ok(value) => parse_time(&value).map(drop),
        // The schema check reports it.
        Err(_) => Ok(()),
    }
}

/// A number is in milliseconds, as in other programs.
fn parse_time(value: &LimitSetting) -> Result<Duration, String> {
    let parsed = match value {
        LimitSetting::Number(milliseconds) => Some(Duration::from_millis(*milliseconds)),
        LimitSetting::Text(text) => parse_duration(text).ok(),
    };
    parsed.filter(|time| !time.is_zero() && *time <= TIME_MAX).ok_or_else(|| {
        format!(
            "`{}` is not a timeout of at most a day; write milliseconds such as 120000, or a string such as \"120s\"",
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

/// Schema violations of the server at a JSON pointer.
pub fn violations(pointer: &str, server: &Value) -> Vec<SchemaViolation> {
    let found = SERVER_SCHEMA.check(server.clone()).err().unwrap_or_default();
    let exact = found.into_iter().flat_map(|violation| refine_violation(violation, server, 0));
    let placed = exact
        .map(|found| SchemaViolation { pointer: format!("{pointer}{}", found.pointer), ..found });
    placed.collect()
}

/// Replaces the violation of a value with several forms by those of the form it has.
fn refine_violation(found: SchemaViolation, server: &Value, depth: u8) -> Vec<SchemaViolation> {
    let name = found.pointer.rsplit('/').next().unwrap_or_default();
    let value = server.pointer(&found.pointer);
    let form = match (name, value) {
        ("command", Some(Value::Object(_))) => &COMMAND_SCHEMA,
        ("env", Some(Value::Object(_))) => &MAP_SCHEMA,
        ("env", Some(Value::Array(_))) => &LIST_SCHEMA,
        _ => return vec![found],
    };
    // A command can have variables; nothing is nested deeper.
    let inner = value.map(|value| form.check(value.clone()));
    let Some(Err(inner)) = inner.filter(|_| depth < 2) else { return vec![found] };
    let placed = inner.into_iter().map(|inner| {
        let pointer = format!("{}{}", found.pointer, inner.pointer);
        SchemaViolation { pointer, ..inner }
    });
    placed.flat_map(|inner| refine_violation(inner, server, depth + 1)).collect()
}
