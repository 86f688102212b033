//! Rendering of a page of a file for the model, shared by the tools that read files.

use zero_core::tool_result::{RemainingLines, ToolResultPart};
use zero_runtime::dialect::result_rendering::number_lines;

use crate::paging::TextPage;
use crate::text_encoding::TextEncoding;

/// Returns the lines with their numbers, or an empty text for an empty page.
pub(crate) fn number_page_lines(page: &TextPage, first: u64) -> String {
    if page.lines == 0 { String::new() } else { number_lines(first, &page.text) }
}

/// Returns the page for the model. For an empty file this is only the note.
pub(crate) fn to_model_content(
    page: TextPage,
    first: u64,
    rest: Option<RemainingLines>,
    note: Option<String>,
) -> ToolResultPart {
    match (page.lines, note) {
        (0, note) => ToolResultPart::Text(format!("({})", note.unwrap_or_default())),
        (_, note) => ToolResultPart::Lines { first, text: page.text, rest, note },
    }
}

/// Returns which lines follow a page.
pub(crate) fn remaining_lines(page: &TextPage, first: u64) -> Option<RemainingLines> {
    let rest = RemainingLines { next: first + page.lines, total_lines: page.total_lines };
    (rest.next <= rest.total_lines).then_some(rest)
}

/// Returns what the model must know about a page besides its end.
pub(crate) fn page_note(page: &TextPage, encoding: TextEncoding) -> Option<String> {
    let mut notes = Vec::new();
    if page.total_lines == 0 {
        notes.push("the file is empty".to_owned());
    }
    if page.is_unsaved {
        notes.push("as in the editor, with unsaved changes".to_owned());
    }
    if encoding != TextEncoding::UTF_8 {
        notes.push(format!("encoding: {}", encoding.name()));
    }
    match page.bad_bytes {
        0 if page.is_malformed => {
            notes.push(format!("bytes that are not {} are shown as \u{fffd}", encoding.name()));
        }
        0 => {}
        1 => notes.push("1 byte that is not UTF-8 shown as \u{fffd}".to_owned()),
        bad => notes.push(format!("{bad} bytes that are not UTF-8 shown as \u{fffd}")),
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}
