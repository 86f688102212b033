//! `zero mcp status`: state of the MCP servers that zero uses.

use serde_json::{Value, json};
use zero_mcp::client::{McpServerStatus, ServerPhase};
use zero_mcp::server_definition::{McpServerDefinition, ServerTransport};

use super::download_hosts::ask_about_downloads;
use super::workspace_servers::WorkspaceServers;
use crate::AppContext;
use crate::cli::McpStatusArgs;
use crate::exit::ExitOutcome;
use crate::settings_adapter::mcp_servers::{ConfiguredMcpServers, UnavailableMcpServer};
use crate::terminal::{BAD, FAINT, GOOD, NOTABLE, STRONG, TableCell, TerminalStream, TextTable};

pub(super) fn run(app: &AppContext, args: &McpStatusArgs) -> anyhow::Result<ExitOutcome> {
    let mut known = WorkspaceServers::load(app, args.workspace.as_ref())?;
    if let Some(alias) = &args.alias {
        let has_alias = |one: &UnavailableMcpServer| one.alias == *alias;
        let ConfiguredMcpServers { problems, turned_off, denied, .. } = &known.servers;
        if !problems.iter().chain(turned_off).chain(denied).any(has_alias) {
            known.find_server(alias)?;
        }
        let ConfiguredMcpServers { definitions, problems, turned_off, denied, ignored } =
            &mut known.servers;
        definitions.retain(|one| one.alias.as_str() == alias);
        for list in [problems, turned_off, denied, ignored] {
            list.retain(has_alias);
        }
    }
    if args.offline {
        print_offline(app, args, &known.servers)
    } else {
        if !args.json && ask_about_downloads(app, &known.workspace, &known.settings)? {
            return run(app, args);
        }
        print_online(app, args, known)
    }
}

/// Connects to all servers and prints their state.
fn print_online(
    app: &AppContext,
    args: &McpStatusArgs,
    known: WorkspaceServers,
) -> anyhow::Result<ExitOutcome> {
    let (unusable, denied) = (known.servers.problems.clone(), known.servers.denied.clone());
    if known.servers.definitions.is_empty() {
        return print_offline(app, args, &known.servers);
    }
    let all = known.run_with_servers(app, async |servers| Ok(servers.probe().await))?;
    let out = &app.terminal.out;
    if args.json {
        let unused = [("not_usable", &unusable), ("denied", &denied)];
        let unused = unused.iter().flat_map(|(state, list)| list.iter().map(move |one| {
            json!({"alias": one.alias, "state": state, "reason": one.why, "written_at": one.written_at})
        }));
        let rows: Vec<Value> = all.iter().map(|status| json!(status)).chain(unused).collect();
        out.write_pretty_json(&rows)?;
    } else {
        out.write(&render_servers_table(&all, out))?;
        if args.alias.is_some() {
            out.write(&render_tools_table(&all, out))?;
        }
        for status in &all {
            print_problem(app, status);
        }
        for one in unusable.iter().chain(&denied) {
            app.terminal.print_note(&format!("server `{}`: {}", one.alias, one.why));
        }
    }
    let is_well = unusable.is_empty() && all.iter().all(|one| one.state == ServerPhase::Ready);
    Ok(if is_well { ExitOutcome::Ok } else { ExitOutcome::Error })
}

fn render_servers_table(all: &[McpServerStatus], out: &TerminalStream) -> String {
    let mut table = TextTable::new(["SERVER", "STATE", "TOOLS", "TOKENS", "PROTOCOL", "SOURCE"]);
    for status in all {
        let style = if status.state == ServerPhase::Ready { GOOD } else { BAD };
        table.add_row([
            TableCell::styled(status.alias.as_str(), STRONG),
            TableCell::styled(status.state.as_str(), style),
            status.tools.len().to_string().into(),
            status.tokens.to_string().into(),
            status.protocol.clone().unwrap_or_default().into(),
            status.written_at.as_str().into(),
        ]);
    }
    table.render(out)
}

fn render_tools_table(all: &[McpServerStatus], out: &TerminalStream) -> String {
    let mut table = TextTable::new(["TOOL", "TOKENS", "CLAIMS", ""]);
    for tool in all.iter().flat_map(|status| &status.tools) {
        table.add_row([
            TableCell::styled(tool.name.as_str(), STRONG),
            tool.tokens.to_string().into(),
            tool.claims.as_str().into(),
            TableCell::styled(if tool.changed { "changed since approval" } else { "" }, NOTABLE),
        ]);
    }
    format!("\n{}", table.render(out))
}

/// Prints the last error and the notes of a server.
fn print_problem(app: &AppContext, status: &McpServerStatus) {
    let name = &status.alias;
    if let Some(error) = &status.last_error {
        // The message includes the exit status of the process.
        let mut text = format!("server `{name}`: {}", error.message);
        for line in error.stderr_tail.lines() {
            text.push_str(&format!("\n  | {line}"));
        }
        app.terminal.print_note(&text);
        for note in &error.notes {
            app.terminal.print_note(&format!("server `{name}`: {note}"));
        }
    }
    for bad in &status.quarantined {
        let text = format!("server `{name}`: skipped tool `{}`: {}", bad.tool, bad.reason);
        app.terminal.print_note(&text);
    }
    for note in &status.notes {
        app.terminal.print_note(&format!("server `{name}`: {note}"));
    }
}

/// Prints the configured servers without starting or connecting to any.
fn print_offline(
    app: &AppContext,
    args: &McpStatusArgs,
    servers: &ConfiguredMcpServers,
) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&to_json(servers))?;
        return Ok(exit_outcome(servers));
    }
    let ConfiguredMcpServers { definitions, problems, turned_off, denied, ignored } = servers;
    if definitions.len() + problems.len() + turned_off.len() + denied.len() == 0 {
        app.terminal.print_note("no MCP servers are configured; see `zero mcp --help`");
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["SERVER", "STATE", "TRANSPORT", "SOURCE"]);
    for server in definitions {
        table.add_row([
            TableCell::styled(server.alias.as_str(), STRONG),
            "configured".into(),
            describe_transport(server).into(),
            server.written_at.as_str().into(),
        ]);
    }
    for (state, style, list) in
        [("disabled", FAINT, turned_off), ("denied", FAINT, denied), ("invalid", NOTABLE, problems)]
    {
        for one in list {
            table.add_row([
                TableCell::styled(one.alias.as_str(), STRONG),
                TableCell::styled(state, style),
                "".into(),
                one.written_at.as_str().into(),
            ]);
        }
    }
    out.write(&table.render(out))?;
    for one in problems.iter().chain(denied).chain(ignored) {
        app.terminal.print_note(&format!("server `{}`: {}", one.alias, one.why));
    }
    Ok(exit_outcome(servers))
}

fn exit_outcome(servers: &ConfiguredMcpServers) -> ExitOutcome {
    if servers.problems.is_empty() { ExitOutcome::Ok } else { ExitOutcome::Error }
}

/// Transport of a server, without parts that could be secret.
fn describe_transport(server: &McpServerDefinition) -> String {
    match &server.transport {
        ServerTransport::Command(launch) => {
            let words = std::iter::once(&launch.command).chain(&launch.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        ServerTransport::Http(endpoint) => format!(
            "{}://{}{}",
            endpoint.url.scheme(),
            endpoint.url.host_str().unwrap_or_default(),
            endpoint.url.path()
        ),
    }
}

fn to_json(servers: &ConfiguredMcpServers) -> Vec<Value> {
    let usable = servers.definitions.iter().map(|server| {
        json!({"alias": server.alias.as_str(), "state": "set_up", "reached_by": describe_transport(server), "source": server.written_at})
    });
    let other = |state: &'static str, list: &[UnavailableMcpServer]| {
        let rows = list.iter().map(move |one| {
            json!({"alias": one.alias, "state": state, "reason": one.why, "source": one.written_at})
        });
        rows.collect::<Vec<Value>>()
    };
    usable
        .chain(other("turned_off", &servers.turned_off))
        .chain(other("denied", &servers.denied))
        .chain(other("not_usable", &servers.problems))
        .collect()
}
