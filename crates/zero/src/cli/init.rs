//! Command-line arguments of `zero init`.

use std::path::PathBuf;

use clap::Args;

/// `zero init`
#[derive(Debug, Args)]
#[command(
    after_help = "zero inspects the languages, build tools and package managers of the project, and the settings of
other agents in it. It proposes .zero/settings.json, with rules and limits for this stack and the
hosts of the package registries that the project itself configures, and an AGENTS.md if the project
has no instructions for agents. It shows both as a diff and writes them after you confirm. It never changes
a file that exists, runs nothing, and reads no file that may contain secrets.

Examples:
  zero init                 propose settings for the current folder
  zero init --dry-run       only show them
  zero init ~/src/app --yes write them without asking

Exit codes: 0 written, or nothing to write; 1 error; 2 wrong usage; 3 not written."
)]
pub struct InitArgs {
    /// Folder of the project [default: current folder]
    pub dir: Option<PathBuf>,
    /// Write without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON; without --yes, nothing is written
    #[arg(long)]
    pub json: bool,
}
