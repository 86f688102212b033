//! `zero tools refresh`: runs the tool discovery command again.

use std::fmt::Write as _;

use zero_tools::tool_discovery::DiscoveryReport;

use crate::AppContext;
use crate::cli::ToolsRefreshArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;

pub(super) fn run(app: &AppContext, args: &ToolsRefreshArgs) -> anyhow::Result<ExitOutcome> {
    let folder = args.workspace.as_slice();
    let workspace = app.config.open_workspace(folder)?;
    let settings = app.load_settings(&workspace, &[])?;
    if let Some(note) = settings.trust_note() {
        app.terminal.print_note(&note);
    }
    let host = app.idle_host(workspace, &settings)?;
    let Some(discovery) = app.external_tools(&host, &settings, None).discovery else {
        let is_inactive =
            settings.inactive_entries().any(|entry| entry.key == "tools.toolDiscoveryCommand");
        let what = match is_inactive {
            true => "the tool discovery command of this folder is not active; run `zero trust`",
            false => {
                "no tool discovery command is set; set `tools.toolDiscoveryCommand` and `tools.toolCallCommand`"
            }
        };
        return Err(UsageError(what.to_owned()).into());
    };
    let refreshed = small_runtime()?.block_on(discovery.refresh(host.registry()))?;
    let out = &app.terminal.out;
    match args.json {
        true => out.write_pretty_json(&refreshed)?,
        false => out.write(&describe_refresh(&refreshed))?,
    }
    for note in &refreshed.notes {
        app.terminal.print_note(note);
    }
    Ok(ExitOutcome::Ok)
}

fn describe_refresh(refreshed: &DiscoveryReport) -> String {
    let mut text = String::new();
    let change_lists =
        [("new", &refreshed.added), ("changed", &refreshed.changed), ("gone", &refreshed.removed)];
    for (what, names) in change_lists {
        for name in names {
            let _ = writeln!(text, "{what:<8} {name}");
        }
    }
    for one in &refreshed.quarantined {
        let _ = writeln!(text, "skipped {}: {}", one.name, one.reason);
    }
    let count = refreshed.tools.len();
    let _ = writeln!(text, "{count} tool{} now", if count == 1 { "" } else { "s" });
    text
}
