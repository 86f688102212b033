//! The target of a URL in an argument: a host, or a file of this machine.

use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder, path_starting_with};

/// Adds a URL: a file for `file:`, otherwise a host.
pub(super) fn record_address(address: &ShellArg, notes: &mut CommandAnalysisBuilder) {
    let start = address.known_prefix();
    let is_file = start.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    if !is_file {
        notes.record_host(address);
        return;
    }
    let rest = start.get(5..).unwrap_or_default();
    let path = match rest.strip_prefix("//") {
        // The part before the next slash is a host name, usually empty.
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default(),
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = percent_decode(path);
    // Braces and brackets expand to several files.
    let certain = path.find(['{', '[']).and_then(|at| path.get(..at));
    match (address, certain) {
        (ShellArg::Known(_), None) => {
            notes.record_read(&ShellArg::known(path), AccessDepth::Itself)
        }
        (_, certain) => {
            notes.record_read(&path_starting_with(certain.unwrap_or(&path)), AccessDepth::Itself)
        }
    }
}

/// The name of a file downloaded from here, if the URL has one.
pub(super) fn download_name(address: &ShellArg) -> Option<String> {
    let text = address.as_known()?;
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let path = text.split(['?', '#']).next()?;
    let (_, name) = path.rsplit_once('/')?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Decodes `%2e` and similar.
fn percent_decode(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = match after {
            [high, low, ..] if first == b'%' => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
