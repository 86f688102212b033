//! Configures the WebSearch tool from the settings and the environment.

use std::sync::Arc;

use zero_runtime::{AnyTool, erase};
use zero_settings::WorkspaceSettings;
use zero_settings::web::{SearchEngineName, SearchEngineSetting, parse_address};
use zero_tools::web_search::{SearchEngine, SearchKeySource, SearchProvider, WebSearchTool};

use super::super::models::{SecretSetting, secret_reader};
use crate::environment::EnvironmentConfig;

/// Returns the tool with its search engines, or `None` if there are none.
pub(crate) fn search_tool(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
) -> Option<Arc<dyn AnyTool>> {
    let engines = search_providers(settings, config);
    (!engines.is_empty()).then(|| erase(WebSearchTool::new(engines)))
}

/// Returns the search engines, in the order in which they are tried.
fn search_providers(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
) -> Vec<SearchProvider> {
    let named = settings.search_engines();
    if named.is_empty() {
        return engines_from_environment(config);
    }
    let provider = |setting: &SearchEngineSetting| {
        let engine = to_engine(setting.engine);
        let usual = || SecretSetting::Env(engine.variable().to_owned());
        let secret = setting.api_key.clone().or_else(|| engine.needs_key().then(usual));
        SearchProvider {
            engine,
            base_url: setting.base_url.as_deref().and_then(parse_address),
            key: secret.map(|secret| to_key_source(secret, config)),
        }
    };
    named.iter().map(provider).collect()
}

fn to_engine(name: SearchEngineName) -> SearchEngine {
    match name {
        SearchEngineName::Brave => SearchEngine::Brave,
        SearchEngineName::Tavily => SearchEngine::Tavily,
        SearchEngineName::Exa => SearchEngine::Exa,
        SearchEngineName::Searxng => SearchEngine::Searxng,
    }
}

/// Returns the engines whose API key or URL is in the environment.
fn engines_from_environment(config: &EnvironmentConfig) -> Vec<SearchProvider> {
    let provider = |engine: SearchEngine| {
        let value = config.variable(engine.variable()).filter(|value| !value.trim().is_empty())?;
        if !engine.needs_key() {
            return Some(SearchProvider {
                engine,
                base_url: Some(parse_address(value.trim())?),
                key: None,
            });
        }
        let secret = SecretSetting::Env(engine.variable().to_owned());
        Some(SearchProvider { engine, base_url: None, key: Some(to_key_source(secret, config)) })
    };
    SearchEngine::ALL.into_iter().filter_map(provider).collect()
}

fn to_key_source(secret: SecretSetting, config: &EnvironmentConfig) -> SearchKeySource {
    Arc::new(secret_reader(secret, config))
}

#[cfg(test)]
mod tests {
    use zero_settings::{SettingsLayer, SettingsLayerKind, TrustState};

    use super::super::super::tests::parse_layers;
    use super::*;

    const SEARCH_SETTINGS: &str = r#"{"web": {"search": [
        {"engine": "searxng", "baseUrl": "http://127.0.0.1:8888"},
        {"engine": "brave", "apiKey": {"env": "MY_KEY"}},
        {"engine": "exa"}]}}"#;

    /// The engines, each with its key.
    fn load_engines(
        kind: SettingsLayerKind,
        text: &str,
        config: &EnvironmentConfig,
    ) -> Vec<String> {
        let trusted = TrustState::assumed();
        let settings = WorkspaceSettings::merge(&parse_layers(&[(kind, text)]), trusted);
        let shown = |provider: &SearchProvider| {
            let key = provider.key.as_ref().map(|key| key().unwrap_or_else(|why| why));
            let place = provider.base_url.as_ref().map(ToString::to_string);
            format!(
                "{} {} {}",
                provider.engine.as_str(),
                place.unwrap_or_default(),
                key.unwrap_or_default()
            )
        };
        search_providers(&settings, config).iter().map(shown).collect()
    }

    #[test]
    fn engines_come_from_settings_or_else_environment() {
        let config = EnvironmentConfig::default()
            .with_variable("MY_KEY", "one")
            .with_variable("TAVILY_API_KEY", "two");
        assert_eq!(
            load_engines(SettingsLayerKind::User, SEARCH_SETTINGS, &config),
            [
                "searxng http://127.0.0.1:8888/ ",
                "brave  one",
                "exa  the environment variable `EXA_API_KEY` is not set; set it to the key",
            ]
        );
        let config = config.with_variable("SEARXNG_URL", "https://search.example/sx");
        let expected = ["tavily  two", "searxng https://search.example/sx "];
        assert_eq!(load_engines(SettingsLayerKind::User, "{}", &config), expected);
        // Where queries go, and which keys with them, is never for a project to say.
        assert_eq!(load_engines(SettingsLayerKind::Project, SEARCH_SETTINGS, &config), expected);
        assert!(
            load_engines(SettingsLayerKind::User, "{}", &EnvironmentConfig::default()).is_empty()
        );
    }

    #[test]
    fn unusable_engine_is_reported() {
        #[track_caller]
        fn check(search: &str, expected: &str) {
            let text = format!(r#"{{"web": {{"search": {search}}}}}"#);
            let problems =
                SettingsLayer::parse(SettingsLayerKind::User, "f".to_owned(), text.as_bytes())
                    .unwrap_err();
            let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert!(shown.len() == 1 && shown[0].contains(expected), "{shown:?}");
        }
        check(r#"[{"engine": "searxng"}]"#, "`web.search.0.baseUrl` is missing");
        check(
            r#"[{"engine": "searxng", "baseUrl": "here"}]"#,
            "`web.search.0.baseUrl` is not a URL",
        );
        check(r#"[{"engine": "google"}]"#, r#"write one of "brave", "tavily", "exa", "searxng""#);
        check(r#"[{"engine": "brave", "apiKey": "k"}]"#, "`web.search.0.apiKey` is");
    }
}
