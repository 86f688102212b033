//! A scripted OpenClaw-compatible gateway: every answer can be set, every request is recorded.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::test_gateway::PATIENCE;

pub(crate) struct OpenClawServer {
    pub(crate) address: SocketAddr,
    state: Arc<OpenClawServerState>,
}

struct OpenClawServerState {
    answers: Mutex<HashMap<String, VecDeque<Result<Value, String>>>>,
    asked: watch::Sender<Vec<(String, Value)>>,
    events: broadcast::Sender<String>,
    cut: broadcast::Sender<()>,
    uptime_ms: AtomicU64,
}

impl OpenClawServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(OpenClawServerState {
            answers: Mutex::default(),
            asked: watch::Sender::new(Vec::new()),
            events: broadcast::Sender::new(10_000),
            cut: broadcast::Sender::new(10),
            uptime_ms: AtomicU64::new(1_000_000_000),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&shared).serve(stream));
            }
        });
        Self { address, state }
    }

    /// Sets the next answer to a method, in place of its default answer.
    pub(crate) fn set_answer(&self, method: &str, answer: Result<Value, &str>) {
        let mut answers = self.state.answers.lock().unwrap();
        let answer = answer.map_err(str::to_owned);
        answers.entry(method.to_owned()).or_default().push_back(answer);
    }

    /// Sends an event to all connections.
    pub(crate) fn send_event(&self, name: &str, payload: Value) {
        let frame = json!({"type": "event", "event": name, "payload": payload, "seq": 1});
        self.state.events.send(frame.to_string()).unwrap();
    }

    pub(crate) fn send_chat(&self, run: &str, state: &str, text: &str) {
        self.send_event(
            "chat",
            json!({
                "runId": run, "sessionKey": "agent:main:acp:1", "seq": 1, "state": state,
                "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
            }),
        );
    }

    pub(crate) fn send_agent(&self, run: &str, stream: &str, data: Value) {
        self.send_event(
            "agent",
            json!({
                "runId": run, "sessionKey": "agent:main:acp:1", "seq": 1, "ts": 1, "stream": stream,
                "data": data,
            }),
        );
    }

    /// Drops every connection without a close message.
    pub(crate) fn drop_connections(&self) {
        self.state.cut.send(()).unwrap();
    }

    /// Reports the present as its start time.
    pub(crate) fn simulate_restart(&self) {
        self.state.uptime_ms.store(0, Ordering::Relaxed);
    }

    /// Waits until a method was requested `times` times; returns the parameters of the last
    /// request.
    pub(crate) async fn wait_for_request(&self, method: &str, times: usize) -> Value {
        let mut log = self.state.asked.subscribe();
        let of = |log: &Vec<(String, Value)>| {
            log.iter()
                .filter(|(name, _)| name == method)
                .map(|(_, p)| p.clone())
                .collect::<Vec<_>>()
        };
        let log = timeout(PATIENCE, log.wait_for(|log| of(log).len() >= times)).await;
        let all = of(&log.expect("it was not asked for").unwrap());
        assert_eq!(all.len(), times, "{method}");
        all.last().unwrap().clone()
    }

    /// How often a method was requested.
    pub(crate) fn request_count(&self, method: &str) -> usize {
        self.state.asked.borrow().iter().filter(|(name, _)| name == method).count()
    }
}

impl OpenClawServerState {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
        let (mut events, mut cut) = (self.events.subscribe(), self.cut.subscribe());
        let challenge = json!({"type": "event", "event": "connect.challenge",
            "payload": {"nonce": "a5981a70-f2ef-4293-a34b-457e38e52eb2", "ts": 1}});
        let mut next = challenge.to_string();
        loop {
            if socket.send(Message::text(next)).await.is_err() {
                return;
            }
            next = tokio::select! {
                _ = cut.recv() => return,
                event = events.recv() => event.unwrap(),
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.reply(&serde_json::from_str(&text).unwrap()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => ignored_message(),
                    _ => return,
                },
            };
        }
    }

    fn reply(&self, request: &Value) -> String {
        let method = request["method"].as_str().unwrap().to_owned();
        let params = request["params"].clone();
        let set = self.answers.lock().unwrap().get_mut(&method).and_then(VecDeque::pop_front);
        let answer = set.unwrap_or_else(|| self.default_reply(&method, &params));
        self.asked.send_modify(|log| log.push((method, params)));
        match answer {
            Ok(payload) => {
                json!({"type": "res", "id": request["id"], "ok": true, "payload": payload})
            }
            Err(message) => {
                // A complete error, or only its message.
                let plain = json!({"code": "INVALID_REQUEST", "message": message});
                let error = serde_json::from_str(&message).unwrap_or(plain);
                json!({"type": "res", "id": request["id"], "ok": false, "error": error})
            }
        }
        .to_string()
    }

    fn default_reply(&self, method: &str, params: &Value) -> Result<Value, String> {
        Ok(match method {
            "connect" => json!({
                "type": "hello-ok", "protocol": 4, "server": {"version": "2026.9.6", "connId": "c"},
                "features": {"methods": [], "events": []},
                "snapshot": {"presence": [], "health": {}, "uptimeMs": self.uptime_ms.load(Ordering::Relaxed),
                    "stateVersion": {"presence": 0, "health": 0}},
                "auth": {"role": "operator", "scopes": ["operator.admin"]},
                "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000},
            }),
            "sessions.resolve" => return Err(format!("No session found: {}", params["key"])),
            "sessions.list" => json!({"ts": 1, "count": 0, "totalCount": 0, "hasMore": false,
                "defaults": {"model": "m", "contextTokens": 1000}, "sessions": []}),
            "chat.send" => json!({"runId": params["idempotencyKey"], "status": "started"}),
            "chat.abort" => json!({"ok": true, "aborted": true, "runIds": []}),
            "agent.wait" => json!({"runId": params["runId"], "status": "timeout"}),
            _ => json!({"ok": true}),
        })
    }
}

/// A message that clients ignore.
fn ignored_message() -> String {
    json!({"type": "event", "event": "tick", "payload": {"ts": 1}}).to_string()
}
