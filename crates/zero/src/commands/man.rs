//! `zero man`: the manual pages, made from the same help the command line shows.

use clap::CommandFactory;

use crate::AppContext;
use crate::cli::Cli;
use crate::exit::{ExitOutcome, UsageError};

pub(super) fn run(app: &AppContext, path: &[String]) -> anyhow::Result<ExitOutcome> {
    let mut page = Vec::new();
    clap_mangen::Man::new(find_command(path)?)
        // A page made from the program itself has no date. Empty, it would not be quoted, and what
        // follows would take its place.
        .date(" ")
        .source(concat!("zero ", env!("CARGO_PKG_VERSION")))
        .manual("Manual of zero")
        .render(&mut page)?;
    app.terminal.out.write(&String::from_utf8_lossy(&page))?;
    Ok(ExitOutcome::Ok)
}

/// The command that a path of names leads to.
fn find_command(path: &[String]) -> Result<clap::Command, UsageError> {
    let mut command = Cli::command();
    // Gives every command its full name, `zero-tools-call`, which is what its page is called.
    command.build();
    for name in path {
        let Some(next) = command.find_subcommand(name) else {
            let names = command.get_subcommands().map(clap::Command::get_name);
            let known: Vec<&str> = names.filter(|name| *name != "help").collect();
            let hint = match &known[..] {
                [] => format!("`{}` has no commands of its own", command.get_name()),
                known => format!("there are {}", known.join(", ")),
            };
            return Err(UsageError(format!("there is no command `{name}`; {hint}")));
        };
        command = next.clone();
    }
    Ok(command)
}
