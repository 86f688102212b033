//! Models and agents, as settings name them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use zero_core::session_key::is_agent_id;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use crate::document::join_pointer;

/// A model, by the name people choose it by.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ModelSetting {
    /// The provider's own name for it, such as `gpt-5-mini` or `qwen3:8b`.
    pub model: String,
    /// How it is spoken to: `chat` (chat completions, as OpenAI, Ollama, llama.cpp, vLLM and
    /// OpenRouter speak it), `responses` (OpenAI), `anthropic` or `gemini`.
    #[schemars(schema_with = "api_schema")]
    pub api: ModelApiSetting,
    /// Where, such as `http://127.0.0.1:11434/v1`; the provider's own address when absent.
    pub base_url: Option<String>,
    /// Where its key is found; none for a server that wants none.
    pub api_key: Option<SecretSetting>,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Tokens it can take, where zero does not know it by its name.
    pub context_window: Option<u64>,
    /// Most tokens it may write at a time.
    pub max_output_tokens: Option<u64>,
    /// Whether it takes pictures, where zero does not know it by its name.
    pub images: Option<bool>,
    /// US dollars for a million tokens.
    pub prices: Option<PriceSetting>,
}

/// Where a secret is found. It never stands in a settings file itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum SecretSetting {
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
pub struct PriceSetting {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the provider's cache; as `input` when absent.
    pub cache_read: Option<f64>,
    /// Written to the provider's cache; as `input` when absent.
    pub cache_write: Option<f64>,
}

/// An agent, by the name that stands in session keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct AgentSetting {
    /// Its model: a key of `models`, or `provider/model`.
    pub model: Option<String>,
    /// Names and shapes of its tools; those that the model's family knows when absent.
    #[serde(deserialize_with = "deserialize_dialect")]
    #[schemars(schema_with = "dialect_schema")]
    pub dialect: Option<DialectName>,
    /// What its model is told, in place of zero's own words.
    pub system_prompt: Option<String>,
    /// The tools it may use, by canonical name; `*` at the end stands for anything.
    pub tools: Option<Vec<String>>,
    /// How much it may do without asking.
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<PermissionMode>,
    /// How much its model should think.
    #[schemars(schema_with = "thinking_schema")]
    pub thinking: Option<ThinkingSetting>,
    /// How often a run may ask the model.
    pub max_turns: Option<u32>,
}

/// How a model is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelApiSetting {
    /// Chat completions, as OpenAI and many others speak it.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
}

impl ModelApiSetting {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}

/// How much a model should think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingSetting {
    /// As it likes.
    #[default]
    Default,
    /// Not at all, where that can be chosen.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
}

impl ThinkingSetting {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Default, Self::Off, Self::Low, Self::Medium, Self::High];

    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

fn deserialize_dialect<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DialectName>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
}

/// Names of agents and models that are none, by their JSON pointer.
pub(crate) fn find_wrong_names(value: &Value) -> Vec<(String, String)> {
    let named = |section: &str| value.get(section).and_then(Value::as_object).into_iter().flatten();
    let agents = named("agents").filter(|(name, _)| !is_agent_id(name)).map(|(name, _)| {
        let what = format!(
            "`agents.{name}` cannot name an agent; use 1 to 64 lower-case letters, digits, `_` or `-`"
        );
        (join_pointer("/agents", name), what)
    });
    let models = named("models").filter(|(name, _)| name.is_empty() || name.contains('/'));
    let models = models.map(|(name, _)| {
        let what = format!("`models.{name}` cannot name a model; leave out `/`");
        (join_pointer("/models", name), what)
    });
    agents.chain(models).collect()
}

fn api_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ModelApiSetting::ALL.map(ModelApiSetting::as_str)})
}

fn dialect_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": DialectName::ALL.map(DialectName::as_str)})
}

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": PermissionMode::ALL.map(PermissionMode::as_str)})
}

fn thinking_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ThinkingSetting::ALL.map(ThinkingSetting::as_str)})
}
