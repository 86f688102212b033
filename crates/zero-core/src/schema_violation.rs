//! What is wrong with an input, one entry per wrong place.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One place in an input that does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaViolation {
    /// JSON pointer to the place; empty for the whole input.
    pub pointer: String,
    /// What the schema wants there.
    pub expected: String,
    /// What stands there now, shortened.
    pub found: String,
    /// The field most likely meant, when a name is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl SchemaViolation {
    /// A place where `expected` should stand and `found` does.
    pub fn new(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            pointer: pointer.into(),
            expected: expected.into(),
            found: found.into(),
            nearest: None,
        }
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the input" } else { &self.pointer };
        write!(f, "{place}: expected {}, found {}", self.expected, self.found)?;
        match &self.nearest {
            Some(name) => write!(f, " (did you mean `{name}`?)"),
            None => Ok(()),
        }
    }
}
