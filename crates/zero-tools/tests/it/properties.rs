//! Properties that hold for any input of any tool in any dialect.

use proptest::prelude::*;
use serde_json::{Map, Value};
use zero_runtime::schema::InputSchema;
use zero_runtime::{Dialect, DialectName, ToolRegistry};
use zero_tools::tool_discovery::parse_declarations;

/// Generates any JSON, often with the field names and values of the tools.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e20..1e20).prop_map(Value::from),
        (0..5_u8).prop_map(|n| Value::from(f64::from(n))),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["replace", "insert", "content", "count", "*.rs", "a/b"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..6)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    let known = [
        "file_path",
        "path",
        "absolute_path",
        "content",
        "old_string",
        "new_string",
        "replace_all",
        "edits",
        "type",
        "oldText",
        "newText",
        "line",
        "offset",
        "limit",
        "pattern",
        "glob",
        "output_mode",
        "-i",
        "-A",
        "paths",
        "ignore",
        "include",
        "exclude",
        "query",
        "head_limit",
        "multiline",
        "backup",
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ]
}

fn full_registry() -> ToolRegistry {
    let registry = ToolRegistry::default();
    registry.add("builtin", zero_tools::builtin_tools()).unwrap();
    registry
}

/// Generates a schema, or something similar.
fn any_schema() -> impl Strategy<Value = Value> {
    let words = ["OBJECT", "object", "STRING", "string", "#/$defs/a", "http://x/", "a", "("];
    let keys = [
        "type",
        "properties",
        "items",
        "$ref",
        "$defs",
        "a",
        "anyOf",
        "nullable",
        "enum",
        "required",
        "additionalProperties",
        "minItems",
        "pattern",
        "$id",
        "$schema",
        "not",
    ];
    let leaf = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-1..9_i64).prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let key = prop::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((key, inner), 0..5)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates something that a command may declare.
fn any_declaration() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        prop::sample::select(vec!["a.b", "a b", "a_b", "Read", "-x", ""]).prop_map(str::to_owned),
        "\\PC{0,80}",
    ];
    let field = prop::sample::select(vec!["parameters", "inputSchema", "input_schema"]);
    (name, field, any_schema(), 0..4_u8).prop_map(|(name, field, schema, shape)| {
        let plain = serde_json::json!({"name": name, field: schema});
        match shape {
            0 => serde_json::json!({"type": "function", "function": plain}),
            1 => serde_json::json!({"functionDeclarations": [plain]}),
            2 => schema,
            _ => plain,
        }
    })
}

proptest! {
    /// Every tool that results from declarations has a unique name and a valid schema.
    #[test]
    fn what_becomes_a_tool_is_sound(items in prop::collection::vec(any_declaration(), 0..6)) {
        let (declared, _) = parse_declarations(Value::from(items).to_string().as_bytes()).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for tool in declared {
            prop_assert!(tool.name.as_str().starts_with("cmd__"));
            prop_assert_eq!(&tool.input_schema["type"], "object");
            prop_assert_eq!(InputSchema::new(tool.input_schema).check_schema(), Ok(()));
            prop_assert!(names.insert(tool.name), "two tools of one name");
        }
    }

    /// An accepted input is accepted again, unchanged; a refused one is explained.
    #[test]
    fn a_schema_accepts_what_it_accepted_and_explains_the_rest(input in any_json()) {
        for tool in full_registry().list() {
            let schema = InputSchema::new(tool.tool.spec().input_schema.clone());
            match schema.check(input.clone()) {
                Ok(accepted) => prop_assert_eq!(schema.check(accepted.clone()), Ok(accepted)),
                Err(violations) => {
                    prop_assert!(!violations.is_empty());
                    for violation in violations {
                        prop_assert!(violation.pointer.is_empty() || violation.pointer.starts_with('/'));
                        prop_assert!(!violation.expected.is_empty() && !violation.found.is_empty());
                    }
                }
            }
        }
    }

    /// Whatever a dialect accepts fits the canonical schema, and the tool can parse it.
    #[test]
    fn what_a_dialect_lets_through_is_canonical(input in any_json()) {
        let registry = full_registry();
        for name in DialectName::ALL {
            let dialect = Dialect::new(name);
            for offered in dialect.list_tools(&registry) {
                let tool = &offered.registered;
                if let Ok(canonical) = dialect.to_canonical(&offered.name, tool, input.clone()) {
                    prop_assert_eq!(tool.input.check(canonical.clone()), Ok(canonical));
                }
            }
        }
    }
}
