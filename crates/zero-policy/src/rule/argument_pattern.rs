//! Arguments in a rule for an external tool: `recipient:alice@*`, `filter.user:alice,limit:10`.
//!
//! A value matches as a whole. `*` is any text, also none; every other character stands for itself,
//! and a backslash takes the meaning of the next one away.

use super::argument_match;
use super::rule_error::RuleError;

/// A pattern for one argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentPattern {
    /// The name; the names of fields inside an object follow.
    pub(super) path: Vec<String>,
    pub(super) value: TextPattern,
    /// The value in the form that [`argument_match::fold_text`] gives to texts.
    pub(super) folded: TextPattern,
}

/// A text with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextPattern {
    /// The texts before, between and after each `*`; at least one.
    parts: Vec<String>,
}

/// A character of a rule, and whether a backslash precedes it.
type RuleChar = (char, bool);

impl ArgumentPattern {
    /// Parses patterns separated by commas.
    pub(super) fn parse_list(text: &str) -> Result<Vec<Self>, RuleError> {
        let chars = unescape(text);
        let mut patterns: Vec<Self> = Vec::new();
        for written in chars.split(|char| *char == (',', false)) {
            let pattern = Self::parse(written)?;
            if patterns.iter().any(|earlier| earlier.is_same_argument(&pattern)) {
                return Err(RuleError::RepeatedArgument(pattern.path.join(".")));
            }
            patterns.push(pattern);
        }
        Ok(patterns)
    }

    fn parse(written: &[RuleChar]) -> Result<Self, RuleError> {
        let Some(colon) = written.iter().position(|char| *char == (':', false)) else {
            return Err(RuleError::NoArgument(to_text(trim(written))));
        };
        let (name, value) = written.split_at(colon);
        let (name, value) = (trim(name), trim(value.get(1..).unwrap_or_default()));
        let path = parse_path(name)?;
        if value.is_empty() {
            return Err(RuleError::EmptyArgument(to_text(name)));
        }
        let value = TextPattern::new(value);
        let folded = value.map_parts(argument_match::fold_text).trimmed();
        Ok(Self { path, value, folded })
    }

    /// Whether it matches every value.
    pub(super) fn is_any(&self) -> bool {
        self.value.is_any()
    }

    fn is_same_argument(&self, other: &Self) -> bool {
        let names = |pattern: &Self| {
            pattern
                .path
                .iter()
                .map(|name| argument_match::fold_argument_name(name))
                .collect::<Vec<_>>()
        };
        names(self) == names(other)
    }
}

impl TextPattern {
    fn new(chars: &[RuleChar]) -> Self {
        Self { parts: chars.split(|char| *char == ('*', false)).map(to_text).collect() }
    }

    /// Whether the whole text matches. Takes time linear in its length.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some((last, between)) = rest.split_last() else { return text == first };
        let inner =
            text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()));
        let Some(mut rest) = inner else { return false };
        for part in between {
            let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
            rest = after;
        }
        true
    }

    /// The text, if it has no `*`.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// Whether it is only `*`.
    pub(super) fn is_any(&self) -> bool {
        self.parts.len() > 1 && self.parts.iter().all(String::is_empty)
    }

    fn map_parts(&self, change: impl Fn(&str) -> String) -> Self {
        Self { parts: self.parts.iter().map(|part| change(part)).collect() }
    }

    /// Without blanks at its ends.
    fn trimmed(mut self) -> Self {
        if let Some(first) = self.parts.first_mut() {
            *first = first.trim_start().to_owned();
        }
        if let Some(last) = self.parts.last_mut() {
            *last = last.trim_end().to_owned();
        }
        self
    }
}

fn parse_path(name: &[RuleChar]) -> Result<Vec<String>, RuleError> {
    let text = to_text(name);
    // With a backslash, a dot is a part of a name.
    let is_plain = |(char, escaped): &RuleChar| {
        *char == '.'
            || !escaped && (char.is_alphanumeric() || matches!(char, '_' | '-' | '$' | '@'))
    };
    let path: Vec<String> = name.split(|char| *char == ('.', false)).map(to_text).collect();
    match name.iter().all(is_plain) && !path.iter().any(String::is_empty) {
        true => Ok(path),
        false => Err(RuleError::ArgumentName(text)),
    }
}

fn unescape(text: &str) -> Vec<RuleChar> {
    let mut chars = Vec::new();
    let mut escaped = false;
    for char in text.chars() {
        if char == '\\' && !escaped {
            escaped = true;
        } else {
            chars.push((char, escaped));
            escaped = false;
        }
    }
    // A backslash at the end stands for itself.
    chars.extend(escaped.then_some(('\\', true)));
    chars
}

/// Without the blanks at both ends that no backslash precedes.
fn trim(chars: &[RuleChar]) -> &[RuleChar] {
    let is_text = |(char, escaped): &RuleChar| *escaped || !char.is_whitespace();
    let start = chars.iter().position(is_text).unwrap_or(chars.len());
    let end = chars.iter().rposition(is_text).map_or(start, |last| last + 1);
    chars.get(start..end).unwrap_or_default()
}

fn to_text(chars: &[RuleChar]) -> String {
    chars.iter().map(|(char, _)| char).collect()
}
