//! Violations of an input schema, one per location.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One location in an input that violates its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaViolation {
    /// JSON pointer to the location; empty for the whole input.
    pub pointer: String,
    /// What the schema expects there.
    pub expected: String,
    /// The actual value, shortened.
    pub found: String,
    /// The most similar field name, if the name is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl SchemaViolation {
    /// A violation at `pointer`, with the expected and the actual value.
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

/// Appends a step, such as the name of a field, to a JSON pointer.
pub fn join_pointer(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_pointer_escapes_its_step() {
        assert_eq!(join_pointer("", "a"), "/a");
        assert_eq!(join_pointer("/a", "b/c~d"), "/a/b~1c~0d");
    }
}
