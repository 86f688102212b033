//! Any bytes as server-sent events, in any pieces: no panic, no event above the bound, and the pieces
//! make no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_runtime::web::{SseEvent, SseParser};

const EVENT_BYTES_MAX: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let piece = usize::from(*first).max(1);
    let whole = parse(data, data.len().max(1));
    assert_eq!(parse(data, piece), whole, "pieces of {piece} bytes");
    for event in whole.0 {
        let size = event.data.as_ref().map_or(0, String::len);
        // A byte that is no UTF-8 becomes a character of three.
        assert!(size <= EVENT_BYTES_MAX * 3, "{size} bytes");
    }
});

/// The events, and whether the stream was too long.
fn parse(data: &[u8], piece: usize) -> (Vec<SseEvent>, bool) {
    let (mut parser, mut events) = (SseParser::new(EVENT_BYTES_MAX), Vec::new());
    for part in data.chunks(piece) {
        if parser.feed(part, &mut events).is_err() {
            return (events, true);
        }
    }
    events.extend(parser.finish());
    (events, false)
}
