//! The client's side of the handshake: waits for the challenge, calls `connect`, and checks
//! `hello-ok`.

use serde_json::Value;

use super::encoded_params::shorten_error;
use super::error::GatewayClientError;
use super::transport::{GatewayFrameReader, GatewayFrameWriter, IncomingFrame};
use super::{ConnectOptions, GatewayCredentials};
use crate::close::{self, CloseReason};
use crate::device::ChallengeContext;
use crate::error::ErrorPayload;
use crate::events::CONNECT_CHALLENGE;
use crate::frame::{GatewayFrame, RequestFrame, ResponseFrame};
use crate::handshake::{
    Connect, ConnectAuth, ConnectChallenge, ConnectParams, HelloOk, PROTOCOL, PROTOCOL_MIN,
};
use crate::method::GatewayMethod as _;

/// The only role of zero's clients.
const ROLE: &str = "operator";
/// Id of the first request; later ones count up from it.
const FIRST_ID: &str = "0";
/// Maximum number of irrelevant frames before the expected one.
const SKIPPED_FRAMES_MAX: usize = 64;

/// Performs the handshake. If it fails, closes the connection with a reason where that is still
/// possible.
pub(super) async fn perform_handshake(
    reader: &mut GatewayFrameReader,
    writer: &mut GatewayFrameWriter,
    options: &ConnectOptions,
) -> Result<HelloOk, GatewayClientError> {
    let outcome = exchange_hello(reader, writer, options).await;
    match &outcome {
        Ok(_) | Err(GatewayClientError::Closed { .. }) => {}
        Err(GatewayClientError::Protocol { .. }) => {
            writer.close(&CloseReason::new(close::PROTOCOL_ERROR, "unexpected frame")).await;
        }
        Err(_) => writer.close(&CloseReason::new(close::NORMAL, "")).await,
    }
    outcome
}

async fn exchange_hello(
    reader: &mut GatewayFrameReader,
    writer: &mut GatewayFrameWriter,
    options: &ConnectOptions,
) -> Result<HelloOk, GatewayClientError> {
    let challenge = read_challenge(reader).await?;
    let params = serde_json::to_value(build_connect_params(&challenge, options));
    let request = RequestFrame {
        id: FIRST_ID.to_owned(),
        method: Connect::NAME.to_owned(),
        params: Some(params.map_err(|_| protocol_error("cannot encode `connect`"))?),
        traceparent: None,
    };
    let text = serde_json::to_string(&GatewayFrame::Request(request));
    let text = text.map_err(|_| protocol_error("cannot encode `connect`"))?;
    writer.send(text).await.map_err(closed_error)?;
    let answer = read_response(reader).await?;
    if !answer.ok {
        let error = answer.error.unwrap_or_else(|| ErrorPayload::invalid("no reason given"));
        return Err(GatewayClientError::Refused { error: redact_secrets(error, options) });
    }
    let hello: HelloOk =
        serde_json::from_value(answer.payload.unwrap_or(Value::Null)).map_err(|error| {
            protocol_error(&format!("invalid answer to `connect`: {}", shorten_error(&error)))
        })?;
    if !(PROTOCOL_MIN..=PROTOCOL).contains(&hello.protocol) {
        let what = format!(
            "the gateway chose protocol {}, but this client supports {PROTOCOL_MIN} to {PROTOCOL}",
            hello.protocol
        );
        return Err(protocol_error(&what));
    }
    Ok(hello)
}

async fn read_challenge(
    reader: &mut GatewayFrameReader,
) -> Result<ConnectChallenge, GatewayClientError> {
    for _ in 0..SKIPPED_FRAMES_MAX {
        match reader.next_frame().await.map_err(closed_error)? {
            IncomingFrame::KeepAlive => {}
            IncomingFrame::Frame(GatewayFrame::Event(event), _)
                if event.event == CONNECT_CHALLENGE =>
            {
                let payload = event.payload.unwrap_or(Value::Null);
                let challenge: ConnectChallenge = serde_json::from_value(payload)
                    .map_err(|_| protocol_error("the challenge has no nonce"))?;
                if challenge.nonce.is_empty() {
                    return Err(protocol_error("the challenge has an empty nonce"));
                }
                return Ok(challenge);
            }
            IncomingFrame::Frame(..) => {
                return Err(protocol_error("the first frame is not a challenge"));
            }
        }
    }
    Err(protocol_error("no challenge arrived"))
}

async fn read_response(
    reader: &mut GatewayFrameReader,
) -> Result<ResponseFrame, GatewayClientError> {
    for _ in 0..SKIPPED_FRAMES_MAX {
        match reader.next_frame().await.map_err(closed_error)? {
            IncomingFrame::Frame(GatewayFrame::Response(response), _)
                if response.id == FIRST_ID =>
            {
                return Ok(response);
            }
            // Events before the answer do not concern this client.
            IncomingFrame::KeepAlive | IncomingFrame::Frame(GatewayFrame::Event(_), _) => {}
            IncomingFrame::Frame(..) => {
                return Err(protocol_error("unexpected answer to `connect`"));
            }
        }
    }
    Err(protocol_error("`connect` was not answered"))
}

fn build_connect_params(challenge: &ConnectChallenge, options: &ConnectOptions) -> ConnectParams {
    let auth = match &options.auth {
        GatewayCredentials::None => None,
        GatewayCredentials::Token(token) => {
            Some(ConnectAuth { token: Some(token.clone()), ..Default::default() })
        }
        GatewayCredentials::Password(password) => {
            Some(ConnectAuth { password: Some(password.clone()), ..Default::default() })
        }
    };
    let token = auth.as_ref().and_then(|auth| auth.token.as_deref()).unwrap_or_default();
    let device = options.device.as_ref().map(|key| {
        let context = ChallengeContext::from_client(&options.client, ROLE, &options.scopes, token);
        key.prove(&context.with_challenge(&challenge.nonce, challenge.ts))
    });
    ConnectParams {
        min_protocol: PROTOCOL_MIN,
        max_protocol: PROTOCOL,
        client: options.client.clone(),
        caps: options.caps.clone(),
        commands: None,
        computer_use: None,
        worker_runs: None,
        permissions: None,
        path_env: None,
        role: Some(ROLE.to_owned()),
        scopes: (!options.scopes.is_empty()).then(|| options.scopes.clone()),
        device,
        auth,
        locale: None,
        user_agent: None,
    }
}

/// Removes the credentials from a refusal, which will be shown and logged.
fn redact_secrets(mut error: ErrorPayload, options: &ConnectOptions) -> ErrorPayload {
    let (GatewayCredentials::Token(secret) | GatewayCredentials::Password(secret)) = &options.auth
    else {
        return error;
    };
    if secret.is_empty() {
        return error;
    }
    error.message = error.message.replace(secret.as_str(), "…");
    if error.details.as_ref().is_some_and(|details| details.to_string().contains(secret.as_str())) {
        error.details = None;
    }
    error
}

fn closed_error(CloseReason { code, reason }: CloseReason) -> GatewayClientError {
    GatewayClientError::Closed { code, reason }
}

fn protocol_error(what: &str) -> GatewayClientError {
    GatewayClientError::Protocol { what: what.to_owned() }
}
