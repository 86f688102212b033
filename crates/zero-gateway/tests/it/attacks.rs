//! One attack for each security guarantee of the gateway.

use std::time::Duration;

use serde_json::json;
use zero_gateway::{AuthConfig, Gateway, GatewayServeError, PlaintextPolicy, TlsIdentity};
use zero_wire::method::TokenScope;

use crate::raw_gateway::{
    self, ADMIN, READER, RawGateway, connect_params, non_loopback_address, principal,
};
use crate::tls::self_signed;

fn upgrade_request(target: &str, headers: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\n{headers}Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

#[tokio::test]
async fn foreign_origin_or_host_gets_no_websocket() {
    let rig = RawGateway::start().await;
    let rows = [
        ("Host: localhost\r\n", 101),
        ("Host: 127.0.0.1:18789\r\n", 101),
        ("Host: box.lan\r\n", 101),
        ("Host: localhost\r\nOrigin: https://app.example\r\n", 101),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost:18789\r\nOrigin: http://localhost\r\n", 403),
        ("Host: localhost:18789\r\nOrigin: https://localhost:18789\r\n", 403),
        ("Host: localhost:18789\r\nOrigin: http://127.0.0.1:18789\r\n", 403),
        // The console's own page.
        ("Host: localhost:18789\r\nOrigin: http://localhost:18789\r\n", 101),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
        ("Host: localhost\r\nOrigin: https://app.example\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: evil.example\r\n", 403),
        ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 403),
        ("Host: localhost\r\nHost: evil.example\r\n", 403),
        ("", 403),
    ];
    for (headers, expected) in rows {
        assert_eq!(rig.http(&upgrade_request("/", headers)).await.0, expected, "{headers}");
    }
    let named_twice = upgrade_request("http://evil.example/", "Host: localhost\r\n");
    assert_eq!(rig.http(&named_twice).await.0, 403);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert_eq!(rig.http(&request).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn token_in_url_is_ignored() {
    let rig = RawGateway::start().await;
    let stream = rig.tcp().await;
    let url = format!("ws://localhost/?token={ADMIN}&auth={ADMIN}");
    let (websocket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let mut client = raw_gateway::RawClient { websocket, challenge: json!(null) };
    assert_eq!(client.next_frame().await["event"], "connect.challenge");
    let mut params = connect_params("");
    params["auth"] = json!({});
    let answer = client.connect(params).await;
    assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISSING");
}

#[tokio::test]
async fn responses_never_repeat_secrets() {
    let rig = RawGateway::start().await;
    let almost = format!("{ADMIN}x");
    let mut client = rig.client().await;
    let answer = client.connect(connect_params(&almost)).await.to_string();
    let (_, reason) = client.wait_closed().await;
    assert!(
        !answer.contains("admin-token") && !reason.contains("admin-token"),
        "{answer} {reason}"
    );
}

#[tokio::test]
async fn scopes_are_limited_to_token() {
    let rig = RawGateway::start().await;
    let check = async |asked: &[&str], expected: &[&str]| {
        let mut client = rig.client().await;
        let mut params = connect_params(READER);
        params["scopes"] = json!(asked);
        let answer = client.connect(params).await;
        assert_eq!(answer["payload"]["auth"]["scopes"], json!(expected), "{asked:?}");
    };
    check(&["operator.admin"], &["operator.read"]).await;
    check(&["operator.write", "operator.approvals"], &["operator.read"]).await;
    check(&["operator.approvals"], &[]).await;
    check(&["admin", "*"], &[]).await;
}

/// Guesses until an attempt is locked; returns the number of checked attempts and the final error.
async fn guess_until_locked(
    rig: &RawGateway,
    auth: serde_json::Value,
) -> (usize, serde_json::Value) {
    for tried in 0..50 {
        let mut client = rig.client().await;
        let mut params = connect_params("");
        params["auth"] = auth.clone();
        let answer = client.connect(params).await;
        if answer["error"]["details"]["code"] == "AUTH_RATE_LIMITED" {
            assert_eq!(client.wait_closed().await.0, 1008);
            return (tried, answer);
        }
        assert_eq!(answer["ok"], false);
    }
    panic!("never locked");
}

#[tokio::test]
async fn guessing_is_locked_on_loopback_too() {
    let bogus = [
        json!({"token": "guess"}),
        json!({"token": "guess", "deviceToken": "bogus"}),
        json!({"deviceToken": "bogus"}),
        json!({"bootstrapToken": "bogus"}),
        json!({"password": "guess", "deviceToken": "bogus", "bootstrapToken": "bogus"}),
    ];
    for auth in bogus {
        let rig = RawGateway::start().await;
        let (tried, locked) = guess_until_locked(&rig, auth.clone()).await;
        assert_eq!(tried, 10, "{auth}");
        let wait = locked["error"]["retryAfterMs"].as_u64().unwrap();
        assert!((1..=30_000).contains(&wait), "{wait}");
        assert_eq!(locked["error"]["retryable"], true);
        // While locked, the right token is refused too.
        let mut client = rig.client().await;
        let answer = client.connect(connect_params(ADMIN)).await;
        assert_eq!(answer["error"]["details"]["code"], "AUTH_RATE_LIMITED");
    }
}

#[tokio::test]
async fn lock_expires_and_spares_open_connections() {
    let rig = RawGateway::with_config(|config| {
        config.limits.tries.short_lock = Duration::from_millis(300);
    })
    .await;
    let mut inside = rig.connected_client(ADMIN).await;
    let (_, locked) = guess_until_locked(&rig, json!({"token": "guess"})).await;
    inside.check_health().await;
    let wait = locked["error"]["retryAfterMs"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_millis(wait + 10)).await;
    rig.connected_client(ADMIN).await.check_health().await;
}

#[tokio::test]
async fn failed_attempts_are_answered_more_slowly() {
    let rig = RawGateway::with_config(|config| {
        config.limits.tries.delay_first = Duration::from_millis(40);
        config.limits.tries.delay_max = Duration::from_millis(160);
    })
    .await;
    let mut took = Vec::new();
    for _ in 0..3 {
        let mut client = rig.client().await;
        let since = tokio::time::Instant::now();
        client.connect(connect_params("guess")).await;
        took.push(since.elapsed().as_millis());
    }
    assert!(took[0] >= 40 && took[1] >= 80 && took[2] >= 160, "{took:?}");
}

#[tokio::test]
async fn remote_listen_requires_token_and_tls() {
    let check = async |auth: AuthConfig,
                       tls: Option<TlsIdentity>,
                       plaintext: PlaintextPolicy,
                       expected: &str| {
        let mut config = raw_gateway::gateway_config().await;
        config.auth = auth;
        let outcome =
            match Gateway::new(config).listen(non_loopback_address(), tls, plaintext).await {
                Ok(_) => "listens",
                Err(GatewayServeError::NoAuth(_)) => "no auth",
                Err(GatewayServeError::NoTls(_)) => "no TLS",
                Err(GatewayServeError::Bind { .. }) => "cannot bind",
            };
        assert_eq!(outcome, expected);
    };
    let anybody = || AuthConfig::allow_all(principal("local", &[TokenScope::Admin]));
    let token =
        || AuthConfig::deny_all().with_token(ADMIN, principal("a", &[TokenScope::Admin])).unwrap();
    let tls = || Some(self_signed().0);
    check(anybody(), None, PlaintextPolicy::ThisMachine, "no auth").await;
    check(anybody(), tls(), PlaintextPolicy::Anywhere, "no auth").await;
    check(token(), None, PlaintextPolicy::ThisMachine, "no TLS").await;
    check(token(), None, PlaintextPolicy::Anywhere, "listens").await;
    check(token(), tls(), PlaintextPolicy::ThisMachine, "listens").await;
}

#[tokio::test]
async fn without_tokens_local_clients_get_configured_principal() {
    let rig = RawGateway::with_config(|config| {
        config.auth = AuthConfig::allow_all(principal("local", &[TokenScope::Write]));
    })
    .await;
    let mut client = rig.client().await;
    let mut params = connect_params("");
    params["auth"] = json!({});
    let answer = client.connect(params).await;
    assert_eq!(answer["payload"]["auth"]["scopes"], json!(["operator.write"]));
}

#[tokio::test]
async fn http_endpoints_return_expected_replies() {
    let rig = RawGateway::start().await;
    let get = async |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        rig.http(&request).await
    };
    assert!(get("/healthz").await.1.ends_with("\r\n\r\nok\n"));
    assert!(get("/readyz").await.1.ends_with("\r\n\r\nready\n"));
    let (status, metrics) = get("/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("# TYPE zero_"), "{metrics}");
    assert_eq!(get("/").await.0, 200);
    assert_eq!(get("/etc/passwd").await.0, 404);
    let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(rig.http(post).await.0, 405);
    let old = upgrade_request("/", "Host: localhost\r\n").replace("Version: 13", "Version: 8");
    assert_eq!(rig.http(&old).await.0, 426);
    assert_eq!(rig.http(&upgrade_request("/ws", "Host: localhost\r\n")).await.0, 404);
}
