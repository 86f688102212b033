//! `zero mcp reconnect` and `approve`: one server, by its name.

use anyhow::Context;
use zero_mcp::client::ServerState;

use super::known::Known;
use crate::App;
use crate::cli::{McpApproveArgs, McpReconnectArgs};
use crate::exit::{Exit, UsageError};
use crate::terminal::escape_line;

pub(super) fn reconnect(app: &App, args: &McpReconnectArgs) -> anyhow::Result<Exit> {
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

pub(super) fn approve(app: &App, args: &McpApproveArgs) -> anyhow::Result<Exit> {
    let known = Known::read(app, args.workspace.as_ref())?;
    let alias = known.find(&args.alias)?.alias.to_string();
    known.with(app, async |servers| {
        servers.ready(&alias).await.with_context(|| format!("server `{alias}`"))?;
        let all = servers.status();
        let tools = all.iter().filter(|status| status.alias == alias).flat_map(|one| &one.tools);
        let changed: Vec<&str> =
            tools.filter(|tool| tool.changed).map(|tool| tool.own_name.as_str()).collect();
        let terminal = &app.terminal;
        if changed.is_empty() {
            terminal.out.write(&format!("nothing changed in the tools of `{alias}`\n"))?;
            return Ok(Exit::Ok);
        }
        if let Some(tool) = args.tool.as_deref().filter(|tool| changed != [*tool]) {
            return Err(UsageError(format!(
                "`{tool}` is not the one that changed; these did, and are approved together: {}",
                changed.join(", ")
            ))
            .into());
        }
        let list: String =
            changed.iter().map(|name| format!("  {}\n", escape_line(name))).collect();
        let text = format!("changed since they were approved, of `{alias}`:\n{list}");
        if !args.yes {
            let Some(answers) = terminal.answers() else {
                terminal.out.write(&text)?;
                terminal.error("nobody can be asked here; look at the tools with `zero tools show`, then run it with `--yes`");
                return Ok(Exit::Denied);
            };
            terminal.err.write(&text)?;
            if !terminal.confirm(&answers, "Take them as they are now?") {
                terminal.out.write("not approved; nothing changed\n")?;
                return Ok(Exit::Denied);
            }
        }
        servers.approve(&alias)?;
        terminal.out.write(&format!("approved the tools of `{alias}` as they are now\n"))?;
        Ok(Exit::Ok)
    })
}
