//! Compares values and schemas with the specification.

use serde_json::{Map, Value};

use zero_core::text_shortening::shorten_end;

use super::spec_cases::ToolCase;

/// JSON Schema types of a shape.
fn schema_types(shape: &str) -> &'static [&'static str] {
    match shape {
        "text" => &["string"],
        "number" => &["number", "integer"],
        "flag" => &["boolean"],
        "text_map" => &["object"],
        _ => &["array"],
    }
}

/// Checks a value; the error names the field `at`. A shape is a word, or a list with the fields of
/// each object in the value.
fn check_shape(shape: &Value, at: &str, value: &Value) -> Result<(), String> {
    if let Some(fields) = shape.get(0).and_then(Value::as_object) {
        let items = value.as_array().ok_or_else(|| format!("`{at}` is not a list"))?;
        return items.iter().try_for_each(|item| {
            check_exact_fields(fields, item).map_err(|why| format!("in `{at}`: {why}"))
        });
    }
    let has_shape = match shape.as_str().unwrap_or_default() {
        "text" => value.is_string(),
        "number" => value.is_number(),
        "flag" => value.is_boolean(),
        "list" => value.is_array(),
        "texts" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        "text_map" => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
        _ => false,
    };
    if has_shape {
        Ok(())
    } else {
        Err(format!("`{at}` has the wrong type: {}", quote_value(value)))
    }
}

/// Checks that a value is an object with exactly these fields and shapes. A field whose shape ends
/// in `?` may be missing.
pub(super) fn check_exact_fields(fields: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let Value::Object(object) = value else {
        return Err(format!("not an object: {}", quote_value(value)));
    };
    for (name, shape) in fields {
        let optional = shape.as_str().and_then(|shape| shape.strip_suffix('?'));
        match (object.get(name), optional) {
            (Some(found), Some(shape)) => check_shape(&Value::from(shape), name, found)?,
            (Some(found), None) => check_shape(shape, name, found)?,
            (None, Some(_)) => {}
            (None, None) => return Err(format!("`{name}` is missing")),
        }
    }
    match object.keys().find(|name| !fields.contains_key(*name)) {
        Some(extra) => Err(format!("`{extra}` is not in the specification")),
        None => Ok(()),
    }
}

/// Checks that an object has all fields of another, with the same values. A text between two `…` must
/// be contained in the value.
pub(super) fn check_contains(expected: &Map<String, Value>, found: &Value) -> Result<(), String> {
    for (name, value) in expected {
        let found = found.get(name).unwrap_or(&Value::Null);
        let part = value.as_str().and_then(|text| text.strip_prefix('…')?.strip_suffix('…'));
        let fits = match part {
            Some(part) => found.as_str().is_some_and(|found| found.contains(part)),
            None => found == value,
        };
        if !fits {
            return Err(format!("`{name}` is {}, not {}", quote_value(found), quote_value(value)));
        }
    }
    Ok(())
}

/// Checks that a schema has the parameters of the specification with the correct types, and requires
/// no others.
///
/// A required parameter may be optional in the schema, if the tool accepts another form of input as
/// well. Another check calls the tool without it and expects an error.
pub(super) fn check_parameters(case: &ToolCase, schema: &Value) -> Result<(), String> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for parameter in case.parameters() {
        let name = parameter.name;
        let property =
            properties.get(name).ok_or_else(|| format!("`{name}` is missing from the schema"))?;
        let types = schema_types(parameter.shape);
        if let Some(found) = property.get("type").and_then(Value::as_str)
            && !types.contains(&found)
        {
            return Err(format!("`{name}` has type `{found}`, not `{}`", types.join("` or `")));
        }
    }
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    for name in required {
        if !case.parameters().any(|parameter| parameter.name == name && parameter.is_required) {
            return Err(format!("`{name}` must not be required"));
        }
    }
    Ok(())
}

fn quote_value(value: &Value) -> String {
    /// Longest quotation of a value, in characters.
    const QUOTE_CHARS_MAX: usize = 60;
    shorten_end(&value.to_string(), QUOTE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn result_has_exactly_the_specified_fields() {
        let shapes = json!({"n": "number", "hits": [{"line": "number"}], "notes": "texts?"});
        let fields = shapes.as_object().unwrap();
        for (value, problem) in [
            (json!({"n": 1, "hits": [{"line": 1}]}), None),
            (json!({"n": 1}), Some("`hits` is missing")),
            (json!({"n": "1", "hits": []}), Some("`n` has the wrong type: \"1\"")),
            (json!({"n": 1, "hits": [], "notes": ["a"]}), None),
            (json!({"n": 1, "hits": [], "notes": 1}), Some("`notes` has the wrong type: 1")),
            (json!({"n": 1, "hits": [], "x": 0}), Some("`x` is not in the specification")),
            (
                json!({"n": 1, "hits": [{"line": 1, "x": 0}]}),
                Some("in `hits`: `x` is not in the specification"),
            ),
            (json!([]), Some("not an object: []")),
        ] {
            assert_eq!(check_exact_fields(fields, &value).err().as_deref(), problem, "{value}");
        }
    }
}
