//! One load client: a WebSocket, the handshake, and frames parsed without copying them.

use std::borrow::Cow;
use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::LoadResult;
use crate::measured_gateway::TOKEN;

/// Read buffer size in bytes. Tungstenite zeroes the buffer before each read, even when no data is
/// available. With its default of 128 KiB this would be the largest CPU cost of a client, on the
/// same cores as the measured gateway.
const READ_BYTES: usize = 4 * 1024;

/// Event format a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventFormat {
    /// The `chat` and `agent` events of the OpenClaw protocol.
    OpenClaw,
    /// Ledger entries.
    Ledger,
}

/// A connection that completed the handshake.
pub(crate) struct LoadClient {
    socket: WebSocketStream<TcpStream>,
    requests: u64,
    /// Sequence number of the last event.
    seq: u64,
}

/// Kind of a received frame.
pub(crate) enum ReceivedFrame {
    /// An event; the callback has processed it.
    Event,
    /// A successful response to a request.
    Answer,
    /// The connection was closed.
    End,
}

/// The fields of a frame that this client needs.
#[derive(Deserialize)]
struct RawFrame<'a> {
    #[serde(borrow)]
    event: Option<Cow<'a, str>>,
    ok: Option<bool>,
    seq: Option<u64>,
    #[serde(borrow)]
    payload: Option<EventPayload<'a>>,
    #[serde(borrow)]
    error: Option<ErrorBody<'a>>,
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// The fields of event payloads that this client needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPayload<'a> {
    #[serde(borrow)]
    pub(crate) session_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) run_id: Option<Cow<'a, str>>,
    pub(crate) seq: Option<u64>,
    #[serde(borrow)]
    pub(crate) state: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) delta_text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) stream: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) data: Option<AgentData<'a>>,
    #[serde(borrow)]
    pub(crate) event: Option<LedgerEntry<'a>>,
}

/// Data of an `agent` event.
#[derive(Deserialize)]
pub(crate) struct AgentData<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) delta: Option<Cow<'a, str>>,
}

/// A ledger entry.
#[derive(Deserialize)]
pub(crate) struct LedgerEntry<'a> {
    pub(crate) seq: u64,
    #[serde(borrow)]
    pub(crate) run: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) end: Option<RunEndInfo<'a>>,
    #[serde(borrow)]
    pub(crate) status: Option<Cow<'a, str>>,
}

/// Outcome of a run.
#[derive(Deserialize)]
pub(crate) struct RunEndInfo<'a> {
    #[serde(borrow, rename = "how")]
    pub(crate) kind: Cow<'a, str>,
}

impl LoadClient {
    /// Connects and performs the handshake.
    pub(crate) async fn connect(address: SocketAddr, words: EventFormat) -> LoadResult<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let url = format!("ws://{address}/");
        let config = WebSocketConfig::default().read_buffer_size(READ_BYTES);
        let (socket, _) =
            tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
        let mut client = Self { socket, requests: 0, seq: 0 };
        let ReceivedFrame::Event = client.receive(|_| Ok(())).await? else {
            return Err("there was no challenge".into());
        };
        // The challenge is not part of the event sequence.
        client.seq = 0;
        let caps = match words {
            EventFormat::OpenClaw => ["tool-events"],
            EventFormat::Ledger => ["zero-events"],
        };
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "caps": caps, "role": "operator",
            "scopes": ["operator.read", "operator.write"], "auth": {"token": TOKEN},
            "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        });
        client.send_request("connect", params).await?;
        match client.receive(|_| Ok(())).await? {
            ReceivedFrame::Answer => Ok(client),
            _ => Err("it was not greeted".into()),
        }
    }

    /// Sends a request; [`Self::receive`] returns the response.
    pub(crate) async fn send_request(
        &mut self,
        method: &str,
        params: serde_json::Value,
    ) -> LoadResult<()> {
        self.requests += 1;
        let id = self.requests.to_string();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        Ok(self.socket.send(Message::text(frame.to_string())).await?)
    }

    /// Receives the next frame and passes the payload of an event to the callback. Returns an error
    /// if a sequence number is missing or a request was refused.
    pub(crate) async fn receive(
        &mut self,
        mut want: impl FnMut(&EventPayload<'_>) -> LoadResult<()>,
    ) -> LoadResult<ReceivedFrame> {
        while let Some(message) = self.socket.next().await {
            let text = match message? {
                Message::Text(text) => text,
                Message::Close(_) => return Ok(ReceivedFrame::End),
                _ => continue,
            };
            let frame: RawFrame<'_> = serde_json::from_str(&text)?;
            if frame.event.is_none() {
                let refusal = frame.error.map(|error| error.message.into_owned());
                return match frame.ok {
                    Some(true) => Ok(ReceivedFrame::Answer),
                    _ => Err(refusal.unwrap_or_else(|| "refused".to_owned()).into()),
                };
            }
            if let Some(seq) = frame.seq {
                if seq != self.seq + 1 {
                    return Err(format!("event {seq} came after {}", self.seq).into());
                }
                self.seq = seq;
            }
            if let Some(payload) = &frame.payload {
                want(payload)?;
            }
            return Ok(ReceivedFrame::Event);
        }
        Ok(ReceivedFrame::End)
    }
}
