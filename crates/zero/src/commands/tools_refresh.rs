//! `zero tools refresh`: the tools that a command brings, found anew.

use crate::App;
use crate::cli::RefreshArgs;
use crate::exit::{Exit, UsageError};

pub(super) fn run(app: &App, args: &RefreshArgs) -> anyhow::Result<Exit> {
    let workspace = app.config.workspace(args.workspace.as_slice())?;
    let settings = app.settings(&workspace, &[])?;
    if let Some(note) = settings.note() {
        app.terminal.note(&note);
    }
    if settings.tool_commands().is_none() {
        return Err(UsageError(
            "no command brings tools here; set `tools.toolDiscoveryCommand` and `tools.toolCallCommand`"
                .to_owned(),
        )
        .into());
    }
    Err(anyhow::anyhow!("`zero tools refresh` is not in this build"))
}
