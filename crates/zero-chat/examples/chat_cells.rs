//! Keeps a transcript of 50,000 cells and shows it in windows of many widths. Prints its memory and the
//! longest time that a change of the width took, as JSON. `cargo xtask bench` runs it.

use std::time::Instant;

use zero_chat::{ChatTranscript, Fold, TranscriptView, ViewOptions, ViewWindow};
use zero_terminal::{StandardStreams, Terminal};

const CELLS: usize = 50_000;

#[expect(clippy::print_stdout, reason = "its output is read by the benchmark")]
fn main() {
    let streams = StandardStreams { columns: Some(120), ..StandardStreams::default() };
    let stream = Terminal::new(streams).out;
    let before = resident_bytes();
    let mut transcript = ChatTranscript::new(&stream, ViewOptions::default());
    for number in 0..CELLS {
        let text = "words of a message that is about as long as most of them are, and no longer";
        transcript.add_note(&format!("{number}: {text}; {text}; {text}"));
    }
    let bytes = resident_bytes().saturating_sub(before);
    let mut view = TranscriptView::new(Fold::Open);
    let mut longest = 0;
    for columns in (20..220).rev() {
        let window = ViewWindow { transcript: &transcript, columns, rows: 60 };
        if columns == 120 {
            // Not only at the end.
            view.scroll(window, -100_000);
        }
        let start = Instant::now();
        let page = view.page(window);
        longest = longest.max(start.elapsed().as_nanos());
        assert_eq!(page.len(), 60);
    }
    println!("{{\"bytes\": {bytes}, \"resize_ns\": {longest}}}");
}

/// Memory of this process.
#[expect(clippy::disallowed_methods, reason = "the kernel tells it in a file")]
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}
