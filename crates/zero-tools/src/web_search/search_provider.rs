//! Search engines ([`SearchProvider`]): how each is queried, and how its response is parsed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;
use zero_runtime::web::{OutgoingRequest, RedirectPolicy};

use super::domain_filter::SearchDomainFilter;
use super::{RESULTS_MAX, WebSearchResult};

/// How long the response headers may take.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// A configured search engine.
#[derive(Clone)]
pub struct SearchProvider {
    /// The engine.
    pub engine: SearchEngine,
    /// URL of the engine, if it differs from the default.
    pub base_url: Option<Url>,
    /// Reads the API key when it is needed; `None` for an engine without key.
    pub key: Option<SearchKeySource>,
}

/// Reads a key, or returns why there is none.
pub type SearchKeySource = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

impl fmt::Debug for SearchProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// The supported search engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEngine {
    /// Brave Search, `api.search.brave.com`.
    Brave,
    /// Tavily, `api.tavily.com`.
    Tavily,
    /// Exa, `api.exa.ai`.
    Exa,
    /// SearXNG, hosted by its users.
    Searxng,
}

impl SearchEngine {
    /// All engines, in the default order.
    pub const ALL: [Self; 4] = [Self::Brave, Self::Tavily, Self::Exa, Self::Searxng];

    /// Returns the name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
            Self::Searxng => "searxng",
        }
    }

    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brave => "Brave Search",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
            Self::Searxng => "SearXNG",
        }
    }

    /// Returns the environment variable with its API key, or for SearXNG its URL.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Brave => "BRAVE_API_KEY",
            Self::Tavily => "TAVILY_API_KEY",
            Self::Exa => "EXA_API_KEY",
            Self::Searxng => "SEARXNG_URL",
        }
    }

    /// Returns whether the engine needs an API key.
    pub fn needs_key(self) -> bool {
        self != Self::Searxng
    }

    fn default_url(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com/"),
            Self::Tavily => Some("https://api.tavily.com/"),
            Self::Exa => Some("https://api.exa.ai/"),
            Self::Searxng => None,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Brave => "res/v1/web/search",
            Self::Tavily | Self::Exa | Self::Searxng => "search",
        }
    }
}

/// The parameters of a search.
pub(super) struct SearchQuery<'a> {
    pub(super) query: &'a str,
    pub(super) domains: &'a SearchDomainFilter,
}

impl SearchProvider {
    /// Returns the URL to query.
    pub(super) fn endpoint(&self) -> Option<Url> {
        let mut base = match &self.base_url {
            Some(base) => base.clone(),
            None => Url::parse(self.engine.default_url()?).ok()?,
        };
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        base.join(self.engine.path()).ok()
    }

    /// Builds the request for a search. The error says what is wrong with the key.
    pub(super) fn build_request(
        &self,
        mut url: Url,
        key: Option<&str>,
        search: &SearchQuery<'_>,
    ) -> Result<OutgoingRequest, String> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let (name, value) = match self.engine {
                SearchEngine::Brave => {
                    (HeaderName::from_static("x-subscription-token"), key.to_owned())
                }
                SearchEngine::Exa => (HeaderName::from_static("x-api-key"), key.to_owned()),
                SearchEngine::Tavily | SearchEngine::Searxng => {
                    (AUTHORIZATION, format!("Bearer {key}"))
                }
            };
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| "its key contains invalid characters".to_owned())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let SearchQuery { query, domains } = search;
        let SearchDomainFilter { allowed, blocked } = domains;
        let (method, body) = match self.engine {
            SearchEngine::Brave | SearchEngine::Searxng => {
                let query = format!("{query}{}", domains.site_operators());
                let mut pairs = url.query_pairs_mut();
                pairs.append_pair("q", &query);
                match self.engine {
                    SearchEngine::Brave => pairs.append_pair("count", &RESULTS_MAX.to_string()),
                    _ => pairs.append_pair("format", "json"),
                };
                (Method::GET, None)
            }
            SearchEngine::Tavily => {
                let body = json!({
                    "query": query,
                    "max_results": RESULTS_MAX,
                    "search_depth": "basic",
                    "include_domains": allowed,
                    "exclude_domains": blocked,
                });
                (Method::POST, Some(body))
            }
            SearchEngine::Exa => {
                let mut body = json!({
                    "query": query,
                    "numResults": RESULTS_MAX,
                    "contents": {"text": {"maxCharacters": 500}},
                });
                if let Some(body) = body.as_object_mut() {
                    let lists = [("includeDomains", allowed), ("excludeDomains", blocked)];
                    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                        body.insert(name.to_owned(), json!(list));
                    }
                }
                (Method::POST, Some(body))
            }
        };
        let body = body.map_or_else(Bytes::new, |body| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            body.to_string().into()
        });
        let redirects = RedirectPolicy::SameOrigin;
        Ok(OutgoingRequest { method, url, headers, body, redirects, head_time: HEAD_TIME })
    }

    /// Parses the results of a response. The error says why it is invalid.
    pub(super) fn parse_results(&self, body: &[u8]) -> Result<Vec<WebSearchResult>, String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|_| "its response is not JSON".to_owned())?;
        let list = match self.engine {
            // Brave omits `web` if there are no results.
            SearchEngine::Brave if answer.get("web").is_none() && answer.get("query").is_some() => {
                return Ok(Vec::new());
            }
            SearchEngine::Brave => answer.pointer("/web/results"),
            SearchEngine::Tavily | SearchEngine::Exa | SearchEngine::Searxng => {
                answer.get("results")
            }
        };
        let list = list.and_then(Value::as_array);
        let list = list.ok_or_else(|| "its response has no list of results".to_owned())?;
        let snippet_field = match self.engine {
            SearchEngine::Brave => "description",
            SearchEngine::Exa => "text",
            SearchEngine::Tavily | SearchEngine::Searxng => "content",
        };
        let text = |result: &Value, field: &str| {
            result.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let result = |result: &Value| WebSearchResult {
            title: text(result, "title"),
            url: text(result, "url"),
            snippet: text(result, snippet_field),
        };
        Ok(list.iter().take(4 * RESULTS_MAX).map(result).collect())
    }
}
