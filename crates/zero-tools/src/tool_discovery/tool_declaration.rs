//! Parses and validates what a list command prints ([`parse_declarations`]). An invalid declaration
//! rejects only that tool.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zero_core::ToolName;
use zero_core::text_shortening::{excerpt, head};
use zero_runtime::json_reader;
use zero_runtime::schema::{DEPTH_MAX, InputSchema, depth_exceeds};

use super::{PREFIX, gemini_schema};

/// Most bytes of output that are read.
pub(super) const OUTPUT_BYTES_MAX: usize = 1_000_000;
/// Most tools that are accepted.
const TOOLS_MAX: usize = 500;
/// Most rejected declarations that are reported one by one.
const REJECTED_MAX: usize = 100;
/// Longest original name of a tool, in bytes: it becomes an argument of a command.
const NAME_BYTES_MAX: usize = 256;
/// Longest description, in bytes, since every request to a model includes it.
const DESCRIPTION_BYTES_MAX: usize = 16_000;
/// Time limit for checking all schemas together. Ordinary schemas take milliseconds.
const CHECK_TIME_MAX: Duration = Duration::from_secs(10);
/// Nesting of a schema within the output: the list, a wrapper with its own list, the declaration,
/// and OpenAI's `function`.
const SCHEMA_NESTING: usize = 5;

/// Fields that may contain the input schema, the plainest JSON Schema first.
const SCHEMA_FIELDS: [&str; 4] =
    ["parametersJsonSchema", "inputSchema", "input_schema", "parameters"];
/// Fields in which Gemini wraps declarations.
const WRAPPERS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// A validated tool declaration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandToolDeclaration {
    /// Name of the tool in zero.
    pub name: ToolName,
    /// Name of the tool in the command.
    pub original: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema 2020-12 of the input, which is an object.
    pub input_schema: Value,
}

/// A declaration that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedDeclaration {
    /// Its name, or its position in the list.
    pub name: String,
    /// Why it was rejected.
    pub reason: String,
}

/// Why the output of a command is not a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolListError {
    /// The output is too long.
    #[error("it printed more than {OUTPUT_BYTES_MAX} bytes")]
    TooLong,
    /// The output is not JSON.
    #[error("its output is not JSON: {0}")]
    NotJson(String),
    /// The output is JSON, but not a list.
    #[error("it printed {0} instead of an array of function declarations")]
    NotAList(&'static str),
}

/// Parses the output of a command: a JSON array of function declarations.
///
/// An item is `{name, description, parameters}`, where the schema may also be called
/// `parametersJsonSchema`, `inputSchema` or `input_schema`; or `{functionDeclarations: […]}`; or
/// `{type: "function", function: {…}}`. An invalid item rejects only itself.
pub fn parse_declarations(
    stdout: &[u8],
) -> Result<(Vec<CommandToolDeclaration>, Vec<RejectedDeclaration>), ToolListError> {
    if stdout.len() > OUTPUT_BYTES_MAX {
        return Err(ToolListError::TooLong);
    }
    let text = stdout.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stdout);
    let list = json_reader::parse_depth_limited(text, SCHEMA_NESTING + DEPTH_MAX)
        .map_err(|error| ToolListError::NotJson(error.to_string()))?;
    let items = match list {
        Value::Array(items) => items,
        Value::Object(fields) if wrapper_key(&fields).is_some() => vec![Value::Object(fields)],
        other => return Err(ToolListError::NotAList(json_type_name(&other))),
    };
    let mut read = DeclarationReader::new();
    for (at, item) in items.into_iter().enumerate() {
        let place = format!("item {}", at + 1);
        match item {
            Value::Object(mut fields) => match wrapper_key(&fields) {
                Some(key) => read.read_wrapper(&place, key, fields.shift_remove(key)),
                None => read.read_item(&place, Value::Object(fields)),
            },
            other => read.read_item(&place, other),
        }
    }
    Ok(read.finish())
}

/// Returns the key under which an item contains further declarations.
fn wrapper_key(fields: &Map<String, Value>) -> Option<&'static str> {
    WRAPPERS.into_iter().find(|key| fields.contains_key(*key))
}

/// The declarations read so far.
struct DeclarationReader {
    started: Instant,
    declared: Vec<CommandToolDeclaration>,
    names: BTreeSet<ToolName>,
    quarantined: Vec<RejectedDeclaration>,
    /// Number of rejected declarations that are not listed.
    unlisted: usize,
}

impl DeclarationReader {
    fn new() -> Self {
        let (declared, names) = (Vec::new(), BTreeSet::new());
        Self { started: Instant::now(), declared, names, quarantined: Vec::new(), unlisted: 0 }
    }

    fn read_wrapper(&mut self, place: &str, key: &str, declarations: Option<Value>) {
        match declarations {
            Some(Value::Array(items)) => {
                for (at, item) in items.into_iter().enumerate() {
                    self.read_item(&format!("{place}, declaration {}", at + 1), item);
                }
            }
            other => {
                let reason = format!("`{key}` is {}, not a list", json_type_name(&other.into()));
                self.reject(place.to_owned(), reason);
            }
        }
    }

    fn read_item(&mut self, place: &str, item: Value) {
        let declaration = match item {
            Value::Object(fields) => unwrap_function(fields),
            other => {
                let reason =
                    format!("it is {}, not a function declaration", json_type_name(&other));
                return self.reject(place.to_owned(), reason);
            }
        };
        let shown = display_name(&declaration).unwrap_or_else(|| place.to_owned());
        match self.check_declaration(declaration) {
            Ok(declared) => {
                self.names.insert(declared.name.clone());
                self.declared.push(declared);
            }
            Err(reason) => self.reject(shown, reason),
        }
    }

    fn check_declaration(
        &self,
        mut declaration: Map<String, Value>,
    ) -> Result<CommandToolDeclaration, String> {
        if self.declared.len() >= TOOLS_MAX {
            return Err(format!("there are {TOOLS_MAX} tools already, which is the limit"));
        }
        if self.started.elapsed() > CHECK_TIME_MAX {
            return Err("the schemas before it took too long to check".to_owned());
        }
        let original = original_name(&declaration)?;
        let name =
            ToolName::from_namespaced(PREFIX, &original).map_err(|error| error.to_string())?;
        if self.names.contains(&name) {
            return Err(format!("an earlier declaration already maps to `{name}`"));
        }
        let description = match declaration.shift_remove("description") {
            Some(Value::String(text)) => shorten_description(text),
            None | Some(Value::Null) => String::new(),
            Some(other) => return Err(format!("its description is {}", json_type_name(&other))),
        };
        let schema = SCHEMA_FIELDS
            .iter()
            .find_map(|field| declaration.shift_remove(*field).filter(|schema| !schema.is_null()));
        let input_schema = check_schema(schema)?;
        Ok(CommandToolDeclaration { name, original, description, input_schema })
    }

    fn reject(&mut self, name: String, reason: String) {
        if self.quarantined.len() < REJECTED_MAX {
            self.quarantined.push(RejectedDeclaration { name, reason });
        } else {
            self.unlisted += 1;
        }
    }

    fn finish(mut self) -> (Vec<CommandToolDeclaration>, Vec<RejectedDeclaration>) {
        if self.unlisted > 0 {
            let reason = "there are too many to list each".to_owned();
            let name = format!("{} more", self.unlisted);
            self.quarantined.push(RejectedDeclaration { name, reason });
        }
        (self.declared, self.quarantined)
    }
}

/// Returns the declaration that OpenAI puts under `function`.
fn unwrap_function(mut fields: Map<String, Value>) -> Map<String, Value> {
    match fields.shift_remove("function") {
        Some(Value::Object(function)) if !fields.contains_key("name") => function,
        _ => fields,
    }
}

/// Returns an unchecked name in a form that can be shown.
fn display_name(declaration: &Map<String, Value>) -> Option<String> {
    let name = declaration.get("name")?.as_str().filter(|name| !name.is_empty())?;
    Some(excerpt(name, NAME_BYTES_MAX))
}

/// Returns the command's name for a tool, which becomes the last argument of another command.
fn original_name(declaration: &Map<String, Value>) -> Result<String, String> {
    let name = match declaration.get("name") {
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("its name is {}", json_type_name(other))),
        None => return Err("it has no `name`".to_owned()),
    };
    if name.trim().is_empty() {
        return Err("its name is empty".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("its name is longer than {NAME_BYTES_MAX} bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err("its name contains control characters".to_owned());
    }
    if name.starts_with('-') {
        return Err("its name begins with `-` and would be taken for an option".to_owned());
    }
    Ok(name.clone())
}

/// Converts the schema of an input to JSON Schema 2020-12 and validates it. No schema means no
/// arguments.
fn check_schema(schema: Option<Value>) -> Result<Value, String> {
    let mut schema = match schema {
        None => return Ok(json!({"type": "object", "additionalProperties": false})),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => {
            return Err(format!("its schema is {}, not an object", json_type_name(&other)));
        }
    };
    if depth_exceeds(&schema, DEPTH_MAX) {
        return Err(format!("its schema nests deeper than {DEPTH_MAX} levels"));
    }
    gemini_schema::normalize_schema(&mut schema);
    if let Value::Object(fields) = &mut schema {
        // The schema is one of 2020-12 now, whatever it declared.
        fields.shift_remove("$schema");
        match fields.get("type") {
            Some(Value::String(name)) if name == "object" => {}
            None => {
                fields.insert("type".to_owned(), "object".into());
            }
            Some(other) => {
                return Err(format!("its input is of type {other}, but must be an object"));
            }
        }
    }
    let checker = InputSchema::new(schema.clone());
    checker.check_schema().map_err(|error| format!("its schema is invalid: {error}"))?;
    Ok(schema)
}

fn shorten_description(mut text: String) -> String {
    if text.len() > DESCRIPTION_BYTES_MAX {
        text.truncate(head(&text, DESCRIPTION_BYTES_MAX).len());
        text.push('…');
    }
    text
}

/// Describes the type of a value.
fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
