//! What a server may say to us by itself, and what it gets for it.
//!
//! Its questions reach the person of the call they belong to, with its name on them, or nobody: it
//! cannot choose whom it asks, and nothing is ever answered by itself. A list that changed is looked
//! at again whether or not it said beforehand that it might. What it logs is kept short. It gets no
//! model and no folders of ours.
#![expect(deprecated, reason = "servers of the older protocol log in this way")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
use tokio::sync::{Notify, RwLock, Semaphore, mpsc};
use zero_core::CallId;
use zero_runtime::elicitation::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

use super::sanitize;
use crate::server_definition::ServerAlias;

/// Words of progress that wait for a call to look at them.
const PROGRESS_QUEUE_MAX: usize = 16;
/// Questions of one server that may wait for the person at a time.
const QUESTIONS_WAITING_MAX: u32 = 4;
/// Longest message of a question, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// Longest address a person is sent to, in bytes: it is shown in full.
const URL_BYTES_MAX: usize = 2_048;
/// Largest form, in bytes of JSON.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// Log lines that are kept of one connection.
const LOG_LINES_MAX: u32 = 200;
/// Longest log line, in characters.
const LOG_CHARS_MAX: usize = 500;

/// Who made a call, and may be asked on its behalf.
#[derive(Clone)]
pub(crate) struct CallerContext {
    pub(crate) alias: ServerAlias,
    pub(crate) call: Option<CallId>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
}

/// What a server may say to us by itself.
pub(crate) struct McpClientHandler {
    /// Whether there can be a person behind a call.
    elicits: bool,
    /// Told when the list of tools changed.
    pub(crate) list_changed: Notify,
    /// Held while a request is handed over, so that no word of progress is looked at before
    /// somebody listens for it.
    pub(crate) handing_over: RwLock<()>,
    listeners: Mutex<HashMap<ProgressToken, mpsc::Sender<McpProgress>>>,
    callers: Mutex<HashMap<u64, CallerContext>>,
    next_caller: AtomicU64,
    asking: Semaphore,
    waiting: AtomicU32,
    logged: AtomicU32,
}

/// How far a call is, in the server's words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McpProgress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

impl McpProgress {
    /// In words, for a person.
    pub(crate) fn to_text(&self) -> String {
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

/// A call that runs; it can be asked about until this is dropped.
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
    /// For a server; `elicits` says whether there can be a person behind a call.
    pub(crate) fn new(elicits: bool) -> Self {
        Self {
            elicits,
            list_changed: Notify::new(),
            handing_over: RwLock::default(),
            listeners: Mutex::default(),
            callers: Mutex::default(),
            next_caller: AtomicU64::new(0),
            asking: Semaphore::new(1),
            waiting: AtomicU32::new(0),
            logged: AtomicU32::new(0),
        }
    }

    /// What we say of ourselves.
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

    /// Notes that a call runs.
    pub(crate) fn track_call(&self, caller: CallerContext) -> RunningCallGuard<'_> {
        let number = self.next_caller.fetch_add(1, Ordering::Relaxed);
        self.callers().insert(number, caller);
        RunningCallGuard { handler: self, number }
    }

    /// How many calls run.
    pub(crate) fn running_calls(&self) -> usize {
        self.callers().len()
    }

    /// Does something if no call runs, and before the next one does; says whether.
    pub(crate) fn run_if_idle(&self, act: impl FnOnce()) -> bool {
        let callers = self.callers();
        let is_idle = callers.is_empty();
        if is_idle {
            act();
        }
        is_idle
    }

    /// Whether a person is being asked something right now.
    pub(crate) fn is_asking(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Listens for progress from now on.
    pub(crate) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<McpProgress> {
        let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE_MAX);
        self.listeners().insert(token, sender);
        receiver
    }

    /// Listens no more.
    pub(crate) fn stop_listening(&self, token: &ProgressToken) {
        self.listeners().remove(token);
    }

    /// Asks the person behind a call what a server wants to know.
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
        // One at a time: a person answers one question after the other.
        let Ok(_turn) = self.asking.acquire().await else { return cancelled() };
        let is_visit = matches!(wanted, ElicitationMode::Url(_));
        let origin = format!("MCP server `{}`", caller.alias);
        let message = sanitize::truncate(&message, MESSAGE_CHARS_MAX);
        let call = caller.call.clone();
        match elicitor.elicit(&Elicitation { origin, call, message, wanted }).await {
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

    /// Whom a question belongs to that came by itself: whoever makes the calls that run. Where they
    /// are several, nobody can tell whom it is meant for, and it must not reach the wrong person.
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

/// Counts a question for as long as it waits.
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

/// What a question wants, where it can be shown in full.
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
            // Who is behind hears the next word.
            let message = message.as_deref().map(sanitize::to_line);
            let _ = listener.try_send(McpProgress { done: progress, total, message });
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if self.logged.fetch_add(1, Ordering::Relaxed) < LOG_LINES_MAX {
            let words = match &params.data {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let words = sanitize::truncate(&sanitize::to_line(&words), LOG_CHARS_MAX);
            tracing::debug!(target: "zero_mcp::server_log", level = ?params.level, "{words}");
        }
    }

    fn get_info(&self) -> ClientConfig {
        self.client_config()
    }
}
