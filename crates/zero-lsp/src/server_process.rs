//! A language server as a process ([`LanguageServerProcess`]): started in the sandbox, its stderr
//! read, its exit observed.
//!
//! The server has the same read access as commands. It may write only to temporary files and to its
//! cache folder, and has no network access.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::char_remainder_len;
use zero_core::{CommandLimit, CommandLimitChange};
use zero_exec::LaunchAccess;
use zero_exec::services::{ServiceHandle, ServiceLauncher, ServiceRequest};
use zero_sandbox::running_command::{CommandExit, ExitCause};

use crate::server_definition::LanguageServerDefinition;

/// How many bytes of stderr are kept.
const STDERR_BYTES_MAX: usize = 4 << 10;
/// How long to wait for the last stderr output of a server that exited.
const STDERR_WAIT_MAX: Duration = Duration::from_millis(300);
/// Resource limits unless settings change them. A server keeps a whole project in memory.
const LIMITS: [(CommandLimit, &str); 4] = [
    (CommandLimit::Memory, "2GB"),
    (CommandLimit::Cpu, "200%"),
    (CommandLimit::OpenFiles, "8192"),
    (CommandLimit::File, "500MB"),
];

/// A running server. Dropping it kills all of its processes.
pub(crate) struct LanguageServerProcess {
    service: Arc<ServiceHandle>,
    stderr: Arc<StderrTail>,
    exit: Arc<OnceLock<String>>,
    ended_token: CancellationToken,
}

/// stdin and stdout of the server.
pub(crate) struct LanguageServerPipes {
    pub(crate) input: pipe::Sender,
    pub(crate) output: pipe::Receiver,
}

impl LanguageServerProcess {
    /// Starts a server in a workspace folder. `words` are its program and arguments, `cache` is its
    /// cache folder, `path` its `PATH`.
    pub(crate) async fn start(
        services: &ServiceLauncher,
        server: &LanguageServerDefinition,
        words: Vec<String>,
        root: &Path,
        cache: Option<PathBuf>,
        path: Option<String>,
    ) -> Result<(Self, LanguageServerPipes), String> {
        let mut request = service_request(server, words, root, cache);
        // Prepended, so that a variable from settings overrides it.
        request.variables.splice(0..0, path.map(|path| ("PATH".to_owned(), path)));
        let services = services.clone();
        let started = tokio::task::spawn_blocking(move || services.start(&request)).await;
        let service = started.map_err(|error| error.to_string())?.map_err(|error| error.message)?;
        Self::from_service(service, &server.name)
    }

    fn from_service(
        mut service: ServiceHandle,
        name: &str,
    ) -> Result<(Self, LanguageServerPipes), String> {
        let pipes = LanguageServerPipes {
            input: pipe::Sender::from_owned_fd(require_pipe(service.stdin.take())?)
                .map_err(pipe_error)?,
            output: open_receiver(service.stdout.take())?,
        };
        let stderr = open_receiver(service.stderr.take())?;
        let process = Self {
            service: Arc::new(service),
            stderr: Arc::default(),
            exit: Arc::default(),
            ended_token: CancellationToken::new(),
        };
        let drained = CancellationToken::new();
        let reading = drain_stderr(stderr, Arc::clone(&process.stderr), name.to_owned());
        let done = drained.clone().drop_guard();
        tokio::spawn(async move {
            let _done = done;
            reading.await;
        });
        let (service, exit) = (Arc::clone(&process.service), Arc::clone(&process.exit));
        let ended = process.ended_token.clone();
        tokio::spawn(async move {
            let how = service.wait().await;
            // A caller that learns of the exit also needs the last stderr output.
            let _ = tokio::time::timeout(STDERR_WAIT_MAX, drained.cancelled()).await;
            let _ = exit.set(describe_exit(&how));
            ended.cancel();
        });
        Ok((process, pipes))
    }

    /// Describes why the server is unusable: how it exited, and the end of its stderr.
    pub(crate) async fn describe_failure(&self, what: &str) -> String {
        // stdout ends a moment before the exit status is known.
        let _ = tokio::time::timeout(2 * STDERR_WAIT_MAX, self.ended_token.cancelled()).await;
        let exit = self.exit.get().map_or(what, String::as_str);
        match self.stderr.render() {
            stderr_text if stderr_text.is_empty() => exit.to_owned(),
            stderr_text => format!("{exit}; stderr: {stderr_text}"),
        }
    }

    /// Waits for the exit. Returns false if it takes longer than `limit`.
    pub(crate) async fn wait_for_exit(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.ended_token.cancelled()).await.is_ok()
    }

    /// Kills all processes of the server.
    pub(crate) fn kill(&self) {
        self.service.kill();
    }

    /// Returns whether the server can see a file that was denied or replaced after it started.
    pub(crate) async fn is_outdated(&self) -> bool {
        let service = Arc::clone(&self.service);
        // If the check fails, the server counts as outdated.
        tokio::task::spawn_blocking(move || service.is_outdated()).await.unwrap_or(true)
    }

    /// Kills all processes once `over` is cancelled, unless the server exits within `grace`.
    pub(crate) fn kill_after(&self, over: CancellationToken, grace: Duration) {
        let (service, ended) = (Arc::clone(&self.service), self.ended_token.clone());
        tokio::spawn(async move {
            over.cancelled().await;
            if tokio::time::timeout(grace, ended.cancelled()).await.is_err() {
                service.kill();
            }
        });
    }

    /// Returns the process id at the top of the process tree.
    pub(crate) fn pid(&self) -> i32 {
        self.service.pid
    }
}

impl Drop for LanguageServerProcess {
    fn drop(&mut self) {
        self.service.kill();
    }
}

fn service_request(
    server: &LanguageServerDefinition,
    words: Vec<String>,
    root: &Path,
    cache: Option<PathBuf>,
) -> ServiceRequest {
    // Variables that lead programs to write into the cache folder and not into the project.
    let made = cache.iter().filter_map(|cache| cache.to_str()).flat_map(|cache| {
        [
            ("XDG_CACHE_HOME", cache.to_owned()),
            ("CARGO_TARGET_DIR", format!("{cache}/target")),
            ("GOCACHE", format!("{cache}/go-build")),
        ]
    });
    let quiet = [("CARGO_NET_OFFLINE", "true".to_owned()), ("GOFLAGS", "-mod=readonly".to_owned())];
    let variables = made.chain(quiet).map(|(name, value)| (name.to_owned(), value));
    let mut limits = CommandLimitChange::default();
    for (limit, value) in LIMITS {
        // Cannot fail: all values of the table are valid.
        let _ = limits.set(limit, value);
    }
    for (name, value) in server.limits.format_values() {
        if let Some(limit) = CommandLimit::from_name(name) {
            let _ = limits.set(limit, &value);
        }
    }
    ServiceRequest {
        name: format!("lsp-{}", server.name),
        words,
        folder: Some(root.to_owned()),
        variables: variables.chain(server.variables.clone()).collect(),
        writable: cache.into_iter().collect(),
        limits,
        access: LaunchAccess::ReadOnly,
        ..ServiceRequest::default()
    }
}

fn describe_exit(exit: &CommandExit) -> String {
    match (exit.why, exit.exit_code, exit.signal) {
        (ExitCause::MemoryLimit { limit, .. }, ..) => format!(
            "it exceeded its memory limit of {}; raise `command-memory` in `limits` of this server in `lspServers`",
            zero_core::ByteSize::bytes(limit)
        ),
        (ExitCause::ProcessLimit { limit, .. }, ..) => format!(
            "it exceeded its limit of {limit} processes; raise `command-processes` in `limits` of this server in `lspServers`"
        ),
        (_, Some(code), _) => format!("it ended with exit code {code}"),
        (_, None, Some(signal)) => format!("it was killed by signal {signal}"),
        (_, None, None) => "it ended".to_owned(),
    }
}

fn require_pipe(fd: Option<OwnedFd>) -> Result<OwnedFd, String> {
    fd.ok_or_else(|| "its pipe is missing".to_owned())
}

fn open_receiver(fd: Option<OwnedFd>) -> Result<pipe::Receiver, String> {
    pipe::Receiver::from_owned_fd(require_pipe(fd)?).map_err(pipe_error)
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` needs")]
fn pipe_error(error: std::io::Error) -> String {
    format!("its pipe cannot be used: {error}")
}

/// Reads stderr until it ends, so that no server blocks on a full pipe.
async fn drain_stderr(mut stderr: pipe::Receiver, tail: Arc<StderrTail>, server: String) {
    let mut chunk = vec![0; 4 << 10];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let text = chunk.get(..length).unwrap_or_default();
        tail.push(text);
        tracing::trace!(server, bytes = length, "error output");
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut stderr_tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.get(bytes.len().saturating_sub(STDERR_BYTES_MAX)..).unwrap_or(bytes);
        let excess = (stderr_tail.len() + bytes.len()).saturating_sub(STDERR_BYTES_MAX);
        stderr_tail.drain(..excess);
        stderr_tail.extend(bytes);
    }

    /// Returns its first and last lines without control characters.
    fn render(&self) -> String {
        let mut stderr_tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = stderr_tail.make_contiguous();
        let whole = kept.get(char_remainder_len(kept)..).unwrap_or_default();
        let text = String::from_utf8_lossy(whole).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let excerpt = match &lines[..] {
            [first, second, .., last] if lines.len() > 5 => {
                [*first, *second, "…", *last].join("\n")
            }
            few => few.join("\n"),
        };
        zero_core::sanitize::escape_unsafe_chars(&excerpt)
    }
}
