//! What an entry of a settings file means, parsed when the file is checked and kept with the entry.
//!
//! Whoever uses settings takes the parsed value. None of them parses a text again, so there is no
//! error left that somebody could ignore: where parsing fails, the file is refused.

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

/// What an entry means.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedSetting {
    /// A permission rule.
    Rule(Box<RuleEntry>),
    /// What holds where no rule does.
    Mode(PermissionMode),
    /// A limit of the host.
    Limit(HostLimitChange),
    /// A command that runs before or after calls.
    Hook(Box<ParsedHook>),
    /// `localhost` among the hosts of commands.
    Localhost,
    /// A host that commands may reach.
    Host(HostPattern),
    /// A file or folder of the sandbox.
    Path(PathSetting),
    /// The words of a command line.
    CommandLine(Vec<String>),
    /// An MCP server, or why it cannot be used; the other servers can.
    McpServer(Result<Box<McpServerSetting>, String>),
    /// A language server.
    LspServer(Box<ParsedLspServer>),
    /// A model that agents can name.
    Model(Box<ModelSetting>),
    /// One agent with all its fields.
    Agent(Box<AgentSetting>),
    /// One field of the gateway; the others are absent.
    Gateway(Box<GatewaySettings>),
    /// One field of how editors are served; the others are absent.
    Acp(AcpSettings),
    /// The search engines of WebSearch, in the order they are asked.
    SearchEngines(Vec<SearchEngineSetting>),
    /// Nothing but its JSON value.
    Plain,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingSource<'a> {
    /// The file as it is shown to people.
    pub(crate) file: &'a str,
    /// The line in `file` where it begins, from 1.
    pub(crate) line: u32,
    /// Whose file it is.
    pub(crate) layer: SettingsLayerKind,
}

/// Why an entry means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingFailure {
    /// Nobody else finds it: the JSON pointer from the entry on, and what is wrong.
    Wrong { below: String, what: String },
    /// The checks of the whole file find it and say it better; should they not, it still counts.
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
    /// Parses the value of a dotted key; `is_item` where it is one of a list.
    pub(crate) fn parse(
        key: &str,
        is_item: bool,
        value: &Value,
        at: &SettingSource<'_>,
        parse_rule: &mut RuleParser<'_>,
    ) -> Result<Self, SettingFailure> {
        if is_list(key) && !is_item {
            return Err(SettingFailure::unusable("a list is needed"));
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
        "writable" | "masked" => {
            ParsedSetting::Path(PathSetting::parse(&text).map_err(SettingFailure::unusable)?)
        }
        _ => ParsedSetting::Plain,
    })
}

fn deserialize<T: DeserializeOwned>(value: &Value) -> Result<T, SettingFailure> {
    T::deserialize(value).map_err(SettingFailure::unusable)
}

/// A section of which only one field is given.
fn deserialize_field<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, SettingFailure> {
    let fields = Map::from_iter([(name.to_owned(), value.clone())]);
    T::deserialize(Value::Object(fields)).map_err(SettingFailure::unusable)
}
