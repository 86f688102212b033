//! `zero completions`: shell completion scripts.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::AppContext;
use crate::cli::Cli;
use crate::exit::ExitOutcome;

pub(super) fn run(app: &AppContext, shell: Shell) -> anyhow::Result<ExitOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zero", &mut script);
    app.terminal.out.write(&String::from_utf8_lossy(&script))?;
    Ok(ExitOutcome::Ok)
}
