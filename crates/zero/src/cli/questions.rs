//! Command-line arguments of `zero questions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::gateway::RemoteGatewayArgs;

/// `zero questions`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A question of a run waits until you answer it: no time limit answers it for you. It survives a
restart of zero or of the machine, if the tools of its session run with the gateway, as they do with
`zero run --park`. The first answer counts. zero checks the call again when you answer, and asks
again if the call would now do something other than what you saw.

Answers to a call:
  allow_once      this call
  allow_session   this and similar calls, for this session; no rule is added to settings
  reject_once     not this call
  reject_session  neither this nor similar calls, for this session
  reject_tool     no call of this tool, for this session

Examples:
  zero run --park \"publish the package\"         stops at the first question
  zero questions list
  zero questions show ask_1f…                    what the call would do, with its diff
  zero questions answer ask_1f… allow_once       continues the run here
  zero questions answer ask_1f… '{\"answer\": \"b\"}'   answers a form"
)]
pub enum QuestionsCommand {
    /// List the questions that wait for an answer, oldest first
    List(QuestionsListArgs),
    /// Show a question: what the call would do, with the change of a file as a diff
    Show(QuestionsShowArgs),
    /// Answer a question and show what its run does
    Answer(QuestionsAnswerArgs),
}

/// `zero questions list`
#[derive(Debug, Args)]
pub struct QuestionsListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero questions show`
#[derive(Debug, Args)]
pub struct QuestionsShowArgs {
    /// Id of the question, or its first characters
    pub id: String,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero questions answer`
#[derive(Debug, Args)]
pub struct QuestionsAnswerArgs {
    /// Id of the question, or its first characters
    pub id: String,
    /// One of the answers that `zero questions list` shows; for a form a JSON object, or `decline`
    pub answer: String,
    /// Print each event of the run as one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
