//! Server-sent events, read from bytes as they come.
//!
//! Providers cut their bytes anywhere: in the middle of a letter, between CR and LF. So lines are
//! gathered as bytes and become text only when they are whole. An event may not be longer than the
//! bound, and every byte is looked at once.

use std::mem;

/// The byte order mark, in UTF-8. It may stand before the first line.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads server-sent events.
pub(crate) struct SseReader {
    event_bytes_max: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Of the event that has not ended yet.
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was a CR: a LF that follows ends the same line.
    after_cr: bool,
    is_first_line: bool,
}

/// One complete server-sent event of a model's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its name; empty where it has none.
    pub(crate) name: String,
    /// Its data lines, joined by line breaks.
    pub(crate) data: String,
}

/// An event is longer than it may be. Nothing more can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SseOverflowError;

impl SseReader {
    /// A reader of events of at most that many bytes.
    pub(crate) fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            is_first_line: true,
        }
    }

    /// The events that these bytes complete.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, SseOverflowError> {
        let mut events = Vec::new();
        while let Some((first, rest)) = bytes.split_first() {
            if mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.extend_line(part)?;
            let Some((ending, rest)) = rest.split_first() else { break };
            self.after_cr = *ending == b'\r';
            bytes = rest;
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The event that the end of the stream completes: some servers leave out the last blank line.
    /// It may be cut.
    pub(crate) fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            let event = self.end_line();
            debug_assert!(event.is_none(), "only an empty line ends an event");
        }
        self.end_event()
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), SseOverflowError> {
        let event_bytes = self.line.len() + part.len() + self.data.len() + self.name.len();
        if event_bytes > self.event_bytes_max {
            return Err(SseOverflowError);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut line = mem::take(&mut self.line);
        let event = self.process_line(&line);
        line.clear();
        self.line = line;
        event
    }

    fn process_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let is_first = mem::take(&mut self.is_first_line);
        let line = match line.strip_prefix(BOM) {
            Some(rest) if is_first => rest,
            _ => line,
        };
        if line.is_empty() {
            return self.end_event();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments have an empty name; ids and times to reconnect are of no use here, because an
            // answer is never taken up again.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let name = mem::take(&mut self.name);
        let data = mem::take(&mut self.data);
        mem::take(&mut self.has_data).then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of a stream that comes in such pieces, and whether it was refused.
    fn read(pieces: &[&[u8]], event_bytes_max: usize) -> (Vec<SseEvent>, bool) {
        let mut reader = SseReader::new(event_bytes_max);
        let mut events = Vec::new();
        for piece in pieces {
            match reader.feed(piece) {
                Ok(more) => events.extend(more),
                Err(SseOverflowError) => return (events, true),
            }
        }
        events.extend(reader.finish());
        (events, false)
    }

    #[track_caller]
    fn check(stream: &[u8], expected: &[(&str, &str)]) {
        let (events, refused) = read(&[stream], 1000);
        let events: Vec<_> =
            events.iter().map(|event| (event.name.as_str(), event.data.as_str())).collect();
        assert_eq!(events, expected, "{:?}", String::from_utf8_lossy(stream));
        assert!(!refused);
    }

    #[test]
    fn events_follow_sse_format() {
        check(b"", &[]);
        check(b"data: a\n\n", &[("", "a")]);
        check(b"data:a\n\ndata:  b\n\n", &[("", "a"), ("", " b")]);
        check(b"event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("", "b")]);
        check(b"data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
        check(b"data\n\n", &[("", "")]);
        check(b"data: a\r\rdata: b\r\n\r\ndata: c\n\r\n", &[("", "a"), ("", "b"), ("", "c")]);
        check(b": comment\n\n:\ndata: a: b\n\n", &[("", "a: b")]);
        check(b"id: 1\nretry: 5\nevent: lost\n\ndata: a\n\n", &[("", "a")]);
        check(b"\xef\xbb\xbfdata: a\n\n", &[("", "a")]);
        check(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", &[("", "a")]);
        check("data: grüße 🦀\n\n".as_bytes(), &[("", "grüße 🦀")]);
        check(b"data: \xff\n\n", &[("", "\u{fffd}")]);
    }

    #[test]
    fn end_of_stream_completes_last_event() {
        check(b"data: a", &[("", "a")]);
        check(b"data: a\n", &[("", "a")]);
        check(b"data: a\n\nevent: x", &[("", "a")]);
    }

    #[test]
    fn event_longer_than_limit_is_refused() {
        // Keep-alive comments between events are not part of any.
        let kept_alive = b": still here\n\n".repeat(100);
        assert_eq!(read(&[&kept_alive], 20), (vec![], false));
        assert!(!read(&[b"data: 45678\n\n"], 11).1);
        assert!(read(&[b"data: 456789\n\n"], 11).1);
        // In pieces, in lines, without end: refused all the same.
        assert!(read(&[b"data: 4", b"5", b"6", b"7", b"8", b"9"], 11).1);
        assert!(read(&[b"data: 1\ndata: 2\ndata: 3\ndata: 4\n"], 11).1);
        assert!(read(&[&b"x".repeat(12)], 11).1);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_bytes_are_cut(
            stream in prop::collection::vec(
                prop::sample::select(b"\r\n\n: adtevn\xef\xbb\xbf\xf0\x9f\xa6\x80".as_slice()),
                0..200,
            ),
            cuts in prop::collection::vec(0usize..200, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces, 1000), read(&[&stream], 1000));
        }

        #[test]
        fn every_event_comes_out_as_it_went_in(
            events in prop::collection::vec(
                ("[a-z.]{0,8}", prop::collection::vec("[ -~é🦀]{0,12}", 1..4)),
                0..8,
            ),
            ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        ) {
            let mut stream = String::new();
            for (name, lines) in &events {
                stream += &format!("event: {name}{ending}");
                lines.iter().for_each(|line| stream += &format!("data: {line}{ending}"));
                stream += ending;
            }
            let expected: Vec<_> = events
                .into_iter()
                .map(|(name, lines)| SseEvent { name, data: lines.join("\n") })
                .collect();
            prop_assert_eq!(read(&[stream.as_bytes()], 1000).0, expected);
        }
    }
}
