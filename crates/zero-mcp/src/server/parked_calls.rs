//! [`ParkedCalls`]: calls that wait for an answer while they have no open request.
//!
//! A stateless client is asked by ending its request: it repeats the request with the answer and a
//! handle, and the same call continues. Meanwhile the call is stored here. The handle contains no
//! information and cannot be guessed. It is valid once, for the same tool with the same arguments,
//! and for some minutes only.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, InputRequest, InputRequiredResult,
    InputResponses, JsonObject,
};
use tokio::task::AbortHandle;

use super::call_router::ClientQuestion;
use super::random_handle;
use super::running_call::RunningCall;

/// Name of the question; there is one at a time.
const QUESTION: &str = "question";

/// Calls that wait for an answer.
pub(super) struct ParkedCalls {
    parked: Mutex<HashMap<String, ParkedCall>>,
    calls_max: usize,
    age_max: Duration,
}

/// The original request, which an answer must repeat.
#[derive(PartialEq)]
pub(super) struct ParkedRequest {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
}

struct ParkedCall {
    parked_request: ParkedRequest,
    running: RunningCall,
    ask: ClientQuestion,
    expiry: AbortHandle,
}

/// Outcome of an answer.
pub(super) enum ResumeOutcome {
    /// The call continues.
    Running(RunningCall, ParkedRequest),
    /// The answer is missing: the same question again.
    AskAgain(InputRequiredResult),
}

impl ParkedCalls {
    pub(super) fn new(calls_max: usize, age_max: Duration) -> Arc<Self> {
        Arc::new(Self { parked: Mutex::default(), calls_max, age_max })
    }

    /// Stores a call until its question is answered, and returns the result for the client. If too
    /// many calls wait already, returns `None`, and the call ends.
    pub(super) fn park(
        self: &Arc<Self>,
        running: RunningCall,
        ask: ClientQuestion,
        parked_request: ParkedRequest,
    ) -> Option<InputRequiredResult> {
        let handle = random_handle::new_handle()?;
        let question = input_required(&ask.params, &handle);
        let mut parked = self.parked_calls();
        if parked.len() >= self.calls_max {
            return None;
        }
        let expiry = self.schedule_expiry(handle.clone());
        parked.insert(handle, ParkedCall { parked_request, running, ask, expiry });
        Some(question)
    }

    /// Answers the question of a call. An answer that does not belong to it leaves it waiting.
    pub(super) fn resume(
        &self,
        handle: &str,
        parked_request: ParkedRequest,
        responses: Option<&InputResponses>,
    ) -> Result<ResumeOutcome, ErrorData> {
        let mut all = self.parked_calls();
        let unknown = || {
            invalid_params(
                "no call with this `requestState` waits for an answer: it was answered, has expired, or belongs to another tool or other arguments; call the tool again without it",
            )
        };
        let parked = all
            .get(handle)
            .filter(|parked| parked.parked_request == parked_request)
            .ok_or_else(unknown)?;
        let Some(response) = responses.and_then(|responses| responses.get(QUESTION)) else {
            return Ok(ResumeOutcome::AskAgain(input_required(&parked.ask.params, handle)));
        };
        let answer: ElicitResult = serde_json::from_value(response.clone()).map_err(|error| {
            invalid_params(format!(
                "`inputResponses.{QUESTION}` is not an answer to an elicitation: {error}"
            ))
        })?;
        let Some(parked) = all.remove(handle) else { return Err(unknown()) };
        parked.expiry.abort();
        // The call may no longer wait for the answer; then its result says so.
        let _ = parked.ask.answer.send(answer);
        Ok(ResumeOutcome::Running(parked.running, parked_request))
    }

    /// Ends every stored call.
    pub(super) fn clear(&self) {
        let ended = std::mem::take(&mut *self.parked_calls());
        for parked in ended.into_values() {
            parked.expiry.abort();
        }
    }

    fn schedule_expiry(self: &Arc<Self>, handle: String) -> AbortHandle {
        let (pending, age_max) = (Arc::downgrade(self), self.age_max);
        let wait = async move {
            tokio::time::sleep(age_max).await;
            if let Some(pending) = pending.upgrade() {
                let expired = pending.parked_calls().remove(&handle);
                drop(expired);
            }
        };
        tokio::spawn(wait).abort_handle()
    }

    fn parked_calls(&self) -> MutexGuard<'_, HashMap<String, ParkedCall>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn input_required(params: &ElicitRequestParams, handle: &str) -> InputRequiredResult {
    let request = InputRequest::Elicitation(ElicitRequest::new(params.clone()));
    let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
    InputRequiredResult::new(Some(requests), Some(handle.to_owned()))
}

fn invalid_params(message: impl Into<std::borrow::Cow<'static, str>>) -> ErrorData {
    ErrorData::invalid_params(message, None)
}
