//! `zero man`: manual pages, generated from the command-line help.

use crate::AppContext;
use crate::cli::command;
use crate::exit::{ExitOutcome, UsageError};

pub(super) fn run(app: &AppContext, path: &[String]) -> anyhow::Result<ExitOutcome> {
    let mut page = Vec::new();
    clap_mangen::Man::new(find_command(path)?)
        // A generated page has no date. An empty one would not be quoted in the roff output, and
        // the next field would move into its place.
        .date(" ")
        .source(concat!("zero ", env!("CARGO_PKG_VERSION")))
        .manual("zero manual")
        .render(&mut page)?;
    app.terminal.out.write(&String::from_utf8_lossy(&page))?;
    Ok(ExitOutcome::Ok)
}

/// Finds the command with this path of names, such as `tools call`.
fn find_command(path: &[String]) -> Result<clap::Command, UsageError> {
    let mut command = command();
    // Gives every command its full name, `zero-tools-call`, which is the name of its page.
    command.build();
    for name in path {
        let Some(next) = command.find_subcommand(name) else {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            let names = shown.map(clap::Command::get_name);
            let known: Vec<&str> = names.filter(|name| *name != "help").collect();
            let hint = match &known[..] {
                [] => format!("`{}` has no subcommands", command.get_name()),
                known => format!("the commands are {}", known.join(", ")),
            };
            return Err(UsageError(format!("there is no command `{name}`; {hint}")));
        };
        command = next.clone();
    }
    Ok(command)
}
