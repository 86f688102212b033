//! `zero mcp approve`: shows tools whose definition changed, and approves the new definition.

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
            let what = args.tool.as_deref().map_or("no tool".to_owned(), quote_name);
            let verb = if args.tool.is_some() { "has not changed" } else { "has changed" };
            terminal.out.write(&format!("{what} of `{alias}` {verb}\n"))?;
            return Ok(ExitOutcome::Ok);
        }
        let text = render_changes(&alias, &changed);
        if args.yes {
            terminal.out.write(&text)?;
        } else {
            let Some(answers) = terminal.answer_source() else {
                terminal.out.write(&text)?;
                terminal.print_error(
                    "cannot ask without a terminal; review the changes, then pass `--yes`",
                );
                return Ok(ExitOutcome::Denied);
            };
            terminal.err.write(&text)?;
            let question = match changed.len() {
                1 => "Approve the new definition?",
                _ => "Approve the new definitions?",
            };
            if !terminal.confirm(&answers, question) {
                terminal.out.write("not approved; nothing changed\n")?;
                return Ok(ExitOutcome::Denied);
            }
        }
        // Approve exactly what was shown, even if the server has changed it again since.
        servers.approve(&alias, &changed)?;
        let names: Vec<String> = changed.iter().map(|one| quote_name(&one.tool)).collect();
        terminal.out.write(&format!("approved: {}\n", names.join(", ")))?;
        Ok(ExitOutcome::Ok)
    })
}

/// Changed tools to approve: all, or the one with this name.
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
            "server `{alias}` has no tool {}; run `zero mcp status {alias}` to see its tools",
            quote_name(name)
        ))
        .into());
    }
    Ok(found)
}

/// Renders the changes of each tool. Text from the server is escaped.
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
