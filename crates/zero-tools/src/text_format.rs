//! Formatting of counts, names and cuts, shared by all tools.

use zero_core::sanitize::escape_chars;

/// Returns a text such as `1 file` or `2 files`.
pub(crate) fn pluralize(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns the text that replaces the rest of a cut line.
pub(crate) fn describe_omitted_chars(count: u64) -> String {
    format!("… ({})", pluralize(count, "more character", "more characters"))
}

/// Escapes a name for a line of the model's text, so that a newline or another control character in
/// it neither looks like two names nor affects a terminal. Other characters stay, so that the model
/// can pass the name on; front ends escape the hidden ones.
pub(crate) fn to_single_line(name: &str) -> String {
    escape_chars(name, char::is_control).into_owned()
}
