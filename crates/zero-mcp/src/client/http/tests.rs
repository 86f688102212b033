//! Servers of both eras, and servers that do what they should not.

pub(crate) mod servers;

use std::time::Instant;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use url::Url;
use zero_runtime::{Internet, RiskPolicy};

use self::servers::{Raw, Seen, json_body, result, status, usual};
use super::*;
use crate::client::credentials::NoCredentials;
use crate::definition::Login;

type Client = RunningService<RoleClient, ()>;

fn guard() -> NetworkGuard {
    NetworkGuard::new(Arc::new(RiskPolicy), Internet::default())
}

fn endpoint(url: &Url, headers: &[(&str, &str)]) -> Endpoint {
    let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Endpoint { url: url.clone(), headers: headers.collect(), login: Login::default() }
}

/// Bounds that a test can wait for.
fn short() -> HttpLimits {
    HttpLimits {
        head_time: Duration::from_secs(1),
        call_head_time: Duration::from_secs(1),
        idle_time: Duration::from_secs(1),
        body_time: Duration::from_secs(2),
        ..HttpLimits::default()
    }
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

async fn connected(url: &Url, headers: &[(&str, &str)]) -> Result<Client, String> {
    let alias = Alias::new("test").unwrap();
    let endpoint = endpoint(url, headers);
    let transport = connect_within(
        short(),
        &alias,
        &endpoint,
        &guard(),
        Arc::new(NoCredentials),
        Troubles::default(),
    )
    .map_err(|error| error.to_string())?;
    ().serve_with_lifecycle(transport, auto()).await.map_err(|error| match http_error(&error) {
        Some(error) => error.to_string(),
        None => format!("not ours: {error}"),
    })
}

fn said(error: &ServiceError) -> String {
    http_error(error).map_or_else(|| format!("not ours: {error}"), ToString::to_string)
}

async fn echoed(client: &Client) {
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    let arguments = json!({"text": "hello"}).as_object().unwrap().clone();
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    let reply = client.call_tool(call).await.unwrap();
    let reply = serde_json::to_string(&reply).unwrap();
    assert!(reply.contains("hello"), "{reply}");
}

#[tokio::test]
async fn both_eras_are_spoken() {
    let url = servers::echo(StreamableHttpServerConfig::default()).await;
    let modern = connected(&url, &[]).await.unwrap();
    echoed(&modern).await;
    modern.cancel().await.unwrap();

    for is_stateful in [true, false] {
        let mut config = StreamableHttpServerConfig::default();
        config.legacy_session_mode = is_stateful;
        config.json_response = !is_stateful;
        let url = servers::echo(config).await;
        let alias = Alias::new("test").unwrap();
        let endpoint = endpoint(&url, &[]);
        let transport =
            connect(&alias, &endpoint, &guard(), Arc::new(NoCredentials), Troubles::default())
                .unwrap();
        let mode = ClientLifecycleMode::Initialize;
        let legacy = ().serve_with_lifecycle(transport, mode).await.unwrap();
        echoed(&legacy).await;
        legacy.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_of_the_older_kind_is_found_out_by_what_it_answers() {
    let json = Raw::mcp("nothing", |_, _| async {}).await;
    connected(&json.url, &[]).await.unwrap().list_all_tools().await.unwrap();
    for answer in ["404 Not Found", "400 Bad Request", "422 Unprocessable Content"] {
        let plain = Raw::mcp("server/discover", move |_, mut stream: TcpStream| async move {
            let _ = stream.write_all(&status(answer, "")).await;
        })
        .await;
        let client = connected(&plain.url, &[]).await.unwrap();
        assert_eq!(client.list_all_tools().await.unwrap().len(), 1, "{answer}");
    }
}
