//! Requests over a connection that may be lost in the meantime.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use zero_wire::GatewayMethod;
use zero_wire::client::{EncodedParams, GatewayClientError, read_answer};

use super::shared_link::{LinkConnection, ReconnectWait, SharedLink};
use crate::link_error::GatewayLinkError;

/// Longest wait for an answer of the gateway.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Whether to repeat a request if the connection was lost before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRetry {
    /// Repeat it once: the request is idempotent.
    Once,
    /// Never: it may have been executed already, and would be executed twice.
    Never,
}

/// The gateway's answer to a request, with its connection.
pub(crate) struct RequestAnswer<T> {
    /// The result.
    pub(crate) result: T,
    /// The connection that delivered it.
    pub(crate) up: Arc<LinkConnection>,
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct RequestFailure {
    /// The error.
    pub(crate) error: GatewayLinkError,
    /// Whether the request was sent before, so that it may have been executed then.
    pub(crate) asked_before: bool,
}

impl From<RequestFailure> for GatewayLinkError {
    fn from(unanswered: RequestFailure) -> Self {
        unanswered.error
    }
}

impl SharedLink {
    /// Sends a request; connects first if necessary.
    pub(crate) async fn request<M: GatewayMethod>(
        self: &Arc<Self>,
        params: M::Params,
        retry: RequestRetry,
    ) -> Result<RequestAnswer<M::Result>, RequestFailure> {
        let unfit =
            |error: GatewayClientError| RequestFailure { error: error.into(), asked_before: false };
        let params = EncodedParams::encode(M::NAME, &params).map_err(unfit)?;
        let RequestAnswer { result, up } = self.request_encoded(M::NAME, &params, retry).await?;
        Ok(RequestAnswer { result: read_answer(M::NAME, result).map_err(unfit)?, up })
    }

    /// The same for a method given by name.
    pub(crate) async fn request_value(
        self: &Arc<Self>,
        method: &'static str,
        params: Value,
        retry: RequestRetry,
    ) -> Result<RequestAnswer<Value>, RequestFailure> {
        let unfit =
            |error: GatewayClientError| RequestFailure { error: error.into(), asked_before: false };
        let params = EncodedParams::encode(method, &params).map_err(unfit)?;
        self.request_encoded(method, &params, retry).await
    }

    async fn request_encoded(
        self: &Arc<Self>,
        method: &'static str,
        params: &EncodedParams,
        retry: RequestRetry,
    ) -> Result<RequestAnswer<Value>, RequestFailure> {
        let lost = || GatewayLinkError::Lost { what: method.to_owned() };
        let first = |error| RequestFailure { error, asked_before: false };
        let up = self.ensure_connected(ReconnectWait::Now).await.map_err(first)?;
        match self.request_encoded_on(&up, method, params).await {
            Ok(result) => return Ok(RequestAnswer { result, up }),
            Err(GatewayClientError::Closed { .. }) if retry == RequestRetry::Once => {}
            Err(GatewayClientError::Closed { .. }) => return Err(first(lost())),
            Err(error) => return Err(first(error.into())),
        }
        let second = |error| RequestFailure { error, asked_before: true };
        let up = self
            .ensure_connected(ReconnectWait::UntilReconnected)
            .await
            .map_err(|_| second(lost()))?;
        match self.request_encoded_on(&up, method, params).await {
            Ok(result) => Ok(RequestAnswer { result, up }),
            Err(GatewayClientError::Closed { .. }) => Err(second(lost())),
            Err(error) => Err(second(error.into())),
        }
    }

    /// Sends a request on this connection only, with a time limit.
    pub(crate) async fn request_on<M: GatewayMethod>(
        self: &Arc<Self>,
        up: &Arc<LinkConnection>,
        params: M::Params,
    ) -> Result<M::Result, GatewayClientError> {
        let params = EncodedParams::encode(M::NAME, &params)?;
        read_answer(M::NAME, self.request_encoded_on(up, M::NAME, &params).await?)
    }

    /// The same for a method given by name.
    pub(crate) async fn request_value_on(
        self: &Arc<Self>,
        up: &Arc<LinkConnection>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, GatewayClientError> {
        self.request_encoded_on(up, method, &EncodedParams::encode(method, &params)?).await
    }

    /// If the connection ended, its loss is handled before this returns. A connection that does not
    /// answer in time counts as lost.
    async fn request_encoded_on(
        self: &Arc<Self>,
        up: &Arc<LinkConnection>,
        method: &'static str,
        params: &EncodedParams,
    ) -> Result<Value, GatewayClientError> {
        let answer = timeout(ANSWER_MAX, up.client.request_encoded(method, params)).await;
        let answer =
            answer.unwrap_or(Err(GatewayClientError::Timeout { what: method, after: ANSWER_MAX }));
        if let Err(GatewayClientError::Closed { .. } | GatewayClientError::Timeout { .. }) = &answer
        {
            self.handle_connection_loss(up.number);
        }
        answer
    }
}
