//! Reports configured MCP servers and tool commands, and why some cannot be used.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zero_mcp::server_definition::{McpServerDefinition, ServerTransport};
use zero_settings::mask::holds_secret;
use zero_settings::tool_commands::is_program_found;
use zero_settings::{SettingsLayerKind, WorkspaceSettings};

use super::findings::DoctorReport;
use crate::AppContext;
use crate::error_chain::describe_error;
use crate::host_setup::small_runtime;
use crate::settings_adapter::mcp_servers::{
    ConfiguredMcpServers, UnavailableMcpServer, configured_servers,
};

const CHECK: &str = "mcp";

pub(super) fn check_mcp_servers(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let servers = configured_servers(settings, &app.config, folder);
    if !servers.definitions.is_empty() {
        let names: Vec<String> = servers.definitions.iter().map(describe_server).collect();
        findings.add_ok(CHECK, format!("servers: {}", names.join(", ")));
    }
    for UnavailableMcpServer { alias, why, written_at } in
        servers.turned_off.iter().chain(&servers.denied)
    {
        findings.add_ok(CHECK, format!("server `{alias}` is {why} ({written_at})"));
    }
    for UnavailableMcpServer { alias, why, written_at } in &servers.problems {
        findings.add_warning(
            CHECK,
            format!("server `{alias}` cannot be used ({written_at}): {why}"),
            "until then, its tools are not available; all others are",
        );
    }
    for UnavailableMcpServer { alias, why, written_at } in &servers.ignored {
        findings.add_warning(
            CHECK,
            format!("server `{alias}` ({written_at}): {why}"),
            "remove the key, since it has no effect",
        );
    }
    for server in &servers.definitions {
        let ServerTransport::Command(launch) = &server.transport else { continue };
        if !is_program_found(&launch.command, &launch.folder, app.config.search_path()) {
            findings.add_warning(
                CHECK,
                format!("server `{}`: there is no program `{}`", server.alias, launch.command),
                format!("install it, or correct its `command` ({})", server.written_at),
            );
        }
    }
    if !servers.definitions.is_empty() {
        match read_failures(app, folder, settings, servers) {
            Ok(failures) => {
                for (alias, why) in failures {
                    findings.add_warning(
                        CHECK,
                        format!("server `{alias}` failed the last time it was started: {why}"),
                        format!("run `zero mcp status {alias}` to try again and see its output"),
                    );
                }
            }
            Err(error) => findings.add_warning(
                CHECK,
                format!("the state of the servers cannot be read: {}", describe_error(&error)),
                "run `zero mcp status`",
            ),
        }
    }
    check_tool_commands(app, folder, settings, findings);
    check_secret_readability(app, folder, settings, findings);
}

/// The servers whose last start failed, with the recorded error. Starts none.
fn read_failures(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    servers: ConfiguredMcpServers,
) -> anyhow::Result<Vec<(String, String)>> {
    let workspace = app.config.open_workspace(&[folder.to_owned()])?;
    let host = app.idle_host(workspace, settings)?;
    let outside = app.external_tools_from(&host, settings, servers, None);
    let failed = outside.servers.status().into_iter().filter_map(|status| {
        let error = status.last_error?;
        Some((status.alias, error.message))
    });
    let failed = failed.collect();
    small_runtime()?.block_on(outside.stop());
    Ok(failed)
}

/// Name and transport of a server, without parts that could be secret.
fn describe_server(server: &McpServerDefinition) -> String {
    match &server.transport {
        ServerTransport::Command(launch) => format!("{} ({})", server.alias, launch.command),
        ServerTransport::Http(endpoint) => {
            format!("{} ({})", server.alias, endpoint.url.host_str().unwrap_or("http"))
        }
    }
}

fn check_tool_commands(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    const CHECK: &str = "tools";
    let Some(commands) = settings.tool_commands() else { return };
    let programs = [Some(&commands.discovery), commands.call.as_ref()];
    for program in programs.into_iter().flatten().filter_map(|words| words.first()) {
        if !is_program_found(program, folder, app.config.search_path()) {
            findings.add_warning(
                CHECK,
                format!("there is no program `{program}` ({})", commands.written_at),
                "install it, or correct the command; until then, its tools are not available",
            );
        }
    }
    if commands.call.is_none() {
        findings.add_warning(
            CHECK,
            format!(
                "`toolDiscoveryCommand` is set ({}), but `toolCallCommand` is not",
                commands.written_at
            ),
            "set it too; without it, the discovered tools cannot be called",
        );
    }
}

/// Checks for settings files with secrets that other users can read.
fn check_secret_readability(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let holders: BTreeSet<SettingsLayerKind> = settings
        .entries()
        .iter()
        // The gateway check covers these.
        .filter(|entry| !entry.key.starts_with("gateway.remote"))
        .filter(|entry| holds_secret(&entry.key, &entry.value))
        .map(|entry| entry.layer)
        .collect();
    for (kind, file) in
        WorkspaceSettings::files(&app.config.user_paths(), folder).unwrap_or_default()
    {
        let path = file.path();
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let bits = metadata.permissions().mode() & 0o777;
        if holders.contains(&kind) && bits & 0o044 != 0 {
            let path = zero_settings::layer::display_path(&path, app.config.home());
            findings.add_warning(
                CHECK,
                format!(
                    "{path} has mode {bits:03o} and contains values of variables or headers: other users can read them"
                ),
                format!("chmod 600 {path}, or write `${{NAME}}` instead of the value"),
            );
        }
    }
}
