//! The JSON Schema that a final answer must fit.

use std::sync::Arc;

use serde_json::Value;
use zero_core::text_shortening::shorten_end;
use zero_runtime::schema::InputSchema;
use zero_runtime::schema::foreign_schema;

/// Violations that a correction names.
const VIOLATIONS_MAX: usize = 5;
/// Characters of an error of the JSON parser.
const PARSE_ERROR_CHARS_MAX: usize = 200;

/// A schema that was found usable.
#[derive(Clone, Debug)]
pub struct OutputSchema(Arc<InputSchema>);

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.as_value() == other.as_value()
    }
}

impl OutputSchema {
    /// Checks a schema. The error completes the sentence "the schema …".
    pub fn new(schema: Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("is not a JSON object".to_owned());
        }
        foreign_schema::check_usable(&schema)?;
        Ok(Self(Arc::new(InputSchema::new(schema))))
    }

    /// The schema.
    pub fn as_value(&self) -> &Value {
        self.0.as_value()
    }

    /// The schema, if providers accept it for structured output: that of an object.
    pub(crate) fn as_object_schema(&self) -> Option<&Value> {
        let schema = self.as_value();
        (schema.get("type").and_then(Value::as_str) == Some("object")).then_some(schema)
    }

    /// What the system prompt says about it.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "\n\nForm of your final answer\nWhen you are done, answer with one JSON value that fits this JSON \
             Schema, and with nothing else: no other text, no Markdown.\n{}\n",
            self.as_value()
        )
    }

    /// The value of an answer. The error says what is wrong with it.
    pub fn parse_answer(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(strip_fence(answer.trim())).map_err(|error| {
            let error = shorten_end(&error.to_string(), PARSE_ERROR_CHARS_MAX);
            format!("it is not JSON: {error}")
        })?;
        self.0.check_exactly(&value).map_err(|violations| {
            let shown = violations.iter().take(VIOLATIONS_MAX).map(|violation| {
                let place = match violation.pointer.as_str() {
                    "" => "the value",
                    pointer => pointer,
                };
                format!("{place}: expected {}, found {}", violation.expected, violation.found)
            });
            let shown = shown.collect::<Vec<_>>().join("; ");
            match violations.len().saturating_sub(VIOLATIONS_MAX) {
                0 => shown,
                more => format!("{shown}; and {more} more"),
            }
        })?;
        Ok(value)
    }
}

/// The text within a Markdown code block, if the answer is one.
fn strip_fence(answer: &str) -> &str {
    let inside = || {
        let (_, after) = answer.strip_prefix("```")?.split_once('\n')?;
        after.trim_end().strip_suffix("```")
    };
    inside().unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> OutputSchema {
        let schema = json!({"type": "object", "required": ["bugs"], "additionalProperties": false,
            "properties": {"bugs": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}}});
        OutputSchema::new(schema).unwrap()
    }

    #[track_caller]
    fn check(answer: &str, expected: Result<Value, &str>) {
        match (schema().parse_answer(answer), expected) {
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{answer}: {error}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{answer}"),
        }
    }

    #[test]
    fn answer_must_be_json_that_fits() {
        check(r#" {"bugs": ["a"]} "#, Ok(json!({"bugs": ["a"]})));
        check("```json\n{\"bugs\": []}\n```", Ok(json!({"bugs": []})));
        check("Here: {\"bugs\": []}", Err("it is not JSON: expected value"));
        check(r#"{"bugs": "a"}"#, Err("/bugs: expected"));
        check("{}", Err("/bugs: expected"));
        // Nothing is dropped to make it fit.
        check(r#"{"bugs": [], "note": null}"#, Err("/note: expected"));
        let many = json!({"bugs": (0..9).collect::<Vec<_>>()}).to_string();
        check(&many, Err("; and 4 more"));
    }

    #[test]
    fn broken_schema_is_refused() {
        for (schema, why) in [
            (json!(true), "is not a JSON object"),
            (json!({"type": "strng"}), "is broken"),
            (json!({"$ref": "https://example.com/x.json"}), "does not fetch external schemas"),
        ] {
            let error = OutputSchema::new(schema).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
