//! Any edits of any bytes: no panic, all or nothing, and what was not named stays to the byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_tools::edit::apply::{EditOperation, MatchTolerance, apply};

/// Parts of the data are divided by this byte, which no UTF-8 holds.
const DIVIDER: u8 = 0xFF;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.split(|byte| *byte == DIVIDER);
    let text = parts.next().unwrap_or_default();
    let words: Vec<String> = parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    let [old, new, rest @ ..] = &words[..] else { return };
    check_replacement(text, old, new);
    check_insertion(text, data.len() as u64 % 8, new);
    let several: Vec<EditOperation> = rest
        .chunks_exact(2)
        .map(|pair| EditOperation::Replace {
            old: pair[0].clone(),
            new: pair[1].clone(),
            all: true,
        })
        .chain([EditOperation::Insert { line: 1, text: new.clone() }])
        .collect();
    if let Err((index, _)) = apply(text, &several) {
        assert!(index < several.len());
    }
});

fn check_replacement(text: &[u8], old: &str, new: &str) {
    let edit = EditOperation::Replace { old: old.to_owned(), new: new.to_owned(), all: false };
    let Ok(edited) = apply(text, &[edit]) else { return };
    assert_eq!(edited.replacements, 1);
    // What stands before and after the place is the same in both texts, so together they are at
    // least as long as the old text without the place.
    let head = text.iter().zip(&edited.text).take_while(|(a, b)| a == b).count();
    let tail = text.iter().rev().zip(edited.text.iter().rev()).take_while(|(a, b)| a == b).count();
    // A place that starts with a newline takes in the carriage return before it.
    let exact = old.len() + usize::from(old.starts_with('\n'));
    let place = if edited.tolerance == MatchTolerance::Exact { exact } else { text.len() };
    assert!(head + tail + place >= text.len(), "bytes outside the place changed");
}

fn check_insertion(text: &[u8], line: u64, new: &str) {
    let Ok(edited) = apply(text, &[EditOperation::Insert { line, text: new.to_owned() }]) else {
        return;
    };
    let head = text.iter().zip(&edited.text).take_while(|(a, b)| a == b).count();
    let tail = text.iter().rev().zip(edited.text.iter().rev()).take_while(|(a, b)| a == b).count();
    assert!(head + tail >= text.len(), "an insertion removed something");
    assert!(edited.text.len() > text.len(), "an insertion adds at least a line ending");
}
