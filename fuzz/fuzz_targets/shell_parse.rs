//! Any text as a script: no panic, no overflow, and every span is a piece of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_policy::shell::ast::ShellCommandKind;
use zero_policy::shell::parse;

fuzz_target!(|source: &str| {
    let parsed = parse(source);
    if let Some(error) = &parsed.error {
        assert!(source.is_char_boundary(error.at), "an error between characters");
    }
    for command in parsed.list.items.iter().flat_map(|item| &item.pipeline.commands) {
        assert!(source.get(command.span.start..command.span.end).is_some(), "a span that is none");
        if let ShellCommandKind::Simple(simple) = &command.kind {
            for word in &simple.words {
                assert!(
                    source.get(word.span.start..word.span.end).is_some(),
                    "a span that is none"
                );
            }
        }
    }
});
