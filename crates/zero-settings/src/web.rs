//! How tools use the web, as settings say it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::document::join_pointer;
use crate::models::SecretSetting;

/// The keys below `web`.
pub const KEYS: [&str; 1] = ["web.search"];

/// How tools use the web. Only your own settings count here, never a project's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct WebSettings {
    /// The search engines of WebSearch; where one fails, the next is asked. When absent, those whose
    /// key or address stands in the environment.
    search: Vec<SearchEngineSetting>,
}

/// A search engine that WebSearch may ask, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SearchEngineSetting {
    /// Which one: `brave`, `tavily`, `exa` or `searxng`.
    #[schemars(schema_with = "engine_schema")]
    pub engine: SearchEngineName,
    /// Where its key is found; in its usual environment variable when absent. SearXNG needs none.
    pub api_key: Option<SecretSetting>,
    /// Where it is, such as `http://127.0.0.1:8888`; SearXNG has no usual place.
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
    /// A SearXNG of one's own.
    Searxng,
}

impl SearchEngineName {
    /// All of them.
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

/// Search engines that cannot be used, by their JSON pointer.
pub(crate) fn find_wrong_engines(value: &Value) -> Vec<(String, String)> {
    let engines = value.pointer("/web/search").and_then(Value::as_array).into_iter().flatten();
    let wrong = engines.enumerate().filter_map(|(index, setting)| {
        let setting = SearchEngineSetting::deserialize(setting).ok()?;
        let pointer = join_pointer("/web/search", &index.to_string());
        match (&setting.base_url, setting.engine) {
            (Some(url), _) if parse_address(url).is_none() => {
                let what = "is no address; write one such as `http://127.0.0.1:8888`";
                Some((
                    join_pointer(&pointer, "baseUrl"),
                    format!("`web.search.{index}.baseUrl` {what}"),
                ))
            }
            (None, SearchEngineName::Searxng) => {
                let what = "is missing; add where your SearXNG is, such as `http://127.0.0.1:8888`";
                Some((pointer, format!("`web.search.{index}.baseUrl` {what}")))
            }
            _ => None,
        }
    });
    wrong.collect()
}

/// The address of a search engine; `None` where a text is none.
pub fn parse_address(written: &str) -> Option<Url> {
    let url = Url::parse(written).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

fn engine_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SearchEngineName::ALL.map(SearchEngineName::as_str)})
}
