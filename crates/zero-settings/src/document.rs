//! Parses JSON with comments and trailing commas, and records the location of every value.
//!
//! Everything else is strict. A duplicate key is an error instead of "the last one wins", because a
//! second `deny` far down in a file would silently replace the first.

use std::collections::HashMap;

use jsonc_parser::ast::{ObjectPropName, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};
use zero_core::schema_violation::join_pointer;

use crate::problem::{SettingsLocation, SettingsProblem};

/// Largest settings file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1_000_000;
/// Deepest nesting of a settings file.
const DEPTH_MAX: usize = 64;
/// The byte order mark, with which some editors begin a file. It is ignored.
pub const BOM: &str = "\u{FEFF}";

/// The extensions to JSON that are accepted: comments and trailing commas.
pub fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// A parsed settings file, with the location of each value.
#[derive(Clone, Debug)]
pub struct SettingsDocument {
    value: Value,
    /// The location of each property name or element, by JSON pointer.
    places: HashMap<String, SettingsLocation>,
}

impl SettingsDocument {
    /// Parses the bytes of a file; `file` is its name in messages.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<SettingsProblem>> {
        let problem = |place, what: String| SettingsProblem { file: file.to_owned(), place, what };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let lines = LineIndex::new(std::str::from_utf8(valid).unwrap_or_default());
            let what = "this is not UTF-8; save the file as UTF-8".to_owned();
            vec![problem(Some(lines.location(valid.len())), what)]
        })?;
        let text = text.strip_prefix(BOM).unwrap_or(text);
        let lines = LineIndex::new(text);
        let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options());
        let parsed = parsed.map_err(|error| {
            let place = Some(lines.location(error.range().start));
            vec![problem(place, describe_syntax_error(error.kind()))]
        })?;
        let mut walk = TreeConverter { file, lines, places: HashMap::new(), problems: Vec::new() };
        let value = match &parsed.value {
            Some(node @ Node::Object(_)) => walk.convert(node, "", 0),
            Some(other) => {
                walk.add_problem(other.range().start, "settings must be an object; write `{ … }`");
                Value::Null
            }
            None => {
                walk.add_problem(0, "the file is empty; write `{}` or remove it");
                Value::Null
            }
        };
        if walk.problems.is_empty() {
            Ok(Self { value, places: walk.places })
        } else {
            Err(walk.problems)
        }
    }

    /// The contents, without comments.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The location of the value at a JSON pointer; for a missing value, that of its nearest
    /// parent.
    pub fn location(&self, pointer: &str) -> SettingsLocation {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return *place;
            }
            match pointer.rfind('/') {
                Some(end) => pointer = pointer.get(..end).unwrap_or_default(),
                None => return SettingsLocation { line: 1, column: 1 },
            }
        }
    }
}

/// Converts the parser's tree to plain values and records the location of each.
struct TreeConverter<'a> {
    file: &'a str,
    lines: LineIndex<'a>,
    places: HashMap<String, SettingsLocation>,
    problems: Vec<SettingsProblem>,
}

impl TreeConverter<'_> {
    fn convert(&mut self, node: &Node<'_>, pointer: &str, depth: usize) -> Value {
        if depth >= DEPTH_MAX && matches!(node, Node::Object(_) | Node::Array(_)) {
            self.add_problem(
                node.range().start,
                &format!("nested over {DEPTH_MAX} levels; flatten it"),
            );
            return Value::Null;
        }
        match node {
            Node::Object(object) => {
                let mut fields = Map::new();
                for property in &object.properties {
                    let (name, start) = match &property.name {
                        ObjectPropName::String(text) => (text.value.as_ref(), text.range.start),
                        ObjectPropName::Word(word) => (word.value, word.range.start),
                    };
                    let inner = join_pointer(pointer, name);
                    if let Some(first) = self.places.get(&inner) {
                        let what = format!(
                            "`{name}` is a duplicate of line {}; merge the two",
                            first.line
                        );
                        self.add_problem(start, &what);
                        continue;
                    }
                    self.places.insert(inner.clone(), self.lines.location(start));
                    let value = self.convert(&property.value, &inner, depth + 1);
                    fields.insert(name.to_owned(), value);
                }
                Value::Object(fields)
            }
            Node::Array(array) => {
                let mut items = Vec::with_capacity(array.elements.len());
                for (index, element) in array.elements.iter().enumerate() {
                    let inner = join_pointer(pointer, &index.to_string());
                    self.places.insert(inner.clone(), self.lines.location(element.range().start));
                    items.push(self.convert(element, &inner, depth + 1));
                }
                Value::Array(items)
            }
            Node::StringLit(text) => Value::String(text.value.as_ref().to_owned()),
            Node::NumberLit(number) => match serde_json::from_str(number.value) {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    let what = format!("`{}` is not a valid number", number.value);
                    self.add_problem(number.range.start, &what);
                    Value::Null
                }
            },
            Node::BooleanLit(boolean) => Value::Bool(boolean.value),
            Node::NullKeyword(_) => Value::Null,
        }
    }

    fn add_problem(&mut self, at: usize, what: &str) {
        let place = Some(self.lines.location(at));
        self.problems.push(SettingsProblem {
            file: self.file.to_owned(),
            place,
            what: what.to_owned(),
        });
    }
}

/// Describes a parser error, with its fix.
fn describe_syntax_error(kind: &ParseErrorKind) -> String {
    let fix = match kind {
        ParseErrorKind::ExpectedComma => "put a comma between the two",
        ParseErrorKind::ExpectedStringObjectProperty
        | ParseErrorKind::SingleQuotedStringsNotAllowed
        | ParseErrorKind::UnexpectedWord => "write names and strings in double quotes",
        ParseErrorKind::UnterminatedArray => "close it with `]`",
        ParseErrorKind::UnterminatedObject => "close it with `}`",
        ParseErrorKind::UnterminatedCommentBlock => "close it with `*/`",
        ParseErrorKind::MultipleRootJsonValues => "keep one object in the file",
        ParseErrorKind::NestingDepthExceeded => "flatten it",
        _ => "write JSON; comments and trailing commas are fine",
    };
    let found = kind.to_string();
    let mut letters = found.chars();
    let found: String = letters
        .next()
        .map(|first| first.to_lowercase().chain(letters).collect())
        .unwrap_or_default();
    format!("{found}; {fix}")
}

/// Bytes between two offsets at which the characters before them are counted once.
const COUNTED_BYTES: usize = 256;

/// Finds the line and column of an offset. Both are looked up, so that a file in one line does not take the square
/// of its size.
struct LineIndex<'a> {
    text: &'a str,
    /// The offsets at which lines begin.
    starts: Vec<usize>,
    /// The characters before every offset that is a multiple of `COUNTED_BYTES`.
    counts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect();
        let counts = text.as_bytes().chunks(COUNTED_BYTES).scan(0, |total, chunk| {
            let before = *total;
            *total += count_chars(chunk);
            Some(before)
        });
        let counts = counts.collect();
        Self { text, starts, counts }
    }

    fn location(&self, offset: usize) -> SettingsLocation {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let column = self.chars_before(offset) - self.chars_before(start) + 1;
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        SettingsLocation { line: number(line), column: number(column) }
    }

    fn chars_before(&self, offset: usize) -> usize {
        let chunk = offset / COUNTED_BYTES;
        let rest = self.text.as_bytes().get(chunk * COUNTED_BYTES..offset).unwrap_or_default();
        let counted = self.counts.get(chunk).copied();
        // The text may end where a chunk would begin.
        counted.unwrap_or_else(|| self.text.chars().count()) + count_chars(rest)
    }
}

/// The characters that begin in a part of UTF-8 text.
fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte).cast_signed() >= -0x40).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &[u8], expected: Result<Value, &[&str]>) {
        let read = SettingsDocument::parse("f", text)
            .map(|document| document.value)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<String>>());
        let expected =
            expected.map_err(|lines| lines.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(read, expected, "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn location_in_long_lines_counts_characters() {
        let mut text = "ü€x\u{1F600}".repeat(200);
        text.push('\n');
        text += &"äy".repeat(171);
        let lines = LineIndex::new(&text);
        let ends = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
        for offset in ends {
            let before = &text[..offset];
            let start = before.rfind('\n').map_or(0, |end| end + 1);
            let SettingsLocation { line, column } = lines.location(offset);
            let expected = (before.matches('\n').count() + 1, before[start..].chars().count() + 1);
            assert_eq!((line as usize, column as usize), expected, "offset {offset}");
        }
        assert_eq!(LineIndex::new("").location(0), SettingsLocation { line: 1, column: 1 });
    }

    #[test]
    fn comments_trailing_commas_and_bom_are_accepted() {
        check(b"{}", Ok(json!({})));
        check("\u{FEFF}{\"a\": 1}".as_bytes(), Ok(json!({"a": 1})));
        check(b"// x\r\n{\r\n/* y */ \"a\": [1, 2,],\r\n}\r\n", Ok(json!({"a": [1, 2]})));
        check(
            br#"{"a": "\u00fc\"", "b": null, "c": -1.5e3}"#,
            Ok(json!({"a": "ü\"", "b": null, "c": -1.5e3})),
        );
    }

    #[test]
    fn other_syntax_errors_are_refused() {
        check(b"", Err(&["f:1:1: the file is empty; write `{}` or remove it"]));
        check(b"// only this", Err(&["f:1:1: the file is empty; write `{}` or remove it"]));
        check(b"\n [1]", Err(&["f:2:2: settings must be an object; write `{ \u{2026} }`"]));
        check(b"{\"a\": \"\xFF\"}", Err(&["f:1:8: this is not UTF-8; save the file as UTF-8"]));
        check(b"{\"a\": 1 \"b\": 2}", Err(&["f:1:8: expected comma; put a comma between the two"]));
        check(
            b"{a: 1}",
            Err(&[
                "f:1:2: expected string for object property; write names and strings in double quotes",
            ]),
        );
        check(
            b"{'a': 1}",
            Err(&[
                "f:1:2: single-quoted strings are not allowed; write names and strings in double quotes",
            ]),
        );
        check(b"{\"a\": 1", Err(&["f:1:1: unterminated object; close it with `}`"]));
        check(
            b"{} {}",
            Err(&[
                "f:1:4: text cannot contain more than one JSON value; keep one object in the file",
            ]),
        );
        check(b"{\"a\": 1e999}", Err(&["f:1:7: `1e999` is not a valid number"]));
    }

    #[test]
    fn every_duplicate_key_is_reported() {
        check(
            b"{\"p\": {\"deny\": [1],\n \"deny\": []},\n\"q\": 1, \"\\u0071\": 2}",
            Err(&[
                "f:2:2: `deny` is a duplicate of line 1; merge the two",
                "f:3:9: `q` is a duplicate of line 3; merge the two",
            ]),
        );
    }

    #[test]
    fn nesting_depth_is_bounded() {
        let nested = |depth: usize| {
            format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth)).into_bytes()
        };
        assert!(SettingsDocument::parse("f", &nested(DEPTH_MAX - 1)).is_ok());
        check(&nested(DEPTH_MAX), Err(&["f:1:70: nested over 64 levels; flatten it"]));
        for depth in [1_000, 100_000] {
            let problems = SettingsDocument::parse("f", &nested(depth)).unwrap_err();
            assert!(problems[0].what.contains("flatten it"), "{problems:?}");
        }
    }

    #[test]
    fn value_has_location_and_absent_one_its_parents() {
        let document =
            SettingsDocument::parse("f", b"{\n  \"a\": [\n    1,\n    {\"b/c\": 2}]}").unwrap();
        for (pointer, line, column) in [
            ("/a", 2, 3),
            ("/a/0", 3, 5),
            ("/a/1", 4, 5),
            ("/a/1/b~1c", 4, 6),
            ("/a/1/x/y", 4, 5),
            ("", 1, 1),
            ("/z", 1, 1),
        ] {
            assert_eq!(document.location(pointer), SettingsLocation { line, column }, "{pointer}");
        }
    }
}
