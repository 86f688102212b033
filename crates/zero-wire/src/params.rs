//! Parameters of a method: checked against the schema of their type, then read.
//!
//! Reading alone would refuse the same requests, but would say neither where something is wrong
//! nor that a text is too long, and would quote what was sent, which may be a token. The checker
//! knows only the words of JSON Schema that zero's own types give rise to; a test holds it to that.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::error::ErrorShape;
use crate::method::Method;

/// Most problems that are told at once.
const PROBLEMS_MAX: usize = 8;
/// Most characters of a foreign name in an answer.
const NAME_LEN_MAX: usize = 64;

/// The parameters of a method, or what is wrong with them. Absent ones are an empty object.
pub fn params<M: Method>(written: Option<Value>) -> Result<M::Params, ErrorShape> {
    let written = match written {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(written) => written,
    };
    let refuse = |what: &str| ErrorShape::invalid(format!("invalid {} params: {what}", M::NAME));
    M::checker().check(&written).map_err(|what| refuse(&what))?;
    // What the checker lets through can be read. Should it ever not be so, the reader's own words
    // are kept back: they quote what was sent.
    serde_json::from_value(written).map_err(|_| refuse("must be as the schema says"))
}

/// Checks values against the schema of a type.
#[derive(Debug)]
pub struct Checker {
    schema: Value,
}

impl Checker {
    /// The checker of a type.
    pub fn of<T: JsonSchema>() -> Self {
        let inline =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        Self { schema: inline.into_generator().into_root_schema_for::<T>().to_value() }
    }

    /// What is wrong with a value, in the family's words: `must have required property 'message'`,
    /// `at root: unexpected property 'zzz'`, `at /client/id: must be string`.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let mut problems = Problems::default();
        walk(&self.schema, value, "", &mut problems);
        if problems.0.is_empty() { Ok(()) } else { Err(problems.0.join("; ")) }
    }

    #[cfg(test)]
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    fn add(&mut self, place: &str, what: &str) {
        if self.is_full() {
            return;
        }
        self.0.push(if place.is_empty() { what.to_owned() } else { format!("at {place}: {what}") });
    }

    fn add_unexpected(&mut self, place: &str, name: &str) {
        if self.is_full() {
            return;
        }
        let place = if place.is_empty() { "root" } else { place };
        self.0.push(format!("at {place}: unexpected property '{}'", shown(name)));
    }
}

/// A foreign name, short and without control characters.
fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(NAME_LEN_MAX).flat_map(char::escape_debug).collect();
    if name.chars().nth(NAME_LEN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Adds what is wrong with `value`. It goes no deeper than the schema, whose depth is fixed.
fn walk(schema: &Value, value: &Value, place: &str, problems: &mut Problems) {
    // `true` is the schema of a value that may be anything.
    let Some(schema) = schema.as_object() else { return };
    if let Some(alternatives) =
        schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
    {
        check_alternatives(alternatives, value, place, problems);
    }
    if !check_type(schema, value, place, problems) {
        return;
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        problems.add(place, "must be equal to constant");
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        problems.add(place, "must be equal to one of the allowed values");
    }
    match value {
        Value::String(text) => check_text(schema, text, place, problems),
        Value::Number(_) => check_number(schema, value, place, problems),
        Value::Array(items) => check_items(schema, items, place, problems),
        Value::Object(fields) => check_fields(schema, fields, place, problems),
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_alternatives(alternatives: &[Value], value: &Value, place: &str, problems: &mut Problems) {
    let fits = |schema: &Value| {
        let mut own = Problems::default();
        walk(schema, value, place, &mut own);
        own.0.is_empty()
    };
    if alternatives.iter().any(fits) {
        return;
    }
    let is_null = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "null");
    let real: Vec<&Value> = alternatives.iter().filter(|schema| !is_null(schema)).collect();
    match real.as_slice() {
        // Something that may be left out: what is wrong with it is what matters.
        [only] => walk(only, value, place, problems),
        many if many.iter().all(|schema| is_text(schema)) => {
            let what = if value.is_string() {
                "must be equal to one of the allowed values"
            } else {
                "must be string"
            };
            problems.add(place, what);
        }
        _ => problems.add(place, "must match exactly one schema in oneOf"),
    }
}

/// Whether only texts fit a schema.
fn is_text(schema: &Value) -> bool {
    schema.get("const").is_some_and(Value::is_string)
        || schema.get("type").is_some_and(|kind| kind == "string")
}

/// Whether the type is right.
fn check_type(
    schema: &Map<String, Value>,
    value: &Value,
    place: &str,
    problems: &mut Problems,
) -> bool {
    let allowed: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return true,
    };
    let fits = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if allowed.iter().any(fits) {
        return true;
    }
    // That something may also be null is not what anybody has to be told.
    let wanted: Vec<&str> = allowed.into_iter().filter(|name| *name != "null").collect();
    problems.add(place, &format!("must be {}", wanted.join(",")));
    false
}

fn check_text(schema: &Map<String, Value>, text: &str, place: &str, problems: &mut Problems) {
    let bound = |word| schema.get(word).and_then(Value::as_u64);
    let (least, most) = (bound("minLength"), bound("maxLength"));
    if least.is_none() && most.is_none() {
        return;
    }
    let length = text.chars().count() as u64;
    if let Some(least) = least.filter(|least| length < *least) {
        problems.add(place, &format!("must NOT have fewer than {least} characters"));
    }
    if let Some(most) = most.filter(|most| length > *most) {
        problems.add(place, &format!("must NOT have more than {most} characters"));
    }
}

fn check_number(schema: &Map<String, Value>, value: &Value, place: &str, problems: &mut Problems) {
    // Wide enough for every whole number that JSON is read into.
    let whole =
        |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let by_format = match schema.get("format").and_then(Value::as_str) {
        Some("uint16") => Some((0, i128::from(u16::MAX))),
        Some("uint32") => Some((0, i128::from(u32::MAX))),
        Some("uint64") => Some((0, i128::from(u64::MAX))),
        Some("int64") => Some((i128::from(i64::MIN), i128::from(i64::MAX))),
        _ => None,
    };
    let least = schema.get("minimum").and_then(whole).or(by_format.map(|(least, _)| least));
    let most = schema.get("maximum").and_then(whole).or(by_format.map(|(_, most)| most));
    let Some(number) = whole(value) else { return };
    if let Some(least) = least.filter(|least| number < *least) {
        problems.add(place, &format!("must be >= {least}"));
    }
    if let Some(most) = most.filter(|most| number > *most) {
        problems.add(place, &format!("must be <= {most}"));
    }
}

fn check_items(schema: &Map<String, Value>, items: &[Value], place: &str, problems: &mut Problems) {
    let bound = |word| schema.get(word).and_then(Value::as_u64);
    if let Some(least) = bound("minItems").filter(|least| (items.len() as u64) < *least) {
        problems.add(place, &format!("must NOT have fewer than {least} items"));
    }
    if let Some(most) = bound("maxItems").filter(|most| (items.len() as u64) > *most) {
        problems.add(place, &format!("must NOT have more than {most} items"));
    }
    let Some(item_schema) = schema.get("items") else { return };
    for (index, item) in items.iter().enumerate() {
        if problems.is_full() {
            return;
        }
        walk(item_schema, item, &format!("{place}/{index}"), problems);
    }
}

fn check_fields(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    place: &str,
    problems: &mut Problems,
) {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            problems.add(place, &format!("must have required property '{name}'"));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (name, field) in fields {
        if problems.is_full() {
            return;
        }
        match (known.and_then(|known| known.get(name)), others) {
            (Some(_), _) | (None, None) => {}
            (None, Some(Value::Bool(false))) => problems.add_unexpected(place, name),
            (None, Some(schema)) => walk(schema, field, &step(place, name), problems),
        }
    }
    for (name, schema) in known.into_iter().flatten() {
        if let Some(field) = fields.get(name) {
            walk(schema, field, &step(place, name), problems);
        }
    }
}

/// The place of a field, as a JSON pointer.
fn step(place: &str, name: &str) -> String {
    format!("{place}/{}", shown(&name.replace('~', "~0").replace('/', "~1")))
}

#[cfg(test)]
mod tests;
