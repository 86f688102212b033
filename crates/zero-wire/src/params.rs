//! Validation of a method's parameters. [`parse_params`] checks them with the [`ParamsChecker`] of
//! their type and then deserializes them.
//!
//! Deserializing alone would refuse the same requests. But its errors do not say where the problem
//! is, do not cover length limits, and quote the input, which may be a token. The checker supports
//! only those JSON Schema keywords that occur in the schemas of zero's own types; a test ensures
//! that there are no others.

mod schema_rule;

use std::fmt;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use zero_core::text_shortening::excerpt;

use crate::error::ErrorPayload;
use crate::method::GatewayMethod;
use schema_rule::SchemaRule;

/// Maximum number of problems in one error message.
const PROBLEMS_MAX: usize = 8;
/// Maximum number of characters of a client's field name in an error message.
const NAME_LEN_MAX: usize = 64;

/// Reads the parameters of a method, or says what is wrong with them. Absent parameters are the
/// same as an empty object.
pub fn parse_params<M: GatewayMethod>(written: Option<Value>) -> Result<M::Params, ErrorPayload> {
    let written = match written {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(written) => written,
    };
    let refuse = |what: &str| ErrorPayload::invalid(format!("invalid {} params: {what}", M::NAME));
    M::checker().check(&written).map_err(|what| refuse(&what))?;
    // This cannot fail after the check. If it does, serde's message is not returned, because it
    // quotes the input.
    serde_json::from_value(written).map_err(|_| refuse("must match the schema"))
}

/// Validates JSON values against a schema.
#[derive(Debug)]
pub struct ParamsChecker {
    rule: SchemaRule,
    #[cfg(test)]
    schema: Value,
}

impl ParamsChecker {
    /// Creates the checker for the schema of a type.
    pub fn for_type<T: JsonSchema>() -> Self {
        let inline =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        Self::new(inline.into_generator().into_root_schema_for::<T>().to_value())
    }

    /// Creates the checker for a schema that has only [supported](Self::supports) keywords.
    pub fn new(schema: Value) -> Self {
        Self {
            rule: SchemaRule::from_schema(&schema),
            #[cfg(test)]
            schema,
        }
    }

    /// Whether the checker enforces every keyword of a schema, or may ignore it because it only
    /// describes.
    pub fn supports(schema: &Value) -> bool {
        SchemaRule::supports(schema)
    }

    /// Returns what is wrong with a value, in the wording of OpenClaw: `must have required property
    /// 'message'`, `at root: unexpected property 'zzz'`, `at /client/id: must be string`.
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

    fn add(&mut self, path: &ValuePath<'_>, what: &str) {
        if self.is_full() {
            return;
        }
        self.0.push(match path {
            ValuePath::Root => what.to_owned(),
            path => format!("at {path}: {what}"),
        });
    }

    fn add_unexpected(&mut self, path: &ValuePath<'_>, name: &str) {
        if self.is_full() {
            return;
        }
        let name = excerpt(name, NAME_LEN_MAX);
        self.0.push(match path {
            ValuePath::Root => format!("at root: unexpected property '{name}'"),
            path => format!("at {path}: unexpected property '{name}'"),
        });
    }
}

/// Position of a value, rendered as a JSON pointer only if there is a problem with it.
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
                write!(
                    f,
                    "{parent}/{}",
                    excerpt(&name.replace('~', "~0").replace('/', "~1"), NAME_LEN_MAX)
                )
            }
            Self::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

#[cfg(test)]
mod tests;
