//! How a model is reached: its name, its address and its key.

use std::fmt;
use std::sync::Arc;

use url::Url;

use crate::model::known_models::lookup_model;
use crate::model::{ModelError, TokenPrices};

/// How a model is reached.
#[derive(Clone)]
pub struct ModelConfig {
    /// Name that users select it by.
    pub name: String,
    /// The provider's name for the model.
    pub id: String,
    /// How it is spoken to.
    pub api: ModelApi,
    /// Base address without the path of the call: `https://api.openai.com/v1`.
    pub base_url: String,
    /// Source of the key; `None` for a server without authentication.
    pub key: Option<ApiKeySource>,
    /// Headers sent with each request.
    pub headers: Vec<(String, String)>,
    /// Context window in tokens, if it is not known by the model's name.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens per reply.
    pub output_tokens_max: Option<u64>,
    /// Whether it accepts images, if that is not known by its name.
    pub takes_images: Option<bool>,
    /// Prices, if they are not known by its name.
    pub prices: Option<TokenPrices>,
    /// Names of the models that stand in for it when it is rate-limited or unavailable.
    pub fallback: Vec<String>,
    /// Whether it is only tried, with the values that the user has just entered, so that no setting has
    /// them.
    pub is_trial: bool,
}

impl ModelConfig {
    /// The server, as scheme, host and port; the address itself if it is not a URL.
    pub fn origin(&self) -> String {
        let url = Url::parse(&self.base_url);
        url.map_or_else(|_| self.base_url.clone(), |url| url.origin().ascii_serialization())
    }

    /// Whether it accepts images, by its settings or its name.
    pub fn accepts_images(&self) -> bool {
        self.takes_images.unwrap_or_else(|| lookup_model(&self.id).takes_images)
    }

    /// How to set the key, for error messages. A name with `/` comes from the environment, any other
    /// from settings.
    pub(crate) fn key_hint(&self) -> String {
        match &self.key {
            Some(_) if self.is_trial => return "check the key".to_owned(),
            None if self.is_trial => return "pass the key with `--key-stdin`".to_owned(),
            _ => {}
        }
        let Some((provider, _)) = self.name.split_once('/') else {
            let setting = settings_key(&self.name, "apiKey");
            return format!("check {setting}, or run `zero login --provider {}`", self.name);
        };
        match provider {
            "openai" => "check the variable OPENAI_API_KEY".to_owned(),
            "anthropic" => "check the variable ANTHROPIC_API_KEY".to_owned(),
            "gemini" => "check the variable GEMINI_API_KEY or GOOGLE_API_KEY".to_owned(),
            provider => format!("check {}", settings_key(provider, "apiKey")),
        }
    }

    /// Where the name of the model is set, for error messages.
    pub(crate) fn model_hint(&self) -> String {
        if self.is_trial {
            return "pass the name of another one with `--model`".to_owned();
        }
        match self.name.split_once('/') {
            None => format!("correct {}", settings_key(&self.name, "model")),
            Some((provider, _)) => {
                format!("name another one, such as `{provider}/…`, with `--model` or in ZERO_MODEL")
            }
        }
    }

    /// Where the address of the server is set, for error messages.
    pub(crate) fn address_hint(&self) -> String {
        if self.is_trial {
            return "check `--base-url`".to_owned();
        }
        match self.name.split_once('/') {
            None => format!("check {}", settings_key(&self.name, "baseUrl")),
            Some(("openai", _)) => "check the variable OPENAI_BASE_URL".to_owned(),
            Some(("anthropic", _)) => "check the variable ANTHROPIC_BASE_URL".to_owned(),
            Some(("ollama", _)) => "check the variable OLLAMA_HOST".to_owned(),
            Some((provider, _)) => format!("check {}", settings_key(provider, "baseUrl")),
        }
    }
}

/// A key of the settings of a model, for error messages.
fn settings_key(name: &str, field: &str) -> String {
    format!("`models.{name}.{field}` in your settings")
}

/// How a model is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    /// `POST /chat/completions` of OpenAI and many others.
    OpenAiChat,
    /// `POST /responses` of OpenAI.
    OpenAiResponses,
    /// `POST /v1/messages` of Anthropic.
    Anthropic,
    /// `POST /v1beta/models/…:streamGenerateContent` of Gemini.
    Gemini,
}

/// Source of a key. It is called for each request; the key is not stored.
pub type ApiKeySource = Arc<dyn Fn() -> Result<ApiKey, ModelError> + Send + Sync>;

/// An API key. Its `Debug` output does not contain it.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key without surrounding whitespace.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key, for the request header.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
