//! Scans an `awk` program for the files it names and the commands it runs.
//!
//! Whether `/` divides or starts a pattern depends on the token before it. If that is ambiguous and
//! matters, the program counts as not understood.

use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder, path_starting_with};

/// Adds the effects of a program; one that cannot be parsed may run anything.
pub(super) fn record_effects(program: &str, notes: &mut CommandAnalysisBuilder) {
    let mut words = EFFECT_WORDS.iter().filter(|word| **word != "print");
    if !program.contains(['|', '>', '@']) && !words.any(|word| program.contains(word)) {
        return;
    }
    match tokenize(program) {
        Some(tokens) => record_tokens(&tokens, notes),
        None => notes.record_unknown_run("the awk program is not understood"),
    }
}

/// Words that can read, write or run something; `print` only together with a redirection.
const EFFECT_WORDS: [&str; 5] = ["system", "getline", "print", "ARGV", "ARGC"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum AwkToken {
    /// A string literal, with its text unless an escape changes it.
    Text(Option<String>),
    Pattern,
    /// A name or a number.
    Word(String),
    /// Anything else: one character, or one of the pairs with a meaning of their own.
    Sign(&'static str),
    Newline,
}

/// Signs with a meaning here, longest first; every other character is `?`.
const SIGNS: [&str; 27] = [
    "||", "|&", ">>", ">=", "++", "--", "|", ">", "<", "(", ")", "[", "]", "{", "}", ";", ",", "$",
    "@", "!", "&", "=", "+", "-", ":", "?", "~",
];

/// Words after which a value starts, so that `/` is a pattern.
const BEFORE_VALUE: [&str; 7] = ["print", "printf", "return", "else", "do", "case", "exit"];

fn tokenize(program: &str) -> Option<Vec<AwkToken>> {
    let mut tokens = Vec::new();
    let mut rest = program;
    while let Some(c) = rest.chars().next() {
        let used = match c {
            '\n' => {
                tokens.push(AwkToken::Newline);
                1
            }
            _ if c.is_whitespace() => c.len_utf8(),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            // A continued line. Some versions allow a carriage return before the end of the line.
            '\\' => {
                let after = rest.get(1..)?;
                let line_end = after.strip_prefix('\r').unwrap_or(after).starts_with('\n');
                if !line_end {
                    return None;
                }
                after.find('\n')? + 2
            }
            '"' => {
                let length = literal_length(rest)?;
                let inside = rest.get(1..length - 1)?;
                let plain = !inside.contains('\\');
                tokens.push(AwkToken::Text(plain.then(|| inside.to_owned())));
                length
            }
            '/' => match classify_slash(&tokens) {
                SlashMeaning::Division => {
                    tokens.push(AwkToken::Sign("?"));
                    1
                }
                // A pattern would need another slash.
                SlashMeaning::Unclear if !rest.get(1..)?.contains('/') => {
                    tokens.push(AwkToken::Sign("?"));
                    1
                }
                SlashMeaning::Pattern => {
                    tokens.push(AwkToken::Pattern);
                    pattern_length(rest)?
                }
                SlashMeaning::Unclear => return None,
            },
            _ if c.is_ascii_digit() || c == '.' => {
                let is_number = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
                let length = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
                let number = rest.get(..length)?;
                // `1system` is a number and a word; where the number ends depends on the version.
                if EFFECT_WORDS.iter().any(|word| number.contains(word)) {
                    return None;
                }
                tokens.push(AwkToken::Word(number.to_owned()));
                length
            }
            _ if c.is_alphabetic() || c == '_' => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(AwkToken::Word(rest.get(..length)?.to_owned()));
                length
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).copied();
                tokens.push(AwkToken::Sign(sign.unwrap_or("?")));
                sign.map_or(c.len_utf8(), str::len)
            }
        };
        rest = rest.get(used..)?;
    }
    Some(tokens)
}

enum SlashMeaning {
    Division,
    Pattern,
    Unclear,
}

fn classify_slash(before: &[AwkToken]) -> SlashMeaning {
    match before.last() {
        Some(AwkToken::Word(word)) if BEFORE_VALUE.contains(&word.as_str()) => {
            SlashMeaning::Pattern
        }
        Some(AwkToken::Word(word)) if matches!(word.as_str(), "getline" | "in") => {
            SlashMeaning::Unclear
        }
        Some(AwkToken::Word(_) | AwkToken::Sign("]")) => SlashMeaning::Division,
        // `(a) / 2` and `if (a) /b/` look alike, and so do `a++ / 2` and `a ++/b/`.
        Some(AwkToken::Sign(")" | "++" | "--" | "$") | AwkToken::Text(_) | AwkToken::Pattern) => {
            SlashMeaning::Unclear
        }
        _ => SlashMeaning::Pattern,
    }
}

/// The length of a string literal including its quotes.
fn literal_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// The length of a pattern including its slashes; `None` if versions disagree on its end, as they
/// do about a slash in brackets.
fn pattern_length(text: &str) -> Option<usize> {
    let mut rest = text.char_indices().skip(1).peekable();
    let mut bracket = false;
    while let Some((at, c)) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '\n' => return None,
            '/' if bracket => return None,
            '/' => return Some(at + 1),
            '[' if !bracket => {
                bracket = true;
                rest.next_if(|(_, c)| *c == '^');
                // A bracket in first position closes the class in some versions and is a plain
                // character in others.
                if rest.peek().is_some_and(|(_, c)| *c == ']') {
                    return None;
                }
            }
            // `[:alpha:]` contains brackets of its own.
            '[' if matches!(rest.peek(), Some((_, ':' | '.' | '='))) => {
                let class = rest.find(|(_, c)| matches!(c, ']' | '/' | '\n' | '"'));
                class.filter(|(_, c)| *c == ']')?;
            }
            ']' => bracket = false,
            _ => {}
        }
    }
    None
}

fn record_tokens(tokens: &[AwkToken], notes: &mut CommandAnalysisBuilder) {
    let mut printing = false;
    for (at, token) in tokens.iter().enumerate() {
        let after = tokens.get(at + 1..).unwrap_or_default();
        match token {
            AwkToken::Sign(";" | "{" | "}") => printing = false,
            AwkToken::Newline => {
                let before = at.checked_sub(1).and_then(|before| tokens.get(before));
                printing &=
                    matches!(before, Some(AwkToken::Sign(sign)) if !matches!(*sign, ")" | "]"));
            }
            AwkToken::Word(word) => match word.as_str() {
                "print" | "printf" => printing = true,
                "system" => match after {
                    [
                        AwkToken::Sign("("),
                        AwkToken::Text(Some(command)),
                        AwkToken::Sign(")"),
                        ..,
                    ] => {
                        notes.record_script(&ShellArg::known(command));
                    }
                    _ => notes.record_unknown_run("awk runs a command that it builds"),
                },
                "getline" => record_getline(after, notes),
                "ARGV" | "ARGC" => {
                    notes.record_unknown_run("the awk program builds its own arguments")
                }
                _ => {}
            },
            AwkToken::Sign("@" | "|&") => notes.record_unknown_run("awk runs text that it builds"),
            AwkToken::Sign("|") => match redirection_target(after) {
                Some(command) if printing => notes.record_script(&ShellArg::known(command)),
                _ => notes.record_unknown_run("awk runs a command that it builds"),
            },
            AwkToken::Sign(sign @ (">" | ">>")) if printing || *sign == ">>" => {
                match redirection_target(after) {
                    Some("/dev/stdout" | "/dev/stderr") => {}
                    Some(file) => notes.record_write(&ShellArg::known(file), AccessDepth::Itself),
                    None => notes.record_write(&path_starting_with(""), AccessDepth::Itself),
                }
            }
            _ => {}
        }
    }
}

/// The target of a redirection, if it is one string literal and nothing more.
fn redirection_target(after: &[AwkToken]) -> Option<&str> {
    match after {
        [AwkToken::Text(Some(text))]
        | [AwkToken::Text(Some(text)), AwkToken::Sign(";" | "}") | AwkToken::Newline, ..] => {
            Some(text)
        }
        _ => None,
    }
}

/// `getline` alone reads the next line; `getline x < "file"` reads another file.
fn record_getline(after: &[AwkToken], notes: &mut CommandAnalysisBuilder) {
    let ends =
        |token: &AwkToken| matches!(token, AwkToken::Newline | AwkToken::Sign(";" | "{" | "}"));
    let statement = after.iter().position(ends).unwrap_or(after.len());
    let statement = after.get(..statement).unwrap_or_default();
    let Some(from) = statement.iter().position(|token| *token == AwkToken::Sign("<")) else {
        return;
    };
    match statement.get(from + 1..).unwrap_or_default() {
        [AwkToken::Text(Some(file))] | [AwkToken::Text(Some(file)), AwkToken::Sign(")"), ..] => {
            if file != "-" {
                notes.record_read(&ShellArg::known(file), AccessDepth::Itself);
            }
        }
        _ => notes.record_read(&path_starting_with(""), AccessDepth::Itself),
    }
}
