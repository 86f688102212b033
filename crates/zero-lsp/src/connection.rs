//! The connection to one running language server ([`LspConnection`]): requests, notifications,
//! document synchronization and shutdown.
//!
//! Every wait is bounded. A request has a time limit and fails at once when the server exits.
//! Requests of the server are answered without blocking, and a server that stops reading its input
//! is killed.

mod handshake;
mod server_progress;
mod server_requests;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zero_exec::services::ServiceLauncher;
use zero_sandbox::{StateDir, path_survey};

use self::server_progress::LanguageServerProgress;
use self::transport::{
    LspConnectionState, LspResponse, PENDING_MAX, encode_message, read_messages, write_messages,
};
use crate::diagnostics_store::{DiagnosticsStore, FileDiagnostics};
use crate::error::LspError;
use crate::language_servers::LanguageServerLimits;
use crate::open_documents::{
    DocumentText, DocumentVersion, LspNotification, OPEN_MAX, OpenDocuments,
};
use crate::position::PositionEncoding;
use crate::server_definition::LanguageServerDefinition;
use crate::server_process::{LanguageServerPipes, LanguageServerProcess};
use crate::uri;

/// Messages queued for the server: enough to synchronize one file twice.
const OUTBOX_MAX: usize = 2 * SYNC_MESSAGES_MAX;
/// Most messages needed to synchronize one file: each open file may have to be closed for it.
const SYNC_MESSAGES_MAX: usize = OPEN_MAX + 4;
/// Requests in a row that may time out before the server is considered hung.
const UNANSWERED_MAX: u32 = 3;
/// How long a server may take to exit by itself, and to exit after its input was closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for a killed server: only one blocked in the kernel takes longer.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
/// JSON-RPC error codes `ContentModified` and `ServerCancelled`: the request may be retried.
const RETRYABLE_CODES: [i64; 2] = [-32801, -32802];
/// How often a request is tried if the server answers with one of [`RETRYABLE_CODES`].
const TRIES_MAX: u32 = 4;

/// How a server is started.
pub(crate) struct LanguageServerLaunchOptions<'a> {
    pub(crate) services: &'a ServiceLauncher,
    pub(crate) server: &'a LanguageServerDefinition,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The workspace folder that the server is for.
    pub(crate) root: &'a Path,
    /// The folder for the server's cache.
    pub(crate) cache: Option<StateDir>,
    /// The value of `PATH` for the server.
    pub(crate) path: Option<String>,
    pub(crate) bounds: LanguageServerLimits,
}

/// The connection to a running server. Dropping it ends the server.
pub struct LspConnection {
    shared: Arc<LspConnectionState>,
    process: LanguageServerProcess,
    documents: tokio::sync::Mutex<OpenDocuments>,
    encoding: PositionEncoding,
    capabilities: Value,
    root: PathBuf,
    since: Instant,
    silent: AtomicU32,
    cache: Option<StateDir>,
    /// How long the server may leave its input unread while messages are waiting.
    stuck_max: Duration,
}

impl LspConnection {
    /// Starts a server and performs the `initialize` handshake.
    pub(crate) async fn start(start: LanguageServerLaunchOptions<'_>) -> Result<Self, LspError> {
        let LanguageServerLaunchOptions { services, server, words, root, cache, path, bounds } =
            start;
        let (limit, stuck_max) = (bounds.start_max, bounds.stuck_max);
        let not_started = |why: String| LspError::NotStarted { server: server.name.clone(), why };
        let folder = cache.as_ref().map(|cache| cache.path().to_owned());
        let started =
            LanguageServerProcess::start(services, server, words, root, folder, path).await;
        let (process, pipes) = started.map_err(not_started)?;
        let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let folder = json!({"uri": uri::from_path(root), "name": name.unwrap_or_default()});
        let (outbox, waiting) = mpsc::channel(OUTBOX_MAX);
        let shared = Arc::new(LspConnectionState {
            server: server.name.clone(),
            outbox,
            pending: Mutex::default(),
            next_id: AtomicI64::new(1),
            invalid_messages: AtomicU32::new(0),
            published: DiagnosticsStore::default(),
            progress: LanguageServerProgress::default(),
            folders: json!([folder]),
            settings: server.settings.clone(),
            closed: CancellationToken::new(),
            why: OnceLock::new(),
        });
        let LanguageServerPipes { input, output } = pipes;
        process.kill_after(shared.closed.clone(), GRACE);
        tokio::spawn(write_messages(input, waiting, Arc::clone(&shared), stuck_max));
        tokio::spawn(read_messages(output, Arc::clone(&shared)));
        let mut connection = Self {
            shared,
            process,
            documents: tokio::sync::Mutex::default(),
            encoding: PositionEncoding::default(),
            capabilities: Value::Null,
            root: root.to_owned(),
            since: Instant::now(),
            silent: AtomicU32::new(0),
            cache,
            stuck_max,
        };
        let greeting = handshake::initialize_params(
            root,
            &connection.shared.folders,
            &server.initialization_options,
        );
        let answer = match connection.request_once("initialize", greeting, limit).await {
            Ok(answer) => answer,
            Err(LspError::Unavailable { why, .. }) => return Err(not_started(why)),
            Err(LspError::TimedOut { .. }) => {
                let what = format!("it did not answer within {} s", limit.as_secs());
                return Err(not_started(connection.process.describe_failure(&what).await));
            }
            Err(error) => return Err(not_started(error.to_string())),
        };
        connection.encoding = handshake::negotiated_encoding(&answer).map_err(not_started)?;
        connection.capabilities = answer.get("capabilities").cloned().unwrap_or_default();
        connection.notify("initialized", json!({})).await?;
        if !server.settings.is_null() {
            let settings = json!({"settings": server.settings});
            connection.notify("workspace/didChangeConfiguration", settings).await?;
        }
        connection.since = Instant::now();
        Ok(connection)
    }

    /// Returns the name of the server, as in its definition.
    pub fn server_name(&self) -> &str {
        &self.shared.server
    }

    /// Returns the workspace folder that the server is for.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the units in which the server counts characters of a line.
    pub fn encoding(&self) -> PositionEncoding {
        self.encoding
    }

    /// Returns the process id at the top of the server's process tree.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns whether requests can still be sent.
    pub fn is_alive(&self) -> bool {
        !self.shared.closed.is_cancelled()
    }

    /// Returns whether the server announced a capability, such as `hoverProvider`.
    pub fn supports(&self, capability: &str) -> bool {
        match self.capabilities.get(capability) {
            Some(Value::Bool(offered)) => *offered,
            Some(Value::Null) | None => false,
            Some(_) => true,
        }
    }

    /// Sends a request and returns the raw result. Retries if the project changed while the server
    /// was working on it.
    pub async fn request(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, LspError> {
        let mut pause = Duration::from_millis(100);
        for _ in 1..TRIES_MAX {
            match self.request_once(method, params.clone(), limit).await {
                Err(LspError::Refused { code, .. }) if RETRYABLE_CODES.contains(&code) => {
                    tokio::time::sleep(pause).await;
                    pause *= 3;
                }
                answer => return answer,
            }
        }
        self.request_once(method, params, limit).await
    }

    async fn request_once(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, LspError> {
        let (question, answer) = self.shared.register_request().ok_or_else(|| {
            self.shared.closed_error(format!("{PENDING_MAX} requests are pending already"))
        })?;
        let id = question.id;
        let message = encode_message(Some(id), method, params);
        let asking = async {
            self.send(message).await?;
            tokio::select! {
                biased;
                answered = answer => answered.map_err(|_| ()),
                () = self.shared.closed.cancelled() => Err(()),
            }
        };
        let what = || method.to_owned();
        let server = || self.shared.server.clone();
        match tokio::time::timeout(limit, asking).await {
            Ok(Ok(LspResponse::Result(result))) => {
                self.silent.store(0, Ordering::Relaxed);
                Ok(result)
            }
            Ok(Ok(LspResponse::Error { code, message })) => {
                Err(LspError::Refused { server: server(), what: what(), code, message })
            }
            Ok(Ok(LspResponse::Invalid)) => {
                Err(LspError::InvalidResponse { server: server(), what: what() })
            }
            Ok(Err(())) => Err(self.closed_error().await),
            Err(_) => {
                drop(question);
                if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_MAX {
                    self.shared
                        .close(format!("it did not answer {UNANSWERED_MAX} requests in a row"));
                }
                Err(LspError::TimedOut { server: server(), what: what(), limit })
            }
        }
    }

    /// Makes sure that the server has a file open with this text. Returns the version that the text
    /// has.
    pub async fn sync_document(&self, text: DocumentText<'_>) -> Result<DocumentVersion, LspError> {
        let mut documents = self.documents.lock().await;
        // Capacity for all messages is reserved before the first is sent, so that a caller that is
        // cancelled leaves the server with all of them or none.
        let capacity =
            self.with_stall_limit(self.shared.outbox.reserve_many(SYNC_MESSAGES_MAX)).await;
        let Ok(Ok(mut capacity)) = capacity else { return Err(self.closed_error().await) };
        let since = self.shared.published.count();
        let (sent, notifications) =
            documents.sync(text, since, Instant::now(), path_survey::read_stamp);
        for ((method, params), permit) in notifications.into_iter().zip(&mut capacity) {
            permit.send(encode_message(None, method, params));
        }
        Ok(sent)
    }

    /// Notifies the server that a file was saved with the text it has, if it has the file open.
    pub async fn notify_saved(&self, path: &Path) -> Result<(), LspError> {
        self.notify_documents(|documents| {
            let saved = json!({"textDocument": {"uri": uri::from_path(path)}});
            documents.is_open(path).then_some(("textDocument/didSave", saved))
        })
        .await
    }

    /// Closes a file, so that the server reads it from disk again.
    pub async fn close_file(&self, path: &Path) -> Result<(), LspError> {
        self.notify_documents(|documents| documents.close(path)).await
    }

    /// Sends one notification about an open document. As in [`Self::sync_document`], the lock is
    /// held until it is queued, so that no other notification about files comes in between.
    async fn notify_documents(
        &self,
        notify: impl FnOnce(&mut OpenDocuments) -> Option<LspNotification>,
    ) -> Result<(), LspError> {
        let mut documents = self.documents.lock().await;
        let capacity = self.with_stall_limit(self.shared.outbox.reserve()).await;
        let Ok(Ok(capacity)) = capacity else { return Err(self.closed_error().await) };
        if let Some((method, params)) = notify(&mut documents) {
            capacity.send(encode_message(None, method, params));
        }
        Ok(())
    }

    /// Returns the files that are open with a text that differs from the one on disk.
    pub async fn unsaved_files(&self) -> Vec<PathBuf> {
        self.documents.lock().await.unsaved_files()
    }

    /// Waits for diagnostics of a file in this version. Returns `None` if none arrive within the
    /// limit.
    pub async fn wait_for_diagnostics(
        &self,
        path: &Path,
        sent: DocumentVersion,
        limit: Duration,
    ) -> Result<Option<FileDiagnostics>, LspError> {
        tokio::select! {
            report = self.shared.published.wait(path, sent, limit) => Ok(report),
            () = self.shared.closed.cancelled() => Err(self.closed_error().await),
        }
    }

    /// Returns whether the server reports work in progress, such as indexing the project.
    pub fn is_busy(&self) -> bool {
        self.shared.progress.is_busy()
    }

    /// Waits, at most `limit`, until the server reports no more work in progress. A server that has
    /// just started gets a moment to begin reporting.
    pub async fn wait_until_idle(&self, limit: Duration) {
        const WARMUP: Duration = Duration::from_secs(5);
        const WARMUP_WAIT: Duration = Duration::from_millis(700);
        let progress = &self.shared.progress;
        if !progress.is_busy() && self.since.elapsed() < WARMUP {
            let _ = tokio::time::timeout(WARMUP_WAIT.min(limit), progress.wait_until_busy()).await;
        }
        tokio::select! {
            _ = tokio::time::timeout(limit, progress.wait_until_idle()) => {}
            () = self.shared.closed.cancelled() => {}
        }
    }

    /// Returns whether the server can see a file that was denied or replaced after it started. Its
    /// replies must not be used then.
    pub async fn is_outdated(&self) -> bool {
        self.process.is_outdated().await
    }

    /// Asks the server to exit, and kills it if it does not. Its cache is removed if it saw files
    /// that it should not have seen.
    pub async fn shut_down(&self) {
        let _ = self.request_once("shutdown", Value::Null, GRACE).await;
        let _ = tokio::time::timeout(GRACE, self.notify("exit", Value::Null)).await;
        if !self.process.wait_for_exit(GRACE).await {
            self.process.kill();
            self.process.wait_for_exit(GRACE).await;
        }
        self.shared.close("it was ended".to_owned());
        if self.cache.is_some() && self.is_outdated().await {
            self.remove_cache().await;
        }
    }

    /// Kills the server and removes its cache.
    pub(crate) async fn terminate(&self, why: &str) {
        self.shared.close(why.to_owned());
        self.process.kill();
        // The cache is removed only after the last process that could write to it has exited.
        self.process.wait_for_exit(KILL_WAIT_MAX).await;
        self.remove_cache().await;
    }

    async fn remove_cache(&self) {
        let Some(cache) = self.cache.clone() else { return };
        let server = self.shared.server.clone();
        let removing = tokio::task::spawn_blocking(move || {
            if let Err(error) = cache.remove_all() {
                tracing::warn!(%error, server, "the cache of a language server could not be removed");
            }
        });
        let _ = removing.await;
    }

    /// Returns why no more requests can be sent.
    pub async fn closed_error(&self) -> LspError {
        let what = self.shared.why.get().map_or("it ended", String::as_str);
        // Output that violates the protocol explains more than the exit status of the server.
        let why = match what {
            "its output ended" | "it ended" => self.process.describe_failure(what).await,
            what => what.to_owned(),
        };
        self.shared.closed_error(why)
    }

    async fn notify(&self, method: &str, params: Value) -> Result<(), LspError> {
        match self.send(encode_message(None, method, params)).await {
            Ok(()) => Ok(()),
            Err(()) => Err(self.closed_error().await),
        }
    }

    /// Queues a message for the server.
    async fn send(&self, message: Vec<u8>) -> Result<(), ()> {
        self.with_stall_limit(self.shared.outbox.send(message)).await?.map_err(drop)
    }

    /// Waits for capacity in the queue. A server that reads nothing for `stuck_max` is killed.
    async fn with_stall_limit<T>(&self, capacity: impl Future<Output = T>) -> Result<T, ()> {
        tokio::select! {
            biased;
            () = self.shared.closed.cancelled() => Err(()),
            done = tokio::time::timeout(self.stuck_max, capacity) => done.map_err(|_| {
                self.shared.close(transport::stall_reason(self.stuck_max));
            }),
        }
    }
}

impl Drop for LspConnection {
    fn drop(&mut self) {
        self.shared.close("it is no longer used".to_owned());
    }
}
