//! `zero mcp status`: how the servers are whose tools are used here.

use serde_json::{Value, json};
use zero_mcp::definition::{Reach, ServerDefinition};

use super::known::Known;
use super::servers::not_yet;
use crate::App;
use crate::cli::McpStatusArgs;
use crate::exit::Exit;
use crate::settings::mcp_servers::{McpServers, ServerProblem};
use crate::terminal::{Cell, FAINT, NOTABLE, STRONG, Table};

pub(super) fn run(app: &App, args: &McpStatusArgs) -> anyhow::Result<Exit> {
    let mut known = Known::read(app, args.workspace.as_ref())?;
    if let Some(alias) = &args.alias {
        let is_meant = |one: &ServerProblem| one.alias == *alias;
        let McpServers { definitions, problems, turned_off, ignored } = &known.servers;
        if !problems.iter().chain(turned_off).any(is_meant) {
            known.find(alias)?;
        }
        let only = McpServers {
            definitions: definitions
                .iter()
                .filter(|one| one.alias.as_str() == alias)
                .cloned()
                .collect(),
            problems: problems.iter().filter(|one| is_meant(one)).cloned().collect(),
            turned_off: turned_off.iter().filter(|one| is_meant(one)).cloned().collect(),
            ignored: ignored.iter().filter(|one| is_meant(one)).cloned().collect(),
        };
        known.servers = only;
    }
    if args.offline { offline(app, args, &known.servers) } else { Err(not_yet("status")) }
}

/// What the settings say, with nothing started and nobody reached.
fn offline(app: &App, args: &McpStatusArgs, servers: &McpServers) -> anyhow::Result<Exit> {
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&as_json(servers))?;
        return Ok(exit(servers));
    }
    if servers.definitions.len() + servers.problems.len() + servers.turned_off.len() == 0 {
        app.terminal.note("no MCP servers are set up; docs: `zero mcp --help`");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["SERVER", "STATE", "REACHED BY", "SOURCE"]);
    for server in &servers.definitions {
        table.row([
            Cell::styled(server.alias.as_str(), STRONG),
            "set up".into(),
            reached(server).into(),
            server.written_at.as_str().into(),
        ]);
    }
    for (state, style, list) in
        [("off", FAINT, &servers.turned_off), ("not usable", NOTABLE, &servers.problems)]
    {
        for one in list {
            table.row([
                Cell::styled(one.alias.as_str(), STRONG),
                Cell::styled(state, style),
                "".into(),
                one.written_at.as_str().into(),
            ]);
        }
    }
    out.write(&table.render(out))?;
    for one in servers.problems.iter().chain(&servers.ignored) {
        app.terminal.note(&format!("server `{}`: {}", one.alias, one.why));
    }
    Ok(exit(servers))
}

fn exit(servers: &McpServers) -> Exit {
    if servers.problems.is_empty() { Exit::Ok } else { Exit::Error }
}

/// How a server is reached, without what could be a secret.
fn reached(server: &ServerDefinition) -> String {
    match &server.reach {
        Reach::Command(launch) => {
            let words = std::iter::once(&launch.command).chain(&launch.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        Reach::Http(endpoint) => format!(
            "{}://{}{}",
            endpoint.url.scheme(),
            endpoint.url.host_str().unwrap_or_default(),
            endpoint.url.path()
        ),
    }
}

fn as_json(servers: &McpServers) -> Vec<Value> {
    let usable = servers.definitions.iter().map(|server| {
        json!({"alias": server.alias.as_str(), "state": "set_up", "reached_by": reached(server), "source": server.written_at})
    });
    let other = |state: &'static str, list: &[ServerProblem]| {
        let told = list.iter().map(move |one| {
            json!({"alias": one.alias, "state": state, "reason": one.why, "source": one.written_at})
        });
        told.collect::<Vec<Value>>()
    };
    usable
        .chain(other("turned_off", &servers.turned_off))
        .chain(other("not_usable", &servers.problems))
        .collect()
}
