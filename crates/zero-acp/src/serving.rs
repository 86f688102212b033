//! Serves one client on a pair of streams, whatever it is served with.

use std::future::Future;

use agent_client_protocol::v1::{ConnectionTo, Dispatch};
use agent_client_protocol::{Client, Error, UntypedMessage, on_receive_dispatch};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::transport::{Gauge, lines};

/// Why serving ended before the client went away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the client broke ({code}): {message}")]
pub struct ServeError {
    code: i32,
    message: String,
}

impl From<Error> for ServeError {
    fn from(error: Error) -> Self {
        Self { code: error.code.value(), message: error.message }
    }
}

/// Gives every message to `take`, which must not wait, until the client goes away; after that, waits
/// for `end`.
pub(crate) async fn until_gone(
    name: &str,
    gauge: Gauge,
    take: impl Fn(Dispatch<UntypedMessage, UntypedMessage>, ConnectionTo<Client>) -> Result<(), Error>
    + Send
    + Sync,
    end: impl Future<Output = ()>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let served = agent_client_protocol::Agent
        .v1()
        .name(name)
        .on_receive_dispatch(
            async move |message: Dispatch<UntypedMessage, UntypedMessage>,
                        connection: ConnectionTo<Client>| take(message, connection),
            on_receive_dispatch!(),
        )
        .connect_to(lines(input, output, gauge.clone()))
        .await;
    end.await;
    if gauge.is_gone() {
        // The client went away, by whichever end we noticed it.
        return Ok(());
    }
    served.map_err(ServeError::from)
}
