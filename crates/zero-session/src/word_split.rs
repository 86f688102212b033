//! Splits a line into words with shell quoting, without any other shell syntax.

/// Maximum number of words in a line.
const WORDS_MAX: usize = 1_000;

/// Why a line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WordSplitError {
    #[error("a quote is opened and never closed")]
    OpenQuote,
    #[error("it has more than {WORDS_MAX} words")]
    TooMany,
}

/// Splits a line into words. `'…'` is literal; in `"…"` a backslash escapes `"` and `\`; elsewhere
/// it escapes any character.
pub(crate) fn split(line: &str) -> Result<Vec<String>, WordSplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => {
                words.extend(word.take());
                if words.len() > WORDS_MAX {
                    return Err(WordSplitError::TooMany);
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(WordSplitError::OpenQuote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(WordSplitError::OpenQuote)? {
                        '"' => break,
                        '\\' => match rest.next_if(|c| matches!(c, '"' | '\\')) {
                            Some(c) => word.push(c),
                            None => word.push('\\'),
                        },
                        c => word.push(c),
                    }
                }
            }
            // A backslash at the very end is literal.
            '\\' => word.get_or_insert_default().push(rest.next().unwrap_or('\\')),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.len() > WORDS_MAX { Err(WordSplitError::TooMany) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        assert_eq!(split(line).unwrap(), expected, "{line}");
    }

    #[test]
    fn words_are_split_with_shell_quotes() {
        check("", &[]);
        check("  a\tb \n c ", &["a", "b", "c"]);
        check("'a b' \"c d\" e\\ f", &["a b", "c d", "e f"]);
        check(r#"a'b'"c"d"#, &["abcd"]);
        check(r#""a\"b\\c\d""#, &[r#"a"b\c\d"#]);
        check(r"'a\'b", &[r"a\b"]);
        check("'' \"\"", &["", ""]);
        check("'**/*.rs' $HOME `x` #y", &["**/*.rs", "$HOME", "`x`", "#y"]);
        check("a\\", &["a\\"]);
        check("größe 'ü ß'", &["größe", "ü ß"]);
    }

    #[test]
    fn unclosed_quote_is_refused() {
        assert_eq!(split("a 'b"), Err(WordSplitError::OpenQuote));
        assert_eq!(split("a \"b\\\""), Err(WordSplitError::OpenQuote));
        assert_eq!(split(&"a ".repeat(WORDS_MAX + 1)), Err(WordSplitError::TooMany));
        assert_eq!(split(&"a ".repeat(WORDS_MAX)).unwrap().len(), WORDS_MAX);
    }
}
