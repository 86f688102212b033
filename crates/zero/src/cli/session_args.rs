//! Command-line options of the commands that talk to an agent.

use std::path::PathBuf;

use clap::Args;
use zero_policy::PermissionMode;

use super::value_parsers;

/// Which session `zero run` and `zero chat` use, what may be done in it, and how it is shown.
#[derive(Clone, Debug, Default, Args)]
pub struct SessionArgs {
    /// Agent to use [default: from settings, or main; direct if there is no model]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Model to use: a name from settings, or provider/model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Permission mode: ask, accept-edits, plan or auto
    #[arg(long, value_name = "MODE", value_parser = value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Key or name of the session to continue [default: a new session]
    #[arg(long, value_name = "KEY", conflicts_with_all = ["continue_last", "resume"])]
    pub session: Option<String>,
    /// Continue the last session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub continue_last: bool,
    /// Continue a session of this folder: this one, or one that you pick from a list
    #[arg(long, value_name = "KEY", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub resume: Option<String>,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Show all output of commands, not only its last lines
    #[arg(short, long)]
    pub verbose: bool,
    /// Show the model's thinking
    #[arg(long)]
    pub thoughts: bool,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}
