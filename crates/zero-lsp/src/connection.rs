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
    LspConnectionState, LspResponse, PENDING_MAX, framed_message, listen, write,
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
const OUTBOX_MAX: usize = 2 * TOLD_MAX;
/// Most messages by which a server is told of one file: every other one may be closed for it.
const TOLD_MAX: usize = OPEN_MAX + 4;
/// Questions in a row that were not answered in time before a server is taken for hung.
const SILENT_MAX: u32 = 3;
/// How long a server may take to end by itself, and after its input has ended.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of one that was killed is waited for: only what hangs in the kernel takes longer.
const KILLED_MAX: Duration = Duration::from_secs(10);
/// What servers say of a question that the project overtook: it may be asked again.
const OVERTAKEN: [i64; 2] = [-32801, -32802];
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
        let folder = json!({"uri": uri::of_path(root), "name": name.unwrap_or_default()});
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
        process.end_after(shared.closed.clone(), GRACE);
        tokio::spawn(write(input, waiting, Arc::clone(&shared), stuck_max));
        tokio::spawn(listen(output, Arc::clone(&shared)));
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
        let greeting =
            handshake::initialize(root, &connection.shared.folders, &server.initialization_options);
        let answer = match connection.ask_once("initialize", greeting, limit).await {
            Ok(answer) => answer,
            Err(LspError::Gone { why, .. }) => return Err(not_started(why)),
            Err(LspError::Silent { .. }) => {
                let what = format!("it did not answer within {} s", limit.as_secs());
                return Err(not_started(connection.process.failure(&what).await));
            }
            Err(error) => return Err(not_started(error.to_string())),
        };
        connection.encoding = handshake::encoding(&answer).map_err(not_started)?;
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
    pub fn server(&self) -> &str {
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
    pub fn offers(&self, capability: &str) -> bool {
        match self.capabilities.get(capability) {
            Some(Value::Bool(offered)) => *offered,
            Some(Value::Null) | None => false,
            Some(_) => true,
        }
    }

    /// Asks, and asks again what the project overtook. The answer is whatever the server says.
    pub async fn ask(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, LspError> {
        let mut pause = Duration::from_millis(100);
        for _ in 1..TRIES_MAX {
            match self.ask_once(method, params.clone(), limit).await {
                Err(LspError::Refused { code, .. }) if OVERTAKEN.contains(&code) => {
                    tokio::time::sleep(pause).await;
                    pause *= 3;
                }
                answer => return answer,
            }
        }
        self.ask_once(method, params, limit).await
    }

    async fn ask_once(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, LspError> {
        let (question, answer) = self.shared.question().ok_or_else(|| {
            self.shared.gone(format!("{PENDING_MAX} questions wait for an answer already"))
        })?;
        let id = question.id;
        let message = framed_message(Some(id), method, params);
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
            Ok(Ok(LspResponse::Nonsense)) => {
                Err(LspError::Nonsense { server: server(), what: what() })
            }
            Ok(Err(())) => Err(self.gone().await),
            Err(_) => {
                drop(question);
                if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_MAX {
                    self.shared.close(format!("it left {SILENT_MAX} questions unanswered"));
                }
                Err(LspError::Silent { server: server(), what: what(), limit })
            }
        }
    }

    /// Sees to it that the server knows the text of a file.
    pub async fn tell(&self, text: DocumentText<'_>) -> Result<DocumentVersion, LspError> {
        let mut documents = self.documents.lock().await;
        // There is room for everything before anything is said, so that whoever gives up waiting
        // leaves the server with all of it or nothing.
        let room = self.in_time(self.shared.outbox.reserve_many(TOLD_MAX)).await;
        let Ok(Ok(mut room)) = room else { return Err(self.gone().await) };
        let since = self.shared.published.count();
        let (told, notifications) = documents.tell(text, since, Instant::now(), path_survey::stamp);
        for ((method, params), permit) in notifications.into_iter().zip(&mut room) {
            permit.send(framed_message(None, method, params));
        }
        Ok(told)
    }

    /// Tells it that a file was saved as it was told, if it knows it.
    pub async fn saved(&self, path: &Path) -> Result<(), LspError> {
        self.tell_about(|documents| {
            let saved = json!({"textDocument": {"uri": uri::of_path(path)}});
            documents.is_open(path).then_some(("textDocument/didSave", saved))
        })
        .await
    }

    /// Closes a file, whatever is on disk then.
    pub async fn close_file(&self, path: &Path) -> Result<(), LspError> {
        self.tell_about(|documents| documents.close(path)).await
    }

    /// Tells it one thing about a file that it has open. As with [`Self::tell`], nobody else tells it
    /// anything of files between what is noted down and what it hears.
    async fn tell_about(
        &self,
        notify: impl FnOnce(&mut OpenDocuments) -> Option<LspNotification>,
    ) -> Result<(), LspError> {
        let mut documents = self.documents.lock().await;
        let room = self.in_time(self.shared.outbox.reserve()).await;
        let Ok(Ok(room)) = room else { return Err(self.gone().await) };
        if let Some((method, params)) = notify(&mut documents) {
            room.send(framed_message(None, method, params));
        }
        Ok(())
    }

    /// The state of a file that it was told of last.
    pub async fn told(&self, path: &Path) -> Option<DocumentVersion> {
        self.documents.lock().await.told(path)
    }

    /// Files that it knows with a text that is not on disk.
    pub async fn unsaved(&self) -> Vec<PathBuf> {
        self.documents.lock().await.unsaved()
    }

    /// What it published about a file in that state.
    pub fn known_about(&self, path: &Path, told: DocumentVersion) -> Option<FileDiagnostics> {
        self.shared.published.about(path, told)
    }

    /// Waits for what it publishes about a file in that state. `None` when nothing came in time.
    pub async fn wait_about(
        &self,
        path: &Path,
        told: DocumentVersion,
        limit: Duration,
    ) -> Result<Option<FileDiagnostics>, LspError> {
        tokio::select! {
            report = self.shared.published.wait(path, told, limit) => Ok(report),
            () = self.shared.closed.cancelled() => Err(self.gone().await),
        }
    }

    /// Whether it says that it is at work on something, such as reading the project.
    pub fn is_at_work(&self) -> bool {
        self.shared.progress.is_at_work()
    }

    /// Waits until it is done with what it is at work on, and no longer than `limit`. One that just
    /// started gets a moment to begin.
    pub async fn wait_for_rest(&self, limit: Duration) {
        const YOUTH: Duration = Duration::from_secs(5);
        const TO_BEGIN: Duration = Duration::from_millis(700);
        let progress = &self.shared.progress;
        if !progress.is_at_work() && self.since.elapsed() < YOUTH {
            let _ = tokio::time::timeout(TO_BEGIN.min(limit), progress.begun()).await;
        }
        tokio::select! {
            _ = tokio::time::timeout(limit, progress.rest()) => {}
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
    pub async fn end(&self) {
        let _ = self.ask_once("shutdown", Value::Null, GRACE).await;
        let _ = tokio::time::timeout(GRACE, self.notify("exit", Value::Null)).await;
        if !self.process.ended_within(GRACE).await {
            self.process.kill();
            self.process.ended_within(GRACE).await;
        }
        self.shared.close("it was ended".to_owned());
        if self.cache.is_some() && self.is_outdated().await {
            self.forget().await;
        }
    }

    /// Ends it at once, with everything that it made.
    pub(crate) async fn cut_off(&self, why: &str) {
        self.shared.close(why.to_owned());
        self.process.kill();
        // Nothing of it writes any more when what it wrote is removed.
        self.process.ended_within(KILLED_MAX).await;
        self.forget().await;
    }

    /// Removes what it made.
    async fn forget(&self) {
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
    pub async fn gone(&self) -> LspError {
        let what = self.shared.why.get().map_or("it ended", String::as_str);
        // What it wrote wrongly says more than how it was ended for it.
        let why = match what {
            "its output ended" | "it ended" => self.process.failure(what).await,
            what => what.to_owned(),
        };
        self.shared.gone(why)
    }

    async fn notify(&self, method: &str, params: Value) -> Result<(), LspError> {
        match self.send(framed_message(None, method, params)).await {
            Ok(()) => Ok(()),
            Err(()) => Err(self.gone().await),
        }
    }

    /// Puts a message where the server reads it.
    async fn send(&self, message: Vec<u8>) -> Result<(), ()> {
        self.in_time(self.shared.outbox.send(message)).await?.map_err(drop)
    }

    /// Waits for room where the server reads, though not for ever: one that reads nothing for long
    /// is cut off.
    async fn in_time<T>(&self, room: impl Future<Output = T>) -> Result<T, ()> {
        tokio::select! {
            biased;
            () = self.shared.closed.cancelled() => Err(()),
            done = tokio::time::timeout(self.stuck_max, room) => done.map_err(|_| {
                self.shared.close(transport::stuck(self.stuck_max));
            }),
        }
    }
}

impl Drop for LspConnection {
    fn drop(&mut self) {
        self.shared.close("nobody uses it any more".to_owned());
    }
}
