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
}

/// The request is not possible now, or at all.
pub(crate) fn bad_request(message: impl Into<String>) -> Error {
    Error::new(Error::invalid_request().code, message)
}

/// There is no such session on this connection.
pub(crate) fn session_not_found(id: &str) -> Error {
    let message =
        "no such session is open; open it by `session/load` or `session/resume`, or make a new one";
    Error::new(agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND, message)
        .data(json!({"sessionId": id}))
}

/// An operation failed, and the request was not the cause.
pub(crate) fn operation_failed(
    kind: &str,
    message: impl Into<String>,
    is_retryable: bool,
) -> Error {
    Error::new(Error::internal_error().code, one_line(&message.into()))
        .data(json!({"kind": kind, "retryable": is_retryable}))
}

/// The error is in a settings file or on the command line.
pub(crate) fn settings_error(message: &str) -> Error {
    operation_failed("settings", message, false)
}

/// Converts an error of the gateway link.
pub(crate) fn from_link_error(error: &GatewayLinkError) -> Error {
    match error {
        GatewayLinkError::NoSession { key } => session_not_found(key),
        GatewayLinkError::Refused { code, message } if code.is_callers_fault() => {
            invalid_params(one_line(message))
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
        ToolBackendError::Workspace(message) => invalid_params(one_line(message)),
        ToolBackendError::FolderNotAllowed(_) => invalid_params(one_line(&error.to_string())),
        ToolBackendError::ClientDisconnected { .. } => {
            operation_failed("tool_host", error.to_string(), true)
        }
    }
}

/// Clients show a message in one line.
fn one_line(text: &str) -> String {
    text_sanitizer::one_line(text, MESSAGE_CHARS_MAX)
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
            assert_eq!(error.data, None);
        }
    }
}
