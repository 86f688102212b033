//! Converts schemas of older dialects to JSON Schema 2020-12 ([`normalize_schema`]).
//!
//! Gemini's declarations follow OpenAPI: uppercase types, `nullable`, and bounds that may be
//! strings. Draft 7 has lists of `items`. Only schemas are changed: a property named `type`, or a
//! value of an `enum`, stays as it is.

use serde_json::{Map, Value};

/// Keywords whose value is a schema.
const SCHEMA_KEYWORDS: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas.
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const SCHEMA_MAP_KEYWORDS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a count, which Gemini also writes as a string.
const COUNT_KEYWORDS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// Converts a schema, and those nested in it, to JSON Schema 2020-12. Its depth must be bounded.
pub(super) fn normalize_schema(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    normalize_type(schema);
    normalize_nullable(schema);
    for key in COUNT_KEYWORDS {
        let count = schema.get(key).and_then(Value::as_str).and_then(|text| text.parse().ok());
        if let Some::<u64>(count) = count {
            schema.insert(key.to_owned(), count.into());
        }
    }
    if let Some(Value::Array(_)) = schema.get("items")
        && let Some(tuple) = schema.shift_remove("items")
    {
        schema.insert("prefixItems".to_owned(), tuple);
        if let Some(rest) = schema.shift_remove("additionalItems") {
            schema.insert("items".to_owned(), rest);
        }
    }
    for (key, value) in schema.iter_mut() {
        match value {
            value if SCHEMA_KEYWORDS.contains(&key.as_str()) => normalize_schema(value),
            Value::Array(schemas) if SCHEMA_LIST_KEYWORDS.contains(&key.as_str()) => {
                schemas.iter_mut().for_each(normalize_schema);
            }
            Value::Object(schemas) if SCHEMA_MAP_KEYWORDS.contains(&key.as_str()) => {
                schemas.values_mut().for_each(normalize_schema);
            }
            _ => {}
        }
    }
}

/// Converts `"STRING"` to `"string"`, and removes an unspecified type.
fn normalize_type(schema: &mut Map<String, Value>) {
    match schema.get_mut("type") {
        Some(Value::String(name)) if name == "TYPE_UNSPECIFIED" => {
            schema.shift_remove("type");
        }
        Some(Value::String(name)) => lowercase_type(name),
        Some(Value::Array(names)) => {
            for name in names {
                if let Value::String(name) = name {
                    lowercase_type(name);
                }
            }
        }
        _ => {}
    }
}

fn lowercase_type(name: &mut str) {
    const TYPES: [&str; 7] = ["OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL"];
    if TYPES.contains(&&*name) {
        name.make_ascii_lowercase();
    }
}

/// Converts `nullable` to an additional type.
fn normalize_nullable(schema: &mut Map<String, Value>) {
    let Some(Value::Bool(nullable)) = schema.get("nullable") else { return };
    let nullable = *nullable;
    schema.shift_remove("nullable");
    let Some(Value::String(name)) = schema.get("type").filter(|_| nullable) else { return };
    let both = Value::from(vec![name.as_str(), "null"]);
    schema.insert("type".to_owned(), both);
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(mut schema: Value, expected: Value) {
        normalize_schema(&mut schema);
        assert_eq!(schema, expected);
    }

    #[test]
    fn uppercase_types_are_lowered_in_schemas_only() {
        check(
            json!({"type": "OBJECT", "properties": {
                "type": {"type": "STRING", "enum": ["STRING", "OBJECT"], "default": "STRING"},
                "items": {"type": "ARRAY", "items": {"type": "INTEGER"}, "maxItems": "3"},
                "either": {"anyOf": [{"type": "NUMBER"}, {"type": ["BOOLEAN", "NULL"]}]},
            }, "required": ["type"]}),
            json!({"type": "object", "properties": {
                "type": {"type": "string", "enum": ["STRING", "OBJECT"], "default": "STRING"},
                "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
                "either": {"anyOf": [{"type": "number"}, {"type": ["boolean", "null"]}]},
            }, "required": ["type"]}),
        );
        check(json!({"type": "TYPE_UNSPECIFIED"}), json!({}));
        check(json!({"type": "Strange"}), json!({"type": "Strange"}));
        check(json!(true), json!(true));
    }

    #[test]
    fn nullable_becomes_null_type() {
        check(json!({"type": "STRING", "nullable": true}), json!({"type": ["string", "null"]}));
        check(json!({"type": "STRING", "nullable": false}), json!({"type": "string"}));
        check(
            json!({"type": "STRING", "nullable": true, "enum": ["a"]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        );
        let field = json!({"properties": {"nullable": {"type": "boolean"}}});
        check(field.clone(), field);
    }

    #[test]
    fn tuple_items_become_prefix_items() {
        check(
            json!({"items": [{"type": "STRING"}], "additionalItems": {"type": "NULL"}}),
            json!({"prefixItems": [{"type": "string"}], "items": {"type": "null"}}),
        );
    }
}
