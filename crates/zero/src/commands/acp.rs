//! `zero acp`: the agent in an editor.
//!
//! The editor is answered at once. Everything that has to be opened or read is opened and read for the
//! first session.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use zero_acp::{Config, Defaults};
use zero_client::Link;
use zero_runtime::stdio::stdio_over;
use zero_sandbox::stdio_guard;

use crate::App;
use crate::cli::AcpArgs;
use crate::commands::tools_call::signals;
use crate::dialling::Dialling;
use crate::editor_bench::EditorBench;
use crate::exit::Exit;
use crate::hosting::busy_runtime;

pub(super) fn run(app: &App, args: &AcpArgs) -> anyhow::Result<Exit> {
    let output = stdio_guard::take_stdout().context("could not keep stdout for the editor")?;
    let app = app.knowing(args.remote.token_file.iter().chain(&args.remote.password_file));
    let runtime = busy_runtime()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        signals::cancel_on_interrupt(&stop);
        let (input, output) =
            stdio_over(output, stop).context("stdin and stdout cannot be used")?;
        let habits = Arc::new(OnceLock::new());
        let dialling = Arc::new(Dialling::new(
            app.clone(),
            args.remote.clone(),
            args.settings.clone(),
            Arc::clone(&habits),
        ));
        let config = Config {
            link: Link::new(Arc::clone(&dialling) as _),
            bench: Arc::new(EditorBench::new(app.clone(), args.settings.clone())),
            defaults: defaults(args),
            home: app.config.home().map(Into::into),
            habits,
        };
        let served = zero_acp::serve(config, input, output).await;
        dialling.end().await;
        served.context("could not serve the editor")
    });
    // A read of stdin that nobody waits for must not hold up the end.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}

fn defaults(args: &AcpArgs) -> Defaults {
    Defaults {
        key: args.session.clone(),
        label: args.session_label.clone(),
        agent: args.agent.clone(),
        reset: args.reset_session,
        require_existing: args.require_existing,
        prefix_cwd: !args.no_prefix_cwd,
    }
}
