//! Detection of the character encoding of a page, and decoding.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes at the start of a page that are searched for a declaration of its encoding.
const PROLOGUE_BYTES: usize = 4 * 1024;
/// Bytes that are used to guess the encoding.
const SAMPLE_BYTES_MAX: usize = 64 * 1024;

/// Decodes a page: by its byte order mark, by the encoding that the response header or the page
/// declares, or else by a guess. `header_charset` is the charset of its content type.
pub(super) fn decode<'a>(bytes: &'a [u8], header_charset: Option<&str>) -> Cow<'a, str> {
    let (text, _, _) = detect_encoding(bytes, header_charset).decode(bytes);
    text
}

fn detect_encoding(bytes: &[u8], header_charset: Option<&str>) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding;
    }
    let header_charset = header_charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    if let Some(encoding) = header_charset.or_else(|| declared_encoding(bytes)) {
        // A declared encoding is used even if the bytes are valid in another one.
        return encoding;
    }
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let sample = bytes.get(..bytes.len().min(SAMPLE_BYTES_MAX)).unwrap_or_default();
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, sample.len() == bytes.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// Returns the encoding that a page declares: `<meta charset=…>`, `content="…; charset=…"`, or
/// `<?xml encoding="…"?>`.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let prologue = bytes.get(..bytes.len().min(PROLOGUE_BYTES))?.to_ascii_lowercase();
    let prologue = String::from_utf8_lossy(&prologue);
    let label = |key: &str, within: &str| {
        prologue.split(within).skip(1).take(64).find_map(|tag| {
            let tag = tag.split('>').next()?;
            let value = tag.split(key).nth(1)?.trim_start().strip_prefix('=')?;
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let end = value.find(['"', '\'', ';', ' ', '/', '?']).unwrap_or(value.len());
            Encoding::for_label(value.get(..end)?.as_bytes())
        })
    };
    let named = label("charset", "<meta").or_else(|| label("encoding", "<?xml"))?;
    // A declaration that is readable as single bytes cannot be in UTF-16.
    if named == UTF_16LE || named == UTF_16BE { Some(UTF_8) } else { Some(named) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], header_charset: Option<&str>, expected: &str) {
        assert_eq!(decode(bytes, header_charset), expected, "{bytes:?} {header_charset:?}");
    }

    #[test]
    fn page_is_decoded_in_its_charset() {
        check("é".as_bytes(), None, "é");
        check(b"\xe9", Some("ISO-8859-1"), "é");
        check(b"\xef\xbb\xbf\xc3\xa9", Some("iso-8859-1"), "é");
        check(b"\xff\xfeA\0", None, "A");
        check(b"<meta charset=\"windows-1251\">\xcf", None, "<meta charset=\"windows-1251\">П");
        check(
            b"<META http-equiv=x content='text/html; charset=Shift_JIS'>\x82\xa0",
            None,
            "<META http-equiv=x content='text/html; charset=Shift_JIS'>あ",
        );
        check(
            b"<?xml version='1.0' encoding='latin1'?>\xe9",
            None,
            "<?xml version='1.0' encoding='latin1'?>é",
        );
        check(b"<meta charset=utf-16>x", None, "<meta charset=utf-16>x");
        check(b"a\xffb", Some("utf-8"), "a\u{fffd}b");
        check(b"caf\xe9 au lait, d\xe9j\xe0 vu", None, "café au lait, déjà vu");
        check(b"x", Some("no-such-thing"), "x");
    }
}
