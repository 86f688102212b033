//! Quoting for shell commands that zero prints for the user to paste.

/// Quotes `word` so that a POSIX shell reads it as one word; plain words stay unquoted.
pub(crate) fn quote_shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":/._-[]".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_shell_word() {
        for (word, expected) in [
            ("agent:main:run-1f", "agent:main:run-1f"),
            ("wss://host:18789/", "wss://host:18789/"),
            ("agent:main:it's $(x)", "'agent:main:it'\\''s $(x)'"),
            ("ws://h/?a&b", "'ws://h/?a&b'"),
        ] {
            assert_eq!(quote_shell_word(word), expected);
        }
    }
}
