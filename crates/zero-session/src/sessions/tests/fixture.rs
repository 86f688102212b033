//! Sessions with a scripted model and tool backend, and their ledgers as lines.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zero_core::{
    CallId, ResultDisplay, RiskLevel, RunId, SessionId, ToolCall, ToolError, ToolKind, ToolName,
    ToolOutcome, ToolResult,
};
use zero_policy::{GrantScope, PermissionMode};
use zero_runtime::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use zero_runtime::prompt_mentions::MentionTarget;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{ApprovalQuestion, ApprovalSubject, DialectName};

use super::mem_store::MemStore;
use crate::agent::{AgentProfile, AgentRegistry, DIRECT};
use crate::approvals::InteractionBroker;
use crate::event::{
    Event, EventKind, PlanEntry, ResultContent, RunOutcome, TokenUsage, ToolCallStatus,
};
use crate::event_bus::{DeliverySender, EventBus, Subscription};
use crate::key::{SessionAddress, SessionKey};
use crate::local_backend::subagent_tools::SubagentApprover;
use crate::message::{MessageBlock, ToolInput};
use crate::model::catalog::ModelCatalog;
use crate::model::*;
use crate::node_membership::{NodeMembership, SessionLease, SingleNode};
use crate::sessions::*;
use crate::store::{GrantRecord, LedgerReadLimit, RunRecord, SessionRecord};
use crate::turn::transcript_repair;
use zero_runtime::tool_backend::*;

/// Time limit of any step before a test fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Result of a call that was not recorded before it started.
const UNRECORDED: &str = "a call began before it was on record";

/// A run that has ended.
pub(crate) struct FinishedRun {
    pub(crate) run: RunRecord,
    /// The whole text of the model.
    pub(crate) text: String,
}

pub(crate) struct SessionTestBed {
    pub(crate) store: Arc<MemStore>,
    pub(crate) bus: Arc<RecordingBus>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) nodes: Arc<ScriptedNodes>,
    pub(crate) backend: Arc<ScriptedBackendFactory>,
    pub(crate) sessions: SessionManager,
    pub(crate) key: SessionAddress,
}

/// Records published events.
pub(crate) struct RecordingBus {
    published: watch::Sender<Vec<(SessionId, Arc<Event>)>>,
}

impl EventBus for RecordingBus {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        let delivered = events.iter().map(|event| (session.clone(), Arc::clone(event)));
        self.published.send_modify(|published| published.extend(delivered));
    }

    fn subscribe(&self, _session: &SessionId, _ear: &DeliverySender) -> Subscription {
        Subscription::new(())
    }
}

/// Answers by a script: words are text, `~word` is a thought, `Name:id` a call, `Task@agent:prompt` one
/// of a sub-agent; `@hang`, `@panic`,
/// `@drop`, `@max`, `@retry` and `@fail:network` do what they say. A missing answer is `ok`.
pub(crate) struct ScriptedModel {
    info: ModelInfo,
    answers: Mutex<VecDeque<String>>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
}

impl ModelClient for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        self.requests.lock().unwrap().push(request);
        let paced = |events: Vec<Result<ModelEvent, ModelError>>| {
            stream::iter(events).then(async |event| {
                tokio::task::yield_now().await;
                event
            })
        };
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or("ok".to_owned());
        let (mut events, mut blocks, mut stop) = (Vec::new(), Vec::new(), ModelStopReason::End);
        let mut hangs = false;
        for word in answer.split_whitespace() {
            let call = word.split_once(':').filter(|(name, _)| !name.starts_with('@'));
            match (word, call) {
                ("@hang", _) => hangs = true,
                ("@panic", _) => panic!("the model was told to panic"),
                ("@drop", _) => return Box::pin(paced(events)),
                ("@max", _) => stop = ModelStopReason::MaxTokens,
                ("@retry", _) => events.push(Ok(ModelEvent::Retrying {
                    error: ModelError::new(ModelErrorKind::Network, "it failed"),
                    after: Duration::ZERO,
                    attempts: 1,
                })),
                (word, None) if word.starts_with("@fail:") => {
                    let kinds = [ModelErrorKind::Network, ModelErrorKind::ContextLength];
                    let kind =
                        kinds.into_iter().find(|kind| word.ends_with(kind.as_str())).unwrap();
                    events.push(Err(ModelError::new(kind, "it failed")));
                    return Box::pin(paced(events));
                }
                (word, None) if word.starts_with('~') => {
                    events.push(Ok(ModelEvent::Thought(word.trim_start_matches('~').to_owned())));
                }
                (_, Some((name, id))) => blocks.push(MessageBlock::ToolUse {
                    id: id.to_owned(),
                    name: name.split('@').next().unwrap_or(name).to_owned(),
                    input: ToolInput::from(call_input(name, id)),
                    opaque: serde_json::Value::Null,
                }),
                (word, None) => {
                    events.push(Ok(ModelEvent::Text(word.to_owned())));
                    blocks.push(MessageBlock::text(word));
                }
            }
        }
        let usage = TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() };
        events.push(Ok(ModelEvent::Done(ModelReply { blocks, stop, usage })));
        if hangs {
            events.pop();
            return Box::pin(paced(events).chain(stream::pending()));
        }
        Box::pin(paced(events))
    }
}

/// The arguments of a call: the id, or the prompt and the agent of a sub-agent.
fn call_input(name: &str, id: &str) -> serde_json::Value {
    match name.split_once('@') {
        _ if name == "Task" => json!({ "description": id, "prompt": id }),
        Some((_, agent)) => json!({ "description": id, "prompt": id, "agent": agent }),
        None => json!({ "id": id }),
    }
}

#[derive(Default)]
pub(crate) struct ScriptedBackendFactory {
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) opened: Mutex<usize>,
    /// Sessions whose results were removed.
    pub(crate) removed: Mutex<Vec<SessionId>>,
    /// Whether a file in the folder describes an agent that cannot be used.
    pub(crate) has_broken_agent: AtomicBool,
    store: Arc<MemStore>,
}

impl ToolBackendFactory for ScriptedBackendFactory {
    fn open(
        &self,
        order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        *self.opened.lock().unwrap() += 1;
        let log = Arc::clone(&self.log);
        if let Some(mode) = order.mode {
            log.lock().unwrap().push(format!("opened in {mode}"));
        }
        if !order.grants.is_empty() {
            log.lock().unwrap().push(format!("opened with {} grants", order.grants.len()));
        }
        let store = Some(Arc::clone(&self.store));
        let name = match self.has_broken_agent.load(Ordering::Relaxed) {
            true => ScriptedToolBackend::BROKEN_AGENT_MACHINE.to_owned(),
            false => "this machine".to_owned(),
        };
        let backend = ScriptedToolBackend { log, order: Some(order), name, store, silent: false };
        Box::pin(async move { Ok(Arc::new(backend) as Arc<dyn ToolBackend>) })
    }

    fn discard_session(&self, session: &SessionId) -> BoxFuture<'_, ()> {
        self.removed.lock().unwrap().push(session.clone());
        Box::pin(std::future::ready(()))
    }
}

/// Does what the name of the tool says.
pub(crate) struct ScriptedToolBackend {
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) order: Option<ToolBackendRequest>,
    pub(crate) name: String,
    /// The store in which calls must be recorded before they start.
    pub(crate) store: Option<Arc<MemStore>>,
    /// Whether the backend never returns its catalog.
    pub(crate) silent: bool,
}

impl ScriptedToolBackend {
    /// Whether the call, and the model's request for it, were recorded before it started.
    fn is_on_record(&self, call: &str) -> bool {
        let (Some(order), Some(store)) = (&self.order, &self.store) else { return true };
        let ledger = store.ledger(&order.session);
        let is_it = |event: &&Event| matches!(&event.kind, EventKind::ToolStarted { call: started, .. } if started == call);
        let shown = ledger.iter().find(is_it);
        // A file that a prompt mentions is read for the user, and not for a message of the model.
        let is_mention = |event: &Event| matches!(&event.kind, EventKind::ToolStarted { transcript_id: Some(id), .. } if id == call);
        if shown.is_some_and(is_mention) {
            return true;
        }
        let shown = shown.is_some();
        let message = store.last_message(&order.session);
        let wants = |block: &MessageBlock| matches!(block, MessageBlock::ToolUse { .. });
        shown && message.is_some_and(|message| message.blocks.iter().any(wants))
    }
}

impl ScriptedToolBackend {
    /// Name of a client that reconnects.
    pub(crate) const RETURNING_CLIENT: &str = "a laptop that comes back";
    /// Name of a client that knows what became of calls of another process.
    pub(crate) const KEEPING_CLIENT: &str = "a laptop that forgets nothing";
    /// One of its agents cannot be used.
    const BROKEN_AGENT_MACHINE: &str = "a machine with a broken agent";
}

impl ToolBackend for ScriptedToolBackend {
    /// Reports each call as made whose id is asked for, if it is a client that keeps outcomes.
    fn take_outcomes(&self, calls: Vec<String>) -> BoxFuture<'_, HashMap<String, ToolOutcome>> {
        let is_kept = self.name == Self::KEEPING_CLIENT;
        let outcome = |call| (call, ToolResult::text("it was made").into());
        let known: HashMap<String, ToolOutcome> =
            calls.into_iter().filter(|_| is_kept).map(outcome).collect();
        Box::pin(std::future::ready(known))
    }

    fn reconnect_grace(&self) -> std::time::Duration {
        let seconds = if self.name == Self::RETURNING_CLIENT { 20 } else { 0 };
        std::time::Duration::from_secs(seconds)
    }

    /// Logs the request, and says that one file was restored.
    fn rewind_files(
        &self,
        request: FileRewindRequest,
        _requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        let (id, calls) = (&request.rewind, request.calls.len());
        self.log.lock().unwrap().push(format!("rewind {id} {calls} calls"));
        let report = FileRewindReport { change_count: 1, file_count: 1, ..Default::default() };
        Box::pin(std::future::ready(Ok(report)))
    }

    fn load_catalog(
        &self,
        _dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        let tool = |name: &str| CatalogEntry {
            name: name.to_owned(),
            canonical: name.to_owned(),
            display_name: None,
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            kind: ToolKind::Other,
            read_only: name == "Read",
            info: None,
        };
        let names =
            ["Read", "Write", "Ask", "Hang", "Stuck", "Panic", "Tell", "Settle", "Explain", "Todo"];
        let command = PromptCommand {
            name: "review".to_owned(),
            description: "Review".to_owned(),
            argument_hint: None,
            prompt: "review $ARGUMENTS".to_owned(),
        };
        let agent = |name: &str, problem: Option<&str>| AgentDefinition {
            name: name.to_owned(),
            prompt: format!("You are {name}."),
            project_file: Some(format!(".zero/agents/{name}.md")),
            tools: Some(vec!["Write".to_owned(), "Read".to_owned()]),
            mode: Some(PermissionMode::Plan),
            problem: problem.map(str::to_owned),
            ..AgentDefinition::default()
        };
        let mut agents = vec![agent("reviewer", None)];
        if self.name == Self::BROKEN_AGENT_MACHINE {
            agents.push(agent("broken", Some("it has no name")));
        }
        let catalog = ToolCatalog {
            agents,
            cwd: PathBuf::from("/w"),
            tools: names.map(tool).to_vec().into(),
            commands: vec![command],
            ..ToolCatalog::default()
        };
        let silent = self.silent;
        Box::pin(async move {
            if silent {
                std::future::pending::<()>().await;
            }
            Ok(catalog)
        })
    }

    fn call(
        &self,
        call: ToolCall,
        _dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        self.log.lock().unwrap().push(format!(
            "{} {}",
            call.tool,
            call.input["id"].as_str().unwrap_or_default()
        ));
        if !self.is_on_record(call.id.as_str()) {
            self.log.lock().unwrap().push(UNRECORDED.to_owned());
        }
        Box::pin(async move {
            let words = |status, text: &str| {
                let content = vec![ResultContent::Text { text: text.to_owned() }];
                ToolOutcome::from_content(status, content, None, Vec::new())
            };
            for _ in 0..3 {
                tokio::task::yield_now().await;
                if cancel.is_cancelled() {
                    return words(ToolCallStatus::Cancelled, "cancelled");
                }
            }
            let is_asked = call.input["file_path"] == "asked.txt";
            match call.tool.as_str() {
                _ if is_asked => {
                    let order = self.order.as_ref().unwrap();
                    let answer = order.approver.ask(call.id.as_str(), &question()).await;
                    match answer.is_allow() {
                        true => words(ToolCallStatus::Completed, "allowed"),
                        false => words(ToolCallStatus::Denied, "denied"),
                    }
                }
                "Ask" | "Explain" => {
                    if call.tool == "Explain" {
                        watch.on_described("What it is".to_owned(), ToolKind::Edit, Vec::new());
                    }
                    let order = self.order.as_ref().unwrap();
                    let question = question();
                    let asked = order.approver.ask(call.id.as_str(), &question);
                    let answer = tokio::select! {
                        answer = asked => answer,
                        () = cancel.cancelled() => return words(ToolCallStatus::Cancelled, "cancelled"),
                    };
                    match answer.is_allow() {
                        true => words(ToolCallStatus::Completed, "allowed"),
                        false => words(ToolCallStatus::Denied, "denied"),
                    }
                }
                "Hang" => {
                    cancel.cancelled().await;
                    words(ToolCallStatus::Cancelled, "cancelled")
                }
                "Todo" => {
                    let step = |(content, status): (&str, &str)| PlanEntry {
                        content: content.to_owned(),
                        priority: "medium".to_owned(),
                        status: status.to_owned(),
                    };
                    let steps = [("look", "completed"), ("change it", "in_progress")];
                    let display = ResultDisplay::Plan { entries: steps.map(step).to_vec() };
                    ToolResult { display, ..ToolResult::text("kept") }.into()
                }
                "Stuck" => std::future::pending().await,
                "Panic" => panic!("the tool was told to panic"),
                "Tell" => {
                    watch.on_described("Tell it".to_owned(), ToolKind::Think, Vec::new());
                    watch.on_progress(zero_core::CallProgress::new("half"));
                    words(ToolCallStatus::Completed, "told")
                }
                "Settle" => {
                    let grant =
                        GrantScope { rule: "Bash(x)".to_owned(), folder: None, program: None };
                    let (time_ms, by) = (1, "me".to_owned());
                    let grants = GrantRecord { allowed: true, grant, time_ms, by };
                    self.order.as_ref().unwrap().approver.store_grants(vec![grants]);
                    words(ToolCallStatus::Completed, "settled")
                }
                "Write" if call.input["id"] == "slow" => {
                    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                    words(ToolCallStatus::Completed, "done")
                }
                _ => words(ToolCallStatus::Completed, "done"),
            }
        })
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        let mode = mode.map_or("of settings", PermissionMode::as_str);
        self.log.lock().unwrap().push(format!("mode {mode}"));
        Box::pin(async { Ok(()) })
    }

    fn inspect_mention<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<MentionTarget>> {
        let target = match path {
            "there.txt" | "asked.txt" => Some(MentionTarget::File),
            "folder/" => Some(MentionTarget::Folder),
            _ => None,
        };
        Box::pin(std::future::ready(target))
    }

    fn has_running_jobs(&self) -> bool {
        let log = self.log.lock().unwrap();
        let count = |name: &str| log.iter().filter(|line| line.starts_with(name)).count();
        count("Write job") > count("Write end")
    }

    fn location(&self) -> String {
        self.name.clone()
    }

    fn takes_subagents(&self) -> bool {
        true
    }

    fn open_subagent(
        &self,
        request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        let mode = request.mode.map(|mode| format!(" in {mode}")).unwrap_or_default();
        self.log.lock().unwrap().push(format!("subagent {}{mode}", request.name));
        let log = Arc::clone(&self.log);
        let name = self.name.clone();
        let order = self.order.as_ref().map(|parent| ToolBackendRequest {
            session: request.session.clone(),
            owner: parent.owner.clone(),
            cwd: parent.cwd.clone(),
            folder_access: parent.folder_access.clone(),
            mode: request.mode,
            approver: Arc::new(SubagentApprover {
                parent: Arc::clone(&parent.approver),
                call: request.call,
                session: request.session,
                name: request.name,
                worktree: None,
            }),
            elicitor: Arc::clone(&parent.elicitor),
            grants: Vec::new(),
            result_lifetime: parent.result_lifetime,
        });
        let tools = Self { log, order, name, store: None, silent: self.silent };
        Box::pin(std::future::ready(Ok(Arc::new(tools) as Arc<dyn ToolBackend>)))
    }

    fn close_subagent(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        self.log.lock().unwrap().push("closed".to_owned());
        Box::pin(std::future::ready(Ok(None)))
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/w"))
    }
}

pub(crate) fn question() -> ApprovalQuestion {
    ApprovalQuestion {
        call: CallId::from_bits(1),
        tool: ToolName::new("Ask").unwrap(),
        title: "Ask".to_owned(),
        reason: "it must be asked".to_owned(),
        risk: RiskLevel::Medium,
        effects: Vec::new(),
        judged: Vec::new(),
        can_reject_tool: false,
        grants: Vec::new(),
        rule_owners: Vec::new(),
        can_edit_command: false,
        can_try_command: false,
        preview: None,
        rewritten: None,
        withdrawal: Default::default(),
        subject: ApprovalSubject::Call,
        workspace: PathBuf::from("/w"),
    }
}

/// This process, and others that serve sessions.
pub(crate) struct ScriptedNodes {
    this: SingleNode,
    pub(crate) served_elsewhere: Mutex<Vec<SessionId>>,
    /// Held for each session that this process serves.
    pub(crate) served_here: Mutex<Vec<(SessionId, Weak<()>)>>,
}

impl NodeMembership for ScriptedNodes {
    fn local_name(&self) -> &str {
        self.this.local_name()
    }

    fn is_alive(&self, node: &str) -> BoxFuture<'_, bool> {
        self.this.is_alive(node)
    }

    fn lease_session(&self, session: &SessionId) -> std::io::Result<Option<SessionLease>> {
        let lease = Arc::new(());
        self.served_here.lock().unwrap().push((session.clone(), Arc::downgrade(&lease)));
        Ok(Some(lease))
    }

    fn is_served_elsewhere(&self, session: &SessionId) -> bool {
        self.served_elsewhere.lock().unwrap().contains(session)
    }
}

impl SessionTestBed {
    /// A session whose model gives these answers, one after another.
    pub(crate) async fn new(answers: &[&str]) -> Self {
        Self::with_limits(answers, SessionLimits::default()).await
    }

    pub(crate) async fn with_limits(answers: &[&str], limits: SessionLimits) -> Self {
        Self::with_store(Arc::default(), answers, limits).await
    }

    /// Sessions on an existing store.
    pub(crate) async fn with_store(
        store: Arc<MemStore>,
        answers: &[&str],
        limits: SessionLimits,
    ) -> Self {
        let bus = Arc::new(RecordingBus { published: watch::channel(Vec::new()).0 });
        let model = Arc::new(model("scripted", answers));
        let blind = Arc::new(ScriptedModel {
            info: ModelInfo { takes_images: false, ..model.info.clone() },
            ..self::model("blind", &[])
        });
        let blind = Arc::new(ScriptedModel {
            info: ModelInfo { name: "blind".to_owned(), ..blind.info.clone() },
            ..self::model("blind", &[])
        });
        let direct = Arc::new(self::model(DIRECT, &[]));
        let backend = Arc::new(ScriptedBackendFactory {
            store: Arc::clone(&store),
            ..ScriptedBackendFactory::default()
        });
        let models = vec![Arc::clone(&model) as Arc<dyn ModelClient>, blind, direct];
        let qa = AgentProfile {
            id: "qa".to_owned(),
            tools: Some(vec!["R*".to_owned()]),
            ..AgentProfile::default()
        };
        let nodes = Arc::new(ScriptedNodes {
            this: SingleNode::new("node"),
            served_elsewhere: Mutex::default(),
            served_here: Mutex::default(),
        });
        let config = SessionManagerConfig {
            store: Arc::clone(&store) as _,
            bus: Arc::clone(&bus) as _,
            agents: AgentRegistry::new(vec![qa], None),
            models: ModelCatalog::new(models, Some("scripted".to_owned())),
            backend_factory: Arc::clone(&backend) as _,
            cwd: PathBuf::from("/w"),
            nodes: Arc::clone(&nodes) as _,
            limits,
        };
        let sessions = SessionManager::start(config).await.unwrap();
        let key = SessionAddress::new("me", SessionKey::resolve("main", "main").unwrap());
        let fixture = Self { store, bus, model, backend, nodes, sessions, key };
        fixture.sessions.open(fixture.open_options()).await.unwrap();
        fixture
    }

    /// Switches to another session, of that owner.
    pub(crate) async fn switch_session(&mut self, key: &str, owner: &str) {
        self.key = self.address_of(owner, key);
        self.sessions.open(self.open_options()).await.unwrap();
    }

    /// Address of the session of that key, of the usual owner.
    pub(crate) fn address(&self, key: &str) -> SessionAddress {
        self.address_of("me", key)
    }

    pub(crate) fn address_of(&self, owner: &str, key: &str) -> SessionAddress {
        SessionAddress::new(owner, self.sessions.resolve_key(key).unwrap())
    }

    pub(crate) fn open_options(&self) -> OpenSessionOptions {
        OpenSessionOptions {
            key: Some(self.key.key.to_string()),
            owner: self.key.owner.clone(),
            ..OpenSessionOptions::default()
        }
    }

    /// The broker of the session's questions.
    pub(crate) async fn broker(&self) -> Arc<InteractionBroker> {
        Arc::clone(&self.sessions.inner.session_state(&self.record().await.id).asker)
    }

    pub(crate) async fn record(&self) -> SessionRecord {
        self.sessions.get(&self.key).await.unwrap().unwrap()
    }

    /// Sends a prompt; its run is named after it.
    pub(crate) async fn try_send(&self, text: &str) -> Result<SendOutcome, SessionError> {
        let prompt = Prompt {
            text: text.to_owned(),
            folder_access: FolderAccess::Anywhere,
            ..Prompt::default()
        };
        self.sessions.send(&self.key, run_id(text), prompt).await
    }

    /// Sends a prompt for which the run that answers is stopped.
    pub(crate) async fn steer(&self, text: &str) -> SendOutcome {
        let prompt = Prompt {
            text: text.to_owned(),
            folder_access: FolderAccess::Anywhere,
            precedence: PromptPrecedence::Steering { by: "rpc" },
            ..Prompt::default()
        };
        self.sessions.send(&self.key, run_id(text), prompt).await.unwrap()
    }

    pub(crate) async fn send(&self, text: &str) {
        assert_eq!(self.try_send(text).await, Ok(SendOutcome::Started));
    }

    /// Waits until a run has ended.
    pub(crate) async fn wait_for_run(&self, text: &str) -> FinishedRun {
        let id = run_id(text);
        let begun = self.store.find_run(None, &id).await.unwrap().unwrap();
        let owner = self.store.session_by_id(&begun.session).await.unwrap().unwrap().owner;
        let run = self.sessions.wait_for_run(&owner, &id, PATIENCE).await.unwrap().unwrap();
        assert!(run.end.is_some(), "{text} has not ended: {}", self.ledger_lines().await);
        let all = self
            .store
            .events(&run.session, 0, LedgerReadLimit::with_entries(usize::MAX))
            .await
            .unwrap();
        let events = all.into_iter().filter(|event| event.run.as_ref() == Some(&run.id));
        let texts = events.filter_map(|event| match event.kind {
            EventKind::Text { text } => Some(text),
            _ => None,
        });
        FinishedRun { text: texts.collect(), run }
    }

    /// Sends a prompt and waits for its end; returns its ledger as lines.
    pub(crate) async fn run(&self, text: &str) -> String {
        self.send(text).await;
        self.wait_for_run(text).await;
        self.check_ledger().await;
        self.ledger_lines_of(Some(&run_id(text))).await
    }

    /// Waits until an event that contains this text was published.
    pub(crate) async fn wait_for_line(&self, shown: &str) -> Arc<Event> {
        let mut published = self.bus.published.subscribe();
        let found = async {
            loop {
                let found = published.borrow_and_update().iter().find_map(|(_, event)| {
                    event_line(&event.kind).starts_with(shown).then(|| Arc::clone(event))
                });
                match found {
                    Some(event) => return event,
                    None => published.changed().await.unwrap(),
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        match found {
            Ok(event) => event,
            Err(_) => panic!("`{shown}` was not shown, only {}", self.ledger_lines().await),
        }
    }

    /// The whole ledger.
    pub(crate) async fn ledger_lines(&self) -> String {
        self.ledger_lines_of(None).await
    }

    async fn ledger_lines_of(&self, run: Option<&RunId>) -> String {
        let ledger = self.store.ledger(&self.record().await.id);
        let of_run = ledger.iter().filter(|event| run.is_none() || event.run.as_ref() == run);
        let mut lines: Vec<String> = Vec::new();
        for event in of_run {
            let line = event_line(&event.kind);
            // How text is split depends on the speed of the disk.
            match (lines.last_mut(), line.strip_prefix("text ")) {
                (Some(last), Some(more)) if last.starts_with("text ") => last.push_str(more),
                _ => lines.push(line),
            }
        }
        lines.join(" / ")
    }

    /// Checks the invariants of every ledger.
    pub(crate) async fn check_ledger(&self) {
        self.check_ledger_of(&self.key).await;
    }

    pub(crate) async fn check_ledger_of(&self, key: &SessionAddress) {
        let record = self.sessions.get(key).await.unwrap().unwrap();
        let ledger = self.store.ledger(&record.id);
        let published: Vec<Event> = self
            .bus
            .published
            .borrow()
            .iter()
            .filter(|(session, _)| *session == record.id)
            .map(|(_, event)| (**event).clone())
            .collect();
        let ours = &ledger[ledger.len() - published.len()..];
        assert_eq!(ours, published, "what was shown is what was written, in that order");
        assert_sound(&ledger);
        assert!(!self.backend.log.lock().unwrap().contains(&UNRECORDED.to_owned()));
        let messages = self.sessions.transcript(key, None).await.unwrap().messages;
        let flaw = transcript_repair::tests::find_flaw(&transcript_repair::repair(messages));
        assert_eq!(flaw, None);
    }
}

pub(crate) fn model(name: &str, answers: &[&str]) -> ScriptedModel {
    let info = ModelInfo {
        name: name.to_owned(),
        id: name.to_owned(),
        family: "gpt".to_owned(),
        context_window: 100_000,
        output_tokens_max: 1000,
        takes_images: true,
        prices: None,
    };
    let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
    ScriptedModel { info, answers: Mutex::new(answers), requests: Mutex::default() }
}

/// The run id of a prompt.
pub(crate) fn run_id(text: &str) -> RunId {
    let id: String = text.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    RunId::new(id).unwrap()
}

/// Checks that every run ends once, every started call ends once, and nothing follows the end.
fn assert_sound(ledger: &[Event]) {
    let mut open: BTreeMap<RunId, BTreeSet<String>> = BTreeMap::new();
    let mut over = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for (number, event) in (1..).zip(ledger) {
        assert_eq!(event.seq, number, "numbers have no gaps");
        let Some(run) = &event.run else { continue };
        assert!(!over.contains(run), "{run} goes on after its end: {event:?}");
        match &event.kind {
            EventKind::Prompt { .. } => {
                assert!(open.insert(run.clone(), BTreeSet::new()).is_none(), "{run} begins twice");
            }
            EventKind::ToolStarted { call, .. } => {
                assert!(open.get_mut(run).unwrap().insert(call.clone()))
            }
            EventKind::ToolEnded { call, .. } => {
                assert!(open.get_mut(run).unwrap().remove(call), "{call}")
            }
            EventKind::ApprovalRequested(request) => assert!(asked.insert(request.id.clone())),
            EventKind::QuestionAsked(question) => assert!(asked.insert(question.id.clone())),
            EventKind::ApprovalResolved { id, .. } | EventKind::QuestionAnswered { id, .. } => {
                assert!(asked.remove(id), "{id} was answered twice");
            }
            EventKind::RunEnded { .. } => {
                over.insert(run.clone());
                let left = open.remove(run).unwrap();
                assert!(left.is_empty(), "{run} ended before its calls {left:?}");
            }
            _ => {}
        }
    }
    assert!(asked.is_empty(), "{asked:?} were never answered");
    assert!(open.is_empty(), "{:?} did not end", open.keys());
}

pub(crate) fn event_line(kind: &EventKind) -> String {
    match kind {
        EventKind::Prompt { text, .. } => format!("prompt {text}"),
        EventKind::RunStarted { .. } => "started".to_owned(),
        EventKind::Text { text } => format!("text {text}"),
        EventKind::Thought { text } => format!("thought {text}"),
        EventKind::ToolStarted { name, .. } => format!("tool {name}"),
        EventKind::ToolUpdated { begins: true, .. } => "begins".to_owned(),
        EventKind::ToolUpdated { title, progress, .. } => {
            let progress = progress.as_ref().map(|progress| progress.message.clone());
            let parts = [title.clone(), progress].map(Option::unwrap_or_default);
            format!("update {}", parts.join(" "))
        }
        EventKind::ToolEnded { status, .. } => format!("{status:?}").to_lowercase(),
        EventKind::Plan { .. } => "plan".to_owned(),
        EventKind::ApprovalRequested(request) => format!("approval {}", request.title),
        EventKind::ApprovalResolved { answer, by, .. } => format!("answer {answer} by {by}"),
        EventKind::QuestionAsked(question) => format!("question of {}", question.origin),
        EventKind::QuestionAnswered { action, .. } => format!("answered {action}"),
        EventKind::UsageReported { .. } => "usage".to_owned(),
        EventKind::Notice { topic, .. } => format!("notice {topic}"),
        EventKind::Compacted { summary, .. } => format!("compacted {summary}"),
        EventKind::ModelFallback { from, to, .. } => format!("fallback {from} {to}"),
        EventKind::Reset { transcript } => format!("reset {transcript}"),
        EventKind::Rewound { prompt, scope, .. } => match prompt {
            Some(prompt) => format!("rewound {} to prompt {prompt}", scope.describe()),
            None => format!("rewound {} to a rewind", scope.describe()),
        },
        EventKind::Changed { field, value } => {
            format!("{field} = {}", value.as_deref().unwrap_or("nothing"))
        }
        EventKind::RunEnded { end, .. } => format!("ended {}", end_line(end)),
        EventKind::Opaque(opaque) => opaque.kind().to_owned(),
    }
}

fn end_line(end: &RunOutcome) -> String {
    match end {
        RunOutcome::Completed => "completed".to_owned(),
        RunOutcome::MaxTokens => "max tokens".to_owned(),
        RunOutcome::MaxTurns { turns } => format!("after {turns} turns"),
        RunOutcome::Budget { .. } => "budget".to_owned(),
        RunOutcome::Refused { .. } => "refused".to_owned(),
        RunOutcome::Aborted { by } => format!("aborted by {by}"),
        RunOutcome::Failed { kind, .. } => format!("failed {kind}"),
        RunOutcome::Interrupted => "interrupted".to_owned(),
    }
}
