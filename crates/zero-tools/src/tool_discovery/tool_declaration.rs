//! What a command declares, read with care: one mistake costs one tool.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zero_core::ToolName;
use zero_runtime::schema::{DEPTH_MAX, InputSchema};

use super::{PREFIX, depth_limited_json, gemini_schema};

/// Bytes of output that are read.
pub(super) const OUTPUT_BYTES_MAX: usize = 1_000_000;
/// Tools that are taken.
const TOOLS_MAX: usize = 500;
/// Declarations that are told of one by one when they are set aside.
const REJECTED_MAX: usize = 100;
/// Bytes of a tool's own name: it becomes a word of a command.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a description; models pay for each.
const DESCRIPTION_BYTES_MAX: usize = 16_000;
/// How long all schemas together are checked. Those of honest tools take milliseconds.
const CHECK_TIME_MAX: Duration = Duration::from_secs(10);
/// Arrays and objects around the schema of a declaration: the list, a wrapper with its own list,
/// the declaration, and OpenAI's `function`.
const SCHEMA_NESTING: usize = 5;

/// Where declarations keep the schema of their input, the plainest JSON Schema first.
const SCHEMA_FIELDS: [&str; 4] =
    ["parametersJsonSchema", "inputSchema", "input_schema", "parameters"];
/// What Gemini wraps declarations in.
const WRAPPERS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// A tool as a command declares it, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandToolDeclaration {
    /// What it is called here.
    pub name: ToolName,
    /// What the command calls it.
    pub original: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema 2020-12 of its input, which is an object.
    pub input_schema: Value,
}

/// Something declared that is no tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedDeclaration {
    /// What it is called, or where it stands.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Why what a command printed is no list of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolListError {
    /// It is too long.
    #[error("it printed more than {OUTPUT_BYTES_MAX} bytes")]
    TooLong,
    /// It is no JSON.
    #[error("what it printed is no JSON: {0}")]
    NotJson(String),
    /// It is JSON of something else.
    #[error("it printed {0} instead of an array of function declarations")]
    NotAList(&'static str),
}

/// Reads what a command printed: a JSON array of function declarations.
///
/// An item is `{name, description, parameters}`, where the schema may also be called
/// `parametersJsonSchema`, `inputSchema` or `input_schema`; or `{functionDeclarations: […]}`; or
/// `{type: "function", function: {…}}`. What is wrong with one of them costs that one only.
pub fn parse_declarations(
    stdout: &[u8],
) -> Result<(Vec<CommandToolDeclaration>, Vec<RejectedDeclaration>), ToolListError> {
    if stdout.len() > OUTPUT_BYTES_MAX {
        return Err(ToolListError::TooLong);
    }
    let text = stdout.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stdout);
    let list = depth_limited_json::read_json(text, SCHEMA_NESTING + DEPTH_MAX)
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

/// The key under which an item holds further declarations.
fn wrapper_key(fields: &Map<String, Value>) -> Option<&'static str> {
    WRAPPERS.into_iter().find(|key| fields.contains_key(*key))
}

/// What was read so far.
struct DeclarationReader {
    started: Instant,
    declared: Vec<CommandToolDeclaration>,
    names: BTreeSet<ToolName>,
    quarantined: Vec<RejectedDeclaration>,
    /// Set aside beyond those that are told of.
    untold: usize,
}

impl DeclarationReader {
    fn new() -> Self {
        let (declared, names) = (Vec::new(), BTreeSet::new());
        Self { started: Instant::now(), declared, names, quarantined: Vec::new(), untold: 0 }
    }

    fn read_wrapper(&mut self, place: &str, key: &str, declarations: Option<Value>) {
        match declarations {
            Some(Value::Array(items)) => {
                for (at, item) in items.into_iter().enumerate() {
                    self.read_item(&format!("{place}, declaration {}", at + 1), item);
                }
            }
            other => {
                let reason =
                    format!("`{key}` is {}, and not a list", json_type_name(&other.into()));
                self.reject(place.to_owned(), reason);
            }
        }
    }

    fn read_item(&mut self, place: &str, item: Value) {
        let declaration = match item {
            Value::Object(fields) => unwrap_function(fields),
            other => {
                let reason =
                    format!("it is {}, and not a function declaration", json_type_name(&other));
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
            return Err(format!("there are {TOOLS_MAX} tools already, and no more are taken"));
        }
        if self.started.elapsed() > CHECK_TIME_MAX {
            return Err("the schemas before it took too long to check".to_owned());
        }
        let original = original_name(&declaration)?;
        let name =
            ToolName::from_namespaced(PREFIX, &original).map_err(|error| error.to_string())?;
        if self.names.contains(&name) {
            return Err(format!("another tool that comes to `{name}` was declared before it"));
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
            self.untold += 1;
        }
    }

    fn finish(mut self) -> (Vec<CommandToolDeclaration>, Vec<RejectedDeclaration>) {
        if self.untold > 0 {
            let reason = "there are too many to tell of each".to_owned();
            let name = format!("{} more", self.untold);
            self.quarantined.push(RejectedDeclaration { name, reason });
        }
        (self.declared, self.quarantined)
    }
}

/// OpenAI keeps the declaration under `function`.
fn unwrap_function(mut fields: Map<String, Value>) -> Map<String, Value> {
    match fields.shift_remove("function") {
        Some(Value::Object(function)) if !fields.contains_key("name") => function,
        _ => fields,
    }
}

/// What a person may see of a name that is not checked yet.
fn display_name(declaration: &Map<String, Value>) -> Option<String> {
    let name = declaration.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let short = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
    Some(short.escape_debug().to_string())
}

/// The command's own name for a tool, which is going to be the last word of another command.
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
        return Err("its name holds control characters".to_owned());
    }
    if name.starts_with('-') {
        return Err("its name begins with `-`, and would be taken for an option".to_owned());
    }
    Ok(name.clone())
}

/// The schema of an input, brought to JSON Schema 2020-12 and found to mean something. No schema
/// means no arguments.
fn check_schema(schema: Option<Value>) -> Result<Value, String> {
    let mut schema = match schema {
        None => return Ok(json!({"type": "object", "additionalProperties": false})),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => {
            return Err(format!("its schema is {}, and not an object", json_type_name(&other)));
        }
    };
    if depth_limited_json::is_deeper(&schema, DEPTH_MAX) {
        return Err(format!("its schema nests deeper than {DEPTH_MAX} levels"));
    }
    gemini_schema::normalize_schema(&mut schema);
    if let Value::Object(fields) = &mut schema {
        // It is one of 2020-12 now, whatever it was.
        fields.shift_remove("$schema");
        match fields.get("type") {
            Some(Value::String(name)) if name == "object" => {}
            None => {
                fields.insert("type".to_owned(), "object".into());
            }
            Some(other) => {
                return Err(format!("its input is of type {other}, and must be an object"));
            }
        }
    }
    let checker = InputSchema::new(schema.clone());
    checker.check_schema().map_err(|error| format!("its schema is broken: {error}"))?;
    Ok(schema)
}

fn shorten_description(mut text: String) -> String {
    if text.len() > DESCRIPTION_BYTES_MAX {
        text.truncate(text.floor_char_boundary(DESCRIPTION_BYTES_MAX));
        text.push('…');
    }
    text
}

/// What a value is, in words.
fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
