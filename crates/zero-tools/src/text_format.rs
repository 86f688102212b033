//! How counts, names and cuts are put into words, the same in every tool.

/// `1 file`, `2 files`.
pub(crate) fn pluralize(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What stands for the rest of a line that was cut.
pub(crate) fn describe_omitted_chars(count: u64) -> String {
    format!("… ({})", pluralize(count, "more character", "more characters"))
}

/// A name as it stands in a line of text: one that holds a newline or another control character
/// must not look like two names, or do things to a terminal.
pub(crate) fn to_single_line(name: &str) -> String {
    let mut line = String::with_capacity(name.len());
    for character in name.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}
