//! Executes the requests of other processes, at most [`REQUESTS_MAX`] at a time.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, oneshot};

use super::{BODY_BYTES_MAX, BusCounters, NodeBusError, NodeRequestHandler, REQUESTS_MAX};

/// The handler of a process, and the requests that it works on.
pub(crate) struct RequestServer {
    handler: Mutex<Option<Arc<dyn NodeRequestHandler>>>,
    slots: Arc<Semaphore>,
}

/// Why a request was not executed, or has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRequestRefusal {
    /// There are too many requests, or no handler yet. Nothing was executed.
    Busy,
    /// The handler failed.
    Failed,
    /// Its answer is too large.
    AnswerTooLarge,
}

impl NodeRequestRefusal {
    /// What it means for the one who asked this process.
    pub(crate) fn into_error(self, node: &str) -> NodeBusError {
        let why = match self {
            Self::Busy => return NodeBusError::Busy(node.to_owned()),
            Self::Failed => "it failed while it executed the request",
            Self::AnswerTooLarge => "its answer is too large",
        };
        NodeBusError::Interrupted { node: node.to_owned(), why: why.to_owned() }
    }
}

impl Default for RequestServer {
    fn default() -> Self {
        Self { handler: Mutex::default(), slots: Arc::new(Semaphore::new(REQUESTS_MAX)) }
    }
}

impl RequestServer {
    /// Answers requests from now on.
    pub(crate) fn serve(&self, handler: Arc<dyn NodeRequestHandler>) {
        *self.lock() = Some(handler);
    }

    /// Begins to execute a request in a task of its own, which passes the answer on. Fails if nothing was
    /// begun.
    pub(crate) fn begin<F>(
        &self,
        from: String,
        body: Bytes,
        deliver: impl FnOnce(Result<Bytes, NodeRequestRefusal>) -> F + Send + 'static,
    ) -> Result<(), NodeRequestRefusal>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handler = self.lock().clone().ok_or(NodeRequestRefusal::Busy)?;
        let slot =
            Arc::clone(&self.slots).try_acquire_owned().map_err(|_| NodeRequestRefusal::Busy)?;
        tokio::spawn(async move {
            let answer = AssertUnwindSafe(async { handler.answer(from, body).await });
            let answer = match answer.catch_unwind().await {
                Ok(answer) if answer.len() > BODY_BYTES_MAX => {
                    Err(NodeRequestRefusal::AnswerTooLarge)
                }
                Ok(answer) => Ok(answer),
                Err(_) => Err(NodeRequestRefusal::Failed),
            };
            // Writing to the bus is not counted: the next request may begin.
            drop(slot);
            deliver(answer).await;
        });
        Ok(())
    }

    /// Executes a request that comes from within this machine's process, and waits for the answer.
    pub(crate) async fn ask(
        &self,
        from: &str,
        to: &str,
        body: Bytes,
        within: Duration,
        served: &BusCounters,
    ) -> Result<Bytes, NodeBusError> {
        let (sender, answer) = oneshot::channel();
        let deliver = move |answer| async move {
            // The process that asked may have stopped waiting.
            let _ = sender.send(answer);
        };
        if self.begin(from.to_owned(), body, deliver).is_err() {
            served.requests_refused.add(1);
            return Err(NodeBusError::Busy(to.to_owned()));
        }
        served.requests_served.add(1);
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer.map_err(|refusal| refusal.into_error(to)),
            Ok(Err(_)) => Err(NodeRequestRefusal::Failed.into_error(to)),
            Err(_) => Err(NodeBusError::TimedOut { node: to.to_owned(), within }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn NodeRequestHandler>>> {
        self.handler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
