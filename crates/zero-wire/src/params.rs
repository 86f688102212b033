//! Parameters of a method: checked against the schema of their type, then read.
//!
//! Reading alone would refuse the same requests, but would say neither where something is wrong
//! nor that a text is too long, and would quote what was sent, which may be a token. The checker
//! knows only the words of JSON Schema that zero's own types give rise to; a test holds it to that.

mod schema_rule;

use std::fmt;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::error::ErrorPayload;
use crate::method::GatewayMethod;
use schema_rule::SchemaRule;

/// Most problems that are told at once.
const PROBLEMS_MAX: usize = 8;
/// Most characters of a foreign name in an answer.
const NAME_LEN_MAX: usize = 64;

/// The parameters of a method, or what is wrong with them. Absent ones are an empty object.
pub fn parse_params<M: GatewayMethod>(written: Option<Value>) -> Result<M::Params, ErrorPayload> {
    let written = match written {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(written) => written,
    };
    let refuse = |what: &str| ErrorPayload::invalid(format!("invalid {} params: {what}", M::NAME));
    M::checker().check(&written).map_err(|what| refuse(&what))?;
    // What the checker lets through can be read. Should it ever not be so, the reader's own words
    // are kept back: they quote what was sent.
    serde_json::from_value(written).map_err(|_| refuse("must be as the schema says"))
}

/// Checks values against the schema of a type.
#[derive(Debug)]
pub struct ParamsChecker {
    rule: SchemaRule,
    #[cfg(test)]
    schema: Value,
}

impl ParamsChecker {
    /// The checker of a type.
    pub fn for_type<T: JsonSchema>() -> Self {
        let inline =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        Self::new(inline.into_generator().into_root_schema_for::<T>().to_value())
    }

    /// The checker of a schema in which there are only words that it [knows](Self::knows).
    pub fn new(schema: Value) -> Self {
        Self {
            rule: SchemaRule::from_schema(&schema),
            #[cfg(test)]
            schema,
        }
    }

    /// Whether a schema has only words that are obeyed here, or only describe.
    pub fn supports(schema: &Value) -> bool {
        SchemaRule::supports(schema)
    }

    /// What is wrong with a value, in the family's words: `must have required property 'message'`,
    /// `at root: unexpected property 'zzz'`, `at /client/id: must be string`.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let mut problems = SchemaProblems::default();
        self.rule.check(value, &ValuePath::Root, &mut problems);
        if problems.0.is_empty() { Ok(()) } else { Err(problems.0.join("; ")) }
    }

    #[cfg(test)]
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }
}

#[derive(Default)]
struct SchemaProblems(Vec<String>);

impl SchemaProblems {
    fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    fn add(&mut self, place: &ValuePath<'_>, what: &str) {
        if self.is_full() {
            return;
        }
        self.0.push(match place {
            ValuePath::Root => what.to_owned(),
            place => format!("at {place}: {what}"),
        });
    }

    fn add_unexpected(&mut self, place: &ValuePath<'_>, name: &str) {
        if self.is_full() {
            return;
        }
        let name = sanitize_name(name);
        self.0.push(match place {
            ValuePath::Root => format!("at root: unexpected property '{name}'"),
            place => format!("at {place}: unexpected property '{name}'"),
        });
    }
}

/// Where a value stands; written down only when something is wrong with it, as a JSON pointer.
enum ValuePath<'a> {
    Root,
    Field(&'a ValuePath<'a>, &'a str),
    Item(&'a ValuePath<'a>, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => {
                write!(f, "{parent}/{}", sanitize_name(&name.replace('~', "~0").replace('/', "~1")))
            }
            Self::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// A foreign name, short and without control characters.
fn sanitize_name(name: &str) -> String {
    let mut shown: String = name.chars().take(NAME_LEN_MAX).flat_map(char::escape_debug).collect();
    if name.chars().nth(NAME_LEN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
