//! Reports tools that this build lacks, and settings that have no effect without them.

use zero_settings::WorkspaceSettings;

use super::findings::DoctorReport;
use crate::AppContext;

const CHECK: &str = "build";

pub(super) fn check_missing_tools(
    app: &AppContext,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let missing = zero_tools::missing_tools();
    for tools in missing.chunk_by(|a, b| a.advice == b.advice) {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        let unused = names.iter().find_map(|name| setting_of(name, app, settings));
        let message = format!("without {}: {}", names.join(", "), tools[0].advice);
        match unused {
            Some(setting) => {
                let fix = format!("or remove `{setting}`, which has no effect");
                findings.add_error(CHECK, message, fix);
            }
            None => findings.add_ok(CHECK, message),
        }
    }
}

/// The setting that is set and only this tool uses.
fn setting_of(tool: &str, app: &AppContext, settings: &WorkspaceSettings) -> Option<&'static str> {
    match tool {
        "LSP" => {
            let servers = settings.lsp_servers(app.config.home());
            let is_set = servers.definitions.iter().any(|server| server.written_at.is_some());
            is_set.then_some("lspServers")
        }
        "WebSearch" => (!settings.search_engines().is_empty()).then_some("web.search"),
        _ => None,
    }
}
