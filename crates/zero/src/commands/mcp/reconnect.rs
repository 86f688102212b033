//! `zero mcp reconnect`: restarts MCP servers.

use zero_mcp::client::ServerPhase;

use super::workspace_servers::WorkspaceServers;
use crate::AppContext;
use crate::cli::McpReconnectArgs;
use crate::exit::ExitOutcome;

pub(super) fn run(app: &AppContext, args: &McpReconnectArgs) -> anyhow::Result<ExitOutcome> {
    let known = WorkspaceServers::load(app, args.workspace.as_ref())?;
    let names: Vec<String> = match &args.alias {
        Some(alias) => vec![known.find_server(alias)?.alias.to_string()],
        None => known.servers.definitions.iter().map(|one| one.alias.to_string()).collect(),
    };
    if names.is_empty() {
        app.terminal.print_note("no MCP servers are configured");
        return Ok(ExitOutcome::Ok);
    }
    let out = &app.terminal.out;
    known.run_with_servers(app, async |servers| {
        let mut exit = ExitOutcome::Ok;
        for name in &names {
            let status = servers.reconnect(name).await?;
            let state = status.state.as_str();
            out.write(&format!("{name}: {state}, tools: {}\n", status.tools.len()))?;
            if let Some(error) = status.last_error.filter(|_| status.state != ServerPhase::Ready) {
                app.terminal.print_error(&format!("server `{name}`: {}", error.message));
                exit = ExitOutcome::Error;
            }
        }
        Ok(exit)
    })
}
