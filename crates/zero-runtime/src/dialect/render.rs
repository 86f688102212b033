//! How each dialect writes a result down.

use std::fmt::Write as _;

use serde_json::{Value, json};
use zero_core::result::{Content, Display, FileDiff, Hit, ToolResult};

use super::DialectName;
use crate::bound::write_hits;

/// A result as a dialect writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// For the model.
    pub content: Vec<Value>,
    /// For the person.
    pub display: Value,
}

/// Writes a result down. `done` stands in for a change that was made, where the platform says so.
pub(super) fn render(dialect: DialectName, done: Option<&str>, result: &ToolResult) -> Rendered {
    let content = result
        .content
        .iter()
        .flat_map(|content| match (content, done) {
            (Content::Diff { .. }, Some(done)) => vec![text(dialect, done.to_owned())],
            _ => one(dialect, content),
        })
        .collect();
    let display = match (dialect, &result.display) {
        (DialectName::Qwen, Display::Markdown { text }) => json!(text),
        (DialectName::Qwen, Display::Diff(diff)) => json!({
            "fileDiff": diff.unified,
            "fileName": diff.path,
            "originalContent": diff.old_text,
            "newContent": diff.new_text,
        }),
        (_, display) => serde_json::to_value(display).unwrap_or_default(),
    };
    Rendered { content, display }
}

/// One piece of content; notes follow in a piece of their own where the text must stay as it is.
fn one(dialect: DialectName, content: &Content) -> Vec<Value> {
    let canonical = dialect == DialectName::Canonical;
    match content {
        Content::Text(plain) => vec![text(dialect, plain.clone())],
        Content::Lines { first, text: lines, note } if canonical => {
            vec![text(dialect, with_note(number_lines(*first, lines), note.as_deref()))]
        }
        Content::Lines { text: lines, note, .. } => {
            let mut pieces = vec![text(dialect, lines.clone())];
            pieces.extend(note.as_ref().map(|note| text(dialect, format!("({note})"))));
            pieces
        }
        Content::Matches { hits, numbered, note } => {
            let lines = match dialect {
                DialectName::Acp => spaced_hits(hits),
                _ => write_hits(hits, *numbered),
            };
            vec![text(dialect, with_note(lines, note.as_deref()))]
        }
        Content::Diff { summary, diff } => vec![change(dialect, summary, diff)],
        Content::Image { mime, data } => vec![image(dialect, mime, data)],
        Content::Audio { mime, data } => {
            vec![json!({"type": "audio", "mimeType": mime, "data": data})]
        }
        Content::Resource { uri, mime, data } => vec![resource(dialect, uri, mime, data)],
    }
}

fn text(dialect: DialectName, text: String) -> Value {
    match dialect {
        DialectName::Canonical | DialectName::Acp => json!({"type": "text", "text": text}),
        DialectName::Qwen => json!({"text": text}),
        DialectName::Opencode => {
            json!({"type": "content", "content": {"type": "text", "text": text}})
        }
    }
}

fn change(dialect: DialectName, summary: &str, diff: &FileDiff) -> Value {
    match dialect {
        DialectName::Canonical | DialectName::Qwen => {
            text(dialect, format!("{summary}\n{}", diff.unified))
        }
        DialectName::Acp => json!({"type": "diff", "path": diff.path, "diff": diff.unified}),
        DialectName::Opencode => {
            json!({"type": "diff", "path": diff.path, "oldText": diff.old_text, "newText": diff.new_text})
        }
    }
}

fn image(dialect: DialectName, mime: &str, data: &str) -> Value {
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

fn resource(dialect: DialectName, uri: &str, mime: &str, data: &str) -> Value {
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
fn spaced_hits(hits: &[Hit]) -> String {
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
