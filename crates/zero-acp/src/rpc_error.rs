//! Errors of the protocol. Each says in one line what is wrong and what to do next. None quotes the
//! request, because requests contain the environment and headers of servers.

use agent_client_protocol::Error;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zero_client::GatewayLinkError;
use zero_runtime::tool_backend::ToolBackendError;

use crate::text_sanitizer;
use crate::tool_host_factory::ToolHostOpenError;

/// Longest error message, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Parses the parameters of a method.
pub(crate) fn parse_params<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, Error> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_json::from_value(params).map_err(|error| {
        invalid_params(format!(
            "the parameters of `{method}` do not fit: {}",
            parse_error_reason(&error)
        ))
    })
}

/// The parameters are invalid.
pub(crate) fn invalid_params(message: impl Into<String>) -> Error {
    Error::new(Error::invalid_params().code, message)
        .data(json!({"kind": "invalid_params", "advice": "correct the request and send it again"}))
}

/// The request is not possible now, or at all.
pub(crate) fn bad_request(message: impl Into<String>) -> Error {
    let advice = "do what the message says, then send the request again";
    Error::new(Error::invalid_request().code, message)
        .data(json!({"kind": "invalid_request", "advice": advice}))
}

/// There is no such method.
pub(crate) fn unknown_method() -> Error {
    let advice = "use a method of the protocol or one that zero announced in `initialize`";
    Error::method_not_found().data(json!({"kind": "unknown_method", "advice": advice}))
}

/// The session is not open on this connection.
pub(crate) fn session_not_open(id: &str) -> Error {
    let advice =
        "open it with `session/load` or `session/resume`, or start another with `session/new`";
    session_error("session_not_open", "this session is not open here", advice, id)
}

/// There is no such session.
pub(crate) fn no_session(id: &str) -> Error {
    let advice = "list the sessions with `session/list`, or start another with `session/new`";
    session_error("no_session", "there is no such session", advice, id)
}

fn session_error(kind: &str, what: &str, advice: &str, id: &str) -> Error {
    Error::new(agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND, format!("{what}; {advice}"))
        .data(json!({"kind": kind, "advice": advice, "sessionId": id}))
}

/// Whether the client did not answer in time.
pub(crate) fn is_timeout(error: &Error) -> bool {
    error.data.as_ref().and_then(|data| data.get("kind")).is_some_and(|kind| kind == "timeout")
}

/// An operation failed, and the request was not the cause.
pub(crate) fn operation_failed(
    kind: &str,
    message: impl Into<String>,
    is_retryable: bool,
) -> Error {
    Error::new(Error::internal_error().code, message_line(&message.into()))
        .data(json!({"kind": kind, "retryable": is_retryable, "advice": advice(kind)}))
}

/// What to do about an error of this kind.
fn advice(kind: &str) -> &'static str {
    match kind {
        "settings" => "correct the settings that the message names, then try again",
        "auth" => "give the model's key: `zero acp --login`, or `zero config set-key`",
        "gateway_refused" => "do what the message says, or check what the gateway's token may do",
        "gateway_unreachable" => {
            "start the gateway, or correct `--url` or `gateway.remote` in settings, then try again"
        }
        "gateway_lost" => {
            "open the session again; check what the run did before you send its prompt again"
        }
        "tool_host" => "open the session again, so that its tools are here",
        "unsupported" => "use a gateway of zero for this",
        "timeout" => "try again; if the client does not answer, restart it",
        _ => "try again; run `zero doctor` if it happens again",
    }
}

/// The error is in a settings file or on the command line.
pub(crate) fn settings_error(message: &str) -> Error {
    operation_failed("settings", message, false)
}

/// Converts an error of the gateway link.
pub(crate) fn from_link_error(error: &GatewayLinkError) -> Error {
    match error {
        GatewayLinkError::NoSession { key } => no_session(key),
        GatewayLinkError::Refused { code, message, .. } if code.is_callers_fault() => {
            invalid_params(message_line(message))
        }
        GatewayLinkError::Refused { message, .. } => {
            operation_failed("gateway_refused", message, false)
        }
        GatewayLinkError::Unreachable { message, is_passing } => {
            operation_failed("gateway_unreachable", message, *is_passing)
        }
        GatewayLinkError::Settings { message } => settings_error(message),
        GatewayLinkError::Lost { .. } => operation_failed("gateway_lost", error.to_string(), true),
        GatewayLinkError::Unsupported { .. } => {
            operation_failed("unsupported", error.to_string(), false)
        }
    }
}

/// Converts an error from opening a tool host.
pub(crate) fn from_tool_host_error(error: &ToolHostOpenError) -> Error {
    match error {
        ToolHostOpenError::Backend(error) => from_backend_error(error),
        ToolHostOpenError::Settings(message) => settings_error(message),
    }
}

/// Converts an error of a tool backend, such as an unusable folder.
pub(crate) fn from_backend_error(error: &ToolBackendError) -> Error {
    match error {
        ToolBackendError::Workspace(message) => invalid_params(message_line(message)),
        ToolBackendError::FolderNotAllowed(_) => invalid_params(message_line(&error.to_string())),
        ToolBackendError::ClientDisconnected { .. } => {
            operation_failed("tool_host", error.to_string(), true)
        }
        ToolBackendError::StoreUnavailable(_) => operation_failed("store", error.to_string(), true),
    }
}

/// Clients show a message in one line.
fn message_line(text: &str) -> String {
    text_sanitizer::visible_line(text, MESSAGE_CHARS_MAX)
}

/// The message of a JSON error, without the values that it quotes.
fn parse_error_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(": ") {
        // `invalid type: string "…", expected u16`: the value is in the middle.
        Some((what, rest)) => match rest.rsplit_once(", expected ") {
            Some((_, expected)) => format!("{what}, expected {expected}"),
            None => what.to_owned(),
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_error_does_not_quote_params() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(dead_code, reason = "only read")]
        struct ServerParams {
            port: u16,
        }
        for (sent, expected) in [
            (json!({"port": "hunter2"}), "invalid type, expected u16"),
            (json!({}), "missing field `port`"),
        ] {
            let error = parse_params::<ServerParams>("session/new", sent).unwrap_err();
            assert_eq!(
                error.message,
                format!("the parameters of `session/new` do not fit: {expected}")
            );
            assert!(!error.data.unwrap().to_string().contains("hunter2"));
        }
    }
}
