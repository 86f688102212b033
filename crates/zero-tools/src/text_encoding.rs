//! Detection of a text file's encoding ([`TextEncoding`]), and decoding and encoding.
//!
//! A file keeps its encoding and its byte order mark through every change. Whether a file is text
//! is decided by its content, never by its name.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes of a file that are examined to detect its encoding.
pub const SAMPLE_BYTES_MAX: usize = 64 * 1024;
/// Fraction of control characters above which a file is not text.
const CONTROL_SHARE_MAX: f64 = 0.1;
/// The same for UTF-16 without a byte order mark, which is otherwise hard to tell from small
/// numbers.
const WIDE_CONTROL_SHARE_MAX: f64 = 0.02;
/// Fewest characters needed to detect UTF-16 without a byte order mark.
const WIDE_CHARS_MIN: usize = 4;

/// The encoding of a text file, and whether it has a byte order mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoding {
    encoding: &'static Encoding,
    bom: bool,
}

/// A character that an encoding cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{character}` (line {line}) cannot be written in {encoding}")]
pub struct UnencodableChar {
    /// The character.
    pub character: char,
    /// Its line, counted from 1.
    pub line: usize,
    /// Name of the encoding.
    pub encoding: &'static str,
}

impl TextEncoding {
    /// The encoding of new files.
    pub const UTF_8: Self = Self { encoding: UTF_8, bom: false };

    /// Detects the encoding from the beginning of a file; `None` means that it is not text.
    /// `complete` says that `sample` is the whole file.
    pub fn detect(sample: &[u8], complete: bool) -> Option<Self> {
        // UTF-32 starts like UTF-16. It is practically unused, so it is treated as binary.
        if sample.starts_with(&[0xFF, 0xFE, 0, 0]) || sample.starts_with(&[0, 0, 0xFE, 0xFF]) {
            return None;
        }
        if let Some((encoding, _)) = Encoding::for_bom(sample) {
            return Some(Self { encoding, bom: true });
        }
        if sample.contains(&0) {
            return detect_utf16_without_mark(sample, complete);
        }
        if has_too_many_controls(sample) {
            return None;
        }
        let encoding = match std::str::from_utf8(sample) {
            Ok(_) => UTF_8,
            // The sample may end in the middle of a character.
            Err(error) if error.error_len().is_none() && !complete => UTF_8,
            Err(_) if is_mostly_utf8(sample) => UTF_8,
            Err(_) => {
                let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
                detector.feed(sample, complete);
                detector.guess(None, Utf8Detection::Deny)
            }
        };
        Some(Self { encoding, bom: false })
    }

    /// Detects the encoding of a complete file from the same part that Read examines, so that a
    /// file is not read in one encoding and changed in another.
    pub fn detect_in_file(bytes: &[u8]) -> Option<Self> {
        let sample = &bytes[..bytes.len().min(SAMPLE_BYTES_MAX)];
        Self::detect(sample, sample.len() == bytes.len())
    }

    /// Returns the name of the encoding for messages.
    pub fn name(self) -> Cow<'static, str> {
        match self.bom {
            true => format!("{} with a byte order mark", self.encoding.name()).into(),
            false => self.encoding.name().into(),
        }
    }

    /// Returns whether it is UTF-8, with or without a byte order mark.
    pub fn is_utf8(self) -> bool {
        self.encoding == UTF_8
    }

    /// Returns the byte order mark of a file in this encoding, or an empty slice if it has none.
    pub fn byte_order_mark(self) -> &'static [u8] {
        match (self.bom, self.encoding) {
            (false, _) => b"",
            (true, encoding) if encoding == UTF_16LE => b"\xFF\xFE",
            (true, encoding) if encoding == UTF_16BE => b"\xFE\xFF",
            (true, _) => b"\xEF\xBB\xBF",
        }
    }

    /// Returns a decoder that converts the file, without its byte order mark, to UTF-8 in pieces.
    pub fn decoder(self) -> encoding_rs::Decoder {
        self.encoding.new_decoder_without_bom_handling()
    }

    /// Decodes a file without its byte order mark. Invalid sequences become U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> String {
        let body = bytes.strip_prefix(self.byte_order_mark()).unwrap_or(bytes);
        self.encoding.decode_without_bom_handling(body).0.into_owned()
    }

    /// Returns whether files in it start with a byte order mark.
    pub fn has_byte_order_mark(self) -> bool {
        self.bom
    }

    /// Encodes a text, with the byte order mark. Fails if decoding would not give the same text
    /// again: some encodings write `¥` as a backslash.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, UnencodableChar> {
        let mut bytes = self.byte_order_mark().to_vec();
        if self.encoding == UTF_16LE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        } else if self.encoding == UTF_16BE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        } else {
            let encoded = self.encode_lossless(text).ok_or_else(|| self.first_unencodable(text))?;
            bytes.extend_from_slice(&encoded);
        }
        Ok(bytes)
    }

    /// Encodes a text if decoding gives the same text again.
    fn encode_lossless(self, text: &str) -> Option<Cow<'_, [u8]>> {
        let (encoded, _, failed) = self.encoding.encode(text);
        let is_same = || self.encoding.decode_without_bom_handling(&encoded).0 == text;
        (!failed && is_same()).then_some(encoded)
    }

    fn first_unencodable(self, text: &str) -> UnencodableChar {
        let mut line = 1;
        for character in text.chars() {
            if self.encode_lossless(character.encode_utf8(&mut [0; 4])).is_none() {
                return UnencodableChar { character, line, encoding: self.encoding.name() };
            }
            line += usize::from(character == '\n');
        }
        UnencodableChar {
            character: char::REPLACEMENT_CHARACTER,
            line,
            encoding: self.encoding.name(),
        }
    }
}

/// Detects UTF-16 without a byte order mark. Such text has a zero in nearly every second byte,
/// always on the same side. So have small numbers, therefore only unambiguous text is accepted.
fn detect_utf16_without_mark(sample: &[u8], complete: bool) -> Option<TextEncoding> {
    let pairs = sample.chunks_exact(2);
    if complete && !pairs.remainder().is_empty() {
        return None;
    }
    let (count, mut high_zeros, mut low_zeros) = (pairs.len(), 0, 0);
    for pair in pairs {
        low_zeros += usize::from(pair[0] == 0);
        high_zeros += usize::from(pair[1] == 0);
    }
    let nearly_all = |zeros: usize| count >= WIDE_CHARS_MIN && zeros * 10 >= count * 7;
    let hardly_any = |zeros: usize| zeros * 20 <= count;
    let encoding = match (high_zeros, low_zeros) {
        (high, low) if nearly_all(high) && hardly_any(low) => UTF_16LE,
        (high, low) if nearly_all(low) && hardly_any(high) => UTF_16BE,
        _ => return None,
    };
    is_wide_text(sample, encoding, complete).then_some(TextEncoding { encoding, bom: false })
}

/// Returns whether a UTF-16 sample has only complete characters and hardly any control characters.
fn is_wide_text(sample: &[u8], encoding: &'static Encoding, complete: bool) -> bool {
    let whole = &sample[..sample.len() / 2 * 2];
    let (text, malformed) = encoding.decode_without_bom_handling(whole);
    // A sample may end inside a character, which is then its only invalid one.
    let cut = text.strip_suffix(char::REPLACEMENT_CHARACTER).filter(|_| malformed && !complete);
    if malformed && cut.is_none_or(|text| text.contains(char::REPLACEMENT_CHARACTER)) {
        return false;
    }
    let is_control = |c: &char| c.is_control() && !matches!(*c, '\u{8}'..='\r' | '\u{1b}');
    let controls = text.chars().filter(is_control).count();
    controls as f64 <= text.chars().count() as f64 * WIDE_CONTROL_SHARE_MAX
}

fn has_too_many_controls(sample: &[u8]) -> bool {
    // Tab to carriage return, escape and backspace occur in ordinary text.
    let is_control =
        |byte: &&u8| (**byte < 0x20 && !matches!(**byte, 8..=13 | 27)) || **byte == 0x7F;
    let controls = sample.iter().filter(is_control).count();
    controls as f64 > sample.len() as f64 * CONTROL_SHARE_MAX
}

/// Returns whether a sample is UTF-8 with a few invalid bytes. Decoding it as anything else would
/// garble all other characters.
fn is_mostly_utf8(sample: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in sample.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<&str>) {
        let found = TextEncoding::detect(bytes, true).map(|encoding| encoding.name().into_owned());
        assert_eq!(found.as_deref(), expected, "{bytes:?}");
    }

    fn encode_utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn encodings_are_detected_by_content() {
        check(b"", Some("UTF-8"));
        check("plain é 漢".as_bytes(), Some("UTF-8"));
        check(b"\xEF\xBB\xBFmarked", Some("UTF-8 with a byte order mark"));
        check(b"\xFF\xFEa\0b\0", Some("UTF-16LE with a byte order mark"));
        check(b"\xFE\xFF\0a\0b", Some("UTF-16BE with a byte order mark"));
        check(&encode_utf16("plain text without a mark\r\n"), Some("UTF-16LE"));
        check(&encode_utf16("one character, Ā, has its zero on the other side"), Some("UTF-16LE"));
        check(b"caf\xE9 cr\xE8me br\xFBl\xE9e", Some("windows-1252"));
        check(
            "日本語のテキストです。"
                .chars()
                .flat_map(|c| {
                    encoding_rs::SHIFT_JIS.encode(c.encode_utf8(&mut [0; 4])).0.into_owned()
                })
                .collect::<Vec<_>>()
                .as_slice(),
            Some("Shift_JIS"),
        );
        check("ééééééééé\u{1b}[0m".as_bytes(), Some("UTF-8"));
        check(b"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xFF", Some("UTF-8"));
    }

    #[test]
    fn binary_content_is_not_text() {
        check(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", None);
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", None);
        check(b"a\0b", None);
        check(b"a\0b\0c", None);
        check(b"a\0b\0", None);
        check(b"a\0b\0c\0d\0e", None);
        check(&encode_utf16("half of one \u{1F600}")[..26], None);
        let numbers = (0..500_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u16);
        check(&numbers.flat_map(u16::to_le_bytes).collect::<Vec<_>>(), None);
        check(&[1, 2, 3, 4, 5, 6, 7, 1, 2, 3], None);
        check(b"\xFF\xFE\0\0a\0\0\0", None);
    }

    #[test]
    fn sample_may_end_within_a_character() {
        let cut = &"aé".as_bytes()[..2];
        assert_eq!(TextEncoding::detect(cut, false), Some(TextEncoding::UTF_8));
        let wide = encode_utf16("a smile \u{1F600}");
        for cut in [1, 2, 3] {
            let found = TextEncoding::detect(&wide[..wide.len() - cut], false);
            assert_eq!(found.map(TextEncoding::name).as_deref(), Some("UTF-16LE"), "{cut}");
        }
    }

    #[test]
    fn content_beyond_sample_is_ignored() {
        let mut bytes = b"plain\n".repeat(SAMPLE_BYTES_MAX / 6 + 1);
        bytes.extend_from_slice(b"caf\xE9 cr\xE8me br\xFBl\xE9e");
        assert_eq!(TextEncoding::detect_in_file(&bytes), Some(TextEncoding::UTF_8));
        let found = TextEncoding::detect_in_file(&bytes[bytes.len() - 20..]);
        assert_eq!(found.map(TextEncoding::name).as_deref(), Some("windows-1252"));
    }

    #[test]
    fn unencodable_character_is_named() {
        let encoding = TextEncoding::detect(b"caf\xE9 cr\xE8me br\xFBl\xE9e", true).unwrap();
        assert_eq!(encoding.encode("ok €").unwrap(), b"ok \x80");
        let error = encoding.encode("ok\n漢").unwrap_err();
        assert_eq!(error.to_string(), "`漢` (line 2) cannot be written in windows-1252");
        let japanese = TextEncoding { encoding: encoding_rs::SHIFT_JIS, bom: false };
        assert_eq!(japanese.encode("日本\\~").unwrap(), b"\x93\xFA\x96\x7B\\~");
        for (text, character) in [("円\n¥100", '¥'), ("円\n‾", '‾')] {
            let error = japanese.encode(text).unwrap_err();
            assert_eq!((error.character, error.line), (character, 2));
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(text in "[a-zé漢\r\n\t ]{0,80}", mark in proptest::bool::ANY) {
            for encoding in [UTF_8, UTF_16LE, UTF_16BE] {
                let encoding = TextEncoding { encoding, bom: mark };
                let bytes = encoding.encode(&text).unwrap();
                proptest::prop_assert_eq!(encoding.decode(&bytes), &text[..]);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(encoding) = TextEncoding::detect(&bytes, true) {
                let _ = encoding.encode(&encoding.decode(&bytes));
            }
        }
    }
}
