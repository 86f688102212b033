//! What the sections of the settings say, each as its own type.

use std::path::Path;

use zero_runtime::{Hook, HookSettings, UndoSettings};

use super::WorkspaceSettings;
use crate::acp::AcpSettings;
use crate::budgets::BudgetSettings;
use crate::chat::{self, ChatSettings};
use crate::gateway::GatewaySettings;
use crate::hooks::{AFTER_KEY, BEFORE_KEY};
use crate::lsp_servers::ConfiguredLspServers;
use crate::mcp_servers::TOOL_SCHEMA_BUDGET;
use crate::models::{AgentSetting, ModelSetting, SecretSetting};
use crate::network::EXTRA_CA_KEY;
use crate::notify::{self, NotifySettings};
use crate::retention::DataRetentionSettings;
use crate::subagents::{self, SubagentSettings};
use crate::tool_commands::{COMMAND_LINES, ToolCommands};
use crate::undo::{self, UndoSection};
use crate::update::{self, UpdateSettings};
use crate::web::SearchEngineSetting;
use crate::{ParsedSetting, SettingsLayerKind};

impl WorkspaceSettings {
    /// The editor settings in the user's own file.
    pub fn acp(&self) -> AcpSettings {
        let fields = self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Acp(field) => Some(*field),
            _ => None,
        });
        fields.fold(AcpSettings::default(), AcpSettings::with_field)
    }

    /// The gateway settings in the user's own file.
    pub fn gateway(&self) -> GatewaySettings {
        let fields = self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Gateway(field) => Some((**field).clone()),
            _ => None,
        });
        fields.fold(GatewaySettings::default(), GatewaySettings::with_field)
    }

    /// What `zero undo` can take back, by the user's own file.
    pub fn undo(&self) -> UndoSettings {
        let value = |key: &str| {
            self.active_entries().find(|entry| entry.key == key).map(|entry| entry.value.clone())
        };
        let [commands, days, bytes] = undo::KEYS.map(value);
        UndoSection {
            commands: commands.and_then(|value| value.as_bool()),
            days: days.and_then(|value| u32::try_from(value.as_u64()?).ok()),
            bytes: bytes.and_then(|value| value.as_u64()),
        }
        .to_settings()
    }

    /// Which data the user's own file no longer keeps.
    pub fn retention(&self) -> DataRetentionSettings {
        DataRetentionSettings::from_values(|key| {
            self.active_entries().find(|entry| entry.key == key)?.value.as_u64()
        })
    }

    /// How zero tells the user that it needs them, by their own file.
    pub fn notify(&self) -> NotifySettings {
        // The file was checked when it was read.
        let value = |key: &str| {
            self.active_entries().find(|entry| entry.key == key).map(|entry| entry.value.clone())
        };
        let [webhook, terminal, min_seconds, command] = notify::KEYS.map(value);
        NotifySettings {
            webhook: webhook.and_then(|value| value.as_str().map(str::to_owned)),
            terminal: terminal.and_then(|value| serde_json::from_value(value).ok()),
            min_seconds: min_seconds.and_then(|value| value.as_u64()),
            command: command.and_then(|value| serde_json::from_value(value).ok()),
        }
    }

    /// How the chat looks, by the user's own file.
    pub fn chat(&self) -> ChatSettings {
        // The file was checked when it was read.
        let value = |key: &str| {
            self.active_entries().find(|entry| entry.key == key).map(|entry| entry.value.clone())
        };
        let [theme, fullscreen, vim, status_line] = chat::KEYS.map(value);
        ChatSettings {
            theme: theme.and_then(|value| serde_json::from_value(value).ok()),
            fullscreen: fullscreen.and_then(|value| value.as_bool()),
            vim: vim.and_then(|value| value.as_bool()),
            status_line: status_line.and_then(|value| serde_json::from_value(value).ok()),
        }
    }

    /// Where releases are, by the user's own file.
    pub fn update(&self) -> UpdateSettings {
        let value = |key: &str| {
            self.active_entries().find(|entry| entry.key == key).map(|entry| entry.value.clone())
        };
        let [enabled, address, public_key] = update::KEYS.map(value);
        let text = |value: Option<serde_json::Value>| value?.as_str().map(str::to_owned);
        UpdateSettings {
            enabled: enabled.and_then(|value| value.as_bool()),
            address: text(address),
            public_key: text(public_key),
        }
    }

    /// File and line of the first value of a key.
    pub fn location_of(&self, key: &str) -> Option<String> {
        self.active_entries().find(|entry| entry.key == key).map(|entry| entry.location())
    }

    /// The budgets in the user's own file.
    pub fn budgets(&self) -> BudgetSettings {
        BudgetSettings::from_values(|key| {
            let entry = self.active_entries().find(|entry| entry.key == key)?;
            // The file was checked when it was read.
            serde_json::from_value(entry.value.clone()).ok()
        })
    }

    /// How many sub-agents the user's own file allows.
    pub fn subagents(&self) -> SubagentSettings {
        let number =
            |key: &str| self.active_entries().find(|entry| entry.key == key)?.value.as_u64();
        let [parallel, depth] = subagents::KEYS.map(number);
        SubagentSettings {
            max_parallel: parallel.and_then(|number| number.try_into().ok()),
            max_depth: depth.and_then(|number| number.try_into().ok()),
        }
    }

    /// The active hooks: those of the workspace first, then the user's own, so that the latter see
    /// the rewritten input. Hooks of an untrusted folder are inactive. `home` is the user's home
    /// folder.
    pub fn hooks(&self, home: Option<&Path>) -> HookSettings {
        let of = |key: &str| {
            let mut entries: Vec<_> =
                self.active_entries().filter(|entry| entry.key == key).collect();
            entries.sort_by_key(|entry| !entry.layer.is_in_workspace());
            let hooks = entries.into_iter().filter_map(|entry| {
                let hook = entry.hook()?.to_hook(entry.layer, home);
                let (files, written_at) = (entry.files.clone(), entry.location());
                Some(Hook { files, written_at, ..hook })
            });
            hooks.collect()
        };
        HookSettings { before: of(BEFORE_KEY), after: of(AFTER_KEY) }
    }

    /// The active language servers. Those of an untrusted folder are inactive. `home` is the user's
    /// home folder.
    pub fn lsp_servers(&self, home: Option<&Path>) -> ConfiguredLspServers {
        let servers = self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::LspServer(server) => {
                let name = entry.key.strip_prefix("lspServers.")?;
                Some((name, server.as_ref(), entry.layer, entry.location()))
            }
            _ => None,
        });
        ConfiguredLspServers::new(servers, home)
    }

    /// Most tokens that the schemas of MCP tools may cost before tools are deferred.
    pub fn tool_schema_budget(&self) -> u32 {
        let budget = self.active_entries().find(|entry| entry.key == "mcp.toolSchemaBudget");
        let tokens = budget.and_then(|entry| entry.value.as_u64()?.try_into().ok());
        tokens.unwrap_or(TOOL_SCHEMA_BUDGET)
    }

    /// The models in settings, by name.
    pub fn models(&self) -> impl Iterator<Item = (&str, &ModelSetting)> {
        self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Model(setting) => {
                Some((entry.key.strip_prefix("models.")?, setting.as_ref()))
            }
            _ => None,
        })
    }

    /// Where the API key of a model is stored, if it has one.
    pub fn model_key(&self, model: &str) -> Option<&SecretSetting> {
        let (_, setting) = self.models().find(|(name, _)| *name == model)?;
        setting.api_key.as_ref()
    }

    /// Where the API keys of all models are stored.
    pub fn model_keys(&self) -> impl Iterator<Item = &SecretSetting> {
        self.models().filter_map(|(_, setting)| setting.api_key.as_ref())
    }

    /// The model of agents that name none, if settings choose one.
    pub fn default_model(&self) -> Option<String> {
        self.text("model")
    }

    /// The agents in settings, by name.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &AgentSetting)> {
        self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Agent(setting) => {
                Some((entry.key.strip_prefix("agents.")?, setting.as_ref()))
            }
            _ => None,
        })
    }

    /// The agent of session keys without one, if settings choose one.
    pub fn default_agent(&self) -> Option<String> {
        self.text("agent")
    }

    fn text(&self, key: &str) -> Option<String> {
        let entry = self.active_entries().find(|entry| entry.key == key)?;
        entry.value.as_str().map(str::to_owned)
    }

    /// The file with additional certificates, as written.
    pub fn extra_ca(&self) -> Option<&str> {
        let entry = self.active_entries().find(|entry| entry.key == EXTRA_CA_KEY)?;
        entry.value.as_str()
    }

    /// Whether settings add tools: by MCP servers or by a command.
    pub fn has_external_tools(&self) -> bool {
        let brings = |key: &str| key.starts_with("mcpServers.") || COMMAND_LINES.contains(&key);
        self.active_entries().any(|entry| brings(&entry.key))
    }

    /// The commands that provide tools, if settings name a discovery command.
    pub fn tool_commands(&self) -> Option<ToolCommands> {
        let words = |key: &str| {
            let entry = self.active_entries().find(|entry| entry.key == key)?;
            match &entry.parsed {
                ParsedSetting::CommandLine(words) => Some((words.clone(), entry)),
                _ => None,
            }
        };
        let (discovery, entry) = words("tools.toolDiscoveryCommand")?;
        let call = words("tools.toolCallCommand").map(|(words, _)| words);
        let is_of_project =
            matches!(entry.layer, SettingsLayerKind::Project | SettingsLayerKind::Local);
        Some(ToolCommands { discovery, call, is_of_project, written_at: entry.location() })
    }

    /// The search engines in settings, in order.
    pub fn search_engines(&self) -> &[SearchEngineSetting] {
        let named = self.active_entries().find_map(|entry| match &entry.parsed {
            ParsedSetting::SearchEngines(engines) => Some(engines.as_slice()),
            _ => None,
        });
        named.unwrap_or_default()
    }

    /// Where the API keys of the search engines are stored.
    pub fn search_keys(&self) -> impl Iterator<Item = &SecretSetting> {
        self.search_engines().iter().filter_map(|setting| setting.api_key.as_ref())
    }
}
