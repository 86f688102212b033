//! [`LegacyForm`], a form in the format of 2025-06-18, for clients that know no newer one.
//!
//! In that format, a choice is an `enum` with `enumNames`, and no field has several values. A field
//! with several values becomes one yes/no field for each of its choices, and the answers are
//! combined again.

use serde_json::{Map, Value, json};

/// Maximum number of yes/no fields.
const FLAGS_MAX: usize = 50;

/// A form that older clients can show.
#[derive(Debug)]
pub(super) struct LegacyForm {
    pub(super) schema: Map<String, Value>,
    flags: Vec<ChoiceFlag>,
    /// Required fields with several values, which must exist even if empty.
    required: Vec<String>,
}

/// A yes/no field that stands for one value of a field.
#[derive(Debug)]
struct ChoiceFlag {
    name: String,
    field: String,
    value: String,
}

/// A value that can be chosen, and its name.
type ChoiceOption = (String, String);

impl LegacyForm {
    /// Converts a form; `None` if that is not possible.
    pub(super) fn from_schema(schema: &Map<String, Value>) -> Option<Self> {
        let fields = schema.get("properties")?.as_object()?;
        let (mut plain, mut flags) = (Map::new(), Vec::new());
        for (name, about) in fields {
            if about.get("type").and_then(Value::as_str) == Some("array") {
                for (index, choice) in read_choices(about.get("items")?)?.into_iter().enumerate() {
                    let flag = format!("{name}_{}", index + 1);
                    let is_taken = fields.contains_key(&flag) || plain.contains_key(&flag);
                    if is_taken || flags.len() >= FLAGS_MAX {
                        return None;
                    }
                    plain.insert(flag.clone(), flag_field(name, about, &choice));
                    flags.push(ChoiceFlag { name: flag, field: name.clone(), value: choice.0 });
                }
            } else {
                plain.insert(name.clone(), legacy_field(about));
            }
        }
        let mut schema = schema.clone();
        let mut required = Vec::new();
        if let Some(Value::Array(names)) = schema.get_mut("required") {
            let flagged =
                |name: &mut Value| !name.as_str().is_some_and(|name| plain.contains_key(name));
            let names = names.extract_if(.., flagged);
            required.extend(names.filter_map(|name| name.as_str().map(str::to_owned)));
        }
        schema.insert("properties".to_owned(), Value::Object(plain));
        Some(Self { schema, flags, required })
    }

    /// Converts an answer back to the format of the original form. Values that were not offered are
    /// left to the validation.
    pub(super) fn restore_values(&self, content: Value) -> Value {
        let Value::Object(mut values) = content else { return content };
        for field in &self.required {
            values.entry(field.clone()).or_insert_with(|| json!([]));
        }
        for ChoiceFlag { name, field, value } in &self.flags {
            match values.remove(name) {
                Some(Value::Bool(true)) => {
                    let list = values.entry(field.clone()).or_insert_with(|| json!([]));
                    if let Value::Array(list) = list {
                        list.push(value.clone().into());
                    }
                }
                Some(Value::Bool(false) | Value::Null) | None => {}
                Some(other) => {
                    values.insert(name.clone(), other);
                }
            }
        }
        Value::Object(values)
    }
}

/// Converts a field with one value.
fn legacy_field(about: &Value) -> Value {
    let Value::Object(about) = about else { return about.clone() };
    let mut about = about.clone();
    if let Some(choices) = read_choices(&Value::Object(about.clone())) {
        let (values, names): (Vec<String>, Vec<String>) = choices.into_iter().unzip();
        about.remove("oneOf");
        about.insert("enum".to_owned(), values.into());
        about.insert("enumNames".to_owned(), names.into());
    }
    // In the older format, only booleans have a default.
    if about.get("type").and_then(Value::as_str) != Some("boolean") {
        about.remove("default");
    }
    Value::Object(about)
}

fn flag_field(field: &str, about: &Value, (value, name): &ChoiceOption) -> Value {
    let text = |key: &str| about.get(key).and_then(Value::as_str);
    let mut flag = json!({
        "type": "boolean",
        "title": format!("{}: {name}", text("title").unwrap_or(field)),
    });
    if let Some(description) = text("description") {
        flag["description"] = description.into();
    }
    let defaults = about.get("default").and_then(Value::as_array);
    if defaults.is_some_and(|defaults| defaults.iter().any(|one| one == value.as_str())) {
        flag["default"] = true.into();
    }
    flag
}

/// Returns the choices of a field; `None` if it has none.
fn read_choices(about: &Value) -> Option<Vec<ChoiceOption>> {
    let list = |key: &str| about.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames");
        let choice = |(at, value): (usize, &Value)| {
            let value = value.as_str()?;
            let name = names.and_then(|names| names.get(at)?.as_str()).unwrap_or(value);
            Some((value.to_owned(), name.to_owned()))
        };
        return values.iter().enumerate().map(choice).collect();
    }
    let choice = |one: &Value| {
        let value = one.get("const")?.as_str()?;
        let name = one.get("title").and_then(Value::as_str).unwrap_or(value);
        Some((value.to_owned(), name.to_owned()))
    };
    list("oneOf").or_else(|| list("anyOf"))?.iter().map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn legacy_form(fields: Value) -> LegacyForm {
        let form = json!({"type": "object", "properties": fields, "required": ["m", "c"]});
        LegacyForm::from_schema(form.as_object().unwrap()).unwrap()
    }

    #[test]
    fn choice_becomes_enum_with_names() {
        let titled = json!({"type": "string", "title": "C", "default": "r", "oneOf": [
            {"const": "r", "title": "Red"}, {"const": "b"}]});
        let expected =
            json!({"type": "string", "title": "C", "enum": ["r", "b"], "enumNames": ["Red", "b"]});
        assert_eq!(legacy_form(json!({ "c": titled })).schema["properties"]["c"], expected);
        for same in [
            json!({"type": "string", "maxLength": 3}),
            json!({"type": "integer", "minimum": 1}),
            json!({"type": "boolean", "default": true}),
        ] {
            assert_eq!(legacy_form(json!({ "c": same })).schema["properties"]["c"], same);
        }
    }

    #[test]
    fn multiple_choice_becomes_flags_and_is_restored() {
        let many = json!({"type": "array", "title": "Backups", "default": ["w"], "items": {"anyOf": [
            {"const": "d", "title": "Daily"}, {"const": "w", "title": "Weekly"}]}});
        let form = legacy_form(json!({"m": many, "c": {"type": "string"}}));
        assert_eq!(
            form.schema["properties"],
            json!({
                "m_1": {"type": "boolean", "title": "Backups: Daily"},
                "m_2": {"type": "boolean", "title": "Backups: Weekly", "default": true},
                "c": {"type": "string"},
            })
        );
        assert_eq!(form.schema["required"], json!(["c"]));
        for (content, expected) in [
            (json!({"m_1": true, "m_2": true, "c": "x"}), json!({"c": "x", "m": ["d", "w"]})),
            (json!({"m_1": false, "m_2": true}), json!({"m": ["w"]})),
            (json!({"m_1": false}), json!({"m": []})),
            (json!({"m_1": "yes"}), json!({"m": [], "m_1": "yes"})),
            (json!("x"), json!("x")),
        ] {
            assert_eq!(form.restore_values(content), expected);
        }
        let optional = json!({"properties": {"m": {"type": "array", "items": {"enum": ["d"]}}}});
        let form = LegacyForm::from_schema(optional.as_object().unwrap()).unwrap();
        assert_eq!(form.restore_values(json!({"m_1": false})), json!({}));
    }

    #[test]
    fn field_without_legacy_form_is_not_asked() {
        let of = |fields: Value| {
            LegacyForm::from_schema(json!({ "properties": fields }).as_object().unwrap()).is_some()
        };
        let many = |count: usize| {
            let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
            json!({"type": "array", "items": {"enum": values}})
        };
        assert!(of(json!({ "m": many(FLAGS_MAX) })));
        assert!(!of(json!({ "m": many(FLAGS_MAX + 1) })));
        assert!(!of(json!({"m": many(1), "m_1": {"type": "string"}})));
        assert!(!of(json!({"m_1": {"type": "string"}, "m": many(1)})));
        assert!(!of(json!({"m": {"type": "array", "items": {"type": "string"}}})));
    }
}
