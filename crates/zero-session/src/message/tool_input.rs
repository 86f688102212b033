//! The arguments of a tool call.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The arguments of a call as the model wrote them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolInput {
    /// Arguments that are not valid JSON; the model receives an error and no tool runs.
    Unreadable {
        /// The text.
        unreadable: String,
        /// The parse error.
        why: String,
    },
    /// Arguments that are valid JSON, not yet checked against the tool's schema.
    Json(JsonText),
}

impl ToolInput {
    /// Parses the arguments that a model streamed. An empty text means no arguments.
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::from(Value::Object(serde_json::Map::new()));
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Self::from(value),
            Err(error) => Self::Unreadable { unreadable: text.to_owned(), why: error.to_string() },
        }
    }
}

impl From<Value> for ToolInput {
    fn from(value: Value) -> Self {
        Self::Json(JsonText(value.to_string().into()))
    }
}

/// A JSON value stored as text. A transcript has thousands of them; each is written with every
/// request and rarely parsed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// The text, without insignificant whitespace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Parses the value.
    pub fn to_value(&self) -> Value {
        // The text was serialized by `serde_json`, so parsing cannot fail.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Value::deserialize(deserializer)?.to_string().into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_input_is_parsed_or_marked_unreadable() {
        for (text, kept) in [
            ("", "{}"),
            (" \n", "{}"),
            ("{ \"b\": 1, \"a\": [ 2 ] }", "{\"b\":1,\"a\":[2]}"),
            ("null", "null"),
            ("\"{\"", "\"{\""),
        ] {
            let ToolInput::Json(json) = ToolInput::parse(text) else { panic!("{text}") };
            assert_eq!(json.as_str(), kept);
            assert_eq!(json.is_object(), json.to_value().is_object());
        }
        for text in ["{", "{\"a\":1}}", "nul"] {
            let ToolInput::Unreadable { unreadable, why } = ToolInput::parse(text) else {
                panic!("{text}")
            };
            assert_eq!(unreadable, text);
            assert!(!why.is_empty());
        }
    }

    #[test]
    fn deeply_nested_json_round_trips() {
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        let ToolInput::Json(json) = ToolInput::parse(&deep) else { panic!("it can be read") };
        assert_eq!((json.as_str(), json.to_value().to_string()), (deep.as_str(), deep.clone()));
    }

    proptest! {
        #[test]
        fn it_is_written_as_the_value_that_it_is(
            name in ".*", text in ".*", eighths in any::<i32>(), whole in any::<i64>(),
        ) {
            let value = json!({name: [text, f64::from(eighths) / 8.0, whole, null, true, {}]});
            let input = ToolInput::from(value.clone());
            prop_assert_eq!(serde_json::to_value(&input).unwrap(), value.clone());
            let read: ToolInput = serde_json::from_value(value).unwrap();
            prop_assert_eq!(read, input);
        }
    }
}
