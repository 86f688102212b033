//! A tool that is run by a command of the project ([`DiscoveredTool`]).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zero_core::sanitize::escape_line;
use zero_core::shell_quoting::quote_shell_word;
use zero_core::{
    CommandExecution, CommandLine, Effect, Effects, ErrorReason, ResultDisplay, RiskLevel,
    TimeoutClass, ToolArguments, ToolCategory, ToolError, ToolKind, ToolResult, ToolSpec,
};
use zero_runtime::tool::{AnyPlan, BoxFuture};
use zero_runtime::{
    AnyTool, CallContext, CallDescription, CommandDisposition, CommandRequest, StreamMode,
    ToolNotes,
};
use zero_sandbox::{FinalLinkMode, Workspace};

use super::{CommandToolDeclaration, tool_command_report};
use crate::bash::{self, reply_continued};

/// A tool that is run by a command of the project. A call runs the command with the tool's original
/// name as its last argument and is checked as that command; the arguments are passed on stdin.
pub struct DiscoveredTool {
    spec: ToolSpec,
    /// The command with the tool's original name.
    words: Vec<String>,
    folder: PathBuf,
}

impl DiscoveredTool {
    /// Creates a declared tool that the command `call` runs in `folder`.
    pub fn new(declared: &CommandToolDeclaration, call: &[String], folder: &Path) -> Self {
        let CommandToolDeclaration { name, original, description, input_schema } = declared;
        let words: Vec<String> = call.iter().chain([original]).cloned().collect();
        let description = match description.trim() {
            "" => format!("Runs `{}`.", words.join(" ")),
            _ => description.clone(),
        };
        let spec = ToolSpec {
            name: name.clone(),
            display_name: original.clone(),
            description,
            input_schema: input_schema.clone(),
            // The form of the result is not declared.
            output_schema: json!({}),
            category: ToolCategory::External,
            kind: ToolKind::Execute,
            risk: RiskLevel::High,
            timeout_class: TimeoutClass::Command,
            idempotent: false,
            fallback: None,
        };
        Self { spec, words, folder: folder.to_owned() }
    }
}

impl AnyTool for DiscoveredTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("runs the command that provides it, checked and sandboxed like any command")
    }

    fn plan(&self, input: Value, workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        if self.words.len() < 2 {
            let message = "no command runs this tool; set `tools.toolCallCommand`";
            return Err(ToolError::failed(ErrorReason::ServerUnavailable, message));
        }
        let Value::Object(arguments) = input else {
            let message = "the input is not an object";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        };
        let folder = match self.folder == workspace.cwd() {
            true => None,
            false => Some(workspace.resolve_path(&self.folder, FinalLinkMode::Follow)?),
        };
        let execution = CommandExecution {
            folder: folder.map(|folder| folder.target().clone()),
            ..CommandExecution::new(CommandLine::Program(self.words.clone()))
        };
        Ok(Box::new(DiscoveredToolPlan { execution, arguments: ToolArguments::new(arguments) }))
    }
}

struct DiscoveredToolPlan {
    execution: CommandExecution,
    arguments: ToolArguments,
}

impl DiscoveredToolPlan {
    /// What the command reads from its stdin.
    fn input(&self) -> Value {
        Value::Object(self.arguments.as_map().clone())
    }
}

impl AnyPlan for DiscoveredToolPlan {
    fn describe(&self) -> CallDescription {
        let title = bash::command_title(None, &self.execution.to_string());
        CallDescription { title, locations: Vec::new() }
    }

    fn effects(&self) -> Effects {
        vec![Effect::Exec(self.execution.clone())]
    }

    fn arguments(&self) -> Option<&ToolArguments> {
        Some(&self.arguments)
    }

    fn preview(&self, cx: &CallContext) -> Option<ResultDisplay> {
        let folder = self.execution.folder.as_ref().map_or(cx.workspace().cwd(), |f| f.canonical());
        Some(ResultDisplay::markdown(render_preview(&self.execution, folder, &self.input())))
    }

    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let request = CommandRequest {
            execution: self.execution.clone(),
            streams: StreamMode::Pipes,
            input: Some(self.input().to_string().into_bytes()),
        };
        Box::pin(async move {
            match cx.run_command(request).await? {
                CommandDisposition::Ended(outcome) => {
                    tool_command_report::result_from_outcome(&outcome, &cx)
                }
                CommandDisposition::ContinuedAsJob(job) => {
                    tool_command_report::result_from_job(reply_continued(&job))
                }
            }
        })
    }
}

/// Renders everything that will be run: each word of the command, and all arguments.
fn render_preview(execution: &CommandExecution, folder: &Path, arguments: &Value) -> String {
    let command = match &execution.command {
        CommandLine::Program(words) => {
            let quoted: Vec<String> = words.iter().map(|word| quote_shell_word(word)).collect();
            escape_line(&quoted.join(" ")).into_owned()
        }
        CommandLine::Shell(text) => text.clone(),
    };
    format!("{command}\n\nin {}\n\nwith this input:\n{arguments:#}", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(stdout: &str, call: &[&str]) -> DiscoveredTool {
        let declared = super::super::parse_declarations(stdout.as_bytes()).unwrap().0.remove(0);
        let call: Vec<String> = call.iter().map(|word| (*word).to_owned()).collect();
        DiscoveredTool::new(&declared, &call, Path::new("/w"))
    }

    #[test]
    fn spec_matches_declaration() {
        let tool = tool(r#"[{"name": "get.it", "description": "Gets it."}]"#, &["sh", "call"]);
        let spec = tool.spec();
        assert!(spec.name.as_str().starts_with("cmd__get_it_"));
        assert_eq!((spec.display_name.as_str(), spec.description.as_str()), ("get.it", "Gets it."));
        assert_eq!((spec.risk, spec.timeout_class), (RiskLevel::High, TimeoutClass::Command));
        assert!(!spec.idempotent);
    }

    #[test]
    fn missing_description_falls_back_to_command() {
        let tool = tool(r#"[{"name": "now", "description": " "}]"#, &["sh", "call"]);
        assert_eq!(tool.spec().description, "Runs `sh call now`.");
    }

    #[test]
    fn preview_shows_every_word_and_argument() {
        let words = ["./call me", "get.it", "", "a\nb"].map(str::to_owned).to_vec();
        let execution = CommandExecution::new(CommandLine::Program(words));
        assert_eq!(
            render_preview(&execution, Path::new("/w"), &json!({"city": "Ulm\u{1b}[0m"})),
            "'./call me' get.it '' 'a\\nb'\n\nin /w\n\nwith this input:\n{\n  \"city\": \"Ulm\\u001b[0m\"\n}"
        );
    }
}
