//! Asking over a connection that may be lost meanwhile.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use zero_wire::Method;
use zero_wire::client::{ClientError, Written, read_answer};

use super::shared::{Patience, Shared, Up};
use crate::error::LinkError;

/// How long a gateway may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Whether to ask again when the connection was lost before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is the same however often it is asked.
    Once,
    /// It may have been done, and would be done twice.
    Never,
}

/// An answer.
pub(crate) struct Answered<T> {
    /// What it is.
    pub(crate) result: T,
    /// The connection it came by.
    pub(crate) up: Arc<Up>,
}

/// No answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// Why.
    pub(crate) error: LinkError,
    /// Whether it was asked before, so that it may have been done then.
    pub(crate) asked_before: bool,
}

impl From<Unanswered> for LinkError {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.error
    }
}

impl Shared {
    /// Asks; connects first, if need be.
    pub(crate) async fn ask<M: Method>(
        self: &Arc<Self>,
        params: M::Params,
        again: Again,
    ) -> Result<Answered<M::Result>, Unanswered> {
        let unfit = |error: ClientError| Unanswered { error: error.into(), asked_before: false };
        let params = Written::of(M::NAME, &params).map_err(unfit)?;
        let Answered { result, up } = self.ask_written(M::NAME, &params, again).await?;
        Ok(Answered { result: read_answer(M::NAME, result).map_err(unfit)?, up })
    }

    /// The same, by name.
    pub(crate) async fn ask_value(
        self: &Arc<Self>,
        method: &'static str,
        params: Value,
        again: Again,
    ) -> Result<Answered<Value>, Unanswered> {
        let unfit = |error: ClientError| Unanswered { error: error.into(), asked_before: false };
        let params = Written::of(method, &params).map_err(unfit)?;
        self.ask_written(method, &params, again).await
    }

    async fn ask_written(
        self: &Arc<Self>,
        method: &'static str,
        params: &Written,
        again: Again,
    ) -> Result<Answered<Value>, Unanswered> {
        let lost = || LinkError::Lost { what: method.to_owned() };
        let first = |error| Unanswered { error, asked_before: false };
        let up = self.ready(Patience::Now).await.map_err(first)?;
        match self.ask_written_on(&up, method, params).await {
            Ok(result) => return Ok(Answered { result, up }),
            Err(ClientError::Closed { .. }) if again == Again::Once => {}
            Err(ClientError::Closed { .. }) => return Err(first(lost())),
            Err(error) => return Err(first(error.into())),
        }
        let second = |error| Unanswered { error, asked_before: true };
        let up = self.ready(Patience::Return).await.map_err(|_| second(lost()))?;
        match self.ask_written_on(&up, method, params).await {
            Ok(result) => Ok(Answered { result, up }),
            Err(ClientError::Closed { .. }) => Err(second(lost())),
            Err(error) => Err(second(error.into())),
        }
    }

    /// Asks on this connection and no other, in bounded time.
    pub(crate) async fn ask_on<M: Method>(
        self: &Arc<Self>,
        up: &Arc<Up>,
        params: M::Params,
    ) -> Result<M::Result, ClientError> {
        let params = Written::of(M::NAME, &params)?;
        read_answer(M::NAME, self.ask_written_on(up, M::NAME, &params).await?)
    }

    /// The same, by name.
    pub(crate) async fn ask_value_on(
        self: &Arc<Self>,
        up: &Arc<Up>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, ClientError> {
        self.ask_written_on(up, method, &Written::of(method, &params)?).await
    }

    /// A connection that ended is known to have ended when this returns; one that does not answer is
    /// as good as lost.
    async fn ask_written_on(
        self: &Arc<Self>,
        up: &Arc<Up>,
        method: &'static str,
        params: &Written,
    ) -> Result<Value, ClientError> {
        let answer = timeout(ANSWER_MAX, up.client.request_written(method, params)).await;
        let answer =
            answer.unwrap_or(Err(ClientError::Timeout { what: method, after: ANSWER_MAX }));
        if let Err(ClientError::Closed { .. } | ClientError::Timeout { .. }) = &answer {
            self.lost(up.number);
        }
        answer
    }
}
