//! Quoting of words for a shell: for commands that zero shows, and for those that a user may paste.

/// Quotes `word` so that a POSIX shell reads it as one word; plain words stay unquoted.
pub fn quote_shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_shell_word() {
        for (word, expected) in [
            ("agent:main:run-1f", "agent:main:run-1f"),
            ("wss://host:18789/", "wss://host:18789/"),
            ("--name=a_b@1.0,c+d%", "--name=a_b@1.0,c+d%"),
            ("größe", "größe"),
            ("", "''"),
            ("[a]*", "'[a]*'"),
            ("~/a", "'~/a'"),
            ("agent:main:it's $(x)", r"'agent:main:it'\''s $(x)'"),
            ("ws://h/?a&b", "'ws://h/?a&b'"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quote_shell_word(word), expected);
        }
    }
}
