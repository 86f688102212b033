//! `zero mcp approve`: tools that are not what they were, looked at and taken as they are now.

use anyhow::Context;
use zero_mcp::client::{McpServerSet, ToolDefinitionChange};

use super::workspace_servers::WorkspaceServers;
use crate::AppContext;
use crate::cli::McpApproveArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::escape_line;

pub(super) fn run(app: &AppContext, args: &McpApproveArgs) -> anyhow::Result<ExitOutcome> {
    let known = WorkspaceServers::load(app, args.workspace.as_ref())?;
    let alias = known.find_server(&args.alias)?.alias.to_string();
    known.run_with_servers(app, async |servers| {
        servers.wait_until_ready(&alias).await.with_context(|| format!("server `{alias}`"))?;
        let changed = find_changed_tools(servers, &alias, args.tool.as_deref())?;
        let terminal = &app.terminal;
        if changed.is_empty() {
            let what = args.tool.as_deref().map_or("the tools".to_owned(), quote_name);
            terminal.out.write(&format!("nothing changed in {what} of `{alias}`\n"))?;
            return Ok(ExitOutcome::Ok);
        }
        let text = render_changes(&alias, &changed);
        if args.yes {
            terminal.out.write(&text)?;
        } else {
            let Some(answers) = terminal.answer_source() else {
                terminal.out.write(&text)?;
                terminal.print_error(
                    "nobody can be asked here; read what changed, then run it with `--yes`",
                );
                return Ok(ExitOutcome::Denied);
            };
            terminal.err.write(&text)?;
            let question = match changed.len() {
                1 => "Take it as it is now?",
                _ => "Take them as they are now?",
            };
            if !terminal.confirm(&answers, question) {
                terminal.out.write("not approved; nothing changed\n")?;
                return Ok(ExitOutcome::Denied);
            }
        }
        // Exactly what was shown, whatever the server says by now.
        servers.approve(&alias, &changed)?;
        let names: Vec<String> = changed.iter().map(|one| quote_name(&one.tool)).collect();
        terminal.out.write(&format!("approved as shown: {}\n", names.join(", ")))?;
        Ok(ExitOutcome::Ok)
    })
}

/// The changed tools that are meant: all, or the one of this name.
fn find_changed_tools(
    servers: &McpServerSet,
    alias: &str,
    tool: Option<&str>,
) -> anyhow::Result<Vec<ToolDefinitionChange>> {
    let changed = servers.changed_tools(alias)?;
    let Some(name) = tool else { return Ok(changed) };
    let found: Vec<ToolDefinitionChange> =
        changed.into_iter().filter(|one| one.tool == name || one.name == name).collect();
    let all = servers.status();
    let mut tools =
        all.iter().filter(|status| status.alias == alias).flat_map(|status| &status.tools);
    if found.is_empty() && !tools.any(|one| one.own_name == name || one.name == name) {
        return Err(UsageError(format!(
            "server `{alias}` has no tool {}; `zero mcp status {alias}` lists them",
            quote_name(name)
        ))
        .into());
    }
    Ok(found)
}

/// What changed, tool by tool. Nothing a server wrote can steer a terminal.
fn render_changes(alias: &str, changed: &[ToolDefinitionChange]) -> String {
    let mut text = String::new();
    for one in changed {
        let name = quote_name(&one.tool);
        text.push_str(&format!("{name} of `{alias}` changed since it was approved:\n"));
        for line in one.to_text().lines() {
            text.push_str(&format!("  {}\n", escape_line(line)));
        }
    }
    text
}

fn quote_name(name: &str) -> String {
    format!("`{}`", escape_line(name))
}
