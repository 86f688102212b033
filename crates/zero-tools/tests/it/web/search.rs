//! Search engines: their requests, and what happens if one fails.

use std::sync::Arc;

use serde_json::{Value, json};
use zero_core::ErrorType;
use zero_runtime::{ResolverConfig, erase};
use zero_tools::web_search::{SearchEngine, SearchProvider, WebSearchTool};

use super::{
    API_KEY, ScriptedServer, audit_text, check_error, replace_tool, web_session_with,
    write_response,
};
use crate::fixture::{ToolFixture, result_text};

fn test_provider(engine: SearchEngine, server: &ScriptedServer) -> SearchProvider {
    let base_url = format!("http://127.0.0.1:{}/", server.port).parse().unwrap();
    let key: zero_tools::web_search::SearchKeySource = Arc::new(|| Ok(API_KEY.to_owned()));
    SearchProvider { engine, base_url: Some(base_url), key: engine.needs_key().then_some(key) }
}

/// Creates a session that searches with these engines. They are local, and settings name them.
fn search_fixture(providers: Vec<SearchProvider>) -> ToolFixture {
    let (f, _) = web_session_with(&["allow WebSearch"], |config| {
        config.internet = ResolverConfig::default()
    });
    replace_tool(&f.host, erase(WebSearchTool::new(providers)));
    f
}

#[tokio::test]
async fn local_engine_is_declared_as_effect() {
    let server = ScriptedServer::start(|_, stream| {
        let body = sample_results(SearchEngine::Searxng).to_string();
        write_response(stream, "200 OK", &[("Content-Type", "application/json")], body.as_bytes());
    });
    let f = search_fixture(vec![test_provider(SearchEngine::Searxng, &server)]);
    f.call("WebSearch", json!({"query": "q"})).await.unwrap();
    let audit = audit_text(&f);
    assert!(audit.contains(r#""kind":"endpoint","target":"127.0.0.1""#), "{audit}");
}

fn sample_results(engine: SearchEngine) -> Value {
    let result = |title: &str, url: &str| match engine {
        SearchEngine::Brave => {
            json!({"title": title, "url": url, "description": "a <strong>few</strong> words &amp; more"})
        }
        SearchEngine::Exa => {
            json!({"title": title, "url": url, "text": "a few words & more", "id": "x"})
        }
        _ => json!({"title": title, "url": url, "content": "a few words & more", "score": 0.9}),
    };
    let list = json!([
        result("Context", "https://go.dev/blog/context"),
        result("Package", "https://pkg.go.dev/context"),
        result("Elsewhere", "https://blog.example/go.dev"),
        result("Nonsense", "javascript:alert(1)"),
    ]);
    match engine {
        SearchEngine::Brave => {
            json!({"type": "search", "query": {"original": "x"}, "web": {"type": "search", "results": list}})
        }
        _ => json!({"query": "x", "results": list}),
    }
}

#[tokio::test]
async fn each_engine_gets_its_own_request_format() {
    for (engine, line, words) in [
        (
            SearchEngine::Brave,
            "GET /res/v1/web/search?q=go+context+%28site%3Ago.dev+OR+site%3Ablog.example%29+-site%3Apkg.go.dev&count=10 ",
            &["x-subscription-token: sk-test-"][..],
        ),
        (
            SearchEngine::Tavily,
            "POST /search ",
            &[
                "authorization: bearer sk-test-",
                r#""query":"go context""#,
                r#""include_domains":["go.dev","blog.example"]"#,
                r#""exclude_domains":["pkg.go.dev"]"#,
            ],
        ),
        (
            SearchEngine::Exa,
            "POST /search ",
            &[
                "x-api-key: sk-test-",
                r#""query":"go context""#,
                r#""includedomains":["go.dev","blog.example"]"#,
                r#""excludedomains":["pkg.go.dev"]"#,
            ],
        ),
        (
            SearchEngine::Searxng,
            "GET /search?q=go+context+%28site%3Ago.dev+OR+site%3Ablog.example%29+-site%3Apkg.go.dev&format=json ",
            &[],
        ),
    ] {
        let server =
            ScriptedServer::serving("application/json", sample_results(engine).to_string());
        let f = search_fixture(vec![test_provider(engine, &server)]);
        let input = json!({
            "query": " go  context ",
            "allowed_domains": ["go.dev", "blog.example"],
            "blocked_domains": ["pkg.go.dev"],
        });
        let outcome = f.call("WebSearch", input).await.unwrap();
        let structured = &outcome.result.structured;
        // The results of engines are filtered here, too.
        let expected = json!([
            {"title": "Context", "url": "https://go.dev/blog/context", "snippet": "a few words & more"},
            {"title": "Elsewhere", "url": "https://blog.example/go.dev", "snippet": "a few words & more"},
        ]);
        assert_eq!(structured, &json!({"results": expected}),);
        let text = result_text(&outcome);
        let entry =
            "Top results:\n1. Context\n   https://go.dev/blog/context\n   a few words & more\n2. ";
        assert!(text.starts_with("[untrusted content") && text.contains(entry), "{text}");
        let request = &server.requests()[0];
        assert!(request.starts_with(line), "{request}");
        let lower = request.to_lowercase();
        for word in words {
            assert!(lower.contains(word), "{word} is not in {request}");
        }
        assert_eq!(lower.contains("sk-test"), engine.needs_key());
        assert!(!audit_text(&f).contains("sk-test"), "the key is in the audit log");
    }
}

#[tokio::test]
async fn failing_engine_falls_back_to_next() {
    let failing = |status: &'static str| {
        ScriptedServer::start(move |_, stream| {
            write_response(stream, status, &[], format!("no {API_KEY}").as_bytes())
        })
    };
    let well = ScriptedServer::serving(
        "application/json",
        sample_results(SearchEngine::Searxng).to_string(),
    );
    let closed = ScriptedServer { port: 9, seen: Arc::default() };
    for (first, attempts) in [
        (failing("500 Internal Server Error"), 2),
        (failing("429 Too Many Requests"), 2),
        (failing("401 Unauthorized"), 1),
        (ScriptedServer::serving("application/json", "{}"), 1),
        (ScriptedServer::serving("text/html", "<p>captcha"), 1),
        (closed, 0),
    ] {
        let providers = vec![
            test_provider(SearchEngine::Tavily, &first),
            test_provider(SearchEngine::Searxng, &well),
        ];
        let outcome =
            search_fixture(providers).call("WebSearch", json!({"query": "x"})).await.unwrap();
        assert!(
            result_text(&outcome).starts_with("[untrusted content")
                && result_text(&outcome).contains("from SearXNG")
        );
        assert_eq!(first.requests().len(), attempts);
        let [fallback] = &outcome.result.metadata.fallbacks[..] else { panic!("{outcome:?}") };
        assert_eq!((fallback.from.as_str(), fallback.to.as_str()), ("Tavily", "SearXNG"));
        assert!(!fallback.reason.is_empty() && !fallback.reason.contains(API_KEY), "{fallback:?}");
        assert!(outcome.result.structured.get("fallbacks").is_none());
    }
    let first = failing("401 Unauthorized");
    let second = failing("403 Forbidden");
    let providers = vec![
        test_provider(SearchEngine::Brave, &first),
        test_provider(SearchEngine::Searxng, &second),
    ];
    let f = search_fixture(providers);
    let error = f.call("WebSearch", json!({"query": "x"})).await.unwrap_err();
    for part in [
        "Brave Search: it answered HTTP 401 Unauthorized; untrusted message: `no [key]`; check its key",
        "SearXNG: it answered HTTP 403",
        "add `json` to `search.formats`",
    ] {
        assert!(error.message.contains(part), "{part} is not in {error}");
    }
    assert!(!audit_text(&f).contains("0123456789abcdef"));
}

#[tokio::test]
async fn empty_and_invalid_searches_are_explained() {
    let server = ScriptedServer::serving(
        "application/json",
        r#"{"query": {"original": "x"}, "type": "search"}"#,
    );
    let f = search_fixture(vec![test_provider(SearchEngine::Brave, &server)]);
    let outcome = f.call("WebSearch", json!({"query": "x"})).await.unwrap();
    assert_eq!(result_text(&outcome), "No results for `x`.");
    for (input, why) in [
        (json!({"query": "  "}), "1 to 400 characters"),
        (json!({"query": "x".repeat(500)}), "1 to 400 characters"),
        (json!({"query": "x", "allowed_domains": ["not a domain"]}), "which is not a domain"),
        (json!({"query": "x", "domains": []}), "unknown field"),
    ] {
        let error = f.call("WebSearch", input).await.unwrap_err();
        check_error(&error, ErrorType::InvalidInput, why, why);
    }
}
