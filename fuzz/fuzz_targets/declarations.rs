//! Whatever a command prints: no panic, and what becomes a tool has a name and a schema that hold.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use zero_runtime::schema::InputSchema;
use zero_tools::tool_discovery::parse_declarations;

fuzz_target!(|data: &[u8]| {
    let Ok((declared, _)) = parse_declarations(data) else { return };
    let mut names = BTreeSet::new();
    for tool in declared {
        assert!(tool.name.as_str().starts_with("cmd__"));
        assert!(!tool.original.starts_with('-') && !tool.original.contains('\0'));
        assert_eq!(tool.input_schema["type"], "object");
        assert!(InputSchema::new(tool.input_schema).check_schema().is_ok());
        assert!(names.insert(tool.name), "two tools of one name");
    }
});
