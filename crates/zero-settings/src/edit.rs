//! Changes one value of a settings file and keeps comments, order and layout.
//!
//! A library edits the file as text and preserves every byte it does not have to change. The result
//! is parsed again and must equal the expected value; otherwise nothing is written.

use jsonc_parser::cst::{CstArray, CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

use crate::document::{BOM, SettingsDocument, parse_options};

/// A change of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueEdit {
    /// Sets the value.
    Set(Value),
    /// Removes the value.
    Unset,
    /// Appends this item to the list.
    Add(Value),
    /// Removes this item from the list.
    Remove(Value),
}

/// Why a text could not be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsEditError {
    /// A component of the key is not an object.
    #[error("`{0}` is not an object, so nothing can be set in it")]
    NotAnObject(String),
    /// The key is not a list.
    #[error("`{0}` is not a list; use `zero config set`")]
    NotAList(String),
    /// The edited text does not have the expected value.
    #[error("the file could not be edited safely; edit it yourself")]
    Unverified,
}

/// The text with one value changed; `None` if it already has that value.
pub fn apply(
    text: &str,
    key: &[&str],
    edit: &ValueEdit,
) -> Result<Option<String>, SettingsEditError> {
    let (mark, body) = match text.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => ("", text),
    };
    let old =
        SettingsDocument::parse("", body.as_bytes()).map_err(|_| SettingsEditError::Unverified)?;
    let expected = expected_value(old.value(), key, edit)?;
    if expected == *old.value() {
        return Ok(None);
    }
    let root =
        CstRootNode::parse(body, &parse_options()).map_err(|_| SettingsEditError::Unverified)?;
    let object = root.object_value().ok_or(SettingsEditError::Unverified)?;
    edit_tree(object, key, edit)?;
    let new = root.to_string();
    let says =
        SettingsDocument::parse("", new.as_bytes()).map_err(|_| SettingsEditError::Unverified)?;
    if is_same_value(says.value(), &expected) {
        Ok(Some(format!("{mark}{new}")))
    } else {
        Err(SettingsEditError::Unverified)
    }
}

/// Whether a value is the only one in the object that contains it, and this object is a value itself.
pub fn is_only_value(text: &str, key: &[&str]) -> bool {
    let Some((last, above)) = key.split_last().filter(|(_, above)| !above.is_empty()) else {
        return false;
    };
    let body = text.strip_prefix(BOM).unwrap_or(text);
    let Ok(document) = SettingsDocument::parse("", body.as_bytes()) else { return false };
    let object = above.iter().try_fold(document.value(), |value, step| value.get(*step));
    let object = object.and_then(Value::as_object);
    object.is_some_and(|object| object.len() == 1 && object.contains_key(*last))
}

/// Whether a list item is the value, either itself or as the `rule` of an explained rule.
fn is_same_item(item: &Value, expected: &Value) -> bool {
    item == expected || item.get("rule").is_some_and(|rule| rule == expected)
}

/// The expected contents after the edit, computed on plain values.
fn expected_value(old: &Value, key: &[&str], edit: &ValueEdit) -> Result<Value, SettingsEditError> {
    let mut new = old.clone();
    let Some((last, above)) = key.split_last() else { return Err(SettingsEditError::Unverified) };
    let mut fields = new.as_object_mut().ok_or(SettingsEditError::Unverified)?;
    let creates = matches!(edit, ValueEdit::Set(_) | ValueEdit::Add(_));
    for (depth, step) in above.iter().enumerate() {
        if !creates && !fields.contains_key(*step) {
            return Ok(old.clone());
        }
        fields = fields
            .entry(*step)
            .or_insert_with(|| Value::Object(Map::new()))
            .as_object_mut()
            .ok_or_else(|| {
            SettingsEditError::NotAnObject(key.get(..=depth).unwrap_or(key).join("."))
        })?;
    }
    let list = |value: &Value| match value {
        Value::Array(items) => Ok(items.clone()),
        _ => Err(SettingsEditError::NotAList(key.join("."))),
    };
    match edit {
        ValueEdit::Set(value) => {
            fields.insert((*last).to_owned(), value.clone());
        }
        ValueEdit::Unset => {
            fields.shift_remove(*last);
        }
        ValueEdit::Add(value) => {
            let slot = fields.entry(*last).or_insert_with(|| Value::Array(Vec::new()));
            let mut items = list(slot)?;
            if !items.iter().any(|item| is_same_item(item, value)) {
                items.push(value.clone());
                *slot = Value::Array(items);
            } else {
                return Ok(old.clone());
            }
        }
        ValueEdit::Remove(value) => {
            let Some(slot) = fields.get_mut(*last) else { return Ok(old.clone()) };
            let mut items = list(slot)?;
            items.retain(|item| !is_same_item(item, value));
            *slot = Value::Array(items);
        }
    }
    Ok(new)
}

/// Applies the same edit to the text.
fn edit_tree(root: CstObject, key: &[&str], edit: &ValueEdit) -> Result<(), SettingsEditError> {
    let Some((last, above)) = key.split_last() else { return Err(SettingsEditError::Unverified) };
    let mut object = root;
    for step in above {
        object = object.object_value_or_create(step).ok_or(SettingsEditError::Unverified)?;
    }
    let property = object.get(last);
    match (edit, property) {
        (ValueEdit::Set(value), Some(property)) => property.set_value(to_cst_value(value)),
        (ValueEdit::Set(value), None) => {
            object.append(last, to_cst_value(value));
        }
        (ValueEdit::Unset, property) => property.ok_or(SettingsEditError::Unverified)?.remove(),
        (ValueEdit::Add(value), Some(property)) => {
            property
                .array_value()
                .ok_or(SettingsEditError::Unverified)?
                .append(to_cst_value(value));
        }
        (ValueEdit::Add(value), None) => {
            let list: CstArray = object.array_value_or_set(last);
            // One line per item, so that a rule can be identified by its line.
            list.ensure_multiline();
            list.append(to_cst_value(value));
        }
        (ValueEdit::Remove(value), property) => {
            let list = property.and_then(|property| property.array_value());
            let items = list.ok_or(SettingsEditError::Unverified)?.elements();
            for item in items {
                let text = item.to_string();
                let says: Value = parse_value(&text).ok_or(SettingsEditError::Unverified)?;
                if is_same_item(&says, value) {
                    item.remove();
                }
            }
        }
    }
    Ok(())
}

/// Parses a single value, without comments.
fn parse_value(text: &str) -> Option<Value> {
    let document =
        SettingsDocument::parse("", format!("{{\"value\": {text}\n}}").as_bytes()).ok()?;
    document.value().get("value").cloned()
}

/// Equality that also compares the order of keys, which must not change.
fn is_same_value(a: &Value, b: &Value) -> bool {
    let [a, b] = [a, b].map(Value::to_string);
    a == b
}

fn to_cst_value(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_cst_value).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields.iter().map(|(name, field)| (name.clone(), to_cst_value(field))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(
        text: &str,
        key: &str,
        edit: ValueEdit,
        expected: Result<Option<&str>, SettingsEditError>,
    ) {
        let key: Vec<&str> = key.split('.').collect();
        let edited = apply(text, &key, &edit);
        assert_eq!(edited.as_ref().map(Option::as_deref), expected.as_ref().copied(), "{text}");
    }

    const TEXT: &str = "// top\n{\n  // why\n  \"permissions\": {\n    \"allow\": [\n      \"Read\", // reading\n      \"Grep\" /* searching */,\n    ],\n    \"mode\": \"ask\", // careful\n  },\n  /* end */\n}\n";

    #[test]
    fn set_changes_only_the_value() {
        check(
            TEXT,
            "permissions.mode",
            ValueEdit::Set(json!("plan")),
            Ok(Some(&TEXT.replace("\"ask\"", "\"plan\""))),
        );
        check(TEXT, "permissions.mode", ValueEdit::Set(json!("ask")), Ok(None));
        check(
            TEXT,
            "permissions.allow",
            ValueEdit::Add(json!("LS")),
            Ok(Some(&TEXT.replace("/* searching */,\n", "/* searching */,\n      \"LS\",\n"))),
        );
        check(TEXT, "permissions.allow", ValueEdit::Add(json!("Grep")), Ok(None));
        check(TEXT, "permissions.allow", ValueEdit::Remove(json!("LS")), Ok(None));
        check(TEXT, "permissions.deny", ValueEdit::Unset, Ok(None));
        check(TEXT, "limits.result", ValueEdit::Unset, Ok(None));
    }

    #[test]
    fn unset_keeps_every_other_byte() {
        let edited = |key: &str, edit: ValueEdit| {
            let key: Vec<&str> = key.split('.').collect();
            apply(TEXT, &key, &edit).unwrap().unwrap()
        };
        assert_eq!(
            edited("permissions.mode", ValueEdit::Unset),
            TEXT.replace("    \"mode\": \"ask\", // careful\n", "")
        );
        assert_eq!(
            edited("permissions.allow", ValueEdit::Remove(json!("Read"))),
            TEXT.replace("      \"Read\", // reading\n", "")
        );
        assert_eq!(
            edited("permissions.allow", ValueEdit::Unset),
            TEXT.replace(
                "    \"allow\": [\n      \"Read\", // reading\n      \"Grep\" /* searching */,\n    ],\n",
                ""
            )
        );
        assert_eq!(
            edited("permissions", ValueEdit::Unset),
            "// top\n{\n  // why\n  /* end */\n}\n"
        );
    }

    #[test]
    fn set_creates_file_from_nothing() {
        let mut text = "{}\n".to_owned();
        for (key, edit) in [
            ("permissions.allow", ValueEdit::Add(json!("Bash(git status:*)"))),
            ("permissions.allow", ValueEdit::Add(json!({"rule": "Read", "why": "\"q\""}))),
            ("limits.file-timeout", ValueEdit::Set(json!("5s"))),
            ("limits.session-calls", ValueEdit::Set(json!(4))),
        ] {
            let key: Vec<&str> = key.split('.').collect();
            text = apply(&text, &key, &edit).unwrap().unwrap();
        }
        insta::assert_snapshot!(text, @r#"
        {
          "permissions": {
            "allow": [
              "Bash(git status:*)",
              {
                "rule": "Read",
                "why": "\"q\""
              }
            ]
          },
          "limits": {
            "file-timeout": "5s",
            "session-calls": 4
          }
        }
        "#);
    }

    #[test]
    fn unusual_layouts_can_be_edited() {
        for text in [
            "{}",
            "{ }",
            "{\n}",
            "{ // only a comment\n}",
            "{ /* a */ }",
            "// before\n{}// after",
            "{\"permissions\":{\"allow\":[\"A\"],\"deny\":[\"B\"]}}",
            "{\t\"permissions\" :\t{ \"allow\" : [ /* none */ ] , } , }",
            "{\"permissions\": {\"allow\": [\"A\" // last\n]}}",
            "{\"permissions\": {\"allow\": [\n\"A\",\n// \"B\",\n]}, \"limits\": {\"result\": 1}}",
            "{\"permissions\": {\"allow\": [{\"rule\": \"A\", /* x */ \"why\": \"// no \\\" comment\"}, \"A\"]}}",
            "{\r\n\r\n\"permissions\": {},\r\n\r\n// end\r\n}",
            "{\"permissions\": {\"mode\": \"ask\" /* \u{1F600} */}, \"hooks\": {\"\": null}}",
        ] {
            for (key, edit) in [
                ("permissions.allow", ValueEdit::Add(json!("New"))),
                ("permissions.allow", ValueEdit::Add(json!({"rule": "New", "match": ["x"]}))),
                ("permissions.allow", ValueEdit::Remove(json!("A"))),
                ("permissions.allow", ValueEdit::Set(json!([]))),
                ("permissions.allow", ValueEdit::Unset),
                ("permissions.mode", ValueEdit::Set(json!("plan"))),
                ("permissions", ValueEdit::Unset),
                ("limits", ValueEdit::Set(json!({"result": "1kb", "file-size": 7}))),
                ("limits.result", ValueEdit::Unset),
                (
                    "mcpServers.a.env.\u{1F600}\"\\\n",
                    ValueEdit::Set(json!("\u{0}\u{1b}\"\\\n\u{2028}")),
                ),
            ] {
                let key: Vec<&str> = key.split('.').collect();
                let edited = apply(text, &key, &edit);
                assert!(edited.is_ok(), "{edit:?} of {key:?} in {text}: {edited:?}");
                let comments =
                    |text: &str| text.matches("// end").count() + text.matches("// after").count();
                if let Ok(Some(new)) = edited {
                    assert_eq!(comments(&new), comments(text), "{new}");
                    assert_eq!(apply(&new, &key, &edit), Ok(None), "twice is once: {new}");
                }
            }
        }
    }

    #[test]
    fn line_endings_and_bom_are_kept() {
        check(
            "\u{FEFF}{\r\n  \"a\": 1, // x\r\n  \"b\": 2\r\n}\r\n",
            "c",
            ValueEdit::Set(json!(true)),
            Ok(Some("\u{FEFF}{\r\n  \"a\": 1, // x\r\n  \"b\": 2,\r\n  \"c\": true\r\n}\r\n")),
        );
    }

    #[test]
    fn explained_rule_is_found_by_its_rule_text() {
        let text = "{\"l\": [{\"rule\": \"Read\", \"why\": \"x\"}, \"Grep\"]}";
        check(text, "l", ValueEdit::Add(json!("Read")), Ok(None));
        check(text, "l", ValueEdit::Remove(json!("Read")), Ok(Some("{\"l\": [ \"Grep\"]}")));
    }

    #[test]
    fn non_object_and_non_list_are_reported() {
        let text = "{\"a\": 1, \"b\": {\"c\": []}}";
        check(
            text,
            "a.b",
            ValueEdit::Set(json!(1)),
            Err(SettingsEditError::NotAnObject("a".to_owned())),
        );
        check(
            text,
            "a",
            ValueEdit::Add(json!(1)),
            Err(SettingsEditError::NotAList("a".to_owned())),
        );
        check(
            text,
            "b.c.d",
            ValueEdit::Unset,
            Err(SettingsEditError::NotAnObject("b.c".to_owned())),
        );
    }
}
