//! The parsed value of a settings entry.
//!
//! Each value is parsed when its file is checked and stored with its entry. No code parses a text
//! again, so no later error can be ignored: a parse failure refuses the file.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zero_core::HostLimitChange;
use zero_policy::{HostPattern, PermissionMode, Verdict};

use crate::acp::AcpSettings;
use crate::gateway::GatewaySettings;
use crate::hooks::{self, ParsedHook};
use crate::layer_kind::SettingsLayerKind;
use crate::limit_setting::LimitSetting;
use crate::lsp_servers::ParsedLspServer;
use crate::mcp_servers::McpServerSetting;
use crate::models::{AgentSetting, ModelSetting};
use crate::rule_entry::{RuleEntry, RuleParser};
use crate::sandbox::{LOCALHOST, PathSetting};
use crate::settings_schema::is_list;
use crate::tool_commands::COMMAND_LINES;
use crate::web::SearchEngineSetting;
use crate::{command_line, limit_range};

/// The parsed value of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedSetting {
    /// A permission rule.
    Rule(Box<RuleEntry>),
    /// The permission mode.
    Mode(PermissionMode),
    /// A limit of the host.
    Limit(HostLimitChange),
    /// A command that runs before or after calls.
    Hook(Box<ParsedHook>),
    /// `localhost` among the hosts of commands.
    Localhost,
    /// A host that commands may connect to.
    Host(HostPattern),
    /// A file or folder of the sandbox settings.
    Path(PathSetting),
    /// The arguments of a command line.
    CommandLine(Vec<String>),
    /// An MCP server, or why it cannot be used; the other servers still can.
    McpServer(Result<Box<McpServerSetting>, String>),
    /// A language server.
    LspServer(Box<ParsedLspServer>),
    /// A model that agents can use.
    Model(Box<ModelSetting>),
    /// One agent with all its fields.
    Agent(Box<AgentSetting>),
    /// One field of the gateway settings; the others are absent.
    Gateway(Box<GatewaySettings>),
    /// One field of the editor settings; the others are absent.
    Acp(AcpSettings),
    /// The search engines of WebSearch, in order.
    SearchEngines(Vec<SearchEngineSetting>),
    /// A value without further structure.
    Plain,
}

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingSource<'a> {
    /// The file name for messages.
    pub(crate) file: &'a str,
    /// The line in `file` where it begins, from 1.
    pub(crate) line: u32,
    /// The owner of the file.
    pub(crate) layer: SettingsLayerKind,
}

/// Why an entry could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingFailure {
    /// An error that no other check reports: the JSON pointer below the entry, and what is wrong.
    Wrong { below: String, what: String },
    /// An error that the checks of the whole file report in more detail; reported itself if they do
    /// not.
    Unusable(String),
}

impl SettingFailure {
    pub(crate) fn wrong(below: &str, what: String) -> Self {
        Self::Wrong { below: below.to_owned(), what }
    }

    pub(crate) fn unusable(error: impl ToString) -> Self {
        Self::Unusable(format!("cannot be used: {}", error.to_string()))
    }
}

impl ParsedSetting {
    /// Parses the value of a dotted key; `is_item` if it is an item of a list.
    pub(crate) fn parse(
        key: &str,
        is_item: bool,
        value: &Value,
        at: &SettingSource<'_>,
        parse_rule: &mut RuleParser<'_>,
    ) -> Result<Self, SettingFailure> {
        if is_list(key) && !is_item {
            return Err(SettingFailure::unusable("it must be a list"));
        }
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        Ok(match section {
            "permissions" => match Verdict::ALL.into_iter().find(|list| list.as_str() == name) {
                Some(verdict) => {
                    Self::Rule(Box::new(RuleEntry::parse(value, verdict, at, parse_rule)?))
                }
                None => Self::Mode(deserialize(value)?),
            },
            "limits" => {
                let limit: LimitSetting = deserialize(value)?;
                let change = limit_range::parse_limit(name, &limit.to_text());
                Self::Limit(change.map_err(SettingFailure::unusable)?)
            }
            "hooks" if hooks::LISTS.contains(&key) => {
                let hook = ParsedHook::parse(value).map_err(SettingFailure::unusable)?;
                Self::Hook(Box::new(hook))
            }
            "sandbox" => parse_sandbox(name, value)?,
            "mcpServers" => {
                let setting = McpServerSetting::deserialize(value).map(Box::new);
                Self::McpServer(setting.map_err(|error| format!("cannot be used: {error}")))
            }
            "lspServers" => {
                let server = ParsedLspServer::parse(value).map_err(SettingFailure::unusable)?;
                Self::LspServer(Box::new(server))
            }
            "mcp" | "tools" if COMMAND_LINES.contains(&key) => {
                let words = command_line::split_words(&deserialize::<String>(value)?);
                Self::CommandLine(words.map_err(SettingFailure::unusable)?)
            }
            "models" => Self::Model(Box::new(deserialize(value)?)),
            "agents" => Self::Agent(Box::new(deserialize(value)?)),
            "gateway" => Self::Gateway(Box::new(deserialize_field(name, value)?)),
            "acp" => Self::Acp(deserialize_field(name, value)?),
            "web" => Self::SearchEngines(deserialize(value)?),
            _ => Self::Plain,
        })
    }
}

fn parse_sandbox(list: &str, value: &Value) -> Result<ParsedSetting, SettingFailure> {
    let text: String = deserialize(value)?;
    Ok(match list {
        "network" if text.trim() == LOCALHOST => ParsedSetting::Localhost,
        "network" => {
            ParsedSetting::Host(HostPattern::parse(&text).map_err(SettingFailure::unusable)?)
        }
        "writable" | "readable" | "masked" => {
            ParsedSetting::Path(PathSetting::parse(&text).map_err(SettingFailure::unusable)?)
        }
        _ => ParsedSetting::Plain,
    })
}

fn deserialize<T: DeserializeOwned>(value: &Value) -> Result<T, SettingFailure> {
    T::deserialize(value).map_err(SettingFailure::unusable)
}

/// Deserializes a section of which only one field is set.
fn deserialize_field<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, SettingFailure> {
    let fields = Map::from_iter([(name.to_owned(), value.clone())]);
    T::deserialize(Value::Object(fields)).map_err(SettingFailure::unusable)
}
