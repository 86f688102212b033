//! [`SchemaRule`], a JSON schema compiled once, so that checking a list of ten thousand items does
//! not look up the keywords of the schema for each of them.

use serde_json::{Map, Value};

use super::{SchemaProblems, ValuePath};

/// Keywords that a rule enforces, besides those that contain schemas.
const ENFORCED_KEYWORDS: [&str; 10] = [
    "type",
    "const",
    "enum",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "required",
];
/// Keywords that only describe. `format` sets the range of integers.
const DESCRIPTIVE_KEYWORDS: [&str; 5] = ["$schema", "title", "description", "default", "format"];

/// What a schema demands of a value. The default demands nothing.
#[derive(Debug, Default)]
pub(super) struct SchemaRule {
    alternatives: Vec<SchemaRule>,
    /// The allowed types; any if empty.
    types: Vec<JsonType>,
    constant: Option<Value>,
    choices: Option<Vec<Value>>,
    length: ValueBounds<u64>,
    range: ValueBounds<i128>,
    item_count: ValueBounds<u64>,
    items: Option<Box<SchemaRule>>,
    required: Vec<String>,
    fields: Vec<(String, SchemaRule)>,
    extra_fields: ExtraFieldsRule,
}

#[derive(Debug, Default)]
struct ValueBounds<T> {
    least: Option<T>,
    most: Option<T>,
}

/// What to do with fields that the schema does not name.
#[derive(Debug, Default)]
enum ExtraFieldsRule {
    #[default]
    Allowed,
    Rejected,
    Checked(Box<SchemaRule>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    String,
    Integer,
    Number,
    Array,
    Object,
}

impl SchemaRule {
    /// Compiles a schema. The recursion is as deep as the schema, which is fixed.
    pub(super) fn from_schema(schema: &Value) -> Self {
        // `true` is the schema that allows every value.
        let Some(schema) = schema.as_object() else { return Self::default() };
        let list = |word: &str| schema.get(word).and_then(Value::as_array);
        let number = |word: &str| schema.get(word).and_then(Value::as_u64);
        let bounds =
            |least: &str, most: &str| ValueBounds { least: number(least), most: number(most) };
        let alternatives = list("oneOf").or_else(|| list("anyOf")).into_iter().flatten();
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = list("required").into_iter().flatten().filter_map(Value::as_str);
        Self {
            alternatives: alternatives.map(Self::from_schema).collect(),
            types: read_types(schema),
            constant: schema.get("const").cloned(),
            choices: list("enum").cloned(),
            length: bounds("minLength", "maxLength"),
            range: read_range(schema),
            item_count: bounds("minItems", "maxItems"),
            items: schema.get("items").map(|items| Box::new(Self::from_schema(items))),
            required: required.map(str::to_owned).collect(),
            fields: fields.map(|(name, field)| (name.clone(), Self::from_schema(field))).collect(),
            extra_fields: match schema.get("additionalProperties") {
                None | Some(Value::Bool(true)) => ExtraFieldsRule::Allowed,
                Some(Value::Bool(false)) => ExtraFieldsRule::Rejected,
                Some(others) => ExtraFieldsRule::Checked(Box::new(Self::from_schema(others))),
            },
        }
    }

    /// Whether the rule enforces every keyword of the schema, except for those that only describe.
    pub(super) fn supports(schema: &Value) -> bool {
        let Some(schema) = schema.as_object() else { return schema == &Value::Bool(true) };
        // Only whole numbers are compared.
        let bounds: Vec<&Value> =
            ["minimum", "maximum"].iter().filter_map(|word| schema.get(*word)).collect();
        let is_whole = |kind: &JsonType| matches!(kind, JsonType::Integer | JsonType::Null);
        let (types, is_bounded) = (read_types(schema), !bounds.is_empty());
        if is_bounded && (types.is_empty() || !types.iter().all(is_whole))
            || !bounds.into_iter().all(|bound| as_integer(bound).is_some())
        {
            return false;
        }
        schema.iter().all(|(word, value)| match (word.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values().all(Self::supports),
            ("oneOf", Value::Array(_)) if schema.contains_key("anyOf") => false,
            ("oneOf" | "anyOf", Value::Array(alternatives)) => {
                alternatives.iter().all(Self::supports)
            }
            ("additionalProperties", Value::Bool(_)) => true,
            ("items" | "additionalProperties", one) => Self::supports(one),
            (word, _) => ENFORCED_KEYWORDS.contains(&word) || DESCRIPTIVE_KEYWORDS.contains(&word),
        })
    }

    /// Adds what is wrong with `value` to `problems`. The recursion is as deep as the schema, which
    /// is fixed.
    pub(super) fn check(&self, value: &Value, path: &ValuePath<'_>, problems: &mut SchemaProblems) {
        #[cfg(test)]
        VISITED.with(|visited| visited.set(visited.get() + 1));
        if !self.alternatives.is_empty() {
            self.check_alternatives(value, path, problems);
        }
        if !self.check_type(value, path, problems) {
            return;
        }
        if self.constant.as_ref().is_some_and(|constant| constant != value) {
            problems.add(path, "must be equal to constant");
        }
        if self.choices.as_ref().is_some_and(|choices| !choices.contains(value)) {
            problems.add(path, "must be equal to one of the allowed values");
        }
        match value {
            Value::String(text) => self.check_text(text, path, problems),
            Value::Number(_) => self.check_number(value, path, problems),
            Value::Array(items) => self.check_items(items, path, problems),
            Value::Object(fields) => self.check_fields(fields, path, problems),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_alternatives(
        &self,
        value: &Value,
        path: &ValuePath<'_>,
        problems: &mut SchemaProblems,
    ) {
        let fits = |rule: &Self| {
            let mut own = SchemaProblems::default();
            rule.check(value, path, &mut own);
            own.0.is_empty()
        };
        if self.alternatives.iter().any(fits) {
            return;
        }
        let is_real = |rule: &&Self| rule.types != [JsonType::Null];
        let real: Vec<&Self> = self.alternatives.iter().filter(is_real).collect();
        match real.as_slice() {
            // An optional value: report its problem rather than that it is not null either.
            [only] => only.check(value, path, problems),
            many if many.iter().all(|rule| rule.is_text()) => {
                let what = if value.is_string() {
                    "must be equal to one of the allowed values"
                } else {
                    "must be string"
                };
                problems.add(path, what);
            }
            _ => problems.add(path, "must match exactly one schema in oneOf"),
        }
    }

    /// Whether only strings match.
    fn is_text(&self) -> bool {
        self.constant.as_ref().is_some_and(Value::is_string) || self.types == [JsonType::String]
    }

    /// Reports a wrong type, and returns whether the type is right.
    fn check_type(
        &self,
        value: &Value,
        path: &ValuePath<'_>,
        problems: &mut SchemaProblems,
    ) -> bool {
        if self.types.is_empty() || self.types.iter().any(|kind| kind.matches(value)) {
            return true;
        }
        // `null` is allowed for every optional field, so it is not mentioned.
        let expected = self.types.iter().filter(|kind| **kind != JsonType::Null);
        let expected: Vec<&str> = expected.map(|kind| kind.name()).collect();
        problems.add(path, &format!("must be {}", expected.join(",")));
        false
    }

    fn check_text(&self, text: &str, path: &ValuePath<'_>, problems: &mut SchemaProblems) {
        let ValueBounds { least, most } = self.length;
        if least.is_none() && most.is_none() {
            return;
        }
        let length = text.chars().count() as u64;
        if let Some(least) = least.filter(|least| length < *least) {
            problems.add(path, &format!("must NOT have fewer than {least} characters"));
        }
        if let Some(most) = most.filter(|most| length > *most) {
            problems.add(path, &format!("must NOT have more than {most} characters"));
        }
    }

    fn check_number(&self, value: &Value, path: &ValuePath<'_>, problems: &mut SchemaProblems) {
        let Some(number) = as_integer(value) else { return };
        if let Some(least) = self.range.least.filter(|least| number < *least) {
            problems.add(path, &format!("must be >= {least}"));
        }
        if let Some(most) = self.range.most.filter(|most| number > *most) {
            problems.add(path, &format!("must be <= {most}"));
        }
    }

    fn check_items(&self, items: &[Value], path: &ValuePath<'_>, problems: &mut SchemaProblems) {
        let count = items.len() as u64;
        if let Some(least) = self.item_count.least.filter(|least| count < *least) {
            problems.add(path, &format!("must NOT have fewer than {least} items"));
        }
        if let Some(most) = self.item_count.most.filter(|most| count > *most) {
            // The items are not checked, so a list that is too long costs nothing.
            return problems.add(path, &format!("must NOT have more than {most} items"));
        }
        let Some(rule) = &self.items else { return };
        for (index, item) in items.iter().enumerate() {
            if problems.is_full() {
                return;
            }
            rule.check(item, &ValuePath::Item(path, index), problems);
        }
    }

    fn check_fields(
        &self,
        params: &Map<String, Value>,
        path: &ValuePath<'_>,
        problems: &mut SchemaProblems,
    ) {
        for name in &self.required {
            if !params.contains_key(name) {
                problems.add(path, &format!("must have required property '{name}'"));
            }
        }
        if !matches!(self.extra_fields, ExtraFieldsRule::Allowed) {
            let is_known = |name: &str| self.fields.iter().any(|(known, _)| known == name);
            for (name, field) in params.iter().filter(|(name, _)| !is_known(name)) {
                if problems.is_full() {
                    return;
                }
                match &self.extra_fields {
                    ExtraFieldsRule::Allowed => {}
                    ExtraFieldsRule::Rejected => problems.add_unexpected(path, name),
                    ExtraFieldsRule::Checked(rule) => {
                        rule.check(field, &ValuePath::Field(path, name), problems);
                    }
                }
            }
        }
        for (name, rule) in &self.fields {
            if let Some(field) = params.get(name) {
                rule.check(field, &ValuePath::Field(path, name), problems);
            }
        }
    }
}

fn read_types(schema: &Map<String, Value>) -> Vec<JsonType> {
    match schema.get("type") {
        Some(Value::String(name)) => JsonType::from_name(name).into_iter().collect(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).filter_map(JsonType::from_name).collect()
        }
        _ => Vec::new(),
    }
}

fn read_range(schema: &Map<String, Value>) -> ValueBounds<i128> {
    let by_format = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => Some((0, i128::from(u8::MAX))),
        Some("uint16") => Some((0, i128::from(u16::MAX))),
        Some("uint32") => Some((0, i128::from(u32::MAX))),
        Some("uint64") => Some((0, i128::from(u64::MAX))),
        Some("int64") => Some((i128::from(i64::MIN), i128::from(i64::MAX))),
        _ => None,
    };
    ValueBounds {
        least: schema.get("minimum").and_then(as_integer).or(by_format.map(|(least, _)| least)),
        most: schema.get("maximum").and_then(as_integer).or(by_format.map(|(_, most)| most)),
    }
}

/// An integer, wide enough for every integer that serde_json reads.
fn as_integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

impl JsonType {
    const ALL: [Self; 7] = [
        Self::Null,
        Self::Boolean,
        Self::String,
        Self::Integer,
        Self::Number,
        Self::Array,
        Self::Object,
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Number of values that were checked on this thread.
    pub(super) static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
