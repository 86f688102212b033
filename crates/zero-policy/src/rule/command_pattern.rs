//! Commands in a rule: `git status`, `git status:*`, `git status *`, `git * --help`.

use super::rule_error::RuleError;

/// The commands that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandPattern {
    /// Exactly these words.
    Exact(Vec<String>),
    /// These words as a prefix.
    Prefix(Vec<String>),
    /// Words with `*`, which matches any text, spaces included.
    Glob {
        /// At least one word; at least one of them contains a `*`.
        words: Vec<PatternWord>,
        /// Whether further words may follow.
        more: bool,
    },
}

/// A word of a rule, without quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternWord {
    pub(crate) pieces: Vec<PatternWordPart>,
    quoted: bool,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternWordPart {
    Text(String),
    Star,
}

impl CommandPattern {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let (body, more) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(body) => (body.trim_end(), true),
            None => (text, false),
        };
        if body.contains(":*") {
            return Err(RuleError::PrefixNotAtEnd(text.to_owned()));
        }
        let words = split_words(body);
        if words.is_empty() {
            return Err(RuleError::EmptyPattern { tool: "Bash".to_owned() });
        }
        if words.iter().any(PatternWord::is_operator) {
            return Err(RuleError::Operator(text.to_owned()));
        }
        let literal: Option<Vec<String>> = words.iter().map(PatternWord::literal).collect();
        Ok(match literal {
            Some(words) if more => Self::Prefix(words),
            Some(words) => Self::Exact(words),
            None => Self::Glob { words, more },
        })
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

impl PatternWord {
    /// The text, if it contains no `*`.
    pub(crate) fn literal(&self) -> Option<String> {
        match self.pieces.as_slice() {
            [] => Some(String::new()),
            [PatternWordPart::Text(text)] => Some(text.clone()),
            _ => None,
        }
    }

    fn is_operator(&self) -> bool {
        let operator = |text: &str| {
            let redirect = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
            matches!(text, "&&" | "||" | "|" | "&")
                || text.ends_with(';')
                || redirect.starts_with(['<', '>'])
        };
        !self.quoted
            && matches!(self.pieces.as_slice(), [PatternWordPart::Text(text)] if operator(text))
    }

    fn push(&mut self, letter: char) {
        match self.pieces.last_mut() {
            Some(PatternWordPart::Text(text)) => text.push(letter),
            _ => self.pieces.push(PatternWordPart::Text(letter.to_string())),
        }
    }

    fn push_wild(&mut self, letter: char) {
        match letter {
            '*' if self.pieces.last() == Some(&PatternWordPart::Star) => {}
            '*' => self.pieces.push(PatternWordPart::Star),
            letter => self.push(letter),
        }
    }
}

/// Splits a rule into words like a shell; without quote handling if the quotes are unbalanced.
fn split_words(text: &str) -> Vec<PatternWord> {
    split_unquoted_words(text).unwrap_or_else(|| {
        let as_written = |word: &str| {
            let mut pieces = PatternWord::default();
            word.chars().for_each(|letter| pieces.push_wild(letter));
            pieces
        };
        text.split_whitespace().map(as_written).collect()
    })
}

fn split_unquoted_words(text: &str) -> Option<Vec<PatternWord>> {
    let mut words = Vec::new();
    let mut word: Option<PatternWord> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') if letters.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                word.get_or_insert_default().push(letters.next()?);
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                word.get_or_insert_default().quoted = true;
                quote = Some(letter);
            }
            (None, '\\') => {
                let word = word.get_or_insert_default();
                word.quoted = true;
                word.push(letters.next()?);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push_wild(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
