//! The globs of `curl`: `{a,b}` and `[1-3]` in a URL or in the name of a file to upload.
//!
//! The shell does not expand them, since they are quoted.

use crate::shell::ShellArg;

use super::super::analysis_builder::path_starting_with;

/// Most words that one glob is expanded to; beyond that the result is unknown.
const WORDS_MAX: usize = 64;

/// The URLs that a glob expands to, as far as their hosts differ. A glob after the host is not
/// expanded.
pub(super) fn expand_addresses(address: &ShellArg) -> Vec<ShellArg> {
    let Some(text) = address.as_known() else { return vec![address.clone()] };
    let start = text.find("://").map_or(0, |at| at + "://".len());
    let rest = text.get(start..).unwrap_or_default();
    // A host ends at a slash, but a slash inside braces may be part of it.
    let host = rest.split('/').next().unwrap_or_default();
    // `[::1]` is an IPv6 address.
    let is_number = host.starts_with('[') && host.contains(':');
    let special = |part: &str| part.contains(['{', '[']);
    let is_file = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    if is_number || is_file || !special(host) && !special(text.get(..start).unwrap_or_default()) {
        return vec![address.clone()];
    }
    expand_braces(text)
}

/// The files that a file name glob expands to.
pub(super) fn expand_file_names(name: &ShellArg) -> Vec<ShellArg> {
    match name.as_known() {
        Some(text) if text.contains(['{', '[']) => expand_braces(text),
        _ => Vec::new(),
    }
}

/// Every word of a brace expansion; only a known prefix if there are brackets or too many words.
fn expand_braces(text: &str) -> Vec<ShellArg> {
    let uncertain = || {
        let certain = text.find(['{', '[']).unwrap_or(text.len());
        vec![path_starting_with(text.get(..certain).unwrap_or_default())]
    };
    if text.contains(['[', '\\']) {
        return uncertain();
    }
    let mut words = vec![String::new()];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((choices, after)) = after.split_once('}') else { return uncertain() };
        let count = words.len() * (choices.matches(',').count() + 1);
        if choices.contains('{') || count > WORDS_MAX {
            return uncertain();
        }
        words = words
            .iter()
            .flat_map(|word| {
                choices.split(',').map(move |choice| format!("{word}{before}{choice}"))
            })
            .collect();
        rest = after;
    }
    words.into_iter().map(|word| ShellArg::Known(word + rest)).collect()
}
