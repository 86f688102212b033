//! `zero tools serve`: serves the tools to programs that run their own agent, over JSON-RPC.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use zero_acp::{ToolServerApproval, ToolServerConfig, serve_tools};
use zero_runtime::stdio::open_stdio_with;
use zero_sandbox::stdio_guard;

use crate::AppContext;
use crate::cli::ToolsServeArgs;
use crate::commands::tools_call::signals;
use crate::editor_tool_hosts::EditorToolHostFactory;
use crate::exit::ExitOutcome;
use crate::host_setup::multi_thread_runtime;

pub(super) fn run(app: &AppContext, args: &ToolsServeArgs) -> anyhow::Result<ExitOutcome> {
    // Report errors in the command line and the settings now, not with every call.
    let workspace = app.config.open_workspace(&args.workspace)?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    for line in settings.trust_note().into_iter().chain(settings.warnings()) {
        app.terminal.print_note(&line);
    }
    let mut folders = workspace.roots().map(Into::into);
    let cwd = folders.next().unwrap_or_else(|| workspace.cwd().to_owned());
    let config = ToolServerConfig {
        tool_hosts: Arc::new(EditorToolHostFactory::new(app.clone(), args.settings.clone())),
        cwd,
        additional: folders.collect(),
        dialect: args.dialect,
        permissions: if args.yes { ToolServerApproval::AllowAll } else { ToolServerApproval::Ask },
    };
    app.terminal.print_protocol_hint(
        "JSON-RPC, one message per line",
        "call a tool here with `zero tools call`, or see `zero tools serve --help`",
    );
    let output = stdio_guard::take_stdout().context("could not reserve stdout for the caller")?;
    let runtime = multi_thread_runtime()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        signals::cancel_on_interrupt(&stop);
        let (input, output) =
            open_stdio_with(output, stop).context("could not open stdin and stdout")?;
        serve_tools(config, input, output).await.context("could not serve the caller")
    });
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    served.map(|()| ExitOutcome::Ok)
}
