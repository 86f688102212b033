//! Reports installed language servers, and how to install others.

use std::path::Path;

use zero_lsp::LanguageServerDefinition;
use zero_lsp::server_definition::ProgramSearchPath;
use zero_settings::WorkspaceSettings;
use zero_settings::layer::display_path;

use super::findings::DoctorReport;
use crate::AppContext;
use crate::host_setup::small_runtime;

const CHECK: &str = "lsp";

pub(super) fn check_language_servers(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    if zero_tools::missing_tools().iter().any(|tool| tool.name == "LSP") {
        return;
    }
    let servers = settings.lsp_servers(app.config.home());
    let roots = [folder.to_owned()];
    let search_path = ProgramSearchPath { search_path: app.config.search_path(), roots: &roots };
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for server in &servers.definitions {
        match (server.find_command(&search_path), &server.written_at) {
            (Some(words), _) => {
                let program = words.first().map(Path::new).unwrap_or(Path::new(""));
                let program = display_path(program, app.config.home());
                match has_working_stand_in(app, folder, settings, server, &search_path) {
                    true => findings.add_warning(
                        CHECK,
                        format!(
                            "{program} is only a placeholder for `{}`, which is not installed",
                            server.name
                        ),
                        server.how_to_get.clone(),
                    ),
                    false => there.push(format!("{} ({program})", server.name)),
                }
            }
            (None, Some(written_at)) => findings.add_warning(
                CHECK,
                format!("language server `{}` ({written_at}) is not installed", server.name),
                "install it, or correct its `command`; until then, LSP does not support its files",
            ),
            (None, None) => missing.push(format!("{}: {}", server.name, server.how_to_get)),
        }
    }
    for (name, written_at) in &servers.turned_off {
        findings.add_ok(CHECK, format!("language server `{name}` is disabled ({written_at})"));
    }
    match there.is_empty() {
        true => findings.add_ok(CHECK, "no language server is installed; LSP needs one"),
        false => findings.add_ok(CHECK, format!("language servers: {}", there.join(", "))),
    }
    if !there.is_empty() && !settings.trust_state().is_trusted() {
        findings.add_ok(CHECK, "none starts in this folder until you trust it with `zero trust`");
    }
    if !missing.is_empty() {
        findings.add_ok(CHECK, format!("available to install: {}", missing.join("; ")));
    }
}

/// Whether the program is only a placeholder for the server, such as a rustup proxy. Files in the
/// working folder can decide what such a program executes, so it runs elsewhere in untrusted folders.
fn has_working_stand_in(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    server: &LanguageServerDefinition,
    search_path: &ProgramSearchPath<'_>,
) -> bool {
    if !zero_lsp::may_be_rustup_proxy(server) {
        return false;
    }
    let is_trusted = settings.trust_state().is_trusted();
    let at = if is_trusted { folder } else { app.config.home().unwrap_or(Path::new("/")) };
    let workspace = app.config.open_workspace(&[]).map_err(anyhow::Error::from);
    let host = workspace.and_then(|workspace| app.idle_host(workspace, settings));
    let (Ok(host), Ok(runtime)) = (host, small_runtime()) else { return false };
    runtime.block_on(zero_lsp::is_rustup_proxy(&host.services(), server, search_path, at))
}
