//! The schema of a settings file.
//!
//! These types are the reference: the JSON Schema that `zero config schema` prints, and against
//! which files are checked, is generated from them and their doc comments.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use zero_core::host_limits::InvalidLimitError;
use zero_core::schema_violation::join_pointer;
use zero_core::{CommandLimit, CommandLimitChange, HostLimits, SchemaViolation};
use zero_policy::PermissionMode;
use zero_runtime::schema::{self, InputSchema};
use zero_wire::params::ParamsChecker;

use crate::acp::{self, AcpSettings};
use crate::budgets::{self, BudgetSettings};
use crate::chat::{self, ChatSettings};
use crate::document::SettingsDocument;
use crate::files::{self, FilesSettings};
use crate::gateway::{self, GatewaySettings};
use crate::hooks::{self, HooksSettings};
pub use crate::limit_setting::LimitSetting;
use crate::limit_setting::{
    command_limits_schema, limit_schema, parse_command_limits, profile_schema,
};
use crate::lsp_servers::{self, LspServerSetting};
use crate::mcp_servers::{self, McpSettings};
use crate::models::{self, AgentSetting, ModelSetting};
use crate::network::{self, NetworkSettings};
use crate::notify::{self, NotifySettings};
use crate::problem::SettingsProblem;
use crate::retention::{self, DataRetentionSettings};
use crate::sandbox::{self, BashSettings, SandboxSettings};
use crate::secrets::{self, SecretsSettings};
use crate::semantic_checks;
use crate::subagents::{self, SubagentSettings};
use crate::tool_commands::{self, COMMAND_LINES, ToolsSettings};
use crate::undo::{self, UndoSection};
use crate::update::{self, UpdateSettings};
use crate::web::{self, WebSettings};

/// Settings of zero. JSON with comments and trailing commas.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsFile {
    /// Where an editor finds the schema of this file; zero ignores it.
    #[serde(rename = "$schema")]
    schema: Option<String>,
    /// What runs without asking, what needs your approval, and what never runs.
    pub permissions: PermissionSettings,
    /// Limits that differ from the defaults, by name: times such as "5s", sizes such as "10mb",
    /// counts such as 4, the `profile` "fair" or "strict" of commands, shares of a processor such as "50%". Limits of commands may also be in an
    /// object under the name of a tool, for the commands of that tool.
    #[schemars(schema_with = "limits_schema")]
    limits: BTreeMap<String, Value>,
    /// MCP servers: an object from alias to server, or an array of servers with an `id`. Their
    /// tools are named `alias__tool`.
    #[serde(rename = "mcpServers")]
    #[schemars(schema_with = "servers_schema")]
    mcp_servers: Option<Value>,
    /// How MCP servers are used.
    mcp: McpSettings,
    /// Language servers, by name: additional ones, and changes to the built-in ones.
    #[serde(rename = "lspServers")]
    lsp_servers: BTreeMap<String, LspServerSetting>,
    /// Tools that your own command provides.
    tools: ToolsSettings,
    /// Commands that run before and after calls.
    hooks: HooksSettings,
    /// Models, by the name under which you select them.
    models: BTreeMap<String, ModelSetting>,
    /// The model of agents that name none: a key of `models`, or `provider/model`.
    model: Option<String>,
    /// Agents, by their name in session keys.
    agents: BTreeMap<String, AgentSetting>,
    /// The agent of sessions whose key names none.
    agent: Option<String>,
    /// The gateway that you run, and a remote one that you use.
    gateway: GatewaySettings,
    /// How zero serves editors.
    acp: AcpSettings,
    /// Which hosts, variables and files commands may use.
    sandbox: SandboxSettings,
    /// How zero keeps the values of secrets from models and records.
    secrets: SecretsSettings,
    /// Settings of the Bash tool.
    bash: BashSettings,
    /// How tools change files.
    files: FilesSettings,
    /// How tools use the web.
    web: WebSettings,
    /// How zero itself connects.
    network: NetworkSettings,
    /// How long zero keeps its own data.
    retention: DataRetentionSettings,
    /// How much may be spent.
    budgets: BudgetSettings,
    /// What `zero undo` can take back.
    undo: UndoSection,
    /// How zero tells you that it needs you.
    notify: NotifySettings,
    /// How the chat in the terminal looks.
    chat: ChatSettings,
    /// How many sub-agents may work for a run.
    subagents: SubagentSettings,
    /// Where `zero update` finds releases.
    update: UpdateSettings,
}

/// What runs without asking, what needs your approval, and what never runs. Deny overrides ask, and
/// ask overrides allow, wherever they are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionSettings {
    /// Calls that run without asking.
    pub allow: Vec<RuleSetting>,
    /// Calls that need your approval.
    pub ask: Vec<RuleSetting>,
    /// Calls that never run.
    pub deny: Vec<RuleSetting>,
    /// The default where no rule applies: `plan` changes nothing, `ask` asks about every change,
    /// `accept-edits` allows changes to workspace files, `auto` asks only about what can do much
    /// harm.
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<PermissionMode>,
}

/// A rule: `Tool`, `Tool(exact)`, `Tool(prefix:*)`; alone, or with examples and a reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RuleSetting {
    /// A rule such as `Bash(git status:*)`.
    Text(String),
    /// A rule with examples or a reason.
    Explained(ExplainedRuleSetting),
}

/// A rule with examples or a reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainedRuleSetting {
    /// The rule, such as `Bash(git push:*)`.
    pub rule: String,
    /// Calls that the rule must match, such as `git push origin`; checked when the file is read.
    #[serde(default, rename = "match")]
    pub matches: Vec<String>,
    /// Calls that the rule must not match, such as `git pull`.
    #[serde(default)]
    pub not_match: Vec<String>,
    /// The reason for the rule, for other readers.
    pub why: Option<String>,
    /// Limits that are raised for the commands that the rule matches, such as `{"command-memory":
    /// "4GB"}`.
    #[serde(default)]
    #[schemars(schema_with = "command_limits_schema")]
    pub limits: BTreeMap<String, LimitSetting>,
}

impl ExplainedRuleSetting {
    /// The limits it raises; the error names the invalid one.
    pub fn limit_changes(&self) -> Result<CommandLimitChange, (&str, InvalidLimitError)> {
        parse_command_limits(&self.limits)
    }
}

impl RuleSetting {
    /// The rule in its explained form.
    pub fn into_explained(self) -> ExplainedRuleSetting {
        match self {
            Self::Text(rule) => {
                let (matches, not_match) = (Vec::new(), Vec::new());
                ExplainedRuleSetting {
                    rule,
                    matches,
                    not_match,
                    why: None,
                    limits: BTreeMap::new(),
                }
            }
            Self::Explained(rule) => rule,
        }
    }
}

/// The JSON Schema 2020-12 of a settings file.
pub fn schema() -> Value {
    let mut schema = schema::derive_input_schema::<SettingsFile>();
    if let Some(fields) = schema.as_object_mut() {
        let named = json!("https://json-schema.org/draft/2020-12/schema");
        fields.shift_insert(0, "$schema".to_owned(), named);
        fields.shift_insert(1, "title".to_owned(), json!("zero settings"));
    }
    if let Some(forms) = schema.pointer_mut("/properties/mcpServers/anyOf") {
        let server = mcp_servers::schema();
        *forms = json!([
            {"type": "object", "additionalProperties": server},
            {"type": "array", "items": server},
        ]);
    }
    schema
}

/// A key that can be set.
#[derive(Clone, Copy, Debug)]
pub struct SettingsKey {
    /// The dotted key, such as `permissions.mode`.
    pub key: &'static str,
    /// Whether any keys are valid below it.
    pub is_open: bool,
}

/// The keys that can be set.
pub fn known_keys() -> Vec<SettingsKey> {
    static LIMITS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let of_tool =
            |tool: &&str| CommandLimit::ALL.map(|limit| format!("{tool}.{}", limit.name()));
        let of_tools = HostLimits::COMMAND_TOOLS.iter().flat_map(of_tool);
        let names = HostLimits::NAMES.iter().map(|name| (*name).to_owned()).chain(of_tools);
        names.map(|name| format!("limits.{name}")).collect()
    });
    let key = |key, is_open| SettingsKey { key, is_open };
    let permissions =
        ["permissions.allow", "permissions.ask", "permissions.deny", "permissions.mode"];
    let open =
        ["mcpServers", "lspServers", "models", "agents", "gateway.tokens", "gateway.telemetry"];
    let closed = permissions.into_iter().chain(LIMITS.iter().map(String::as_str));
    let closed = closed
        .chain(sandbox::LISTS)
        .chain(secrets::LISTS)
        .chain([secrets::MASK_KEY, secrets::REMEMBER_KEY])
        .chain(hooks::LISTS)
        .chain([
            sandbox::OUTSIDE_KEY,
            "bash.on-timeout",
            files::BACKUP_KEY,
            "mcp.toolSchemaBudget",
        ]);
    let closed = closed.chain(COMMAND_LINES).chain(["model", "agent"]);
    let closed =
        closed.chain(gateway::KEYS).chain(gateway::REMOTE_KEYS).chain(acp::KEYS).chain(web::KEYS);
    let closed =
        closed.chain(network::KEYS).chain(retention::KEYS).chain(budgets::KEYS).chain(undo::KEYS);
    let closed = closed.chain(notify::KEYS).chain(chat::KEYS).chain(update::KEYS);
    let closed = closed.chain(subagents::KEYS).filter(|name| !open.contains(name));
    closed.map(|name| key(name, false)).chain(open.map(|name| key(name, true))).collect()
}

/// Whether a key is a list that files extend.
pub fn is_list(key: &str) -> bool {
    matches!(key, "permissions.allow" | "permissions.ask" | "permissions.deny")
        || sandbox::LISTS.contains(&key)
        || secrets::LISTS.contains(&key)
        || hooks::LISTS.contains(&key)
}

fn limits_schema(generator: &mut SchemaGenerator) -> Schema {
    let limits = HostLimits::NAMES.iter().map(|name| {
        let schema = if *name == "profile" { profile_schema() } else { limit_schema() };
        ((*name).to_owned(), schema)
    });
    let of_tool = command_limits_schema(generator).to_value();
    let tools = HostLimits::COMMAND_TOOLS.iter().map(|tool| ((*tool).to_owned(), of_tool.clone()));
    let properties: serde_json::Map<String, Value> = limits.chain(tools).collect();
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": PermissionMode::ALL.map(PermissionMode::as_str)})
}

/// Only the outer structure: each server is checked separately, so that an error names its server,
/// and so that files without servers do not pay for compiling the server schema.
fn servers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "object"}, {"type": "array"}]})
}

static SETTINGS_SCHEMA: LazyLock<InputSchema> =
    LazyLock::new(|| InputSchema::new(schema::derive_input_schema::<SettingsFile>()));
static EXPLAINED_RULE_SCHEMA: LazyLock<InputSchema> =
    LazyLock::new(|| InputSchema::new(schema::derive_input_schema::<ExplainedRuleSetting>()));

/// Tells valid files from possibly invalid ones. The validator that explains errors takes many
/// milliseconds to compile, and is rarely needed.
static FAST_VALIDATOR: LazyLock<ParamsChecker> =
    LazyLock::new(|| ParamsChecker::new(schema::derive_input_schema::<SettingsFile>()));

/// Compiles the validator in advance: it takes a while and depends on nothing.
pub fn prepare() {
    LazyLock::force(&FAST_VALIDATOR);
}

/// All errors of a file by JSON pointer, except those of rules, which are checked where they are
/// parsed.
pub(crate) fn find_problems(value: &Value) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pointer in find_nulls(value) {
        let what = format!("`{}` is null; remove it", dotted_key(&pointer));
        found.push((pointer, what));
    }
    if !is_valid_fast(value)
        && let Err(violations) = SETTINGS_SCHEMA.check(value.clone())
    {
        let violations =
            violations.into_iter().flat_map(|violation| refine_violation(violation, value));
        found.extend(
            violations.map(|violation| (violation.pointer.clone(), describe_violation(&violation))),
        );
    }
    let servers = mcp_servers::find_violations(value);
    found.extend(
        servers.iter().map(|violation| (violation.pointer.clone(), describe_violation(violation))),
    );
    found.extend(mcp_servers::find_wrong_servers(value));
    found.extend(lsp_servers::find_wrong_servers(value));
    found.extend(hooks::find_wrong_hooks(value));
    found.extend(tool_commands::find_wrong_command_lines(value));
    found.extend(semantic_checks::find_wrong_limits(value));
    found.extend(semantic_checks::find_wrong_budgets(value));
    found.extend(semantic_checks::find_wrong_webhook(value));
    found.extend(semantic_checks::find_wrong_programs(value));
    found.extend(sandbox::find_wrong_texts(value));
    found.extend(secrets::find_wrong_texts(value));
    found.extend(models::find_wrong_names(value));
    found.extend(gateway::find_wrong_texts(value));
    found.extend(web::find_wrong_engines(value));
    if found.is_empty()
        && let Err(error) = SettingsFile::deserialize(value)
    {
        found.push((String::new(), format!("cannot be used: {error}")));
    }
    found
}

/// The errors of a file with their locations, from top to bottom.
pub(crate) fn to_problems(
    file: &str,
    document: &SettingsDocument,
    found: Vec<(String, String)>,
) -> Vec<SettingsProblem> {
    let problem = |(pointer, what): (String, String)| SettingsProblem {
        file: file.to_owned(),
        place: Some(document.location(&pointer)),
        what,
    };
    let mut problems: Vec<SettingsProblem> = found.into_iter().map(problem).collect();
    problems.sort_by_key(|problem| problem.place);
    problems
}

fn is_valid_fast(value: &Value) -> bool {
    !schema::depth_exceeds(value, schema::DEPTH_MAX) && FAST_VALIDATOR.check(value).is_ok()
}

/// Values that are null and would be treated as absent, although the author meant something by
/// them.
fn find_nulls(value: &Value) -> impl Iterator<Item = String> {
    let fields = |pointer: &str| {
        value.pointer(pointer).and_then(Value::as_object).into_iter().flatten().map({
            let pointer = pointer.to_owned();
            move |(name, field)| (join_pointer(&pointer, name), field)
        })
    };
    fields("")
        .chain(fields("/permissions"))
        .chain(fields("/limits"))
        .chain(fields("/limits/Bash"))
        .chain(fields("/sandbox"))
        .chain(fields("/bash"))
        .chain(fields("/mcp"))
        .chain(fields("/lspServers"))
        .chain(fields("/tools"))
        .chain(fields("/hooks"))
        .chain(fields("/models"))
        .chain(fields("/agents"))
        .chain(fields("/gateway"))
        .chain(fields("/gateway/remote"))
        .chain(fields("/acp"))
        .chain(fields("/web"))
        .chain(fields("/network"))
        .chain(fields("/retention"))
        .chain(fields("/budgets"))
        .chain(fields("/budgets/run"))
        .chain(fields("/budgets/session"))
        .chain(fields("/budgets/agent"))
        .chain(fields("/budgets/owner"))
        .chain(fields("/undo"))
        .chain(fields("/notify"))
        .chain(fields("/chat"))
        .chain(fields("/subagents"))
        .chain(fields("/update"))
        .filter(|(_, field)| field.is_null())
        .map(|(pointer, _)| pointer)
}

/// Replaces the violation of an explained rule by those of its fields; keeps others as they are.
fn refine_violation(found: SchemaViolation, value: &Value) -> Vec<SchemaViolation> {
    let is_rule = found.pointer.starts_with("/permissions/");
    let Some(rule) = value.pointer(&found.pointer).filter(|rule| is_rule && rule.is_object())
    else {
        return vec![found];
    };
    match EXPLAINED_RULE_SCHEMA.check(rule.clone()) {
        Ok(_) => vec![found],
        Err(inner) => inner
            .into_iter()
            .map(|inner| SchemaViolation {
                pointer: found.pointer.clone() + &inner.pointer,
                ..inner
            })
            .collect(),
    }
}

/// Most keys that a message lists.
const LISTED_KEYS_MAX: usize = 10;

/// Describes a violation, with its fix.
fn describe_violation(found: &SchemaViolation) -> String {
    let key = dotted_key(&found.pointer);
    if found.found.starts_with("unknown field") {
        return match &found.nearest {
            Some(nearest) => format!("unknown key `{key}`; did you mean `{nearest}`?"),
            None if found.expected.split(", ").count() > LISTED_KEYS_MAX => format!(
                "unknown key `{key}`; remove it, or find the right one with `zero config list --defaults`"
            ),
            None => {
                format!("unknown key `{key}`; remove it, or write {}", found.expected)
            }
        };
    }
    if found.found.starts_with("nothing (") {
        return format!("`{key}` is missing; add it: {}", found.expected);
    }
    format!("`{key}` is {}; write {}", found.found, found.expected)
}

/// A JSON pointer as a dotted key.
pub fn dotted_key(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    steps.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{SettingsLayer, SettingsLayerKind};

    #[track_caller]
    fn check_problems(text: &str, expected: &[&str]) {
        let document = SettingsDocument::parse("f", text.as_bytes()).unwrap();
        let value = document.value();
        let is_right = SETTINGS_SCHEMA.check(value.clone()).is_ok();
        assert!(is_right || !is_valid_fast(value), "{text}");
        let layer = SettingsLayer::parse(SettingsLayerKind::User, "f".to_owned(), text.as_bytes());
        let found = layer.err().unwrap_or_default();
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn fast_validator_agrees_with_schema() {
        assert!(ParamsChecker::supports(&schema::derive_input_schema::<SettingsFile>()));
    }

    #[test]
    fn valid_settings_are_accepted() {
        check_problems("{}", &[]);
        check_problems(
            r#"{"$schema": "x", "permissions": {"allow": ["Read", "Bash(git status:*)"], "ask": [],
            "deny": [{"rule": "Bash(rm:*)", "match": ["rm -r x"], "not_match": ["ls"], "why": "no"}],
            "mode": "accept-edits"}, "limits": {"file-timeout": "5s", "session-calls": 4}}"#,
            &[],
        );
        check_problems(
            r#"{"mcpServers": {"a": {"command": "x"}}, "mcp": {"mcpServerCommand": "x"},
            "tools": {"toolDiscoveryCommand": "x"}, "hooks": {"PreToolUse": []}, "sandbox": {}}"#,
            &[],
        );
        check_problems(r#"{"mcpServers": [{"id": "a", "command": "x", "env": []}]}"#, &[]);
    }

    #[test]
    fn every_mistake_is_reported_with_location_and_fix() {
        check_problems(
            "{\n\"permisions\": {},\n\"permissions\": {\"alow\": [], \"mode\": \"yolo\", \"deny\": \"Bash\"},\n\"limits\": {\"file-timout\": \"5s\", \"result\": true}, \"zzz\": 1}",
            &[
                "f:2:1: unknown key `permisions`; did you mean `permissions`?",
                "f:3:17: unknown key `permissions.alow`; did you mean `allow`?",
                r#"f:3:29: `permissions.mode` is "yolo"; write one of "ask", "accept-edits", "plan", "auto""#,
                r#"f:3:45: `permissions.deny` is "Bash"; write an array"#,
                "f:4:12: unknown key `limits.file-timout`; did you mean `file-timeout`?",
                "f:4:33: `limits.result` is true; write a string or a whole number at least 1",
                "f:4:50: unknown key `zzz`; remove it, or find the right one with `zero config list --defaults`",
            ],
        );
        check_problems(
            "{\"permissions\": {\"deny\": [\n{\"rule\": \"Bash\", \"mtach\": []},\n{\"why\": \"x\"}, 3]}}",
            &[
                "f:2:18: unknown key `permissions.deny.0.mtach`; did you mean `match`?",
                "f:3:1: `permissions.deny.1.rule` is missing; add it: a string",
                "f:3:15: `permissions.deny.2` is 3; write a string or an object",
            ],
        );
        check_problems(
            r#"{"permissions": {"deny": null}, "hooks": null}"#,
            &[
                "f:1:18: `permissions.deny` is null; remove it",
                "f:1:33: `hooks` is null; remove it",
            ],
        );
        check_problems(
            r#"{"limits": {"file-timeout": "soon", "session-calls": 0, "queue-calls": 2}}"#,
            &[
                "f:1:13: limit `file-timeout`: `soon` is not a time such as `250 ms`, `30 s` or `2 m`",
                "f:1:37: `limits.session-calls` is 0; write a string or a whole number at least 1",
            ],
        );
        check_problems(
            r#"{"limits": {"session-calls": 4.0, "host-calls": 18446744073709551615, "queue-calls": "1000001", "result": 99999999999999999999999}}"#,
            &[
                "f:1:13: limit `session-calls`: `4.0` is not a whole number from 1 to 1000000",
                "f:1:35: limit `host-calls`: `18446744073709551615` is not a whole number from 1 to 1000000",
                "f:1:71: limit `queue-calls`: `1000001` is not a whole number from 1 to 1000000",
                "f:1:97: limit `result`: `1e+23` is not a size such as `500 KB` or `10 MB`",
            ],
        );
        check_problems(
            r#"{"permissions": {"allow": ["", "Bash(x", "Bash)x("]}, "limits": {"result": "0"}}"#,
            &[
                "f:1:28: rule ``: the rule is empty; write a tool such as `Read` or `Bash(git status)`",
                "f:1:32: rule `Bash(x`: the parentheses of `Bash(x` do not match; write `Tool(pattern)`, and a backslash before a parenthesis that belongs to the pattern",
                "f:1:42: rule `Bash)x(`: the parentheses of `Bash)x(` do not match; write `Tool(pattern)`, and a backslash before a parenthesis that belongs to the pattern",
                "f:1:66: limit `result` must be more than zero",
            ],
        );
        check_problems(
            r#"{"mcpServers": 3, "mcpServers2": {}, "tools": []}"#,
            &[
                "f:1:2: `mcpServers` is 3; write an object or an array",
                "f:1:19: unknown key `mcpServers2`; did you mean `mcpServers`?",
                "f:1:38: `tools` is an array of 0; write an object",
            ],
        );
    }

    #[test]
    fn command_limits_are_accepted_globally_per_tool_and_per_rule() {
        check_problems(
            r#"{"limits": {"command-memory": "1GB", "command-cpu": 200, "Bash": {"command-cpu": "400%"}},
            "permissions": {"allow": [{"rule": "Bash(make:*)", "limits": {"command-memory": "4GB"}}],
            "ask": [{"rule": "Bash", "limits": {"command-processes": 1000}}]}}"#,
            &[],
        );
        check_problems(
            r#"{"limits": {"command-cpu": "fast", "Bash": {"command-memory": "1KB", "result": "1kb", "command-cpu": null}, "Read": {}}}"#,
            &[
                "f:1:13: limit `command-cpu`: `fast` is not a share of one processor such as `50%` or `400%`",
                "f:1:45: limit `command-memory`: `1KB` is not from 32 MB to 64000 GB",
                "f:1:70: unknown key `limits.Bash.result`; remove it, or write one of `command-memory`, `command-cpu`, `command-processes`, `command-open-files`, `command-file`, `command-disk`, `command-disk-rate`",
                "f:1:87: `limits.Bash.command-cpu` is null; remove it",
                "f:1:109: unknown key `limits.Read`; remove it, or find the right one with `zero config list --defaults`",
            ],
        );
        check_problems(
            "{\"permissions\": {\"deny\": [\n{\"rule\": \"Bash(rm:*)\", \"limits\": {\"command-cpu\": 1}}], \"allow\": [\n{\"rule\": \"Read\", \"limits\": {\"command-cpu\": 1}},\n{\"rule\": \"Bash(x)\", \"limits\": {\"command-cpu\": 0.5}},\n{\"rule\": \"Bash(x)\", \"limits\": {\"command-memory\": \"much\"}},\n{\"rule\": \"Bash(x)\", \"limits\": {\"memory\": \"1GB\"}}]}}",
            &[
                "f:2:24: a rule in `deny` cannot raise limits, because it allows nothing; remove `limits`",
                "f:3:18: only a rule for commands, such as `Bash(make:*)`, can raise limits; remove `limits`",
                "f:4:32: `permissions.allow.1.limits.command-cpu` is 0.5; write a string or a whole number at least 1",
                "f:5:32: limit `command-memory`: `much` is not a size such as `500 KB` or `10 MB`",
                "f:6:32: unknown key `permissions.allow.3.limits.memory`; did you mean `command-memory`?",
            ],
        );
    }

    #[test]
    fn sandbox_lists_are_checked() {
        check_problems(
            r#"{"sandbox": {"network": ["example.com", "example.com:8443", "localhost"], "environment": ["MY_*"], "writable": ["~/.cache/pip"],
            "masked": ["~/notes"], "weaker": ["host_sockets"]}, "bash": {"on-timeout": "job"}}"#,
            &[],
        );
        check_problems(
            r#"{"sandbox": {"network": ["https://x.org"], "weaker": ["sockets"], "masks": []}, "bash": {"on-timeout": "wait"}}"#,
            &[
                "f:1:26: `https://x.org` names no host; write one such as `example.com`, `*.example.org` or `example.com:8443`, without scheme and path",
                r#"f:1:55: `sandbox.weaker.0` is "sockets"; write one of "writes", "attributes", "protected", "masked", "network", "host_sockets", "processes", "private_tmp", "system_calls", "privileges""#,
                "f:1:67: unknown key `sandbox.masks`; did you mean `masked`?",
                r#"f:1:90: `bash.on-timeout` is "wait"; write one of "kill", "job""#,
            ],
        );
    }

    #[test]
    fn schema_lists_every_limit() {
        let schema = schema();
        for name in HostLimits::NAMES {
            assert!(schema["properties"]["limits"]["properties"].get(name).is_some(), "{name}");
        }
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["additionalProperties"], false);
    }
}
