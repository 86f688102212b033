//! Command-line arguments of `zero memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `zero memory`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Notes persist between sessions. Agents write them with the Memory tool, and zero adds them to the
context when a session starts. Each note is a Markdown file that you can edit: project notes in
.zero/memory of the workspace, your own in zero/memory beside your settings.

Examples:
  zero memory list                               list the notes that apply here
  zero memory add 'Run `just test` first'        add a note for this project
  zero memory add --scope user --name style Tabs add a note for all projects
  zero memory show style                         print a note and its file
  zero memory edit style                         edit a note in your editor
  zero memory forget style                       delete a note"
)]
pub enum MemoryCommand {
    /// List the notes
    List(MemoryListArgs),
    /// Print a note and its origin
    Show(MemoryNameArgs),
    /// Add a note, or replace the one of the same name
    Add(MemoryAddArgs),
    /// Edit a note in $VISUAL or $EDITOR
    Edit(MemoryNameArgs),
    /// Delete a note
    Forget(MemoryNameArgs),
    /// Print the notes that contain all of these words
    Search(MemorySearchArgs),
}

/// Options of all `zero memory` commands.
#[derive(Debug, Args)]
pub struct MemoryCommonArgs {
    /// Notes to use [default: project for add, otherwise both]
    #[arg(long, value_enum)]
    pub scope: Option<MemoryScope>,
    /// Workspace folder [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Scope of a note.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MemoryScope {
    /// Notes of the workspace
    Project,
    /// Your notes, for all projects
    User,
}

/// `zero memory list`
#[derive(Debug, Args)]
pub struct MemoryListArgs {
    /// Scope and workspace.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory show`, `zero memory edit` and `zero memory forget`
#[derive(Debug, Args)]
pub struct MemoryNameArgs {
    /// Name of the note
    pub name: String,
    /// Scope and workspace.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory add`
#[derive(Debug, Args)]
pub struct MemoryAddArgs {
    /// Text of the note
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Name of the note [default: its first words]
    #[arg(long)]
    pub name: Option<String>,
    /// Scope and workspace.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}

/// `zero memory search`
#[derive(Debug, Args)]
pub struct MemorySearchArgs {
    /// Words to search for
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Scope and workspace.
    #[command(flatten)]
    pub place: MemoryCommonArgs,
}
