//! A command that somebody wants to run.

use zero_core::CommandExecution;

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The command, exactly as it was judged.
    pub execution: CommandExecution,
    /// What it reads and writes.
    pub streams: StreamMode,
    /// What it finds to read, through a pipe; nothing when absent. It need not read it.
    pub input: Option<Vec<u8>>,
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Separate pipes for input, output and error output.
    Pipes,
    /// One terminal for all streams; [`CommandRequest::input`] must be `None` then.
    Terminal,
}
