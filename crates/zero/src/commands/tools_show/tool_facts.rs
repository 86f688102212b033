//! Facts about a tool, for `zero tools show` and for the reference page.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use zero_core::{CommandLimit, CommandLimits, HostLimits, RiskLevel, ToolKind};
use zero_runtime::dialect::DialectTool;
use zero_runtime::{Dialect, DialectName, ToolBound, ToolNotes, ToolRegistry};
use zero_sandbox::Workspace;
use zero_tools::examples::{self, ExampleRequirement, ToolExample};

use crate::AppContext;
use crate::commands::tools_list::formats;

/// Nesting depth of fields that are shown; schemas can be recursive.
const DEPTH_MAX: usize = 4;
/// Larger numbers in a schema are limits of the integer type, not of the tool.
const TYPE_RANGE_MIN: u64 = u32::MAX as u64;
/// Recorded outputs of the examples, by [`answer_key`]. `cargo xtask reference` writes them, and a test
/// fails if they are out of date.
const RECORDED_ANSWERS: &str = include_str!("recorded_answers.json");

/// A tool in a dialect, with its names in all dialects and its notes.
pub(super) struct ToolFacts<'a> {
    pub(super) tool: &'a DialectTool,
    pub(super) dialect: DialectName,
    /// Names of the tool, in the order of the dialects.
    pub(super) names: Vec<DialectVariant>,
    particulars: ToolNotes,
    /// Workspace of its example.
    pub(super) workspace: Option<Workspace>,
}

/// Name and fields of a tool in one dialect.
pub(super) struct DialectVariant {
    pub(super) dialect: DialectName,
    pub(super) name: String,
    /// Whether the tool is listed for models; an unlisted one can still be called.
    pub(super) is_listed: bool,
    /// Top-level fields: name, and whether it is required.
    pub(super) fields: Vec<(String, bool)>,
    /// Input of its example.
    pub(super) input: Option<&'static str>,
}

/// Example of a tool that can be pasted into a shell.
pub(super) struct RunnableExample {
    pub(super) input: &'static str,
    /// Commands that create its files.
    pub(super) before: Vec<String>,
    /// Other requirements, one sentence each.
    pub(super) needs: Vec<String>,
    /// Command line of the call.
    pub(super) command: String,
    /// Recorded output.
    pub(super) output: Option<String>,
}

impl<'a> ToolFacts<'a> {
    pub(super) fn new(
        app: &AppContext,
        registry: &ToolRegistry,
        dialect: DialectName,
        tool: &'a DialectTool,
    ) -> Self {
        let workspace = app.config.open_workspace(&[]).ok();
        let particulars = tool.registered.tool.notes();
        Self { tool, dialect, names: dialect_variants(registry, tool), particulars, workspace }
    }

    /// Effects in general terms; each call declares its exact effects before it runs.
    pub(super) fn describe_effects(&self) -> &'static str {
        self.particulars.effects
    }

    /// When zero asks before a call, derived from the risk of the tool.
    pub(super) fn describe_approval(&self) -> String {
        let usual = match self.tool.registered.tool.spec().risk {
            RiskLevel::Low => "allowed inside the workspace, zero asks outside",
            RiskLevel::Medium | RiskLevel::High => "zero asks first",
            RiskLevel::Critical => "zero asks every time",
        };
        match self.particulars.other_risks {
            Some(others) => format!("{usual}; {others}"),
            None => usual.to_owned(),
        }
    }

    pub(super) fn describe_repeatability(&self) -> &'static str {
        match self.tool.registered.tool.spec().idempotent {
            true => "yes, repeating a call has no further effect",
            false => "no",
        }
    }

    /// Time limit of a call.
    pub(super) fn describe_deadline(&self) -> String {
        let time = formats::deadline(self.tool, self.workspace.as_ref());
        let has_own =
            collect_fields(&self.tool.input_schema).iter().any(|field| field.name == "timeout");
        format!("{}{}", format_duration(time), if has_own { ", or its `timeout`" } else { "" })
    }

    /// Limits of this tool that cannot be changed.
    pub(super) fn bounds(&self) -> &[ToolBound] {
        &self.particulars.bounds
    }

    /// Limits that `--limit` and settings can change: name and default.
    pub(super) fn limits(&self) -> Vec<(String, String)> {
        let limits = HostLimits::default();
        let spec = self.tool.registered.tool.spec();
        let mut facts = vec![
            ("model-output".to_owned(), limits.model_output_bytes_max.to_string()),
            ("result".to_owned(), limits.result_bytes_max.to_string()),
        ];
        if matches!(spec.kind, ToolKind::Read | ToolKind::Edit | ToolKind::Delete) {
            facts.push(("file-size".to_owned(), limits.file_bytes_max.to_string()));
        }
        if HostLimits::COMMAND_TOOLS.contains(&spec.name.as_str()) {
            let limits = CommandLimit::ALL;
            facts.extend(
                limits.map(|limit| (limit.name().to_owned(), describe_command_limit(limit))),
            );
        }
        facts
    }

    /// Example call that can be run as shown. It does not pass `--yes`, so zero asks before changes.
    pub(super) fn example(&self) -> Option<RunnableExample> {
        let example = examples::find_example(self.tool.registered.tool.spec().name.as_str())?;
        let input = example.input_for(self.dialect, &self.tool.name)?;
        let mut command = format!("zero tools call {} '{input}'", self.tool.name);
        if self.dialect != DialectName::Canonical {
            command.push_str(&format!(" --dialect {}", self.dialect));
        }
        if example.files.contains(&examples::SETTINGS) {
            command.push_str(&format!(" --settings {}", examples::SETTINGS));
        }
        let before = example.files.iter().filter_map(|file| creation_command(file)).collect();
        let output = recorded_answer(self.dialect, &self.tool.name);
        Some(RunnableExample { input, before, needs: describe_needs(example), command, output })
    }
}

/// The default of a limit of commands, the same text on every machine: under the profile `fair`, and
/// under `strict` if that differs.
pub(super) fn describe_command_limit(limit: CommandLimit) -> String {
    let strict = limit.format_value(CommandLimits::default().get(limit));
    match limit {
        CommandLimit::Memory => format!("half of the memory ({strict} with profile `strict`)"),
        CommandLimit::Cpu => format!("all processors ({strict} with profile `strict`)"),
        CommandLimit::File => {
            format!(
                "the space that is free, at most `command-disk` ({strict} with profile `strict`)"
            )
        }
        CommandLimit::Processes
        | CommandLimit::OpenFiles
        | CommandLimit::Disk
        | CommandLimit::DiskRate => strict,
    }
}

/// Recorded output of the example under a name.
fn recorded_answer(dialect: DialectName, name: &str) -> Option<String> {
    let output: BTreeMap<String, String> = serde_json::from_str(RECORDED_ANSWERS).ok()?;
    output.get(&answer_key(dialect, name)).cloned()
}

/// Key of a recorded output.
pub(super) fn answer_key(dialect: DialectName, name: &str) -> String {
    format!("{dialect} {name}")
}

/// Requirements of an example other than its files.
fn describe_needs(example: &ToolExample) -> Vec<String> {
    match (example.needs, &example.earlier) {
        (None, _) => Vec::new(),
        (Some(ExampleRequirement::WebServer), _) => vec![format!(
            "needs a web server in this folder, such as `python3 -m http.server {} --bind 127.0.0.1`",
            examples::WEB_URL.rsplit(':').next().unwrap_or_default()
        )],
        (Some(ExampleRequirement::LanguageServer), _) => {
            vec![
                "needs clangd (see `zero doctor`) and a trusted folder (see `zero trust`)"
                    .to_owned(),
            ]
        }
        (Some(ExampleRequirement::User), _) => {
            vec!["needs a terminal, to ask the user".to_owned()]
        }
        (Some(ExampleRequirement::Session), Some(earlier)) => vec![
            format!("needs a session, after Bash {}", earlier.input),
            "a single call has no jobs".to_owned(),
        ],
        (Some(ExampleRequirement::Session), None) => vec!["needs a session".to_owned()],
    }
}

/// Shell command that creates a file of the examples.
pub(super) fn creation_command(file: &str) -> Option<String> {
    let (name, text) = examples::FILES.iter().find(|(name, _)| *name == file)?;
    let lines: Vec<String> = text.lines().map(|line| format!("'{line}'")).collect();
    let folder = name.rsplit_once('/').map(|(folder, _)| format!("mkdir -p {folder} && "));
    let folder = folder.unwrap_or_default();
    Some(format!("{folder}printf '%s\\n' {} > {name}", lines.join(" ")))
}

fn dialect_variants(registry: &ToolRegistry, tool: &DialectTool) -> Vec<DialectVariant> {
    let canonical = &tool.registered.tool.spec().name;
    let example = examples::find_example(canonical.as_str());
    let mut names = Vec::new();
    for name in DialectName::ALL {
        let dialect = Dialect::new(name);
        let offered = dialect.list_tools(registry);
        let its = offered.iter().filter(|other| other.registered.tool.spec().name == *canonical);
        let before = names.len();
        names.extend(its.map(|other| DialectVariant {
            dialect: name,
            name: other.name.clone(),
            is_listed: true,
            fields: top_level_fields(&other.input_schema),
            input: example.and_then(|example| example.input_for(name, &other.name)),
        }));
        // Some tools are not listed in a dialect but can be called.
        if names.len() == before && dialect.resolve(registry, canonical.as_str()).is_some() {
            names.push(DialectVariant {
                dialect: name,
                name: canonical.to_string(),
                is_listed: false,
                fields: top_level_fields(&tool.registered.tool.spec().input_schema),
                input: example.and_then(|example| example.canonical_input()),
            });
        }
    }
    names
}

fn top_level_fields(schema: &Value) -> Vec<(String, bool)> {
    let top = collect_fields(schema).into_iter().filter(|field| field.depth == 0);
    top.map(|field| (field.name, field.required)).collect()
}

/// `90 s`, `24 h`.
fn format_duration(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 3_600 && seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
        seconds => format!("{seconds} s"),
    }
}

/// A field of an input or a result schema.
#[derive(Debug)]
pub(super) struct ToolSchemaField {
    pub(super) name: String,
    /// Nesting depth; 0 for top-level fields.
    pub(super) depth: usize,
    pub(super) type_name: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// Fields of an object schema; nested fields follow their parent.
pub(super) fn collect_fields(schema: &Value) -> Vec<ToolSchemaField> {
    let mut found = Vec::new();
    add_fields(&mut found, schema, 0);
    found
}

fn add_fields(found: &mut Vec<ToolSchemaField>, schema: &Value, depth: usize) {
    for (name, field) in properties(schema).into_iter().flatten() {
        let description = field.get("description").and_then(Value::as_str).unwrap_or_default();
        found.push(ToolSchemaField {
            name: name.clone(),
            depth,
            type_name: [Some(describe_type(field)), describe_range(field)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
            required: is_required(schema, name),
            description: description.split_whitespace().collect::<Vec<_>>().join(" "),
        });
        if depth < DEPTH_MAX {
            add_fields(found, field.get("items").unwrap_or(field), depth + 1);
        }
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|n| n == name))
}

/// Type of a field, such as `integer`, `string[]` or `a | b`.
fn describe_type(field: &Value) -> String {
    if let Some(choices) = enum_choices(field) {
        return choices.join(" | ");
    }
    match field.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!("{}[]", field.get("items").map_or_else(|| "any".to_owned(), describe_type))
        }
        Some(Value::String(name)) => name.to_owned(),
        // Optional fields may also be null.
        Some(Value::Array(types)) => {
            let named = types.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            named.collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

/// Range of a field, such as `1 to 100` or `at most 100 items`.
fn describe_range(field: &Value) -> Option<String> {
    [
        ("minimum", "maximum", ""),
        ("minItems", "maxItems", " items"),
        ("minLength", "maxLength", " characters"),
    ]
    .into_iter()
    .find_map(|(least, most, what)| {
        // A minimum of 0 adds nothing, and limits of the integer type are not limits of the tool.
        let number = |name| field.get(name).and_then(Value::as_u64);
        let least = number(least).filter(|least| *least > 0);
        match (least, number(most).filter(|most| *most < TYPE_RANGE_MIN)) {
            (None, None) => None,
            (Some(1), None) if !what.is_empty() => Some("not empty".to_owned()),
            (Some(least), None) => Some(format!("at least {least}{what}")),
            (None, Some(most)) => Some(format!("at most {most}{what}")),
            (Some(least), Some(most)) => Some(format!("{least} to {most}{what}")),
        }
    })
}

/// Possible values of a string field, if they are listed.
fn enum_choices(field: &Value) -> Option<Vec<&str>> {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::as_str).collect();
    }
    let variants = field.get("oneOf").or_else(|| field.get("anyOf"))?.as_array()?;
    variants.iter().map(|variant| variant.get("const").and_then(Value::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_described_briefly() {
        for (field, expected) in [
            (json!({"type": "integer"}), "integer"),
            (json!({"type": ["integer", "null"]}), "integer"),
            (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
            (json!({"type": "string", "enum": ["a", "b"]}), "a | b"),
            (json!({"oneOf": [{"const": "a", "description": "x"}, {"const": "b"}]}), "a | b"),
            (json!({}), "any"),
        ] {
            assert_eq!(describe_type(&field), expected);
        }
    }

    #[test]
    fn schema_bounds_are_described() {
        for (field, expected) in [
            (json!({"type": "integer", "minimum": 1}), Some("at least 1")),
            (json!({"type": "integer", "minimum": 0, "maximum": 1000}), Some("at most 1000")),
            (json!({"type": "array", "minItems": 1, "maxItems": 4}), Some("1 to 4 items")),
            (json!({"type": "string", "maxLength": 12}), Some("at most 12 characters")),
            (json!({"type": "integer", "minimum": 0}), None),
            (json!({"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64}), None),
            (json!({"type": "string", "minLength": 1}), Some("not empty")),
            (json!({"type": "string"}), None),
        ] {
            assert_eq!(describe_range(&field).as_deref(), expected);
        }
    }

    #[test]
    fn durations_use_largest_unit() {
        for (seconds, expected) in [(30, "30 s"), (120, "120 s"), (3_600, "1 h"), (86_400, "24 h")]
        {
            assert_eq!(format_duration(Duration::from_secs(seconds)), expected);
        }
    }
}
