//! Servers that are reached by HTTP.

use super::error::ServerError;
use super::link::Way;
use crate::definition::Endpoint;

/// Gets ready to talk to a server.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Way, ServerError> {
    Err(ServerError::new(format!(
        "servers that are reached by HTTP, such as `{}`, are not built in",
        endpoint.url.host_str().unwrap_or_default()
    )))
}
