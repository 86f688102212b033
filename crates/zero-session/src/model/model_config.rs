//! How a model is reached: its name, its address and its key.

use std::fmt;
use std::sync::Arc;

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
}

impl ModelConfig {
    /// How to set the key, for error messages.
    pub(crate) fn key_hint(&self) -> String {
        let provider = self.name.split_once('/').map_or("", |(provider, _)| provider);
        let variable = match provider {
            "openai" => "OPENAI_API_KEY",
            "anthropic" => "ANTHROPIC_API_KEY",
            "gemini" => "GEMINI_API_KEY",
            _ => return format!("set the key of `{}` in settings", self.name),
        };
        format!("set {variable}, or the key of `{}` in settings", self.name)
    }
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
