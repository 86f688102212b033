//! A tool that the editor provides, as a tool of the host: with the same rules, limits and audit log
//! as every other tool that is not zero's own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_acp::{ClientTool, ClientToolCaller, ClientToolKind};
use zero_core::{
    CLIENT_TOOL_SOURCE, CommandExecution, CommandLine, Effect, Effects, ErrorReason, ResultDisplay,
    RiskLevel, TimeoutClass, ToolArguments, ToolCategory, ToolDefinitionState, ToolError, ToolKind,
    ToolResult, ToolSpec, sanitize,
};
use zero_runtime::tool::{AnyPlan, AnyTool, BoxFuture};
use zero_runtime::{CallContext, CallDescription, ToolNotes};
use zero_sandbox::Workspace;

/// Longest time of a call, if the limit of its class is longer.
const DEADLINE_MAX: Duration = Duration::from_secs(60 * 60);
/// Longest name in a title, in characters.
const TITLE_NAME_CHARS_MAX: usize = 80;

/// A tool that the editor provides.
pub(crate) struct EditorTool {
    spec: ToolSpec,
    /// The editor's name for it.
    name: String,
    kind: ClientToolKind,
    caller: Arc<dyn ClientToolCaller>,
}

impl EditorTool {
    pub(crate) fn new(tool: ClientTool) -> Self {
        let ClientTool { definition, caller } = tool;
        let spec = ToolSpec {
            name: definition.registered,
            display_name: sanitize::to_line(&definition.display_name),
            description: definition.description,
            input_schema: definition.input_schema,
            // The form of the result is not declared.
            output_schema: json!({}),
            category: ToolCategory::External,
            kind: match definition.kind {
                ClientToolKind::Other => ToolKind::Other,
                ClientToolKind::Terminal => ToolKind::Execute,
            },
            // The editor may do anything with a call, and zero does not see what.
            risk: match definition.kind {
                ClientToolKind::Other => RiskLevel::High,
                ClientToolKind::Terminal => RiskLevel::Critical,
            },
            timeout_class: match definition.kind {
                ClientToolKind::Other => TimeoutClass::Mcp,
                ClientToolKind::Terminal => TimeoutClass::Command,
            },
            idempotent: false,
            fallback: None,
        };
        Self { spec, name: definition.name, kind: definition.kind, caller }
    }
}

impl AnyTool for EditorTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("whatever the editor does with the call; it runs outside the sandbox")
    }

    fn plan(&self, input: Value, _workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        let Value::Object(arguments) = input else {
            let message = "the input is not an object";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        };
        let command = match self.kind {
            ClientToolKind::Other => None,
            ClientToolKind::Terminal => Some(parse_command(&arguments)?),
        };
        Ok(Box::new(EditorToolPlan {
            name: self.name.clone(),
            command,
            timeout_class: self.spec.timeout_class,
            caller: Arc::clone(&self.caller),
            arguments: ToolArguments::new(arguments),
        }))
    }
}

/// The command of a call that runs one.
fn parse_command(arguments: &Map<String, Value>) -> Result<CommandExecution, ToolError> {
    let command = arguments.get("command").and_then(Value::as_str).ok_or_else(|| {
        ToolError::invalid(ErrorReason::SchemaViolation, "the input has no `command`")
    })?;
    Ok(CommandExecution::new(CommandLine::Shell(command.to_owned())))
}

/// A call of such a tool, as policy judges it.
struct EditorToolPlan {
    name: String,
    /// The command that it runs. Rules about commands apply to it as to every other.
    command: Option<CommandExecution>,
    timeout_class: TimeoutClass,
    caller: Arc<dyn ClientToolCaller>,
    arguments: ToolArguments,
}

impl AnyPlan for EditorToolPlan {
    fn describe(&self) -> CallDescription {
        if let Some(command) = &self.command {
            let command = sanitize::to_quoted_line(&command.to_string());
            let title = format!("Run {command} in the editor, outside the sandbox");
            return CallDescription { title, locations: Vec::new() };
        }
        let name: String = self.name.chars().take(TITLE_NAME_CHARS_MAX).collect();
        let title = format!("Use {} of the editor", sanitize::to_quoted_line(&name));
        CallDescription { title, locations: Vec::new() }
    }

    fn effects(&self) -> Effects {
        let call = Effect::Mcp {
            server: CLIENT_TOOL_SOURCE.to_owned(),
            tool: self.name.clone(),
            definition: ToolDefinitionState::Steady,
        };
        let command = self.command.clone().map(Effect::Exec);
        command.into_iter().chain([call]).collect()
    }

    fn arguments(&self) -> Option<&ToolArguments> {
        Some(&self.arguments)
    }

    fn deadline(&self) -> Option<Duration> {
        // The editor is given the time of the tool's class, and its answer has more to say.
        Some(DEADLINE_MAX)
    }

    fn preview(&self, _cx: &CallContext) -> Option<ResultDisplay> {
        if let Some(command) = &self.command {
            let command = sanitize::to_code_block(&command.to_string(), "sh");
            return Some(ResultDisplay::markdown(format!(
                "This command runs in a terminal of the editor, outside the sandbox. It can read and change everything that you can, and connect to any host:\n{command}"
            )));
        }
        let arguments = serde_json::to_string_pretty(self.arguments.as_map()).unwrap_or_default();
        Some(ResultDisplay::markdown(sanitize::to_code_block(&arguments, "json")))
    }

    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (caller, name) = (Arc::clone(&self.caller), self.name.clone());
        let timeout_class = self.timeout_class;
        let is_terminal = self.command.is_some();
        let input = Value::Object(self.arguments.as_map().clone());
        Box::pin(async move {
            let most = cx.limits().timeout(timeout_class);
            // A terminal is shown in the call; other calls need an id of their own.
            let id = match is_terminal {
                true => cx.caller_id(),
                false => cx.call().clone(),
            };
            tokio::select! {
                () = cx.cancelled() => Err(ToolError::cancelled()),
                result = caller.call(&name, &id, input, most) => result,
            }
        })
    }
}
