//! Conversion of positions: lines and characters counted from 1, as users see them, and positions
//! counted from 0 in the units of the server.
//!
//! For users, a character is a Unicode scalar value. Servers count UTF-16 units unless they
//! negotiate bytes.

/// The units in which a server counts within a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PositionEncoding {
    /// Bytes of UTF-8.
    Utf8,
    /// Code units of UTF-16, the default of the protocol.
    #[default]
    Utf16,
    /// Unicode scalar values.
    Utf32,
}

impl PositionEncoding {
    /// The encodings offered to a server, in order of preference.
    pub const SUPPORTED: [&'static str; 2] = ["utf-8", "utf-16"];

    /// Returns the encoding with this name in the protocol.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    fn width(self, character: char) -> u64 {
        match self {
            Self::Utf8 => character.len_utf8() as u64,
            Self::Utf16 => character.len_utf16() as u64,
            Self::Utf32 => 1,
        }
    }

    /// Returns the offset, in units, at which a character starts. `character` counts from 1; one
    /// beyond the line means its end.
    pub fn to_units(self, line: &str, character: u64) -> u64 {
        let before = usize::try_from(character.saturating_sub(1)).unwrap_or(usize::MAX);
        line.chars().take(before).map(|c| self.width(c)).sum()
    }

    /// Returns the number, from 1, of the character that starts at or contains this offset.
    pub fn to_character(self, line: &str, units: u64) -> u64 {
        let mut seen = 0;
        for (before, c) in line.chars().enumerate() {
            seen += self.width(c);
            if seen > units {
                return before as u64 + 1;
            }
        }
        line.chars().count() as u64 + 1
    }
}

/// Splits a text into lines as servers do, without line endings.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.find(['\n', '\r']) {
            Some(at) => {
                let (line, end) = text.split_at(at);
                let end = end.strip_prefix("\r\n").or_else(|| end.get(1..)).unwrap_or_default();
                rest = Some(end);
                Some(line)
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

/// Returns the identifier that contains a character of a line, if there is one.
pub fn word_at(line: &str, character: u64) -> Option<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let at = usize::try_from(character.saturating_sub(1)).ok()?;
    let (byte, found) = line.char_indices().nth(at)?;
    if !is_word(found) {
        return None;
    }
    let before = line.get(..byte)?;
    let start = before.trim_end_matches(is_word).len();
    let after = line.get(byte..)?;
    let end = byte + after.find(|c| !is_word(c)).unwrap_or(after.len());
    line.get(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_convert_to_and_from_units() {
        let line = "let ä = \"😀x\"; é";
        for (character, utf8, utf16, utf32) in [
            (1, 0, 0, 0),
            (5, 4, 4, 4),
            (6, 6, 5, 5),
            (10, 10, 9, 9),
            (11, 14, 11, 10),
            (99, 20, 16, 15),
        ] {
            for (encoding, units) in [
                (PositionEncoding::Utf8, utf8),
                (PositionEncoding::Utf16, utf16),
                (PositionEncoding::Utf32, utf32),
            ] {
                assert_eq!(encoding.to_units(line, character), units, "{character} {encoding:?}");
                let back = character.min(line.chars().count() as u64 + 1);
                assert_eq!(encoding.to_character(line, units), back, "{units} {encoding:?}");
            }
        }
        // An offset inside a character means that character.
        assert_eq!(PositionEncoding::Utf8.to_character(line, 12), 10);
        assert_eq!(PositionEncoding::Utf16.to_character(line, 10), 10);
    }

    #[test]
    fn all_line_endings_split_lines() {
        let split: Vec<&str> = lines("a\nb\r\nc\rd\n").collect();
        assert_eq!(split, ["a", "b", "c", "d", ""]);
        assert_eq!(lines("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn word_at_position_is_found() {
        for (line, character, expected) in [
            ("let grüße = 1", 5, Some("grüße")),
            ("let grüße = 1", 9, Some("grüße")),
            ("let grüße = 1", 10, None),
            ("x", 1, Some("x")),
            ("x", 2, None),
            ("", 1, None),
        ] {
            assert_eq!(word_at(line, character), expected, "{line} {character}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back_is_the_same(line in "[a-zé😀ü𝕏 ]{0,20}", character in 1_u64..25) {
            let last = line.chars().count() as u64 + 1;
            for encoding in [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32] {
                let units = encoding.to_units(&line, character);
                prop_assert_eq!(encoding.to_character(&line, units), character.min(last));
            }
        }
    }
}
