//! The tool `Task`, as the model sees it: its definition and its arguments.

use serde::Deserialize;
use serde_json::json;
use zero_core::text_shortening::one_line;
use zero_core::{ErrorReason, RiskLevel, ToolCategory, ToolError, ToolKind};
use zero_runtime::tool_backend::{AgentDefinition, CatalogEntry, CatalogInfo};

use crate::agent::{AgentRegistry, DIRECT};
use crate::turn::call_batch::TASK_TOOL;

/// Maximum length of a description in the arguments, in characters.
const DESCRIPTION_LEN_MAX: usize = 200;
/// Maximum length of an agent's description in the definition, in characters.
const AGENT_DESCRIPTION_LEN_MAX: usize = 300;
/// Most agents that the definition lists.
const LISTED_AGENTS_MAX: usize = 50;
/// Maximum size of a prompt, in bytes.
const PROMPT_BYTES_MAX: usize = 256 * 1024;

const INTRODUCTION: &str = "Gives a self-contained piece of work to a sub-agent, which has a context of its own, works with \
    the same tools and rights and returns one final answer. Use it for work that would fill your context, such as a \
    broad search, and for independent parts: several calls in one reply run side by side. The sub-agent knows \
    nothing of this conversation and cannot ask you: write into `prompt` all that it needs, and what to report. \
    The user does not see its answer, so repeat what matters.";

/// Arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskArgs {
    pub(super) description: String,
    pub(super) prompt: String,
    /// `subagent_type` is what models are used to from elsewhere.
    #[serde(default, alias = "subagent_type")]
    pub(super) agent: Option<String>,
    #[serde(default)]
    pub(super) isolation: TaskIsolation,
}

/// Where the sub-agent of a call works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TaskIsolation {
    /// In the folder of its parent, unless its agent says otherwise.
    #[default]
    None,
    /// In a git worktree of its own.
    Worktree,
}

impl TaskArgs {
    /// Reads the arguments of a call.
    pub(super) fn parse(input: &serde_json::Value) -> Result<Self, ToolError> {
        let invalid = |why: String| ToolError::invalid(ErrorReason::SchemaViolation, why);
        let mut args = Self::deserialize(input)
            .map_err(|error| invalid(format!("invalid arguments: {error}")))?;
        args.description = one_line(args.description.trim(), DESCRIPTION_LEN_MAX);
        if args.prompt.trim().is_empty() {
            return Err(invalid("`prompt` is empty; write what the sub-agent is to do".to_owned()));
        }
        if args.prompt.len() > PROMPT_BYTES_MAX {
            return Err(invalid(format!(
                "`prompt` has {} bytes, more than {PROMPT_BYTES_MAX}; let the sub-agent read long texts itself",
                args.prompt.len()
            )));
        }
        Ok(args)
    }
}

/// The definition of the tool for an agent that may start these others.
pub(super) fn catalog_entry(
    agent: &str,
    configured: &AgentRegistry,
    defined: &[AgentDefinition],
) -> CatalogEntry {
    let mut description = INTRODUCTION.to_owned();
    let files = defined.iter().filter(|defined| defined.problem.is_none());
    let files = files.map(|defined| (defined.name.as_str(), defined.description.as_str()));
    let is_defined = |name: &str| defined.iter().any(|defined| defined.name == name);
    let settings = configured.list().map(|profile| (profile.id.as_str(), ""));
    let settings = settings.filter(|(name, _)| *name != DIRECT && !is_defined(name));
    let others: Vec<(&str, &str)> =
        files.chain(settings).filter(|(name, _)| *name != agent).collect();
    if !others.is_empty() {
        description.push_str("\nAgents for `agent`, if one fits:");
        for (name, about) in others.iter().take(LISTED_AGENTS_MAX) {
            let about = one_line(about, AGENT_DESCRIPTION_LEN_MAX);
            let colon = if about.is_empty() { "" } else { ": " };
            description.push_str(&format!("\n- {name}{colon}{about}"));
        }
    }
    CatalogEntry {
        name: TASK_TOOL.to_owned(),
        canonical: TASK_TOOL.to_owned(),
        display_name: Some("Task".to_owned()),
        description,
        input_schema: json!({
            "type": "object",
            "properties": {
                "description": {
                    "type": "string",
                    "description": "What the sub-agent does, in three to eight words, for the user",
                },
                "prompt": {
                    "type": "string",
                    "description": "All that the sub-agent needs to know, and what its answer must contain",
                },
                "agent": {
                    "type": "string",
                    "description": "Name of the agent that does it; an agent like you if absent",
                },
                "isolation": {
                    "type": "string",
                    "enum": ["none", "worktree"],
                    "description": "With `worktree`, the sub-agent works in a git worktree of its own, made from your \
                        last commit without your uncommitted changes, and cannot touch your files. You get its \
                        changes as a diff and a branch, which you can merge. Use it for changes that run side by \
                        side. `none`, the default: in your folder",
                },
            },
            "required": ["description", "prompt"],
            "additionalProperties": false,
        }),
        kind: ToolKind::Think,
        read_only: false,
        info: Some(CatalogInfo {
            output_schema: json!({ "type": "object" }),
            category: ToolCategory::Project,
            risk: RiskLevel::Low,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        #[track_caller]
        fn check(input: serde_json::Value, expected: &str) {
            let error = TaskArgs::parse(&input).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
        check(json!({"description": "a"}), "missing field `prompt`");
        check(json!({"description": "a", "prompt": " "}), "`prompt` is empty");
        check(json!({"description": "a", "prompt": "b", "model": "x"}), "unknown field `model`");
        check(
            json!({"description": "a", "prompt": "b", "isolation": "docker"}),
            "unknown variant `docker`, expected `none` or `worktree`",
        );
        let long = "x".repeat(PROMPT_BYTES_MAX + 1);
        check(json!({"description": "a", "prompt": long}), "more than 262144");
        let input = json!({"description": "a", "prompt": "b", "subagent_type": "review"});
        assert_eq!(TaskArgs::parse(&input).unwrap().agent.as_deref(), Some("review"));
    }

    #[test]
    fn definition_lists_other_usable_agents() {
        let defined = |name: &str, problem: Option<&str>| AgentDefinition {
            name: name.to_owned(),
            description: format!("about\n{name}"),
            problem: problem.map(str::to_owned),
            ..AgentDefinition::default()
        };
        let files = [defined("review", None), defined("broken", Some("no")), defined("me", None)];
        let entry = catalog_entry("me", &AgentRegistry::new(Vec::new(), None), &files);
        let listed: Vec<&str> =
            entry.description.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(listed, ["- review: about review", "- main"]);
    }
}
