//! Server-sent events, parsed from bytes as they come.
//!
//! Servers cut their bytes anywhere: in the middle of a letter, between CR and LF. So lines are
//! gathered as bytes and become text only when they are whole. An event may not be longer than the
//! bound, a comment takes no memory, and every byte is looked at once.

use std::mem;

/// The byte order mark, in UTF-8. It may precede the first line.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Longest name or id of an event, in bytes; a longer one is ignored.
const NAME_BYTES_MAX: usize = 1024;

/// Parses server-sent events.
#[derive(Debug)]
pub struct SseParser {
    event_bytes_max: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The event that has not ended yet.
    event: SseEvent,
    is_comment: bool,
    /// The last byte was a CR: a LF that follows ends the same line.
    after_cr: bool,
    is_first_line: bool,
}

/// One complete server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty where it has none.
    pub name: String,
    /// Its data lines, joined by line breaks.
    pub data: Option<String>,
    /// What a client names to resume the stream after this event.
    pub id: Option<String>,
    /// How long to wait before the stream is resumed.
    pub retry_ms: Option<u64>,
}

/// An event is longer than it may be. Nothing more can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEventTooLongError;

impl SseParser {
    /// A parser of events of at most that many bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: Vec::new(),
            event: SseEvent::default(),
            is_comment: false,
            after_cr: false,
            is_first_line: true,
        }
    }

    /// Appends the events that these bytes complete, also those before one that is too long.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<SseEvent>,
    ) -> Result<(), SseEventTooLongError> {
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
        Ok(())
    }

    /// The event that the end of the stream completes: some servers leave out the last blank line.
    /// It may be cut.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            let event = self.end_line();
            debug_assert!(event.is_none(), "only an empty line ends an event");
        }
        self.end_event()
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), SseEventTooLongError> {
        self.is_comment |= self.line.is_empty() && part.starts_with(b":");
        if self.is_comment {
            return Ok(());
        }
        let data_bytes = self.event.data.as_ref().map_or(0, String::len);
        if self.line.len() + part.len() + data_bytes + self.event.name.len() > self.event_bytes_max
        {
            return Err(SseEventTooLongError);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut line = mem::take(&mut self.line);
        let is_comment = mem::take(&mut self.is_comment);
        let event = if is_comment { None } else { self.process_line(&line) };
        self.is_first_line = false;
        line.clear();
        self.line = line;
        event
    }

    fn process_line(&mut self, line: &[u8]) -> Option<SseEvent> {
        let line = match line.strip_prefix(BOM) {
            Some(rest) if self.is_first_line => rest,
            _ => line,
        };
        if line.is_empty() {
            return self.end_event();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let is_short = value.len() <= NAME_BYTES_MAX;
        match field {
            "event" if is_short => value.clone_into(&mut self.event.name),
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            "id" if is_short && !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry_ms = value.parse().ok(),
            _ => {}
        }
        None
    }

    /// Ends the current event. One that has only a name tells nothing.
    fn end_event(&mut self) -> Option<SseEvent> {
        let event = mem::take(&mut self.event);
        (event.data.is_some() || event.id.is_some() || event.retry_ms.is_some()).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of a stream that comes in such pieces, and whether it was refused.
    fn read(pieces: &[&[u8]], event_bytes_max: usize) -> (Vec<SseEvent>, bool) {
        let mut parser = SseParser::new(event_bytes_max);
        let mut events = Vec::new();
        for piece in pieces {
            if parser.feed(piece, &mut events) == Err(SseEventTooLongError) {
                return (events, true);
            }
        }
        events.extend(parser.finish());
        (events, false)
    }

    #[track_caller]
    fn check(stream: &[u8], expected: &[(&str, &str)]) {
        let (events, refused) = read(&[stream], 1000);
        let events: Vec<_> = events
            .iter()
            .filter_map(|event| Some((event.name.as_str(), event.data.as_deref()?)))
            .collect();
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
    fn id_and_retry_are_parsed_and_lone_name_is_ignored() {
        let (events, _) = read(&[b"id: 7\nretry: 500\n\nid: a\0b\nretry: x\nevent: lost\n\n"], 100);
        let expected =
            SseEvent { id: Some("7".to_owned()), retry_ms: Some(500), ..SseEvent::default() };
        assert_eq!(events, [expected]);
    }

    #[test]
    fn comments_use_no_memory_and_events_before_an_overlong_one_are_kept() {
        assert!(!read(&[b":", &b"x".repeat(100), b"\ndata: ok\n\n"], 20).1);
        let (events, refused) = read(&[b"data: ok\n\n", &b"data: x\n".repeat(20)], 20);
        assert_eq!((events.len(), refused), (1, true));
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
                .map(|(name, lines)| SseEvent { name, data: Some(lines.join("\n")), ..SseEvent::default() })
                .collect();
            prop_assert_eq!(read(&[stream.as_bytes()], 1000).0, expected);
        }
    }
}
