//! `zero gateway nodes`: lists the gateways that share a database.

use std::time::Duration;

use serde_json::json;
use zero_session::postgres_store::PostgresStore;
use zero_wire::nodes::{NodeInfo, NodesListParams, ZeroNodesList};

use crate::AppContext;
use crate::cli::GatewayNodesArgs;
use crate::commands::console::connect_to_own;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_lock::GatewayLock;
use crate::host_setup::small_runtime;
use crate::session_store::shared_store;
use crate::terminal::{TextTable, escape_line};

/// What there is to do without a shared database.
const NOT_SHARED: &str = "no database is named, so this gateway shares its sessions with no other; set `gateway.store`, or pass `--store`";

pub(super) fn run(app: &AppContext, args: &GatewayNodesArgs) -> anyhow::Result<ExitOutcome> {
    let is_running = || -> anyhow::Result<bool> {
        Ok(GatewayLock::find_running(&app.config.state_dir()?).is_some())
    };
    match args.remote.url.is_some() || (args.store.is_none() && is_running()?) {
        true => ask_gateway(app, args),
        false => look_into_database(app, args),
    }
}

/// What the gateways say about themselves.
fn ask_gateway(app: &AppContext, args: &GatewayNodesArgs) -> anyhow::Result<ExitOutcome> {
    let runtime = small_runtime()?;
    let listed = runtime.block_on(async {
        let connection = connect_to_own(app, &args.remote).await?;
        let listed = connection.client.request::<ZeroNodesList>(NodesListParams {}).await;
        connection.close().await;
        anyhow::Ok(listed?)
    });
    runtime.shutdown_background();
    let listed = listed?;
    if listed.node.is_none() {
        return Err(UsageError(NOT_SHARED.to_owned()).into());
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&listed)?;
        return Ok(ExitOutcome::Ok);
    }
    let mut table =
        TextTable::new(["GATEWAY", "LEASE", "SESSIONS AT WORK", "CLIENTS", "ANSWER", "STATE"]);
    for node in &listed.nodes {
        let lease = format!("{:.1} s", Duration::from_millis(node.lease_left_ms).as_secs_f64());
        let clients = node.status.as_ref().map(|status| status.connections.to_string());
        let answer = node.answer_ms.map(|answer| format!("{answer:.1} ms"));
        table.add_row([
            node.name.clone().into(),
            lease.into(),
            node.sessions.to_string().into(),
            clients.unwrap_or_default().into(),
            answer.unwrap_or_default().into(),
            describe_state(node).into(),
        ]);
    }
    out.write(&table.render(out))?;
    print_summary(app, listed.nodes.len(), listed.abandoned_sessions);
    Ok(ExitOutcome::Ok)
}

fn describe_state(node: &NodeInfo) -> String {
    match (&node.status, &node.problem) {
        (Some(status), _) if status.draining => "hands its sessions over".to_owned(),
        (Some(status), _) => escape_line(status.problem.as_deref().unwrap_or("ok")).into_owned(),
        (None, Some(problem)) => escape_line(problem).into_owned(),
        (None, None) => String::new(),
    }
}

fn print_summary(app: &AppContext, count: usize, abandoned: u64) {
    let gateways = if count == 1 { "gateway" } else { "gateways" };
    let sessions = if abandoned == 1 { "session" } else { "sessions" };
    app.terminal.print_note(&format!(
        "{count} {gateways}; {abandoned} {sessions} with unfinished runs of gateways that are gone"
    ));
}

/// What the database has about the gateways.
fn look_into_database(app: &AppContext, args: &GatewayNodesArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let password_file = args.store_password_file.as_ref();
    let Some(options) = shared_store(app, &settings, args.store.as_deref(), password_file)? else {
        return Err(UsageError(NOT_SHARED.to_owned()).into());
    };
    let runtime = small_runtime()?;
    let listed = runtime.block_on(async {
        let ports = PostgresStore::open(&options).await?;
        let nodes = ports.leases.list_live_nodes().await?;
        let abandoned = ports.sessions.abandoned_sessions().await?;
        anyhow::Ok((nodes, abandoned.len()))
    });
    runtime.shutdown_background();
    let (nodes, abandoned) = listed?;
    let out = &app.terminal.out;
    if args.json {
        let nodes = nodes.iter().map(|node| {
            json!({
                "name": node.name,
                "leaseLeftMs": u64::try_from(node.lease_left.as_millis()).unwrap_or(u64::MAX),
                "sessions": node.sessions,
            })
        });
        let nodes: Vec<_> = nodes.collect();
        out.write_pretty_json(&json!({"nodes": nodes, "abandonedSessions": abandoned}))?;
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["GATEWAY", "LEASE", "SESSIONS AT WORK"]);
    for node in &nodes {
        let lease = format!("{:.1} s", node.lease_left.as_secs_f64());
        table.add_row([node.name.clone().into(), lease.into(), node.sessions.to_string().into()]);
    }
    if !nodes.is_empty() {
        out.write(&table.render(out))?;
    }
    print_summary(app, nodes.len(), abandoned as u64);
    Ok(ExitOutcome::Ok)
}
