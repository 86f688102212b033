//! A gateway and raw clients for it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;
use zero_gateway::{
    AuthAttemptLimits, AuthConfig, Gateway, GatewayConfig, GatewayLimits, MetricsSource,
    PlaintextPolicy, Principal, TlsIdentity,
};
use zero_runtime::metrics::{SessionCallStats, ToolStats};
use zero_wire::method::TokenScope;

use crate::null_store;

pub(crate) const ADMIN: &str = "admin-token-0123456789abcdef";
pub(crate) const READER: &str = "reader-token-0123456789abcdef";
pub(crate) const PASSWORD: &str = "correct horse battery";
/// Longer than any step here takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn principal(name: &str, scopes: &[TokenScope]) -> Principal {
    Principal::new(name, scopes.to_vec())
}

struct EmptyMetrics;

impl MetricsSource for EmptyMetrics {
    fn tools(&self) -> BTreeMap<String, ToolStats> {
        BTreeMap::new()
    }

    fn sessions(&self) -> BTreeMap<String, SessionCallStats> {
        BTreeMap::new()
    }

    fn queue_depth(&self) -> u64 {
        0
    }

    fn in_flight(&self) -> u64 {
        0
    }
}

/// A gateway that requires tokens and answers failed attempts quickly.
pub(crate) async fn gateway_config() -> GatewayConfig {
    let auth = AuthConfig::deny_all()
        .with_token(READER, principal("reader", &[TokenScope::Read]))
        .and_then(|auth| auth.with_token(ADMIN, principal("admin", &[TokenScope::Admin])))
        .and_then(|auth| auth.with_password(PASSWORD, principal("person", &[TokenScope::Write])))
        .unwrap();
    let delay_max = Duration::from_millis(1);
    let tries =
        AuthAttemptLimits { delay_first: delay_max, delay_max, ..AuthAttemptLimits::default() };
    GatewayConfig {
        sessions: null_store::sessions().await,
        auth,
        limits: GatewayLimits { tries, ..GatewayLimits::default() },
        version: "1.2.3".to_owned(),
        allowed_origins: vec!["https://app.example".to_owned()],
        allowed_hosts: vec!["box.lan".to_owned()],
        tool_metrics: Arc::new(EmptyMetrics),
        console: zero_gateway::ConsoleConfig::default(),
    }
}

/// A gateway on its own port.
pub(crate) struct RawGateway {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
}

impl RawGateway {
    pub(crate) async fn start() -> Self {
        Self::with_config(|_| {}).await
    }

    pub(crate) async fn with_config(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        Self::with_tls(None, change).await
    }

    pub(crate) async fn with_tls(
        tls: Option<TlsIdentity>,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        let mut config = gateway_config().await;
        change(&mut config);
        let gateway = Gateway::new(config);
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listening = gateway.listen(here, tls, PlaintextPolicy::ThisMachine).await.unwrap();
        let (address, stop) = (listening.address(), CancellationToken::new());
        let (server, stopped) = (gateway.clone(), stop.clone());
        let serving = tokio::spawn(async move { server.serve(listening, stopped).await });
        Self { gateway, address, stop, serving }
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A client that has received the challenge.
    pub(crate) async fn client(&self) -> RawClient<TcpStream> {
        RawClient::from_stream(self.tcp().await).await
    }

    /// A client that completed the handshake.
    pub(crate) async fn connected_client(&self, token: &str) -> RawClient<TcpStream> {
        let mut client = self.client().await;
        let hello = client.connect(connect_params(token)).await;
        assert_eq!(hello["payload"]["type"], "hello-ok", "{hello}");
        client
    }

    /// The status code and the rest of the response to a request.
    pub(crate) async fn http(&self, request: &str) -> (u16, String) {
        let mut stream = self.tcp().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let reading = async {
            while !is_complete_response(&answer)
                && matches!(stream.read_buf(&mut answer).await, Ok(1..))
            {}
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("no answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        (status.unwrap_or_default(), answer)
    }
}

/// Whether a response is complete: its head and a body of the declared length. An upgraded
/// connection continues after its head.
fn is_complete_response(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.trim().parse().unwrap_or(0),
        None => {
            head.starts_with("http/1.1 101 ")
                || head.contains("transfer-encoding: chunked") && body.ends_with("0\r\n\r\n")
        }
    }
}

/// The `connect` parameters of an OpenClaw-compatible client.
pub(crate) fn connect_params(token: &str) -> Value {
    json!({
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        "caps": ["tool-events"],
        "auth": {"token": token},
        "role": "operator",
        "scopes": ["operator.admin"],
    })
}

/// A client that speaks WebSocket only.
pub(crate) struct RawClient<S> {
    pub(crate) websocket: WebSocketStream<S>,
    pub(crate) challenge: Value,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    pub(crate) async fn from_stream(stream: S) -> Self {
        let request = "ws://localhost/".into_client_request().unwrap();
        let (websocket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        let mut client = Self { websocket, challenge: Value::Null };
        client.challenge = client.next_frame().await;
        assert_eq!(client.challenge["event"], "connect.challenge");
        client
    }

    pub(crate) async fn send(&mut self, message: Message) {
        tokio::time::timeout(PATIENCE, self.websocket.send(message)).await.unwrap().unwrap();
    }

    pub(crate) async fn send_text(&mut self, text: impl Into<String>) {
        self.send(Message::text(text.into())).await;
    }

    pub(crate) async fn send_request(&mut self, id: &str, method: &str, params: Value) {
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.send_text(frame.to_string()).await;
    }

    /// Sends a request and returns the response; skips events.
    pub(crate) async fn call_method(&mut self, id: &str, method: &str, params: Value) -> Value {
        self.send_request(id, method, params).await;
        loop {
            let frame = self.next_frame().await;
            if frame["type"] == "res" && frame["id"] == id {
                return frame;
            }
        }
    }

    pub(crate) async fn connect(&mut self, params: Value) -> Value {
        self.call_method("c", "connect", params).await
    }

    pub(crate) async fn check_health(&mut self) {
        let answer = self.call_method("h", "health", json!({})).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }

    /// The next frame.
    pub(crate) async fn next_frame(&mut self) -> Value {
        match self.next_arrival().await {
            RawArrival::Frame(frame) => frame,
            RawArrival::Closed(code, reason) => panic!("closed {code} {reason:?}"),
        }
    }

    /// The code and reason of the close frame; skips earlier frames.
    pub(crate) async fn wait_closed(&mut self) -> (u16, String) {
        loop {
            if let RawArrival::Closed(code, reason) = self.next_arrival().await {
                return (code, reason);
            }
        }
    }

    pub(crate) async fn next_arrival(&mut self) -> RawArrival {
        let arriving = async {
            loop {
                match self.websocket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return RawArrival::Frame(serde_json::from_str(&text).unwrap());
                    }
                    Some(Ok(Message::Close(Some(close)))) => {
                        return RawArrival::Closed(close.code.into(), close.reason.to_string());
                    }
                    Some(Ok(Message::Close(None))) => {
                        return RawArrival::Closed(1005, String::new());
                    }
                    Some(Ok(_)) => {}
                    Some(Err(Error::Protocol(_) | Error::Io(_))) | None => {
                        return RawArrival::Closed(1006, String::new());
                    }
                    Some(Err(error)) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, arriving).await.expect("nothing came")
    }
}

pub(crate) enum RawArrival {
    Frame(Value),
    Closed(u16, String),
}

/// An address of this machine that is not loopback.
pub(crate) fn non_loopback_address() -> SocketAddr {
    SocketAddr::from((IpAddr::from([0, 0, 0, 0]), 0))
}
