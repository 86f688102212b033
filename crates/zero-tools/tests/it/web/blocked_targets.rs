//! Blocked targets in every notation: local addresses, other ports, denied hosts.

use std::sync::Arc;

use serde_json::json;
use zero_core::ErrorType;
use zero_runtime::{ResolverConfig, erase};
use zero_tools::web_search::{SearchEngine, SearchKeySource, SearchProvider, WebSearchTool};

use super::{
    API_KEY, ScriptedServer, TestResolver, check_error, fetch_page, replace_tool, web_session,
    web_session_with,
};

#[tokio::test]
async fn private_addresses_are_blocked_in_every_notation() {
    let server = ScriptedServer::serving("text/plain", "inside");
    let port = server.port;
    let deny = ErrorType::PermissionDenied;
    let all = ["allow WebFetch", "allow WebFetch(domain:169.254.169.254)"];
    for url in [
        "http://127.0.0.1:PORT/",
        "http://localhost:PORT/",
        "http://app.localhost:PORT/",
        "http://2130706433:PORT/",
        "http://0x7f.1:PORT/",
        "http://0177.0.0.1:PORT/",
        "http://127.1:PORT/",
        "http://0.0.0.0:PORT/",
        "http://[::1]:PORT/",
        "http://[::ffff:127.0.0.1]:PORT/",
        "http://[::ffff:7f00:1]:PORT/",
        "http://[64:ff9b::7f00:1]:PORT/",
        "http://10.0.0.5/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "http://intranet.test/",
        "http://mixed.test:PORT/",
        "http://mapped.test/",
        "http://metadata.test/",
    ] {
        let url = url.replace("PORT", &port.to_string());
        let (f, _) = web_session(&all);
        let error = fetch_page(&f, &url, "x").await.unwrap_err();
        assert_eq!(error.error_type, deny, "{url}: {error}");
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[tokio::test]
async fn user_can_allow_a_named_private_host() {
    let server = ScriptedServer::serving("text/plain", "mine");
    let open = |rule: &str| {
        web_session_with(&[rule], |config| {
            config.internet = ResolverConfig {
                resolver: Arc::new(TestResolver::default()),
                ..ResolverConfig::default()
            };
        })
    };
    for (rule, host) in [
        ("allow WebFetch(domain:127.0.0.1)", "127.0.0.1"),
        ("allow WebFetch(domain:localhost)", "localhost"),
    ] {
        let (f, person) = open(rule);
        let url = format!("http://{host}:{}/", server.port);
        assert_eq!(fetch_page(&f, &url, "x").await.unwrap(), "mine", "{rule}");
        assert!(person.0.lock().unwrap().is_empty());
    }
    // A name that resolves to that address is not covered by the rule.
    let (f, _) = open("allow WebFetch(domain:a.test)");
    let error = fetch_page(&f, &server.url("/"), "x").await.unwrap_err();
    check_error(
        &error,
        ErrorType::PermissionDenied,
        "it resolves to 127.0.0.1, this machine",
        "a.test",
    );
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn rebound_name_is_authorized_again() {
    let server = ScriptedServer::serving("text/plain", "first");
    let (f, _) = web_session(&["allow WebFetch"]);
    let url = |path: &str| format!("http://rebinds.test:{}{path}", server.port);
    assert_eq!(fetch_page(&f, &url("/1"), "x").await.unwrap(), "first");
    let error = fetch_page(&f, &url("/2"), "x").await.unwrap_err();
    check_error(&error, ErrorType::PermissionDenied, "a cloud metadata service", "rebinds");
}

#[tokio::test]
async fn other_ports_and_unknown_names_are_refused() {
    let (f, _) = web_session(&["allow WebFetch"]);
    for (url, error_type, why) in [
        ("http://a.test:22/", ErrorType::PermissionDenied, "port 22 is not one of web servers"),
        ("http://a.test:6379/", ErrorType::PermissionDenied, "not one of web servers"),
        ("http://nowhere.test/", ErrorType::ExecutionFailed, "unknown host"),
        ("ftp://a.test/", ErrorType::InvalidInput, "begins with `ftp:`"),
        ("a.test", ErrorType::InvalidInput, "is not a URL"),
        ("http://u:p@a.test/", ErrorType::InvalidInput, "name or password"),
    ] {
        check_error(&fetch_page(&f, url, "x").await.unwrap_err(), error_type, why, url);
    }
}

#[tokio::test]
async fn rules_and_modes_apply_to_web_tools() {
    let server = ScriptedServer::serving("text/plain", "x");
    for rules in
        [&["deny WebFetch(domain:a.test)"][..], &["allow WebFetch", "deny WebFetch(domain:*.test)"]]
    {
        for tool in ["WebFetch", "WebRequest"] {
            let (f, person) = web_session(rules);
            let mut input = json!({"url": server.url("/")});
            if tool == "WebFetch" {
                input["prompt"] = json!("x");
            }
            let error = f.call(tool, input).await.unwrap_err();
            check_error(&error, ErrorType::PermissionDenied, "denied by rule", tool);
            assert!(person.0.lock().unwrap().is_empty());
        }
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn deny_rule_applies_to_search_engine_host() {
    let key: SearchKeySource = Arc::new(|| Ok(API_KEY.to_owned()));
    let outside = SearchProvider { engine: SearchEngine::Brave, base_url: None, key: Some(key) };
    let (f, person) = web_session(&["deny WebFetch(domain:api.search.brave.com)"]);
    replace_tool(&f.host, erase(WebSearchTool::new(vec![outside])));
    let error = f.call("WebSearch", json!({"query": "x"})).await.unwrap_err();
    check_error(&error, ErrorType::PermissionDenied, "denied by rule", "brave");
    assert!(person.0.lock().unwrap().is_empty());
}
