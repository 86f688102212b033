//! A host in a temporary folder, and a tool that does what its input says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zero_core::tool_result::ToolResultPart;
use zero_core::{
    Effect, Effects, ErrorReason, HostLimits, ResultDisplay, RiskLevel, TimeoutClass, ToolCall,
    ToolCategory, ToolError, ToolKind,
};
use zero_runtime::audit::AuditRow;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CallContext, CallDescription, CallEvent,
    CallEventObserver, CallReport, Dialect, DialectName, HookSettings, Policy, RiskPolicy, Tool,
    ToolHost, ToolHostConfig, ToolHostSession, ToolInfo, ToolReply, erase,
};
use zero_sandbox::{FinalLinkMode, StateDir, Workspace};

/// Does what it is told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PuppetArgs {
    /// What to do.
    act: PuppetAction,
    /// How long it takes.
    #[serde(default)]
    millis: u64,
    /// A path it claims to read.
    path: Option<String>,
    /// Anything.
    text: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PuppetAction {
    Work,
    Fail,
    Flake,
    Misuse,
    Panic,
    PanicEarly,
    Hang,
    Block,
    Flood,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PuppetOutput {
    done: bool,
}

/// A tool that does what its input says.
pub(crate) struct PuppetTool<const NAME: char> {
    pub(crate) risk: RiskLevel,
    pub(crate) idempotent: bool,
    pub(crate) fallback: Option<&'static str>,
    pub(crate) runs: Arc<AtomicU32>,
}

impl<const NAME: char> PuppetTool<NAME> {
    pub(crate) fn new() -> Self {
        Self { risk: RiskLevel::Low, idempotent: true, fallback: None, runs: Arc::default() }
    }
}

macro_rules! puppet {
    ($mark:literal, $name:literal) => {
        impl Tool for PuppetTool<$mark> {
            type Args = PuppetArgs;
            type Output = PuppetOutput;
            type Plan = (PuppetArgs, Effects);
            const NAME: &'static str = $name;

            fn info(&self) -> ToolInfo {
                ToolInfo {
                    display_name: $name,
                    category: ToolCategory::File,
                    kind: ToolKind::Other,
                    risk: self.risk,
                    timeout_class: TimeoutClass::File,
                    idempotent: self.idempotent,
                    fallback: self.fallback,
                }
            }

            fn plan(
                &self,
                args: PuppetArgs,
                workspace: &Workspace,
            ) -> Result<Self::Plan, ToolError> {
                assert!(args.act != PuppetAction::PanicEarly, "an early bug");
                let effects = match &args.path {
                    Some(path) => vec![Effect::Read(
                        workspace.resolve(path, FinalLinkMode::Follow)?.target().clone(),
                    )],
                    None => vec![],
                };
                Ok((args, effects))
            }

            fn describe(&self, plan: &Self::Plan) -> CallDescription {
                CallDescription { title: format!("{:?}", plan.0.act), locations: vec![] }
            }

            fn effects(&self, plan: &Self::Plan) -> Effects {
                plan.1.clone()
            }

            async fn run(
                &self,
                plan: Arc<Self::Plan>,
                cx: CallContext,
            ) -> Result<ToolReply<PuppetOutput>, ToolError> {
                perform(&plan.0, cx, &self.runs).await
            }
        }
    };
}

puppet!('p', "Puppet");
puppet!('s', "Spare");

async fn perform(
    args: &PuppetArgs,
    cx: CallContext,
    runs: &AtomicU32,
) -> Result<ToolReply<PuppetOutput>, ToolError> {
    let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
    let millis = Duration::from_millis(args.millis);
    tokio::time::sleep(millis).await;
    let mut text = args.text.clone().unwrap_or_default();
    match args.act {
        PuppetAction::Work => {}
        PuppetAction::Fail => return Err(ToolError::failed(ErrorReason::Io, "it broke")),
        PuppetAction::Flake if run < 3 => {
            return Err(ToolError::failed(ErrorReason::Transient, "not yet"));
        }
        PuppetAction::Flake => {}
        PuppetAction::Misuse => return Err(ToolError::invalid(ErrorReason::NoMatch, "wrong")),
        PuppetAction::Panic | PuppetAction::PanicEarly => {
            panic!("a bug with sk-abcdefghijklmnopqrstuvwx")
        }
        PuppetAction::Hang => std::future::pending::<()>().await,
        PuppetAction::Block => {
            cx.run_blocking(|cx| {
                while !cx.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                cx.check_cancelled()
            })
            .await?;
        }
        PuppetAction::Flood => text = "x".repeat(200_000),
    }
    Ok(ToolReply {
        content: vec![ToolResultPart::Text(text)],
        display: ResultDisplay::markdown("done"),
        output: PuppetOutput { done: true },
        locations: vec![],
    })
}

/// Gives the same answer to every question and records the questions.
pub(crate) struct FixedApprover {
    pub(crate) answer: ApprovalAnswer,
    pub(crate) questions: Mutex<Vec<ApprovalQuestion>>,
}

impl Approver for FixedApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.questions.lock().unwrap().push(question.clone());
        Box::pin(std::future::ready(self.answer))
    }
}

/// Records how calls ended.
#[derive(Default)]
pub(crate) struct StatusRecorder(pub(crate) Mutex<Vec<&'static str>>);

impl CallEventObserver for StatusRecorder {
    fn on_event(&self, event: &CallEvent) {
        if let CallEvent::Ended { status, .. } = event {
            self.0.lock().unwrap().push(status);
        }
    }
}

/// A host in a temporary folder.
pub(crate) struct HostFixture {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) host: ToolHost,
    pub(crate) session: ToolHostSession,
    pub(crate) endings: Arc<StatusRecorder>,
    pub(crate) dialect: Dialect,
}

impl HostFixture {
    pub(crate) fn new() -> Self {
        Self::with_limits(HostLimits::default(), None, vec![erase(PuppetTool::<'p'>::new())])
    }

    pub(crate) fn with_limits(
        limits: HostLimits,
        approver: Option<Arc<dyn Approver>>,
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
    ) -> Self {
        Self::with_policy(Arc::new(RiskPolicy), limits, approver, tools)
    }

    pub(crate) fn with_hooks(
        hooks: HookSettings,
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
    ) -> Self {
        Self::build(tools, |config| config.hooks = hooks)
    }

    pub(crate) fn with_policy(
        policy: Arc<dyn Policy>,
        limits: HostLimits,
        approver: Option<Arc<dyn Approver>>,
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
    ) -> Self {
        Self::build(tools, |config| {
            (config.policy, config.limits, config.approver) = (policy, limits, approver);
        })
    }

    fn build(
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
        set_up: impl FnOnce(&mut ToolHostConfig),
    ) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("work")).unwrap();
        let workspace = Workspace::open(&[temp.path().join("work")], None).unwrap();
        let endings = Arc::new(StatusRecorder::default());
        let mut config = ToolHostConfig {
            observer: Some(Arc::clone(&endings) as Arc<dyn CallEventObserver>),
            how_to_allow: "pass --yes".to_owned(),
            ..ToolHostConfig::new(workspace, StateDir::new(temp.path().join("state")))
        };
        set_up(&mut config);
        let host = ToolHost::new(config);
        host.registry().add("builtin", tools).unwrap();
        let session = host.open_one_shot_session().unwrap();
        Self { temp, host, session, endings, dialect: Dialect::new(DialectName::Canonical) }
    }

    pub(crate) fn tool_call(tool: &str, input: Value) -> ToolCall {
        ToolCall { id: new_call_id(), session: None, tool: tool.to_owned(), input, timeout: None }
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> CallReport {
        self.call_with_cancel(tool, input, &CancellationToken::new()).await
    }

    pub(crate) async fn call_with_cancel(
        &self,
        tool: &str,
        input: Value,
        cancel: &CancellationToken,
    ) -> CallReport {
        self.host.call(&self.session, &self.dialect, Self::tool_call(tool, input), cancel).await
    }

    /// All audit rows so far.
    pub(crate) fn rows(&self) -> Vec<AuditRow> {
        let mut rows = Vec::new();
        for day in self.host.audit().days().unwrap() {
            let mut day = self.host.audit().open_day(&day).unwrap();
            day.for_each_row(|row| rows.push(row)).unwrap();
            assert_eq!(day.damaged_lines(), 0);
        }
        rows
    }
}
