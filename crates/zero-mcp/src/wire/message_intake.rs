//! [`MessageIntake`], which processes each incoming message before the SDK sees it.
//!
//! A message is measured, split, matched with its request, sanitized, and only then parsed. The
//! outcome is a message that the SDK can use, an error for the request that waits, or nothing.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ErrorCode, ErrorData, JsonRpcMessage, JsonRpcRequest, JsonRpcVersion2_0, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};

use super::connection_diagnostics::ConnectionDiagnostics;
use super::envelope::{self, EnvelopeId, MessageEnvelope};
use super::pending_requests::{PendingRequests, RequestAdmission};
use super::role::ConnectionRole;
use super::{McpMessageLimits, json_scan, sanitize};

/// Maximum number of messages of a batch that are read.
const BATCH_MAX: usize = 64;

/// Processes the incoming messages of one connection.
pub struct MessageIntake<R: ConnectionRole> {
    limits: McpMessageLimits,
    diagnostics: ConnectionDiagnostics,
    pending: Mutex<PendingRequests>,
    role: std::marker::PhantomData<R>,
}

/// The outcome of an incoming message.
pub struct IntakeOutcome<R: ConnectionRole> {
    /// Messages for the SDK, in order.
    pub messages: Vec<RxJsonRpcMessage<R>>,
    /// Messages for the peer.
    pub replies: Vec<TxJsonRpcMessage<R>>,
}

impl<R: ConnectionRole> IntakeOutcome<R> {
    fn empty() -> Self {
        Self { messages: Vec::new(), replies: Vec::new() }
    }

    fn with_message(message: RxJsonRpcMessage<R>) -> Self {
        Self { messages: vec![message], replies: Vec::new() }
    }

    /// An error for a request; without an id if that of the request is invalid.
    fn with_error_reply(error: ErrorData, id: Option<RequestId>) -> Self {
        Self { messages: Vec::new(), replies: vec![JsonRpcMessage::error(error, id)] }
    }
}

impl<R: ConnectionRole> MessageIntake<R> {
    /// Creates an intake with these limits, which records problems in `diagnostics`.
    pub fn new(limits: McpMessageLimits, diagnostics: ConnectionDiagnostics) -> Self {
        Self { limits, diagnostics, pending: Mutex::default(), role: std::marker::PhantomData }
    }

    /// Records a message that is about to be sent. Otherwise its answer would count as unsolicited.
    pub fn record_sent(&self, message: &TxJsonRpcMessage<R>) {
        let mut pending = self.pending();
        match message {
            JsonRpcMessage::Request(request) => {
                pending.record_sent(request.id.clone(), R::request_kind(&request.request));
            }
            JsonRpcMessage::Response(response) => pending.finish(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    pending.finish(id);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let Some(id) = R::cancelled_request(&notification.notification) {
                    pending.forget_sent(id);
                }
            }
        }
    }

    /// Processes a message. The bytes may be repaired in place.
    pub fn receive(&self, line: &mut [u8]) -> IntakeOutcome<R> {
        let line = match line {
            [0xef, 0xbb, 0xbf, rest @ ..] => rest,
            line => line,
        };
        let is_batch = match line.trim_ascii_start().first() {
            None => return IntakeOutcome::empty(),
            Some(b'{') => false,
            Some(b'[') => true,
            Some(_) => {
                self.diagnostics.record_noise(line);
                return IntakeOutcome::empty();
            }
        };
        if json_scan::replace_lone_surrogates(line) > 0 {
            self.diagnostics.record_repair("a string contained a lone surrogate");
        }
        let text = String::from_utf8_lossy(line);
        if let Cow::Owned(_) = text {
            self.diagnostics.record_repair("a string was not UTF-8");
        }
        if is_batch {
            self.receive_batch(text.as_bytes())
        } else {
            self.receive_message(text.as_bytes())
        }
    }

    /// Processes the beginning of a message that is too long.
    pub fn receive_head(&self, head: &[u8]) -> IntakeOutcome<R> {
        let envelope = MessageEnvelope::read_head(head.trim_ascii_start());
        let why = format!("it is longer than {} bytes", self.limits.line_bytes_max);
        self.refuse(&envelope, &why)
    }

    /// Processes the end of a message that is too long and whose beginning has no id.
    pub fn receive_tail(&self, tail: &[u8]) -> IntakeOutcome<R> {
        let Some(id) = envelope::find_trailing_id(tail) else { return IntakeOutcome::empty() };
        let why = format!("it is longer than {} bytes", self.limits.line_bytes_max);
        self.answer_with_refusal(&id, &why).unwrap_or_else(IntakeOutcome::empty)
    }

    fn receive_message(&self, message: &[u8]) -> IntakeOutcome<R> {
        let Ok(envelope) = MessageEnvelope::read(message) else {
            let envelope = MessageEnvelope::read_head(message);
            if envelope.is_version_two {
                return self.refuse(&envelope, "it is not valid JSON");
            }
            self.diagnostics.record_noise(message);
            return IntakeOutcome::empty();
        };
        let is_answer = envelope.result.is_some() || envelope.error.is_some();
        if !envelope.is_version_two {
            // A log line may be a JSON object, but not one with the id of a pending request.
            if is_answer && let Some(id) = envelope.id.request_id() {
                let why = "it does not say that it is JSON-RPC 2.0";
                if let Some(intake) = self.answer_with_refusal(id, why) {
                    return intake;
                }
            }
            self.diagnostics.record_noise(message);
            return IntakeOutcome::empty();
        }
        match (&envelope.method, &envelope.id) {
            (Some(_), _) if is_answer => self.refuse(&envelope, "it is a request and an answer"),
            (Some(method), EnvelopeId::Valid(id)) => {
                self.receive_request(method, id, &envelope, message)
            }
            (Some(method), EnvelopeId::Absent) => {
                self.receive_notification(method, &envelope, message)
            }
            (None, EnvelopeId::Valid(id)) => self.receive_answer(id, &envelope),
            (None, _) => self.receive_without_id(&envelope),
            _ => self.refuse(&envelope, "its id is neither a number nor a string"),
        }
    }

    fn receive_answer(&self, id: &RequestId, envelope: &MessageEnvelope<'_>) -> IntakeOutcome<R> {
        let Some((id, kind)) = self.pending().take_answered(id) else {
            self.diagnostics.record_unsolicited_answer();
            return IntakeOutcome::empty();
        };
        let intake = match (envelope.result, envelope.error) {
            (None, Some(error)) => {
                let error = sanitize::read_error(error, &self.limits);
                return IntakeOutcome::with_message(JsonRpcMessage::error(error, Some(id)));
            }
            (Some(result), None) => R::read_result(kind, result, &self.limits, &self.diagnostics),
            (Some(_), Some(_)) => Err("it has both a result and an error".into()),
            (None, None) => Err("it has neither a result nor an error".into()),
        };
        IntakeOutcome::with_message(match intake {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(why) => {
                self.diagnostics.record_refusal(&why);
                JsonRpcMessage::error(refusal_error(&why), Some(id))
            }
        })
    }

    /// Processes an answer without an id: a peer that could not read a message cannot name it in
    /// its error.
    fn receive_without_id(&self, envelope: &MessageEnvelope<'_>) -> IntakeOutcome<R> {
        let (None, Some(error)) = (envelope.result, envelope.error) else {
            return self.refuse(envelope, "its id is neither a number nor a string");
        };
        let error = sanitize::read_error(error, &self.limits);
        self.diagnostics.record_refusal(&format!("an error without a request: {}", error.message));
        IntakeOutcome::with_message(JsonRpcMessage::error(error, None))
    }

    fn receive_request(
        &self,
        method: &str,
        id: &RequestId,
        envelope: &MessageEnvelope<'_>,
        message: &[u8],
    ) -> IntakeOutcome<R> {
        match self.pending().admit(id, self.limits.requests_max) {
            RequestAdmission::Admitted => {}
            RequestAdmission::IdInUse => {
                // The peer would take any answer for that of the first request with this id.
                self.diagnostics.record_refusal("a request reused the id of a pending one");
                return IntakeOutcome::empty();
            }
            RequestAdmission::TooMany => {
                self.diagnostics.record_refusal("too many requests at a time");
                let message = "too many requests at a time: wait for some of the answers";
                return IntakeOutcome::with_error_reply(
                    ErrorData::internal_error(message, None),
                    Some(id.clone()),
                );
            }
        }
        let checked = sanitize::check_size(message, &self.limits)
            .map_err(|why| ErrorData::invalid_request(format!("refused: {why}"), None))
            .and_then(|()| parse_request::<R>(method, id, envelope, message));
        match checked {
            Ok(request) => IntakeOutcome::with_message(request),
            Err(error) => {
                self.pending().finish(id);
                self.diagnostics.record_refusal(&error.message);
                IntakeOutcome::with_error_reply(error, Some(id.clone()))
            }
        }
    }

    fn receive_notification(
        &self,
        method: &str,
        envelope: &MessageEnvelope<'_>,
        message: &[u8],
    ) -> IntakeOutcome<R> {
        self.diagnostics.record_notification();
        if method == "notifications/cancelled"
            && let Some(id) =
                envelope.params.and_then(|params| json_scan::member(params, "requestId"))
            && let Ok(id) = serde_json::from_slice(id)
        {
            self.pending().finish(&id);
        }
        if let Err(why) = sanitize::check_size(message, &self.limits) {
            self.diagnostics.record_refusal(&why);
            return IntakeOutcome::empty();
        }
        match serde_json::from_slice::<RxJsonRpcMessage<R>>(message) {
            Ok(message) => IntakeOutcome::with_message(message),
            Err(error) => {
                self.diagnostics.record_refusal(&error.to_string());
                IntakeOutcome::empty()
            }
        }
    }

    /// Refuses each part of a batch. None of the supported protocol versions has batches.
    fn receive_batch(&self, batch: &[u8]) -> IntakeOutcome<R> {
        let mut intake = IntakeOutcome::empty();
        let mut is_noise = true;
        for part in json_scan::elements(batch).map_while(Result::ok).take(BATCH_MAX) {
            let Ok(envelope) = MessageEnvelope::read(part.value) else { continue };
            if !envelope.is_version_two {
                continue;
            }
            is_noise = false;
            let refused =
                self.refuse(&envelope, "it is part of a batch; send one message per line");
            intake.messages.extend(refused.messages);
            intake.replies.extend(refused.replies);
        }
        if is_noise {
            self.diagnostics.record_noise(batch);
        }
        intake
    }

    /// Refuses a message. A refused answer becomes an error for the request that waits for it, a
    /// refused request is answered with an error, and everything else is only recorded.
    fn refuse(&self, envelope: &MessageEnvelope<'_>, why: &str) -> IntakeOutcome<R> {
        let is_request = envelope.method.is_some() && envelope.id != EnvelopeId::Absent;
        if is_request {
            self.diagnostics.record_refusal(why);
            let error = ErrorData::invalid_request(format!("refused: {why}"), None);
            return IntakeOutcome::with_error_reply(error, envelope.id.request_id().cloned());
        }
        let Some(id) = envelope.id.request_id() else {
            self.diagnostics.record_refusal(why);
            return IntakeOutcome::empty();
        };
        self.answer_with_refusal(id, why).unwrap_or_else(|| {
            self.diagnostics.record_unsolicited_answer();
            IntakeOutcome::empty()
        })
    }

    /// Returns an error for the request that waits for this answer, if there is one.
    fn answer_with_refusal(&self, id: &RequestId, why: &str) -> Option<IntakeOutcome<R>> {
        let (id, _) = self.pending().take_answered(id)?;
        self.diagnostics.record_refusal(why);
        Some(IntakeOutcome::with_message(JsonRpcMessage::error(refusal_error(why), Some(id))))
    }

    fn pending(&self) -> MutexGuard<'_, PendingRequests> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Start of the message of an error that replaces a refused answer.
const REFUSAL_PREFIX: &str = "the answer was refused: ";

fn refusal_error(why: &str) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, format!("{REFUSAL_PREFIX}{why}"), None)
}

/// Returns why an answer was refused, if the error replaces a refused answer. A server that sends
/// the same text is treated in the same way.
pub(crate) fn find_refusal(error: &ErrorData) -> Option<&str> {
    error.message.strip_prefix(REFUSAL_PREFIX).filter(|_| error.code == ErrorCode::INTERNAL_ERROR)
}

fn parse_request<R: ConnectionRole>(
    method: &str,
    id: &RequestId,
    envelope: &MessageEnvelope<'_>,
    message: &[u8],
) -> Result<RxJsonRpcMessage<R>, ErrorData> {
    if let Some(request) = R::parse_common_request(method, envelope.params) {
        let request = JsonRpcRequest { jsonrpc: JsonRpcVersion2_0, id: id.clone(), request };
        return Ok(JsonRpcMessage::Request(request));
    }
    let parsed = serde_json::from_slice::<RxJsonRpcMessage<R>>(message);
    match parsed {
        Ok(JsonRpcMessage::Request(request)) => {
            R::check_request(&request.request)?;
            Ok(JsonRpcMessage::Request(request))
        }
        Ok(_) => Err(ErrorData::invalid_request("it is not a request", None)),
        Err(error) if error.is_data() => {
            Err(ErrorData::invalid_request(format!("it cannot be read: {error}"), None))
        }
        Err(error) => Err(ErrorData::parse_error(format!("it is not valid JSON: {error}"), None)),
    }
}
