//! Command-line arguments of `zero update`.

use clap::Args;

/// `zero update`
#[derive(Debug, Args)]
#[command(
    after_help = "zero looks for releases only when you run this command. It fetches the checksums of the newest release from
the address that zero was installed from, or `update.address` in your settings, verifies their
signature, and replaces zero in one step if the release is newer. If a package manager installed zero,
it prints the command that updates it. With `update.enabled` false, it does nothing.

Examples:
  zero update --check    print the newest version, and change nothing
  zero update

Exit codes: 0 zero is up to date or was updated, or the command to run was printed, 1 error,
2 wrong usage."
)]
pub struct UpdateArgs {
    /// Print the newest version, and change nothing
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
