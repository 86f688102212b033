//! The WebSearch tool: queries a search engine.

mod domain_filter;
mod search_provider;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::text_shortening::{head, one_line};
use zero_core::{
    Effect, Effects, ErrorReason, ResultDisplay, RiskLevel, TimeoutClass, ToolCategory, ToolError,
    ToolKind, ToolResultPart, sanitize,
};
use zero_runtime::web::{BodyLimits, WebError, WebResponse, shorten_untrusted};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use self::domain_filter::SearchDomainFilter;
use self::search_provider::SearchQuery;
pub use self::search_provider::{SearchEngine, SearchKeySource, SearchProvider};
use crate::untrusted_text;

/// Most results that are returned.
const RESULTS_MAX: usize = 10;
/// Longest query, in characters; engines do not accept longer ones.
const QUERY_CHARS_MAX: usize = 400;
/// Longest title, in characters.
const TITLE_CHARS_MAX: usize = 200;
/// Longest snippet, in characters.
const SNIPPET_CHARS_MAX: usize = 500;
/// A sequence of so many bytes of an API key is never shown.
const KEY_PIECE_BYTES: usize = 8;
/// Largest response of an engine, in bytes.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(8);
/// How long a response may take, once it has started.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Most attempts with one engine.
const ATTEMPTS_MAX: u32 = 2;
/// Pause before another attempt, if the engine names none.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that an engine may ask for. Beyond that the next engine is used.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3);

/// Searches the web and returns the title, the URL and a snippet of each result. Write in `query`
/// what you would type into a search engine. With `allowed_domains` only results from these domains
/// and their subdomains are returned, with `blocked_domains` none from these. Read a result with
/// WebFetch before you rely on it: results are untrusted text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearchArgs {
    /// What to search for.
    query: String,
    /// Only results from these domains, such as `go.dev`.
    allowed_domains: Option<Vec<String>>,
    /// No results from these domains.
    blocked_domains: Option<Vec<String>>,
}

/// The results of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebSearchOutput {
    /// The results, best first; at most 10.
    pub results: Vec<WebSearchResult>,
}

/// One result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WebSearchResult {
    /// The title of the page.
    pub title: String,
    /// The URL of the page.
    pub url: String,
    /// An extract of the page.
    pub snippet: String,
}

/// A validated call.
pub struct WebSearchPlan {
    query: String,
    domains: SearchDomainFilter,
}

/// The WebSearch tool, with its engines in order of preference.
#[derive(Default)]
pub struct WebSearchTool {
    providers: Vec<SearchProvider>,
}

impl WebSearchTool {
    /// Creates the tool with these engines, which are tried in order until one answers.
    pub fn new(providers: Vec<SearchProvider>) -> Self {
        Self { providers }
    }
}

impl Tool for WebSearchTool {
    type Args = WebSearchArgs;
    type Output = WebSearchOutput;
    type Plan = WebSearchPlan;
    const NAME: &'static str = "WebSearch";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Search web",
            category: ToolCategory::Network,
            kind: ToolKind::Fetch,
            risk: RiskLevel::Medium,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "connects to the search engine set in settings, and sends it the query";
        ToolNotes::new(effects).with_bounds([
            ToolBound::characters("`query`", QUERY_CHARS_MAX),
            ToolBound::count("domains in a list", domain_filter::DOMAINS_MAX),
            ToolBound::count("results", RESULTS_MAX),
            ToolBound::characters("a title", TITLE_CHARS_MAX),
            ToolBound::characters("a snippet", SNIPPET_CHARS_MAX),
            ToolBound::bytes("the response of an engine, decompressed", ANSWER_BYTES_MAX),
            ToolBound::count("attempts with one engine", ATTEMPTS_MAX as usize),
            ToolBound::time("connecting", CONNECT_TIME),
            ToolBound::time("the response", ANSWER_TIME),
        ])
    }

    fn plan(&self, args: WebSearchArgs, _: &Workspace) -> Result<WebSearchPlan, ToolError> {
        let WebSearchArgs { query, allowed_domains, blocked_domains } = args;
        let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
        if query.is_empty() || query.chars().count() > QUERY_CHARS_MAX {
            let message = format!("`query` must have 1 to {QUERY_CHARS_MAX} characters");
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        Ok(WebSearchPlan {
            query,
            domains: SearchDomainFilter::parse(allowed_domains, blocked_domains)?,
        })
    }

    fn describe(&self, plan: &WebSearchPlan) -> CallDescription {
        let with = match self.providers.first() {
            Some(provider) => format!(" with {}", provider.engine.name()),
            None => String::new(),
        };
        let title = format!("Search the web for {}{with}", sanitize::to_quoted_line(&plan.query));
        CallDescription { title, locations: Vec::new() }
    }

    /// The hosts of the engines. A host inside the local network that the user's own settings name,
    /// such as SearXNG on this machine, is allowed.
    fn effects(&self, _plan: &WebSearchPlan) -> Effects {
        let endpoints = self.providers.iter().filter_map(SearchProvider::endpoint);
        let reached = endpoints.filter_map(|endpoint| {
            let host = endpoint.host_str()?.to_owned();
            Some(match zero_runtime::web::is_public_url(&endpoint) {
                true => Effect::Net(host),
                false => Effect::Endpoint(host),
            })
        });
        let mut effects: Effects = Vec::new();
        for effect in reached {
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        effects
    }

    fn check(&self, _plan: &WebSearchPlan, _cx: &CallContext) -> Result<(), ToolError> {
        if !self.providers.is_empty() {
            return Ok(());
        }
        let variables =
            SearchEngine::ALL.map(|engine| format!("`{}`", engine.variable())).join(", ");
        let message = format!(
            "no search engine is configured; the user can set one of {variables} in zero's environment, or add one under `web.search` in their settings, such as: zero config set web.search '[{{\"engine\": \"brave\", \"apiKey\": {{\"env\": \"BRAVE_API_KEY\"}}}}]'. Until then use WebFetch with URLs that you know"
        );
        Err(ToolError::failed(ErrorReason::ServerUnavailable, message))
    }

    async fn run(
        &self,
        plan: Arc<WebSearchPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<WebSearchOutput>, ToolError> {
        let mut failures: Vec<String> = Vec::new();
        let mut failed: Option<(&str, String)> = None;
        for provider in &self.providers {
            if let Some((engine, why)) = failed.take() {
                cx.record_fallback(engine, provider.engine.name(), &why);
            }
            let found = tokio::select! {
                found = query_engine(provider, &plan, &cx) => found,
                () = cx.cancelled() => return Err(ToolError::cancelled()),
            };
            match found {
                Ok(results) => return Ok(build_reply(provider, &plan, results, &cx)),
                Err(why) => {
                    let engine = provider.engine.name();
                    tracing::warn!(engine, why, "a search engine failed");
                    failures.push(format!("{engine}: {why}"));
                    failed = Some((engine, why));
                }
            }
        }
        let message = format!("no search engine answered; {}", failures.join("; "));
        Err(ToolError::failed(ErrorReason::ServerUnavailable, message))
    }
}

/// Queries one engine, and once more if that may help.
async fn query_engine(
    provider: &SearchProvider,
    plan: &WebSearchPlan,
    cx: &CallContext,
) -> Result<Vec<WebSearchResult>, String> {
    let endpoint = provider.endpoint().ok_or("its `baseUrl` is missing or not a URL")?;
    let key = match provider.key.clone() {
        None => None,
        // Reading a file or a keyring may take time.
        Some(source) => {
            match zero_exec::detached_thread::run("zero-search-key", move || source()).await {
                Some(key) => Some(key?),
                None => return Err("its key could not be read".to_owned()),
            }
        }
    };
    let search = SearchQuery { query: &plan.query, domains: &plan.domains };
    let request = provider.build_request(endpoint.clone(), key.as_deref(), &search)?;
    let client =
        cx.web().client_for_endpoint(&endpoint, CONNECT_TIME).map_err(|error| error.to_string())?;
    let limits = BodyLimits { bytes_max: ANSWER_BYTES_MAX, idle: ANSWER_TIME, whole: ANSWER_TIME };
    let mut attempt = 1;
    loop {
        let failure = match client.fetch(request.clone(), limits).await {
            Ok(answer) if answer.status.is_success() => {
                return provider.parse_results(&answer.body);
            }
            Ok(answer) => EngineFailure::from_status(provider, &answer, key.as_deref()),
            Err(error) => EngineFailure::from_web_error(&error),
        };
        match failure.again_after {
            Some(pause) if attempt < ATTEMPTS_MAX && pause <= RETRY_PAUSE_MAX => {
                tokio::time::sleep(zero_runtime::web::add_jitter(pause)).await;
                attempt += 1;
                cx.record_retry();
            }
            _ => return Err(failure.why),
        }
    }
}

/// Why an engine did not answer.
struct EngineFailure {
    why: String,
    /// After which time another attempt may succeed.
    again_after: Option<Duration>,
}

impl EngineFailure {
    fn from_web_error(error: &WebError) -> Self {
        Self { why: error.to_string(), again_after: error.is_transient().then_some(RETRY_PAUSE) }
    }

    fn from_status(provider: &SearchProvider, answer: &WebResponse, key: Option<&str>) -> Self {
        let status = answer.status;
        let remark = redact_refusal(&answer.body, key);
        let remark = remark.map_or_else(String::new, |remark| {
            format!("; {}", untrusted_text::quote_untrusted(&remark))
        });
        let advice = match (provider.engine, status) {
            (SearchEngine::Searxng, StatusCode::FORBIDDEN) => {
                "; JSON may be disabled: add `json` to `search.formats` in its settings.yml"
            }
            (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => "; check its key",
            (_, StatusCode::PAYMENT_REQUIRED) => "; its account has no credit left",
            _ => "",
        };
        let wait = zero_runtime::web::retry_after_header(&answer.headers);
        let is_passing = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Self {
            why: format!("it answered HTTP {status}{remark}{advice}"),
            again_after: is_passing.then(|| wait.unwrap_or(RETRY_PAUSE)),
        }
    }
}

/// Returns the engine's message about a refusal, without the API key that it may repeat. The key is
/// removed before the text is cut; if a part of it is left, nothing is returned.
fn redact_refusal(body: &[u8], key: Option<&str>) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let key = key.filter(|key| !key.is_empty());
    let text = match key {
        Some(key) => text.replace(key, "[key]"),
        None => text.into_owned(),
    };
    let remark = shorten_untrusted(zero_runtime::redaction::redact_and_shorten(&text).as_bytes())?;
    let gives_away = |key: &str| {
        let (key, remark) = (key.to_ascii_lowercase(), remark.to_ascii_lowercase());
        let pieces = key.as_bytes().windows(KEY_PIECE_BYTES.min(key.len()));
        let mut remark = pieces.map(|piece| memchr::memmem::find(remark.as_bytes(), piece));
        remark.any(|found| found.is_some())
    };
    let is_fine = !remark.starts_with('<') && !key.is_some_and(gives_away);
    is_fine.then_some(remark)
}

fn build_reply(
    provider: &SearchProvider,
    plan: &WebSearchPlan,
    found: Vec<WebSearchResult>,
    cx: &CallContext,
) -> ToolReply<WebSearchOutput> {
    let engine = provider.engine.name();
    // The domains are checked here too, whatever the engine was asked for.
    let admitted = found.into_iter().filter(|result| plan.domains.allows(&result.url));
    let results: Vec<WebSearchResult> = admitted.map(clean_result).take(RESULTS_MAX).collect();
    let count = crate::text_format::pluralize(results.len() as u64, "result", "results");
    let text = match results.as_slice() {
        [] => format!(
            "No results for {}{}.",
            sanitize::to_quoted_line(&plan.query),
            if plan.domains == SearchDomainFilter::default() { "" } else { " on these domains" }
        ),
        results => {
            let entries: Vec<String> = results
                .iter()
                .enumerate()
                .map(|(at, WebSearchResult { title, url, snippet })| {
                    format!("{}. {title}\n   {url}\n   {snippet}", at + 1).trim_end().to_owned()
                })
                .collect();
            untrusted_text::wrap_untrusted(
                engine,
                &format!("Top results:\n{}", entries.join("\n")),
                cx.call(),
            )
        }
    };
    let text = match cx.attempts() {
        1 => text,
        attempts => format!("{text}\n(the search succeeded at attempt {attempts})"),
    };
    ToolReply {
        content: vec![ToolResultPart::Text(text)],
        display: ResultDisplay::markdown(format!("{count} from {engine}")),
        output: WebSearchOutput { results },
        locations: Vec::new(),
    }
}

/// Cleans a result: no tags, no control characters, limited length.
fn clean_result(result: WebSearchResult) -> WebSearchResult {
    let plain = |text: &str, chars_max: usize| {
        one_line(&crate::web_fetch::html_to_plain_text(head(text, 8 * 1024)), chars_max)
    };
    let url =
        result.url.chars().filter(|c| sanitize::is_safe_char(*c) && !c.is_whitespace()).collect();
    WebSearchResult {
        title: plain(&result.title, TITLE_CHARS_MAX),
        url,
        snippet: plain(&result.snippet, SNIPPET_CHARS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_error_never_echoes_key() {
        const KEY: &str = "tvly/A1b2C3d4E5f6G7h8";
        #[track_caller]
        fn check(body: &str, expected: Option<&str>) {
            assert_eq!(redact_refusal(body.as_bytes(), Some(KEY)).as_deref(), expected, "{body}");
        }
        check("bad request", Some("bad request"));
        check(&format!("no such key: {KEY}"), Some("no such key: [key]"));
        check("<p>no", None);
        // Cut in the middle, shortened, in capitals, escaped.
        let far = format!("{}{KEY}", "x ".repeat(92));
        assert!(!redact_refusal(far.as_bytes(), Some(KEY)).unwrap_or_default().contains("tvly"));
        check("the key tvly/A1b2C3… is unknown", None);
        check("…E5f6G7h8 is unknown", None);
        check("TVLY/A1B2C3D4E5F6G7H8 is unknown", None);
        check(r"tvly\/A1b2C3d4E5f6G7h8", None);
        assert_eq!(redact_refusal(b"short ab", Some("ab")).as_deref(), Some("short [key]"));
        assert_eq!(redact_refusal(b"fine", Some("")).as_deref(), Some("fine"));
        assert_eq!(redact_refusal(b"fine", None).as_deref(), Some("fine"));
    }
}
