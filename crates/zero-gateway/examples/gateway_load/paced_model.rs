//! A scripted model that speaks chat completions: some words, a call of Read, some more words.
//!
//! It sends words at a fixed rate, so that all runs together receive the configured number per
//! second. Each word contains the number of its client, its position in the run and the time it was
//! sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::MissedTickBehavior;

use crate::LoadResult;
use crate::measured_gateway::NOTE;

/// Words before the call; the same number follows it.
pub(crate) const WORDS_EACH: usize = 60;
/// Prefix of the client's number in its prompt.
pub(crate) const CLIENT_PREFIX: &str = "client=";

/// The running model.
pub(crate) struct PacedModel {
    pub(crate) address: SocketAddr,
}

struct PacedScript {
    /// Start of the measurement; all times are relative to it.
    zero_hour: Instant,
    /// Time between two words of one run.
    pause: Duration,
}

impl PacedModel {
    /// Starts the model; it runs until the tokio runtime ends.
    pub(crate) async fn start(zero_hour: Instant, pause: Duration) -> LoadResult<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let script = Arc::new(PacedScript { zero_hour, pause });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                // The gateway decides when to close a connection.
                tokio::spawn(async move { script.serve(stream).await });
            }
        });
        Ok(Self { address })
    }
}

impl PacedScript {
    async fn serve(&self, stream: TcpStream) -> LoadResult<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        while let Some(body) = read_request(&mut stream).await? {
            let asked = body.rfind(CLIENT_PREFIX).ok_or("a prompt names no client")?;
            let rest = body.get(asked + CLIENT_PREFIX.len()..).unwrap_or_default();
            let client = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            let is_second = rest.contains(r#""role":"tool""#);
            self.stream_reply(stream.get_mut(), client, is_second).await?;
        }
        Ok(())
    }

    async fn stream_reply(
        &self,
        stream: &mut TcpStream,
        client: &str,
        is_second: bool,
    ) -> LoadResult<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        let first = if is_second { WORDS_EACH } else { 0 };
        let mut due = tokio::time::interval(self.pause);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in first..first + WORDS_EACH {
            due.tick().await;
            let now = self.zero_hour.elapsed().as_micros();
            let event = format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{client}.{number}.{now} \"}}}}]}}\n\n"
            );
            write_chunk(stream, &event).await?;
        }
        let finish = if is_second { "stop" } else { "tool_calls" };
        let mut last = String::new();
        if !is_second {
            let arguments = json!({"file_path": NOTE}).to_string();
            let call = json!({"index": 0, "id": "call_1", "type": "function",
                "function": {"name": "Read", "arguments": arguments}});
            last += &format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
            );
        }
        last += &format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        );
        let usage = json!({"prompt_tokens": 1000, "completion_tokens": WORDS_EACH, "total_tokens": 1000 + WORDS_EACH});
        last += &format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage}));
        write_chunk(stream, &last).await?;
        Ok(stream.write_all(b"0\r\n\r\n").await?)
    }
}

async fn write_chunk(stream: &mut TcpStream, event: &str) -> LoadResult<()> {
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    Ok(stream.write_all(chunk.as_bytes()).await?)
}

/// The body of the next request; `None` when the connection was closed.
async fn read_request(stream: &mut BufReader<TcpStream>) -> LoadResult<Option<String>> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(String::from_utf8(body)?))
}
