//! Command-line arguments of `zero help`.

use clap::Args;

/// `zero help`
#[derive(Debug, Args)]
#[command(
    after_help = "A topic is a page of zero's documentation. If a command has the same name, the command comes first;
the page is then `zero help how-to/NAME` or `zero help reference/NAME`. On a terminal, a page that is longer than the window
is shown page by page.

Examples:
  zero help topics                  list the pages
  zero help permissions             how to write rules
  zero help how-to/undo             the page, not the command
  zero help tools call              the same as `zero tools call --help`

Exit codes: 0 printed, 2 there is no such page or command."
)]
pub struct HelpArgs {
    /// `topics`, the name of a page, or a command such as `tools call` [default: zero itself]
    #[arg(value_name = "TOPIC|COMMAND")]
    pub words: Vec<String>,
}
