//! Settings for the web tools (`web`).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use zero_core::schema_violation::join_pointer;

use crate::models::SecretSetting;

/// The keys below `web`.
pub const KEYS: [&str; 1] = ["web.search"];

/// How tools use the web. Only your own settings apply here, never a project's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct WebSettings {
    /// The search engines of WebSearch; if one fails, the next is tried. When absent, those whose
    /// API key or URL is in the environment.
    search: Vec<SearchEngineSetting>,
}

/// A search engine that WebSearch may use.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SearchEngineSetting {
    /// Its name: `brave`, `tavily`, `exa` or `searxng`.
    #[schemars(schema_with = "engine_schema")]
    pub engine: SearchEngineName,
    /// Where its API key is stored; in its usual environment variable when absent. SearXNG needs
    /// none.
    pub api_key: Option<SecretSetting>,
    /// Its URL, such as `http://127.0.0.1:8888`; required for SearXNG.
    pub base_url: Option<String>,
}

/// The search engines that settings can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchEngineName {
    /// Brave Search.
    Brave,
    /// Tavily, which needs an API key.
    Tavily,
    /// Exa, which needs an API key.
    Exa,
    /// A SearXNG instance that you run.
    Searxng,
}

impl SearchEngineName {
    /// All engines.
    pub const ALL: [Self; 4] = [Self::Brave, Self::Tavily, Self::Exa, Self::Searxng];

    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
            Self::Searxng => "searxng",
        }
    }
}

/// Search engines with invalid settings, by JSON pointer.
pub(crate) fn find_wrong_engines(value: &Value) -> Vec<(String, String)> {
    let engines = value.pointer("/web/search").and_then(Value::as_array).into_iter().flatten();
    let wrong = engines.enumerate().filter_map(|(index, setting)| {
        let setting = SearchEngineSetting::deserialize(setting).ok()?;
        let pointer = join_pointer("/web/search", &index.to_string());
        match (&setting.base_url, setting.engine) {
            (Some(url), _) if parse_address(url).is_none() => {
                let what = "is not a URL; write one such as `http://127.0.0.1:8888`";
                Some((
                    join_pointer(&pointer, "baseUrl"),
                    format!("`web.search.{index}.baseUrl` {what}"),
                ))
            }
            (None, SearchEngineName::Searxng) => {
                let what =
                    "is missing; add the URL of your SearXNG, such as `http://127.0.0.1:8888`";
                Some((pointer, format!("`web.search.{index}.baseUrl` {what}")))
            }
            _ => None,
        }
    });
    wrong.collect()
}

/// The URL of a search engine; `None` if the text is not a valid one.
pub fn parse_address(written: &str) -> Option<Url> {
    let url = Url::parse(written).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

fn engine_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SearchEngineName::ALL.map(SearchEngineName::as_str)})
}
