//! Requests that change something on a server: shown in full, logged without secrets.

use serde_json::json;
use zero_core::{ErrorType, ResultDisplay};

use super::{ALLOW_RULE, ScriptedServer, audit_text, check_error, web_session, write_response};
use crate::fixture::result_text;

#[tokio::test]
async fn approval_shows_whole_request_and_audit_redacts_secrets() {
    let server = ScriptedServer::start(|_, stream| {
        write_response(
            stream,
            "201 Created",
            &[("Content-Type", "application/json"), ("X-Id", "7")],
            b"{\"ok\":true}",
        );
    });
    // Permission to fetch a page does not include permission to send a request.
    let (f, person) = web_session(&[ALLOW_RULE]);
    let input = json!({
        "url": server.url("/items?api_key=hunter22hunter22"),
        "method": "POST",
        "headers": {"Authorization": "Bearer tok-5f2a91c0", "X-Api-Key": "k-93ab77", "X-Mine": "own-words-41", "Content-Type": "application/json"},
        "body": "{\"note\": \"my-private-words\"}",
    });
    let outcome = f.call("WebRequest", input.clone()).await.unwrap();
    let structured = &outcome.result.structured;
    assert_eq!(
        (&structured["status"], &structured["body"]),
        (&json!(201), &json!("{\"ok\":true}"))
    );
    assert_eq!(structured["headers"]["x-id"], "7");
    assert!(
        result_text(&outcome).starts_with("HTTP 201 Created\n[untrusted content"),
        "{}",
        result_text(&outcome)
    );
    let asked = person.0.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    let (title, preview) = &asked[0];
    assert!(
        title.starts_with("POST `http://a.test:") && title.ends_with("(high, 0 grants)"),
        "{title}"
    );
    for part in [
        "POST http://a.test:",
        "api_key=hunter22hunter22",
        "authorization: Bearer tok-5f2a91c0",
        "x-api-key: k-93ab77",
        "my-private-words",
    ] {
        assert!(preview.contains(part), "{part} is not in {preview}");
    }
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /items?api_key=hunter22hunter22 HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"note\": \"my-private-words\"}"), "{request}");
    let audit = audit_text(&f);
    assert!(audit.contains("\"WebRequest\"") && audit.contains("a.test"), "{audit}");
    for secret in ["hunter22", "tok-5f2a91c0", "k-93ab77", "own-words-41", "my-private-words"] {
        assert!(!audit.contains(secret), "{secret} is in {audit}");
    }
    // A rule for WebRequest allows it.
    let (f, person) = web_session(&["allow WebRequest(domain:a.test)"]);
    let outcome = f.call("WebRequest", input).await.unwrap();
    assert!(person.0.lock().unwrap().is_empty());
    // The user was not asked, and still sees the whole request, without secrets.
    let ResultDisplay::Markdown { text: shown } = &outcome.result.display else { panic!() };
    for part in [
        "POST http://a.test:",
        "/items?api_key=[redacted]",
        "authorization: [redacted]",
        "x-api-key: [redacted]",
        "x-mine: own-words-41",
        "{\"note\": \"my-private-words\"}",
        "HTTP 201 Created",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}

#[tokio::test]
async fn invalid_request_is_refused_before_approval() {
    let (f, person) = web_session(&[]);
    for (input, why) in [
        (json!({"url": "http://a.test/", "method": "TRACE"}), "use one of GET, HEAD"),
        (json!({"url": "http://a.test/", "body": "x"}), "a GET request has no `body`"),
        (json!({"url": "http://a.test/", "headers": {"Host": "b.test"}}), "set by the connection"),
        (
            json!({"url": "http://a.test/", "headers": {"Transfer-Encoding": "chunked"}}),
            "set by the connection",
        ),
        (json!({"url": "http://a.test/", "headers": {"A B": "x"}}), "is not a valid header name"),
        (json!({"url": "http://a.test/", "headers": {"X-A": "x\r\nX-B: y"}}), "line break"),
        (json!({"url": "gopher://a.test/"}), "begins with `gopher:`"),
        (
            json!({"url": "http://a.test/", "method": "POST", "body": "x".repeat(15_000)}),
            "too much for the user to review",
        ),
        (
            json!({"url": "http://a.test/", "method": "POST", "body": "\n".repeat(200)}),
            "too much for the user to review",
        ),
    ] {
        let error = f.call("WebRequest", input.clone()).await.unwrap_err();
        check_error(&error, ErrorType::InvalidInput, why, &input.to_string());
    }
    assert!(person.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn redirect_of_request_is_returned() {
    let server = ScriptedServer::start(|_, stream| {
        write_response(stream, "307 Temporary Redirect", &[("Location", "http://b.test/")], b"")
    });
    let (f, _) = web_session(&["allow WebRequest"]);
    let input = json!({"url": server.url("/"), "method": "POST", "body": "x"});
    let outcome = f.call("WebRequest", input).await.unwrap();
    assert_eq!(outcome.result.structured["status"], 307);
    assert_eq!(outcome.result.structured["headers"]["location"], "http://b.test/");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn header_names_in_audit_are_escaped_and_bounded() {
    let (f, _) = web_session(&[]);
    let odd = "X-\u{1b}[2J\u{202e}";
    let input = json!({"url": "http://a.test/", "headers": {odd: "v", "n".repeat(9_000): "v"}});
    f.call("WebRequest", input).await.unwrap_err();
    let audit = audit_text(&f);
    assert!(audit.contains("WebRequest") && audit.len() < 10_000, "{}", audit.len());
    assert!(!audit.contains("\\u001b") && !audit.contains('\u{202e}'), "{audit}");
}

#[tokio::test]
async fn request_is_sent_once_whatever_the_failure() {
    for method in ["POST", "PUT", "GET"] {
        let server = ScriptedServer::start(|_, stream| {
            write_response(stream, "503 Service Unavailable", &[("Retry-After", "0")], b"busy");
        });
        let (f, _) = web_session(&[ALLOW_RULE]);
        let input = json!({"url": server.url("/"), "method": method});
        let outcome = f.call("WebRequest", input).await.unwrap();
        assert_eq!(outcome.result.structured["status"], 503, "{method}");
        assert_eq!(server.requests().len(), 1, "{method}");
    }
    // The server may have done it before it closed the connection.
    let server = ScriptedServer::start(|_, _| {});
    let (f, _) = web_session(&[ALLOW_RULE]);
    let input = json!({"url": server.url("/"), "method": "POST", "body": "x"});
    f.call("WebRequest", input).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}
