//! The gateway of the recordings: a model that replies as the prompt asks, and zero's own tools in
//! a temporary folder.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zero_gateway::{AuthConfig, Principal};
use zero_policy::{PolicyEngine, PolicyEngineConfig};
use zero_runtime::dialect::BUILTIN;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};
use zero_runtime::{RulePolicy, ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};
use zero_session::agent::AgentRegistry;
use zero_session::event::{ResultContent, TokenUsage};
use zero_session::local_backend::{DialectCache, LocalToolBackend, LocalToolBackendConfig};
use zero_session::local_event_bus::LocalEventBus;
use zero_session::message::{MessageBlock, ToolInput};
use zero_session::model::catalog::ModelCatalog;
use zero_session::model::{
    ModelClient, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStopReason, ModelStream,
};
use zero_session::node_membership::SingleNode;
use zero_session::sessions::{SessionLimits, SessionManager, SessionManagerConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_wire::method::TokenScope;

use crate::bridge_frames::RecordedFrame;
use crate::raw_gateway::RawGateway;

/// Folder of the sessions in the recordings.
pub(crate) const FOLDER: &str = "/rig/work";
/// Token of the recordings, as JSON.
pub(crate) const TOKEN: &str = "\"interop-token-0123456789abcdef0123456789abcdef\"";

/// A gateway in the state of the recordings.
pub(crate) struct BridgeGateway {
    pub(crate) gateway: RawGateway,
    temp: TempDir,
}

impl BridgeGateway {
    pub(crate) fn folder(&self) -> String {
        folder(&self.temp).display().to_string()
    }
}

fn folder(temp: &TempDir) -> PathBuf {
    temp.path().canonicalize().unwrap().join("work")
}

pub(crate) async fn start_bridge_gateway(recorded: &[RecordedFrame]) -> BridgeGateway {
    let temp = tempfile::tempdir_in("/var/tmp").unwrap();
    let work = folder(&temp);
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("hello.txt"), "hello\n").unwrap();
    let model: Arc<dyn ModelClient> = Arc::new(PromptDrivenModel::new(count_numbers(recorded)));
    let sessions = SessionManager::start(SessionManagerConfig {
        store: Arc::new(SqliteStore::open(&temp.path().join("sessions.db")).unwrap()),
        bus: Arc::new(LocalEventBus::new()),
        agents: AgentRegistry::new(Vec::new(), None),
        models: ModelCatalog::new(vec![model], Some("scripted".to_owned())),
        backend_factory: Arc::new(FolderBackendFactory::new(&temp)),
        cwd: work,
        nodes: Arc::new(SingleNode::new("test")),
        limits: SessionLimits::default(),
    });
    let sessions = sessions.await.unwrap();
    let who = Principal::new("this machine", vec![TokenScope::Admin]);
    let gateway = RawGateway::with_config(|config| {
        config.sessions = sessions;
        config.auth = AuthConfig::deny_all().with_token(TOKEN.trim_matches('"'), who).unwrap();
        config.version = env!("CARGO_PKG_VERSION").to_owned();
    });
    BridgeGateway { gateway: gateway.await, temp }
}

/// How many numbers the slow model had sent when it was stopped.
fn count_numbers(recorded: &[RecordedFrame]) -> usize {
    let aborted = recorded.iter().find(|line| line.frame["payload"]["state"] == "aborted");
    let text = aborted.map(|line| &line.frame["payload"]["message"]["content"][0]["text"]);
    text.and_then(Value::as_str).map_or(0, |text| text.split_whitespace().count())
}

/// Replies as the prompt asks.
struct PromptDrivenModel {
    info: ModelInfo,
    /// How many numbers it sends before it stalls.
    numbers: usize,
}

impl PromptDrivenModel {
    fn new(numbers: usize) -> Self {
        let info = ModelInfo {
            name: "scripted".to_owned(),
            id: "scripted".to_owned(),
            family: "other".to_owned(),
            context_window: 128_000,
            output_tokens_max: 8_000,
            takes_images: true,
            prices: None,
        };
        Self { info, numbers }
    }
}

impl ModelClient for PromptDrivenModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let last = request.messages.last().unwrap();
        if let Some(result) = last.blocks.iter().find_map(result_text) {
            let text: String = result.chars().take(80).collect();
            return model_stream(&format!("The tool said: {text}"), None);
        }
        let text = last.text();
        let pictures =
            last.blocks.iter().filter(|block| matches!(block, MessageBlock::Image { .. }));
        match pictures.count() {
            0 if text.contains("[read]") => model_stream(
                "I look first.",
                Some(("call_1", "Read", json!({"file_path": "hello.txt"}))),
            ),
            0 if text.contains("[write]") => {
                let input = json!({"file_path": "made.txt", "content": "made\n"});
                model_stream("", Some(("call_2", "Write", input)))
            }
            0 if text.contains("[slow]") => {
                let numbers = (0..self.numbers).map(|n| Ok(ModelEvent::Text(format!("{n} "))));
                Box::pin(stream::iter(numbers.collect::<Vec<_>>()).chain(stream::pending()))
            }
            0 => model_stream("Hello from the model, ünïcode and all.", None),
            pictures => model_stream(&format!("I see {pictures} picture."), None),
        }
    }
}

/// The text of a tool result, as in chat completions.
fn result_text(block: &MessageBlock) -> Option<String> {
    let MessageBlock::ToolResult { content, is_error, .. } = block else { return None };
    let texts = content.iter().filter_map(|piece| match piece {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    Some(if *is_error { format!("error: {text}") } else { text })
}

/// Streams a text word by word, optionally followed by a call.
fn model_stream(text: &str, call: Option<(&str, &str, Value)>) -> ModelStream {
    let words = text.split_inclusive(' ').map(|word| Ok(ModelEvent::Text(word.to_owned())));
    let mut events: Vec<_> = words.collect();
    let mut blocks = Vec::new();
    if !text.is_empty() {
        blocks.push(MessageBlock::text(text));
    }
    let stop = if call.is_some() { ModelStopReason::ToolUse } else { ModelStopReason::End };
    if let Some((id, name, input)) = call {
        blocks.push(MessageBlock::ToolUse {
            id: id.to_owned(),
            name: name.to_owned(),
            input: ToolInput::from(input),
            opaque: Value::Null,
        });
    }
    let usage = TokenUsage { input_tokens: 10, output_tokens: 5, ..TokenUsage::default() };
    events.push(Ok(ModelEvent::Done(ModelReply { blocks, stop, usage })));
    Box::pin(stream::iter(events))
}

/// zero's own tools in one folder, with the default rules.
struct FolderBackendFactory {
    host: Arc<ToolHost>,
    dialects: Arc<DialectCache>,
}

impl FolderBackendFactory {
    fn new(temp: &TempDir) -> Self {
        let work = folder(temp);
        let engine = PolicyEngine::new(PolicyEngineConfig {
            roots: vec![work.clone()],
            ..PolicyEngineConfig::default()
        });
        let host = ToolHost::new(ToolHostConfig {
            policy: Arc::new(RulePolicy::new(engine, Vec::new())),
            ..ToolHostConfig::new(
                Workspace::open(&[work], None).unwrap(),
                StateDir::new(temp.path().canonicalize().unwrap().join("state")),
            )
        });
        host.registry().add(BUILTIN, zero_tools::builtin_tools()).unwrap();
        Self { host: Arc::new(host), dialects: Arc::default() }
    }
}

impl ToolBackendFactory for FolderBackendFactory {
    fn open(
        &self,
        order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        let backend = LocalToolBackend::new(LocalToolBackendConfig {
            host: Arc::clone(&self.host),
            session: order.session,
            owner: order.owner,
            dialects: Arc::clone(&self.dialects),
            approver: order.approver,
            elicitor: Some(order.elicitor),
            mode: order.mode,
            grants: order.grants,
            result_lifetime: order.result_lifetime,
            editor: None,
            own_folder: None,
            keep: Box::new(()),
            parent: None,
            worktrees: None,
        });
        Box::pin(std::future::ready(
            backend.map(|backend| Arc::new(backend) as Arc<dyn ToolBackend>),
        ))
    }
}
