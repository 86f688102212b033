//! `zero trust` as it is written.

use std::path::PathBuf;

use clap::Args;

/// `zero trust`
#[derive(Debug, Args)]
#[command(
    after_help = "A folder may bring settings of its own: .zero/settings.json and .zero/settings.local.json. Until you
trust it they can only tighten: ask and deny rules, a stricter mode, smaller limits. This command
shows the rest, each with its file and line, and asks whether it may count. When any of it changes
you are asked again. Folders inside a trusted one are not trusted by that. Language servers, which
may run what a project brings along, start only in folders that you trust.

Examples:
  zero trust                look at the current folder and decide
  zero trust ~/src/app      look at another one
  zero trust --list         the folders you trust
  zero trust --revoke       trust the current folder no more

Exit codes: 0 trusted; 1 it failed; 2 wrong usage; 3 not trusted."
)]
pub struct TrustArgs {
    /// The folder [default: the current one]
    #[arg(conflicts_with = "list")]
    pub dir: Option<PathBuf>,
    /// List the folders you trust
    #[arg(long)]
    pub list: bool,
    /// Trust the folder no more
    #[arg(long, conflicts_with = "list")]
    pub revoke: bool,
    /// Trust it without being asked
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub yes: bool,
    /// Print JSON; without --yes it only shows how the folder stands
    #[arg(long)]
    pub json: bool,
}
