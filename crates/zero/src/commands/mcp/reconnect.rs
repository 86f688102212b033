//! `zero mcp reconnect`: servers started anew.

use zero_mcp::client::ServerState;

use super::known::Known;
use crate::App;
use crate::cli::McpReconnectArgs;
use crate::exit::Exit;

pub(super) fn run(app: &App, args: &McpReconnectArgs) -> anyhow::Result<Exit> {
    let known = Known::read(app, args.workspace.as_ref())?;
    let names: Vec<String> = match &args.alias {
        Some(alias) => vec![known.find(alias)?.alias.to_string()],
        None => known.servers.definitions.iter().map(|one| one.alias.to_string()).collect(),
    };
    if names.is_empty() {
        app.terminal.note("no MCP servers are set up here");
        return Ok(Exit::Ok);
    }
    let out = &app.terminal.out;
    known.with(app, async |servers| {
        let mut exit = Exit::Ok;
        for name in &names {
            let status = servers.reconnect(name).await?;
            let state = status.state.word();
            out.write(&format!("{name}: {state}, tools: {}\n", status.tools.len()))?;
            if let Some(error) = status.last_error.filter(|_| status.state != ServerState::Ready) {
                app.terminal.error(&format!("server `{name}`: {}", error.message));
                exit = Exit::Error;
            }
        }
        Ok(exit)
    })
}
