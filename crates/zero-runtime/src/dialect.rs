//! One tool, every dialect: the names and shapes each platform's models were trained on.
//!
//! A dialect is a table. Each line maps a platform's tool onto a canonical one, field by field,
//! and the schema the model sees is made from the same line, so the two cannot drift apart. Code
//! is left only for how a platform writes results down ([`result_rendering`]).

mod acp;
mod dialect_name;
mod opencode;
mod qwen;
pub mod result_rendering;
mod shared_fields;
mod tool_mapping;

use std::sync::Arc;

use serde_json::Value;
use zero_core::event::ResultContent;
use zero_core::{SchemaViolation, TimeoutClass, ToolError, ToolOutcome, ToolResult};

pub use self::dialect_name::{DialectName, UnknownDialect};
use self::result_rendering::PagingHint;
pub use self::result_rendering::{RenderedPart, RenderedResult};
use self::tool_mapping::ToolMapping;
use crate::registry::{RegisteredTool, ToolRegistry, ToolVisibility};
use crate::schema::InputSchema;

/// Source name of the tools that come with zero.
pub const BUILTIN: &str = "builtin";

/// Tools of zero's own that have one name everywhere: no platform has them, and without them the
/// model could not follow or end a command that goes on in the background.
const JOB_TOOLS: &[&str] = &["BashOutput", "BashKill"];

/// A tool as a dialect offers it.
pub struct DialectTool {
    /// Its name in the dialect.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Its input schema in the dialect.
    pub input_schema: Value,
    /// The class of its deadline in the dialect.
    pub timeout_class: TimeoutClass,
    /// The tool itself.
    pub registered: Arc<RegisteredTool>,
}

/// A two-way mapping of names and shapes onto canonical tools.
pub struct Dialect {
    name: DialectName,
    entries: Vec<DialectEntry>,
}

struct DialectEntry {
    line: &'static ToolMapping,
    input: InputSchema,
}

impl Dialect {
    /// The dialect of that name.
    pub fn new(name: DialectName) -> Self {
        let entries = mappings(name)
            .iter()
            .map(|line| DialectEntry { line, input: InputSchema::new(line.schema()) })
            .collect();
        Self { name, entries }
    }

    /// The name that this dialect was made for.
    pub fn name(&self) -> DialectName {
        self.name
    }

    /// The tool a name means in this dialect. Tools from elsewhere keep their names everywhere;
    /// zero's own answer only to the names the dialect gives them, but for those that follow a
    /// command in the background.
    pub fn resolve(&self, registry: &ToolRegistry, name: &str) -> Option<Arc<RegisteredTool>> {
        match self.find_entry(name) {
            Some(entry) => registry.get(entry.line.canonical),
            None => registry.get(name).filter(|tool| self.keeps_name(tool)),
        }
    }

    /// Why this build lacks the tool of that name, if that is known.
    pub fn missing_advice(&self, registry: &ToolRegistry, name: &str) -> Option<&'static str> {
        registry.missing_advice(self.find_entry(name).map_or(name, |entry| entry.line.canonical))
    }

    /// The names it offers, as far as the registry has the tools.
    pub fn names(&self, registry: &ToolRegistry) -> Vec<String> {
        self.list_tools(registry).into_iter().map(|tool| tool.name).collect()
    }

    /// The tools it offers.
    pub fn list_tools(&self, registry: &ToolRegistry) -> Vec<DialectTool> {
        let mapped = self.entries.iter().filter_map(|entry| {
            let registered = registry.get(entry.line.canonical)?;
            Some(DialectTool {
                name: entry.line.name.to_owned(),
                description: entry.line.about.to_owned(),
                input_schema: entry.input.as_value().clone(),
                timeout_class: entry
                    .line
                    .timeout_class
                    .unwrap_or_else(|| registered.tool.spec().timeout_class),
                registered,
            })
        });
        let kept =
            registry.list().into_iter().filter(|tool| self.is_shown(tool)).map(|registered| {
                let spec = registered.tool.spec();
                DialectTool {
                    name: spec.name.to_string(),
                    description: spec.description.clone(),
                    input_schema: spec.input_schema.clone(),
                    timeout_class: spec.timeout_class,
                    registered,
                }
            });
        mapped.chain(kept).collect()
    }

    /// The class of the deadline of `tool` under `name`.
    pub(crate) fn timeout_class(&self, name: &str, tool: &RegisteredTool) -> TimeoutClass {
        let own = self.find_entry(name).and_then(|entry| entry.line.timeout_class);
        own.unwrap_or_else(|| tool.tool.spec().timeout_class)
    }

    /// The schema of the inputs of `tool` under `name`.
    pub(crate) fn input_schema<'a>(&'a self, name: &str, tool: &'a RegisteredTool) -> &'a Value {
        self.find_entry(name).map_or(&tool.input, |entry| &entry.input).as_value()
    }

    /// Checks an input against the dialect's own schema and turns it into the canonical one.
    pub fn to_canonical(
        &self,
        name: &str,
        tool: &RegisteredTool,
        input: Value,
    ) -> Result<Value, Vec<SchemaViolation>> {
        let Some(entry) = self.find_entry(name) else { return tool.input.check(input) };
        let Value::Object(fields) = entry.input.check(input)? else {
            return tool.input.check(Value::Null);
        };
        let canonical = entry.line.to_canonical(fields);
        tool.input
            .check(Value::Object(canonical))
            .map_err(|violations| entry.line.to_dialect_violations(violations))
    }

    /// Writes a result down as this dialect's platform does.
    pub fn render(&self, name: &str, result: &ToolResult) -> RenderedResult {
        render_for_platform(self.name, name, result)
    }

    fn find_entry(&self, name: &str) -> Option<&DialectEntry> {
        self.entries.iter().find(|entry| entry.line.name == name)
    }

    /// Whether a tool that keeps its name is shown: those for jobs where one can be started.
    fn is_shown(&self, tool: &RegisteredTool) -> bool {
        if tool.shown == ToolVisibility::WhenFound {
            return false;
        }
        let starts_jobs =
            || self.entries.iter().any(|entry| entry.line.has_field("run_in_background"));
        let hidden = is_job_tool(tool) && self.name != DialectName::Canonical && !starts_jobs();
        self.keeps_name(tool) && !hidden
    }

    fn keeps_name(&self, tool: &RegisteredTool) -> bool {
        self.name == DialectName::Canonical || tool.source != BUILTIN || is_job_tool(tool)
    }
}

/// A result of `tool` as the platform of a dialect writes it down.
pub fn render_for_platform(
    dialect: DialectName,
    tool: &str,
    result: &ToolResult,
) -> RenderedResult {
    let (done, paging) = (done_message(dialect, tool), paging_hint(dialect, tool));
    result_rendering::render(dialect, done, paging, result)
}

/// An error of `tool` as the platform of a dialect writes it down.
pub fn render_error_for_platform(
    dialect: DialectName,
    tool: &str,
    error: &ToolError,
) -> RenderedResult {
    result_rendering::render_error_for_platform(dialect, tool, error)
}

/// The outcome of a call to `tool`, rendered for a model that uses a dialect.
pub fn render_for_model(
    dialect: DialectName,
    tool: &str,
    outcome: &ToolOutcome,
) -> Vec<ResultContent> {
    match outcome {
        ToolOutcome::Result(result) => render_result(dialect, tool, result),
        ToolOutcome::Error(error) => result_rendering::render_error(tool, error),
    }
}

/// The result of a call to `tool`, rendered for a model that uses a dialect.
pub fn render_result(dialect: DialectName, tool: &str, result: &ToolResult) -> Vec<ResultContent> {
    let parts = render_parts(dialect, tool, result);
    parts.into_iter().map(result_rendering::part_content).collect()
}

/// The same, for protocols that carry more than words and images.
pub fn render_parts<'a>(
    dialect: DialectName,
    tool: &str,
    result: &'a ToolResult,
) -> Vec<RenderedPart<'a>> {
    let (done, paging) = (done_message(dialect, tool), paging_hint(dialect, tool));
    result_rendering::render_parts(dialect, done, paging, result)
}

/// An outcome in words and images, for clients that show nothing else: a result as the canonical
/// tools write it, an error as its message and what a command had printed.
pub fn render_plain(outcome: &ToolOutcome) -> Vec<ResultContent> {
    match outcome {
        ToolOutcome::Result(result) => render_result(DialectName::Canonical, "Read", result),
        ToolOutcome::Error(error) => result_rendering::render_plain_error(error),
    }
}

fn mappings(dialect: DialectName) -> &'static [ToolMapping] {
    match dialect {
        DialectName::Canonical => &[],
        DialectName::Acp => acp::TOOLS,
        DialectName::Qwen => qwen::TOOLS,
        DialectName::Opencode => opencode::TOOLS,
    }
}

/// What a platform says in place of a change that `tool` made, where it says so.
fn done_message(dialect: DialectName, tool: &str) -> Option<&'static str> {
    mappings(dialect).iter().find(|line| line.name == tool).and_then(|line| line.done)
}

/// How a caller of `tool` asks for the next page of a file.
fn paging_hint(dialect: DialectName, tool: &str) -> PagingHint<'static> {
    let reader = mappings(dialect).iter().find(|line| line.canonical == "Read");
    let (reader, (field, first)) = reader
        .and_then(|line| Some((line.name, line.line_field("offset")?)))
        .unwrap_or(("Read", ("offset", 1)));
    PagingHint { tool: (reader != tool).then_some(reader), field, first }
}

fn is_job_tool(tool: &RegisteredTool) -> bool {
    tool.source == BUILTIN && JOB_TOOLS.contains(&tool.tool.spec().name.as_str())
}
