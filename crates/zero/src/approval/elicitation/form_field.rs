//! One field of a form: its prompt and the values it accepts.

use std::fmt::Write as _;

use serde_json::Value;
use zero_core::text_shortening::shorten_end;
use zero_runtime::schema::{InputSchema, TextFormat};

use crate::terminal::choice_list::ChoiceCount;
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line};

/// Largest number of choices.
const CHOICES_MAX: usize = 200;
/// Longest description shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// One field of a form.
pub(super) struct ElicitationField {
    /// Name in the answer that is sent.
    pub(super) name: String,
    title: Option<String>,
    description: Option<String>,
    kind: ElicitationFieldKind,
    format: Option<TextFormat>,
    default: Option<Value>,
    is_required: bool,
    schema: InputSchema,
}

/// Type of the value.
enum ElicitationFieldKind {
    Text,
    Number,
    Integer,
    YesNo,
    /// Exactly one of the choices that the schema lists.
    SingleChoice(Vec<FieldChoice>),
    /// Any number of the choices.
    MultiChoice(Vec<FieldChoice>),
}

/// A choice and its title.
struct FieldChoice {
    value: String,
    title: String,
}

impl ElicitationField {
    /// Creates a field from its schema; the error is the reason why it cannot be shown.
    pub(super) fn from_schema(
        name: &str,
        schema: &Value,
        is_required: bool,
    ) -> Result<Self, String> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
        let shown = shorten_end(name, 80);
        let kind = parse_kind(schema).ok_or_else(|| {
            format!("the field `{shown}` is not a text, a number, a yes/no question or a choice")
        })?;
        if let ElicitationFieldKind::SingleChoice(choices)
        | ElicitationFieldKind::MultiChoice(choices) = &kind
            && (choices.is_empty() || choices.len() > CHOICES_MAX)
        {
            return Err(format!("the field `{shown}` has no choices, or more than {CHOICES_MAX}"));
        }
        let checker = InputSchema::new(schema.clone());
        let default = schema.get("default").filter(|value| checker.check((*value).clone()).is_ok());
        Ok(Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            kind,
            format: TextFormat::of_schema(schema),
            default: default.cloned(),
            is_required,
            schema: checker,
        })
    }

    /// Title of the field, or else its name.
    pub(super) fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Formats a value for display: a choice by its title, other values as typed.
    pub(super) fn format_value(&self, value: &Value) -> String {
        let choices = self.choices();
        let named = |value: &Value| {
            let meant = choices.iter().find(|choice| value == choice.value.as_str());
            meant.map_or_else(|| to_plain_text(value), |choice| choice.title.clone())
        };
        let answer = match value {
            Value::Array(values) => values.iter().map(named).collect::<Vec<_>>().join("; "),
            value => named(value),
        };
        escape_line(&answer).into_owned()
    }

    /// Renders the title, the description and the choices.
    pub(super) fn render_description(&self, stream: &TerminalStream) -> String {
        let mut text = format!("\n  {}", stream.paint(STRONG, &escape_line(self.title())));
        if let Some(description) = &self.description {
            let description = shorten_end(description, DESCRIPTION_CHARS_MAX);
            let _ = write!(text, "  {}", stream.paint(FAINT, &escape_line(&description)));
        }
        text.push('\n');
        text
    }

    /// Whether a text without given values is wanted.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, ElicitationFieldKind::Text)
    }

    /// Whether the value is one of the choices.
    pub(super) fn has_choice(&self, value: &str) -> bool {
        self.choices().iter().any(|choice| choice.value == value)
    }

    fn choices(&self) -> &[FieldChoice] {
        match &self.kind {
            ElicitationFieldKind::SingleChoice(choices)
            | ElicitationFieldKind::MultiChoice(choices) => choices,
            ElicitationFieldKind::Text
            | ElicitationFieldKind::Number
            | ElicitationFieldKind::Integer
            | ElicitationFieldKind::YesNo => &[],
        }
    }

    /// The options to choose from; `None` if a value is typed. A field that may be left out has an
    /// option for that, unless the form `can_be_declined` as a whole.
    pub(super) fn options(&self, can_be_declined: bool) -> Option<FieldOptions> {
        let values: Vec<Value> = match &self.kind {
            ElicitationFieldKind::YesNo => vec![Value::Bool(true), Value::Bool(false)],
            ElicitationFieldKind::SingleChoice(choices)
            | ElicitationFieldKind::MultiChoice(choices) => {
                choices.iter().map(|choice| Value::from(choice.value.as_str())).collect()
            }
            ElicitationFieldKind::Text
            | ElicitationFieldKind::Number
            | ElicitationFieldKind::Integer => return None,
        };
        let is_many = matches!(self.kind, ElicitationFieldKind::MultiChoice(_));
        let mut titles: Vec<String> = match &self.kind {
            ElicitationFieldKind::YesNo => vec!["yes".to_owned(), "no".to_owned()],
            _ => self.choices().iter().map(|choice| choice.title.clone()).collect(),
        };
        let preset = match &self.default {
            Some(Value::Array(chosen)) => {
                values.iter().enumerate().filter(|(_, value)| chosen.contains(value)).collect()
            }
            Some(one) => values.iter().enumerate().filter(|(_, value)| *value == one).collect(),
            None => Vec::new(),
        };
        let preset: Vec<usize> = preset.into_iter().map(|(at, _)| at).collect();
        let count = if is_many { ChoiceCount::Many } else { ChoiceCount::One };
        if !is_many && !self.is_required && !can_be_declined {
            // It has no value.
            titles.push("(skip)".to_owned());
        }
        Some(FieldOptions { titles, values, count, preset })
    }

    /// The value that the chosen options stand for; `None` if the field is left out.
    pub(super) fn value_of_options(
        &self,
        options: &FieldOptions,
        chosen: &[usize],
    ) -> Result<Option<Value>, String> {
        let mut values: Vec<Value> =
            chosen.iter().filter_map(|at| options.values.get(*at).cloned()).collect();
        let value = match options.count {
            ChoiceCount::Many if values.is_empty() && !self.is_required => return Ok(None),
            ChoiceCount::Many => Value::Array(values),
            ChoiceCount::One => match values.pop() {
                Some(value) => value,
                None => return Ok(None),
            },
        };
        self.check_value(value)
    }

    /// What can be typed, for the line above the input.
    pub(super) fn describe_input(&self) -> String {
        let wanted = match (&self.kind, self.format) {
            (ElicitationFieldKind::Number, _) => "a number",
            (ElicitationFieldKind::Integer, _) => "a whole number",
            (_, Some(format)) => format.describe(),
            (_, None) => "text",
        };
        match (&self.default, self.is_required) {
            (Some(default), _) => format!("{wanted}; Enter for {}", to_plain_text(default)),
            (None, true) => wanted.to_owned(),
            (None, false) => format!("{wanted}; Enter to skip"),
        }
    }

    /// Parses an input line; `None` if the field is omitted.
    pub(super) fn parse_input(&self, typed: &str) -> Result<Option<Value>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match (&self.default, self.is_required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => {
                    Err("a value is required; enter one, or press Esc to decline".to_owned())
                }
            };
        }
        let value = self.parse_value(typed)?;
        self.check_value(value)
    }

    fn check_value(&self, value: Value) -> Result<Option<Value>, String> {
        self.schema.check(value).map(Some).map_err(|violations| {
            let first = violations.first();
            first.map_or_else(String::new, |found| format!("enter {}", found.expected))
        })
    }

    fn parse_value(&self, typed: &str) -> Result<Value, String> {
        match &self.kind {
            ElicitationFieldKind::Text => match self.format {
                Some(format) if !format.fits(typed) => {
                    Err(format!("`{typed}` is not {}", format.describe()))
                }
                _ => Ok(Value::from(typed)),
            },
            ElicitationFieldKind::Number => match typed.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::from(number)),
                _ => Err(format!("`{typed}` is not a number")),
            },
            ElicitationFieldKind::Integer => typed
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| format!("`{typed}` is not a whole number")),
            ElicitationFieldKind::YesNo
            | ElicitationFieldKind::SingleChoice(_)
            | ElicitationFieldKind::MultiChoice(_) => Err("choose one of the options".to_owned()),
        }
    }
}

/// Options of a field, as a list shows them.
pub(super) struct FieldOptions {
    pub(super) titles: Vec<String>,
    /// The values of the titles, in the same order.
    values: Vec<Value>,
    pub(super) count: ChoiceCount,
    /// The options that are chosen at first.
    pub(super) preset: Vec<usize>,
}

/// Type of value that a schema describes.
fn parse_kind(schema: &Value) -> Option<ElicitationFieldKind> {
    let of_type = schema.get("type").and_then(Value::as_str);
    match of_type? {
        "string" => Some(
            parse_choices(schema)
                .map_or(ElicitationFieldKind::Text, ElicitationFieldKind::SingleChoice),
        ),
        "number" => Some(ElicitationFieldKind::Number),
        "integer" => Some(ElicitationFieldKind::Integer),
        "boolean" => Some(ElicitationFieldKind::YesNo),
        "array" => parse_choices(schema.get("items")?).map(ElicitationFieldKind::MultiChoice),
        _ => None,
    }
}

/// `enum`, with or without `enumNames`, or `oneOf` and `anyOf` with `const` and `title`.
fn parse_choices(schema: &Value) -> Option<Vec<FieldChoice>> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let titles = list("enumNames").cloned().unwrap_or_default();
        let choice = |(index, value): (usize, &Value)| {
            let value = value.as_str()?.to_owned();
            let title = titles.get(index).and_then(Value::as_str).unwrap_or(&value).to_owned();
            Some(FieldChoice { value, title })
        };
        return values.iter().enumerate().map(choice).collect();
    }
    let titled = list("oneOf").or_else(|| list("anyOf"))?;
    let choice = |one: &Value| {
        let value = one.get("const")?.as_str()?.to_owned();
        let title = one.get("title").and_then(Value::as_str).unwrap_or(&value).to_owned();
        Some(FieldChoice { value, title })
    };
    titled.iter().map(choice).collect()
}

/// Formats a default value as the user would type it.
fn to_plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
