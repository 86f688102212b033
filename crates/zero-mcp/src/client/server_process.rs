//! A server that runs here: its process, its pipes, and its end.
//!
//! It runs as every program beside calls does: confined, with a scrubbed environment, its tree
//! killed with it. Its error output is read for as long as it runs, so that no server hangs on a
//! full pipe, and the end of it is kept: mostly it says why a server failed.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::service::RoleClient;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use zero_exec::services::{ServiceHandle, ServiceLauncher, ServiceRequest};

use super::error::ServerUnavailableError;
use super::sanitize;
use super::secrets::ServerSecrets;
use crate::server_definition::{ServerAlias, ServerLaunch};
use crate::wire::{ConnectionDiagnostics, LineTransport, McpMessageLimits};

/// How much of the error output is kept.
pub const STDERR_TAIL_BYTES: usize = 8 << 10;
/// How long a server may take to end by itself once its input has ended, and once more after it was
/// told to.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a tree that was killed is waited for.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);
/// Most notes on a server that failed.
const NOTES_MAX: usize = 8;
/// How long the last words of a server that seems to have died are waited for.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that runs here. Dropping it ends every process of it at once.
pub struct ServerProcess {
    service: Arc<ServiceHandle>,
    troubles: ConnectionDiagnostics,
    stderr: Arc<ServerStderrTail>,
    /// What its error output must not give away.
    secrets: ServerSecrets,
    exit: Arc<OnceLock<ServerExit>>,
    ended: CancellationToken,
    /// All of its error output has been read.
    drained: CancellationToken,
    /// Ends the input of the server.
    closing: CancellationToken,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerExit {
    /// What it returned, if it returned.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

impl ServerProcess {
    /// Starts a server, and gives the transport that talks to it.
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
        let troubles = ConnectionDiagnostics::default();
        let lines =
            LineTransport::new(stdout, stdin, McpMessageLimits::default(), troubles.clone());
        let process = Self {
            service: Arc::new(service),
            troubles,
            stderr: Arc::default(),
            secrets: ServerSecrets::from_launch(launch),
            exit: Arc::default(),
            ended: CancellationToken::new(),
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
            process.ended.clone(),
            process.drained.clone(),
        ));
        Ok((process, lines))
    }

    /// What went wrong in what it said.
    pub fn diagnostics(&self) -> &ConnectionDiagnostics {
        &self.troubles
    }

    /// Whether it can see what may not be read, because that came after it.
    pub async fn is_outdated(&self) -> bool {
        let service = Arc::clone(&self.service);
        // Where nobody could look, nobody can say.
        tokio::task::spawn_blocking(move || service.is_outdated()).await.unwrap_or(true)
    }

    /// The end of its error output, without secrets, control characters escaped.
    pub fn stderr_tail(&self) -> String {
        self.stderr.to_text(&self.secrets)
    }

    /// Whether all of its error output has been read.
    pub fn is_drained(&self) -> bool {
        self.drained.is_cancelled()
    }

    /// How it ended, if it did.
    pub fn exit(&self) -> Option<ServerExit> {
        self.exit.get().copied()
    }

    /// What a person should know of it, such as hosts that it was refused.
    pub fn notes(&self) -> Vec<String> {
        self.service.notes()
    }

    /// What it was refused that may be why it failed, and the settings that would allow it.
    pub fn refusals(&self) -> Vec<String> {
        explain_refusals(self.notes(), &self.stderr_tail())
    }

    /// Waits until it has ended.
    pub async fn wait_for_exit(&self) {
        self.ended.cancelled().await;
    }

    /// Why it is of no use any more, with its exit and the end of its error output.
    pub async fn describe_failure(&self, what: &str) -> ServerUnavailableError {
        // The output of a process that dies ends a moment before the rest is known.
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
            None => match self.troubles.close_cause() {
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

    /// Ends it: its input ends, then it is told to end, then it is killed with all that came of it.
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

/// What programs say when they cannot reach a host.
const NETWORK_REFUSAL_TEXTS: [&str; 7] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ENETUNREACH",
    "name resolution",
    "Could not resolve",
    "Network is unreachable",
    "403 Forbidden",
];
/// What programs say when they may not change a file.
const WRITE_REFUSAL_TEXTS: [&str; 5] =
    ["EROFS", "EACCES", "EPERM", "Read-only file system", "Permission denied"];

/// Notes on a server that failed, with the settings that would allow what its confinement seems to
/// have refused. That a program was refused a change of a file only the program itself can say.
fn explain_refusals(mut notes: Vec<String>, stderr: &str) -> Vec<String> {
    notes.truncate(NOTES_MAX);
    let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if notes.iter().any(|note| note.starts_with("network:")) || says(&NETWORK_REFUSAL_TEXTS) {
        notes.push(
            "it runs confined: list the hosts that it needs in `network` of this server, such as [\"api.example.com\"]"
                .to_owned(),
        );
    }
    if says(&WRITE_REFUSAL_TEXTS) {
        notes.push(
            "it runs confined: list the folders that it must change in `writable` of this server, such as [\"~/.npm\"]"
                .to_owned(),
        );
    }
    notes
}

fn service_request(launch: &ServerLaunch, alias: &ServerAlias) -> ServiceRequest {
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
    pipe::Sender::from_owned_fd(fd).map_err(|error| format!("its input is no pipe: {error}"))
}

fn open_receiver(fd: Option<OwnedFd>) -> Result<pipe::Receiver, String> {
    let fd = fd.ok_or("it has no output")?;
    pipe::Receiver::from_owned_fd(fd).map_err(|error| format!("its output is no pipe: {error}"))
}

async fn watch_exit(
    service: Arc<ServiceHandle>,
    exit: Arc<OnceLock<ServerExit>>,
    ended: CancellationToken,
    drained: CancellationToken,
) {
    let how = service.wait().await;
    // Whoever learns that it ended wants to know what it said last.
    let _ = tokio::time::timeout(EXIT_REPORT_TIMEOUT, drained.cancelled()).await;
    let _ = exit.set(ServerExit { code: how.exit_code, signal: how.signal });
    ended.cancel();
}

/// Reads error output until it ends. What reads slower than a server writes makes the server wait.
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

/// The end of a stream of bytes.
#[derive(Default)]
struct ServerStderrTail(Mutex<VecDeque<u8>>);

impl ServerStderrTail {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.get(bytes.len().saturating_sub(STDERR_TAIL_BYTES)..).unwrap_or(bytes);
        let excess = (kept.len() + bytes.len()).saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..excess);
        kept.extend(bytes);
    }

    fn to_text(&self, secrets: &ServerSecrets) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        render_tail(kept.make_contiguous(), secrets)
    }
}

/// Error output as it may be told.
fn render_tail(bytes: &[u8], secrets: &ServerSecrets) -> String {
    // Escaped later: a secret with a line break must be recognised.
    sanitize::escape_unsafe_chars(&secrets.redact_tail(&String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests;
