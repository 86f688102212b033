//! Runs the list command: sandboxed, with a time limit and bounded output.

use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use zero_core::ansi_filter;
use zero_core::sanitize::escape_unsafe_chars;
use zero_core::{ErrorReason, ToolError, signal_name};
use zero_runtime::{ServiceHandle, ServiceLauncher, ServiceRequest};
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::tool_declaration::{OUTPUT_BYTES_MAX, ToolListError};

/// How long to wait for a killed command to exit.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Bytes of stderr shown in errors.
const STDERR_BYTES_MAX: usize = 4_000;
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// Why a command did not list its tools. The tools listed before stay. The messages include their
/// causes, so no error has a source that would repeat them.
#[derive(Debug, thiserror::Error)]
pub enum ToolDiscoveryError {
    /// No command is configured.
    #[error("no tool discovery command is set; set `tools.toolDiscoveryCommand`")]
    NoCommand,
    /// The command could not be started.
    #[error("the tool discovery command `{command}` did not start: {why}")]
    NotStarted {
        /// The command line.
        command: String,
        /// The reason.
        why: ToolError,
    },
    /// The command did not end in time.
    #[error("`{command}` did not list its tools within {} s and was stopped{}", .limit.as_secs_f32(), describe_stderr(.stderr))]
    TimedOut {
        /// The command line.
        command: String,
        /// The time limit.
        limit: Duration,
        /// The end of its stderr.
        stderr: String,
    },
    /// The command failed.
    #[error("`{command}` did not list its tools: {how}{}", describe_stderr(.stderr))]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        how: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// The output is not a list of tools.
    #[error("`{command}` did not list its tools: {why}; it must print a JSON array such as `[{{\"name\": \"hello\", \"description\": \"…\", \"parameters\": {{\"type\": \"object\"}}}}]` and nothing else; messages belong on stderr{}", describe_stderr(.stderr))]
    Unreadable {
        /// The command line.
        command: String,
        /// What is wrong with the output.
        why: ToolListError,
        /// The end of its stderr.
        stderr: String,
    },
    /// The list could not be stored.
    #[error("the list of tools cannot be stored, and nothing was changed: {0}")]
    Store(io::Error),
}

/// The output of the list command.
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

/// Runs a command to its end. No process of it is left afterwards, whatever happens.
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
    // Waited for here, so that no later caller has to wait for it.
    let _ = tokio::time::timeout(EXIT_WAIT_MAX, service.wait()).await;
    let notes = service.notes();
    let stderr = escape_unsafe_chars(ansi_filter::strip(&stderr).trim_end());
    let exit = match ended {
        Err(_) => return Err(ToolDiscoveryError::TimedOut { command, limit, stderr }),
        Ok(Err(error)) => {
            let how = format!("its output cannot be read: {error}");
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
    match describe_failure(&exit) {
        Some(how) => Err(ToolDiscoveryError::Failed { command, how, stderr }),
        None => Ok(ListCommandOutput { stdout, notes, stderr }),
    }
}

/// Collects the output of a service until it ends. A service that writes too much is killed.
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
    let collected = read_pipe(err, |bytes| {
        stderr.extend_from_slice(bytes);
        let excess = stderr.len().saturating_sub(STDERR_BYTES_MAX);
        stderr.drain(..excess);
        true
    });
    let ended = async {
        let exit = service.wait().await;
        // Processes that it left running could keep its output open forever.
        service.kill();
        io::Result::Ok(exit)
    };
    tokio::try_join!(ended, written, collected).map(|(command_exit, ..)| command_exit)
}

fn open_pipe(end: Option<OwnedFd>) -> io::Result<Option<Receiver>> {
    end.map(Receiver::from_owned_fd).transpose()
}

/// Reads until the end, or until `take` returns false.
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

/// Describes how a command failed, or returns `None` if it succeeded.
fn describe_failure(exit: &CommandExit) -> Option<String> {
    match exit.why {
        ExitCause::MemoryLimit { .. } => return Some("it exceeded its memory limit".to_owned()),
        ExitCause::ProcessLimit { .. } => {
            return Some("it exceeded its limit of processes".to_owned());
        }
        ExitCause::DiskLimit { .. } | ExitCause::DiskFull { .. } => {
            return Some("it filled the disk".to_owned());
        }
        _ => {}
    }
    match (exit.exit_code, exit.signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("it ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("it was killed by {}", signal_name(signal))),
        (None, None) => Some("it ended in an unknown way".to_owned()),
    }
}

/// Renders the end of stderr as part of a message.
fn describe_stderr(stderr: &str) -> String {
    let mut text = String::new();
    if !stderr.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\nthe end of its stderr:\n{stderr}");
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
                read_bytes: 0,
                written_bytes: 0,
                leftover_processes: 0,
            };
            assert_eq!(describe_failure(&ended).as_deref(), expected);
        }
        check(Some(0), None, ExitCause::Finished, None);
        check(Some(3), None, ExitCause::Finished, Some("it ended with exit code 3"));
        check(None, Some(9), ExitCause::Finished, Some("it was killed by SIGKILL"));
        check(None, None, ExitCause::Lost, Some("it ended in an unknown way"));
        let memory = ExitCause::MemoryLimit { limit: 1, used: 2 };
        check(None, Some(9), memory, Some("it exceeded its memory limit"));
    }
}
