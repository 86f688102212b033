//! [`ToolSearch`], the tool that finds hidden tools. A model pays for every schema that it is
//! shown, and many servers have more tools than it will use.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::{
    Effect, Effects, ResultDisplay, RiskLevel, TimeoutClass, ToolCategory, ToolError, ToolKind,
    ToolName, ToolResultPart,
};
use zero_runtime::registry::{RegisteredTool, ToolRegistry};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use super::sanitize;

/// Default number of tools to return.
const LIMIT_DEFAULT: usize = 5;
/// Maximum number of tools to return.
const LIMIT_MAX: usize = 20;
/// Maximum number of words of a query.
const WORDS_MAX: usize = 20;

/// Finds tools of MCP servers that are not in your list, by what they do, and adds the best to it:
/// from then on they can be used like any other. Search by a few words, such as `create issue`, or
/// by the name of a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSearchArgs {
    /// What the tool should do, in a few words, or its name.
    query: String,
    /// How many tools to return, 5 when absent and at most 20.
    #[schemars(range(min = 1, max = 20))]
    limit: Option<u32>,
}

/// The tools that were found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolSearchOutput {
    /// The tools, best first.
    tools: Vec<FoundTool>,
}

/// A tool that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FoundTool {
    /// Name to call the tool by.
    name: String,
    /// What it does, according to its server.
    description: String,
    /// The schema of its input.
    input_schema: Value,
}

/// The tool that finds tools.
pub(crate) struct ToolSearch {
    pub(crate) registry: Weak<ToolRegistry>,
    /// Names of the servers, for a search without results.
    pub(crate) servers: Vec<String>,
}

/// A search, as the policy judges it.
pub(crate) struct ToolSearchPlan {
    query: String,
    limit: usize,
}

impl Tool for ToolSearch {
    type Args = ToolSearchArgs;
    type Output = ToolSearchOutput;
    type Plan = ToolSearchPlan;
    const NAME: &'static str = "ToolSearch";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Find tools",
            category: ToolCategory::External,
            kind: ToolKind::Search,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("shows more tools to the model, and changes nothing else")
            .with_bounds([ToolBound::count("tools that are found", LIMIT_MAX)])
    }

    fn plan(
        &self,
        args: ToolSearchArgs,
        _workspace: &Workspace,
    ) -> Result<ToolSearchPlan, ToolError> {
        let limit = args.limit.map_or(LIMIT_DEFAULT, |limit| limit as usize).clamp(1, LIMIT_MAX);
        Ok(ToolSearchPlan { query: args.query, limit })
    }

    fn describe(&self, plan: &ToolSearchPlan) -> CallDescription {
        let title = format!("Find tools for {}", sanitize::to_quoted_line(&plan.query));
        CallDescription { title, locations: Vec::new() }
    }

    fn effects(&self, _plan: &ToolSearchPlan) -> Effects {
        vec![Effect::State("the list of tools".to_owned())]
    }

    async fn run(
        &self,
        plan: Arc<ToolSearchPlan>,
        _cx: CallContext,
    ) -> Result<ToolReply<ToolSearchOutput>, ToolError> {
        let registry = self.registry.upgrade();
        let tools = registry.as_ref().map(|registry| registry.list()).unwrap_or_default();
        let tools: Vec<_> = tools.into_iter().filter(|tool| is_mcp_tool(tool)).collect();
        let best = rank_tools(&tools, &plan.query, plan.limit);
        let names: Vec<ToolName> = best.iter().map(|tool| tool.tool.spec().name.clone()).collect();
        if let Some(registry) = &registry {
            registry.reveal(&names);
        }
        let found: Vec<FoundTool> = best.iter().map(|tool| to_found_tool(tool)).collect();
        let text = match &found[..] {
            [] => format!(
                "No tool matches {}. There are {} tools of these MCP servers: {}. Try other words, or the name of a server.",
                sanitize::to_quoted_line(&plan.query),
                tools.len(),
                self.servers.join(", ")
            ),
            found => found.iter().map(describe_tool).collect::<Vec<_>>().join("\n\n"),
        };
        let summary = match names.len() {
            0 => "Nothing was found".to_owned(),
            _ => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("Found {}", names.join(", "))
            }
        };
        Ok(ToolReply {
            content: vec![ToolResultPart::Text(text)],
            display: ResultDisplay::markdown(summary),
            output: ToolSearchOutput { tools: found },
            locations: Vec::new(),
        })
    }
}

fn is_mcp_tool(tool: &RegisteredTool) -> bool {
    tool.source.starts_with("mcp:")
}

fn to_found_tool(tool: &RegisteredTool) -> FoundTool {
    let spec = tool.tool.spec();
    FoundTool {
        name: spec.name.to_string(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
    }
}

fn describe_tool(tool: &FoundTool) -> String {
    format!("{}: {}\ninput schema: {}", tool.name, tool.description, tool.input_schema)
}

/// Returns the tools that match, best first. A word scores most in the name of a tool, less in its
/// description, and least in the names of its parameters.
fn rank_tools(
    tools: &[Arc<RegisteredTool>],
    query: &str,
    limit: usize,
) -> Vec<Arc<RegisteredTool>> {
    let query_words = split_words(query);
    let exact = query.trim().to_lowercase();
    let mut scored: Vec<(u32, &Arc<RegisteredTool>)> = tools
        .iter()
        .map(|tool| (score(tool, &query_words, &exact), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    // The sort is stable, and the input is sorted by name.
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().take(limit).map(|(_, tool)| Arc::clone(tool)).collect()
}

fn score(tool: &RegisteredTool, query_words: &BTreeSet<String>, exact: &str) -> u32 {
    let spec = tool.tool.spec();
    let name = spec.name.as_str().to_lowercase();
    let in_name = split_words(&name);
    let description = spec.description.to_lowercase();
    let properties = spec.input_schema.get("properties").and_then(Value::as_object);
    let parameters: String = properties
        .map(|fields| fields.keys().map(|key| key.to_lowercase() + " ").collect())
        .unwrap_or_default();
    let mut score = if name == exact { 1_000 } else { 0 };
    for word in query_words {
        score += match () {
            () if in_name.contains(word) => 50,
            () if name.contains(word.as_str()) => 30,
            () if description.contains(word.as_str()) => 15,
            () if parameters.contains(word.as_str()) => 5,
            () => 0,
        };
    }
    score
}

/// Splits a text into lower-case words: `createIssue` and `create_issue` are two words each.
fn split_words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        spaced.extend(c.to_lowercase());
    }
    spaced
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .take(WORDS_MAX)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let words = split_words(text);
        assert_eq!(words.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn search_text_is_split_like_tool_names() {
        check("createIssue", &["create", "issue"]);
        check("github__create_issue", &["create", "github", "issue"]);
        check("Send a  MAIL!", &["mail", "send"]);
        check("", &[]);
    }
}
