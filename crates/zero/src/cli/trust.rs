//! Command-line arguments of `zero trust`.

use std::path::PathBuf;

use clap::Args;

/// `zero trust`
#[derive(Debug, Args)]
#[command(
    after_help = "A folder can have its own settings: .zero/settings.json and .zero/settings.local.json. Until you
trust the folder, they can only make zero stricter: ask and deny rules, a stricter mode, smaller
limits. This command shows all other settings with file and line, and asks whether to apply them.
If they change, zero asks again. Trust does not extend to subfolders. Language servers, which may
execute code of a project, start only in trusted folders.

Examples:
  zero trust                review the current folder
  zero trust ~/src/app      review another folder
  zero trust --list         list the folders you trust
  zero trust --revoke       stop trusting the current folder

Exit codes: 0 trusted; 1 error; 2 wrong usage; 3 not trusted."
)]
pub struct TrustArgs {
    /// Folder to review [default: current folder]
    #[arg(conflicts_with = "list")]
    pub dir: Option<PathBuf>,
    /// List the folders you trust
    #[arg(long)]
    pub list: bool,
    /// Stop trusting the folder
    #[arg(long, conflicts_with = "list")]
    pub revoke: bool,
    /// Trust the folder without asking
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub yes: bool,
    /// Print JSON; without --yes, only report the trust state
    #[arg(long)]
    pub json: bool,
}
