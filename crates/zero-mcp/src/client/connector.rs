//! How the servers of a host are reached: by programs that run beside its calls, and by HTTP.

use zero_runtime::Services;
use zero_runtime::tool::BoxFuture;

use super::error::ServerError;
use super::http;
use super::link::{Connector, Way};
use crate::definition::{Reach, ServerDefinition};

/// Reaches the servers of a host.
pub(crate) struct HostConnector {
    #[expect(dead_code, reason = "processes land next")]
    services: Services,
}

impl HostConnector {
    pub(crate) fn new(services: Services) -> Self {
        Self { services }
    }
}

impl Connector for HostConnector {
    fn connect<'a>(
        &'a self,
        definition: &'a ServerDefinition,
    ) -> BoxFuture<'a, Result<Way, ServerError>> {
        Box::pin(async move {
            match &definition.reach {
                Reach::Command(_) => Err(ServerError::new("not built in")),
                Reach::Http(endpoint) => http::connect(endpoint).await,
            }
        })
    }
}
