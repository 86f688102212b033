//! Secrets that follow a name: `password=…`, `"api_key": "…"`, `--token …`.
//!
//! A pattern finds the name and the separator; code determines the end of the value, which depends
//! on how it is written. If that is ambiguous, more is redacted.

use std::borrow::Cow;
use std::ops::Range;

use regex::Captures;

use super::REDACTED;
use super::secret_shapes::SecretShape;

/// The name of a secret with the separator before its value.
pub(super) static NAMES: SecretShape = SecretShape::new(
    &["pass", "pwd", "pw", "otp", "secret", "token", "key", "credential", "session"],
    r#"(?i)([\w-]*(?:passw(?:or)?[dt]|passphrase|\bpass\b|[_-]pass\b|pwd|secret|token|(?:api|access|private|account|signing|encryption|master|ssh)[_-]?key|key-data|(?-i:[A-Z0-9]_KEY\b)|credential|session[_-]?id|\bpw\b|[_-]pw\b|\botp\b|[_-]otp\b|motdepasse)[\w-]*)(?:\\*["'`])?\]?([ \t]*(?:=>|:=|[=!]={0,2}|:)|[ \t]+)[ \t]*"#,
);

/// Words in place of a value that are not one: words of zero's own messages, and empty values.
const NO_VALUES: &[&str] = &["expected", "null", "true", "false"];
/// Shortest value that follows a name and only a space.
const SPACED_CHARS_MIN: usize = 4;

/// The text without the values of secrets.
pub(super) fn redact_values<'a>(text: &'a str, lower: &str) -> Cow<'a, str> {
    let Some(names) = NAMES.regex_for(lower) else { return Cow::Borrowed(text) };
    let mut clean = String::new();
    let (mut kept_to, mut at) = (0, 0);
    while let Some(found) = names.captures_at(text, at) {
        let Some(name) = SecretName::new(text, &found) else { break };
        at = name.end;
        if let Some(value) = name.value_range() {
            clean.push_str(&text[kept_to..value.start]);
            clean.push_str(REDACTED);
            (kept_to, at) = (value.end, value.end);
        }
    }
    if kept_to == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[kept_to..]);
    Cow::Owned(clean)
}

/// The name of a secret in a text.
struct SecretName<'a> {
    text: &'a str,
    start: usize,
    word: &'a str,
    /// `=`, `:`, … with the space before it; only space if there is nothing else.
    separator: &'a str,
    /// Where the value starts.
    end: usize,
}

impl<'a> SecretName<'a> {
    fn new(text: &'a str, found: &Captures<'a>) -> Option<Self> {
        let (word, separator) = (found.get(1)?, found.get(2)?);
        Some(Self {
            text,
            start: word.start(),
            word: word.as_str(),
            separator: separator.as_str(),
            end: found.get(0)?.end(),
        })
    }

    /// The range of its value.
    fn value_range(&self) -> Option<Range<usize>> {
        let rest = &self.text[self.end..];
        let sign = self.separator.trim();
        let first_line = rest.lines().next().unwrap_or_default().trim_end();
        // `BearerToken::Comma` is a path.
        if sign == ":" && rest.starts_with(':') || is_no_value(leading_word(rest)) {
            return None;
        }
        let value = match quoted_range(rest) {
            // "pass `--yes`" in a message names an option.
            Some(value)
                if sign.is_empty()
                    && rest.starts_with('`')
                    && is_long_option(&rest[value.clone()]) =>
            {
                return None;
            }
            Some(value) => value,
            None if sign.is_empty() => 0..self.spaced_value_len(rest)?,
            None if is_block_mark(first_line) => return self.block_range(),
            None if rest.starts_with(['[', '{']) => 0..bracketed_len(rest),
            None if self.has_own_line() => 0..trim_closers(first_line).len(),
            None => 0..leading_word(rest).len(),
        };
        (!value.is_empty()).then(|| self.end + value.start..self.end + value.end)
    }

    /// Length of a value after only a space. In prose that is an ordinary word, except after a flag
    /// or a password.
    fn spaced_value_len(&self, rest: &str) -> Option<usize> {
        let value = leading_word(rest);
        if is_long_option(value) {
            return None;
        }
        let bare = value.trim_matches(|c: char| !c.is_alphanumeric());
        let is_password = self.word.to_ascii_lowercase().contains("passw");
        let is_prose = bare.bytes().all(|byte| byte.is_ascii_lowercase());
        let is_value = self.word.starts_with('-') || is_password || !is_prose;
        (is_value && bare.chars().count() >= SPACED_CHARS_MIN).then_some(value.len())
    }

    /// The text before it on its line.
    fn line_prefix(&self) -> &'a str {
        let line = self.text[..self.start].rfind('\n').map_or(0, |at| at + 1);
        &self.text[line..self.start]
    }

    /// True for `name: value` and `name = value` on a separate line, as in YAML, TOML and INI,
    /// where a value may contain spaces.
    fn has_own_line(&self) -> bool {
        let is_first = self.line_prefix().chars().all(|c| c.is_whitespace() || "-\"'".contains(c));
        let is_spaced = self.text[..self.end].ends_with([' ', '\t']);
        is_first && is_spaced && (self.separator == ":" || self.separator.trim() != self.separator)
    }

    /// The lines below it that are indented further, or are items of its list.
    fn block_range(&self) -> Option<Range<usize>> {
        let indent = indent(self.line_prefix());
        let from = self.end + self.text[self.end..].find('\n')? + 1;
        let mut end = from;
        let mut at = from;
        for line in self.text[from..].split_inclusive('\n') {
            let is_item = line.trim_start().starts_with("- ") && self::indent(line) >= indent;
            let is_blank = line.trim().is_empty();
            if !(is_blank || is_item || self::indent(line) > indent) {
                break;
            }
            at += line.len();
            if !is_blank {
                end = at - (line.len() - line.trim_end().len());
            }
        }
        let start = end.min(from + self::indent(&self.text[from..]));
        (start < end).then_some(start..end)
    }
}

/// Whether a word is an option such as `--yes`: programs do not take it as the value of the option
/// before it.
fn is_long_option(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    })
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Nothing, or the `|` and `>-` of YAML: the value is on the lines below.
fn is_block_mark(line: &str) -> bool {
    line.is_empty() || line.len() <= 3 && line.starts_with(['|', '>'])
}

fn is_no_value(word: &str) -> bool {
    // A call without arguments reveals nothing.
    let is_call = word.strip_suffix("()").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.:".contains(c))
    });
    is_call || NO_VALUES.contains(&word)
}

/// Everything up to a space, without closing punctuation.
fn leading_word(rest: &str) -> &str {
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    match word.find("()") {
        Some(call) if word[call..].bytes().all(|byte| b"();,?".contains(&byte)) => {
            &word[..call + 2]
        }
        _ => trim_closers(word),
    }
}

fn trim_closers(text: &str) -> &str {
    text.trim_end_matches(['"', '\'', '`', ')', ']', '}', ',', ';', '\\'])
}

/// A quoted value, whose quotes may be escaped: up to the same quote, or to the end if it is
/// missing.
fn quoted_range(rest: &str) -> Option<Range<usize>> {
    let depth = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let quote = rest[depth..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let mut escapes = 0;
    for (at, c) in rest.char_indices().skip(depth + 1) {
        if c == quote && escapes <= depth {
            let end = match joined_len(&rest[at + 1..]) {
                0 => at - escapes,
                more => at + 1 + more,
            };
            return Some(depth + 1..end);
        }
        escapes = if c == '\\' { escapes + 1 } else { 0 };
    }
    Some(depth + 1..rest.len())
}

/// Length of the text that a shell would join to a quoted value.
fn joined_len(rest: &str) -> usize {
    if rest.starts_with(char::is_alphanumeric) { leading_word(rest).len() } else { 0 }
}

/// Length of a list or object, up to its last bracket.
fn bracketed_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    rest.len()
}
