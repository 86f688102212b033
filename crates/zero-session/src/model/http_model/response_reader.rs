//! Reads one reply: bytes to events to model events, within the limits.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use zero_runtime::web::{SseEvent, SseEventTooLongError, SseParser};

use crate::model::attempt_failure::AttemptFailure;
use crate::model::cost::with_cost;
use crate::model::http_model::HttpModelInner;
use crate::model::http_model::shared_client::describe_root_cause;
use crate::model::protocol::ReplyDecoder;
use crate::model::request_secrets::RequestSecrets;
use crate::model::{ModelError, ModelErrorKind, ModelEvent};

/// A reply that is being read.
pub(super) struct ResponseReader {
    response: reqwest::Response,
    secrets: RequestSecrets,
    deadline: Instant,
    events: SseParser,
    decoder: Box<dyn ReplyDecoder>,
    /// Decoded events that were not returned yet.
    ready: VecDeque<ModelEvent>,
    /// The end of the stream. It is returned after the remaining events.
    end: Option<ResponseEnd>,
    bytes_read: u64,
}

enum ResponseEnd {
    /// The provider ended the stream or reported the end of the reply.
    Complete,
    /// Reading failed.
    Failed(AttemptFailure),
}

impl ResponseReader {
    /// Starts reading after the response head. Reading fails at the deadline.
    pub(super) fn new(
        response: reqwest::Response,
        inner: &HttpModelInner,
        secrets: RequestSecrets,
        deadline: Instant,
    ) -> Self {
        Self {
            response,
            secrets,
            deadline,
            events: SseParser::new(inner.limits.event_bytes_max),
            decoder: inner.protocol.new_decoder(),
            ready: VecDeque::new(),
            end: None,
            bytes_read: 0,
        }
    }

    /// The next event of the reply.
    pub(super) async fn next(
        &mut self,
        inner: &HttpModelInner,
    ) -> Result<ModelEvent, AttemptFailure> {
        // Each round reads at least one byte, and the total is bounded.
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if let Some(end) = self.end.take() {
                return self.finish(end, inner);
            }
            let end = match self.read_chunk(inner).await {
                Ok(Some(chunk)) => self.decode_chunk(&chunk, inner),
                Ok(None) => self.decode_last_event(),
                Err(failed) => Err(failed),
            };
            self.end = end.unwrap_or_else(|failed| Some(ResponseEnd::Failed(failed)));
        }
    }

    async fn read_chunk(
        &mut self,
        inner: &HttpModelInner,
    ) -> Result<Option<Bytes>, AttemptFailure> {
        let limits = &inner.limits;
        let idle = Instant::now() + limits.idle_time;
        match timeout_at(idle.min(self.deadline), self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                let (name, why) = (&inner.subject.name, describe_root_cause(&error));
                let message = format!(
                    "`{name}`: the connection broke in mid-answer: {why}; send the message again"
                );
                Err(ModelError::new(ModelErrorKind::Network, message).into())
            }
            Err(_) if idle < self.deadline => {
                Err(inner.timeout_error("sent nothing more", limits.idle_time).into())
            }
            Err(_) => Err(inner.timeout_error("did not end its answer", limits.answer_time).into()),
        }
    }

    fn decode_chunk(
        &mut self,
        chunk: &[u8],
        inner: &HttpModelInner,
    ) -> Result<Option<ResponseEnd>, AttemptFailure> {
        let limits = &inner.limits;
        self.bytes_read = self.bytes_read.saturating_add(chunk.len() as u64);
        if self.bytes_read > limits.answer_bytes_max {
            return Err(too_large_error(inner, "an answer", limits.answer_bytes_max));
        }
        let mut events = Vec::new();
        self.events.feed(chunk, &mut events).map_err(|SseEventTooLongError| {
            too_large_error(inner, "an event", limits.event_bytes_max as u64)
        })?;
        for event in &events {
            self.decode(event)?;
            if self.decoder.is_done() {
                return Ok(Some(ResponseEnd::Complete));
            }
        }
        Ok(None)
    }

    fn decode_last_event(&mut self) -> Result<Option<ResponseEnd>, AttemptFailure> {
        // The stream may have ended in the middle of an event.
        if let Some(last) = self.events.finish()
            && last.data.as_deref().is_some_and(is_complete)
        {
            self.decode(&last)?;
        }
        Ok(Some(ResponseEnd::Complete))
    }

    fn decode(&mut self, event: &SseEvent) -> Result<(), AttemptFailure> {
        // A stream is never resumed, so an event without data is of no use.
        let Some(data) = &event.data else { return Ok(()) };
        let data = self.secrets.redact(data);
        let events = self.decoder.decode_event(&event.name, &data);
        self.ready.extend(events.map_err(|error| self.redact(error))?);
        Ok(())
    }

    fn finish(
        &mut self,
        end: ResponseEnd,
        inner: &HttpModelInner,
    ) -> Result<ModelEvent, AttemptFailure> {
        let mut reply = match end {
            ResponseEnd::Complete => self.decoder.finish().map_err(|error| self.redact(error))?,
            // The provider may close the connection uncleanly after a complete reply.
            ResponseEnd::Failed(failed) if failed.error.kind == ModelErrorKind::Network => {
                self.decoder.finish().map_err(|_| failed)?
            }
            ResponseEnd::Failed(failed) => return Err(failed),
        };
        reply.usage = with_cost(reply.usage, inner.info.prices.as_ref());
        Ok(ModelEvent::Done(reply))
    }

    fn redact(&self, mut error: ModelError) -> AttemptFailure {
        error.message = self.secrets.redact(&error.message).into_owned();
        AttemptFailure::from(error)
    }
}

fn too_large_error(inner: &HttpModelInner, what: &str, max: u64) -> AttemptFailure {
    let (name, origin) = (&inner.subject.name, &inner.subject.origin);
    let message = format!(
        "`{name}`: {origin} sent {what} of more than {max} bytes, which is not read further"
    );
    AttemptFailure::permanent(ModelError::new(ModelErrorKind::Server, message))
}

fn is_complete(data: &str) -> bool {
    data.trim() == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
}
