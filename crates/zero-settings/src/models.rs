//! Settings for models and agents (`models`, `agents`).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use zero_core::ThinkingEffort;
use zero_core::schema_violation::join_pointer;
use zero_core::session_key::is_agent_id;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

/// A model, by the name under which users select it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ModelSetting {
    /// The provider's own name for it, such as `gpt-5-mini` or `qwen3:8b`.
    pub model: String,
    /// The API: `chat` (chat completions, as in OpenAI, Ollama, llama.cpp, vLLM and OpenRouter),
    /// `responses` (OpenAI), `anthropic` or `gemini`.
    #[schemars(schema_with = "api_schema")]
    pub api: ModelApiSetting,
    /// Base URL, such as `http://127.0.0.1:11434/v1`; the provider's own URL when absent.
    pub base_url: Option<String>,
    /// Where its API key is stored; absent for a server without one.
    pub api_key: Option<SecretSetting>,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Context window in tokens, for a model that zero does not know.
    pub context_window: Option<u64>,
    /// Most tokens of one response.
    pub max_output_tokens: Option<u64>,
    /// Whether it accepts images, for a model that zero does not know.
    pub images: Option<bool>,
    /// Prices in US dollars per million tokens.
    pub prices: Option<PriceSetting>,
    /// Models that answer instead, in this order, when this one is rate-limited or unavailable and has
    /// not begun to answer: keys of `models`, or `provider/model`; at most 4.
    #[serde(default)]
    pub fallback: Vec<String>,
}

/// Where a secret is stored. It is never part of a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum SecretSetting {
    /// In this environment variable.
    Env(String),
    /// In this file, which contains nothing else; `~` is your home folder.
    File(String),
    /// In the desktop's keyring under this name; `zero config set-key NAME` stores it there.
    Keyring(String),
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PriceSetting {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from the provider's cache; the price of `input` when absent.
    pub cache_read: Option<f64>,
    /// Input tokens written to the provider's cache; the price of `input` when absent.
    pub cache_write: Option<f64>,
}

/// An agent, by its name in session keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct AgentSetting {
    /// Its model: a key of `models`, or `provider/model`.
    pub model: Option<String>,
    /// Names and schemas of its tools; those that the model's family was trained on when absent.
    #[serde(deserialize_with = "deserialize_dialect")]
    #[schemars(schema_with = "dialect_schema")]
    pub dialect: Option<DialectName>,
    /// System prompt that replaces zero's own.
    pub system_prompt: Option<String>,
    /// The tools it may use, by canonical name; a name that ends in `*` is a prefix.
    pub tools: Option<Vec<String>>,
    /// Its permission mode: how much it may do without asking.
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<PermissionMode>,
    /// How much reasoning its model uses.
    #[schemars(schema_with = "thinking_schema")]
    pub thinking: Option<ThinkingEffort>,
    /// Most model requests of one run.
    pub max_turns: Option<u32>,
    /// Models that answer instead when its model is rate-limited or unavailable; those of the model
    /// when absent. An empty list is none.
    pub fallback: Option<Vec<String>>,
}

/// The API of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelApiSetting {
    /// Chat completions, the API of OpenAI and many others.
    Chat,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
}

impl ModelApiSetting {
    /// All APIs.
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

fn deserialize_dialect<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DialectName>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
}

/// Invalid names of agents and models, by JSON pointer.
pub(crate) fn find_wrong_names(value: &Value) -> Vec<(String, String)> {
    let named = |section: &str| value.get(section).and_then(Value::as_object).into_iter().flatten();
    let agents = named("agents").filter(|(name, _)| !is_agent_id(name)).map(|(name, _)| {
        let what = format!(
            "`agents.{name}` is not a valid agent name; use 1 to 64 lower-case letters, digits, `_` or `-`"
        );
        (join_pointer("/agents", name), what)
    });
    let models = named("models").filter(|(name, _)| name.is_empty() || name.contains('/'));
    let models = models.map(|(name, _)| {
        let what = format!("`models.{name}` is not a valid model name; remove the `/`");
        (join_pointer("/models", name), what)
    });
    agents.chain(models).chain(find_wrong_fallbacks(value)).collect()
}

/// Most models that stand in for another one.
const FALLBACKS_MAX: usize = 4;

/// Invalid entries of `fallback`, by JSON pointer.
fn find_wrong_fallbacks(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for section in ["models", "agents"] {
        let owners = value.get(section).and_then(Value::as_object).into_iter().flatten();
        for (owner, setting) in owners {
            let Some(names) = setting.get("fallback").and_then(Value::as_array) else { continue };
            let pointer = join_pointer(&join_pointer(&format!("/{section}"), owner), "fallback");
            if names.len() > FALLBACKS_MAX {
                let what = format!(
                    "`{section}.{owner}.fallback` has {} models; name at most {FALLBACKS_MAX}",
                    names.len()
                );
                found.push((pointer.clone(), what));
            }
            for (at, name) in names.iter().enumerate() {
                let Some(name) = name.as_str() else { continue };
                let is_again = names.iter().take(at).any(|other| other.as_str() == Some(name));
                let is_own = match section {
                    "models" => name == owner,
                    _ => setting.get("model").and_then(Value::as_str) == Some(name),
                };
                let why = match (name.trim().is_empty(), is_own, is_again) {
                    (true, ..) => "names no model; remove the empty text",
                    (_, true, _) => "names the model itself; name another one",
                    (_, _, true) => "names a model twice; remove one",
                    _ => continue,
                };
                let what = format!("`{section}.{owner}.fallback` {why}");
                found.push((join_pointer(&pointer, &at.to_string()), what));
            }
        }
    }
    found
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
    json_schema!({"type": "string", "enum": ThinkingEffort::ALL.map(ThinkingEffort::as_str)})
}
