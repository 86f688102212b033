//! A host in a temp folder, and a tool that does whatever its input says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zero_core::result::Content;
use zero_core::{
    Category, Display, Effect, Effects, Kind, Limits, Reason, Risk, TimeoutClass, ToolCall,
    ToolError,
};
use zero_runtime::audit::AuditRow;
use zero_runtime::host::new_call_id;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    About, Answer, Approver, CallContext, CallEvent, Description, Dialect, DialectName, Hooks,
    HostConfig, Observer, Policy, Question, Report, RiskPolicy, Session, Tool, ToolHost, ToolReply,
    erase,
};
use zero_sandbox::{LastLink, StateDir, Workspace};

/// Does what it is told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PuppetArgs {
    /// What to do.
    act: Act,
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
pub(crate) enum Act {
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

/// A tool that does whatever its input says.
pub(crate) struct Puppet<const NAME: char> {
    pub(crate) risk: Risk,
    pub(crate) idempotent: bool,
    pub(crate) fallback: Option<&'static str>,
    pub(crate) runs: Arc<AtomicU32>,
}

impl<const NAME: char> Puppet<NAME> {
    pub(crate) fn new() -> Self {
        Self { risk: Risk::Low, idempotent: true, fallback: None, runs: Arc::default() }
    }
}

macro_rules! puppet {
    ($mark:literal, $name:literal) => {
        impl Tool for Puppet<$mark> {
            type Args = PuppetArgs;
            type Output = PuppetOutput;
            type Plan = (PuppetArgs, Effects);
            const NAME: &'static str = $name;

            fn about(&self) -> About {
                About {
                    display_name: $name,
                    category: Category::File,
                    kind: Kind::Other,
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
                assert!(args.act != Act::PanicEarly, "an early bug");
                let effects = match &args.path {
                    Some(path) => vec![Effect::Read(
                        workspace.locate(path, LastLink::Follow)?.target().clone(),
                    )],
                    None => vec![],
                };
                Ok((args, effects))
            }

            fn describe(&self, plan: &Self::Plan) -> Description {
                Description { title: format!("{:?}", plan.0.act), locations: vec![] }
            }

            fn effects(&self, plan: &Self::Plan) -> Effects {
                plan.1.clone()
            }

            async fn run(
                &self,
                plan: Arc<Self::Plan>,
                cx: CallContext,
            ) -> Result<ToolReply<PuppetOutput>, ToolError> {
                act(&plan.0, cx, &self.runs).await
            }
        }
    };
}

puppet!('p', "Puppet");
puppet!('s', "Spare");

async fn act(
    args: &PuppetArgs,
    cx: CallContext,
    runs: &AtomicU32,
) -> Result<ToolReply<PuppetOutput>, ToolError> {
    let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
    let millis = Duration::from_millis(args.millis);
    tokio::time::sleep(millis).await;
    let mut text = args.text.clone().unwrap_or_default();
    match args.act {
        Act::Work => {}
        Act::Fail => return Err(ToolError::failed(Reason::Io, "it broke")),
        Act::Flake if run < 3 => return Err(ToolError::failed(Reason::Transient, "not yet")),
        Act::Flake => {}
        Act::Misuse => return Err(ToolError::invalid(Reason::NoMatch, "wrong")),
        Act::Panic | Act::PanicEarly => panic!("a bug with sk-abcdefghijklmnopqrstuvwx"),
        Act::Hang => std::future::pending::<()>().await,
        Act::Block => {
            cx.blocking(|cx| {
                while !cx.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                cx.check_cancelled()
            })
            .await?;
        }
        Act::Flood => text = "x".repeat(200_000),
    }
    Ok(ToolReply {
        content: vec![Content::Text(text)],
        display: Display::markdown("done"),
        output: PuppetOutput { done: true },
        locations: vec![],
    })
}

/// Answers every question the same way and remembers them.
pub(crate) struct Fixed {
    pub(crate) answer: Answer,
    pub(crate) questions: Mutex<Vec<Question>>,
}

impl Approver for Fixed {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.questions.lock().unwrap().push(question.clone());
        Box::pin(std::future::ready(self.answer))
    }
}

/// Writes down how calls ended.
#[derive(Default)]
pub(crate) struct Endings(pub(crate) Mutex<Vec<&'static str>>);

impl Observer for Endings {
    fn event(&self, event: &CallEvent) {
        if let CallEvent::Ended { status, .. } = event {
            self.0.lock().unwrap().push(status);
        }
    }
}

/// A host in a temp folder.
pub(crate) struct Fixture {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) host: ToolHost,
    pub(crate) session: Session,
    pub(crate) endings: Arc<Endings>,
    pub(crate) dialect: Dialect,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default(), None, vec![erase(Puppet::<'p'>::new())])
    }

    pub(crate) fn with(
        limits: Limits,
        approver: Option<Arc<dyn Approver>>,
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
    ) -> Self {
        Self::judged_by(Arc::new(RiskPolicy), limits, approver, tools)
    }

    pub(crate) fn hooked(hooks: Hooks, tools: Vec<Arc<dyn zero_runtime::AnyTool>>) -> Self {
        Self::made(tools, |config| config.hooks = hooks)
    }

    pub(crate) fn judged_by(
        policy: Arc<dyn Policy>,
        limits: Limits,
        approver: Option<Arc<dyn Approver>>,
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
    ) -> Self {
        Self::made(tools, |config| {
            (config.policy, config.limits, config.approver) = (policy, limits, approver);
        })
    }

    fn made(
        tools: Vec<Arc<dyn zero_runtime::AnyTool>>,
        set_up: impl FnOnce(&mut HostConfig),
    ) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("work")).unwrap();
        let workspace = Workspace::open(&[temp.path().join("work")], None).unwrap();
        let endings = Arc::new(Endings::default());
        let mut config = HostConfig {
            observer: Some(Arc::clone(&endings) as Arc<dyn Observer>),
            how_to_allow: "pass --yes".to_owned(),
            ..HostConfig::new(workspace, StateDir::new(temp.path().join("state")))
        };
        set_up(&mut config);
        let host = ToolHost::new(config);
        host.registry().add("builtin", tools).unwrap();
        let session = host.one_shot().unwrap();
        Self { temp, host, session, endings, dialect: Dialect::new(DialectName::Canonical) }
    }

    pub(crate) fn tool_call(tool: &str, input: Value) -> ToolCall {
        ToolCall { id: new_call_id(), session: None, tool: tool.to_owned(), input, timeout: None }
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Report {
        self.call_until(tool, input, &CancellationToken::new()).await
    }

    pub(crate) async fn call_until(
        &self,
        tool: &str,
        input: Value,
        cancel: &CancellationToken,
    ) -> Report {
        self.host.call(&self.session, &self.dialect, Self::tool_call(tool, input), cancel).await
    }

    /// Every audit row so far.
    pub(crate) fn rows(&self) -> Vec<AuditRow> {
        let mut rows = Vec::new();
        for day in self.host.audit().days().unwrap() {
            let mut day = self.host.audit().day(&day).unwrap();
            day.each(|row| rows.push(row)).unwrap();
            assert_eq!(day.damaged(), 0);
        }
        rows
    }
}
