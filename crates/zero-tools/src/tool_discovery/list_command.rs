//! Has a command list its tools: confined, in bounded time, and with bounded output.

use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use zero_core::sanitize::escape_unsafe_chars;
use zero_core::{ErrorReason, ToolError};
use zero_runtime::commands::plain_text;
use zero_runtime::{ServiceHandle, ServiceLauncher, ServiceRequest};
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::tool_declaration::{OUTPUT_BYTES_MAX, ToolListError};
use crate::bash::signal_name;

/// How long the end of a command that was killed is waited for.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Bytes of its error output that are told.
const STDERR_BYTES_MAX: usize = 4_000;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Why a command did not list its tools. Those that it listed before stay. What it was caused by is
/// part of its words, so it names no source that would say them again.
#[derive(Debug, thiserror::Error)]
pub enum ToolDiscoveryError {
    /// There is no command.
    #[error("no command lists tools; set `tools.toolDiscoveryCommand`")]
    NoCommand,
    /// It did not start.
    #[error("`{command}`, which is to list tools, did not start: {why}")]
    NotStarted {
        /// The command.
        command: String,
        /// Why.
        why: ToolError,
    },
    /// It did not come to its end in time.
    #[error("`{command}` did not list its tools within {} s and was stopped{}", .limit.as_secs_f32(), describe_stderr(.stderr))]
    TimedOut {
        /// The command.
        command: String,
        /// How long it may take.
        limit: Duration,
        /// The end of its error output.
        stderr: String,
    },
    /// It failed.
    #[error("`{command}` did not list its tools: {how}{}", describe_stderr(.stderr))]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// The end of its error output.
        stderr: String,
    },
    /// It printed something else.
    #[error("`{command}` did not list its tools: {why}; let it print a JSON array such as `[{{\"name\": \"hello\", \"description\": \"…\", \"parameters\": {{\"type\": \"object\"}}}}]` and nothing else, and write messages to its error output{}", describe_stderr(.stderr))]
    Unreadable {
        /// The command.
        command: String,
        /// What is wrong.
        why: ToolListError,
        /// The end of its error output.
        stderr: String,
    },
    /// What it listed could not be kept.
    #[error("what the command listed cannot be kept, and nothing was changed: {0}")]
    Store(io::Error),
}

/// What a command said.
#[derive(Debug)]
pub(super) struct ListCommandOutput {
    pub(super) stdout: Vec<u8>,
    pub(super) notes: Vec<String>,
    stderr: String,
}

impl ListCommandOutput {
    pub(super) fn unreadable_error(
        &self,
        words: &[String],
        why: ToolListError,
    ) -> ToolDiscoveryError {
        ToolDiscoveryError::Unreadable {
            command: words.join(" "),
            why,
            stderr: self.stderr.clone(),
        }
    }
}

/// Runs a command to its end. Nothing of it is left, whatever becomes of it.
pub(super) async fn run_list_command(
    services: &ServiceLauncher,
    words: &[String],
    folder: &Path,
    limit: Duration,
) -> Result<ListCommandOutput, ToolDiscoveryError> {
    if words.is_empty() {
        return Err(ToolDiscoveryError::NoCommand);
    }
    let command = words.join(" ");
    let not_started = |why| ToolDiscoveryError::NotStarted { command: command.clone(), why };
    let request = ServiceRequest {
        name: "tool-discovery".to_owned(),
        words: words.to_vec(),
        folder: Some(folder.to_owned()),
        ..ServiceRequest::default()
    };
    let services = services.clone();
    let started = tokio::task::spawn_blocking(move || services.start(&request));
    let mut service = started
        .await
        .unwrap_or_else(|_| Err(ToolError::failed(ErrorReason::Cancelled, "zero is shutting down")))
        .map_err(not_started)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let work = collect_output(&mut service, &mut stdout, &mut stderr);
    let ended = tokio::time::timeout(limit, work).await;
    service.kill();
    // So that nobody waits for it where others would have to wait too.
    let _ = tokio::time::timeout(EXIT_WAIT_MAX, service.wait()).await;
    let notes = service.notes();
    let stderr = escape_unsafe_chars(plain_text::strip(&stderr).trim_end());
    let ended = match ended {
        Err(_) => return Err(ToolDiscoveryError::TimedOut { command, limit, stderr }),
        Ok(Err(error)) => {
            let how = format!("what it prints cannot be read: {error}");
            return Err(ToolDiscoveryError::Failed { command, how, stderr });
        }
        Ok(Ok(ended)) => ended,
    };
    if stdout.len() > OUTPUT_BYTES_MAX {
        return Err(ToolDiscoveryError::Unreadable {
            command,
            why: ToolListError::TooLong,
            stderr,
        });
    }
    match describe_failure(&ended) {
        Some(how) => Err(ToolDiscoveryError::Failed { command, how, stderr }),
        None => Ok(ListCommandOutput { stdout, notes, stderr }),
    }
}

/// Takes in what a service writes until it ends. One that writes too much is ended.
async fn collect_output(
    service: &mut ServiceHandle,
    stdout: &mut Vec<u8>,
    stderr: &mut Vec<u8>,
) -> io::Result<CommandExit> {
    service.stdin = None;
    let (out, err) = (open_pipe(service.stdout.take())?, open_pipe(service.stderr.take())?);
    let service = &*service;
    let written = async {
        let all = read_pipe(out, |bytes| {
            stdout.extend_from_slice(bytes);
            stdout.len() <= OUTPUT_BYTES_MAX
        });
        all.await?;
        if stdout.len() > OUTPUT_BYTES_MAX {
            service.kill();
        }
        io::Result::Ok(())
    };
    let told = read_pipe(err, |bytes| {
        stderr.extend_from_slice(bytes);
        let excess = stderr.len().saturating_sub(STDERR_BYTES_MAX);
        stderr.drain(..excess);
        true
    });
    let ended = async {
        let ended = service.wait().await;
        // What it left running could hold its output open for ever.
        service.kill();
        io::Result::Ok(ended)
    };
    tokio::try_join!(ended, written, told).map(|(ended, ..)| ended)
}

fn open_pipe(end: Option<OwnedFd>) -> io::Result<Option<Receiver>> {
    end.map(Receiver::from_owned_fd).transpose()
}

/// Reads to the end, or for as long as `take` wants more.
async fn read_pipe(pipe: Option<Receiver>, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = pipe.read(&mut buffer).await?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() || !take(bytes) {
            return Ok(());
        }
    }
}

/// How a command ended that did not end well.
fn describe_failure(ended: &CommandExit) -> Option<String> {
    match ended.why {
        ExitCause::MemoryLimit { .. } => return Some("it used more memory than it may".to_owned()),
        ExitCause::ProcessLimit { .. } => {
            return Some("it had more processes than it may".to_owned());
        }
        _ => {}
    }
    match (ended.exit_code, ended.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("it ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("it was ended by {}", signal_name(signal))),
        (None, None) => Some("nobody knows how it ended".to_owned()),
    }
}

/// The end of the error output, as part of a message.
fn describe_stderr(stderr: &str) -> String {
    let mut text = String::new();
    if !stderr.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\nits error output ends in:\n{stderr}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_in_errors_is_escaped() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(escape_unsafe_chars(text), expected, "{text:?}");
        }
        check("one\n\ttwo é 日", "one\n\ttwo é 日");
        check("a\u{1b}b\u{9b}c\u{7f}", "a\\u{1b}b\\u{9b}c\\u{7f}");
        check("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}");
    }

    #[test]
    fn error_states_its_reason_once() {
        let (command, stderr) = ("list".to_owned(), String::new());
        let why = ToolError::failed(ErrorReason::Cancelled, "no");
        for error in [
            ToolDiscoveryError::NotStarted { command: command.clone(), why },
            ToolDiscoveryError::Unreadable { command, why: ToolListError::TooLong, stderr },
            ToolDiscoveryError::Store(io::Error::other("full")),
        ] {
            assert!(std::error::Error::source(&error).is_none(), "{error}");
        }
    }

    #[test]
    fn failed_exit_is_described() {
        #[track_caller]
        fn check(
            exit_code: Option<i32>,
            signal: Option<i32>,
            why: ExitCause,
            expected: Option<&str>,
        ) {
            let ended = CommandExit {
                exit_code,
                signal,
                why,
                cpu_time: Duration::ZERO,
                max_memory_bytes: 0,
                leftover_processes: 0,
            };
            assert_eq!(describe_failure(&ended).as_deref(), expected);
        }
        check(Some(0), None, ExitCause::Finished, None);
        check(Some(3), None, ExitCause::Finished, Some("it ended with exit code 3"));
        check(None, Some(9), ExitCause::Finished, Some("it was ended by SIGKILL"));
        check(None, None, ExitCause::Lost, Some("nobody knows how it ended"));
        let memory = ExitCause::MemoryLimit { limit: 1, used: 2 };
        check(None, Some(9), memory, Some("it used more memory than it may"));
    }
}
