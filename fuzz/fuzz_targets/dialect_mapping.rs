//! Any JSON for any tool in any dialect: no panic, and what comes out fits the canonical schema.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Value, json};
use zero_core::{Category, Kind, Risk, TimeoutClass, ToolError, ToolName, ToolSpec};
use zero_runtime::dialect::BUILTIN;
use zero_runtime::tool::AnyPlan;
use zero_runtime::{AnyTool, Dialect, DialectName, Registry};
use zero_sandbox::Workspace;

/// Canonical tools with the fields the dialects map onto. Only their schemas matter here.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("Read", &[("file_path", "string"), ("offset", "integer"), ("limit", "integer")]),
    ("ReadMany", &[("paths", "array")]),
    ("Write", &[("file_path", "string"), ("content", "string")]),
    (
        "Edit",
        &[
            ("file_path", "string"),
            ("old_string", "string"),
            ("new_string", "string"),
            ("replace_all", "boolean"),
            ("edits", "array"),
        ],
    ),
    ("Delete", &[("file_path", "string")]),
    ("LS", &[("path", "string"), ("ignore", "array")]),
    ("Glob", &[("pattern", "string"), ("path", "string")]),
    (
        "Grep",
        &[
            ("pattern", "string"),
            ("path", "string"),
            ("glob", "string"),
            ("exclude", "array"),
            ("output_mode", "string"),
            ("head_limit", "integer"),
            ("-n", "boolean"),
        ],
    ),
];

struct Named(ToolSpec);

impl Named {
    fn new(name: &str, fields: &[(&str, &str)]) -> Arc<dyn AnyTool> {
        let properties: serde_json::Map<String, Value> =
            fields.iter().map(|(field, kind)| ((*field).to_owned(), json!({"type": kind}))).collect();
        let input_schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        Arc::new(Self(ToolSpec {
            name: ToolName::new(name).expect("a tool name"),
            display_name: name.to_owned(),
            description: String::new(),
            input_schema,
            output_schema: json!({}),
            category: Category::File,
            kind: Kind::Read,
            risk: Risk::Low,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }))
    }
}

impl AnyTool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn plan(&self, _input: Value, _workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        unreachable!("nothing is run here")
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::default();
    let real = zero_tools::builtin();
    let missing = FIELDS.iter().filter(|(name, _)| real.iter().all(|tool| tool.spec().name.as_str() != *name));
    let stand_ins = missing.map(|(name, fields)| Named::new(name, fields)).collect();
    registry.add(BUILTIN, real).expect("names are free");
    registry.add(BUILTIN, stand_ins).expect("names are free");
    registry
});

static DIALECTS: LazyLock<Vec<Dialect>> = LazyLock::new(|| DialectName::ALL.into_iter().map(Dialect::new).collect());

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return Corpus::Reject };
    for dialect in DIALECTS.iter() {
        for offered in dialect.offered(&REGISTRY) {
            let tool = dialect.resolve(&REGISTRY, &offered.name).expect("what is offered can be resolved");
            if let Ok(canonical) = dialect.to_canonical(&offered.name, &tool, input.clone()) {
                assert!(tool.input.check(canonical).is_ok(), "{} of {}", offered.name, dialect.name());
            }
        }
    }
    Corpus::Keep
});
