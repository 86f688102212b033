//! Models and agents, as settings name them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use zero_mcp::client::credentials::{DesktopKeyring, SecretStore};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_sandbox::ConfigFile;
use zero_session::agent::AgentProfile;
use zero_session::key::is_agent_id;
use zero_session::model::catalog::{ApiKey, ApiKeySource, ModelApi, ModelConfig};
use zero_session::model::{ModelError, ModelErrorKind, ThinkingEffort, TokenPrices};

use super::parsed_setting::ParsedSetting;
use super::{SettingsEntry, WorkspaceSettings};
use crate::environment::EnvironmentConfig;

/// Most bytes of a file that holds a key.
pub(crate) const KEY_BYTES_MAX: u64 = 16 * 1024;

/// A model, by the name people choose it by.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ModelSetting {
    /// The provider's own name for it, such as `gpt-5-mini` or `qwen3:8b`.
    model: String,
    /// How it is spoken to: `chat` (chat completions, as OpenAI, Ollama, llama.cpp, vLLM and
    /// OpenRouter speak it), `responses` (OpenAI), `anthropic` or `gemini`.
    #[schemars(schema_with = "api_schema")]
    api: String,
    /// Where, such as `http://127.0.0.1:11434/v1`; the provider's own address when absent.
    base_url: Option<String>,
    /// Where its key is found; none for a server that wants none.
    api_key: Option<SecretSetting>,
    /// Headers sent with each request.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Tokens it can take, where zero does not know it by its name.
    context_window: Option<u64>,
    /// Most tokens it may write at a time.
    max_output_tokens: Option<u64>,
    /// Whether it takes pictures, where zero does not know it by its name.
    images: Option<bool>,
    /// US dollars for a million tokens.
    prices: Option<PriceSetting>,
}

/// Where a secret is found. It never stands in a settings file itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum SecretSetting {
    /// In this environment variable.
    Env(String),
    /// In this file, which holds nothing else; `~` is your home.
    File(String),
    /// In the keyring of the desktop, under this name; `zero config set-key NAME` puts it there.
    Keyring(String),
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PriceSetting {
    /// Read.
    input: f64,
    /// Written.
    output: f64,
    /// Read from the provider's cache; as `input` when absent.
    cache_read: Option<f64>,
    /// Written to the provider's cache; as `input` when absent.
    cache_write: Option<f64>,
}

/// An agent, by the name that stands in session keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct AgentSetting {
    /// Its model: a key of `models`, or `provider/model`.
    model: Option<String>,
    /// Names and shapes of its tools; those that the model's family knows when absent.
    #[schemars(schema_with = "dialect_schema")]
    dialect: Option<String>,
    /// What its model is told, in place of zero's own words.
    system_prompt: Option<String>,
    /// The tools it may use, by canonical name; `*` at the end stands for anything.
    tools: Option<Vec<String>>,
    /// How much it may do without asking.
    #[schemars(schema_with = "mode_schema")]
    mode: Option<PermissionMode>,
    /// How much its model should think.
    #[schemars(schema_with = "thinking_schema")]
    thinking: Option<String>,
    /// How often a run may ask the model.
    max_turns: Option<u32>,
}

const APIS: [(&str, ModelApi, &str); 4] = [
    ("chat", ModelApi::OpenAiChat, "https://api.openai.com/v1"),
    ("responses", ModelApi::OpenAiResponses, "https://api.openai.com/v1"),
    ("anthropic", ModelApi::Anthropic, "https://api.anthropic.com"),
    ("gemini", ModelApi::Gemini, "https://generativelanguage.googleapis.com"),
];

/// Names of agents and models that are none, by their JSON pointer.
pub(super) fn find_wrong_names(value: &Value) -> Vec<(String, String)> {
    let named = |section: &str| value.get(section).and_then(Value::as_object).into_iter().flatten();
    let agents = named("agents").filter(|(name, _)| !is_agent_id(name)).map(|(name, _)| {
        let what = format!(
            "`agents.{name}` cannot name an agent; use 1 to 64 lower-case letters, digits, `_` or `-`"
        );
        (super::document::join_pointer("/agents", name), what)
    });
    let models = named("models").filter(|(name, _)| name.is_empty() || name.contains('/'));
    let models = models.map(|(name, _)| {
        let what = format!("`models.{name}` cannot name a model; leave out `/`");
        (super::document::join_pointer("/models", name), what)
    });
    agents.chain(models).collect()
}

impl WorkspaceSettings {
    /// The models that settings name.
    pub(crate) fn models(&self, config: &EnvironmentConfig) -> Vec<ModelConfig> {
        let model = |(name, setting): (String, ModelSetting)| {
            let (_, api, base) = APIS.into_iter().find(|(word, ..)| *word == setting.api)?;
            Some(ModelConfig {
                name,
                id: setting.model,
                api,
                base_url: setting.base_url.unwrap_or_else(|| base.to_owned()),
                key: setting.api_key.map(|secret| secret.into_key_source(config)),
                headers: setting.headers.into_iter().collect(),
                context_window: setting.context_window,
                output_tokens_max: setting.max_output_tokens,
                takes_images: setting.images,
                prices: setting.prices.map(PriceSetting::to_prices),
            })
        };
        self.named_models().filter_map(model).collect()
    }

    /// Where the key of one of those is found, if it wants one.
    pub(crate) fn model_key(&self, model: &str) -> Option<SecretSetting> {
        let mut models = self.named_models();
        models.find(|(name, _)| name == model).and_then(|(_, setting)| setting.api_key)
    }

    /// Where the keys of those are found.
    pub(crate) fn model_keys(&self) -> impl Iterator<Item = SecretSetting> {
        self.named_models().filter_map(|(_, setting)| setting.api_key)
    }

    /// The model of agents that name none, if settings choose one.
    pub(crate) fn default_model(&self) -> Option<String> {
        self.text("model")
    }

    /// The agents that settings name.
    pub(crate) fn agents(&self) -> Vec<AgentProfile> {
        let agent = |entry: &SettingsEntry| {
            let id = entry.key.strip_prefix("agents.")?.to_owned();
            let ParsedSetting::Agent(setting) = &entry.parsed else { return None };
            let setting = (**setting).clone();
            let dialect = setting.dialect.and_then(|name| DialectName::from_str(&name).ok());
            let word = setting.thinking.unwrap_or_default();
            let thinking = ThinkingEffort::ALL.into_iter().find(|level| level.as_str() == word);
            Some(AgentProfile {
                id,
                model: setting.model,
                dialect,
                system_prompt: setting.system_prompt,
                tools: setting.tools,
                mode: setting.mode,
                thinking: thinking.unwrap_or_default(),
                turns_max: setting.max_turns,
            })
        };
        self.active_entries().filter_map(agent).collect()
    }

    /// The agent of bare keys, if settings choose one.
    pub(crate) fn default_agent(&self) -> Option<String> {
        self.text("agent")
    }

    fn named_models(&self) -> impl Iterator<Item = (String, ModelSetting)> {
        self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Model(setting) => {
                Some((entry.key.strip_prefix("models.")?.to_owned(), (**setting).clone()))
            }
            _ => None,
        })
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        let entry = self.active_entries().find(|entry| entry.key == key)?;
        entry.value.as_str().map(str::to_owned)
    }
}

impl PriceSetting {
    fn to_prices(self) -> TokenPrices {
        TokenPrices {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read.unwrap_or(self.input),
            cache_write: self.cache_write.unwrap_or(self.input),
        }
    }
}

impl SecretSetting {
    /// What reads it when it is needed.
    pub(crate) fn into_key_source(self, config: &EnvironmentConfig) -> ApiKeySource {
        let variable = match &self {
            Self::Env(name) => config.variable(name).map(str::to_owned),
            _ => None,
        };
        let home = config.home().map(PathBuf::from);
        Arc::new(move || {
            let wrong = |what: String| ModelError::new(ModelErrorKind::Auth, what);
            self.read(variable.as_deref(), home.as_ref())
                .map(|key| ApiKey::new(&key))
                .map_err(wrong)
        })
    }

    /// The secret, or why there is none.
    pub(crate) fn read(
        &self,
        variable: Option<&str>,
        home: Option<&PathBuf>,
    ) -> Result<String, String> {
        let secret = match self {
            Self::Env(name) => variable.map(str::to_owned).ok_or_else(|| {
                format!("the key is looked for in `{name}`, which is not set; set it")
            })?,
            Self::File(file) => {
                let path = match (file.strip_prefix("~/"), home) {
                    (Some(rest), Some(home)) => home.join(rest),
                    _ => PathBuf::from(file),
                };
                let bytes = ConfigFile::Own(path).read(KEY_BYTES_MAX);
                let bytes = bytes.map_err(|error| format!("cannot read the key: {error}"))?;
                let bytes = bytes.ok_or_else(|| {
                    format!("the key is looked for in `{file}`, which is not there")
                })?;
                String::from_utf8(bytes).map_err(|_| format!("`{file}` holds no text"))?
            }
            Self::Keyring(name) => {
                let found = DesktopKeyring::KEYS.get(name);
                let found = found.map_err(|error| {
                    format!("the key is looked for in the desktop's keyring, which {error}; see that it runs and is unlocked, or use `file` or `env` in settings")
                })?;
                found.ok_or_else(|| empty_keyring_message(name))?
            }
        };
        match secret.trim() {
            "" => Err(match self {
                Self::Env(name) => format!("the variable `{name}` is empty"),
                Self::File(file) => format!("the file `{file}` is empty"),
                Self::Keyring(name) => empty_keyring_message(name),
            }),
            secret => Ok(secret.to_owned()),
        }
    }
}

fn empty_keyring_message(name: &str) -> String {
    format!(
        "the keyring has nothing under `{name}`; put it there with `zero config set-key {name}`"
    )
}

fn api_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": APIS.map(|(word, ..)| word)})
}

fn dialect_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": DialectName::ALL.map(DialectName::as_str)})
}

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": PermissionMode::ALL.map(PermissionMode::as_str)})
}

fn thinking_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ThinkingEffort::ALL.map(ThinkingEffort::as_str)})
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::super::SettingsLayerKind;
    use super::super::tests::parse_layers;
    use super::*;
    use crate::trust::TrustState;

    fn load_settings(kind: SettingsLayerKind, text: &str) -> WorkspaceSettings {
        WorkspaceSettings::merge(&parse_layers(&[(kind, text)]), TrustState::Never)
    }

    const MODELS: &str = r#"{
        "models": {
            "fast": {"api": "chat", "model": "m", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": {"env": "K"},
                "headers": {"x-a": "b"}, "contextWindow": 1000, "prices": {"input": 1, "output": 2}},
            "deep": {"api": "anthropic", "model": "claude"}
        },
        "model": "fast",
        "agents": {"qa": {"model": "deep", "dialect": "qwen", "tools": ["Read", "mcp__*"], "mode": "plan", "thinking": "low", "maxTurns": 7}},
        "agent": "qa"
    }"#;

    #[test]
    fn models_and_agents_follow_settings() {
        let config = EnvironmentConfig::default().with_variable("K", " secret\n");
        let settings = load_settings(SettingsLayerKind::User, MODELS);
        let models = settings.models(&config);
        let shown: Vec<_> = models
            .iter()
            .map(|model| (model.name.as_str(), model.id.as_str(), model.base_url.as_str()))
            .collect();
        let expected = [
            ("fast", "m", "http://127.0.0.1:1/v1"),
            ("deep", "claude", "https://api.anthropic.com"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(models[0].prices.unwrap().cache_read, 1.0);
        assert!(models[0].key.as_ref().unwrap()().is_ok() && models[1].key.is_none());
        assert_eq!(settings.default_model().as_deref(), Some("fast"));
        assert_eq!(settings.default_agent().as_deref(), Some("qa"));
        let agents = settings.agents();
        assert_eq!(agents.len(), 1);
        assert_eq!((agents[0].id.as_str(), agents[0].turns_max), ("qa", Some(7)));
        assert_eq!(
            (agents[0].dialect, agents[0].mode),
            (Some(DialectName::Qwen), Some(PermissionMode::Plan))
        );
    }

    #[test]
    fn untrusted_folder_adds_no_models_or_agents() {
        let settings = load_settings(SettingsLayerKind::Project, MODELS);
        assert!(settings.models(&EnvironmentConfig::default()).is_empty());
        assert!(settings.agents().is_empty() && settings.default_model().is_none());
        assert_eq!(settings.inactive_entries().count(), 5);
    }

    #[track_caller]
    fn check(secret: &SecretSetting, variable: Option<&str>, expected: Result<&str, &str>) {
        let found = secret.read(variable, None);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            _ => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn secret_is_read_from_its_source_or_reported_missing() {
        let env = SecretSetting::Env("K".to_owned());
        check(&env, Some(" a \n"), Ok("a"));
        check(&env, Some(" "), Err("the variable `K` is empty"));
        check(&env, None, Err("`K`, which is not set"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let file = SecretSetting::File(path.display().to_string());
        check(&file, None, Err("which is not there"));
        std::fs::write(&path, "b\n").unwrap();
        check(&file, None, Ok("b"));
        std::fs::write(&path, [0xff]).unwrap();
        check(&file, None, Err("holds no text"));
    }
}
