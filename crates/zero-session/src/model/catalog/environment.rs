//! Models from the usual environment variables.

use std::sync::Arc;

use url::Url;

use crate::model::model_config::{ApiKey, ModelApi, ModelConfig};

const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_MODEL: &str = "gpt-5";
const ANTHROPIC_URL: &str = "https://api.anthropic.com";
const ANTHROPIC_MODEL: &str = "claude-sonnet-4-5";
const GEMINI_URL: &str = "https://generativelanguage.googleapis.com";
const GEMINI_MODEL: &str = "gemini-2.5-pro";
/// The provider without a key and with one window for all models.
pub(super) const OLLAMA: &str = "ollama";
const OLLAMA_PORT: u16 = 11434;
const OLLAMA_MODEL: &str = "qwen3";
/// Ollama silently truncates input beyond its window, and its default window is small, so a larger
/// one is requested.
const OLLAMA_WINDOW: u64 = 32_768;

/// One model for each provider that the environment configures, in a fixed order. Reads only `env`;
/// a key is stored only in the key source of its model.
pub fn from_environment(env: &dyn Fn(&str) -> Option<String>) -> Vec<ModelConfig> {
    let env = |name: &str| {
        env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut models = Vec::new();
    let openai_url = env("OPENAI_BASE_URL");
    let openai_key = env("OPENAI_API_KEY");
    // A self-hosted server may need no key.
    if openai_key.is_some() || openai_url.is_some() {
        let url = openai_url.unwrap_or_else(|| OPENAI_URL.to_owned());
        let api = if is_openai(&url) { ModelApi::OpenAiResponses } else { ModelApi::OpenAiChat };
        models.push(model_config("openai", OPENAI_MODEL, api, url, openai_key));
    }
    if let Some(key) = env("ANTHROPIC_API_KEY") {
        let url = env("ANTHROPIC_BASE_URL").unwrap_or_else(|| ANTHROPIC_URL.to_owned());
        models.push(model_config(
            "anthropic",
            ANTHROPIC_MODEL,
            ModelApi::Anthropic,
            url,
            Some(key),
        ));
    }
    if let Some(key) = env("GEMINI_API_KEY").or_else(|| env("GOOGLE_API_KEY")) {
        models.push(model_config(
            "gemini",
            GEMINI_MODEL,
            ModelApi::Gemini,
            GEMINI_URL.to_owned(),
            Some(key),
        ));
    }
    if let Some(host) = env("OLLAMA_HOST") {
        let window = env("OLLAMA_CONTEXT_LENGTH").and_then(|window| window.parse().ok());
        models.push(ModelConfig {
            context_window: Some(window.filter(|window| *window > 0).unwrap_or(OLLAMA_WINDOW)),
            ..model_config(OLLAMA, OLLAMA_MODEL, ModelApi::OpenAiChat, ollama_url(&host), None)
        });
    }
    // A selected model with its provider's prefix comes first for that provider.
    if let Some(chosen) = env("ZERO_MODEL")
        && let Some((provider, id)) = chosen.split_once('/')
        && let Some(index) =
            models.iter().position(|model| model.name.starts_with(&format!("{provider}/")))
    {
        let model = models.remove(index);
        models.insert(0, ModelConfig { name: chosen.clone(), id: id.to_owned(), ..model });
    }
    models
}

/// The name of the default model: `ZERO_MODEL`, or the first one available.
pub fn default_model_name(
    env: &dyn Fn(&str) -> Option<String>,
    models: &[ModelConfig],
) -> Option<String> {
    let named =
        env("ZERO_MODEL").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    named.or_else(|| models.first().map(|model| model.name.clone()))
}

fn model_config(
    provider: &str,
    id: &str,
    api: ModelApi,
    base_url: String,
    key: Option<String>,
) -> ModelConfig {
    ModelConfig {
        name: format!("{provider}/{id}"),
        id: id.to_owned(),
        api,
        base_url,
        key: key.map(|key| {
            let key = ApiKey::new(&key);
            Arc::new(move || Ok(key.clone())) as _
        }),
        headers: Vec::new(),
        context_window: None,
        output_tokens_max: None,
        takes_images: None,
        prices: None,
        fallback: Vec::new(),
        is_trial: false,
    }
}

fn is_openai(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.host_str() == Some("api.openai.com"))
}

/// Parses `OLLAMA_HOST` as Ollama does: scheme, port and host are optional.
fn ollama_url(host: &str) -> String {
    let has_scheme = host.contains("://");
    let with_scheme = match has_scheme {
        true => host.to_owned(),
        false if host.starts_with(':') => format!("http://127.0.0.1{host}"),
        false => format!("http://{host}"),
    };
    let Ok(mut url) = Url::parse(&with_scheme) else { return with_scheme };
    if !has_scheme && url.port().is_none() {
        // Cannot fail, since the address has a host.
        let _ = url.set_port(Some(OLLAMA_PORT));
    }
    // A wildcard listen address means a server on this machine.
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    let base = url.as_str().trim_end_matches('/');
    if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") }
}
