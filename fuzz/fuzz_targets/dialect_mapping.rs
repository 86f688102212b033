//! Any JSON for any tool in any dialect: no panic, and what comes out fits the canonical schema.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;
use zero_runtime::dialect::BUILTIN;
use zero_runtime::{Dialect, DialectName, ToolRegistry};

static REGISTRY: LazyLock<ToolRegistry> = LazyLock::new(|| {
    let registry = ToolRegistry::default();
    registry.add(BUILTIN, zero_tools::builtin_tools()).expect("names are free");
    registry
});

static DIALECTS: LazyLock<Vec<Dialect>> =
    LazyLock::new(|| DialectName::ALL.into_iter().map(Dialect::new).collect());

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return Corpus::Reject };
    for dialect in DIALECTS.iter() {
        for offered in dialect.list_tools(&REGISTRY) {
            let tool =
                dialect.resolve(&REGISTRY, &offered.name).expect("what is offered can be resolved");
            if let Ok(canonical) = dialect.to_canonical(&offered.name, &tool, input.clone()) {
                assert!(
                    tool.input.check(canonical).is_ok(),
                    "{} of {}",
                    offered.name,
                    dialect.name()
                );
            }
        }
    }
    Corpus::Keep
});
