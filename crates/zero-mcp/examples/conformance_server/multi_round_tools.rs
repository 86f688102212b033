//! Tools that answer a call with questions, in the protocol without a handshake.
//!
//! The client repeats the call with the answers and the state that it was given. The client may
//! have changed that state, so it is sealed, and verified before it is used.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CreateMessageRequest, CreateMessageRequestParams,
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequests,
    InputRequiredResult, ListRootsRequest, RequestMetaObject, RequestStateCodec, SamplingMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::single_round_tools::text_result;

/// Prefix of the names of these tools.
pub(crate) const PREFIX: &str = "test_input_required_result_";

/// Progress of a call.
#[derive(Serialize, Deserialize)]
struct RoundState {
    rounds_done: u32,
}

/// Answers a call.
pub(crate) fn call(
    seal: &RequestStateCodec,
    request: &CallToolRequestParams,
    meta: &RequestMetaObject,
) -> Result<CallToolResponse, ErrorData> {
    let answer = |key| accepted_content(request.input_responses.as_ref(), key);
    let state =
        request.request_state.as_deref().map(|sealed| open_state(seal, sealed)).transpose()?;
    let kind = request.name.strip_prefix(PREFIX).unwrap_or_default();
    match kind {
        "elicitation" => match answer("user_name") {
            Some(given) => {
                let name = given.get("content").and_then(|content| content.get("name"));
                Ok(text_result(format!(
                    "Hello, {}!",
                    name.and_then(Value::as_str).unwrap_or("friend")
                ))
                .into())
            }
            None => require_input([name_request()?], None),
        },
        "sampling" => match answer("capital_question") {
            Some(given) => {
                Ok(text_result(format!("The model said: {}", Value::Object(given.clone()))).into())
            }
            None => require_input(
                [("capital_question", sampling_request("What is the capital of France?"))],
                None,
            ),
        },
        "list_roots" => match answer("client_roots") {
            Some(given) => {
                Ok(text_result(format!("The roots are: {}", Value::Object(given.clone()))).into())
            }
            None => require_input([roots_request()], None),
        },
        "request_state" | "tampered_state" => match (state, answer("confirm")) {
            (Some(_), Some(_)) => Ok(text_result("Confirmed: state-ok").into()),
            _ => require_input(
                [("confirm", elicitation_request("Please confirm", "ok", "boolean")?)],
                Some(seal_state(seal, 1)?),
            ),
        },
        "multiple_inputs" => {
            let complete = ["user_name", "greeting", "client_roots"]
                .into_iter()
                .all(|key| answer(key).is_some());
            if complete && state.is_some() {
                return Ok(text_result("All inputs received").into());
            }
            require_input(
                [name_request()?, greeting_request(), roots_request()],
                Some(seal_state(seal, 1)?),
            )
        }
        "multi_round" => {
            match (state.map_or(0, |state| state.rounds_done), answer("step1"), answer("step2")) {
                (1, Some(_), _) => require_input(
                    [(
                        "step2",
                        elicitation_request("Which colour do you like?", "color", "string")?,
                    )],
                    Some(seal_state(seal, 2)?),
                ),
                (2, _, Some(_)) => Ok(text_result("Both answers received").into()),
                _ => require_input(
                    [("step1", elicitation_request("What is your name?", "name", "string")?)],
                    Some(seal_state(seal, 1)?),
                ),
            }
        }
        "capabilities" => {
            let can = meta.client_capabilities().unwrap_or_default();
            let wanted: Vec<_> = [
                can.elicitation.is_some().then(name_request).transpose()?,
                can.sampling.is_some().then(greeting_request),
                can.roots.is_some().then(roots_request),
            ]
            .into_iter()
            .flatten()
            .collect();
            if wanted.is_empty() || request.input_responses.is_some() {
                return Ok(text_result("Done with what the client can give").into());
            }
            require_input(wanted, None)
        }
        _ => Err(ErrorData::invalid_params(format!("unknown tool `{}`", request.name), None)),
    }
}

/// Asks the user for one field.
pub(crate) fn elicitation_request(
    message: &str,
    field: &str,
    kind: &str,
) -> Result<InputRequest, ErrorData> {
    let mut requested_schema = elicitation_schema(json!({ field: { "type": kind } }))?;
    requested_schema.required = Some(vec![field.to_owned()]);
    Ok(InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema,
    })))
}

/// The form of a question with these fields.
pub(crate) fn elicitation_schema(properties: Value) -> Result<ElicitationSchema, ErrorData> {
    serde_json::from_value(json!({ "type": "object", "properties": properties }))
        .map_err(|error| ErrorData::internal_error(format!("no form: {error}"), None))
}

/// Returns the client's answer for `key`. Anything but an object is ignored and asked for again.
pub(crate) fn accepted_content<'a>(
    responses: Option<&'a rmcp::model::InputResponses>,
    key: &str,
) -> Option<&'a Map<String, Value>> {
    responses?.get(key)?.as_object()
}

fn require_input(
    wanted: impl IntoIterator<Item = (&'static str, InputRequest)>,
    state: Option<String>,
) -> Result<CallToolResponse, ErrorData> {
    let wanted: InputRequests =
        wanted.into_iter().map(|(key, request)| (key.to_owned(), request)).collect();
    Ok(InputRequiredResult::new(Some(wanted), state).into())
}

fn name_request() -> Result<(&'static str, InputRequest), ErrorData> {
    Ok(("user_name", elicitation_request("What is your name?", "name", "string")?))
}

fn greeting_request() -> (&'static str, InputRequest) {
    ("greeting", sampling_request("Generate a greeting"))
}

fn roots_request() -> (&'static str, InputRequest) {
    ("client_roots", InputRequest::ListRoots(ListRootsRequest::default()))
}

fn sampling_request(prompt: &str) -> InputRequest {
    let messages = vec![SamplingMessage::user_text(prompt)];
    InputRequest::CreateMessage(CreateMessageRequest::new(CreateMessageRequestParams::new(
        messages, 100,
    )))
}

fn seal_state(seal: &RequestStateCodec, rounds_done: u32) -> Result<String, ErrorData> {
    seal.seal_json(&RoundState { rounds_done })
        .map_err(|error| ErrorData::internal_error(format!("no state: {error}"), None))
}

fn open_state(seal: &RequestStateCodec, sealed: &str) -> Result<RoundState, ErrorData> {
    seal.open_json(sealed).map_err(|_| {
        ErrorData::invalid_params("`requestState` is not the one that was given", None)
    })
}
