//! How a model is reached: its name, its address and its key.

use std::fmt;
use std::sync::Arc;

use crate::model::{ModelError, TokenPrices};

/// How a model is reached.
#[derive(Clone)]
pub struct ModelConfig {
    /// The name people choose it by.
    pub name: String,
    /// The provider's own name for it.
    pub id: String,
    /// How it is spoken to.
    pub api: ModelApi,
    /// Where, without the path of the call: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key; none for a server that wants none.
    pub key: Option<ApiKeySource>,
    /// Headers sent with each request.
    pub headers: Vec<(String, String)>,
    /// Tokens it can take, where that is not known by its name.
    pub context_window: Option<u64>,
    /// Most tokens it may write at a time.
    pub output_tokens_max: Option<u64>,
    /// Whether it takes pictures, where that is not known by its name.
    pub takes_images: Option<bool>,
    /// What it costs, where that is not known.
    pub prices: Option<TokenPrices>,
}

impl ModelConfig {
    /// What to do about its key.
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
    /// `POST /chat/completions`, as OpenAI and many others speak it.
    OpenAiChat,
    /// `POST /responses`, as OpenAI speaks it.
    OpenAiResponses,
    /// `POST /v1/messages`, as Anthropic speaks it.
    Anthropic,
    /// `POST /v1beta/models/…:streamGenerateContent`, as Gemini speaks it.
    Gemini,
}

/// Where a key comes from. It is read when it is needed, and kept nowhere.
pub type ApiKeySource = Arc<dyn Fn() -> Result<ApiKey, ModelError> + Send + Sync>;

/// A key. It cannot be printed.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key; blanks and line breaks around it are not part of it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key, for the header it goes into.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
