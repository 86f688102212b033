//! Validates schemas from external sources before they are used.
//!
//! MCP servers and clients provide schemas that models see and inputs are validated with. This
//! module decides which are usable, for all sources.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use zero_core::sanitize;
use zero_core::text_shortening::shorten_end;

use super::{DEPTH_MAX, InputSchema};

/// Largest schema, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Most parts of a schema whose references are followed.
const EXPANDED_MAX: u64 = 100_000;
/// Most references that lead from one to the next.
const REFERENCE_DEPTH_MAX: usize = 100;
/// Most bytes of the cache of accepted schemas.
const KNOWN_BYTES_MAX: usize = 512 * 1024;

/// Converts an input schema to the form that the pipeline and models need, an object. The error
/// completes the sentence "the schema …".
pub fn vet_input(schema: &mut Value) -> Result<(), String> {
    let fields = schema.as_object_mut().ok_or("is not an object")?;
    match fields.get("type") {
        Some(kind) if kind == "object" => {}
        None => drop(fields.insert("type".to_owned(), "object".into())),
        Some(other) => {
            let other = shorten_end(&other.to_string(), 40);
            return Err(format!("has type {other} instead of object"));
        }
    }
    check_usable(schema)
}

/// Checks whether a schema is usable. The error completes the sentence "the schema …".
pub fn check_usable(schema: &Value) -> Result<(), String> {
    if is_deeper_than(schema, DEPTH_MAX) {
        return Err(format!("is nested more than {DEPTH_MAX} levels deep"));
    }
    let text = schema.to_string();
    let size = text.len();
    if size > SCHEMA_BYTES_MAX {
        return Err(format!("has {size} bytes, more than {SCHEMA_BYTES_MAX}"));
    }
    if AcceptedSchemas::lock().texts.contains(&text) {
        return Ok(());
    }
    if let Some(reference) = find_remote_reference(schema) {
        let reference = sanitize::to_quoted_line(reference);
        return Err(format!("refers to {reference}, but zero does not fetch external schemas"));
    }
    if PartCounter::count(schema) > EXPANDED_MAX {
        return Err(format!(
            "has more than {EXPANDED_MAX} parts once its references are followed, which takes too long to check"
        ));
    }
    InputSchema::new(schema.clone())
        .check_schema()
        .map_err(|fault| format!("is broken: {}", sanitize::to_line(&fault)))?;
    AcceptedSchemas::lock().add(text);
    Ok(())
}

/// Counts the parts of a schema in which each reference is replaced by what it refers to: what a value
/// may have to be compared with. Parts that contain themselves end with the value.
struct PartCounter<'a> {
    root: &'a Value,
    /// What was counted for each reference.
    sizes: HashMap<&'a str, u64>,
    /// References that are followed now, one from the other.
    depth: usize,
}

impl<'a> PartCounter<'a> {
    fn count(root: &'a Value) -> u64 {
        Self { root, sizes: HashMap::new(), depth: 0 }.count_part(root)
    }

    fn count_part(&mut self, part: &'a Value) -> u64 {
        match part {
            Value::Array(parts) => self.count_parts(parts.iter()),
            Value::Object(fields) => {
                let own = self.count_parts(fields.values());
                let reference = fields.get("$ref").and_then(Value::as_str);
                own.saturating_add(reference.map_or(0, |reference| self.count_reference(reference)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }

    fn count_parts(&mut self, parts: impl Iterator<Item = &'a Value>) -> u64 {
        parts.fold(1, |sum: u64, part| sum.saturating_add(self.count_part(part)))
    }

    fn count_reference(&mut self, reference: &'a str) -> u64 {
        if let Some(size) = self.sizes.get(reference) {
            return *size;
        }
        if self.depth >= REFERENCE_DEPTH_MAX {
            return u64::MAX;
        }
        // While it is counted, it counts once.
        self.sizes.insert(reference, 1);
        self.depth += 1;
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let size = target.map_or(1, |part| self.count_part(part));
        self.depth -= 1;
        self.sizes.insert(reference, size);
        size
    }
}

/// Accepts one of zero's own schemas without a check; tests cover them.
pub fn mark_accepted(own: &Value) {
    AcceptedSchemas::lock().add(own.to_string());
}

/// Accepted schemas: a client that offers tools to a gateway in the same process validates each of
/// them twice, and again for every session.
#[derive(Default)]
struct AcceptedSchemas {
    texts: BTreeSet<String>,
    bytes: usize,
}

impl AcceptedSchemas {
    fn lock() -> MutexGuard<'static, Self> {
        static ACCEPTED: LazyLock<Mutex<AcceptedSchemas>> = LazyLock::new(Mutex::default);
        ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&mut self, text: String) {
        if self.bytes + text.len() > KNOWN_BYTES_MAX {
            *self = Self::default();
        }
        let bytes = text.len();
        if self.texts.insert(text) {
            self.bytes += bytes;
        }
    }
}

/// The first reference that leaves the document. Names that the document declares with `$id` are
/// inside.
fn find_remote_reference(schema: &Value) -> Option<&str> {
    let is_remote = |text: &str| {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        scheme.is_some_and(|scheme| ["http", "https", "file", "ftp"].contains(&scheme.as_str()))
    };
    let mut references = Vec::new();
    let mut ids = Vec::new();
    collect_references(schema, &mut references, &mut ids);
    let is_inside = |reference: &str| {
        let whole = reference.split('#').next().unwrap_or_default();
        whole.starts_with("https://json-schema.org/draft/2020-12/")
            || ids.iter().any(|id| id.trim_end_matches('#') == whole)
    };
    references.into_iter().find(|reference| is_remote(reference) && !is_inside(reference))
}

fn collect_references<'a>(
    schema: &'a Value,
    references: &mut Vec<&'a str>,
    ids: &mut Vec<&'a str>,
) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(text)) => references.push(text),
                    ("$id", Value::String(text)) => ids.push(text),
                    _ => collect_references(value, references, ids),
                }
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| collect_references(item, references, ids))
        }
        _ => {}
    }
}

/// Whether a value is nested deeper than `levels`; visits no deeper ones.
fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, left)),
        Value::Object(fields) => fields.values().any(|field| is_deeper_than(field, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(mut schema: Value, expected: Result<Value, &str>) {
        match (vet_input(&mut schema), expected) {
            (Ok(()), Ok(expected)) => assert_eq!(schema, expected),
            (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{why}"),
            (found, expected) => panic!("{found:?}, not {expected:?}, of {schema}"),
        }
    }

    #[test]
    fn accepted_schemas_stay_within_limit() {
        let mut known = AcceptedSchemas::default();
        let texts: Vec<String> = (0..40).map(|n| format!("{n:016384}")).collect();
        for text in &texts {
            known.add(text.clone());
            known.add(text.clone());
            assert!(known.texts.contains(text));
            assert_eq!(known.bytes, known.texts.iter().map(String::len).sum::<usize>());
            assert!(known.bytes <= KNOWN_BYTES_MAX);
        }
        assert!(!known.texts.contains(&texts[0]));
    }

    #[test]
    fn schema_that_grows_with_each_reference_is_rejected() {
        let mut parts = serde_json::Map::new();
        for number in 0..40 {
            let next = json!({"$ref": format!("#/$defs/a{}", number + 1)});
            parts.insert(format!("a{number}"), json!({"allOf": [next, next]}));
        }
        parts.insert("a40".to_owned(), json!({"type": "object"}));
        let schema = json!({"type": "object", "$defs": parts, "$ref": "#/$defs/a0"});
        check(schema, Err("has more than 100000 parts"));
        let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        check(list.clone(), Ok(list));
    }

    #[test]
    fn unusable_schema_is_rejected_every_time() {
        let broken = json!({"type": "object", "properties": {"a": {"type": "strnig"}}});
        for _ in 0..2 {
            assert!(check_usable(&broken).is_err());
        }
    }

    #[test]
    fn input_schema_must_be_an_object() {
        check(json!({}), Ok(json!({"type": "object"})));
        check(json!({"type": "object", "x": 1}), Ok(json!({"type": "object", "x": 1})));
        for schema in [json!("object"), json!([]), json!(true), json!(null), json!(1)] {
            check(schema, Err("is not an object"));
        }
        check(json!({"type": "string"}), Err("has type \"string\" instead of object"));
        check(json!({"properties": {"a": {"type": "strnig"}}}), Err("is broken: "));
        check(json!({"$ref": "file:///etc/passwd"}), Err("refers to `file:///etc/passwd`"));
        check(json!({"description": "x".repeat(70_000)}), Err("has 70034 bytes, more than 65536"));
        let deep = (0..70).fold(json!({}), |inner, _| json!({"not": inner}));
        check(deep, Err("is nested more than 64 levels deep"));
    }
}
