//! Input schemas: derived from types, trimmed for models, validated with all violations at once.

pub mod foreign_schema;
mod pattern_cost;
mod text_format;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use zero_core::SchemaViolation;
use zero_core::schema_violation::join_pointer;
use zero_core::text_shortening::shorten_end;

pub use self::text_format::{TextFormat, check_formats};
use crate::name_suggestions::{find_synonym, suggest_names};

/// Most violations reported for one input.
const VIOLATIONS_MAX: usize = 20;
/// Longest quotation of a wrong value, in characters.
const QUOTE_CHARS_MAX: usize = 60;
/// Deepest nesting of an input.
pub const DEPTH_MAX: usize = 64;
/// Largest integer that every JSON parser represents exactly: 2^53 - 1.
pub(crate) const WHOLE_MAX: u64 = 9_007_199_254_740_991;

/// The JSON Schema 2020-12 for deserializing a type, as small as possible: models pay for every
/// word of it.
pub fn derive_input_schema<T: JsonSchema + 'static>() -> Value {
    cached_schema::<T>(NullHandling::Dropped)
}

/// The schema for serializing a type: a field that is omitted when empty is not required.
pub fn derive_output_schema<T: JsonSchema + 'static>() -> Value {
    cached_schema::<T>(NullHandling::DroppedWhenAbsent)
}

/// What happens to the `null` that an optional field may be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NullHandling {
    /// Removed: omitting the field means the same.
    Dropped,
    /// Removed if the field is omitted instead, kept otherwise.
    DroppedWhenAbsent,
}

/// Cached per type: generating a schema takes longer than copying it, and every host needs one.
fn cached_schema<T: JsonSchema + 'static>(nulls: NullHandling) -> Value {
    static CACHE: Mutex<BTreeMap<(TypeId, NullHandling), Value>> = Mutex::new(BTreeMap::new());
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let name = (TypeId::of::<T>(), nulls);
    if let Some(schema) = lock().get(&name) {
        return schema.clone();
    }
    // Without the lock, so that other schemas can be generated meanwhile.
    let schema = generate_schema::<T>(nulls);
    lock().insert(name, schema.clone());
    schema
}

fn generate_schema<T: JsonSchema>(nulls: NullHandling) -> Value {
    let mut settings = match nulls {
        NullHandling::Dropped => SchemaSettings::draft2020_12(),
        NullHandling::DroppedWhenAbsent => SchemaSettings::draft2020_12().for_serialize(),
    };
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    trim(&mut schema, nulls);
    schema
}

/// Removes and returns the description of a schema: it belongs to the tool, not to the input
/// object.
pub fn take_description(schema: &mut Value) -> String {
    let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
    description.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Removes what only a Rust reader needs.
fn trim(schema: &mut Value, nulls: NullHandling) {
    match schema {
        Value::Object(object) => {
            // A field with that name is not a string, and stays.
            if object.get("title").is_some_and(Value::is_string) {
                object.shift_remove("title");
            }
            trim_format(object);
            if object.get("default").is_some_and(Value::is_null) {
                object.shift_remove("default");
            }
            match nulls {
                NullHandling::Dropped => drop_null(object),
                NullHandling::DroppedWhenAbsent => drop_null_of_absent(object),
            }
            list_constants(object);
            object.values_mut().for_each(|value| trim(value, nulls));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| trim(item, nulls)),
        _ => {}
    }
}

/// An optional field is generated as `type: [X, null]`; it becomes X.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    unwrap_nullable(object);
}

fn drop_null_of_absent(object: &mut Map<String, Value>) {
    let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    for (name, property) in properties {
        if !required.iter().any(|required| required == name.as_str())
            && let Value::Object(property) = property
        {
            drop_null(property);
        }
    }
}

/// Converts a number format to bounds that a validator checks: a number that the type cannot hold
/// is a violation at its location instead of a later failure.
fn trim_format(object: &mut Map<String, Value>) {
    let Some(format) = object.get("format").and_then(Value::as_str) else { return };
    let most = match format {
        "uint8" => Some(u8::MAX.into()),
        "uint16" => Some(u16::MAX.into()),
        "uint32" => Some(u32::MAX.into()),
        other => other.starts_with("uint").then_some(WHOLE_MAX),
    };
    if most.is_some() || format.starts_with("int") || format == "double" {
        object.shift_remove("format");
    }
    if let Some(most) = most {
        object.entry("maximum").or_insert_with(|| most.into());
    }
}

/// An optional enum is generated as `anyOf: [X, null]`; it becomes X.
fn unwrap_nullable(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    if choices.len() == 1
        && let Some(Value::Object(only)) = choices.pop()
    {
        object.shift_remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

/// An enum with documented variants is generated as `oneOf` of constants; models know `enum`.
fn list_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else { return };
    let constants: Option<Vec<Value>> =
        choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(constants) = constants.filter(|constants| constants.iter().all(Value::is_string)) {
        object.shift_remove("oneOf");
        object.insert("type".to_owned(), "string".into());
        object.insert("enum".to_owned(), constants.into());
    }
}

/// A schema with its validator, which is built on first use.
#[derive(Debug)]
pub struct InputSchema {
    schema: Value,
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

impl InputSchema {
    /// Wraps a schema.
    pub fn new(schema: Value) -> Self {
        Self { schema, validator: OnceLock::new() }
    }

    /// The schema itself.
    pub fn as_value(&self) -> &Value {
        &self.schema
    }

    /// Validates the schema itself: fails if it is invalid, refers to another document, or is too
    /// expensive to check. Never fetches anything.
    pub fn check_schema(&self) -> Result<(), String> {
        pattern_cost::check_patterns(&self.schema)?;
        self.validator().as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn validator(&self) -> &Result<jsonschema::Validator, String> {
        self.validator.get_or_init(|| {
            jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&self.schema)
                .map_err(|error| match error.instance_path().as_str() {
                    "" => error.to_string(),
                    place => format!("{place}: {error}"),
                })
        })
    }

    /// Validates `input` and normalizes it: optional fields that are null are removed, integers
    /// written as `3.0` become `3`.
    pub fn check(&self, mut input: Value) -> Result<Value, Vec<SchemaViolation>> {
        check_depth(&input)?;
        normalise(&mut input, &self.schema);
        self.check_exactly(&input).map(|()| input)
    }

    /// Validates a value as it is.
    pub fn check_exactly(&self, input: &Value) -> Result<(), Vec<SchemaViolation>> {
        check_depth(input)?;
        let validator = match self.validator() {
            Ok(validator) => validator,
            Err(error) => {
                return Err(vec![SchemaViolation::new(
                    "",
                    format!("a tool with a valid schema ({error})"),
                    "a broken one",
                )]);
            }
        };
        if validator.is_valid(input) {
            return Ok(());
        }
        let mut violations: Vec<SchemaViolation> = validator
            .iter_errors(input)
            .flat_map(|error| self.explain(&error))
            .take(VIOLATIONS_MAX)
            .collect();
        violations.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        Err(violations)
    }

    /// One violation per location; unknown and missing fields count as locations.
    fn explain(&self, error: &jsonschema::ValidationError<'_>) -> Vec<SchemaViolation> {
        let pointer = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let schema = schema_at(&self.schema, pointer);
                let known: Vec<&str> = schema
                    .and_then(|schema| schema.get("properties")?.as_object())
                    .map(|properties| properties.keys().map(String::as_str).collect())
                    .unwrap_or_default();
                unexpected.iter().map(|field| unknown_field(pointer, field, &known)).collect()
            }
            ValidationErrorKind::Required { property } => {
                let field = property.as_str().unwrap_or_default();
                let expected = schema_at(&self.schema, pointer)
                    .and_then(|schema| schema.get("properties")?.get(field))
                    .map_or_else(|| "a value".to_owned(), describe_expected);
                vec![SchemaViolation::new(
                    join_pointer(pointer, field),
                    expected,
                    "nothing (the field is required)",
                )]
            }
            kind => {
                let expected = match kind {
                    ValidationErrorKind::Type { kind: TypeKind::Single(name) } => {
                        describe_type(&name.to_string())
                    }
                    ValidationErrorKind::Maximum { limit } => {
                        format!("a number of at most {limit}")
                    }
                    _ => schema_at(&self.schema, pointer)
                        .map_or_else(|| error.to_string(), describe_expected),
                };
                let found = match (kind, &**error.instance()) {
                    (
                        ValidationErrorKind::MinLength { .. }
                        | ValidationErrorKind::MaxLength { .. },
                        Value::String(text),
                    ) => {
                        format!("{} ({} characters)", quote(error.instance()), text.chars().count())
                    }
                    (_, instance) => quote(instance),
                };
                vec![SchemaViolation::new(pointer, expected, found)]
            }
        }
    }
}

fn unknown_field(pointer: &str, field: &str, known: &[&str]) -> SchemaViolation {
    let nearest = match find_synonym(field, known) {
        Some(name) => Some(name.to_owned()),
        None => suggest_names(field, known.iter().copied(), 1).pop(),
    };
    let expected = match known {
        [] => "no fields".to_owned(),
        known => format!(
            "one of {}",
            known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    let found = format!("unknown field `{}`", shorten_end(field, QUOTE_CHARS_MAX));
    SchemaViolation { pointer: join_pointer(pointer, field), expected, found, nearest }
}

/// The part of a schema for the value at `pointer`.
fn schema_at<'a>(schema: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(schema, |schema, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        schema_of_field(schema, &step)
    })
}

/// The part of a schema for a field, or for an element of an array.
fn schema_of_field<'a>(schema: &'a Value, step: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(step));
    let open = || schema.get("additionalProperties").filter(|open| open.is_object());
    let forms = || schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array();
    named
        .or_else(open)
        .or_else(|| schema.get("items"))
        .or_else(|| forms()?.iter().find_map(|form| schema_of_field(form, step)))
}

/// Describes what a schema expects.
fn describe_expected(schema: &Value) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        return format!("one of {}", choices.join(", "));
    }
    if let Some(choices) =
        schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
    {
        let mut words: Vec<String> = choices.iter().map(describe_expected).collect();
        words.dedup();
        return words.join(" or ");
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    let mut words = schema
        .get("type")
        .and_then(Value::as_str)
        .map_or_else(|| "another value".to_owned(), describe_type);
    let bounds = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "with a length of at least"),
        ("maxLength", "with a length of at most"),
        ("minItems", "with a length of at least"),
        ("maxItems", "with a length of at most"),
    ];
    let mut joiner = " ";
    for (key, phrase) in bounds {
        // Bounds that only come from the integer type are omitted.
        let bound = schema.get(key).filter(|bound| **bound != WHOLE_MAX && **bound != u32::MAX);
        if let Some(bound) = bound {
            words.push_str(&format!("{joiner}{phrase} {bound}"));
            joiner = " and ";
        }
    }
    words
}

fn describe_type(type_name: &str) -> String {
    match type_name {
        "integer" => "a whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" | "object" => format!("an {type_name}"),
        other => format!("a {other}"),
    }
}

fn quote(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(items) => format!("an array of {}", items.len()),
        other => shorten_end(&other.to_string(), QUOTE_CHARS_MAX),
    }
}

fn check_depth(input: &Value) -> Result<(), Vec<SchemaViolation>> {
    match depth_exceeds(input, DEPTH_MAX) {
        false => Ok(()),
        true => {
            let expected = format!("nesting of at most {DEPTH_MAX} levels");
            Err(vec![SchemaViolation::new("", expected, "deeper nesting")])
        }
    }
}

/// Whether a value is nested deeper than `left` levels; visits no deeper ones.
pub fn depth_exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|item| depth_exceeds(item, left - 1)),
        Value::Object(fields) => {
            left == 0 || fields.values().any(|field| depth_exceeds(field, left - 1))
        }
        _ => false,
    }
}

/// Normalizes an input; see [`InputSchema::check`].
fn normalise(value: &mut Value, schema: &Value) {
    if schema.get("type").is_some_and(|name| name == "integer" || name == "number")
        && let Some(float) = value.as_f64().filter(|_| value.is_f64())
        && float.fract() == 0.0
        && float.abs() < 9e15
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53, checked above")]
        {
            *value =
                if float < 0.0 { Value::from(float as i64) } else { Value::from(float as u64) };
        }
    }
    match value {
        Value::Object(fields) => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required =
                |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
            let properties = schema.get("properties");
            fields.retain(|name, field| {
                let known = properties.is_some_and(|properties| properties.get(name).is_some());
                !(field.is_null() && known && !is_required(name))
            });
            for (name, field) in fields.iter_mut() {
                if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                    normalise(field, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| normalise(item, schema));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> InputSchema {
        InputSchema::new(json!({
            "type": "object",
            "properties": {
                "file_path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1},
                "mode": {"type": "string", "enum": ["content", "count"]},
                "edits": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                    "additionalProperties": false
                }}
            },
            "required": ["file_path"],
            "additionalProperties": false
        }))
    }

    #[track_caller]
    fn check(input: Value, expected: &[&str]) {
        let violations = schema().check(input).err().unwrap_or_default();
        let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_violation_is_reported_with_pointer() {
        check(json!({"file_path": "a"}), &[]);
        check(
            json!({"filePath": "a", "limit": 0, "mode": "all"}),
            &[
                "/filePath: expected one of `file_path`, `limit`, `mode`, `edits`, found unknown field `filePath` (did you mean `file_path`?)",
                "/file_path: expected a string, found nothing (the field is required)",
                "/limit: expected a whole number at least 1, found 0",
                "/mode: expected one of \"content\", \"count\", found \"all\"",
            ],
        );
        check(
            json!({"file_path": 3, "edits": [{"text": "a"}, {"txt": "b"}]}),
            &[
                "/edits/1/text: expected a string, found nothing (the field is required)",
                "/edits/1/txt: expected one of `text`, found unknown field `txt` (did you mean `text`?)",
                "/file_path: expected a string, found 3",
            ],
        );
        check(json!([1]), &["the input: expected an object, found an array of 1"]);
    }

    #[test]
    fn output_schema_requires_only_always_present_fields() {
        #[derive(serde::Serialize, JsonSchema)]
        struct SampleOutput {
            #[serde(skip_serializing_if = "Vec::is_empty")]
            notes: Vec<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<String>,
            next: Option<String>,
            text: String,
        }
        let output = SampleOutput { notes: vec![], code: None, next: None, text: String::new() };
        let (schema, written) =
            (derive_output_schema::<SampleOutput>(), serde_json::to_value(output).unwrap());
        assert!(jsonschema::is_valid(&schema, &written), "{schema} {written}");
        assert_eq!(schema["required"], json!(["next", "text"]));
        assert_eq!(schema["properties"]["code"], json!({"type": "string"}));
        assert_eq!(schema["properties"]["next"], json!({"type": ["string", "null"]}));
    }

    #[test]
    fn null_and_whole_floats_are_normalized() {
        let input = schema().check(json!({"file_path": "a", "limit": 3.0, "mode": null})).unwrap();
        assert_eq!(input, json!({"file_path": "a", "limit": 3}));
        check(json!({"file_path": null}), &["/file_path: expected a string, found null"]);
        check(
            json!({"file_path": "a", "limit": 1.5}),
            &["/limit: expected a whole number, found 1.5"],
        );
    }

    #[test]
    fn out_of_range_number_is_a_violation() {
        #[derive(JsonSchema, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct NumberArgs {
            #[schemars(range(min = 1))]
            offset: Option<u64>,
            after: Option<u32>,
        }
        #[track_caller]
        fn check(input: &str, expected: &[&str]) {
            let input = serde_json::from_str(input).unwrap();
            let violations = InputSchema::new(derive_input_schema::<NumberArgs>())
                .check(input)
                .err()
                .unwrap_or_default();
            let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected);
        }
        check(r#"{"offset": 9007199254740991, "after": 4294967295}"#, &[]);
        check(
            r#"{"offset": 99999999999999999999999, "after": 4294967296}"#,
            &[
                "/after: expected a number of at most 4294967295, found 4294967296",
                "/offset: expected a number of at most 9007199254740991, found 1e+23",
            ],
        );
        check(r#"{"offset": 0}"#, &["/offset: expected a whole number at least 1, found 0"]);
    }

    #[test]
    fn deep_input_is_refused_before_recursion() {
        let mut deep = json!(1);
        for _ in 0..1_000 {
            deep = json!([deep]);
        }
        let violations = schema().check(deep).unwrap_err();
        assert_eq!(violations[0].expected, "nesting of at most 64 levels");
    }

    #[test]
    fn derived_schemas_are_small() {
        /// Says something.
        #[derive(JsonSchema, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct DescribedArgs {
            /// How often.
            times: Option<u32>,
            size: Option<u64>,
            text: String,
        }
        let mut schema = derive_input_schema::<DescribedArgs>();
        assert_eq!(take_description(&mut schema), "Says something.");
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "times": {"description": "How often.", "type": "integer", "minimum": 0, "maximum": 4_294_967_295u32},
                    "size": {"type": "integer", "minimum": 0, "maximum": WHOLE_MAX},
                    "text": {"type": "string"}
                },
                "additionalProperties": false,
                "required": ["text"]
            })
        );
    }
}
