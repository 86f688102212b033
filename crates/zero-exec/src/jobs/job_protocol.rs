//! Messages between the process that holds a job and other processes of its user: one request and
//! one response per connection, each a line of JSON.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zero_core::ToolError;
use zero_sandbox::listening_ports::ListeningPort;

use super::job_record::{JobOutput, JobState};

/// Longest time that a request may wait for something.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(5);
/// Time to send and receive a message.
const TRANSFER_MAX: Duration = Duration::from_secs(10);
/// Largest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Largest response, in bytes: unread output, of which JSON can make six times as much.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// A request about one job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobRequest {
    pub(super) id: String,
    pub(super) action: JobAction,
}

/// What is to be done with a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobAction {
    /// Nothing: only its state is wanted.
    Inspect,
    /// Take its unread output.
    Take,
    /// Wait until it has unread output or has ended.
    AwaitProgress { ms: u64 },
    /// Wait until it has ended.
    AwaitEnd { ms: u64 },
    /// Kill it.
    Kill,
    /// List the ports on which its processes listen.
    ListPorts,
    /// Write a text to its standard input.
    Send { text: String },
}

/// The response: the state of the job after the action, unless there is no such job.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct JobResponse {
    pub(super) state: Option<JobState>,
    #[serde(default)]
    pub(super) output: JobOutput,
    /// The ports that were asked for.
    #[serde(default)]
    pub(super) ports: Vec<ListeningPort>,
    /// Why the action failed.
    #[serde(default)]
    pub(super) error: Option<ToolError>,
}

/// Sends a request and receives its response.
pub(super) fn ask(mut stream: UnixStream, request: &JobRequest) -> io::Result<JobResponse> {
    stream.set_write_timeout(Some(TRANSFER_MAX))?;
    stream.set_read_timeout(Some(WAIT_MAX + TRANSFER_MAX))?;
    send(&mut stream, request)?;
    receive(&stream, RESPONSE_BYTES_MAX)
}

/// Receives a request and sends what `answer` makes of it.
pub(super) fn serve(
    mut stream: UnixStream,
    answer: impl FnOnce(JobRequest) -> JobResponse,
) -> io::Result<()> {
    stream.set_write_timeout(Some(TRANSFER_MAX))?;
    stream.set_read_timeout(Some(TRANSFER_MAX))?;
    let request = receive(&stream, REQUEST_BYTES_MAX)?;
    send(&mut stream, &answer(request))
}

fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: DeserializeOwned>(stream: &UnixStream, bytes_max: u64) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(bytes_max)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}
