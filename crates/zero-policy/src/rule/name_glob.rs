//! A glob for one path component: `*.rs`, `[a-z]?`, `\[x]`.
//!
//! Matched without regular expressions: a set of thousands takes gigabytes to build.

use std::borrow::Cow;
use std::str::Chars;

/// Whether file names are case-insensitive on this platform.
const IGNORE_CASE: bool = cfg!(any(target_os = "macos", target_os = "windows"));

/// A glob for one path component, which never contains a `/`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameGlob(Vec<GlobToken>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum GlobToken {
    Letter(char),
    One,
    Any,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl NameGlob {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut tokens = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '*' if tokens.last() == Some(&GlobToken::Any) => {}
                '*' => tokens.push(GlobToken::Any),
                '?' => tokens.push(GlobToken::One),
                '[' => tokens.push(parse_class(&mut letters)?),
                '\\' => {
                    let escaped = letters.next().ok_or("nothing follows its last backslash")?;
                    tokens.push(GlobToken::Letter(fold_letter(escaped)));
                }
                letter => tokens.push(GlobToken::Letter(fold_letter(letter))),
            }
        }
        Ok(Self(tokens))
    }

    /// The longest text that every matching name contains, folded like names.
    pub(crate) fn longest_literal(&self) -> String {
        let letters = self.0.split(|token| !matches!(token, GlobToken::Letter(_)));
        let longest = letters.max_by_key(|letters| letters.len()).unwrap_or_default();
        longest.iter().filter_map(GlobToken::letter).collect()
    }

    /// The letter that every matching name begins with, if there is one.
    pub(crate) fn first_letter(&self) -> Option<char> {
        self.0.first().and_then(GlobToken::letter)
    }

    /// The letter that every matching name ends with, if there is one.
    pub(crate) fn last_letter(&self) -> Option<char> {
        self.0.last().and_then(GlobToken::letter)
    }

    /// Whether a name matches. It must be folded by [`fold_case`] first.
    pub(crate) fn matches(&self, name: &str) -> bool {
        // Most globs are like `*.rs`, and most names end differently.
        if self.last_letter().is_some_and(|last| !name.ends_with(last)) {
            return false;
        }
        let mut token = 0;
        let mut rest = name.chars();
        // The last `*`, and the rest of the name at which it has to match one more character.
        let mut retry: Option<(usize, Chars<'_>)> = None;
        loop {
            let mut after = rest.clone();
            match (self.0.get(token), after.next()) {
                (None, None) => return true,
                (Some(GlobToken::Any), _) => {
                    retry = Some((token, rest.clone()));
                    token += 1;
                    continue;
                }
                (Some(wanted), Some(letter)) if wanted.matches_letter(letter) => {
                    token += 1;
                    rest = after;
                    continue;
                }
                _ => {}
            }
            let Some((star, mut left)) = retry else { return false };
            if left.next().is_none() {
                return false;
            }
            token = star + 1;
            rest = left.clone();
            retry = Some((star, left));
        }
    }
}

impl GlobToken {
    fn letter(&self) -> Option<char> {
        match self {
            Self::Letter(letter) => Some(*letter),
            Self::One | Self::Any | Self::Class { .. } => None,
        }
    }

    fn matches_letter(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::One | Self::Any => true,
            Self::Class { negated, ranges } => {
                let within = |(low, high): &(char, char)| (*low..=*high).contains(&letter);
                ranges.iter().any(within) != *negated
            }
        }
    }
}

/// A name in the form that globs compare on this platform.
pub(crate) fn fold_case(name: &str) -> Cow<'_, str> {
    match IGNORE_CASE {
        true => Cow::Owned(name.chars().map(fold_letter).collect()),
        false => Cow::Borrowed(name),
    }
}

fn fold_letter(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) if IGNORE_CASE => lower,
        _ => letter,
    }
}

fn parse_class(letters: &mut std::str::Chars<'_>) -> Result<GlobToken, &'static str> {
    const OPEN: &str = "its `[` is never closed";
    let mut ranges = Vec::new();
    let mut lookahead = letters.clone();
    let negated = matches!(lookahead.next(), Some('!' | '^'));
    if negated {
        *letters = lookahead;
    }
    loop {
        let low = match letters.next().ok_or(OPEN)? {
            ']' if !ranges.is_empty() => return Ok(GlobToken::Class { negated, ranges }),
            '\\' => letters.next().ok_or(OPEN)?,
            low => low,
        };
        let mut lookahead = letters.clone();
        let high = match (lookahead.next(), lookahead.next()) {
            (Some('-'), Some(']')) | (Some('-'), None) => low,
            (Some('-'), Some('\\')) => {
                let high = lookahead.next().ok_or(OPEN)?;
                *letters = lookahead;
                high
            }
            (Some('-'), Some(high)) => {
                *letters = lookahead;
                high
            }
            _ => low,
        };
        if low > high {
            return Err("a range in `[…]` ends before it starts");
        }
        ranges.push((fold_letter(low), fold_letter(high).max(fold_letter(low))));
    }
}

/// The glob that matches exactly this name.
pub fn escape_glob(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for letter in name.chars() {
        if matches!(letter, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        let glob = NameGlob::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        assert_eq!(glob.matches(&fold_case(name)), expected, "{pattern} on {name}");
        if expected {
            assert!(fold_case(name).contains(&glob.longest_literal()), "{pattern} on {name}");
        }
    }

    #[test]
    fn name_glob_matches_names() {
        check("a", "a", true);
        check("a", "ab", false);
        check("a", "", false);
        check("*", "", true);
        check("a*", "a", true);
        check("*a", "ba", true);
        check("*a", "ab", false);
        check("*.rs", ".rs", true);
        check("a*b*c", "axbxbxc", true);
        check("a*b*c", "axbxbx", false);
        check("*aab", "aaab", true);
        check("?", "é", true);
        check("?", "", false);
        check("??", "a", false);
        check("a?c*e", "abcde", true);
        check("[abc]", "b", true);
        check("[a-c]x", "bx", true);
        check("[!a-c]", "b", false);
        check("[^a-c]", "d", true);
        check("[]a]", "]", true);
        check("[!]a]", "]", false);
        check("[a-]", "-", true);
        check("[\\]]", "]", true);
        check("[a\\-c]", "b", false);
        check("[*]", "*", true);
        check("[*]", "x", false);
        check("\\*", "*", true);
        check("\\*", "x", false);
        check("{a,b}", "{a,b}", true);
    }

    #[test]
    fn name_glob_rejects_malformed_pattern() {
        for pattern in ["[", "a[b", "[]", "[!]", "[z-a]", "a\\", "[a-"] {
            assert!(NameGlob::parse(pattern).is_err(), "{pattern}");
        }
    }
}
