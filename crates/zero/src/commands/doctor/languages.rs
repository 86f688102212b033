//! Language servers: which are there, and how to get the others.

use std::path::Path;

use zero_lsp::definition::Place;

use super::findings::Findings;
use crate::App;
use crate::settings::Settings;
use crate::settings::layer::shown;

const CHECK: &str = "lsp";

pub(super) fn check(app: &App, folder: &Path, settings: &Settings, findings: &mut Findings) {
    let servers = settings.lsp_servers(app.config.home());
    let roots = [folder.to_owned()];
    let place = Place { search_path: app.config.search_path(), roots: &roots };
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for server in &servers.definitions {
        match (server.find(&place), &server.written_at) {
            (Some(words), _) => {
                let program =
                    words.first().map(|program| shown(Path::new(program), app.config.home()));
                there.push(format!("{} ({})", server.name, program.unwrap_or_default()));
            }
            (None, Some(written_at)) => findings.notable(
                CHECK,
                format!("language server `{}` ({written_at}) is not installed", server.name),
                "install it, or correct its `command`; until then LSP does not know its files",
            ),
            (None, None) => missing.push(format!("{}: {}", server.name, server.how_to_get)),
        }
    }
    for (name, written_at) in &servers.turned_off {
        findings.well(CHECK, format!("language server `{name}` is turned off ({written_at})"));
    }
    match there.is_empty() {
        true => findings.well(CHECK, "no language server is installed; LSP needs one"),
        false => findings.well(CHECK, format!("language servers: {}", there.join(", "))),
    }
    if !missing.is_empty() {
        findings.well(CHECK, format!("others can be had: {}", missing.join("; ")));
    }
}
    if !there.is_empty() && !settings.standing().is_trusted() {
        findings.well(CHECK, "none starts in this folder until you trust it: `zero trust`");
    }
