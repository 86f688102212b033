//! [`McpClientHandler`], which handles the requests and notifications that a server sends by
//! itself.
//!
//! A server's question goes to the user of the call that it belongs to, labelled with the server's
//! name, or is cancelled. A server cannot choose whom it asks, and zero never answers for the user.
//! A changed tool list is fetched again even if the server did not announce that it sends such
//! notifications. Log messages are limited. Servers get no access to a model or to roots.
#![expect(deprecated, reason = "servers of the older protocol log in this way")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, Notify, RwLock, Semaphore, mpsc};
use zero_core::text_shortening::shorten_end;
use zero_core::{CallId, CallProgress};
use zero_runtime::elicitation::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

use super::sanitize;
use crate::server_definition::ServerAlias;

/// Maximum number of progress messages that wait for a call to read them.
const PROGRESS_QUEUE_MAX: usize = 16;
/// Maximum number of questions of one server that wait for the user.
const QUESTIONS_WAITING_MAX: u32 = 4;
/// Maximum length of a question's message, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// Maximum length of a URL that the user is asked to open, in bytes: it is shown in full.
const URL_BYTES_MAX: usize = 2_048;
/// Maximum size of a form, in bytes of JSON.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of log messages of one connection.
const LOG_LINES_MAX: u32 = 200;
/// Maximum length of a log message, in characters.
const LOG_CHARS_MAX: usize = 500;

/// Who made a call, and who answers the server's questions about it.
#[derive(Clone)]
pub(crate) struct CallerContext {
    pub(crate) alias: ServerAlias,
    pub(crate) call: Option<CallId>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
}

/// Handles what a server sends by itself on one connection.
pub(crate) struct McpClientHandler {
    /// Whether the host can ask a user.
    elicits: bool,
    /// Notified when the tool list changed.
    pub(crate) list_changed: Notify,
    /// Whether the server announced a change that has not been fetched yet.
    is_list_outdated: AtomicBool,
    /// Held while the tool list is fetched again, so that calls wait for the new list.
    pub(crate) relisting: AsyncMutex<()>,
    /// Read-locked while a request is sent, so that no progress is handled before the call listens
    /// for it.
    pub(crate) handing_over: RwLock<()>,
    listeners: Mutex<HashMap<ProgressToken, mpsc::Sender<McpProgress>>>,
    callers: Mutex<HashMap<u64, CallerContext>>,
    next_caller: AtomicU64,
    asking: Semaphore,
    waiting: AtomicU32,
    logged: AtomicU32,
}

/// Progress of a call as the server reported it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McpProgress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

impl McpProgress {
    /// The progress as observers get it.
    pub(crate) fn to_call_progress(&self) -> CallProgress {
        CallProgress::new(self.to_text()).with_share(self.done, self.total)
    }

    /// Renders the progress for the user.
    fn to_text(&self) -> String {
        let amount = match self.total {
            Some(total) if total > 0.0 => format!("{}/{total}", self.done),
            _ => self.done.to_string(),
        };
        match self.message.as_deref().filter(|message| !message.is_empty()) {
            Some(message) => format!("{message} ({amount})"),
            None => amount,
        }
    }
}

/// Registration of a running call. Until it is dropped, the server can ask questions about the
/// call.
pub(crate) struct RunningCallGuard<'a> {
    handler: &'a McpClientHandler,
    number: u64,
}

impl Drop for RunningCallGuard<'_> {
    fn drop(&mut self) {
        self.handler.callers().remove(&self.number);
    }
}

impl McpClientHandler {
    /// Creates a handler; `elicits` is whether the host can ask a user.
    pub(crate) fn new(elicits: bool) -> Self {
        Self {
            elicits,
            list_changed: Notify::new(),
            is_list_outdated: AtomicBool::new(false),
            relisting: AsyncMutex::default(),
            handing_over: RwLock::default(),
            listeners: Mutex::default(),
            callers: Mutex::default(),
            next_caller: AtomicU64::new(0),
            asking: Semaphore::new(1),
            waiting: AtomicU32::new(0),
            logged: AtomicU32::new(0),
        }
    }

    /// Records that the server has another tool list by now.
    pub(crate) fn announce_list_change(&self) {
        self.mark_list_outdated();
        self.list_changed.notify_one();
    }

    pub(crate) fn mark_list_outdated(&self) {
        self.is_list_outdated.store(true, Ordering::Release);
    }

    /// Returns whether a change was announced, and clears the mark: the caller then fetches the
    /// list.
    pub(crate) fn take_list_change(&self) -> bool {
        self.is_list_outdated.swap(false, Ordering::AcqRel)
    }

    /// Returns what zero tells a server about itself.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicits {
            let form = FormElicitationCapability::default();
            let url = UrlElicitationCapability::default();
            capabilities.elicitation =
                Some(ElicitationCapability::new().with_form(form).with_url(url));
        }
        let ours = Implementation::new("zero", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, ours)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    /// Registers a running call.
    pub(crate) fn track_call(&self, caller: CallerContext) -> RunningCallGuard<'_> {
        let number = self.next_caller.fetch_add(1, Ordering::Relaxed);
        self.callers().insert(number, caller);
        RunningCallGuard { handler: self, number }
    }

    /// Returns the number of running calls.
    pub(crate) fn running_calls(&self) -> usize {
        self.callers().len()
    }

    /// Runs `act` if no call is running, before another can start. Returns whether it did.
    pub(crate) fn run_if_idle(&self, act: impl FnOnce()) -> bool {
        let callers = self.callers();
        let is_idle = callers.is_empty();
        if is_idle {
            act();
        }
        is_idle
    }

    /// Whether the user is being asked something now.
    pub(crate) fn is_asking(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Starts listening for the progress of a request.
    pub(crate) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<McpProgress> {
        let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE_MAX);
        self.listeners().insert(token, sender);
        receiver
    }

    /// Stops listening for the progress of a request.
    pub(crate) fn stop_listening(&self, token: &ProgressToken) {
        self.listeners().remove(token);
    }

    /// Asks the user of a call what the server wants to know.
    pub(crate) async fn elicit(
        &self,
        caller: &CallerContext,
        request: ElicitRequestParams,
    ) -> ElicitResult {
        let cancelled = || ElicitResult::new(ElicitationAction::Cancel);
        let Some(elicitor) = &caller.elicitor else { return cancelled() };
        let Some((message, wanted)) = read_question(request) else { return cancelled() };
        let _waiting = QuestionCountGuard::new(&self.waiting);
        if self.waiting.load(Ordering::Relaxed) > QUESTIONS_WAITING_MAX {
            return cancelled();
        }
        // One question at a time, so that the user is not shown several at once.
        let Ok(_turn) = self.asking.acquire().await else { return cancelled() };
        let is_visit = matches!(wanted, ElicitationMode::Url(_));
        let origin = format!("MCP server `{}`", caller.alias);
        let message = shorten_end(&message, MESSAGE_CHARS_MAX);
        let call = caller.call.clone();
        match elicitor.elicit(&Elicitation { origin, call, message, mode: wanted }).await {
            ElicitationAnswer::Accept(_) if is_visit => {
                ElicitResult::new(ElicitationAction::Accept)
            }
            ElicitationAnswer::Accept(values) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
            }
            ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationAnswer::Cancel => cancelled(),
        }
    }

    /// Returns the caller of a question that names no call: the one whose calls are running. If
    /// there are several, the question is not asked, because it could reach the wrong user.
    fn sole_caller(&self) -> Option<CallerContext> {
        let callers = self.callers();
        let mut all = callers.values();
        let first = all.next()?;
        let is_same = |other: &CallerContext| match (&first.elicitor, &other.elicitor) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs) && first.alias == other.alias,
            _ => false,
        };
        let call = first.call.clone().filter(|_| callers.len() == 1);
        all.all(is_same).then(|| CallerContext { call, ..first.clone() })
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<McpProgress>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<u64, CallerContext>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a question while it waits.
struct QuestionCountGuard<'a>(&'a AtomicU32);

impl<'a> QuestionCountGuard<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for QuestionCountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads a question; `None` if it cannot be shown in full.
fn read_question(request: ElicitRequestParams) -> Option<(String, ElicitationMode)> {
    match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let form = serde_json::to_value(requested_schema).ok()?;
            (form.to_string().len() <= FORM_BYTES_MAX)
                .then_some((message, ElicitationMode::Form(form)))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let is_address = url::Url::parse(&url)
                .is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host());
            (is_address && url.len() <= URL_BYTES_MAX)
                .then_some((message, ElicitationMode::Url(url)))
        }
        _ => None,
    }
}

impl ClientHandler for McpClientHandler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(caller) = self.sole_caller() else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            answer = self.elicit(&caller, request) => Ok(answer),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        drop(self.handing_over.write().await);
        let listener = self.listeners().get(&params.progress_token).cloned();
        if let Some(listener) = listener {
            let ProgressNotificationParam { progress, total, message, .. } = params;
            // If the queue is full, this message is dropped; the call gets the next one.
            let message = message.as_deref().map(sanitize::to_line);
            let _ = listener.try_send(McpProgress { done: progress, total, message });
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.announce_list_change();
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if self.logged.fetch_add(1, Ordering::Relaxed) < LOG_LINES_MAX {
            let text = match &params.data {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = shorten_end(&sanitize::to_line(&text), LOG_CHARS_MAX);
            tracing::debug!(target: "zero_mcp::server_log", level = ?params.level, "{text}");
        }
    }

    fn get_info(&self) -> ClientConfig {
        self.client_config()
    }
}
