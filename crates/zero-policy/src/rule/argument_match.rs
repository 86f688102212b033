//! Compares the arguments of a call with the patterns of a rule.
//!
//! An allow rule matches only what every server reads in the same way: one argument with exactly
//! this name, and a value with exactly this text. A deny or ask rule also matches what some server
//! may take for it: other spellings of a name, a number or a text, an element of a list, JSON in a
//! text, and everything that is too large or too deep to look at. An argument that a call does not
//! have matches neither.

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;
use zero_core::ToolArguments;

use super::argument_pattern::ArgumentPattern;
use super::rule_target::is_invisible;
use crate::Verdict;

/// Most bytes of names and texts that are looked at for one pattern.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Most values that are looked at for one pattern.
const VALUES_MAX: usize = 20_000;
/// Deepest nesting of objects, lists and JSON in texts.
const DEPTH_MAX: usize = 64;

/// Words that servers take for a truth value.
const TRUE_WORDS: [&str; 6] = ["true", "t", "yes", "y", "on", "1"];
const FALSE_WORDS: [&str; 6] = ["false", "f", "no", "n", "off", "0"];

impl ArgumentPattern {
    /// Whether a rule with this verdict applies to a call with these arguments; `None` if they are
    /// not known.
    pub(crate) fn matches(&self, verdict: Verdict, arguments: Option<&ToolArguments>) -> bool {
        match (verdict, arguments) {
            (Verdict::Allow, None) => false,
            (Verdict::Allow, Some(arguments)) => self.matches_exactly(arguments.as_map()),
            (Verdict::Ask | Verdict::Deny, None) => true,
            (Verdict::Ask | Verdict::Deny, Some(arguments)) => {
                // A dot in a name may be one between names for some server.
                let names = self.path.iter().flat_map(|name| name.split('.'));
                let path: Vec<String> = names.map(str::to_owned).collect();
                LooseMatcher::new(self).search_fields(arguments.as_map(), &path, 0)
            }
        }
    }

    fn matches_exactly(&self, arguments: &Map<String, Value>) -> bool {
        let text = match find_only_value(arguments, &self.path) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => return false,
        };
        let has_open_part = self.value.as_literal().is_none() && !self.value.is_any();
        text.len() <= TEXT_BYTES_MAX
            && self.value.matches(&text)
            && !(has_open_part && can_escape_wildcard(&text))
    }
}

/// The value of an argument, if no other argument can be taken for it.
fn find_only_value<'v>(fields: &'v Map<String, Value>, path: &[String]) -> Option<&'v Value> {
    if fields.len() > VALUES_MAX {
        return None;
    }
    let mut found = None;
    for (name, value) in fields {
        if has_unreadable_char(name) {
            return None;
        }
        for count in counts_of_names(name, path) {
            let (own, rest) = path.split_at(count);
            // A server that knows an object `filter` ignores a field `filter.user`.
            if found.is_some() || !matches!(own, [own] if own == name) {
                return None;
            }
            found = Some((value, rest));
        }
    }
    match found? {
        (value, []) => Some(value),
        (value, rest) => find_only_value(value.as_object()?, rest),
    }
}

/// How many names of a path the name of a field may stand for: `filter.user` may be a field of
/// `filter`, or one field with a dot in its name.
fn counts_of_names(name: &str, path: &[String]) -> Vec<usize> {
    let folded = fold_argument_name(name);
    (1..=path.len())
        .filter(|count| {
            path.get(..*count).is_some_and(|own| fold_argument_name(&own.join(".")) == folded)
        })
        .collect()
}

/// Whether a text that a pattern with `*` matches may mean something outside of the pattern:
/// `/srv/*` and `/srv/../etc`, a line break after which a header follows, or a list of recipients of
/// which one matches.
fn can_escape_wildcard(text: &str) -> bool {
    // A server may decode the text as part of a URL, once or more, and take wide letters for others.
    let decoded = fold_text(&decode_percent(&fold_text(text)));
    text.chars().any(is_ignorable)
        || decoded.contains([',', ';'])
        || decoded.chars().any(|char| char.is_control() && char != '\t')
        || decoded.split(['/', '\\']).any(|part| part == "..")
}

/// A text with `%2e` and the like decoded until nothing is left to decode.
fn decode_percent(text: &str) -> String {
    let mut decoded: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        decoded.push(byte);
        // What was decoded may complete another escape: `%252e`.
        while let [.., b'%', high, low] = *decoded
            && let (Some(high), Some(low)) =
                (char::from(high).to_digit(16), char::from(low).to_digit(16))
        {
            decoded.truncate(decoded.len() - 3);
            decoded.push((high * 16 + low) as u8);
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Looks for a value that some server may take for the argument of a rule.
struct LooseMatcher<'p> {
    pattern: &'p ArgumentPattern,
    number: Option<f64>,
    words: &'static [&'static str],
    values_left: usize,
    bytes_left: usize,
}

impl<'p> LooseMatcher<'p> {
    fn new(pattern: &'p ArgumentPattern) -> Self {
        let literal = pattern.folded.as_literal();
        let is_one_of = |words: &[&str]| literal.is_some_and(|literal| words.contains(&literal));
        let words: &[&str] = match () {
            () if is_one_of(&TRUE_WORDS) => &TRUE_WORDS,
            () if is_one_of(&FALSE_WORDS) => &FALSE_WORDS,
            () => &[],
        };
        let number = literal.and_then(parse_number);
        let words = match number {
            Some(1.0) => &TRUE_WORDS,
            Some(0.0) => &FALSE_WORDS,
            _ => words,
        };
        Self { pattern, number, words, values_left: VALUES_MAX, bytes_left: TEXT_BYTES_MAX }
    }

    /// Searches the fields of an object for the one that a path names.
    fn search_fields(
        &mut self,
        fields: &Map<String, Value>,
        path: &[String],
        depth: usize,
    ) -> bool {
        fields.iter().any(|(name, value)| {
            if !self.spend(name.len()) || has_unreadable_char(name) {
                return true;
            }
            counts_of_names(name, path).into_iter().any(|count| match path.split_at(count) {
                (_, []) => self.may_match_value(value, depth + 1),
                (_, rest) => self.search_value(value, rest, depth + 1),
            })
        })
    }

    /// Searches a value for the field that a path names.
    fn search_value(&mut self, value: &Value, path: &[String], depth: usize) -> bool {
        if depth > DEPTH_MAX || !self.spend(0) {
            return true;
        }
        match value {
            Value::Null => false,
            Value::Object(fields) => self.search_fields(fields, path, depth),
            Value::Array(items) => {
                items.iter().any(|item| self.search_value(item, path, depth + 1))
            }
            // It is not known what the server makes of it. Some parse a text as JSON.
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    fn may_match_value(&mut self, value: &Value, depth: usize) -> bool {
        if depth > DEPTH_MAX || !self.spend(0) || self.pattern.is_any() {
            return true;
        }
        match value {
            Value::Null => self.pattern.folded.matches("null"),
            // It is not known how the server combines the fields.
            Value::Object(_) => true,
            Value::Array(items) => items.iter().any(|item| self.may_match_value(item, depth + 1)),
            Value::Bool(_) | Value::Number(_) => self.may_match_text(&value.to_string(), depth),
            Value::String(text) => self.may_match_text(text, depth),
        }
    }

    fn may_match_text(&mut self, text: &str, depth: usize) -> bool {
        if depth > DEPTH_MAX || !self.spend(text.len()) || has_unreadable_char(text) {
            return true;
        }
        let folded = fold_text(text);
        let folded = folded.trim();
        let pattern = &self.pattern.folded;
        // As it is written, too: without its blanks, ` ` is no longer a match of `* *`.
        let is_match = pattern.matches(folded) || self.pattern.value.matches(text);
        if is_match || self.words.contains(&folded) {
            return true;
        }
        let has_other_digits = || text.chars().any(|char| !char.is_ascii() && char.is_numeric());
        if self.number.is_some() && has_other_digits() {
            return true;
        }
        if read_numbers(folded).any(|number| {
            self.number == Some(number)
                || self.is_truth_value(number)
                || pattern.matches(&number.to_string())
        }) {
            return true;
        }
        // Some servers parse a text as JSON.
        text.trim_start().starts_with(['{', '[', '"'])
            && json_tokens(text).any(|token| self.may_match_text(&token, depth + 1))
    }

    /// Whether some server takes a number for the word of the pattern: any but zero for `true`.
    fn is_truth_value(&self, number: f64) -> bool {
        let word = self.words.first().filter(|_| self.number.is_none());
        word.is_some_and(|word| (*word == TRUE_WORDS[0]) == (number != 0.0))
    }

    /// Counts a value with a text of this length; false if there are too many.
    fn spend(&mut self, bytes: usize) -> bool {
        let left = (self.values_left.checked_sub(1), self.bytes_left.checked_sub(bytes));
        let (Some(values), Some(bytes)) = left else { return false };
        (self.values_left, self.bytes_left) = (values, bytes);
        true
    }
}

/// A text without differences of letter case and Unicode normalization, and without characters that
/// cannot be seen.
pub(super) fn fold_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // The long s is only equal to an s in upper case, and the capital sharp s in lower case.
    let visible = text.nfkd().filter(|char| !is_ignorable(*char) || char.is_whitespace());
    let upper = visible.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// Whether a character is not shown, or only changes how another one looks.
fn is_ignorable(char: char) -> bool {
    is_invisible(char)
        || matches!(char, '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
}

/// The same for the name of an argument. Some servers also take `userId` for `user_id`.
pub(super) fn fold_argument_name(name: &str) -> String {
    let is_letter = |char: &char| !matches!(char, '_' | '-') && !char.is_whitespace();
    fold_text(name).chars().filter(is_letter).collect()
}

/// Whether a text has a control character, at which some servers end it.
fn has_unreadable_char(text: &str) -> bool {
    text.chars().any(|char| char.is_control() && !matches!(char, '\t' | '\n' | '\r'))
}

/// The number that some server reads in a text: `10`, `1e1`, `+10.0`, `1_0`, `0xa`.
fn parse_number(folded: &str) -> Option<f64> {
    let digits = folded.replace('_', "");
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(|number| number as f64);
        }
    }
    digits.parse().ok()
}

/// The numbers that servers may read in a text: `1,000` is a thousand for some and one for others.
fn read_numbers(folded: &str) -> impl Iterator<Item = f64> {
    let is_separator = |char: char| matches!(char, ',' | '\'' | '’' | '.') || char.is_whitespace();
    let has_separator = folded
        .starts_with(|char: char| char.is_ascii_digit() || "+-".contains(char))
        && folded.contains(is_separator);
    let grouped = || has_separator.then(|| folded.replace(is_separator, ""));
    // The last separator may be the one before the fraction.
    let fraction = || {
        let (whole, rest) = has_separator.then(|| folded.rsplit_once(['.', ','])).flatten()?;
        Some(format!("{}.{rest}", whole.replace(is_separator, "")))
    };
    let readings = [Some(folded.to_owned()), grouped(), fraction()];
    readings.into_iter().flatten().filter_map(|text| parse_number(&text))
}

/// The texts, numbers and words in a text that may be JSON. Names that are given twice are all
/// there, which a parser would hide.
fn json_tokens(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest =
            rest.trim_start_matches(|char: char| char.is_whitespace() || "{}[],:".contains(char));
        let end = match rest.strip_prefix('"') {
            Some(inner) => find_closing_quote(inner).map_or(rest.len(), |end| end + 2),
            None => rest
                .find(|char: char| char.is_whitespace() || "{}[],:\"".contains(char))
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(end)?;
        rest = after;
        let unescaped =
            || serde_json::from_str::<String>(token).unwrap_or_else(|_| token.to_owned());
        (!token.is_empty()).then(unescaped)
    })
}

/// Where the quote is that ends a JSON text, whose first quote is not part of `text`.
fn find_closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}
