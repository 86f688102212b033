//! A request of a tool to run a command.

use zero_core::CommandExecution;

/// A request to run one command.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The command, exactly as policy authorized it.
    pub execution: CommandExecution,
    /// How its standard streams are connected.
    pub streams: StreamMode,
    /// Bytes for its standard input, sent through a pipe; empty input when absent. The command does
    /// not have to read them.
    pub input: Option<Vec<u8>>,
}

/// How the standard streams of a command are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Separate pipes for input, output and error output.
    Pipes,
    /// One terminal for all streams; [`CommandRequest::input`] must be `None` then.
    Terminal,
}
