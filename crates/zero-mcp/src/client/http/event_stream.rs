//! Server-sent events, with a limit on the size of each.
//!
//! An event that is too long ends its stream, because the rest of it cannot be told from the next
//! event. The request that waits on that stream fails immediately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use sse_stream::{Error as SseError, Sse};
use zero_runtime::web::{
    SseEvent, SseEventTooLongError, SseParser, WebError, format_origin, from_reqwest_error,
};

use super::error::McpHttpError;
use super::message_reader::McpMessageReader;

/// Range of the delay that a server may request before a stream is resumed, in milliseconds.
const RETRY_RANGE: (u64, u64) = (100, 60_000);

/// Returns the events of a response. `waiting` is the request that is answered on this stream.
pub(super) fn read_events(
    response: reqwest::Response,
    bytes_max: usize,
    waiting: Option<RequestId>,
    reading: Arc<McpMessageReader>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let origin = format_origin(response.url());
    let start = EventStreamReader {
        bytes: response.bytes_stream().boxed(),
        lines: SseParser::new(bytes_max),
        ready: VecDeque::new(),
        is_awaited: waiting.is_some(),
        is_resumable: false,
        ended: false,
    };
    let step = move |mut reader: EventStreamReader| {
        let (origin, waiting, reading) = (origin.clone(), waiting.clone(), reading.clone());
        async move {
            loop {
                if let Some(event) = reader.ready.pop_front() {
                    return Some((Ok(event), reader));
                }
                if reader.ended {
                    return None;
                }
                let failure = match reader.bytes.next().await {
                    Some(Ok(chunk)) => match reader.feed(&chunk, &reading) {
                        Ok(()) => continue,
                        Err(SseEventTooLongError) => {
                            WebError::TooLarge { what: "an event", bytes_max }.into()
                        }
                    },
                    // The SDK resumes the stream after the last event.
                    None if reader.can_end_silently() => return None,
                    None => {
                        let why = "the stream ended before the answer arrived".to_owned();
                        WebError::Broken { origin: origin.clone(), why }.into()
                    }
                    Some(Err(error)) => from_reqwest_error(&origin, &error, Duration::ZERO).into(),
                };
                reader.ended = true;
                reading.record_refusal(&failure);
                match &waiting {
                    Some(id) if !reader.can_end_silently() => {
                        reader.ready.extend(error_event(id, &failure))
                    }
                    _ => return Some((Err(SseError::Body(Box::new(failure))), reader)),
                }
            }
        }
    };
    stream::unfold(start, step).boxed()
}

/// Builds an error response for a request whose answer did not arrive.
fn error_event(id: &RequestId, failure: &McpHttpError) -> Option<Sse> {
    let error = ErrorData::internal_error(failure.to_string(), None);
    let message = ServerJsonRpcMessage::error(error, Some(id.clone()));
    let data = serde_json::to_string(&message).ok()?;
    Some(Sse { data: Some(data), ..Sse::default() })
}

struct EventStreamReader {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    lines: SseParser,
    ready: VecDeque<Sse>,
    /// Whether a request still waits for its answer on this stream.
    is_awaited: bool,
    /// Whether the stream can be resumed after the last event.
    is_resumable: bool,
    ended: bool,
}

impl EventStreamReader {
    /// Reads a chunk. Events that were complete before one that is too long are delivered.
    fn feed(
        &mut self,
        chunk: &[u8],
        reading: &McpMessageReader,
    ) -> Result<(), SseEventTooLongError> {
        let mut whole = Vec::new();
        let fed = self.lines.feed(chunk, &mut whole);
        for event in whole {
            self.push_event(to_sse(event), reading);
        }
        // After a resume, the server would send the same event again.
        self.is_resumable &= fed.is_ok();
        fed
    }

    /// Reads the message of an event. The event's id and retry delay are kept even if the message
    /// is refused.
    fn push_event(&mut self, event: Sse, reading: &McpMessageReader) {
        self.is_resumable |= event.id.is_some();
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Sse { data: Some(data), event: kind, id, retry } = event else {
            self.ready.push_back(event);
            return;
        };
        if !is_message || data.trim().is_empty() {
            self.ready.push_back(Sse { data: Some(data), event: kind, id, retry });
            return;
        }
        if id.is_some() || retry.is_some() {
            self.ready.push_back(Sse { data: None, event: None, id, retry });
        }
        for message in reading.read_event(data) {
            self.is_awaited &= !message.is_answer;
            self.ready.push_back(Sse::default().data(message.text));
        }
    }

    /// Whether the stream may end without an error.
    fn can_end_silently(&self) -> bool {
        !self.is_awaited || self.is_resumable
    }
}

/// Converts an event to the SDK's type. The server's retry delay is kept within [`RETRY_RANGE`].
fn to_sse(event: SseEvent) -> Sse {
    let (least, most) = RETRY_RANGE;
    Sse {
        event: Some(event.name).filter(|name| !name.is_empty()),
        data: event.data,
        id: event.id,
        retry: event.retry_ms.map(|next_id| next_id.clamp(least, most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the events of a stream for several chunk sizes, one line each: `event|data|id|retry`.
    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        for size in [1, 2, 3, 7, stream.len().max(1)] {
            let mut lines = SseParser::new(32);
            let mut ready = Vec::new();
            let mut seen: Vec<String> = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                if lines.feed(chunk, &mut ready) == Err(SseEventTooLongError) {
                    ready.push(SseEvent {
                        data: Some("too long".to_owned()),
                        ..SseEvent::default()
                    });
                    break;
                }
            }
            for event in ready.into_iter().map(to_sse) {
                let retry = event.retry.map(|retry| retry.to_string());
                let parts = [event.event, event.data, event.id, retry];
                let parts: Vec<String> = parts.into_iter().map(Option::unwrap_or_default).collect();
                seen.push(parts.join("|"));
            }
            assert_eq!(seen, expected, "{stream:?} in chunks of {size}");
        }
    }

    #[test]
    fn events_are_parsed_across_any_chunk_boundary() {
        check("data: a\n\n", &["|a||"]);
        check("data: a\r\ndata:b\r\n\r\n", &["|a\nb||"]);
        check("data: a\r\rdata: b\r\r", &["|a||", "|b||"]);
        check("\u{feff}data: a\n\n", &["|a||"]);
        check(": ping\n\n\n\ndata\n\n", &["|||"]);
        check("event: message\nid: 7\nretry: 500\ndata: x\n\n", &["message|x|7|500"]);
        check("retry: 0\n\n", &["|||100"]);
        check("retry: 99999999\n\nretry: x\n\n", &["|||60000"]);
        check("unknown: a\n\ndata: unfinished\n", &[]);
    }

    #[test]
    fn event_size_is_bounded_and_comments_use_no_memory() {
        check(&format!("data: {}\n\n", "x".repeat(40)), &["|too long||"]);
        check(&format!("data: ok\n\n{}", "data: x\n".repeat(20)), &["|ok||", "|too long||"]);
        check(&format!(":{}\ndata: ok\n\n", "x".repeat(100)), &["|ok||"]);
        check(&"data: 123456789\n\n".repeat(3), &["|123456789||"; 3]);
    }
}
