//! [`ServerProcess`], a server that zero starts: its process, its pipes, and its shutdown.
//!
//! It runs like every other service: in the sandbox, with a scrubbed environment, and all its
//! processes are killed with it. Its error output is read while it runs, so that it cannot block on
//! a full pipe. The end of the output is kept, because it usually says why a server failed.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::service::RoleClient;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::char_remainder_len;
use zero_exec::services::{CallRecording, ServiceHandle, ServiceLauncher, ServiceRequest};
use zero_sandbox::ChangeOrigin;

use super::error::ServerUnavailableError;
use super::sanitize;
use super::secrets::ServerSecrets;
use crate::server_definition::{ServerAlias, ServerLaunch};
use crate::wire::{ConnectionDiagnostics, LineTransport, McpMessageLimits};

/// How much of the error output is kept, in bytes.
pub const STDERR_TAIL_BYTES: usize = 8 << 10;
/// How long a server may take to exit after its input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the exit of processes that were killed.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of notes about a server that failed.
const NOTES_MAX: usize = 8;
/// How long to wait for the last output of a server that seems to have died.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that zero started. Dropping it kills all its processes.
pub struct ServerProcess {
    service: Arc<ServiceHandle>,
    diagnostics: ConnectionDiagnostics,
    stderr: Arc<ServerStderrTail>,
    /// Secrets to remove from its error output.
    secrets: ServerSecrets,
    exit: Arc<OnceLock<ServerExit>>,
    ended_token: CancellationToken,
    /// Cancelled when all of its error output has been read.
    drained: CancellationToken,
    /// Cancelling it closes the server's input.
    closing: CancellationToken,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerExit {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal that killed it, if any.
    pub signal: Option<i32>,
}

impl ServerProcess {
    /// Starts a server, and returns it with the transport to it.
    pub async fn start(
        services: &ServiceLauncher,
        launch: &ServerLaunch,
        alias: &ServerAlias,
    ) -> Result<(Self, LineTransport<RoleClient>), ServerUnavailableError> {
        let request = service_request(launch, alias);
        let services = services.clone();
        let started = tokio::task::spawn_blocking(move || services.start(&request)).await;
        let service = match started {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => return Err(start_error(launch, &error.to_string())),
            Err(error) => return Err(start_error(launch, &error.to_string())),
        };
        Self::attach(service, launch, alias).map_err(|why| start_error(launch, &why))
    }

    fn attach(
        mut service: ServiceHandle,
        launch: &ServerLaunch,
        alias: &ServerAlias,
    ) -> Result<(Self, LineTransport<RoleClient>), String> {
        let stdin = open_sender(service.stdin.take())?;
        let stdout = open_receiver(service.stdout.take())?;
        let stderr = open_receiver(service.stderr.take())?;
        let diagnostics = ConnectionDiagnostics::default();
        let lines =
            LineTransport::new(stdout, stdin, McpMessageLimits::default(), diagnostics.clone());
        let process = Self {
            service: Arc::new(service),
            diagnostics,
            stderr: Arc::default(),
            secrets: ServerSecrets::from_launch(launch),
            exit: Arc::default(),
            ended_token: CancellationToken::new(),
            drained: CancellationToken::new(),
            closing: lines.close_token(),
        };
        let reading = drain_stderr(
            stderr,
            Arc::clone(&process.stderr),
            process.secrets.clone(),
            alias.clone(),
        );
        let drained = process.drained.clone().drop_guard();
        tokio::spawn(async move {
            let _drained = drained;
            reading.await;
        });
        tokio::spawn(watch_exit(
            Arc::clone(&process.service),
            Arc::clone(&process.exit),
            process.ended_token.clone(),
            process.drained.clone(),
        ));
        Ok((process, lines))
    }

    /// Records what it changes from now on as changes of this call.
    pub fn record_call(&self, call: ChangeOrigin) -> Option<CallRecording> {
        self.service.record_call(call)
    }

    /// Returns the problems with its messages.
    pub fn diagnostics(&self) -> &ConnectionDiagnostics {
        &self.diagnostics
    }

    /// Whether it was started before a file was denied or replaced, so that it can still read that
    /// file.
    pub async fn is_outdated(&self) -> bool {
        let service = Arc::clone(&self.service);
        // If the check fails, the server counts as outdated.
        tokio::task::spawn_blocking(move || service.is_outdated()).await.unwrap_or(true)
    }

    /// Returns the end of its error output, without secrets and with control characters escaped.
    pub fn stderr_tail(&self) -> String {
        self.stderr.to_text(&self.secrets)
    }

    /// Whether all of its error output has been read.
    pub fn is_drained(&self) -> bool {
        self.drained.is_cancelled()
    }

    /// Returns how it ended, if it has.
    pub fn exit(&self) -> Option<ServerExit> {
        self.exit.get().copied()
    }

    /// Returns notes for the user, such as blocked hosts.
    pub fn notes(&self) -> Vec<String> {
        self.service.notes()
    }

    /// Returns what the sandbox blocked and may have caused a failure, and the settings that would
    /// allow it.
    pub fn refusals(&self) -> Vec<String> {
        explain_refusals(self.notes(), &self.stderr_tail())
    }

    /// Waits until it has exited.
    pub async fn wait_for_exit(&self) {
        self.ended_token.cancelled().await;
    }

    /// Returns why it cannot be used any more, with its exit status and the end of its error
    /// output.
    pub async fn describe_failure(&self, what: &str) -> ServerUnavailableError {
        // The output of a dying process ends a moment before its exit status is known.
        let rest = async {
            self.wait_for_exit().await;
            self.drained.cancelled().await;
        };
        let _ = tokio::time::timeout(EXIT_REPORT_TIMEOUT, rest).await;
        let exit = self.exit();
        let message = match exit {
            Some(ServerExit { code: Some(code), .. }) => {
                format!("{what}: it ended with exit code {code}")
            }
            Some(ServerExit { signal: Some(signal), .. }) => {
                format!("{what}: it was ended by signal {signal}")
            }
            Some(_) => format!("{what}: it ended"),
            None => match self.diagnostics.close_cause() {
                Some(why) => format!("{what}: {why}"),
                None => what.to_owned(),
            },
        };
        ServerUnavailableError {
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            stderr_tail: self.stderr_tail(),
            notes: self.refusals(),
            ..ServerUnavailableError::new(message)
        }
    }

    /// Shuts it down: closes its input, then sends SIGTERM, then kills all its processes.
    pub async fn shut_down(&self) {
        self.closing.cancel();
        if self.wait_for_exit_within(GRACE).await {
            return;
        }
        self.service.terminate();
        if self.wait_for_exit_within(GRACE).await {
            return;
        }
        self.service.kill();
        self.wait_for_exit_within(KILL_WAIT_MAX).await;
    }

    async fn wait_for_exit_within(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.wait_for_exit()).await.is_ok()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.service.kill();
    }
}

/// Texts in the error output of programs that cannot reach a host.
const NETWORK_REFUSAL_TEXTS: [&str; 7] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ENETUNREACH",
    "name resolution",
    "Could not resolve",
    "Network is unreachable",
    "403 Forbidden",
];
/// Texts in the error output of programs that may not change a file.
const WRITE_REFUSAL_TEXTS: [&str; 5] =
    ["EROFS", "EACCES", "EPERM", "Read-only file system", "Permission denied"];

/// Adds the settings that would allow what the sandbox seems to have blocked. Only the server's own
/// output tells whether it was refused to change a file.
fn explain_refusals(mut notes: Vec<String>, stderr: &str) -> Vec<String> {
    notes.truncate(NOTES_MAX);
    let contains_any = |texts: &[&str]| texts.iter().any(|text| stderr.contains(text));
    if notes.iter().any(|note| note.starts_with("network:")) || contains_any(&NETWORK_REFUSAL_TEXTS)
    {
        notes.push(
            "it runs in a sandbox: list the hosts that it needs under `network` of this server, such as [\"api.example.com\"]"
                .to_owned(),
        );
    }
    if contains_any(&WRITE_REFUSAL_TEXTS) {
        notes.push(
            "it runs in a sandbox: list the folders that it must change under `writable` of this server, such as [\"~/.npm\"]"
                .to_owned(),
        );
    }
    notes
}

/// The service that a server is.
pub fn service_request(launch: &ServerLaunch, alias: &ServerAlias) -> ServiceRequest {
    let mut words = vec![launch.command.clone()];
    words.extend(launch.args.iter().cloned());
    ServiceRequest {
        name: format!("mcp-{alias}"),
        words,
        folder: Some(launch.folder.clone()),
        variables: launch.variables.clone(),
        network: launch.network.clone(),
        writable: launch.writable.clone(),
        ..ServiceRequest::default()
    }
}

fn start_error(launch: &ServerLaunch, why: &str) -> ServerUnavailableError {
    let secrets = ServerSecrets::from_launch(launch);
    let command = launch.command.escape_debug();
    ServerUnavailableError::new(secrets.redact(&format!("`{command}` could not be started: {why}")))
}

fn open_sender(fd: Option<OwnedFd>) -> Result<pipe::Sender, String> {
    let fd = fd.ok_or("it has no input")?;
    pipe::Sender::from_owned_fd(fd).map_err(|error| format!("its input is not a pipe: {error}"))
}

fn open_receiver(fd: Option<OwnedFd>) -> Result<pipe::Receiver, String> {
    let fd = fd.ok_or("it has no output")?;
    pipe::Receiver::from_owned_fd(fd).map_err(|error| format!("its output is not a pipe: {error}"))
}

async fn watch_exit(
    service: Arc<ServiceHandle>,
    exit: Arc<OnceLock<ServerExit>>,
    ended_token: CancellationToken,
    drained: CancellationToken,
) {
    let how = service.wait().await;
    // The exit is reported together with the last output.
    let _ = tokio::time::timeout(EXIT_REPORT_TIMEOUT, drained.cancelled()).await;
    let _ = exit.set(ServerExit { code: how.exit_code, signal: how.signal });
    ended_token.cancel();
}

/// Reads the error output until it ends.
async fn drain_stderr(
    mut stderr: pipe::Receiver,
    tail: Arc<ServerStderrTail>,
    secrets: ServerSecrets,
    alias: ServerAlias,
) {
    let mut chunk = vec![0; 4 << 10];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let text = chunk.get(..length).unwrap_or_default();
        tail.add(text);
        tracing::debug!(server = %alias, text = %render_tail(text, &secrets), "error output");
    }
}

/// The last bytes of the error output.
#[derive(Default)]
struct ServerStderrTail(Mutex<VecDeque<u8>>);

impl ServerStderrTail {
    fn add(&self, bytes: &[u8]) {
        let mut stderr_tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.get(bytes.len().saturating_sub(STDERR_TAIL_BYTES)..).unwrap_or(bytes);
        let excess = (stderr_tail.len() + bytes.len()).saturating_sub(STDERR_TAIL_BYTES);
        stderr_tail.drain(..excess);
        stderr_tail.extend(bytes);
    }

    fn to_text(&self, secrets: &ServerSecrets) -> String {
        let mut stderr_tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        render_tail(stderr_tail.make_contiguous(), secrets)
    }
}

/// Renders error output without secrets and unsafe characters.
fn render_tail(bytes: &[u8], secrets: &ServerSecrets) -> String {
    // Redacted before it is escaped, so that a secret with a line break is recognized.
    let bytes = bytes.get(char_remainder_len(bytes)..).unwrap_or_default();
    sanitize::escape_unsafe_chars(&secrets.redact_tail(&String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests;
