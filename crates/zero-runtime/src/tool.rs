//! What a tool is: typed where it is written, erased where it is called.
//!
//! A call is planned before it is judged. Planning turns arguments into handles (paths settled,
//! patterns compiled), and everything after it, the description, the effects, the run, works on
//! that plan. So what was judged is what runs: nothing is parsed or resolved a second time.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zero_core::tool_result::{FileLocation, ResultDisplay, ToolResult, ToolResultPart};
use zero_core::{
    Effect, Effects, ErrorReason, RiskLevel, TargetPath, TimeoutClass, ToolCategory, ToolError,
    ToolKind, ToolName, ToolSpec,
};
use zero_sandbox::Workspace;

use crate::call_context::CallContext;
use crate::schema;
use crate::tool_notes::ToolNotes;

/// A future that can be stored.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a tool says about itself besides its name and its types.
#[derive(Clone, Debug)]
pub struct ToolInfo {
    /// Name for people.
    pub display_name: &'static str,
    /// The shelf it stands on.
    pub category: ToolCategory,
    /// How an editor should picture it.
    pub kind: ToolKind,
    /// Risk before the arguments are looked at.
    pub risk: RiskLevel,
    /// Which deadline it works under.
    pub timeout_class: TimeoutClass,
    /// Whether running it twice is the same as running it once.
    pub idempotent: bool,
    /// A tool that takes the same input and can stand in when this one fails by itself.
    pub fallback: Option<&'static str>,
}

impl ToolInfo {
    /// What most tools of a program's own say: called once, done quickly, at this risk.
    pub fn new(display_name: &'static str, risk: RiskLevel) -> Self {
        Self {
            display_name,
            category: ToolCategory::External,
            kind: ToolKind::Other,
            risk,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }
}

/// What a call will do, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDescription {
    /// One line, such as ``Edit `src/main.rs` ``.
    pub title: String,
    /// Places it is about.
    pub locations: Vec<FileLocation>,
}

/// What a run gives back, before it is bounded and rendered.
#[derive(Debug)]
pub struct ToolReply<O> {
    /// For the model.
    pub content: Vec<ToolResultPart>,
    /// For the person.
    pub display: ResultDisplay,
    /// For programs.
    pub output: O,
    /// Places touched.
    pub locations: Vec<FileLocation>,
}

impl<O> ToolReply<O> {
    /// The same text for the model and the person.
    pub fn from_text(text: impl Into<String>, output: O) -> Self {
        let text = text.into();
        let display = ResultDisplay::markdown(text.clone());
        Self { content: vec![ToolResultPart::Text(text)], display, output, locations: Vec::new() }
    }
}

/// A tool. Its `Args` doc comment is the model's description of it; write it for that reader.
///
/// A tool never asks, spawns, or times itself, and opens nothing but what its plan located.
pub trait Tool: Send + Sync + 'static {
    /// The arguments; the input schema is derived from them.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The structured result; the output schema is derived from it.
    type Output: Serialize + JsonSchema + Send;
    /// The arguments with everything settled that can be settled before anyone decides.
    type Plan: Send + Sync + 'static;
    /// Canonical name.
    const NAME: &'static str;

    /// What it says about itself.
    fn info(&self) -> ToolInfo;

    /// What is to be known of it beside its description, for people.
    fn notes(&self) -> ToolNotes {
        ToolNotes::default()
    }

    /// Settles the arguments: paths to handles, patterns to matchers. Changes nothing.
    fn plan(&self, args: Self::Args, workspace: &Workspace) -> Result<Self::Plan, ToolError>;

    /// The same for a tool that goes on in the folder where the session's last command ended, where
    /// that is not the workspace's first.
    fn plan_in(
        &self,
        args: Self::Args,
        workspace: &Workspace,
        _folder: Option<&Path>,
    ) -> Result<Self::Plan, ToolError> {
        self.plan(args, workspace)
    }

    /// What the call will do, for a person; what the tool is called when nobody says more.
    fn describe(&self, _plan: &Self::Plan) -> CallDescription {
        CallDescription { title: self.info().display_name.to_owned(), locations: Vec::new() }
    }

    /// What the call will touch. Policy, sandbox and audit see this.
    fn effects(&self, plan: &Self::Plan) -> Effects;

    /// What a call about this one path touches. It is judged where [`Tool::plan`] failed, before
    /// anybody is told why: that says what stands there.
    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Read(path)]
    }

    /// How long it may take, where its input says so; the deadline of its class otherwise.
    fn deadline(&self, _plan: &Self::Plan) -> Option<Duration> {
        None
    }

    /// Fails when the call could only fail, such as on a file that is not there: asked after the
    /// call was judged, and where nothing is given away by it before a person is, so that nobody
    /// is asked for nothing.
    fn check(&self, _plan: &Self::Plan, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// What a person should see before they answer; made only when one is asked.
    fn preview(&self, _plan: &Self::Plan, _cx: &CallContext) -> Option<ResultDisplay> {
        None
    }

    /// Does it. May be called again with the same plan when the tool is idempotent.
    fn run(
        &self,
        plan: Arc<Self::Plan>,
        cx: CallContext,
    ) -> impl Future<Output = Result<ToolReply<Self::Output>, ToolError>> + Send;
}

/// A tool whose types are gone. Remote tools implement this directly.
pub trait AnyTool: Send + Sync {
    /// What it says about itself.
    fn spec(&self) -> &ToolSpec;

    /// Settles an input that fits the schema.
    fn plan(&self, input: Value, workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError>;

    /// What is to be known of it beside its description, for people.
    fn notes(&self) -> ToolNotes {
        ToolNotes::default()
    }

    /// What it says of itself and nobody vouches for, such as `read-only`. People are shown it; no
    /// decision looks at it.
    fn claims(&self) -> Vec<String> {
        Vec::new()
    }

    /// What a call about this one path touches; judged where it could not be planned.
    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Read(path)]
    }

    /// The same for a tool that goes on in the folder where the session's last command ended.
    fn plan_in(
        &self,
        input: Value,
        workspace: &Workspace,
        _folder: Option<&Path>,
    ) -> Result<Box<dyn AnyPlan>, ToolError> {
        self.plan(input, workspace)
    }
}

/// A planned call whose types are gone.
pub trait AnyPlan: Send + Sync {
    /// What the call will do, for a person.
    fn describe(&self) -> CallDescription;

    /// What the call will touch.
    fn effects(&self) -> Effects;

    /// How long it may take, where its input says so.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Fails when the call could only fail; asked after it was judged.
    fn check(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// What a person should see before they answer.
    fn preview(&self, cx: &CallContext) -> Option<ResultDisplay>;

    /// Does it.
    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>>;
}

/// Takes a tool's types away so that it can be registered.
///
/// Panics when the tool's name is no tool name: that is a mistake in the program, seen at once.
#[expect(
    clippy::expect_used,
    reason = "a tool's name is a constant; a wrong one cannot reach a user"
)]
pub fn erase<T: Tool>(tool: T) -> Arc<dyn AnyTool> {
    let about = tool.info();
    let mut input_schema = schema::derive_input_schema::<T::Args>();
    let description = schema::take_description(&mut input_schema);
    let spec = ToolSpec {
        name: ToolName::new(T::NAME).expect("a valid tool name"),
        display_name: about.display_name.to_owned(),
        description,
        input_schema,
        output_schema: schema::derive_output_schema::<T::Output>(),
        category: about.category,
        kind: about.kind,
        risk: about.risk,
        timeout_class: about.timeout_class,
        idempotent: about.idempotent,
        fallback: about.fallback.map(|name| ToolName::new(name).expect("a valid tool name")),
    };
    Arc::new(ErasedTool { tool: Arc::new(tool), spec })
}

struct ErasedTool<T> {
    tool: Arc<T>,
    spec: ToolSpec,
}

struct ErasedPlan<T: Tool> {
    tool: Arc<T>,
    plan: Arc<T::Plan>,
}

impl<T: Tool> AnyTool for ErasedTool<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn notes(&self) -> ToolNotes {
        self.tool.notes()
    }

    fn plan(&self, input: Value, workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        self.plan_in(input, workspace, None)
    }

    fn plan_in(
        &self,
        input: Value,
        workspace: &Workspace,
        folder: Option<&Path>,
    ) -> Result<Box<dyn AnyPlan>, ToolError> {
        let args = serde_json::from_value(input).map_err(|error| {
            ToolError::invalid(
                ErrorReason::SchemaViolation,
                format!("the input does not fit: {error}"),
            )
        })?;
        let plan = Arc::new(self.tool.plan_in(args, workspace, folder)?);
        Ok(Box::new(ErasedPlan { tool: Arc::clone(&self.tool), plan }))
    }

    fn path_effects(&self, path: TargetPath) -> Effects {
        self.tool.path_effects(path)
    }
}

impl<T: Tool> AnyPlan for ErasedPlan<T> {
    fn describe(&self) -> CallDescription {
        self.tool.describe(&self.plan)
    }

    fn effects(&self) -> Effects {
        self.tool.effects(&self.plan)
    }

    fn deadline(&self) -> Option<Duration> {
        self.tool.deadline(&self.plan)
    }

    fn check(&self, cx: &CallContext) -> Result<(), ToolError> {
        self.tool.check(&self.plan, cx)
    }

    fn preview(&self, cx: &CallContext) -> Option<ResultDisplay> {
        self.tool.preview(&self.plan, cx)
    }

    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (tool, plan) = (Arc::clone(&self.tool), Arc::clone(&self.plan));
        Box::pin(async move {
            let reply = tool.run(plan, cx).await?;
            let structured = serde_json::to_value(&reply.output).map_err(|error| {
                ToolError::failed(
                    ErrorReason::Panic,
                    format!("the result could not be written down: {error}"),
                )
            })?;
            Ok(ToolResult {
                content: reply.content,
                display: reply.display,
                structured,
                locations: reply.locations,
            })
        })
    }
}
