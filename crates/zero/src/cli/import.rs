//! Command-line arguments of `zero import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `zero import`
#[derive(Debug, Args)]
#[command(
    after_help = "zero reads the settings of the other program and takes over permissions, MCP servers, commands and
agents. For each entry it says what became of it: taken over, made stricter because zero has no exact
counterpart, or left out and why. An allow rule is never wider than it was, and a deny rule never
narrower. Values that look like secrets are not copied; the entry names the variable to set. zero
shows the change as a diff and writes it after you confirm. Existing zero settings are kept.

Examples:
  zero import claude               from ~/.claude into your settings
  zero import claude --project     from .claude and .mcp.json into .zero/settings.json
  zero import codex --dry-run      only show what would be written

Exit codes: 0 written, or nothing to write; 1 error; 2 wrong usage; 3 not written."
)]
pub struct ImportArgs {
    /// Program whose settings to take over
    pub program: ImportProgram,
    /// Take over the settings of the project, into .zero/settings.json
    #[arg(long, conflicts_with = "local")]
    pub project: bool,
    /// Take over the settings of the project, into .zero/settings.local.json, which is yours alone
    #[arg(long)]
    pub local: bool,
    /// Folder of the project [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
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

/// A program whose settings zero can take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportProgram {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// opencode
    Opencode,
    /// Gemini CLI
    Gemini,
}
