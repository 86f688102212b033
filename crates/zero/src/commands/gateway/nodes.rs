//! `zero gateway nodes`: lists the gateways that share a database.

use serde_json::json;
use zero_session::postgres_store::PostgresStore;

use crate::AppContext;
use crate::cli::GatewayNodesArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;
use crate::session_store::shared_store;
use crate::terminal::TextTable;

pub(super) fn run(app: &AppContext, args: &GatewayNodesArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let password_file = args.store_password_file.as_ref();
    let Some(options) = shared_store(app, &settings, args.store.as_deref(), password_file)? else {
        let what = "no database is named, so this gateway shares its sessions with no other; set `gateway.store`, or pass `--store`";
        return Err(UsageError(what.to_owned()).into());
    };
    let runtime = small_runtime()?;
    let listed = runtime.block_on(async {
        let ports = PostgresStore::open(&options).await?;
        let nodes = ports.leases.live_nodes().await?;
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
    let gateways = if nodes.len() == 1 { "gateway" } else { "gateways" };
    let (count, sessions) = (nodes.len(), if abandoned == 1 { "session" } else { "sessions" });
    app.terminal.print_note(&format!(
        "{count} {gateways}; {abandoned} {sessions} with unfinished runs of gateways that are gone"
    ));
    Ok(ExitOutcome::Ok)
}
