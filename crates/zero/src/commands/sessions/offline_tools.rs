//! Serves the tools of a session from this process while their own client is not there, which is
//! the rule for sessions of `zero run` and of an editor that was closed.

use std::sync::Arc;

use zero_client::tool_service::ToolService;
use zero_policy::PermissionMode;
use zero_runtime::tool_backend::ToolBackend;
use zero_wire::client::{GatewayClientError, GatewayEvents};
use zero_wire::tools::{TOOLS_HOSTED, ToolsAttachParams};
use zero_wire::zero_sessions::SessionInfo;

use crate::gateway_connection::CliGatewayConnection;

/// Attaches the tools under the name of the client that is away; `None` if it is there.
pub(super) async fn attach_tools(
    gateway: &mut CliGatewayConnection,
    session: &SessionInfo,
    host: &str,
    backend: Arc<dyn ToolBackend>,
) -> anyhow::Result<Option<Arc<ToolService>>> {
    let attach_params = ToolsAttachParams {
        session_key: session.session_key.clone(),
        host: host.to_owned(),
        take_over: false,
        return_ms: None,
    };
    let client = gateway.client.clone();
    let locality = gateway.locality();
    let attach =
        ToolService::attach(&client, attach_params, backend, PermissionMode::Plan, locality);
    match answer_events(&mut gateway.events, None, attach).await {
        Ok(service) => Ok(Some(service)),
        Err(GatewayClientError::Refused { error }) if is_hosted(error.details.as_ref()) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Handles the requests of the gateway until `work` is done.
pub(super) async fn answer_events<T>(
    events: &mut GatewayEvents,
    service: Option<&Arc<ToolService>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            event = events.next() => match (event, service) {
                (Some(event), Some(service)) => {
                    service.handle_event(&event);
                }
                (Some(_), None) => {}
                (None, _) => return work.await,
            },
        }
    }
}

fn is_hosted(details: Option<&serde_json::Value>) -> bool {
    details.and_then(|details| details.get("code")?.as_str()) == Some(TOOLS_HOSTED)
}
