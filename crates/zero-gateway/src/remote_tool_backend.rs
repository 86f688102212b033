//! Tool backend at the other end of a connection: a client executes the tool calls of a session.
//!
//! The client decides what it executes and enforces its own policy. This module guarantees that
//! each call is sent once and answered once, by the connection it was sent to and in bounded size.
//! When the connection ends, all of its calls end. A call about which the host says nothing for too
//! long ends as well, although the connection is alive.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::{excerpt, head, one_line};
use zero_core::{
    CallProgress, ErrorReason, ErrorType, FileLocation, ResultDisplay, ToolCall, ToolError,
    ToolKind, ToolOutcome, sanitize,
};
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{
    FileRewindReport, FileRewindRequest, REWIND_CALL, RewindRequester,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, SilentObserver, SubagentRequest, ToolBackend, ToolBackendError, ToolCatalog,
    ToolList,
};
use zero_runtime::tool_host::new_call_id;
use zero_session::PermissionMode;
use zero_session::event::ToolCallStatus;
use zero_session::store::SessionRecord;
use zero_wire::ErrorPayload;
use zero_wire::tools::{
    TOOLS_CANCEL, TOOLS_DISPLACED, TOOLS_TERMS, TOOLS_USE, ToolsCancelEvent, ToolsDisplacedEvent,
    ToolsProgressParams, ToolsResultParams, ToolsSubagent, ToolsTerms, ToolsUseEvent,
};

use crate::history::json_bytes;
use crate::remote_subagent_tools::RemoteSubagentTools;
use crate::send_queue::SendQueue;
use crate::tool_offer::ToolOffer;

/// How long a host may take to offer its tools in a dialect.
const OFFER_WAIT: Duration = Duration::from_secs(15);
/// How long a host may take to end a cancelled call.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// Added to the deadline of a call, for its way to the host and back.
const DEADLINE_MARGIN: Duration = Duration::from_secs(60);
/// A host is asked to report each call this often within the shortest time that it may be silent:
/// [`DEADLINE_MARGIN`], about a call with the shortest deadline.
const REPORTS_PER_SILENCE: u32 = 3;
/// How long outcomes of calls of another gateway are kept: longer than it takes to continue its runs.
const KEPT_TIME_MAX: Duration = Duration::from_secs(120);
/// Maximum number of concurrent calls per host and session.
const CALLS_MAX: usize = 64;
/// Maximum size of a result, and of all kept outcomes together, in bytes of JSON.
const RESULT_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Maximum length of a title, in characters.
const TITLE_LEN_MAX: usize = 500;
/// Maximum size of a progress message, in bytes.
const PROGRESS_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of locations per call.
const PLACES_MAX: usize = 100;

/// Executes the tool calls of one session at the other end of a connection.
pub(crate) struct RemoteToolBackend {
    session_id: String,
    session_key: String,
    host: String,
    outbox: SendQueue,
    terms: Mutex<HostSettings>,
    offer: watch::Sender<Option<Arc<ToolOffer>>>,
    calls: Mutex<HashMap<String, RemoteCall>>,
    /// Outcomes of calls of another gateway, which the host reported before it offered its tools. Unset if
    /// there are no other gateways.
    kept_outcomes: OnceLock<Mutex<KeptOutcomes>>,
    /// Cancelled when the connection ends or stops hosting these tools.
    disconnected: CancellationToken,
    /// Name of the host that took over, if another connection did.
    displaced_by: OnceLock<String>,
    /// How long a run waits for a lost host to return.
    comes_back_within: Duration,
    /// How long the host may say nothing about a call.
    silence_max: Duration,
    /// Itself, for the tools of sub-agents.
    itself: Weak<Self>,
}

/// The settings last sent to the host.
#[derive(Clone, Copy)]
struct HostSettings {
    dialect: DialectName,
    mode: Option<PermissionMode>,
}

/// A call that was sent to the host.
struct RemoteCall {
    /// Receives the result.
    answer: oneshot::Sender<ToolOutcome>,
    watch: Arc<dyn CallObserver>,
    /// Name of the tool in the dialect of the call.
    tool: String,
    /// The latest known title, kept because a progress message may contain only part of the fields.
    title: String,
    kind: ToolKind,
    /// When the host last said something about the call.
    last_heartbeat: Arc<Mutex<Instant>>,
}

impl RemoteCall {
    /// Applies the description that the host sent.
    fn describe(&mut self, title: &str, kind: Option<ToolKind>, locations: Vec<FileLocation>) {
        // A name with a hidden character is not shown as another name.
        self.title = one_line(&sanitize::escape_lines(title), TITLE_LEN_MAX);
        self.kind = kind.unwrap_or(self.kind);
        self.watch.on_described(self.title.clone(), self.kind, limit_locations(locations));
    }
}

/// Outcomes of calls that another gateway has made, in bounded number and size.
#[derive(Default)]
struct KeptOutcomes {
    /// Each with its size, in bytes of JSON.
    outcomes: HashMap<String, (ToolOutcome, usize)>,
    bytes: usize,
}

impl KeptOutcomes {
    /// Keeps an outcome if there is room for it, else says why not.
    fn keep(&mut self, params: ToolsResultParams) -> Result<(), ErrorPayload> {
        let bytes = json_bytes(&params);
        let replaced = self.outcomes.get(&params.tool_call_id).map(|(_, bytes)| *bytes);
        let others = self.bytes - replaced.unwrap_or(0);
        if replaced.is_none() && self.outcomes.len() >= CALLS_MAX {
            return Err(ErrorPayload::invalid(format!(
                "outcomes of {CALLS_MAX} earlier calls are kept already, so this one is not"
            )));
        }
        if others + bytes > RESULT_BYTES_MAX {
            return Err(ErrorPayload::invalid(format!(
                "this outcome of an earlier call has {bytes} bytes, and {others} bytes of others are kept; \
                 zero keeps at most {RESULT_BYTES_MAX}"
            )));
        }
        self.bytes = others + bytes;
        let call = params.tool_call_id.clone();
        self.outcomes.insert(call, (to_outcome(params, ""), bytes));
        Ok(())
    }

    fn take(&mut self, call: String) -> Option<(String, ToolOutcome)> {
        let (call, (outcome, bytes)) = self.outcomes.remove_entry(&call)?;
        self.bytes -= bytes;
        Some((call, outcome))
    }
}

impl RemoteToolBackend {
    /// Creates a backend that sends calls to a connection of `owner` until `gone` is cancelled.
    pub(crate) fn new(
        session: &SessionRecord,
        owner: &str,
        host: &str,
        outbox: SendQueue,
        disconnected: CancellationToken,
        comes_back_within: Duration,
        silence_max: Duration,
    ) -> Arc<Self> {
        let dialect = DialectName::Canonical;
        Arc::new_cyclic(|itself| Self {
            session_id: session.id.to_string(),
            session_key: session.address().to_text(owner),
            host: host.to_owned(),
            outbox,
            terms: Mutex::new(HostSettings { dialect, mode: None }),
            offer: watch::Sender::new(None),
            calls: Mutex::default(),
            kept_outcomes: OnceLock::new(),
            disconnected,
            displaced_by: OnceLock::new(),
            comes_back_within,
            silence_max,
            itself: itself.clone(),
        })
    }

    /// Takes outcomes of calls that other gateways have made.
    pub(crate) fn accept_kept_outcomes(&self) {
        self.kept_outcomes.get_or_init(Mutex::default);
    }

    /// Sets the dialect and mode with which the host starts.
    pub(crate) fn set_initial_terms(
        &self,
        dialect: Option<DialectName>,
        mode: Option<PermissionMode>,
    ) -> ToolsTerms {
        let dialect = dialect.unwrap_or(DialectName::Canonical);
        let terms = HostSettings { dialect, mode };
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = terms;
        self.to_wire_terms(terms)
    }

    /// The id of the session.
    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The key of the session, as the connection writes it.
    pub(crate) fn session_key(&self) -> &str {
        &self.session_key
    }

    /// Stops hosting the session; pending calls end.
    pub(crate) fn stop_hosting(&self) {
        self.disconnected.cancel();
    }

    /// Records that another connection hosts the session from now on: pending calls end and the
    /// previous host is notified.
    pub(crate) fn displace(&self, host: &str) {
        if self.displaced_by.set(host.to_owned()).is_err() {
            return;
        }
        self.disconnected.cancel();
        let displaced = ToolsDisplacedEvent {
            session_key: self.session_key.clone(),
            session_id: self.session_id.clone(),
            host: host.to_owned(),
        };
        self.outbox.send_event(TOOLS_DISPLACED, &displaced);
    }

    /// Name of the host that took over, if another connection did.
    pub(crate) fn displaced_by(&self) -> Option<&str> {
        self.displaced_by.get().map(String::as_str)
    }

    /// Whether the connection still hosts the session.
    pub(crate) fn is_attached(&self) -> bool {
        !self.disconnected.is_cancelled()
    }

    /// Name of the host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Stores the tools that the host offers.
    pub(crate) fn set_offer(&self, offer: ToolOffer) {
        self.offer.send_replace(Some(Arc::new(offer)));
    }

    /// The tools that the host has offered, if any.
    pub(crate) fn offered_tools(&self) -> Option<ToolList> {
        self.offer.borrow().as_ref().map(|offer| offer.catalog.tools.clone())
    }

    /// Processes a progress message of the host.
    pub(crate) fn handle_progress(&self, params: ToolsProgressParams) -> Result<(), ErrorPayload> {
        let mut calls = self.lock_calls();
        let waiting = calls
            .get_mut(&params.tool_call_id)
            .ok_or_else(|| unknown_call_error(&params.tool_call_id))?;
        *waiting.last_heartbeat.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if let Some(title) = params.title {
            waiting.describe(&title, params.kind, params.locations);
        }
        if let Some(message) = params.message {
            let message = head(&message, PROGRESS_BYTES_MAX);
            let message = sanitize::replace_unsafe_chars(message);
            waiting.watch.on_progress(CallProgress { message, percentage: params.percentage });
        }
        Ok(())
    }

    /// Processes the result of a call. A second result for the same call is refused.
    pub(crate) fn handle_result(&self, params: ToolsResultParams) -> Result<(), ErrorPayload> {
        let waiting = self.lock_calls().remove(&params.tool_call_id);
        let Some(mut waiting) = waiting else { return self.keep_outcome(params) };
        let bytes = json_bytes(&params);
        // The run may have stopped waiting a moment ago; this is not an error of the host.
        if bytes > RESULT_BYTES_MAX {
            let why = format!("the result has {bytes} bytes, more than {RESULT_BYTES_MAX}");
            let message = format!("{why}; ask for less at a time");
            let error = ToolError::failed(ErrorReason::TooLarge, message).with_tool(&waiting.tool);
            let _ = waiting.answer.send(error.into());
            return Err(ErrorPayload::invalid(format!("{why}; the call was recorded as failed")));
        }
        if let Some(title) = &params.title {
            waiting.describe(title, params.kind, Vec::new());
        }
        let _ = waiting.answer.send(to_outcome(params, &waiting.tool));
        Ok(())
    }

    /// Keeps the outcome of a call that another gateway has made.
    fn keep_outcome(&self, params: ToolsResultParams) -> Result<(), ErrorPayload> {
        let unknown = || Err(unknown_call_error(&params.tool_call_id));
        let Some(kept) = self.kept_outcomes.get().filter(|_| self.offer.borrow().is_none()) else {
            return unknown();
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = kept.outcomes.is_empty();
        kept.keep(params)?;
        if is_first {
            self.forget_kept_outcomes_later();
        }
        Ok(())
    }

    /// Drops the kept outcomes after a time limit: if the run of a call has ended otherwise, its
    /// outcome is never taken.
    fn forget_kept_outcomes_later(&self) {
        let (itself, disconnected) = (self.itself.clone(), self.disconnected.clone());
        tokio::spawn(async move {
            let time = tokio::time::sleep(KEPT_TIME_MAX);
            let _ = disconnected.run_until_cancelled(time).await;
            let backend = itself.upgrade();
            if let Some(kept) = backend.as_ref().and_then(|backend| backend.kept_outcomes.get()) {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = KeptOutcomes::default();
            }
        });
    }

    fn lock_calls(&self) -> MutexGuard<'_, HashMap<String, RemoteCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_wire_terms(&self, terms: HostSettings) -> ToolsTerms {
        ToolsTerms {
            session_key: self.session_key.clone(),
            session_id: self.session_id.clone(),
            dialect: terms.dialect.as_str().to_owned(),
            mode: terms.mode.map(|mode| mode.as_str().to_owned()),
            outcome: true,
            report_ms: u64::try_from(self.report_interval().as_millis()).ok(),
            subagents: true,
            recovers: self.kept_outcomes.get().is_some(),
        }
    }

    fn report_interval(&self) -> Duration {
        self.silence_max.min(DEADLINE_MARGIN) / REPORTS_PER_SILENCE
    }

    /// How long the host may say nothing about a call.
    fn silence_limit(&self, timeout: Option<Duration>) -> Duration {
        timeout.map_or(self.silence_max, |timeout| {
            timeout.saturating_add(DEADLINE_MARGIN).min(self.silence_max)
        })
    }

    /// Changes the settings and notifies the host if they differ from the ones it knows.
    fn update_settings(
        &self,
        change: impl FnOnce(&mut HostSettings),
    ) -> Result<(), ToolBackendError> {
        let terms = {
            let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut terms);
            *terms
        };
        if self.outbox.send_event(TOOLS_TERMS, &self.to_wire_terms(terms)) {
            Ok(())
        } else {
            Err(self.disconnected_error())
        }
    }

    fn disconnected_error(&self) -> ToolBackendError {
        ToolBackendError::ClientDisconnected { host: self.host.clone() }
    }

    async fn wait_for_offer(&self, dialect: DialectName) -> Result<ToolCatalog, ToolBackendError> {
        let mut offers = self.offer.subscribe();
        let fits = |offer: &Option<Arc<ToolOffer>>| {
            offer.as_ref().is_some_and(|offer| offer.dialect == dialect)
        };
        if !fits(&offers.borrow_and_update()) {
            // The host may already be preparing the offer for the initial settings; sending them
            // again is harmless.
            self.update_settings(|terms| terms.dialect = dialect)?;
        }
        let offered = tokio::time::timeout(OFFER_WAIT, offers.wait_for(fits));
        let Some(offered) = self.disconnected.run_until_cancelled(offered).await else {
            return Err(self.disconnected_error());
        };
        match offered {
            Ok(Ok(offer)) => offer
                .as_ref()
                .map(|offer| offer.catalog.clone())
                .ok_or_else(|| self.disconnected_error()),
            Ok(Err(_)) => Err(self.disconnected_error()),
            Err(_) => Err(ToolBackendError::Workspace(format!(
                "the hosting client {} did not offer its tools in the dialect `{dialect}` within {} s; \
                 look there for what it is waiting for",
                self.host,
                OFFER_WAIT.as_secs()
            ))),
        }
    }

    /// Makes a call, for a sub-agent of the session if one is given.
    pub(crate) async fn run_call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        subagent: Option<ToolsSubagent>,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> ToolOutcome {
        let Some(kind) = self.tool_kind(&call.tool, dialect) else {
            if self.disconnected.is_cancelled() || cancel.is_cancelled() {
                return self.send_call(call, ToolKind::Other, subagent, cancel, watch).await;
            }
            let why = format!("the hosting client {} has no tool `{}` now", self.host, call.tool);
            let error = ToolError::not_found(ErrorReason::UnknownTool, why);
            return error.with_tool(&call.tool).into();
        };
        self.send_call(call, kind, subagent, cancel, watch).await
    }

    /// Opens or closes the tools of a sub-agent.
    pub(crate) async fn request_subagent_step(&self, subagent: ToolsSubagent) -> ToolOutcome {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: String::new(),
            input: serde_json::Value::Null,
            timeout: None,
        };
        let watch = Arc::new(SilentObserver);
        let cancel = CancellationToken::new();
        self.send_call(call, ToolKind::Other, Some(subagent), cancel, watch).await
    }

    /// Asks the host to take back what calls changed in files.
    async fn request_rewind(
        &self,
        request: FileRewindRequest,
    ) -> Result<FileRewindReport, ToolError> {
        let unreadable = |error: serde_json::Error| {
            let message =
                format!("the hosting client {} answered a rewind wrongly: {error}", self.host);
            ToolError::failed(ErrorReason::Io, message)
        };
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: REWIND_CALL.to_owned(),
            input: serde_json::to_value(&request).map_err(unreadable)?,
            timeout: None,
        };
        let (cancel, watch) = (CancellationToken::new(), Arc::new(SilentObserver));
        match self.send_call(call, ToolKind::Edit, None, cancel, watch).await {
            ToolOutcome::Result(result) => {
                serde_json::from_value(result.structured).map_err(unreadable)
            }
            // An older zero knows no such call.
            ToolOutcome::Error(error) if error.reason() == Some(ErrorReason::UnknownTool) => {
                let message = format!(
                    "the hosting client {} cannot rewind files; update zero there, or rewind the conversation only",
                    self.host
                );
                Err(ToolError::failed(ErrorReason::ServerUnavailable, message))
            }
            ToolOutcome::Error(error) => Err(error),
        }
    }

    async fn send_call(
        &self,
        call: ToolCall,
        kind: ToolKind,
        subagent: Option<ToolsSubagent>,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> ToolOutcome {
        let ToolCall { id, tool, input, timeout, .. } = call;
        let id = String::from(id);
        let failed = |reason, text: String| ToolError::failed(reason, text).with_tool(&tool).into();
        if self.disconnected.is_cancelled() {
            let why = self.disconnected_error().to_string();
            return failed(ErrorReason::ServerUnavailable, why);
        }
        if cancel.is_cancelled() {
            return failed(ErrorReason::Cancelled, "stopped before it was begun".to_owned());
        }
        let (answer, mut answered) = oneshot::channel();
        let last_heartbeat = Arc::new(Mutex::new(Instant::now()));
        let silence_max = self.silence_limit(timeout);
        {
            let mut calls = self.lock_calls();
            if calls.len() >= CALLS_MAX {
                let why = format!(
                    "the hosting client {} has {CALLS_MAX} running calls; wait for one to end",
                    self.host
                );
                return failed(ErrorReason::QueueFull, why);
            }
            if calls.contains_key(&id) {
                return failed(ErrorReason::Busy, format!("a call `{id}` is already running"));
            }
            let (title, tool) = (tool.clone(), tool.clone());
            let heartbeat = Arc::clone(&last_heartbeat);
            calls.insert(
                id.clone(),
                RemoteCall { answer, watch, tool, title, kind, last_heartbeat: heartbeat },
            );
        }
        let mut pending_call = PendingCallGuard { backend: self, id: &id, is_settled: false };
        let order = ToolsUseEvent {
            session_id: self.session_id.clone(),
            tool_call_id: id.clone(),
            tool_name: tool.clone(),
            input,
            timeout_ms: timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            subagent,
        };
        if !self.outbox.send_event(TOOLS_USE, &order) {
            pending_call.is_settled = true;
            return failed(ErrorReason::ServerUnavailable, self.disconnect_message());
        }
        let end = tokio::select! {
            biased;
            end = &mut answered => end.ok(),
            () = self.disconnected.cancelled() => None,
            () = wait_for_silence(&last_heartbeat, silence_max) => {
                // Dropping the guard cancels the call at the host.
                let message = format!(
                    "the hosting client {} said nothing about this call for {} s; whether it happened \
                     is not known: check before you repeat it",
                    self.host,
                    silence_max.as_secs()
                );
                let error = ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, message);
                return error.with_tool(&tool).into();
            }
            () = cancel.cancelled() => {
                pending_call.cancel();
                tokio::select! {
                    biased;
                    end = &mut answered => end.ok(),
                    () = self.disconnected.cancelled() => None,
                    () = tokio::time::sleep(CANCEL_GRACE) => {
                        pending_call.is_settled = true;
                        return failed(ErrorReason::Cancelled, format!(
                            "stopped; the hosting client {} did not report the outcome within {} s",
                            self.host,
                            CANCEL_GRACE.as_secs()
                        ));
                    }
                }
            }
        };
        pending_call.is_settled = true;
        end.unwrap_or_else(|| failed(ErrorReason::ServerUnavailable, self.disconnect_message()))
    }

    fn disconnect_message(&self) -> String {
        format!(
            "the hosting client {} went away; whether it happened is not known: check before you repeat it",
            self.host
        )
    }

    /// Kind of the called tool; `None` if the host offers no tool with that name.
    fn tool_kind(&self, name: &str, dialect: DialectName) -> Option<ToolKind> {
        let offer = self.offer.borrow();
        let offer = offer.as_ref().filter(|offer| offer.dialect == dialect)?;
        offer.catalog.tools.iter().find(|tool| tool.name == name).map(|tool| tool.kind)
    }
}

/// A pending call. Dropping it removes the call and cancels it at the host if the host has not
/// answered.
struct PendingCallGuard<'a> {
    backend: &'a RemoteToolBackend,
    id: &'a str,
    is_settled: bool,
}

impl PendingCallGuard<'_> {
    fn cancel(&self) {
        let cancel = ToolsCancelEvent {
            session_id: self.backend.session_id.clone(),
            tool_call_id: self.id.to_owned(),
        };
        self.backend.outbox.send_event(TOOLS_CANCEL, &cancel);
    }
}

impl Drop for PendingCallGuard<'_> {
    fn drop(&mut self) {
        self.backend.lock_calls().remove(self.id);
        if !self.is_settled {
            self.cancel();
        }
    }
}

impl ToolBackend for RemoteToolBackend {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        Box::pin(self.wait_for_offer(dialect))
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(self.run_call(call, dialect, None, cancel, watch))
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        // The client knows where this gateway runs, and does not believe what it says.
        _requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        Box::pin(self.request_rewind(request))
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        let result = if self.disconnected.is_cancelled() {
            Err(self.disconnected_error())
        } else {
            self.update_settings(|terms| terms.mode = mode)
        };
        Box::pin(std::future::ready(result))
    }

    fn location(&self) -> String {
        self.host.clone()
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    fn reconnect_grace(&self) -> Duration {
        self.comes_back_within
    }

    fn take_outcomes(&self, calls: Vec<String>) -> BoxFuture<'_, HashMap<String, ToolOutcome>> {
        Box::pin(async move {
            let Some(kept) = self.kept_outcomes.get() else { return HashMap::new() };
            // The host reports them before it offers its tools.
            let mut offers = self.offer.subscribe();
            let offered = tokio::time::timeout(OFFER_WAIT, offers.wait_for(Option::is_some));
            let _ = self.disconnected.run_until_cancelled(offered).await;
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            calls.into_iter().filter_map(|call| kept.take(call)).collect()
        })
    }

    fn takes_subagents(&self) -> bool {
        self.offer.borrow().as_ref().is_some_and(|offer| offer.takes_subagents)
    }

    fn open_subagent(
        &self,
        request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(async move {
            let backend = self.itself.upgrade().ok_or_else(|| self.disconnected_error())?;
            RemoteSubagentTools::open(backend, None, request).await
        })
    }
}

/// Completes when nothing was heard for so long.
async fn wait_for_silence(last_heartbeat: &Mutex<Instant>, silence_max: Duration) {
    loop {
        let last = *last_heartbeat.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = last.checked_add(silence_max) else {
            return std::future::pending().await;
        };
        if Instant::now() >= until {
            return;
        }
        sleep_until(until).await;
    }
}

fn unknown_call_error(call: &str) -> ErrorPayload {
    let call = excerpt(call, 128);
    ErrorPayload::invalid(format!(
        "nothing waits for call `{call}` here: it was answered, given up, or never asked of this \
         connection"
    ))
}

/// Converts a result. `isError` takes precedence over a status that claims success.
fn to_outcome(params: ToolsResultParams, tool: &str) -> ToolOutcome {
    let mut outcome = match params.outcome {
        Some(outcome) => outcome.with_limited_depth(),
        None => {
            let status = match (params.status, params.is_error) {
                (Some(ToolCallStatus::Completed) | None, true) => ToolCallStatus::Failed,
                (None, false) => ToolCallStatus::Completed,
                (Some(status), _) => status,
            };
            let display = params.plan.map(|entries| ResultDisplay::Plan { entries });
            let display = display.or(params.display);
            let content = params.content.into_iter().map(Into::into).collect();
            ToolOutcome::from_content(status, content, display, params.locations)
        }
    };
    match &mut outcome {
        ToolOutcome::Result(result) => result.locations.truncate(PLACES_MAX),
        ToolOutcome::Error(error) => {
            tool.clone_into(&mut error.tool);
            let places =
                error.details.get_mut("locations").and_then(serde_json::Value::as_array_mut);
            if let Some(places) = places {
                places.truncate(PLACES_MAX);
            }
        }
    }
    outcome
}

fn limit_locations(mut places: Vec<FileLocation>) -> Vec<FileLocation> {
    places.truncate(PLACES_MAX);
    places
}

#[cfg(test)]
mod tests;
