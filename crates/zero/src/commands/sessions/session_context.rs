//! `zero sessions show --context`: what fills the context window of a session.

use std::path::Path;
use std::sync::Arc;

use zero_client::tool_service::ToolService;
use zero_wire::zero_sessions::{SessionInfo, SessionKeyParams, ZeroSessionsContext};

use super::offline_tools::{answer_events, attach_tools};
use super::session_rewind::to_usage_error;
use crate::AppContext;
use crate::cli::sessions::SessionsShowArgs;
use crate::exit::ExitOutcome;
use crate::gateway_connection::CliGatewayConnection;

pub(super) async fn run(
    app: &AppContext,
    args: &SessionsShowArgs,
    session: SessionInfo,
    gateway: &mut CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let service = serve_catalog(app, gateway, &session).await?;
    let client = gateway.client.clone();
    let params = SessionKeyParams { session_key: session.session_key };
    let request = client.request::<ZeroSessionsContext>(params);
    let report = answer_events(&mut gateway.events, service.as_ref(), request).await;
    let report = report.map_err(to_usage_error)?;
    let out = &app.terminal.out;
    match args.json {
        true => out.write_pretty_json(&report)?,
        false => out.write(&out.escape_foreign(&report.render()))?,
    }
    Ok(ExitOutcome::Ok)
}

/// Lists the tools of a session whose client is not there; `None` if it is, if they are with the
/// gateway, or if their folder is not on this machine.
async fn serve_catalog(
    app: &AppContext,
    gateway: &mut CliGatewayConnection,
    session: &SessionInfo,
) -> anyhow::Result<Option<Arc<ToolService>>> {
    let (Some(host), Some(cwd)) = (&session.tool_host, &session.cwd) else { return Ok(None) };
    let folder = Path::new(cwd);
    if !folder.is_dir() {
        return Ok(None);
    }
    let backend = app.listing_backend(session, folder)?;
    attach_tools(gateway, session, host, backend).await
}
