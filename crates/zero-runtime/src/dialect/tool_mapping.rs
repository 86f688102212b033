//! The form of a dialect's table.

use serde_json::{Map, Value, json};
use zero_core::{SchemaViolation, TimeoutClass};

/// The fields of an object.
type JsonFields = Map<String, Value>;

/// One tool of a dialect.
#[derive(Debug)]
pub(super) struct ToolMapping {
    /// Its name in the dialect.
    pub(super) name: &'static str,
    /// The canonical tool it is.
    pub(super) canonical: &'static str,
    /// What it does, for the model.
    pub(super) about: &'static str,
    /// The fields that a caller may set, with their canonical counterparts.
    pub(super) fields: &'static [FieldMapping],
    /// Canonical fields that are set unless the caller can set them and does.
    pub(super) fixed: &'static [(&'static str, FixedValue)],
    /// What the platform says instead of showing a change that was made; file and size follow.
    pub(super) done: Option<&'static str>,
    /// The deadline that the platform gives it, if that is not the tool's own.
    pub(super) timeout_class: Option<TimeoutClass>,
}

/// A value that is set unless the caller sets the same field.
#[derive(Debug)]
pub(super) enum FixedValue {
    Text(&'static str),
    Number(u64),
    True,
}

/// One field of a tool of a dialect.
#[derive(Debug)]
pub(super) struct FieldMapping {
    dialect_field: &'static str,
    field: &'static str,
    shape: FieldShape,
    required: bool,
    about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldShape {
    Text,
    Flag,
    /// A count, declared as `integer`.
    Count,
    /// A count, declared as `number`.
    Number,
    /// A number of lines, which may be zero.
    LineCount,
    /// A line number that the platform counts from zero.
    LineFromZero,
    Texts,
    /// Words that are quoted and appended to the text that another field has set.
    QuotedWords,
    /// An object of texts.
    TextMap,
    Edits,
    /// Things to do, as a task list has them.
    Todos,
    /// Steps of a plan.
    Steps,
    /// Questions with their options.
    Questions,
    /// Whose notes: of everything, or of the project.
    NoteScope,
}

/// A tool of a dialect that sets nothing by itself.
pub(super) const fn map_tool(
    name: &'static str,
    canonical: &'static str,
    about: &'static str,
    fields: &'static [FieldMapping],
) -> ToolMapping {
    ToolMapping { name, canonical, about, fields, fixed: &[], done: None, timeout_class: None }
}

/// The same with canonical fields that are set unless the caller sets them.
pub(super) const fn with_fixed(
    fixed: &'static [(&'static str, FixedValue)],
    line: ToolMapping,
) -> ToolMapping {
    ToolMapping { fixed, ..line }
}

/// The same with what the platform says instead of showing a change.
pub(super) const fn with_done_message(done: &'static str, line: ToolMapping) -> ToolMapping {
    ToolMapping { done: Some(done), ..line }
}

/// The same with the deadline of another class.
pub(super) const fn with_timeout_class(class: TimeoutClass, line: ToolMapping) -> ToolMapping {
    ToolMapping { timeout_class: Some(class), ..line }
}

/// A field that must be there.
pub(super) const fn required_field(
    dialect_field: &'static str,
    field: &'static str,
    shape: FieldShape,
    about: &'static str,
) -> FieldMapping {
    FieldMapping { dialect_field, field, shape, required: true, about }
}

/// A field that may be left out.
pub(super) const fn optional_field(
    dialect_field: &'static str,
    field: &'static str,
    shape: FieldShape,
    about: &'static str,
) -> FieldMapping {
    FieldMapping { dialect_field, field, shape, required: false, about }
}

impl ToolMapping {
    /// The schema the model sees.
    pub(super) fn schema(&self) -> Value {
        let mut properties = JsonFields::new();
        for field in self.fields {
            let mut schema = field.shape.schema();
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), field.about.into());
            }
            properties.insert(field.dialect_field.to_owned(), schema);
        }
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.dialect_field)
            .collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Turns fields that fit the schema into canonical ones.
    pub(super) fn to_canonical(&self, mut theirs: JsonFields) -> JsonFields {
        let mut ours = JsonFields::new();
        for field in self.fields {
            let Some(value) = theirs.remove(field.dialect_field) else { continue };
            match (field.shape, ours.get_mut(field.field)) {
                (FieldShape::QuotedWords, Some(Value::String(line))) => {
                    append_words(line, &value);
                }
                // Of two names for one field, the first in the table counts.
                (_, Some(_)) => {}
                (shape, None) => {
                    ours.insert(field.field.to_owned(), shape.to_canonical(value));
                }
            }
        }
        for (name, value) in self.fixed {
            let value = match value {
                FixedValue::Text(text) => Value::from(*text),
                FixedValue::Number(number) => Value::from(*number),
                FixedValue::True => Value::from(true),
            };
            ours.entry(*name).or_insert(value);
        }
        ours
    }

    /// Whether a canonical field can be set.
    pub(super) fn has_field(&self, ours: &str) -> bool {
        self.fields.iter().any(|field| field.field == ours)
    }

    /// The platform's name for a field that holds a line, and the number it gives the first one.
    pub(super) fn line_field(&self, ours: &str) -> Option<(&'static str, u64)> {
        let field = self.fields.iter().find(|field| field.field == ours)?;
        let first = if matches!(field.shape, FieldShape::LineFromZero) { 0 } else { 1 };
        Some((field.dialect_field, first))
    }

    /// Says violations of the canonical schema in the caller's field names.
    pub(super) fn to_dialect_violations(
        &self,
        mut violations: Vec<SchemaViolation>,
    ) -> Vec<SchemaViolation> {
        for violation in &mut violations {
            for field in self.fields {
                if let Some(rest) = violation.pointer.strip_prefix(&format!("/{}", field.field))
                    && (rest.is_empty() || rest.starts_with('/'))
                {
                    violation.pointer = format!("/{}{rest}", field.dialect_field);
                    break;
                }
            }
        }
        violations
    }
}

impl FieldShape {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Count => json!({"type": "integer", "minimum": 1}),
            Self::Number => json!({"type": "number", "minimum": 1}),
            Self::LineFromZero | Self::LineCount => json!({"type": "integer", "minimum": 0}),
            Self::Texts | Self::QuotedWords => {
                json!({"type": "array", "items": {"type": "string"}})
            }
            Self::TextMap => {
                json!({"type": "object", "additionalProperties": {"type": "string"}})
            }
            Self::Edits => json!({"type": "array", "minItems": 1, "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["replace", "insert"], "description": "`replace` a text or `insert` one before a line"},
                    "oldText": {"type": "string", "description": "For replace: the exact text to replace; it must occur once"},
                    "newText": {"type": "string", "description": "The text to put there"},
                    "line": {"type": "integer", "minimum": 1, "description": "For insert: the line to put the text before, counted from 1; one past the last line appends"},
                },
                "required": ["type", "newText"],
                "additionalProperties": false,
            }}),
            Self::Todos => json!({"type": "array", "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "Any name for the entry"},
                    "content": {"type": "string", "description": "What is to be done"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"], "description": "Its status"},
                    "priority": {"type": "string", "enum": ["high", "medium", "low"], "description": "Its priority"},
                },
                "required": ["content", "status"],
                "additionalProperties": false,
            }}),
            Self::Questions => json!({"type": "array", "minItems": 1, "maxItems": 4, "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string", "minLength": 1, "description": "The whole question"},
                    "header": {"type": "string", "minLength": 1, "maxLength": 12, "description": "A short label, at most 12 characters"},
                    "options": {"type": "array", "minItems": 2, "maxItems": 4, "description": "Answers to choose from; the user can always enter another", "items": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string", "description": "The answer, in 1 to 5 words"},
                            "description": {"type": "string", "description": "What it means"},
                        },
                        "required": ["label", "description"],
                        "additionalProperties": false,
                    }},
                    "multiSelect": {"type": "boolean", "description": "Whether several may be chosen"},
                },
                "required": ["question", "header", "options"],
                "additionalProperties": false,
            }}),
            Self::NoteScope => json!({"type": "string", "enum": ["global", "project"]}),
            Self::Steps => json!({"type": "array", "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "string", "description": "What is to be done, in a few words"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"], "description": "Its status"},
                    "priority": {"type": "string", "enum": ["high", "medium", "low"], "description": "Its priority"},
                },
                "required": ["step", "status"],
                "additionalProperties": false,
            }}),
        }
    }

    fn to_canonical(self, value: Value) -> Value {
        match self {
            Self::LineFromZero => {
                value.as_u64().map_or(value, |line| line.saturating_add(1).into())
            }
            Self::Todos => with_active_forms(value),
            Self::NoteScope if value == "global" => "user".into(),
            Self::Steps
            | Self::Questions
            | Self::NoteScope
            | Self::Text
            | Self::Flag
            | Self::Count
            | Self::Number
            | Self::LineCount
            | Self::Texts
            | Self::QuotedWords
            | Self::TextMap
            | Self::Edits => value,
        }
    }
}

/// Appends words to a line for a shell, each in quotes, so that the shell passes them on unchanged.
fn append_words(line: &mut String, words: &Value) {
    // After a line break, the first word would be a command of its own.
    line.truncate(line.trim_end().len());
    for word in words.as_array().into_iter().flatten().filter_map(Value::as_str) {
        line.push_str(" '");
        line.push_str(&word.replace('\'', r"'\''"));
        line.push('\'');
    }
}

/// Things to do with what is said while each is done. Platforms that have no such words say the same
/// as before; the names they give entries mean nothing here.
fn with_active_forms(mut todos: Value) -> Value {
    for todo in todos.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        todo.shift_remove("id");
        let content = todo.get("content").cloned();
        todo.extend(content.map(|content| ("activeForm".to_owned(), content)));
    }
    todos
}
