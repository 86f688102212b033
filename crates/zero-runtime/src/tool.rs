//! The tool interfaces: typed for implementations, type-erased for callers.
//!
//! A call is planned before it is authorized. Planning turns arguments into handles (resolved
//! paths, compiled patterns), and everything after it (description, effects, run) uses that plan.
//! So what was authorized is what runs: nothing is parsed or resolved twice.

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
    Effect, Effects, ErrorReason, ResultMetadata, RiskLevel, TargetPath, TimeoutClass,
    ToolArguments, ToolCategory, ToolError, ToolKind, ToolName, ToolSpec,
};
use zero_sandbox::Workspace;

use crate::call_context::CallContext;
use crate::schema;
use crate::tool_notes::ToolNotes;

/// What a method of a trait object returns in place of an `async fn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Static facts about a tool besides its name and its types.
#[derive(Clone, Debug)]
pub struct ToolInfo {
    /// Name for display.
    pub display_name: &'static str,
    /// Its category in lists.
    pub category: ToolCategory,
    /// The kind of tool, for an icon in editors.
    pub kind: ToolKind,
    /// Risk before the arguments are known.
    pub risk: RiskLevel,
    /// Its class of deadlines.
    pub timeout_class: TimeoutClass,
    /// Whether running it twice has the same effect as once.
    pub idempotent: bool,
    /// A tool with the same input that runs instead if this one fails.
    pub fallback: Option<&'static str>,
}

impl ToolInfo {
    /// Defaults of most tools: not idempotent, a short deadline, the given risk.
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

/// What a call will do, for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDescription {
    /// One line, such as ``Edit `src/main.rs` ``.
    pub title: String,
    /// The files it is about.
    pub locations: Vec<FileLocation>,
}

/// The result of a run, before it is truncated and rendered.
#[derive(Debug)]
pub struct ToolReply<O> {
    /// For the model.
    pub content: Vec<ToolResultPart>,
    /// For the user.
    pub display: ResultDisplay,
    /// For programs.
    pub output: O,
    /// The files it touched.
    pub locations: Vec<FileLocation>,
}

impl<O> ToolReply<O> {
    /// The same text for the model and the user.
    pub fn from_text(text: impl Into<String>, output: O) -> Self {
        let text = text.into();
        let display = ResultDisplay::markdown(text.clone());
        Self { content: vec![ToolResultPart::Text(text)], display, output, locations: Vec::new() }
    }
}

/// A tool. The doc comment of its `Args` is the description that models get; write it for them.
///
/// A tool never asks the user, starts processes or sets timeouts itself, and opens only what its
/// plan resolved.
pub trait Tool: Send + Sync + 'static {
    /// The arguments; the input schema is derived from them.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The structured result; the output schema is derived from it.
    type Output: Serialize + JsonSchema + Send;
    /// The arguments with everything resolved that can be resolved before authorization.
    type Plan: Send + Sync + 'static;
    /// Canonical name.
    const NAME: &'static str;

    /// Static facts about the tool.
    fn info(&self) -> ToolInfo;

    /// Further facts about the tool, for users.
    fn notes(&self) -> ToolNotes {
        ToolNotes::default()
    }

    /// Resolves the arguments: paths to handles, patterns to matchers. Changes nothing.
    fn plan(&self, args: Self::Args, workspace: &Workspace) -> Result<Self::Plan, ToolError>;

    /// Like [`Tool::plan`], for a tool that starts in the folder where the session's last command
    /// ended, if that is not the workspace's first.
    fn plan_in(
        &self,
        args: Self::Args,
        workspace: &Workspace,
        _folder: Option<&Path>,
    ) -> Result<Self::Plan, ToolError> {
        self.plan(args, workspace)
    }

    /// What the call will do, for the user; by default the tool's name.
    fn describe(&self, _plan: &Self::Plan) -> CallDescription {
        CallDescription { title: self.info().display_name.to_owned(), locations: Vec::new() }
    }

    /// The effects of the call, for policy, sandbox and audit.
    fn effects(&self, plan: &Self::Plan) -> Effects;

    /// The effects of a call about this one path. If [`Tool::plan`] failed, they are authorized
    /// before the reason is reported, because that reveals what exists there.
    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Read(path)]
    }

    /// The deadline that the input sets, if any; otherwise that of its class applies.
    fn deadline(&self, _plan: &Self::Plan) -> Option<Duration> {
        None
    }

    /// Fails if the call can only fail, for example because a file does not exist. Runs after
    /// authorization, and before the user is asked if it reveals nothing, so that the user is not
    /// asked needlessly.
    fn check(&self, _plan: &Self::Plan, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// Fails if the call would fail although the user allowed it, for example because the text to
    /// replace is not in the file. Only called before the user is asked, and only if it reveals
    /// nothing: it may read as much as the call itself.
    fn rehearse(&self, _plan: &Self::Plan, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// What the user should see before they answer; only called if they are asked.
    fn preview(&self, _plan: &Self::Plan, _cx: &CallContext) -> Option<ResultDisplay> {
        None
    }

    /// Runs the call. May be called again with the same plan if the tool is idempotent.
    fn run(
        &self,
        plan: Arc<Self::Plan>,
        cx: CallContext,
    ) -> impl Future<Output = Result<ToolReply<Self::Output>, ToolError>> + Send;
}

/// A tool without its types. Remote tools implement this directly.
pub trait AnyTool: Send + Sync {
    /// Static facts about the tool.
    fn spec(&self) -> &ToolSpec;

    /// Resolves an input that matches the schema.
    fn plan(&self, input: Value, workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError>;

    /// Further facts about the tool, for users.
    fn notes(&self) -> ToolNotes {
        ToolNotes::default()
    }

    /// Unverified claims of the tool, such as `read-only`. Shown to users; no decision uses them.
    fn claims(&self) -> Vec<String> {
        Vec::new()
    }

    /// The effects of a call about this one path; used if it could not be planned.
    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Read(path)]
    }

    /// Like [`AnyTool::plan`], for a tool that starts in the folder where the session's last
    /// command ended.
    fn plan_in(
        &self,
        input: Value,
        workspace: &Workspace,
        _folder: Option<&Path>,
    ) -> Result<Box<dyn AnyPlan>, ToolError> {
        self.plan(input, workspace)
    }
}

/// A planned call without its types.
pub trait AnyPlan: Send + Sync {
    /// What the call will do, for the user.
    fn describe(&self) -> CallDescription;

    /// The effects of the call.
    fn effects(&self) -> Effects;

    /// What the call passes on to a tool that is not zero's own, for rules about arguments. Without
    /// them, deny and ask rules about an argument of the tool apply to every call.
    fn arguments(&self) -> Option<&ToolArguments> {
        None
    }

    /// The deadline that the input sets, if any.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Fails if the call can only fail; called after authorization.
    fn check(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// Fails if the call would fail although the user allowed it.
    fn rehearse(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// What the user should see before they answer.
    fn preview(&self, cx: &CallContext) -> Option<ResultDisplay>;

    /// Runs the call.
    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>>;
}

/// Erases a tool's types so that it can be registered.
///
/// Panics if the tool's name is invalid, which is a bug in the program.
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
                format!("the input is invalid: {error}"),
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

    fn rehearse(&self, cx: &CallContext) -> Result<(), ToolError> {
        self.tool.rehearse(&self.plan, cx)
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
                    format!("could not serialize the result: {error}"),
                )
            })?;
            Ok(ToolResult {
                content: reply.content,
                display: reply.display,
                structured,
                locations: reply.locations,
                metadata: ResultMetadata::default(),
            })
        })
    }
}
