//! Hosts the tools of a session for a gateway. The tools run here, next to the files, under this
//! machine's rules, whatever the gateway requests.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::shorten_end;
use zero_core::{
    CallId, CallProgress, ErrorReason, FileLocation, ToolCall, ToolError, ToolKind, ToolOutcome,
    ToolResult, sanitize,
};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::dialect::render_for_model;
use zero_runtime::file_rewind::{FileRewindRequest, REWIND_CALL, RewindRequester};
use zero_runtime::schema::foreign_schema;
use zero_runtime::tool_backend::{CallObserver, CatalogEntry, ToolBackend, ToolCatalog};
use zero_wire::client::{EncodedParams, GatewayClient, GatewayClientError};
use zero_wire::tools::{
    DESCRIPTION_LEN_MAX, DISPLAY_NAME_LEN_MAX, OfferedCommand, OfferedInstruction, OfferedTool,
    TOOLS_CANCEL, TOOLS_DISPLACED, TOOLS_MAX, TOOLS_TERMS, TOOLS_USE, ToolsAttach,
    ToolsAttachParams, ToolsCancelEvent, ToolsDisplacedEvent, ToolsOffer, ToolsOfferParams,
    ToolsProgress, ToolsProgressParams, ToolsResult, ToolsResultParams, ToolsSubagent,
    ToolsSubagentStep, ToolsTerms, ToolsUseEvent,
};
use zero_wire::{EventFrame, GatewayMethod as _};

use crate::call_rejection::{to_old_result_params, to_result_params};
use crate::gateway_dialer::GatewayLocality;
use crate::subagent_tools::{self, SubagentTools};
use crate::unacknowledged_results::UnacknowledgedResults;

/// Most concurrent calls; further ones are refused. A gateway's agent loop makes fewer.
pub(crate) const CALLS_MAX: usize = 64;
/// Longest wait for an answer of the gateway.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Delay before the progress of a call is sent separately; most calls end sooner, and their result
/// is complete.
const PROGRESS_DELAY: Duration = Duration::from_millis(10);
/// Shortest interval of reports that is accepted from a gateway, in milliseconds.
const REPORT_MS_MIN: u64 = 100;
/// Progress messages that may wait to be sent; further ones are dropped.
const PROGRESS_WAITING_MAX: usize = 64;

/// Hosts the tools of one session.
pub struct ToolService {
    client: GatewayClient,
    backend: Arc<dyn ToolBackend>,
    session_key: String,
    /// The permission mode that applies here. The gateway can request a stricter one, never a more
    /// permissive one.
    own_mode: PermissionMode,
    /// Whether the gateway takes the outcome of a call.
    takes_outcome: bool,
    /// How often the gateway wants to hear of a running call.
    report_interval: Option<Duration>,
    /// Whether the gateway continues runs of others, and wants to know what became of their calls.
    recovers: bool,
    /// Results that no gateway has acknowledged.
    unacknowledged: Arc<UnacknowledgedResults>,
    /// Whether the gateway starts sub-agents.
    starts_subagents: bool,
    /// Where the gateway runs: a rewind that one elsewhere asks for is judged.
    locality: GatewayLocality,
    state: Mutex<ToolServiceState>,
}

struct ToolServiceState {
    dialect: DialectName,
    session_id: String,
    calls: HashMap<String, CancellationToken>,
    /// The tools of sub-agents, by their sessions.
    subagents: SubagentTools,
    /// Digest of the last offer, to detect changes.
    offered: Option<u64>,
}

impl ToolService {
    /// Claims the tools of a session and offers them.
    pub async fn attach(
        client: &GatewayClient,
        attach_params: ToolsAttachParams,
        backend: Arc<dyn ToolBackend>,
        own_mode: PermissionMode,
        locality: GatewayLocality,
    ) -> Result<Arc<Self>, GatewayClientError> {
        let kept = Arc::default();
        let (service, terms) =
            Self::claim_tools(client, attach_params, backend, own_mode, locality, kept).await?;
        service.apply_terms(&terms).await?;
        Ok(service)
    }

    /// Claims the tools; they are offered once the [terms](Self::apply_terms) are applied.
    pub(crate) async fn claim_tools(
        client: &GatewayClient,
        attach_params: ToolsAttachParams,
        backend: Arc<dyn ToolBackend>,
        own_mode: PermissionMode,
        locality: GatewayLocality,
        unacknowledged: Arc<UnacknowledgedResults>,
    ) -> Result<(Arc<Self>, ToolsTerms), GatewayClientError> {
        let terms = client.request_within::<ToolsAttach>(attach_params, ANSWER_MAX).await?;
        let service = Arc::new(Self {
            client: client.clone(),
            backend,
            session_key: terms.session_key.clone(),
            own_mode,
            takes_outcome: terms.outcome,
            recovers: terms.recovers,
            unacknowledged,
            starts_subagents: terms.subagents,
            locality,
            report_interval: terms.report_ms.map(|ms| Duration::from_millis(ms.max(REPORT_MS_MIN))),
            state: Mutex::new(ToolServiceState {
                dialect: DialectName::Canonical,
                session_id: terms.session_id.clone(),
                calls: HashMap::new(),
                subagents: SubagentTools::default(),
                offered: None,
            }),
        });
        Ok((service, terms))
    }

    /// Handles a tool event; returns false for other events.
    pub fn handle_event(self: &Arc<Self>, event: &EventFrame) -> bool {
        match event.event.as_str() {
            TOOLS_USE => {
                if let Some(tools_event) = parse_payload::<ToolsUseEvent>(event) {
                    self.start_call(tools_event);
                }
            }
            TOOLS_CANCEL => {
                if let Some(ToolsCancelEvent { tool_call_id, .. }) = parse_payload(event)
                    && let Some(cancel) = self.lock_state().calls.get(&tool_call_id)
                {
                    cancel.cancel();
                }
            }
            // The gateway no longer waits for the running calls.
            TOOLS_DISPLACED if self.displaced_by(event).is_some() => self.stop_all_calls(),
            TOOLS_TERMS => {
                if let Some(terms) = parse_payload::<ToolsTerms>(event)
                    && terms.session_key == self.session_key
                {
                    let service = Arc::clone(self);
                    tokio::spawn(async move {
                        if let Err(error) = service.apply_terms(&terms).await {
                            tracing::warn!(%error, "the tools could not be offered again");
                        }
                    });
                }
            }
            _ => return false,
        }
        true
    }

    /// The new host, if the event says that another one took over.
    pub fn displaced_by(&self, event: &EventFrame) -> Option<ToolsDisplacedEvent> {
        let displaced = (event.event == TOOLS_DISPLACED).then(|| parse_payload(event)).flatten();
        displaced
            .filter(|displaced: &ToolsDisplacedEvent| displaced.session_key == self.session_key)
    }

    /// Cancels every call.
    pub fn stop_all_calls(&self) {
        let mut state = self.lock_state();
        state.calls.values().for_each(CancellationToken::cancel);
        state.subagents = SubagentTools::default();
    }

    /// Applies the dialect and mode of the terms, and offers the tools in that dialect.
    pub(crate) async fn apply_terms(&self, terms: &ToolsTerms) -> Result<(), GatewayClientError> {
        let dialect = DialectName::from_str(&terms.dialect).unwrap_or(DialectName::Canonical);
        self.lock_state().dialect = dialect;
        let requested_mode =
            terms.mode.as_deref().and_then(|mode| PermissionMode::from_str(mode).ok());
        let mode =
            requested_mode.filter(|mode| mode.is_within(self.own_mode)).unwrap_or(self.own_mode);
        if let Err(error) = self.backend.set_mode(Some(mode)).await {
            tracing::warn!(%error, "the mode could not be changed");
        }
        let offer = self.encode_offer(dialect).await?;
        self.report_unacknowledged().await;
        self.send_offer(offer).await
    }

    /// Reports what became of calls of a gateway that is gone, before the first offer.
    async fn report_unacknowledged(&self) {
        if !self.recovers || self.lock_state().offered.is_some() {
            return;
        }
        for result in self.unacknowledged.list() {
            let call = result.tool_call_id.clone();
            match self.client.request_within::<ToolsResult>(result, ANSWER_MAX).await {
                // One that is refused has no use any more.
                Ok(_) | Err(GatewayClientError::Refused { .. }) => {
                    self.unacknowledged.acknowledge(&call);
                }
                Err(error) => {
                    tracing::warn!(%error, call, "a result did not reach the gateway");
                    return;
                }
            }
        }
    }

    /// Offers the tools again if they have changed: an MCP server may take a while to start.
    pub async fn offer_if_changed(&self) -> Result<(), GatewayClientError> {
        let dialect = self.lock_state().dialect;
        let offer = self.encode_offer(dialect).await?;
        if self.lock_state().offered == Some(offer_digest(&offer)) {
            return Ok(());
        }
        self.send_offer(offer).await
    }

    /// Offers the tools even if they are unchanged. The gateway refuses an offer of a displaced
    /// host.
    pub(crate) async fn force_offer(&self) -> Result<(), GatewayClientError> {
        let dialect = self.lock_state().dialect;
        let offer = self.encode_offer(dialect).await?;
        self.send_offer(offer).await
    }

    async fn encode_offer(
        &self,
        dialect: DialectName,
    ) -> Result<EncodedParams, GatewayClientError> {
        let mut catalog = match self.backend.load_catalog(dialect).await {
            Ok(catalog) => catalog,
            Err(error) => {
                tracing::warn!(%error, "no tools are available");
                ToolCatalog::default()
            }
        };
        let agents = std::mem::take(&mut catalog.agents);
        let mut offer = build_offer(&self.session_key, dialect, catalog);
        if self.starts_subagents && self.backend.takes_subagents() {
            offer.subagents = true;
            offer.agents = agents.into_iter().map(subagent_tools::offer_agent).collect();
        }
        EncodedParams::encode(ToolsOffer::NAME, &offer)
    }

    async fn send_offer(&self, offer: EncodedParams) -> Result<(), GatewayClientError> {
        let (what, after) = (ToolsOffer::NAME, ANSWER_MAX);
        let offered = timeout(after, self.client.request_encoded(what, &offer)).await;
        offered.unwrap_or(Err(GatewayClientError::Timeout { what, after }))?;
        self.lock_state().offered = Some(offer_digest(&offer));
        Ok(())
    }

    fn start_call(self: &Arc<Self>, tools_event: ToolsUseEvent) {
        let cancel = CancellationToken::new();
        let id = CallId::new(&tools_event.tool_call_id);
        let (dialect, refused) = {
            let mut state = self.lock_state();
            let refused = id.is_err()
                || state.session_id != tools_event.session_id
                || state.calls.len() >= CALLS_MAX
                || state.calls.contains_key(&tools_event.tool_call_id);
            if !refused {
                state.calls.insert(tools_event.tool_call_id.clone(), cancel.clone());
            }
            (state.dialect, refused)
        };
        let service = Arc::clone(self);
        tokio::spawn(async move {
            let (Ok(id), false) = (id, refused) else {
                let words = "this call was not made: it is not of this session, is under way already, has no valid id, or too many are under way";
                let error = ToolError::failed(ErrorReason::Busy, words);
                let error = error.with_tool(&tools_event.tool_name);
                return service.send_result(&tools_event, error.into(), None).await;
            };
            let (watch, mut progress_queue) = RemoteCallObserver::new();
            let call = ToolCall {
                id,
                session: None,
                tool: tools_event.tool_name.clone(),
                input: tools_event.input.clone(),
                timeout: tools_event.timeout_ms.map(Duration::from_millis),
            };
            let mut made = pin!(async {
                let watch = Arc::new(watch);
                let end = match tools_event.subagent.clone() {
                    _ if tools_event.tool_name == REWIND_CALL => {
                        service.rewind_files(&tools_event, cancel).await
                    }
                    None => service.backend.call(call, dialect, cancel, watch).await,
                    Some(subagent) => {
                        service.call_for_subagent(subagent, call, dialect, cancel, watch).await
                    }
                };
                service.lock_state().calls.remove(&tools_event.tool_call_id);
                end
            });
            let end = match timeout(PROGRESS_DELAY, &mut made).await {
                Ok(end) => end,
                Err(_) => {
                    let ended_token = CancellationToken::new();
                    let made = async {
                        let end = made.await;
                        ended_token.cancel();
                        end
                    };
                    let notification =
                        service.forward_progress(&tools_event, &mut progress_queue, &ended_token);
                    tokio::join!(made, notification).0
                }
            };
            service.send_result(&tools_event, end, last_unsent_progress(&mut progress_queue)).await;
        });
    }

    /// Takes back what calls of the session changed in files. A gateway in this process acts for the
    /// user; requests of another gateway are judged here as the changes that they make.
    async fn rewind_files(
        &self,
        tools_event: &ToolsUseEvent,
        cancel: CancellationToken,
    ) -> ToolOutcome {
        let request = match FileRewindRequest::deserialize(&tools_event.input) {
            Ok(request) => request,
            Err(error) => {
                let message = format!("the request to rewind files is invalid: {error}");
                return ToolError::invalid(ErrorReason::SchemaViolation, message).into();
            }
        };
        let requester = match self.locality {
            GatewayLocality::InProcess => RewindRequester::User,
            GatewayLocality::Remote => RewindRequester::Gateway(cancel),
        };
        match self.backend.rewind_files(request, requester).await {
            Ok(report) => match serde_json::to_value(&report) {
                Ok(structured) => ToolResult { structured, ..ToolResult::text("") }.into(),
                Err(error) => ToolError::failed(ErrorReason::Io, error.to_string()).into(),
            },
            Err(error) => error.with_tool(REWIND_CALL).into(),
        }
    }

    async fn call_for_subagent(
        &self,
        subagent: ToolsSubagent,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<RemoteCallObserver>,
    ) -> ToolOutcome {
        // Cheap to clone, and a lock must not be held while it waits.
        let subagents = self.lock_state().subagents.clone();
        let tool = call.tool.clone();
        let outcome = match subagent.step {
            ToolsSubagentStep::Open { .. } => subagents.open(&self.backend, subagent).await,
            ToolsSubagentStep::Close => subagents.close(&subagent.session_id).await,
            ToolsSubagentStep::Call => match subagents.find(&subagent.session_id) {
                Ok(tools) => return tools.call(call, dialect, cancel, watch).await,
                Err(error) => Err(error),
            },
        };
        outcome.map_or_else(|error| error.with_tool(&tool).into(), ToolOutcome::from)
    }

    /// Sends the progress of a call until the call ends. Without progress, it reports at intervals
    /// that the call is under way, such as while the user is asked.
    async fn forward_progress(
        &self,
        tools_event: &ToolsUseEvent,
        progress_queue: &mut mpsc::Receiver<ToolsProgressParams>,
        ended_token: &CancellationToken,
    ) {
        loop {
            let is_open = !progress_queue.is_closed() || !progress_queue.is_empty();
            let progress = tokio::select! {
                biased;
                progress = progress_queue.recv(), if is_open => match progress {
                    Some(progress) => progress,
                    None => continue,
                },
                () = ended_token.cancelled() => return,
                () = wait_for_report(self.report_interval) => ToolsProgressParams::default(),
            };
            let progress = ToolsProgressParams {
                session_id: tools_event.session_id.clone(),
                tool_call_id: tools_event.tool_call_id.clone(),
                ..progress
            };
            if self.client.request::<ToolsProgress>(progress).await.is_err() {
                // If the progress cannot be sent, stop sending: the result is complete.
                return;
            }
        }
    }

    /// Sends the result of a call, with its description if that was not sent yet.
    async fn send_result(
        &self,
        tools_event: &ToolsUseEvent,
        mut outcome: ToolOutcome,
        unsent: Option<ToolsProgressParams>,
    ) {
        let ToolsProgressParams { title, kind, locations: about, .. } = unsent.unwrap_or_default();
        if let ToolOutcome::Result(result) = &mut outcome
            && result.locations.is_empty()
        {
            result.locations = about;
        }
        let result = if self.takes_outcome {
            to_result_params(tools_event, outcome)
        } else {
            let dialect = self.lock_state().dialect;
            let content = render_for_model(dialect, &tools_event.tool_name, &outcome);
            to_old_result_params(tools_event, outcome, content)
        };
        let result = ToolsResultParams { title, kind, ..result };
        // Only gateways with others continue runs of those that are gone.
        if self.recovers {
            self.unacknowledged.keep(result.clone());
        }
        let sent = self.client.request::<ToolsResult>(result).await;
        // A gateway that refuses it may have given the run to another one, which wants to know the outcome.
        if sent.is_ok() {
            self.unacknowledged.acknowledge(&tools_event.tool_call_id);
        }
        if let Err(error) = sent {
            tracing::warn!(%error, call = %tools_event.tool_call_id, "a result did not reach the gateway");
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, ToolServiceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completes when the gateway wants to hear of a call again.
async fn wait_for_report(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}

/// The last description among the progress messages that were not sent.
fn last_unsent_progress(
    progress_queue: &mut mpsc::Receiver<ToolsProgressParams>,
) -> Option<ToolsProgressParams> {
    let mut last = None;
    while let Ok(progress) = progress_queue.try_recv() {
        if progress.title.is_some() {
            last = Some(progress);
        }
    }
    last
}

fn parse_payload<T: DeserializeOwned>(event: &EventFrame) -> Option<T> {
    let read = T::deserialize(event.payload.as_ref()?);
    read.inspect_err(|error| tracing::warn!(%error, event = event.event, "an event is invalid"))
        .ok()
}

/// A digest that changes with the offer.
fn offer_digest(offer: &EncodedParams) -> u64 {
    let mut hasher = DefaultHasher::new();
    offer.hash(&mut hasher);
    hasher.finish()
}

/// An offer that the gateway accepts. The gateway rejects an offer as a whole, so untrusted text is
/// sanitized, and third-party tools that it would reject are omitted.
fn build_offer(session_key: &str, dialect: DialectName, catalog: ToolCatalog) -> ToolsOfferParams {
    let tool = |mut tool: CatalogEntry| {
        if let Err(why) = foreign_schema::vet_input(&mut tool.input_schema) {
            tracing::warn!(tool = tool.name, "not offered: its input schema {why}");
            return None;
        }
        let described = tool.description.replace("\r\n", "\n");
        Some(OfferedTool {
            name: tool.name,
            canonical: tool.canonical,
            display_name: tool
                .display_name
                .map(|name| shorten_end(&sanitize::to_line(&name), DISPLAY_NAME_LEN_MAX - 1))
                .filter(|name| !name.is_empty()),
            description: shorten_end(
                &sanitize::replace_unsafe_chars(&described),
                DESCRIPTION_LEN_MAX - 1,
            ),
            input_schema: tool.input_schema,
            kind: tool.kind,
            read_only: tool.read_only,
        })
    };
    let instruction = |file: zero_runtime::tool_backend::InstructionFile| OfferedInstruction {
        path: path_line(&file.path),
        text: file.text,
    };
    let command = |command: zero_runtime::tool_backend::PromptCommand| OfferedCommand {
        name: command.name,
        description: sanitize::to_line(&command.description),
        argument_hint: command.argument_hint.as_deref().map(sanitize::to_line),
        prompt: command.prompt,
    };
    ToolsOfferParams {
        session_key: session_key.to_owned(),
        dialect: dialect.to_string(),
        cwd: path_line(&catalog.cwd.display().to_string()),
        system: catalog.system,
        tools: catalog.tools.iter().cloned().filter_map(tool).take(TOOLS_MAX).collect(),
        instructions: catalog.instructions.into_iter().map(instruction).collect(),
        commands: catalog.commands.into_iter().map(command).collect(),
        subagents: false,
        agents: Vec::new(),
    }
}

/// A path as one line of text.
fn path_line(path: &str) -> String {
    sanitize::replace_unsafe_chars(path).replace(['\n', '\t'], " ")
}

/// Observes one call and forwards its progress.
struct RemoteCallObserver {
    progress_queue: mpsc::Sender<ToolsProgressParams>,
}

impl RemoteCallObserver {
    fn new() -> (Self, mpsc::Receiver<ToolsProgressParams>) {
        let (progress_queue, receiver) = mpsc::channel(PROGRESS_WAITING_MAX);
        (Self { progress_queue }, receiver)
    }
}

impl CallObserver for RemoteCallObserver {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        let (title, kind) = (Some(title), Some(kind));
        let _ = self.progress_queue.try_send(ToolsProgressParams {
            title,
            kind,
            locations,
            ..ToolsProgressParams::default()
        });
    }

    fn on_progress(&self, progress: CallProgress) {
        let CallProgress { message, percentage } = progress;
        let _ = self.progress_queue.try_send(ToolsProgressParams {
            message: Some(message),
            percentage,
            ..ToolsProgressParams::default()
        });
    }
}
