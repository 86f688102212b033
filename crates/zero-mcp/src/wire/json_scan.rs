//! Scans JSON without parsing it: its depth, its size, and where its members are.
//!
//! Checking after parsing would be too late: a line of eight megabytes can contain four million
//! values, which take hundreds of megabytes once parsed. Also, a message with one tool that nests
//! too deeply would be lost as a whole; split into parts, only that tool is lost. Nothing here
//! recurses, whatever the input.

/// How large a piece of JSON is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonWeight {
    /// Maximum nesting depth.
    pub(crate) depth: usize,
    /// Estimated number of values, never too low.
    pub(crate) nodes: usize,
}

/// Measures a piece of JSON, valid or not.
pub(crate) fn weigh(bytes: &[u8]) -> JsonWeight {
    let (mut depth, mut deepest, mut nodes) = (0_usize, 0, 1);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = find_string_end(bytes, at + 1).unwrap_or(bytes.len()),
            b'{' | b'[' => {
                depth += 1;
                nodes += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' => nodes += 1,
            _ => {}
        }
        at += 1;
    }
    JsonWeight { depth: deepest, nodes }
}

/// Replaces every escape of a lone surrogate by U+FFFD, in place. A string cannot contain one, and
/// the whole message would be invalid. Returns the number of replacements.
pub(crate) fn replace_lone_surrogates(bytes: &mut [u8]) -> usize {
    let mut mended = 0;
    let mut at = 0;
    while let Some(offset) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\'))
    {
        at += offset;
        at += match (surrogate_at(bytes, at), surrogate_at(bytes, at + 6)) {
            (Some(SurrogateHalf::High), Some(SurrogateHalf::Low)) => 12,
            (None, _) => 2,
            _ => {
                if let Some(digits) = bytes.get_mut(at + 2..at + 6) {
                    digits.copy_from_slice(b"fffd");
                    mended += 1;
                }
                6
            }
        };
    }
    mended
}

enum SurrogateHalf {
    High,
    Low,
}

/// Returns which half of a surrogate pair the escape at `at` is, if it is one.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<SurrogateHalf> {
    match bytes.get(at..at + 6)? {
        [b'\\', b'u', b'd' | b'D', kind, a, b]
            if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() =>
        {
            match kind {
                b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(SurrogateHalf::High),
                b'c'..=b'f' | b'C'..=b'F' => Some(SurrogateHalf::Low),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Iterates over the members of an object, as raw JSON. If it is not an object or is cut off, the
/// last item is an error; the items before it can be used.
pub(crate) fn members(bytes: &[u8]) -> JsonItems<'_> {
    JsonItems {
        cursor: JsonCursor { bytes, at: 0 },
        brackets: (b'{', b'}'),
        state: ScanState::Start,
    }
}

/// Iterates over the elements of an array, with empty keys; otherwise like [`members`].
pub(crate) fn elements(bytes: &[u8]) -> JsonItems<'_> {
    JsonItems {
        cursor: JsonCursor { bytes, at: 0 },
        brackets: (b'[', b']'),
        state: ScanState::Start,
    }
}

/// Returns the value of a member, if it exists and the object is valid up to there.
pub(crate) fn member<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    members(bytes).map_while(Result::ok).find(|piece| piece.key == key.as_bytes()).map(|p| p.value)
}

/// Parses a string.
pub(crate) fn parse_text(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice(bytes).ok()
}

/// The JSON is not of the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedJsonError;

/// A part of an object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonItem<'a> {
    /// The raw key, without quotes; empty in an array.
    pub(crate) key: &'a [u8],
    /// The raw value. Only its brackets and quotes are known to match.
    pub(crate) value: &'a [u8],
}

/// Iterator over the parts of an object or array.
pub(crate) struct JsonItems<'a> {
    cursor: JsonCursor<'a>,
    brackets: (u8, u8),
    state: ScanState,
}

#[derive(Clone, Copy)]
enum ScanState {
    Start,
    Within,
    Done,
}

impl<'a> Iterator for JsonItems<'a> {
    type Item = Result<JsonItem<'a>, MalformedJsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = match self.state {
            ScanState::Start => self.read_first(),
            ScanState::Within => self.read_item().map(Some),
            ScanState::Done => return None,
        };
        if !matches!(piece, Ok(Some(_))) {
            self.state = ScanState::Done;
        }
        piece.transpose()
    }
}

impl<'a> JsonItems<'a> {
    fn read_first(&mut self) -> Result<Option<JsonItem<'a>>, MalformedJsonError> {
        self.cursor.expect(self.brackets.0)?;
        if self.cursor.expect(self.brackets.1).is_ok() {
            return self.cursor.expect_end().map(|()| None);
        }
        self.state = ScanState::Within;
        self.read_item().map(Some)
    }

    fn read_item(&mut self) -> Result<JsonItem<'a>, MalformedJsonError> {
        let mut key: &[u8] = &[];
        if self.brackets.0 == b'{' {
            key = self.cursor.read_string()?;
            self.cursor.expect(b':')?;
        }
        let value = self.cursor.read_value()?;
        if self.cursor.expect(b',').is_err() {
            self.cursor.expect(self.brackets.1)?;
            self.cursor.expect_end()?;
            self.state = ScanState::Done;
        }
        Ok(JsonItem { key, value })
    }
}

struct JsonCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> JsonCursor<'a> {
    fn peek(&mut self) -> Result<u8, MalformedJsonError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let spaces = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += spaces;
        rest.get(spaces).copied().ok_or(MalformedJsonError)
    }

    fn expect(&mut self, byte: u8) -> Result<(), MalformedJsonError> {
        if self.peek()? != byte {
            return Err(MalformedJsonError);
        }
        self.at += 1;
        Ok(())
    }

    fn expect_end(&mut self) -> Result<(), MalformedJsonError> {
        if self.peek().is_ok() { Err(MalformedJsonError) } else { Ok(()) }
    }

    fn read_string(&mut self) -> Result<&'a [u8], MalformedJsonError> {
        self.expect(b'"')?;
        let start = self.at;
        let end = find_string_end(self.bytes, start).ok_or(MalformedJsonError)?;
        self.at = end + 1;
        self.bytes.get(start..end).ok_or(MalformedJsonError)
    }

    fn read_value(&mut self) -> Result<&'a [u8], MalformedJsonError> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.read_string()?;
            }
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let rest = self.bytes.get(start..).unwrap_or_default();
                let length = rest.iter().take_while(|b| is_scalar(**b)).count();
                if length == 0 {
                    return Err(MalformedJsonError);
                }
                self.at += length;
            }
        }
        self.bytes.get(start..self.at).ok_or(MalformedJsonError)
    }

    fn skip_nested(&mut self) -> Result<(), MalformedJsonError> {
        let mut depth = 0_usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.at = find_string_end(self.bytes, self.at + 1).ok_or(MalformedJsonError)?
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        Err(MalformedJsonError)
    }
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// Returns the position of the quote that ends a string whose text starts at `at`.
fn find_string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let offset = bytes.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        at += offset;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let pieces = if json.trim_start().starts_with('[') {
            elements(json.as_bytes())
        } else {
            members(json.as_bytes())
        };
        let shown: Vec<String> = pieces
            .map(|piece| match piece {
                Ok(piece) => format!(
                    "{}={}",
                    String::from_utf8_lossy(piece.key),
                    String::from_utf8_lossy(piece.value)
                ),
                Err(MalformedJsonError) => "!".into(),
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{json}");
    }

    #[test]
    fn members_are_found_without_parsing() {
        check(r#"{}"#, "");
        check(r#" { "a" : 1 , "b":[1,{"c":"]}"}] } "#, r#"a=1 b=[1,{"c":"]}"}]"#);
        check(r#"{"a":"x\"}","b":null}"#, r#"a="x\"}" b=null"#);
        check(r#"[1,"a",[],{}]"#, r#"=1 ="a" =[] ={}"#);
        check("[]", "");
    }

    #[test]
    fn truncated_or_broken_json_ends_with_error() {
        check(r#"{"id":7,"result":{"a":[1"#, "id=7 !");
        check(r#"{"id":7"#, "!");
        check(r#"{"a":1 "b":2}"#, "!");
        check(r#"{"a":1,}"#, "a=1 !");
        check(r#"{"a":1}x"#, "!");
        check(r#"{"a"}"#, "!");
        check(r#"{a:1}"#, "!");
        check(r#"{"a":}"#, "!");
        check("", "!");
        check("7", "!");
    }

    #[test]
    fn weight_ignores_brackets_in_strings() {
        assert_eq!(weigh(br#"{"a":[[1,2],"[[[["]}"#).depth, 3);
        assert_eq!(weigh(br#""[\"[""#).depth, 0);
        assert!(weigh(b"[1,2,3,4]").nodes >= 5);
        assert_eq!(weigh(&b"[".repeat(1000)).depth, 1000);
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_kept() {
        for (json, expected) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\uD8"#, r#""\uD8"#),
        ] {
            let mut bytes = json.as_bytes().to_vec();
            replace_lone_surrogates(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }
}
