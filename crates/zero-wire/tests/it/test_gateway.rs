//! A scripted gateway for one connection, over a socket or a pipe.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_util::either::Either;
use zero_wire::CloseReason;
use zero_wire::client::{ConnectOptions, GatewayClient, GatewayEvents, GatewayTarget};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::pipe::{PipeReceiver, PipeSender, ServerPipeEnd, pipe};

/// The gateway's side of a connection.
pub(crate) enum TestGateway {
    Socket(Box<WebSocketStream<Either<TcpStream, TlsStream<TcpStream>>>>),
    Pipe(PipeSender, PipeReceiver),
}

pub(crate) const NONCE: &str = "a5981a70-f2ef-4293-a34b-457e38e52eb2";
pub(crate) const TIME: i64 = 1_794_701_339_376;

impl TestGateway {
    pub(crate) async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        match self {
            Self::Socket(socket) => socket.send(Message::text(text)).await.unwrap(),
            Self::Pipe(pipe, _) => pipe.send(text.to_owned()).await.unwrap(),
        }
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        let Self::Socket(socket) = self else { panic!("a pipe transfers only text") };
        socket.send(message).await.unwrap();
    }

    /// Returns the next frame, or why there is none.
    pub(crate) async fn recv(&mut self) -> Result<Value, CloseReason> {
        match self {
            Self::Pipe(_, pipe) => Ok(serde_json::from_str(&pipe.recv().await?).unwrap()),
            Self::Socket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Ok(serde_json::from_str(&text).unwrap());
                    }
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Err(CloseReason::new(frame.code.into(), frame.reason.as_str()));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    _ => return Err(CloseReason::lost()),
                }
            },
        }
    }

    pub(crate) async fn close(&mut self, code: u16, reason: &str) {
        match self {
            Self::Socket(socket) => {
                let frame = CloseFrame { code: code.into(), reason: reason.into() };
                socket.send(Message::Close(Some(frame))).await.unwrap();
                // The connection must stay open until the peer has answered the close.
                while socket.next().await.is_some_and(|message| message.is_ok()) {}
            }
            Self::Pipe(pipe, _) => pipe.close(CloseReason::new(code, reason)),
        }
    }

    pub(crate) async fn send_challenge(&mut self) {
        let payload = json!({"nonce": NONCE, "ts": TIME});
        self.send(json!({"type": "event", "event": "connect.challenge", "payload": payload})).await;
    }

    /// Performs the handshake, and returns the parameters of `connect`.
    pub(crate) async fn accept_handshake(&mut self) -> Value {
        self.accept_handshake_with_policy(json!({})).await
    }

    pub(crate) async fn accept_handshake_with_policy(&mut self, policy: Value) -> Value {
        self.send_challenge().await;
        let connect = self.recv().await.unwrap();
        assert_eq!((&connect["type"], &connect["method"]), (&json!("req"), &json!("connect")));
        self.answer(&connect, hello_payload(policy)).await;
        connect["params"].clone()
    }

    pub(crate) async fn answer(&mut self, request: &Value, payload: Value) {
        self.send(json!({"type": "res", "id": request["id"], "ok": true, "payload": payload}))
            .await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(json!({"type": "res", "id": request["id"], "ok": false, "error": error})).await;
    }

    pub(crate) async fn send_event(&mut self, name: &str, seq: u64, payload: Value) {
        let event = json!({"type": "event", "event": name, "seq": seq, "payload": payload});
        self.send(event).await;
    }
}

pub(crate) fn hello_payload(policy: Value) -> Value {
    let mut hello = json!({
        "type": "hello-ok", "protocol": 4,
        "server": {"version": "1", "connId": "c", "bootId": "of another gateway"},
        "features": {"methods": ["connect"], "events": ["tick"], "capabilities": ["zero.replay"]},
        "snapshot": {"presence": [], "health": {}, "uptimeMs": 1, "configPath": "/x",
            "stateVersion": {"presence": 0, "health": 0}},
        "auth": {"role": "operator", "scopes": ["operator.admin"]},
        "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000},
    });
    for (name, value) in policy.as_object().unwrap() {
        hello["policy"][name] = value.clone();
    }
    hello
}

pub(crate) fn connect_options() -> ConnectOptions {
    let client = ClientInfo {
        id: ClientId::Cli,
        display_name: Some("Test".to_owned()),
        version: "1".to_owned(),
        build_id: None,
        platform: "Linux".to_owned(),
        device_family: Some("Linux".to_owned()),
        model_identifier: None,
        time_zone: None,
        mode: ClientMode::Cli,
        instance_id: None,
    };
    ConnectOptions { timeout: Duration::from_secs(20), ..ConnectOptions::new(client) }
}

/// Runs a gateway on a port for one connection. Returns its address and the task of the script.
pub(crate) async fn serve<T: Send + 'static, F: Future<Output = T> + Send>(
    script: impl FnOnce(TestGateway) -> F + Send + 'static,
) -> (GatewayTarget, JoinHandle<T>) {
    let (address, done) = serve_tcp(None, script).await;
    (url_target(&format!("ws://{address}")), done)
}

pub(crate) async fn serve_tcp<T: Send + 'static, F: Future<Output = T> + Send>(
    tls: Option<TlsAcceptor>,
    script: impl FnOnce(TestGateway) -> F + Send + 'static,
) -> (std::net::SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let done = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = match tls {
            Some(tls) => Either::Right(tls.accept(stream).await.unwrap()),
            None => Either::Left(stream),
        };
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        script(TestGateway::Socket(Box::new(socket))).await
    });
    (address, done)
}

/// Runs a gateway in this process, over a pipe.
pub(crate) fn serve_embedded<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    script: impl FnOnce(TestGateway) -> F,
) -> (GatewayTarget, JoinHandle<T>) {
    let (client, server): (_, ServerPipeEnd) = pipe();
    let (sender, receiver) = server.split();
    (GatewayTarget::Pipe(client), tokio::spawn(script(TestGateway::Pipe(sender, receiver))))
}

pub(crate) fn url_target(text: &str) -> GatewayTarget {
    GatewayTarget::Url(text.parse().unwrap())
}

pub(crate) async fn connect(target: GatewayTarget) -> (GatewayClient, GatewayEvents) {
    GatewayClient::connect(target, connect_options()).await.unwrap()
}
