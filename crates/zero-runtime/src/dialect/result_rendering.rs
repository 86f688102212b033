//! How each dialect writes a result down.

use std::fmt::Write as _;

use serde_json::{Value, json};
use zero_core::tool_result::{
    FileDiff, RemainingLines, ResultDisplay, SearchHit, ToolResult, ToolResultPart,
    render_checklist,
};

use super::dialect_name::DialectName;
use crate::result_truncation::format_hits;

/// A result as a dialect writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedResult {
    /// For the model.
    pub content: Vec<Value>,
    /// For the person.
    pub display: Value,
}

/// How the next page of a file is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagingHint<'a> {
    /// The tool that pages, where it is another than the one that was called.
    pub(super) tool: Option<&'a str>,
    /// Its field for the line to start from.
    pub(super) field: &'a str,
    /// The number of the first line in that field.
    pub(super) first: u64,
}

impl PagingHint<'_> {
    /// `lines 1-2000 of 2500; continue with offset 2001`
    fn describe_next_page(self, first: u64, rest: RemainingLines) -> String {
        let tool = self.tool.map_or_else(String::new, |tool| format!("{tool}, "));
        let number = (rest.next - 1).saturating_add(self.first);
        let (last, total, field) = (rest.next - 1, rest.total_lines, self.field);
        format!("lines {first}-{last} of {total}; continue with {tool}{field} {number}")
    }
}

/// Writes a result down. `done` stands in for a change that was made, where the platform says so.
pub(super) fn render(
    dialect: DialectName,
    done: Option<&str>,
    paging: PagingHint<'_>,
    result: &ToolResult,
) -> RenderedResult {
    let content = result
        .content
        .iter()
        .flat_map(|content| match (content, done) {
            (ToolResultPart::Diff { .. }, Some(done)) => {
                vec![render_text(dialect, done.to_owned())]
            }
            _ => render_content(dialect, paging, content),
        })
        .collect();
    let display = match (dialect, &result.display) {
        (DialectName::Qwen, ResultDisplay::Markdown { text }) => json!(text),
        (DialectName::Qwen, ResultDisplay::Diff(diff)) => json!({
            "fileDiff": diff.unified,
            "fileName": diff.path,
            "originalContent": diff.old_text,
            "newContent": diff.new_text,
        }),
        (DialectName::Qwen, ResultDisplay::Plan { entries }) => json!(render_checklist(entries)),
        (_, display) => serde_json::to_value(display).unwrap_or_default(),
    };
    RenderedResult { content, display }
}

/// One piece of content; notes follow in a piece of their own where the text must stay as it is.
fn render_content(
    dialect: DialectName,
    paging: PagingHint<'_>,
    content: &ToolResultPart,
) -> Vec<Value> {
    let canonical = dialect == DialectName::Canonical;
    match content {
        ToolResultPart::Text(plain) => vec![render_text(dialect, plain.clone())],
        ToolResultPart::Lines { first, text: lines, rest, note } => {
            let go_on = rest.map(|rest| paging.describe_next_page(*first, rest));
            let notes: Vec<String> = go_on.into_iter().chain(note.clone()).collect();
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            if canonical {
                return vec![render_text(
                    dialect,
                    with_note(number_lines(*first, lines), note.as_deref()),
                )];
            }
            let mut pieces = vec![render_text(dialect, lines.clone())];
            pieces.extend(note.map(|note| render_text(dialect, format!("({note})"))));
            pieces
        }
        ToolResultPart::Matches { hits, numbered, note } => {
            let lines = match dialect {
                DialectName::Acp => render_hits(hits),
                _ => format_hits(hits, *numbered),
            };
            vec![render_text(dialect, with_note(lines, note.as_deref()))]
        }
        ToolResultPart::Diff { summary, diff } => vec![render_change(dialect, summary, diff)],
        ToolResultPart::Image { mime, data } => vec![render_image(dialect, mime, data)],
        ToolResultPart::Audio { mime, data } => vec![render_audio(dialect, mime, data)],
        ToolResultPart::Resource { uri, mime, data } => {
            vec![render_resource(dialect, uri, mime, data)]
        }
    }
}

fn render_text(dialect: DialectName, text: String) -> Value {
    match dialect {
        DialectName::Canonical | DialectName::Acp => json!({"type": "text", "text": text}),
        DialectName::Qwen => json!({"text": text}),
        DialectName::Opencode => {
            json!({"type": "content", "content": {"type": "text", "text": text}})
        }
    }
}

fn render_change(dialect: DialectName, summary: &str, diff: &FileDiff) -> Value {
    match dialect {
        DialectName::Canonical | DialectName::Qwen => {
            render_text(dialect, format!("{summary}\n{}", diff.unified))
        }
        // The texts were too long to be carried: two nulls would say that nothing is there.
        DialectName::Opencode if diff.old_text.is_none() && diff.new_text.is_none() => {
            render_text(dialect, format!("{summary}\n{}", diff.unified))
        }
        DialectName::Acp => json!({"type": "diff", "path": diff.path, "diff": diff.unified}),
        DialectName::Opencode => {
            json!({"type": "diff", "path": diff.path, "oldText": diff.old_text, "newText": diff.new_text})
        }
    }
}

fn render_image(dialect: DialectName, mime: &str, data: &str) -> Value {
    let plain = json!({"type": "image", "mimeType": mime, "data": data});
    match dialect {
        DialectName::Canonical => plain,
        DialectName::Acp => {
            json!({"type": "image", "source": {"type": "base64", "mediaType": mime, "data": data}})
        }
        DialectName::Qwen => json!({"inlineData": {"mimeType": mime, "data": data}}),
        DialectName::Opencode => json!({"type": "content", "content": plain}),
    }
}

fn render_audio(dialect: DialectName, mime: &str, data: &str) -> Value {
    let plain = json!({"type": "audio", "mimeType": mime, "data": data});
    match dialect {
        DialectName::Canonical | DialectName::Acp => plain,
        DialectName::Qwen => json!({"inlineData": {"mimeType": mime, "data": data}}),
        DialectName::Opencode => json!({"type": "content", "content": plain}),
    }
}

fn render_resource(dialect: DialectName, uri: &str, mime: &str, data: &str) -> Value {
    let plain =
        json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": data}});
    match dialect {
        DialectName::Canonical | DialectName::Acp => plain,
        DialectName::Qwen => json!({"inlineData": {"mimeType": mime, "data": data}}),
        DialectName::Opencode => json!({"type": "content", "content": plain}),
    }
}

/// `cat -n`: the number in six columns, a tab, the line.
pub fn number_lines(first: u64, lines: &str) -> String {
    let mut numbered = String::with_capacity(lines.len() + lines.len() / 8 + 16);
    for (number, line) in (first..).zip(lines.split('\n')) {
        if number > first {
            numbered.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = write!(numbered, "{number:>6}\t{line}");
    }
    numbered
}

/// `path:line: text`, the text without its indentation.
fn render_hits(hits: &[SearchHit]) -> String {
    let lines: Vec<String> = hits
        .iter()
        .map(|hit| format!("{}:{}: {}", hit.file, hit.line, hit.text.trim_start()))
        .collect();
    lines.join("\n")
}

fn with_note(text: String, note: Option<&str>) -> String {
    match note {
        None => text,
        Some(note) if text.is_empty() => format!("({note})"),
        Some(note) => format!("{text}\n\n({note})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    fn render_one(dialect: DialectName, tool: &str, content: ToolResultPart) -> Vec<Value> {
        let result = ToolResult {
            content: vec![content],
            display: ResultDisplay::markdown(""),
            structured: Value::Null,
            locations: vec![],
        };
        Dialect::new(dialect).render(tool, &result).content
    }

    #[test]
    fn next_page_hint_uses_dialect_names() {
        #[track_caller]
        fn check(dialect: DialectName, tool: &str, expected: &str) {
            let rest = Some(RemainingLines { next: 2_001, total_lines: 2_500 });
            let page = ToolResultPart::Lines { first: 1, text: "a".into(), rest, note: None };
            let shown = json!(render_one(dialect, tool, page)).to_string();
            let expected = format!("(lines 1-2000 of 2500; continue with {expected})");
            assert!(shown.contains(&expected), "{dialect} {tool}: {shown}");
        }
        check(DialectName::Canonical, "Read", "offset 2001");
        check(DialectName::Canonical, "ReadMany", "Read, offset 2001");
        check(DialectName::Acp, "read_file", "line 2001");
        check(DialectName::Qwen, "read_file", "offset 2000");
        check(DialectName::Qwen, "read_many_files", "read_file, offset 2000");
        check(DialectName::Opencode, "read", "line 2001");
    }

    #[test]
    fn page_notes_are_joined_in_order() {
        let page = |rest, note: Option<&str>| ToolResultPart::Lines {
            first: 1,
            text: "a".into(),
            rest,
            note: note.map(str::to_owned),
        };
        let rest = Some(RemainingLines { next: 2, total_lines: 3 });
        for (content, expected) in [
            (page(None, None), "     1\ta"),
            (page(None, Some("odd")), "     1\ta\n\n(odd)"),
            (page(rest, None), "     1\ta\n\n(lines 1-1 of 3; continue with offset 2)"),
            (page(rest, Some("odd")), "     1\ta\n\n(lines 1-1 of 3; continue with offset 2; odd)"),
        ] {
            let shown = render_one(DialectName::Canonical, "Read", content);
            assert_eq!(shown, [json!({"type": "text", "text": expected})]);
        }
    }

    #[test]
    fn audio_is_rendered_like_images() {
        #[track_caller]
        fn check(dialect: DialectName, expected: Value) {
            let sound = ToolResultPart::Audio { mime: "audio/wav".into(), data: "AA==".into() };
            assert_eq!(render_one(dialect, "x", sound), [expected], "{dialect}");
        }
        let plain = json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="});
        check(DialectName::Canonical, plain.clone());
        check(DialectName::Acp, plain.clone());
        check(DialectName::Qwen, json!({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}));
        check(DialectName::Opencode, json!({"type": "content", "content": plain}));
    }
}
