//! The arguments of a call, in a form that cannot end up in a log by accident.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The arguments of a call of a tool that zero does not know, which rules can match.
///
/// They may contain secrets, so `Debug` shows only their number, and they cannot be serialized.
#[derive(Clone)]
pub struct ToolArguments(Arc<Map<String, Value>>);

impl ToolArguments {
    /// The arguments exactly as the tool receives them.
    pub fn new(arguments: Map<String, Value>) -> Self {
        Self(Arc::new(arguments))
    }

    /// The arguments by their names.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl fmt::Debug for ToolArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolArguments({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn debug_shows_no_name_and_no_value() {
        let Value::Object(map) = json!({"hunter": "hunter2", "n": [1]}) else { unreachable!() };
        assert_eq!(format!("{:?}", ToolArguments::new(map)), "ToolArguments(2)");
    }
}
