//! Any JSON against any of a few schemas: no panic, every refusal says why, and what was accepted
//! is accepted again, unchanged.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Value, json};
use zero_runtime::schema::InputSchema;

static SCHEMAS: LazyLock<Vec<InputSchema>> = LazyLock::new(|| {
    let flat = json!({
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "minLength": 1},
            "offset": {"type": "integer", "minimum": 1},
            "mode": {"type": "string", "enum": ["content", "count"]},
            "all": {"type": "boolean"},
        },
        "required": ["file_path"],
        "additionalProperties": false,
    });
    let nested = json!({
        "type": "object",
        "properties": {
            "paths": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "edits": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["replace", "insert"]},
                    "line": {"type": "integer", "minimum": 1},
                    "deeper": {"type": "object", "properties": {"limit": {"type": "number"}}},
                },
                "required": ["type"],
                "additionalProperties": false,
            }},
        },
        "additionalProperties": false,
    });
    let builtin =
        zero_tools::builtin_tools().into_iter().map(|tool| tool.spec().input_schema.clone());
    [flat, nested, json!({}), json!({"type": "object"})]
        .into_iter()
        .chain(builtin)
        .map(InputSchema::new)
        .collect()
});

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return Corpus::Reject };
    for schema in SCHEMAS.iter() {
        match schema.check(input.clone()) {
            Ok(accepted) => {
                let again = schema.check(accepted.clone());
                assert_eq!(
                    again.as_ref(),
                    Ok(&accepted),
                    "accepted once, then not, under {}",
                    schema.as_value()
                );
            }
            Err(violations) => {
                assert!(!violations.is_empty(), "refused without a reason");
                for violation in violations {
                    assert!(
                        violation.pointer.is_empty() || violation.pointer.starts_with('/'),
                        "{violation:?}"
                    );
                    assert!(
                        !violation.expected.is_empty() && !violation.found.is_empty(),
                        "{violation:?}"
                    );
                }
            }
        }
    }
    Corpus::Keep
});
