//! Command-line arguments of `zero prune`.

use clap::Args;

/// `zero prune`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --days, `gateway.retention` in your settings says which sessions are
removed; without that, none are. A session is kept if it has a label, if a run is active in it, or if
it was active in the last day.

`retention` in your settings says which days of the audit log, recorded changes, stored results and
approved tools of MCP servers are removed, by age and size; without it, none are. Results of single
calls are kept for a day.

Examples:
  zero prune --days 90 --dry-run    list the sessions that were idle for 90 days
  zero prune --days 90              remove them
  zero prune --compact              also rewrite the file, if an older zero created it

Other programs can use the sessions meanwhile, except with --compact, which needs the gateway to be
stopped. zero prune works on the sessions of this machine.

Exit codes: 0 done, 1 error, 2 wrong usage."
)]
pub struct PruneArgs {
    /// Remove sessions without activity for this many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub days: Option<u32>,
    /// List what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Rewrite the file without free space
    #[arg(long, conflicts_with = "dry_run")]
    pub compact: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
