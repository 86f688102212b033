//! Any bytes as a PDF: no panic, and no more text, pages or time than the bounds allow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_core::sanitize::is_safe_char;
use zero_tools::web_fetch::pdf::{PAGES_MAX, TEXT_BYTES_MAX, read_text};

fuzz_target!(|data: &[u8]| {
    let Ok(read) = read_text(data) else { return };
    assert!((1..=PAGES_MAX).contains(&read.pages));
    assert!(!read.text.is_empty() && read.text.len() <= TEXT_BYTES_MAX);
    assert!(
        read.text.chars().all(|c| is_safe_char(c) || c == '\n'),
        "a hidden character got through"
    );
    assert_eq!(read_text(data).as_ref(), Ok(&read), "the same file has another text");
});
