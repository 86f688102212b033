//! Reads an `awk` program as far as it takes to know which files it names and what it runs.
//!
//! Whether `/` divides or starts a pattern depends on what stands before it. Where that is not
//! enough to tell, and it matters, the program counts as not understood.

use crate::shell::Arg;

use super::super::notes::{Depth, Notes, starting_with};

/// Notes what a program does; one that cannot be read may run anything.
pub(super) fn note(program: &str, notes: &mut Notes) {
    let mut words = TELLING_WORDS.iter().filter(|word| **word != "print");
    if !program.contains(['|', '>', '@']) && !words.any(|word| program.contains(word)) {
        return;
    }
    match tokens(program) {
        Some(tokens) => note_tokens(&tokens, notes),
        None => notes.runs_unknown("the awk program is not understood"),
    }
}

/// Words that can read, write or run something; `print` only together with a sign.
const TELLING_WORDS: [&str; 5] = ["system", "getline", "print", "ARGV", "ARGC"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A literal, with its text when no escape changes it.
    Text(Option<String>),
    Pattern,
    /// A name or a number.
    Word(String),
    /// Anything else: one character, or one of the pairs that mean something of their own.
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

fn tokens(program: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = program;
    while let Some(c) = rest.chars().next() {
        let used = match c {
            '\n' => {
                tokens.push(Token::Newline);
                1
            }
            _ if c.is_whitespace() => c.len_utf8(),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            // A line that goes on. Some versions allow a return before the end of the line.
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
                tokens.push(Token::Text(plain.then(|| inside.to_owned())));
                length
            }
            '/' => match slash(&tokens) {
                Slash::Divides => {
                    tokens.push(Token::Sign("?"));
                    1
                }
                // A pattern would need another slash.
                Slash::Unclear if !rest.get(1..)?.contains('/') => {
                    tokens.push(Token::Sign("?"));
                    1
                }
                Slash::Pattern => {
                    tokens.push(Token::Pattern);
                    pattern_length(rest)?
                }
                Slash::Unclear => return None,
            },
            _ if c.is_ascii_digit() || c == '.' => {
                let is_number = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
                let length = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
                let number = rest.get(..length)?;
                // `1system` is a number and a word; where the one ends depends on the version.
                if TELLING_WORDS.iter().any(|word| number.contains(word)) {
                    return None;
                }
                tokens.push(Token::Word(number.to_owned()));
                length
            }
            _ if c.is_alphabetic() || c == '_' => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest.get(..length)?.to_owned()));
                length
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).copied();
                tokens.push(Token::Sign(sign.unwrap_or("?")));
                sign.map_or(c.len_utf8(), str::len)
            }
        };
        rest = rest.get(used..)?;
    }
    Some(tokens)
}

enum Slash {
    Divides,
    Pattern,
    Unclear,
}

fn slash(before: &[Token]) -> Slash {
    match before.last() {
        Some(Token::Word(word)) if BEFORE_VALUE.contains(&word.as_str()) => Slash::Pattern,
        Some(Token::Word(word)) if matches!(word.as_str(), "getline" | "in") => Slash::Unclear,
        Some(Token::Word(_) | Token::Sign("]")) => Slash::Divides,
        // `(a) / 2` and `if (a) /b/` look alike, and so do `a++ / 2` and `a ++/b/`.
        Some(Token::Sign(")" | "++" | "--" | "$") | Token::Text(_) | Token::Pattern) => {
            Slash::Unclear
        }
        _ => Slash::Pattern,
    }
}

/// The length of a string with its quotes.
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

/// The length of a pattern with its slashes; `None` when versions may disagree where it ends, as
/// they do about a slash between brackets.
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
                // A bracket that comes first closes here and is a plain character there.
                if rest.peek().is_some_and(|(_, c)| *c == ']') {
                    return None;
                }
            }
            // `[:alpha:]` has a bracket of its own.
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

fn note_tokens(tokens: &[Token], notes: &mut Notes) {
    let mut printing = false;
    for (at, token) in tokens.iter().enumerate() {
        let after = tokens.get(at + 1..).unwrap_or_default();
        match token {
            Token::Sign(";" | "{" | "}") => printing = false,
            Token::Newline => {
                let before = at.checked_sub(1).and_then(|before| tokens.get(before));
                printing &=
                    matches!(before, Some(Token::Sign(sign)) if !matches!(*sign, ")" | "]"));
            }
            Token::Word(word) => match word.as_str() {
                "print" | "printf" => printing = true,
                "system" => match after {
                    [Token::Sign("("), Token::Text(Some(command)), Token::Sign(")"), ..] => {
                        notes.script(&Arg::known(command));
                    }
                    _ => notes.runs_unknown("awk runs a command it makes up"),
                },
                "getline" => getline(after, notes),
                "ARGV" | "ARGC" => notes.runs_unknown("the awk program makes up its own arguments"),
                _ => {}
            },
            Token::Sign("@" | "|&") => notes.runs_unknown("awk runs what it makes up"),
            Token::Sign("|") => match target(after) {
                Some(command) if printing => notes.script(&Arg::known(command)),
                _ => notes.runs_unknown("awk runs a command it makes up"),
            },
            Token::Sign(sign @ (">" | ">>")) if printing || *sign == ">>" => match target(after) {
                Some("/dev/stdout" | "/dev/stderr") => {}
                Some(file) => notes.write(&Arg::known(file), Depth::Itself),
                None => notes.write(&starting_with(""), Depth::Itself),
            },
            _ => {}
        }
    }
}

/// The string a redirection goes to, when it is that string and nothing more.
fn target(after: &[Token]) -> Option<&str> {
    match after {
        [Token::Text(Some(text))]
        | [Token::Text(Some(text)), Token::Sign(";" | "}") | Token::Newline, ..] => Some(text),
        _ => None,
    }
}

/// `getline` alone reads on; `getline x < "file"` reads another file.
fn getline(after: &[Token], notes: &mut Notes) {
    let ends = |token: &Token| matches!(token, Token::Newline | Token::Sign(";" | "{" | "}"));
    let statement = after.iter().position(ends).unwrap_or(after.len());
    let statement = after.get(..statement).unwrap_or_default();
    let Some(from) = statement.iter().position(|token| *token == Token::Sign("<")) else { return };
    match statement.get(from + 1..).unwrap_or_default() {
        [Token::Text(Some(file))] | [Token::Text(Some(file)), Token::Sign(")"), ..] => {
            if file != "-" {
                notes.read(&Arg::known(file), Depth::Itself);
            }
        }
        _ => notes.read(&starting_with(""), Depth::Itself),
    }
}
