//! `zero memory` as it is written.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `zero memory`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Notes outlive sessions: agents keep them with the tool Memory, and are told them when a session
begins. Each is a Markdown file that you can edit: those of a project lie in .zero/memory of the
workspace, yours beside your settings, in zero/memory.

Examples:
  zero memory list                               what is remembered here
  zero memory add Run `just test` first          a note for this project
  zero memory add --scope user --name style Tabs a note for all your work
  zero memory show style                         one of them, and where it lies
  zero memory edit style                         change it in your editor
  zero memory forget style                       take it away"
)]
pub enum MemoryCommand {
    /// List the notes
    List(MemoryListArgs),
    /// Print a note, with where it comes from
    Show(MemoryNameArgs),
    /// Keep a note, in the place of one of the same name
    Add(MemoryAddArgs),
    /// Change a note in your editor: $VISUAL, or $EDITOR
    Edit(MemoryNameArgs),
    /// Take a note away
    Forget(MemoryNameArgs),
    /// Print the notes that hold all of these words
    Search(MemorySearchArgs),
}

/// What all of them take.
#[derive(Debug, Args)]
pub struct MemoryCommonArgs {
    /// Whose notes [default: project for add, else both]
    #[arg(long, value_enum)]
    pub scope: Option<MemoryScope>,
    /// The workspace [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Whose notes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MemoryScope {
    /// Those of the workspace
    Project,
    /// Yours, for all your work
    User,
}

/// `zero memory list`
#[derive(Debug, Args)]
pub struct MemoryListArgs {
    /// Where.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory show`, `zero memory edit` and `zero memory forget`
#[derive(Debug, Args)]
pub struct MemoryNameArgs {
    /// Name of the note
    pub name: String,
    /// Where.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory add`
#[derive(Debug, Args)]
pub struct MemoryAddArgs {
    /// What to remember
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Name of the note [default: made of its first words]
    #[arg(long)]
    pub name: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory search`
#[derive(Debug, Args)]
pub struct MemorySearchArgs {
    /// The words
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Where.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}
