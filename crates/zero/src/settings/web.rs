//! The search engines that WebSearch asks, as settings name them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;
use zero_tools::web_search::{SearchEngine, SearchKeySource, SearchProvider};

use super::WorkspaceSettings;
use super::document::join_pointer;
use super::models::SecretSetting;
use super::parsed_setting::ParsedSetting;
use crate::environment::EnvironmentConfig;

/// The keys below `web`.
pub(crate) const KEYS: [&str; 1] = ["web.search"];

/// How tools use the web. Only your own settings count here, never a project's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct WebSettings {
    /// The search engines of WebSearch; where one fails, the next is asked. When absent, those whose
    /// key or address stands in the environment.
    search: Vec<SearchEngineSetting>,
}

/// A search engine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SearchEngineSetting {
    /// Which one: `brave`, `tavily`, `exa` or `searxng`.
    #[schemars(schema_with = "engine_schema")]
    engine: String,
    /// Where its key is found; in its usual environment variable when absent. SearXNG needs none.
    api_key: Option<SecretSetting>,
    /// Where it is, such as `http://127.0.0.1:8888`; SearXNG has no usual place.
    base_url: Option<String>,
}

impl SearchEngineSetting {
    fn to_engine(&self) -> Option<SearchEngine> {
        SearchEngine::ALL.into_iter().find(|engine| engine.as_str() == self.engine)
    }
}

/// Search engines that cannot be used, by their JSON pointer.
pub(super) fn find_wrong_engines(value: &Value) -> Vec<(String, String)> {
    let engines = value.pointer("/web/search").and_then(Value::as_array).into_iter().flatten();
    let wrong = engines.enumerate().filter_map(|(index, setting)| {
        let setting = SearchEngineSetting::deserialize(setting).ok()?;
        let pointer = join_pointer("/web/search", &index.to_string());
        match (&setting.base_url, setting.to_engine()) {
            (Some(url), _) if parse_address(url).is_none() => {
                let what = "is no address; write one such as `http://127.0.0.1:8888`";
                Some((
                    join_pointer(&pointer, "baseUrl"),
                    format!("`web.search.{index}.baseUrl` {what}"),
                ))
            }
            (None, Some(SearchEngine::Searxng)) => {
                let what = "is missing; add where your SearXNG is, such as `http://127.0.0.1:8888`";
                Some((pointer, format!("`web.search.{index}.baseUrl` {what}")))
            }
            _ => None,
        }
    });
    wrong.collect()
}

fn parse_address(written: &str) -> Option<Url> {
    let url = Url::parse(written).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

impl WorkspaceSettings {
    /// The search engines, in the order they are asked.
    pub(crate) fn search_engines(&self, config: &EnvironmentConfig) -> Vec<SearchProvider> {
        let named = self.named_search_engines();
        if named.is_empty() {
            return engines_from_environment(config);
        }
        let provider = |setting: SearchEngineSetting| {
            let engine = setting.to_engine()?;
            let usual = || SecretSetting::Env(engine.variable().to_owned());
            let secret = setting.api_key.or_else(|| engine.needs_key().then(usual));
            Some(SearchProvider {
                engine,
                base_url: setting.base_url.as_deref().and_then(parse_address),
                key: secret.map(|secret| to_key_source(secret, config)),
            })
        };
        named.into_iter().filter_map(provider).collect()
    }

    /// Where the keys of those are found.
    pub(crate) fn search_keys(&self) -> impl Iterator<Item = SecretSetting> {
        self.named_search_engines().into_iter().filter_map(|setting| setting.api_key)
    }

    fn named_search_engines(&self) -> Vec<SearchEngineSetting> {
        let named = self.active_entries().find_map(|entry| match &entry.parsed {
            ParsedSetting::SearchEngines(engines) => Some(engines.clone()),
            _ => None,
        });
        named.unwrap_or_default()
    }
}

/// The engines that the environment names.
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
    let variable = match &secret {
        SecretSetting::Env(name) => config.variable(name).map(str::to_owned),
        SecretSetting::File(_) | SecretSetting::Keyring(_) => None,
    };
    let home = config.home().map(PathBuf::from);
    Arc::new(move || secret.read(variable.as_deref(), home.as_ref()))
}

fn engine_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SearchEngine::ALL.map(SearchEngine::as_str)})
}

#[cfg(test)]
mod tests {
    use super::super::SettingsLayerKind;
    use super::super::tests::parse_layers;
    use super::*;
    use crate::settings::SettingsLayer;
    use crate::trust::TrustState;

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
            let place = provider.base_url.as_ref().map(Url::to_string);
            format!(
                "{} {} {}",
                provider.engine.as_str(),
                place.unwrap_or_default(),
                key.unwrap_or_default()
            )
        };
        settings.search_engines(config).iter().map(shown).collect()
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
                "exa  the key is looked for in `EXA_API_KEY`, which is not set; set it",
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
            "`web.search.0.baseUrl` is no address",
        );
        check(r#"[{"engine": "google"}]"#, r#"write one of "brave", "tavily", "exa", "searxng""#);
        check(r#"[{"engine": "brave", "apiKey": "k"}]"#, "`web.search.0.apiKey` is");
    }
}
