//! Reads one page of a text file, however large the file is ([`read_page`]).
//!
//! The file is read once through a fixed buffer. Lines before and after the page are only counted,
//! and of a very long line no more is kept than can be shown. So the memory needed does not depend
//! on the size of the file.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter};

use crate::text_encoding::TextEncoding;
use crate::text_format::describe_omitted_chars;

/// Lines of a page unless the caller sets a limit.
pub const LINES_DEFAULT: u64 = 2_000;
/// Most characters shown of one line.
pub const LINE_CHARS_MAX: usize = 2_000;
/// Bytes that numbering adds to a line: six columns, a tab, a line break.
pub const NUMBERING_BYTES: usize = 8;

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// Size of the first read: most files are shorter than the full buffer.
const FIRST_BUFFER_BYTES: usize = 16 * 1024;
/// Bytes kept of a line: enough for the longest characters, and a carriage return.
const LINE_BYTES_MAX: usize = LINE_CHARS_MAX * 4 + 1;

/// The requested lines and limits of a page.
#[derive(Clone, Copy, Debug)]
pub struct TextPageRequest {
    /// Number of the first line, counted from 1.
    pub first: u64,
    /// Most lines of the page.
    pub lines_max: u64,
    /// Most bytes of the page, numbering included. At least one line is always shown.
    pub bytes_max: usize,
}

/// Some lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    /// The lines without their endings, joined by `\n`.
    pub text: String,
    /// Number of these lines.
    pub lines: u64,
    /// Number of lines of the whole file. Text after the last line break is a line, too.
    pub total_lines: u64,
    /// Lines of the page that were too long to be shown in full.
    pub cut_lines: u64,
    /// Invalid bytes of the page, shown as U+FFFD.
    pub bad_bytes: u64,
    /// Whether the page ended early because of its byte limit.
    pub is_full: bool,
    /// Whether the decoder found an invalid sequence anywhere in the file.
    pub is_malformed: bool,
    /// Whether the text is an editor's unsaved text, not the one on disk.
    pub is_unsaved: bool,
}

/// Why a page could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TextPageError {
    /// The read was cancelled.
    #[error("stopped")]
    Stopped,
    /// The file could not be read.
    #[error("could not read")]
    Read(#[source] io::Error),
}

/// Reads one page. `source` starts after the byte order mark; `stopped` is called once per buffer.
pub fn read_page(
    mut source: impl Read,
    encoding: TextEncoding,
    request: TextPageRequest,
    stopped: impl Fn() -> bool,
) -> Result<TextPage, TextPageError> {
    let mut cutter = PageCutter::new(request);
    // UTF-8 is split as bytes: only the lines that are shown are decoded.
    let mut transcoder = (!encoding.is_utf8()).then(|| Transcoder::new(encoding));
    let mut buffer = vec![0; FIRST_BUFFER_BYTES];
    loop {
        if stopped() {
            return Err(TextPageError::Stopped);
        }
        let length = match source.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TextPageError::Read(error)),
        };
        match &mut transcoder {
            Some(transcoder) => transcoder.feed(&buffer[..length], &mut cutter),
            None => cutter.feed(&buffer[..length]),
        }
        if length == FIRST_BUFFER_BYTES && buffer.len() == FIRST_BUFFER_BYTES {
            buffer = vec![0; BUFFER_BYTES];
        }
        if length == 0 {
            let mut page = cutter.finish();
            page.is_malformed = transcoder.is_some_and(|transcoder| transcoder.is_malformed);
            return Ok(page);
        }
    }
}

/// Converts other encodings to UTF-8 before the page is cut.
struct Transcoder {
    decoder: encoding_rs::Decoder,
    text: Vec<u8>,
    is_malformed: bool,
}

impl Transcoder {
    fn new(encoding: TextEncoding) -> Self {
        Self { decoder: encoding.decoder(), text: vec![0; BUFFER_BYTES], is_malformed: false }
    }

    /// Decodes `bytes`; an empty slice ends the stream.
    fn feed(&mut self, mut bytes: &[u8], cutter: &mut PageCutter) {
        let last = bytes.is_empty();
        loop {
            let (result, read, written, malformed) =
                self.decoder.decode_to_utf8(bytes, &mut self.text, last);
            self.is_malformed |= malformed;
            cutter.feed(&self.text[..written]);
            bytes = &bytes[read..];
            if result == encoding_rs::CoderResult::InputEmpty {
                return;
            }
        }
    }
}

/// Cuts the page out of a stream of UTF-8 that arrives in pieces.
struct PageCutter {
    request: TextPageRequest,
    page: TextPage,
    /// Bytes of the page so far, numbering included.
    page_bytes: usize,
    /// Line breaks seen so far.
    breaks: u64,
    /// Whether text came after the last line break.
    is_open: bool,
    /// The current line.
    line: LineHead,
}

impl PageCutter {
    fn new(request: TextPageRequest) -> Self {
        Self {
            request,
            page: TextPage::default(),
            page_bytes: 0,
            breaks: 0,
            is_open: false,
            line: LineHead::default(),
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(last) = bytes.last() {
            self.is_open = *last != b'\n';
            let before_page = self.request.first.saturating_sub(1).saturating_sub(self.breaks);
            if before_page > 0 {
                bytes = self.skip(bytes, before_page);
            } else if self.is_collecting() {
                bytes = self.collect(bytes);
            } else {
                self.breaks += count_breaks(bytes);
                return;
            }
        }
    }

    fn is_collecting(&self) -> bool {
        self.page.lines < self.request.lines_max && !self.page.is_full
    }

    /// Skips up to `lines` lines. Returns the rest of the bytes.
    fn skip<'a>(&mut self, bytes: &'a [u8], lines: u64) -> &'a [u8] {
        let found = count_breaks(bytes);
        if found < lines {
            self.breaks += found;
            return &[];
        }
        self.breaks += lines;
        // Here `lines` is at most the number of line breaks in a buffer, so it fits.
        let nth = usize::try_from(lines - 1).unwrap_or(usize::MAX);
        match memchr_iter(b'\n', bytes).nth(nth) {
            Some(at) => &bytes[at + 1..],
            None => &[],
        }
    }

    /// Collects the rest of one line. Returns the rest of the bytes.
    fn collect<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(end) = memchr(b'\n', bytes) else {
            self.line.push(bytes);
            return &[];
        };
        self.line.push(&bytes[..end]);
        self.end_line();
        self.breaks += 1;
        &bytes[end + 1..]
    }

    fn end_line(&mut self) {
        let DisplayLine { text, chars_left_out, bad_bytes } =
            std::mem::take(&mut self.line).into_display_line();
        let cut = match chars_left_out {
            0 => String::new(),
            more => describe_omitted_chars(more),
        };
        let line_bytes = text.len() + cut.len() + NUMBERING_BYTES;
        if self.page.lines > 0 && self.page_bytes + line_bytes > self.request.bytes_max {
            self.page.is_full = true;
            return;
        }
        if self.page.lines > 0 {
            self.page.text.push('\n');
        }
        self.page.text.push_str(&text);
        self.page.text.push_str(&cut);
        self.page.lines += 1;
        self.page.cut_lines += u64::from(chars_left_out > 0);
        self.page.bad_bytes += bad_bytes;
        self.page_bytes += line_bytes;
    }

    fn finish(mut self) -> TextPage {
        self.page.total_lines = self.breaks + u64::from(self.is_open);
        let last_is_wanted = self.is_open && self.page.total_lines >= self.request.first;
        if last_is_wanted && self.is_collecting() {
            self.end_line();
        }
        self.page
    }
}

/// The beginning of a line, and how much more it has.
#[derive(Default)]
struct LineHead {
    bytes: Vec<u8>,
    /// Number of characters beyond `bytes`.
    more_chars: u64,
    /// The last byte beyond `bytes`.
    more_last: Option<u8>,
}

/// A line as it is shown.
struct DisplayLine {
    text: String,
    chars_left_out: u64,
    bad_bytes: u64,
}

impl LineHead {
    fn push(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX - self.bytes.len();
        let (kept, more) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.more_chars += count_chars(more);
        self.more_last = more.last().copied().or(self.more_last);
    }

    fn into_display_line(mut self) -> DisplayLine {
        // The carriage return belongs to the line ending, wherever it is stored.
        match self.more_last {
            Some(b'\r') => self.more_chars -= 1,
            None if self.bytes.last() == Some(&b'\r') => _ = self.bytes.pop(),
            _ => {}
        }
        let mut shown =
            DisplayLine { text: String::new(), chars_left_out: self.more_chars, bad_bytes: 0 };
        let mut room = LINE_CHARS_MAX;
        for chunk in self.bytes.utf8_chunks() {
            let valid = chunk.valid();
            let fits = valid.char_indices().nth(room).map_or(valid.len(), |(at, _)| at);
            shown.text.push_str(&valid[..fits]);
            shown.chars_left_out += count_chars(&valid.as_bytes()[fits..]);
            room -= valid[..fits].chars().count();
            match chunk.invalid() {
                [] => {}
                _ if room == 0 => shown.chars_left_out += 1,
                bad => {
                    shown.text.push(char::REPLACEMENT_CHARACTER);
                    shown.bad_bytes += bad.len() as u64;
                    room -= 1;
                }
            }
        }
        shown
    }
}

fn count_breaks(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// Counts the characters that start in `bytes`: in UTF-8 every byte but 0x80 to 0xBF starts one.
fn count_chars(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| !(0x80..0xC0).contains(*byte)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE_FILE: TextPageRequest =
        TextPageRequest { first: 1, lines_max: u64::MAX, bytes_max: usize::MAX };

    fn read_utf8_page(bytes: &[u8], request: TextPageRequest) -> TextPage {
        let encoding = TextEncoding::detect(bytes, true).unwrap();
        read_page_as(encoding, bytes, request)
    }

    fn read_page_as(encoding: TextEncoding, bytes: &[u8], request: TextPageRequest) -> TextPage {
        let body = bytes.strip_prefix(encoding.byte_order_mark()).unwrap();
        read_page(body, encoding, request, || false).unwrap()
    }

    /// Checks `text` with `|` between lines, then the number of all lines.
    #[track_caller]
    fn check(bytes: &[u8], first: u64, lines_max: u64, expected: &str) {
        let page = read_utf8_page(bytes, TextPageRequest { first, lines_max, ..WHOLE_FILE });
        let shown = format!("{} of {}", page.text.replace('\n', "|"), page.total_lines);
        assert_eq!(shown, expected, "{bytes:?} from {first}, {lines_max} lines");
    }

    #[test]
    fn line_numbers_match_editors() {
        check(b"", 1, 9, " of 0");
        check(b"a", 1, 9, "a of 1");
        check(b"a\n", 1, 9, "a of 1");
        check(b"\n", 1, 9, " of 1");
        check(b"a\n\n", 1, 9, "a| of 2");
        check(b"a\nb", 1, 9, "a|b of 2");
        check(b"a\r\nb\r\n", 1, 9, "a|b of 2");
        check(b"a\rb\r\r\n", 1, 9, "a\rb\r of 1");
    }

    #[test]
    fn page_is_cut_from_the_middle() {
        check(b"a\nb\nc\nd\n", 2, 2, "b|c of 4");
        check(b"a\nb\nc\nd", 4, 2, "d of 4");
        check(b"a\nb\nc\nd", 5, 2, " of 4");
        check(b"a\nb\nc\nd\n", 5, 2, " of 4");
        check(b"a\nb", u64::MAX, u64::MAX, " of 2");
    }

    #[test]
    fn every_encoding_is_read() {
        let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| {
            text.encode_utf16().flat_map(order).collect::<Vec<u8>>()
        };
        let text = "first\r\nsecond é\nthird 😁";
        for marked in ["", "\u{feff}"] {
            let text = format!("{marked}{text}");
            check(&utf16(&text, u16::to_le_bytes), 2, 2, "second é|third 😁 of 3");
            check(&utf16(&text, u16::to_be_bytes), 2, 2, "second é|third 😁 of 3");
            check(text.as_bytes(), 1, 2, "first|second é of 3");
        }
        check(b"cr\xE8me\nbr\xFBl\xE9e\n", 2, 1, "brûlée of 2");
    }

    #[test]
    fn invalid_bytes_are_replaced_and_counted() {
        let found =
            read_page_as(TextEncoding::UTF_8, b"ok\nbad \xFF\xFE and \xE2\x82 cut\n", WHOLE_FILE);
        assert_eq!(found.text, "ok\nbad \u{fffd}\u{fffd} and \u{fffd} cut");
        assert_eq!(found.bad_bytes, 4);
        let utf16 = TextEncoding::detect(b"\xFF\xFEa\0", true).unwrap();
        assert!(read_page_as(utf16, b"\xFF\xFEa\0\0\xD8", WHOLE_FILE).is_malformed);
        assert!(!read_page_as(utf16, b"\xFF\xFEa\0", WHOLE_FILE).is_malformed);
    }

    #[test]
    fn long_line_is_cut_with_omitted_count() {
        let max = LINE_CHARS_MAX;
        for (character, ending) in [("x", "\n"), ("é", "\r\n"), ("😀", "\r\n"), ("😀", "")] {
            for (length, expected) in [
                (max, character.repeat(max)),
                (max + 1, format!("{}… (1 more character)", character.repeat(max))),
                (max * 3, format!("{}… ({} more characters)", character.repeat(max), max * 2)),
            ] {
                let text = format!("{}{ending}", character.repeat(length));
                let found = read_page_as(TextEncoding::UTF_8, text.as_bytes(), WHOLE_FILE);
                assert_eq!(found.text, expected, "{length} times {character}");
                assert_eq!(found.cut_lines, u64::from(length > max));
                assert_eq!(found.bad_bytes, 0);
            }
        }
    }

    #[test]
    fn full_page_ends_before_line_that_does_not_fit() {
        let text = "1234567890\n".repeat(100);
        let request = TextPageRequest { bytes_max: 50, ..WHOLE_FILE };
        let found = read_utf8_page(text.as_bytes(), request);
        assert_eq!((found.lines, found.total_lines, found.is_full), (2, 100, true));
        let found = read_utf8_page(text.as_bytes(), TextPageRequest { bytes_max: 1, ..request });
        assert_eq!((found.lines, found.is_full), (1, true), "at least one line is shown");
        let found = read_utf8_page(b"1234567890", TextPageRequest { bytes_max: 1, ..request });
        assert_eq!((found.lines, found.is_full), (1, false));
    }

    #[test]
    fn cancel_stops_reading() {
        let stopped = read_page(&b"a"[..], TextEncoding::UTF_8, WHOLE_FILE, || true);
        assert!(matches!(stopped, Err(TextPageError::Stopped)));
    }

    /// Returns its bytes in small pieces, so that every boundary is tested.
    struct TrickleReader<'a>(&'a [u8], usize);

    impl Read for TrickleReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(length);
            buffer[..length].copy_from_slice(now);
            self.0 = later;
            Ok(length)
        }
    }

    /// The simplest implementation of a page, to compare with.
    fn naive_page(text: &str, first: u64, lines_max: u64) -> (String, u64) {
        let skipped = usize::try_from(first - 1).unwrap();
        let taken = usize::try_from(lines_max).unwrap();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        let shown: Vec<&str> = lines
            .iter()
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .skip(skipped)
            .take(taken)
            .collect();
        (shown.join("\n"), lines.len() as u64)
    }

    proptest! {
        #[test]
        fn any_page_of_any_text_is_the_naive_one(
            text in "[a-c\r\n\t é漢😀]{0,120}",
            first in 1_u64..12,
            lines_max in 1_u64..12,
            step in 1_usize..9,
        ) {
            let request = TextPageRequest { first, lines_max, bytes_max: usize::MAX };
            let (expected, total_lines) = naive_page(&text, first, lines_max);
            for mark in [&b""[..], b"\xEF\xBB\xBFx", b"\xFF\xFEx\0", b"\xFE\xFF\0x"] {
                let encoding = TextEncoding::detect(mark, true).unwrap();
                let bytes = encoding.encode(&text).unwrap();
                let source = TrickleReader(&bytes[encoding.byte_order_mark().len()..], step);
                let found = read_page(source, encoding, request, || false).unwrap();
                prop_assert_eq!(&found.text, &expected);
                prop_assert_eq!(found.total_lines, total_lines);
                prop_assert_eq!(found.is_full || found.is_malformed, false);
            }
        }

        #[test]
        fn following_the_offsets_shows_every_line_once(
            text in "[a-c\n é]{0,200}",
            bytes_max in 1_usize..80,
        ) {
            let (expected, total_lines) = naive_page(&text, 1, 1_000);
            let mut shown = Vec::new();
            let mut first = 1;
            while first <= total_lines {
                let request = TextPageRequest { first, lines_max: 5, bytes_max };
                let found = read_page_as(TextEncoding::UTF_8, text.as_bytes(), request);
                prop_assert!(found.lines > 0);
                shown.push(found.text);
                first += found.lines;
            }
            prop_assert_eq!(shown.join("\n"), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            first in 1_u64..5,
        ) {
            let request = TextPageRequest { first, lines_max: 3, bytes_max: 100 };
            let found = read_page_as(TextEncoding::UTF_8, &bytes, request);
            prop_assert!(found.lines <= 3);
        }
    }
}
