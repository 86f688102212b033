//! `zero mcp reconnect` and `approve`: one server, by its name.

use anyhow::Context;
use zero_mcp::client::{ServerState, ToolStatus};

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
        let tools: Vec<&ToolStatus> = all
            .iter()
            .filter(|status| status.alias == alias)
            .flat_map(|one| &one.tools)
            .filter(|tool| args.tool.as_ref().is_none_or(|meant| is_called(tool, meant)))
            .collect();
        if let (Some(meant), []) = (&args.tool, &tools[..]) {
            let what = format!("server `{alias}` has no tool `{meant}`; see `zero mcp status {alias}`");
            return Err(UsageError(what).into());
        }
        let changed: Vec<&str> =
            tools.iter().filter(|tool| tool.changed).map(|tool| tool.name.as_str()).collect();
        let terminal = &app.terminal;
        if changed.is_empty() {
            let what = args.tool.as_ref().map_or("the tools", |meant| meant);
            terminal.out.write(&format!("nothing changed in {} of `{alias}`\n", escape_line(what)))?;
            return Ok(Exit::Ok);
        }
        let list: String =
            changed.iter().map(|name| format!("  {}\n", escape_line(name))).collect();
        let text = format!("changed since they were approved; `zero tools show NAME` has what they say now:\n{list}");
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
        servers.approve(&alias, &changed)?;
        terminal.out.write(&format!("approved as they are now: {}\n", changed.join(", ")))?;
        Ok(Exit::Ok)
    })
}

/// Whether a tool is meant, by its name here or by the server's own.
fn is_called(tool: &ToolStatus, name: &str) -> bool {
    tool.name == name || tool.own_name == name
}
