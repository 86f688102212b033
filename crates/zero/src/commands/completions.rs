//! `zero completions`: what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::App;
use crate::cli::Cli;
use crate::exit::Exit;

pub(super) fn run(app: &App, shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zero", &mut script);
    app.terminal.out.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
