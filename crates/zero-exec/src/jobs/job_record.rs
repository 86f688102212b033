//! What zero's state folder holds about a job, for the user and for later calls.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zero_core::ToolError;
use zero_sandbox::ConfinementGap;
use zero_sandbox::output_collector::OutputStream;
use zero_sandbox::running_command::CommandExit;

use super::unread_output::OutputChunk;
use crate::tree_watch::WatchReport;

/// Whose job it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOwner {
    /// The calls with the same scope reach the job.
    pub scope: String,
    /// The session that started it; `None` for a single call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The workspace's first folder.
    pub workspace: String,
}

/// A job, as other processes of the user know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The id by which tools and users refer to the job.
    pub id: String,
    /// Whose job it is.
    pub owner: JobOwner,
    /// The command line, without secret values.
    pub command: String,
    /// When it was started.
    pub started: Timestamp,
    /// The file with all of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// The process that holds the job, by its name among the holders.
    pub(crate) holder: String,
    /// Sandbox properties that are not enforced, as settings allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) gaps: Vec<ConfinementGap>,
    /// How it ended; absent while it runs, and if its holder was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<JobEnd>,
}

/// The state of a job at some moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobState {
    pub(crate) has_ended: bool,
    /// How it ended, if that is known.
    pub(crate) exit: Option<CommandExit>,
    /// Why it was stopped: a limit or its timeout.
    pub(crate) error: Option<ToolError>,
    pub(crate) run_ms: u64,
    pub(crate) report: WatchReport,
    pub(crate) notes: Vec<String>,
    pub(crate) unread_bytes: u64,
}

/// The end of a job, with its unread output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct JobEnd {
    pub(crate) state: JobState,
    pub(crate) output: JobOutput,
}

/// Output of a job, and the number of bytes before it that were dropped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct JobOutput {
    pub(crate) pieces: Vec<OutputText>,
    pub(crate) lost: u64,
}

/// Consecutive text of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutputText {
    pub(crate) stream: OutputStream,
    pub(crate) text: String,
}

impl JobOutput {
    pub(crate) fn from_chunks((chunks, lost): (Vec<OutputChunk>, u64)) -> Self {
        let to_text = |chunk: OutputChunk| OutputText {
            stream: chunk.stream,
            text: String::from_utf8_lossy(&chunk.bytes).into_owned(),
        };
        Self { pieces: chunks.into_iter().map(to_text).collect(), lost }
    }

    pub(crate) fn into_chunks(self) -> (Vec<OutputChunk>, u64) {
        let to_chunk = |piece: OutputText| OutputChunk {
            stream: piece.stream,
            bytes: piece.text.into_bytes(),
        };
        (self.pieces.into_iter().map(to_chunk).collect(), self.lost)
    }
}
