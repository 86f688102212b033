//! Converts the models and agents of the settings for the session engine, and reads their API keys.

use std::path::PathBuf;
use std::sync::Arc;

use zero_mcp::client::credentials::{DesktopKeyring, KEYRING_ADVICE, SecretStore};
use zero_sandbox::ConfigFile;
use zero_session::agent::AgentProfile;
use zero_session::model::catalog::{ApiKey, ApiKeySource, ModelApi, ModelConfig};
use zero_session::model::{ModelError, ModelErrorKind, TokenPrices};
use zero_settings::WorkspaceSettings;
pub(crate) use zero_settings::models::SecretSetting;
use zero_settings::models::{AgentSetting, ModelApiSetting, ModelSetting, PriceSetting};

use crate::environment::EnvironmentConfig;

/// Largest file with a key, in bytes.
pub(crate) const KEY_BYTES_MAX: u64 = 16 * 1024;

/// Returns the models in the settings.
pub(crate) fn model_configs(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
) -> Vec<ModelConfig> {
    let model = |(name, setting): (&str, &ModelSetting)| {
        let (api, base) = to_api(setting.api);
        ModelConfig {
            name: name.to_owned(),
            id: setting.model.clone(),
            api,
            base_url: setting.base_url.clone().unwrap_or_else(|| base.to_owned()),
            key: setting.api_key.clone().map(|secret| to_key_source(secret, config)),
            headers: setting.headers.clone().into_iter().collect(),
            context_window: setting.context_window,
            output_tokens_max: setting.max_output_tokens,
            takes_images: setting.images,
            prices: setting.prices.map(to_prices),
            fallback: setting.fallback.clone(),
            is_trial: false,
        }
    };
    settings.models().map(model).collect()
}

/// Returns the agents in the settings.
pub(crate) fn agent_profiles(settings: &WorkspaceSettings) -> Vec<AgentProfile> {
    let agent = |(id, setting): (&str, &AgentSetting)| AgentProfile {
        id: id.to_owned(),
        model: setting.model.clone(),
        dialect: setting.dialect,
        system_prompt: setting.system_prompt.clone(),
        role: None,
        tools: setting.tools.clone(),
        mode: setting.mode,
        thinking: setting.thinking.unwrap_or_default(),
        turns_max: setting.max_turns,
        fallback: setting.fallback.clone(),
    };
    settings.agents().map(agent).collect()
}

/// Returns the protocol and the default base URL of its provider.
pub(crate) fn to_api(api: ModelApiSetting) -> (ModelApi, &'static str) {
    match api {
        ModelApiSetting::Chat => (ModelApi::OpenAiChat, "https://api.openai.com/v1"),
        ModelApiSetting::Responses => (ModelApi::OpenAiResponses, "https://api.openai.com/v1"),
        ModelApiSetting::Anthropic => (ModelApi::Anthropic, "https://api.anthropic.com"),
        ModelApiSetting::Gemini => (ModelApi::Gemini, "https://generativelanguage.googleapis.com"),
    }
}

fn to_prices(prices: PriceSetting) -> TokenPrices {
    TokenPrices {
        input: prices.input,
        output: prices.output,
        cache_read: prices.cache_read.unwrap_or(prices.input),
        cache_write: prices.cache_write.unwrap_or(prices.input),
    }
}

/// Returns a function that reads the secret when a request needs it. The environment is read now.
pub(crate) fn secret_reader(
    secret: SecretSetting,
    config: &EnvironmentConfig,
) -> impl Fn() -> Result<String, String> + Send + Sync + use<> {
    let variable = match &secret {
        SecretSetting::Env(name) => config.variable(name).map(str::to_owned),
        _ => None,
    };
    let home = config.home().map(PathBuf::from);
    move || read_from_source(&secret, variable.as_deref(), home.as_ref())
}

/// Reads a secret now; the error is a message for the user.
pub(crate) fn read_secret(
    secret: &SecretSetting,
    config: &EnvironmentConfig,
) -> Result<String, String> {
    secret_reader(secret.clone(), config)()
}

fn to_key_source(secret: SecretSetting, config: &EnvironmentConfig) -> ApiKeySource {
    let read = secret_reader(secret, config);
    Arc::new(move || {
        let key = read().map_err(|why| ModelError::new(ModelErrorKind::Auth, why))?;
        Ok(ApiKey::new(&key))
    })
}

fn read_from_source(
    setting: &SecretSetting,
    variable: Option<&str>,
    home: Option<&PathBuf>,
) -> Result<String, String> {
    let secret = match setting {
        SecretSetting::Env(name) => variable.map(str::to_owned).ok_or_else(|| {
            format!("the environment variable `{name}` is not set; set it to the key")
        })?,
        SecretSetting::File(file) => {
            let path = match (file.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(file),
            };
            let bytes = ConfigFile::Own(path).read(KEY_BYTES_MAX);
            let bytes = bytes.map_err(|error| format!("cannot read the key: {error}"))?;
            let bytes = bytes.ok_or_else(|| format!("the key file `{file}` does not exist"))?;
            String::from_utf8(bytes)
                .map_err(|_| format!("the key file `{file}` is not UTF-8 text"))?
        }
        SecretSetting::Keyring(name) => {
            let found = DesktopKeyring::KEYS.get(name);
            let found = found.map_err(|error| {
                    format!("cannot read the key from the keyring of the desktop, which {error}; {KEYRING_ADVICE}, or use `file` or `env` in settings")
                })?;
            found.ok_or_else(|| empty_keyring_message(name))?
        }
    };
    match secret.trim() {
        "" => Err(match setting {
            SecretSetting::Env(name) => format!("the variable `{name}` is empty"),
            SecretSetting::File(file) => format!("the file `{file}` is empty"),
            SecretSetting::Keyring(name) => empty_keyring_message(name),
        }),
        secret => Ok(secret.to_owned()),
    }
}

fn empty_keyring_message(name: &str) -> String {
    format!("the keyring has nothing under `{name}`; store it with `zero config set-key {name}`")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use zero_policy::PermissionMode;
    use zero_runtime::DialectName;
    use zero_settings::{SettingsLayerKind, TrustState, WorkspaceSettings};

    use super::super::tests::parse_layers;
    use super::*;

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
        let models = model_configs(&settings, &config);
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
        let agents = agent_profiles(&settings);
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
        assert!(model_configs(&settings, &EnvironmentConfig::default()).is_empty());
        assert!(agent_profiles(&settings).is_empty() && settings.default_model().is_none());
        assert_eq!(settings.inactive_entries().count(), 5);
    }

    #[track_caller]
    fn check(secret: &SecretSetting, variable: Option<&str>, expected: Result<&str, &str>) {
        let found = read_from_source(secret, variable, None);
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
        check(&env, None, Err("variable `K` is not set"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let file = SecretSetting::File(path.display().to_string());
        check(&file, None, Err("does not exist"));
        std::fs::write(&path, "b\n").unwrap();
        check(&file, None, Ok("b"));
        std::fs::write(&path, [0xff]).unwrap();
        check(&file, None, Err("is not UTF-8 text"));
    }
}
