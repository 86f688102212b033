//! A conversation with a running server: what is asked and answered, what it says unasked, and its
//! end.
//!
//! Nobody waits without an end: each question has a time, and whoever waits hears at once when the
//! server is gone. The server is never waited for either: what it asks of us is answered without
//! blocking, and one that reads nothing is cut off.

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
use zero_runtime::services::ServiceLauncher;
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

/// Messages that wait to be read by the server: room for what there is to tell of a file, and more.
const OUTBOX_MAX: usize = 2 * SYNC_MESSAGES_MAX;
/// Most messages by which a server is told of one file: every other one may be closed for it.
const SYNC_MESSAGES_MAX: usize = OPEN_MAX + 4;
/// Questions in a row that were not answered in time before a server is taken for hung.
const UNANSWERED_MAX: u32 = 3;
/// How long a server may take to end by itself, and after its input has ended.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of one that was killed is waited for: only what hangs in the kernel takes longer.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
/// What servers say of a question that the project overtook: it may be asked again.
const RETRYABLE_CODES: [i64; 2] = [-32801, -32802];
/// How often it is asked again.
const TRIES_MAX: u32 = 4;

/// How a server is started.
pub(crate) struct LanguageServerLaunchOptions<'a> {
    pub(crate) services: &'a ServiceLauncher,
    pub(crate) server: &'a LanguageServerDefinition,
    /// Its program and arguments.
    pub(crate) words: Vec<String>,
    /// The folder of the workspace it is for.
    pub(crate) root: &'a Path,
    /// The folder that is kept for what it makes.
    pub(crate) cache: Option<StateDir>,
    /// Where it finds programs, as `PATH` says it.
    pub(crate) path: Option<String>,
    pub(crate) bounds: LanguageServerLimits,
}

/// A conversation with a running server. Dropping it ends the server.
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
    /// How long it may read nothing while there is something to read.
    stuck_max: Duration,
}

impl LspConnection {
    /// Starts a server and greets it.
    pub(crate) async fn start(start: LanguageServerLaunchOptions<'_>) -> Result<Self, LspError> {
        let LanguageServerLaunchOptions { services, server, words, root, cache, path, bounds } =
            start;
        let (limit, stuck_max) = (bounds.start_max, bounds.stuck_max);
        let not_started = |why: String| LspError::NotStarted { server: server.name.clone(), why };
        let folder = cache.as_ref().map(|cache| cache.path().to_owned());
        let begun = LanguageServerProcess::start(services, server, words, root, folder, path).await;
        let (process, pipes) = begun.map_err(not_started)?;
        let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let folder = json!({"uri": uri::from_path(root), "name": name.unwrap_or_default()});
        let (outbox, waiting) = mpsc::channel(OUTBOX_MAX);
        let shared = Arc::new(LspConnectionState {
            server: server.name.clone(),
            outbox,
            pending: Mutex::default(),
            next_id: AtomicI64::new(1),
            nonsense: AtomicU32::new(0),
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

    /// What it is called.
    pub fn server_name(&self) -> &str {
        &self.shared.server
    }

    /// The folder of the workspace it is for.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The units it counts in.
    pub fn encoding(&self) -> PositionEncoding {
        self.encoding
    }

    /// The number of the process at the top of its tree.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Whether it can still be asked.
    pub fn is_alive(&self) -> bool {
        !self.shared.closed.is_cancelled()
    }

    /// Whether it says that it does such things.
    pub fn supports(&self, capability: &str) -> bool {
        match self.capabilities.get(capability) {
            Some(Value::Bool(offered)) => *offered,
            Some(Value::Null) | None => false,
            Some(_) => true,
        }
    }

    /// Asks, and asks again what the project overtook. The answer is whatever the server says.
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
            self.shared.closed_error(format!("{PENDING_MAX} questions wait for an answer already"))
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
                    self.shared.close(format!("it left {UNANSWERED_MAX} questions unanswered"));
                }
                Err(LspError::TimedOut { server: server(), what: what(), limit })
            }
        }
    }

    /// Sees to it that the server knows the text of a file.
    pub async fn sync_document(&self, text: DocumentText<'_>) -> Result<DocumentVersion, LspError> {
        let mut documents = self.documents.lock().await;
        // There is room for everything before anything is said, so that whoever gives up waiting
        // leaves the server with all of it or nothing.
        let room = self.with_stall_limit(self.shared.outbox.reserve_many(SYNC_MESSAGES_MAX)).await;
        let Ok(Ok(mut room)) = room else { return Err(self.closed_error().await) };
        let since = self.shared.published.count();
        let (told, notifications) =
            documents.sync(text, since, Instant::now(), path_survey::read_stamp);
        for ((method, params), permit) in notifications.into_iter().zip(&mut room) {
            permit.send(encode_message(None, method, params));
        }
        Ok(told)
    }

    /// Tells it that a file was saved as it was told, if it knows it.
    pub async fn notify_saved(&self, path: &Path) -> Result<(), LspError> {
        self.notify_documents(|documents| {
            let saved = json!({"textDocument": {"uri": uri::from_path(path)}});
            documents.is_open(path).then_some(("textDocument/didSave", saved))
        })
        .await
    }

    /// Closes a file, whatever is on disk then.
    pub async fn close_file(&self, path: &Path) -> Result<(), LspError> {
        self.notify_documents(|documents| documents.close(path)).await
    }

    /// Tells it one thing about a file that it has open. As with [`Self::tell`], nobody else tells it
    /// anything of files between what is noted down and what it hears.
    async fn notify_documents(
        &self,
        notify: impl FnOnce(&mut OpenDocuments) -> Option<LspNotification>,
    ) -> Result<(), LspError> {
        let mut documents = self.documents.lock().await;
        let room = self.with_stall_limit(self.shared.outbox.reserve()).await;
        let Ok(Ok(room)) = room else { return Err(self.closed_error().await) };
        if let Some((method, params)) = notify(&mut documents) {
            room.send(encode_message(None, method, params));
        }
        Ok(())
    }

    /// The state of a file that it was told of last.
    pub async fn document_version(&self, path: &Path) -> Option<DocumentVersion> {
        self.documents.lock().await.version(path)
    }

    /// Files that it knows with a text that is not on disk.
    pub async fn unsaved_files(&self) -> Vec<PathBuf> {
        self.documents.lock().await.unsaved_files()
    }

    /// What it published about a file in that state.
    pub fn diagnostics_for(&self, path: &Path, told: DocumentVersion) -> Option<FileDiagnostics> {
        self.shared.published.get(path, told)
    }

    /// Waits for what it publishes about a file in that state. `None` when nothing came in time.
    pub async fn wait_for_diagnostics(
        &self,
        path: &Path,
        told: DocumentVersion,
        limit: Duration,
    ) -> Result<Option<FileDiagnostics>, LspError> {
        tokio::select! {
            report = self.shared.published.wait(path, told, limit) => Ok(report),
            () = self.shared.closed.cancelled() => Err(self.closed_error().await),
        }
    }

    /// Whether it says that it is at work on something, such as reading the project.
    pub fn is_busy(&self) -> bool {
        self.shared.progress.is_busy()
    }

    /// Waits until it is done with what it is at work on, and no longer than `limit`. One that just
    /// started gets a moment to begin.
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

    /// Whether it can see a file that may not be read, because that came after it. What it says is
    /// not to be told then.
    pub async fn is_outdated(&self) -> bool {
        self.process.is_outdated().await
    }

    /// Asks it to end, and ends it where it does not. What it made of files that it should not have
    /// seen goes with it.
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

    /// Ends it at once, with everything that it made.
    pub(crate) async fn terminate(&self, why: &str) {
        self.shared.close(why.to_owned());
        self.process.kill();
        // Nothing of it writes any more when what it wrote is removed.
        self.process.wait_for_exit(KILL_WAIT_MAX).await;
        self.remove_cache().await;
    }

    /// Removes what it made.
    async fn remove_cache(&self) {
        let Some(cache) = self.cache.clone() else { return };
        let server = self.shared.server.clone();
        let removing = tokio::task::spawn_blocking(move || {
            if let Err(error) = cache.remove_all() {
                tracing::warn!(%error, server, "what a language server made could not be removed");
            }
        });
        let _ = removing.await;
    }

    /// Why it cannot be asked any more.
    pub async fn closed_error(&self) -> LspError {
        let what = self.shared.why.get().map_or("it ended", String::as_str);
        // What it wrote wrongly says more than how it was ended for it.
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

    /// Puts a message where the server reads it.
    async fn send(&self, message: Vec<u8>) -> Result<(), ()> {
        self.with_stall_limit(self.shared.outbox.send(message)).await?.map_err(drop)
    }

    /// Waits for room where the server reads, though not for ever: one that reads nothing for long
    /// is cut off.
    async fn with_stall_limit<T>(&self, room: impl Future<Output = T>) -> Result<T, ()> {
        tokio::select! {
            biased;
            () = self.shared.closed.cancelled() => Err(()),
            done = tokio::time::timeout(self.stuck_max, room) => done.map_err(|_| {
                self.shared.close(transport::stall_reason(self.stuck_max));
            }),
        }
    }
}

impl Drop for LspConnection {
    fn drop(&mut self) {
        self.shared.close("nobody uses it any more".to_owned());
    }
}
