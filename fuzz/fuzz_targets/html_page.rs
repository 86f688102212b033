//! Any text as a web page: no panic, bounded Markdown without hidden characters, the same each time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_tools::web_fetch::html_to_markdown;

const MARKDOWN_BYTES_MAX: usize = 16 * 1024 * 1024;

fuzz_target!(|text: &str| {
    let read = || html_to_markdown(text, "https://example.com/a/b").expect("a URL");
    let markdown = read();
    assert!(markdown.len() <= MARKDOWN_BYTES_MAX, "{} bytes", markdown.len());
    assert!(!markdown.contains('\0'), "a zero byte got through");
    assert_eq!(read(), markdown, "the same page has another text");
});
