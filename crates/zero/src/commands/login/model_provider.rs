//! The providers that `zero login` knows.

use zero_session::model::local_servers::LocalServerKind;

use crate::environment::EnvironmentConfig;
use crate::exit::UsageError;

/// Longest name of a provider, in characters.
const NAME_CHARS_MAX: usize = 64;

/// What is known of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelProvider {
    /// Its name on the command line, and of its model in settings.
    pub(super) name: String,
    /// Its name for people.
    pub(super) title: String,
    /// Value of `api` in settings.
    pub(super) api: &'static str,
    /// The address of its server, if it is not the usual one of the API.
    pub(super) base_url: Option<String>,
    /// The model that is used unless another is named.
    pub(super) model: Option<&'static str>,
    /// Where its keys are made; `None` if it needs no key, or if that is not known.
    pub(super) key_page: Option<&'static str>,
    /// Whether it has no models without a key.
    pub(super) needs_key: bool,
    /// Environment variables in which other programs expect its key.
    pub(super) key_variables: &'static [&'static str],
}

impl ModelProvider {
    /// The known providers, those on this machine last.
    pub(super) fn list() -> Vec<Self> {
        let remote = |name: &str, title: &str, api, model, key_page, key_variables| Self {
            name: name.to_owned(),
            title: title.to_owned(),
            api,
            base_url: None,
            model: Some(model),
            key_page: Some(key_page),
            needs_key: true,
            key_variables,
        };
        // They have the API of chat completions.
        let compatible = |name, title, base_url: &str, model, key_page, key_variables| Self {
            base_url: Some(base_url.to_owned()),
            ..remote(name, title, "chat", model, key_page, key_variables)
        };
        let mut list = vec![
            remote(
                "openai",
                "OpenAI",
                "responses",
                "gpt-5",
                "https://platform.openai.com/api-keys",
                &["OPENAI_API_KEY", "CODEX_API_KEY"],
            ),
            remote(
                "anthropic",
                "Anthropic",
                "anthropic",
                "claude-sonnet-4-5",
                "https://console.anthropic.com/settings/keys",
                &["ANTHROPIC_API_KEY", "CLAUDE_API_KEY"],
            ),
            remote(
                "gemini",
                "Gemini",
                "gemini",
                "gemini-2.5-pro",
                "https://aistudio.google.com/apikey",
                &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
            ),
            compatible(
                "openrouter",
                "OpenRouter",
                "https://openrouter.ai/api/v1",
                "anthropic/claude-sonnet-4.5",
                "https://openrouter.ai/keys",
                &["OPENROUTER_API_KEY"],
            ),
            compatible(
                "mistral",
                "Mistral",
                "https://api.mistral.ai/v1",
                "devstral-medium-latest",
                "https://console.mistral.ai/api-keys",
                &["MISTRAL_API_KEY", "CODESTRAL_API_KEY"],
            ),
            compatible(
                "deepseek",
                "DeepSeek",
                "https://api.deepseek.com/v1",
                "deepseek-chat",
                "https://platform.deepseek.com/api_keys",
                &["DEEPSEEK_API_KEY"],
            ),
            compatible(
                "xai",
                "xAI",
                "https://api.x.ai/v1",
                "grok-code-fast-1",
                "https://console.x.ai",
                &["XAI_API_KEY", "GROK_API_KEY"],
            ),
            compatible(
                "groq",
                "Groq",
                "https://api.groq.com/openai/v1",
                "openai/gpt-oss-120b",
                "https://console.groq.com/keys",
                &["GROQ_API_KEY"],
            ),
            compatible(
                "cerebras",
                "Cerebras",
                "https://api.cerebras.ai/v1",
                "gpt-oss-120b",
                "https://cloud.cerebras.ai",
                &["CEREBRAS_API_KEY"],
            ),
            compatible(
                "together",
                "Together AI",
                "https://api.together.xyz/v1",
                "openai/gpt-oss-120b",
                "https://api.together.ai/settings/api-keys",
                &["TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY"],
            ),
            compatible(
                "fireworks",
                "Fireworks AI",
                "https://api.fireworks.ai/inference/v1",
                "accounts/fireworks/models/gpt-oss-120b",
                "https://app.fireworks.ai/settings/users/api-keys",
                &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"],
            ),
        ];
        list.extend(LocalServerKind::ALL.map(|kind| Self {
            name: kind.name().to_owned(),
            title: kind.title().to_owned(),
            api: "chat",
            base_url: Some(kind.base_url().to_owned()),
            model: None,
            key_page: None,
            needs_key: false,
            key_variables: &[],
        }));
        list
    }

    /// The first variable of the environment that has a key.
    pub(super) fn key_variable(&self, config: &EnvironmentConfig) -> Option<&'static str> {
        let is_set =
            |name: &&&str| config.variable(name).is_some_and(|value| !value.trim().is_empty());
        self.key_variables.iter().find(is_set).copied()
    }

    /// The provider with this name. An unknown one needs the address of its server.
    pub(super) fn find(name: &str, base_url: Option<&str>) -> Result<Self, UsageError> {
        let base_url = base_url.map(str::to_owned);
        if let Some(known) = Self::list().into_iter().find(|provider| provider.name == name) {
            return Ok(Self { base_url: base_url.or_else(|| known.base_url.clone()), ..known });
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        let is_name = (1..=NAME_CHARS_MAX).contains(&name.len())
            && name.chars().all(is_plain)
            && !name.starts_with('-');
        let known = Self::list().iter().map(|known| known.name.clone()).collect::<Vec<_>>();
        if !is_name {
            return Err(UsageError(format!(
                "`--provider` must have 1 to {NAME_CHARS_MAX} lower-case letters, digits, `_` or `-`; known are {}",
                known.join(", ")
            )));
        }
        if base_url.is_none() {
            return Err(UsageError(format!(
                "`{name}` is not a known provider; use one of {}, or pass the address of its server with `--base-url`",
                known.join(", ")
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            title: name.to_owned(),
            api: "chat",
            base_url,
            model: None,
            key_page: None,
            needs_key: false,
            key_variables: &[],
        })
    }

    /// The same at the address that the environment names for its API, unless it has another one: the key there
    /// is one of that server. Returns the variable, too.
    pub(super) fn at_address_of_environment(
        self,
        config: &EnvironmentConfig,
    ) -> (Self, Option<&'static str>) {
        let variable = match self.name.as_str() {
            "openai" => "OPENAI_BASE_URL",
            "anthropic" => "ANTHROPIC_BASE_URL",
            _ => return (self, None),
        };
        let address = config.variable(variable).map(str::trim).filter(|it| !it.is_empty());
        match (&self.base_url, address) {
            (None, Some(address)) => {
                // Other servers have the older of its two interfaces.
                let is_own = address.starts_with("https://api.openai.com/");
                let api = if self.api == "responses" && !is_own { "chat" } else { self.api };
                let base_url = Some(address.to_owned());
                (Self { base_url, api, ..self }, Some(variable))
            }
            _ => (self, None),
        }
    }

    /// Whether it serves on this machine.
    pub(super) fn is_local(&self) -> bool {
        LocalServerKind::ALL.iter().any(|kind| kind.name() == self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_key_variables_are_found() {
        for (variable, expected) in [
            ("OPENAI_API_KEY", "openai"),
            ("CLAUDE_API_KEY", "anthropic"),
            ("GOOGLE_API_KEY", "gemini"),
            ("OPENROUTER_API_KEY", "openrouter"),
            ("GROQ_API_KEY", "groq"),
            ("MISTRAL_API_KEY", "mistral"),
            ("DEEPSEEK_API_KEY", "deepseek"),
            ("XAI_API_KEY", "xai"),
            ("TOGETHER_API_KEY", "together"),
            ("FIREWORKS_API_KEY", "fireworks"),
            ("CEREBRAS_API_KEY", "cerebras"),
        ] {
            let config = EnvironmentConfig::for_test(std::path::Path::new("/nowhere"))
                .with_variable(variable, "k");
            let found = ModelProvider::list();
            let found: Vec<&ModelProvider> = found
                .iter()
                .filter(|provider| provider.key_variable(&config) == Some(variable))
                .collect();
            assert_eq!(found.len(), 1, "{variable}");
            assert_eq!(found[0].name, expected);
            // A key is never sent to an address without encryption.
            assert!(found[0].base_url.as_ref().is_none_or(|url| url.starts_with("https://")));
        }
    }

    #[test]
    fn unknown_provider_needs_plain_name_and_address() {
        let url = Some("http://127.0.0.1:1/v1");
        for (name, base_url, expected) in [
            ("openai", None, Ok(None)),
            ("openai", url, Ok(url)),
            ("ollama", None, Ok(Some("http://127.0.0.1:11434/v1"))),
            ("work", url, Ok(url)),
            ("work", None, Err("pass the address of its server with `--base-url`")),
            ("Work", url, Err("lower-case")),
            ("a/b", url, Err("lower-case")),
            ("a.b", url, Err("lower-case")),
            ("", url, Err("lower-case")),
        ] {
            match (ModelProvider::find(name, base_url), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.base_url.as_deref(), expected),
                (Err(UsageError(found)), Err(expected)) => {
                    assert!(found.contains(expected), "{name}: {found}");
                }
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
    }
}
