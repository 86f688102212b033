//! A gateway of the family that is no zero: it has no ledger, and does what a test tells it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::acp_client::TIMEOUT;

/// What it does when something is asked of it.
#[derive(Default)]
pub(crate) struct ScriptedResponse {
    /// What it says before it answers: names of events, and what is in them.
    pub(crate) before: Vec<(&'static str, Value)>,
    /// Its answer, where that is not the usual one.
    pub(crate) answer: Option<Value>,
    /// What it says after that.
    pub(crate) after: Vec<(&'static str, Value)>,
}

type GatewayScript = dyn Fn(&str, &Value) -> ScriptedResponse + Send + Sync;

/// The gateway. It ends with the test.
pub(crate) struct OpenClawGateway {
    pub(crate) url: String,
    asked: Receiver<(String, Value)>,
    _runtime: tokio::runtime::Runtime,
}

impl OpenClawGateway {
    pub(crate) fn start(
        script: impl Fn(&str, &Value) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let (tell, asked) = channel();
        let script: Arc<GatewayScript> = Arc::new(script);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), tell.clone()));
            }
        });
        Self { url, asked, _runtime: runtime }
    }

    /// Waits until a method is asked for again; gives its parameters.
    #[track_caller]
    pub(crate) fn next_request(&self, method: &str) -> Value {
        loop {
            let (name, params) = self.asked.recv_timeout(TIMEOUT).expect(method);
            if name == method {
                return params;
            }
        }
    }
}

async fn serve(stream: TcpStream, script: Arc<GatewayScript>, tell: Sender<(String, Value)>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let challenge =
        event_frame("connect.challenge", &json!({"nonce": "a5981a70-f2ef-4293", "ts": 1}));
    if socket.send(Message::text(challenge)).await.is_err() {
        return;
    }
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let request: Value = serde_json::from_str(&text).unwrap();
        let (method, params) = (request["method"].as_str().unwrap(), &request["params"]);
        let ScriptedResponse { before, answer, after } = script(method, params);
        let payload = answer.unwrap_or_else(|| default_answer(method, params));
        let answer = json!({"type": "res", "id": request["id"], "ok": true, "payload": payload});
        let frame_of = |(name, payload): &(&str, Value)| event_frame(name, payload);
        let frames = before.iter().map(frame_of).chain([answer.to_string()]);
        for frame in frames.chain(after.iter().map(frame_of)) {
            if socket.send(Message::text(frame)).await.is_err() {
                return;
            }
        }
        let _ = tell.send((method.to_owned(), params.clone()));
    }
}

fn event_frame(name: &str, payload: &Value) -> String {
    json!({"type": "event", "event": name, "payload": payload, "seq": 1}).to_string()
}

fn default_answer(method: &str, params: &Value) -> Value {
    match method {
        "connect" => json!({
            "type": "hello-ok", "protocol": 4, "server": {"version": "2026.9.6", "connId": "c"},
            "features": {"methods": [], "events": []},
            "snapshot": {"presence": [], "health": {}, "uptimeMs": 1_000_000_000,
                "stateVersion": {"presence": 0, "health": 0}},
            "auth": {"role": "operator", "scopes": ["operator.admin"]},
            "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800,
                "tickIntervalMs": 30_000},
        }),
        "sessions.resolve" => json!({"ok": true, "key": params["key"]}),
        "sessions.list" => json!({"ts": 1, "count": 0, "totalCount": 0, "hasMore": false,
            "defaults": {"model": "m", "contextTokens": 1000}, "sessions": []}),
        "chat.send" => json!({"runId": params["idempotencyKey"], "status": "started"}),
        "chat.abort" => json!({"ok": true, "aborted": true, "runIds": []}),
        "agent.wait" => json!({"runId": params["runId"], "status": "timeout"}),
        _ => json!({"ok": true}),
    }
}
