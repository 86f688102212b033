//! How each dialect writes a result down.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use zero_core::ToolError;
use zero_core::event::ResultContent;
use zero_core::tool_result::{
    FileDiff, RemainingLines, ResultDisplay, SearchHit, ToolResult, ToolResultPart,
    render_checklist,
};

use super::dialect_name::DialectName;
use crate::result_truncation::format_hits;

/// Most bytes of numbered lines: a number takes more room than an empty line.
const NUMBERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A result as a dialect writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedResult {
    /// For the model.
    pub content: Vec<Value>,
    /// For the user.
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
        let (last, total, field) = (rest.next.saturating_sub(1), rest.total_lines, self.field);
        let number = last.saturating_add(self.first);
        format!("lines {first}-{last} of {total}; continue with {tool}{field} {number}")
    }
}

/// A piece of a result, in a dialect's words; how it is wrapped depends on who gets it.
enum RenderedPiece<'a> {
    Change {
        summary: &'a str,
        diff: &'a FileDiff,
        /// The same change with the texts of the file, if they are known.
        texts: Option<&'a FileDiff>,
    },
    Part(RenderedPart<'a>),
}

/// A part of a result as it is sent to a model, with media that not every protocol can carry.
#[derive(Clone, Debug, PartialEq)]
pub enum RenderedPart<'a> {
    /// Words, in the dialect.
    Text(String),
    /// An image.
    Image {
        /// Media type.
        mime: &'a str,
        /// The bytes, in base64.
        data: &'a str,
    },
    /// Sound.
    Audio {
        /// Media type.
        mime: &'a str,
        /// The bytes, in base64.
        data: &'a str,
    },
    /// Any other document.
    Resource {
        /// Where it is.
        uri: &'a str,
        /// Media type.
        mime: &'a str,
        /// The bytes, in base64.
        data: &'a str,
    },
}

/// Writes a result down as the dialect's platform does. `done` stands in for a change that was made,
/// where the platform says so.
pub(super) fn render(
    dialect: DialectName,
    done: Option<&str>,
    paging: PagingHint<'_>,
    result: &ToolResult,
) -> RenderedResult {
    let pieces = render_pieces(dialect, done, paging, result);
    let content = pieces.into_iter().map(|piece| piece_json(dialect, piece)).collect();
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

/// Renders a result as it is sent to a model.
pub(super) fn render_parts<'a>(
    dialect: DialectName,
    done: Option<&str>,
    paging: PagingHint<'_>,
    result: &'a ToolResult,
) -> Vec<RenderedPart<'a>> {
    let to_content = |piece| match piece {
        RenderedPiece::Part(part) => part,
        RenderedPiece::Change { summary, diff, texts } => RenderedPart::Text(match dialect {
            DialectName::Acp => format!("{}\n{}", diff.path, diff.unified),
            DialectName::Opencode if texts.is_some() => format!("changed {}", diff.path),
            _ => describe_change(summary, diff),
        }),
    };
    render_pieces(dialect, done, paging, result).into_iter().map(to_content).collect()
}

/// An error as it is sent to a model: the error as one line of JSON, and what a command had printed
/// until then. `tool` is the name that was called.
pub(super) fn render_error(tool: &str, error: &ToolError) -> Vec<ResultContent> {
    vec![text_content(model_error_text(tool, error))]
}

/// An error as the dialect's platform writes it down.
pub(super) fn render_error_for_platform(
    dialect: DialectName,
    tool: &str,
    error: &ToolError,
) -> RenderedResult {
    let content = vec![piece_json(dialect, text_piece(model_error_text(tool, error)))];
    RenderedResult { content, display: json!(plain_error_text(error)) }
}

fn model_error_text(tool: &str, error: &ToolError) -> String {
    let ToolError { tool: named, error_type, message, details } = error;
    let mut details = details.clone();
    if details.get("output").is_some_and(Value::is_string) {
        details.remove("output");
    }
    // The places are for clients; the model named them itself.
    details.remove("locations");
    let tool = if named.is_empty() { tool } else { named };
    let fields =
        json!({"tool": tool, "error_type": error_type, "message": message, "details": details});
    join_paragraphs([&fields.to_string(), error_output(error)])
}

/// An error for the user: what happened, and what a command had printed until then.
pub(super) fn render_plain_error(error: &ToolError) -> Vec<ResultContent> {
    let text = plain_error_text(error);
    if text.is_empty() { Vec::new() } else { vec![text_content(text)] }
}

fn plain_error_text(error: &ToolError) -> String {
    join_paragraphs([&error.message, error_output(error)])
}

fn error_output(error: &ToolError) -> &str {
    error.details.get("output").and_then(Value::as_str).unwrap_or_default().trim_end()
}

fn join_paragraphs<const N: usize>(paragraphs: [&str; N]) -> String {
    let present: Vec<&str> = paragraphs.into_iter().filter(|text| !text.is_empty()).collect();
    present.join("\n\n")
}

/// The pieces of a result; notes follow in a piece of their own where the text must stay as it is.
fn render_pieces<'a>(
    dialect: DialectName,
    done: Option<&str>,
    paging: PagingHint<'_>,
    result: &'a ToolResult,
) -> Vec<RenderedPiece<'a>> {
    let mut pieces = Vec::with_capacity(result.content.len());
    for part in &result.content {
        match (part, done) {
            (ToolResultPart::Diff { diff, .. }, Some(done)) => {
                pieces.push(text_piece(describe_done(done, &diff.path, &result.structured)));
            }
            (ToolResultPart::Diff { summary, diff }, None) => {
                let texts = find_texts(diff, &result.display);
                pieces.push(RenderedPiece::Change { summary, diff, texts });
            }
            (ToolResultPart::Text(plain), _) => pieces.push(text_piece(plain.clone())),
            (ToolResultPart::Lines { first, text, rest, note }, _) => {
                let go_on = rest.map(|rest| paging.describe_next_page(*first, rest));
                let notes: Vec<String> = go_on.into_iter().chain(note.clone()).collect();
                let note = (!notes.is_empty()).then(|| notes.join("; "));
                if dialect == DialectName::Canonical {
                    let numbered = with_note(number_lines(*first, text), note.as_deref());
                    pieces.push(text_piece(numbered));
                } else {
                    pieces.push(text_piece(text.clone()));
                    pieces.extend(note.map(|note| text_piece(format!("({note})"))));
                }
            }
            (ToolResultPart::Matches { hits, numbered, note }, _) => {
                let lines = match dialect {
                    DialectName::Acp => render_hits(hits),
                    _ => format_hits(hits, *numbered),
                };
                pieces.push(text_piece(with_note(lines, note.as_deref())));
            }
            (ToolResultPart::Image { mime, data }, _) => {
                pieces.push(RenderedPiece::Part(RenderedPart::Image { mime, data }));
            }
            (ToolResultPart::Audio { mime, data }, _) => {
                pieces.push(RenderedPiece::Part(RenderedPart::Audio { mime, data }));
            }
            (ToolResultPart::Resource { uri, mime, data }, _) => {
                pieces.push(RenderedPiece::Part(RenderedPart::Resource { uri, mime, data }));
            }
        }
    }
    pieces
}

fn text_piece(text: String) -> RenderedPiece<'static> {
    RenderedPiece::Part(RenderedPart::Text(text))
}

/// A piece as the dialect's platform writes it.
fn piece_json(dialect: DialectName, piece: RenderedPiece<'_>) -> Value {
    let part = match piece {
        RenderedPiece::Part(part) => part,
        RenderedPiece::Change { diff, .. } if dialect == DialectName::Acp => {
            return json!({"type": "diff", "path": diff.path, "diff": diff.unified});
        }
        RenderedPiece::Change { texts: Some(diff), .. } if dialect == DialectName::Opencode => {
            return json!({"type": "diff", "path": diff.path, "oldText": diff.old_text, "newText": diff.new_text});
        }
        RenderedPiece::Change { summary, diff, .. } => {
            RenderedPart::Text(describe_change(summary, diff))
        }
    };
    let plain = match (dialect, part) {
        (DialectName::Qwen, RenderedPart::Text(text)) => json!({"text": text}),
        (
            DialectName::Qwen,
            RenderedPart::Image { mime, data }
            | RenderedPart::Audio { mime, data }
            | RenderedPart::Resource { mime, data, .. },
        ) => json!({"inlineData": {"mimeType": mime, "data": data}}),
        (DialectName::Acp, RenderedPart::Image { mime, data }) => {
            json!({"type": "image", "source": {"type": "base64", "mediaType": mime, "data": data}})
        }
        (_, RenderedPart::Text(text)) => json!({"type": "text", "text": text}),
        (_, RenderedPart::Image { mime, data }) => {
            json!({"type": "image", "mimeType": mime, "data": data})
        }
        (_, RenderedPart::Audio { mime, data }) => {
            json!({"type": "audio", "mimeType": mime, "data": data})
        }
        (_, RenderedPart::Resource { uri, mime, data }) => {
            json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": data}})
        }
    };
    match dialect {
        DialectName::Opencode => json!({"type": "content", "content": plain}),
        DialectName::Canonical | DialectName::Acp | DialectName::Qwen => plain,
    }
}

/// A part as words and images, for models that take nothing else.
pub(super) fn part_content(part: RenderedPart<'_>) -> ResultContent {
    match part {
        RenderedPart::Text(text) => text_content(text),
        RenderedPart::Image { mime, data }
        | RenderedPart::Audio { mime, data }
        | RenderedPart::Resource { mime, data, .. } => media_content(mime, data),
    }
}

/// `File written successfully to src/app.ts (245 bytes)`
fn describe_done(done: &str, path: &str, structured: &Value) -> String {
    match structured.get("bytes_written").and_then(Value::as_u64) {
        Some(1) => format!("{done} to {path} (1 byte)"),
        Some(bytes) => format!("{done} to {path} ({bytes} bytes)"),
        None => format!("{done} to {path}"),
    }
}

fn describe_change(summary: &str, diff: &FileDiff) -> String {
    format!("{summary}\n{}", diff.unified)
}

/// A change with the texts of its file: itself, or the display. Where the texts were too long, two
/// nulls would say that nothing is there.
fn find_texts<'a>(diff: &'a FileDiff, display: &'a ResultDisplay) -> Option<&'a FileDiff> {
    let shown = match display {
        ResultDisplay::Diff(shown) if shown.path == diff.path => Some(shown),
        _ => None,
    };
    let has_texts = |diff: &&FileDiff| diff.old_text.is_some() || diff.new_text.is_some();
    Some(diff).filter(has_texts).or_else(|| shown.filter(has_texts))
}

/// Bytes, by what they are. Other media than images and text cannot be shown to a model here.
fn media_content(mime: &str, data: &str) -> ResultContent {
    let text = || String::from_utf8(STANDARD.decode(data).ok()?).ok();
    match mime.split('/').next() {
        Some("image") => ResultContent::Image { mime: mime.to_owned(), data: data.to_owned() },
        Some("text") => text().map_or_else(|| omitted_media(mime, data), text_content),
        _ => omitted_media(mime, data),
    }
}

fn omitted_media(mime: &str, data: &str) -> ResultContent {
    let bytes = data.len() / 4 * 3;
    text_content(format!("(about {bytes} bytes of {mime}, which cannot be shown here)"))
}

fn text_content(text: String) -> ResultContent {
    ResultContent::Text { text }
}

/// `cat -n`: the number in six columns, a tab, the line. Lines that do not fit into 16 MiB are left
/// out with a note.
pub fn number_lines(first: u64, lines: &str) -> String {
    let expected_bytes = lines.len() + lines.len() / 8 + 16;
    let mut numbered = String::with_capacity(expected_bytes.min(NUMBERED_BYTES_MAX));
    for (index, line) in (0_u64..).zip(lines.split('\n')) {
        if index > 0 {
            numbered.push('\n');
        }
        let number = first.saturating_add(index);
        // Writing to a String cannot fail.
        if numbered.len() + line.len() > NUMBERED_BYTES_MAX {
            let _ = write!(numbered, "(lines from {number} on are not shown: too much text)");
            break;
        }
        let _ = write!(numbered, "{number:>6}\t{line}");
    }
    numbered
}

/// `path:line: text`, the text without its indentation. With lines around the hits, these are
/// `path-line- text`, `--` separates groups, and the indentation stays.
fn render_hits(hits: &[SearchHit]) -> String {
    let has_context = hits.iter().any(|hit| !hit.is_match);
    let mut text = String::new();
    for (index, hit) in hits.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        if has_context && index > 0 && !hit.follows(&hits[index - 1]) {
            text.push_str("--\n");
        }
        let mark = if hit.is_match { ':' } else { '-' };
        let shown = if has_context { &hit.text } else { hit.text.trim_start() };
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{mark}{}{mark} {shown}", hit.file, hit.line);
    }
    text
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
    use zero_core::{ErrorReason, ErrorType};

    use super::*;
    use crate::dialect::Dialect;

    fn render_one(dialect: DialectName, tool: &str, content: ToolResultPart) -> Vec<Value> {
        let result = ToolResult {
            content: vec![content],
            display: ResultDisplay::markdown(""),
            structured: Value::Null,
            locations: vec![],
            metadata: zero_core::ResultMetadata::default(),
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
    fn extreme_line_numbers_and_sizes_are_bounded() {
        let rest = Some(RemainingLines { next: 0, total_lines: 0 });
        let page = ToolResultPart::Lines { first: u64::MAX, text: "a\nb".into(), rest, note: None };
        let shown = json!(render_one(DialectName::Canonical, "Read", page)).to_string();
        assert!(shown.contains("continue with offset 1"), "{shown}");
        let numbered = number_lines(1, &"\n".repeat(NUMBERED_BYTES_MAX / 4));
        assert!(numbered.len() < NUMBERED_BYTES_MAX + 128, "{}", numbered.len());
        assert!(numbered.ends_with("on are not shown: too much text)"));
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

    #[track_caller]
    fn check_for_model(one: ToolResultPart, dialects: &[DialectName], expected: ResultContent) {
        for dialect in dialects {
            let result = ToolResult {
                content: vec![one.clone()],
                display: ResultDisplay::markdown(""),
                structured: json!({}),
                locations: vec![],
                metadata: zero_core::ResultMetadata::default(),
            };
            let rendered = crate::dialect::render_for_model(*dialect, "x", &result.into());
            assert_eq!(rendered[0], expected, "{dialect}");
        }
    }

    #[test]
    fn model_gets_text_and_images_in_every_dialect() {
        let all = &DialectName::ALL;
        let data = || "AAAA".to_owned();
        check_for_model(ToolResultPart::Text("a".into()), all, text_content("a".into()));
        let (mime, image) = ("image/png".to_owned(), data());
        check_for_model(
            ToolResultPart::Image { mime: mime.clone(), data: data() },
            all,
            ResultContent::Image { mime, data: image },
        );
        let note = "(about 3 bytes of audio/wav, which cannot be shown here)";
        check_for_model(
            ToolResultPart::Audio { mime: "audio/wav".into(), data: data() },
            all,
            text_content(note.into()),
        );
        let resource = |mime: &str, data: &str| ToolResultPart::Resource {
            uri: "file:///a".into(),
            mime: mime.into(),
            data: data.into(),
        };
        check_for_model(resource("text/plain", "w7w="), all, text_content("ü".into()));
        let note = "(about 3 bytes of application/pdf, which cannot be shown here)";
        check_for_model(resource("application/pdf", "AAAA"), all, text_content(note.into()));
    }

    #[test]
    fn diff_is_text_for_model() {
        let diff = |texts: Option<&str>| FileDiff {
            path: "a.rs".into(),
            unified: "-a\n+b".into(),
            old_text: texts.map(str::to_owned),
            new_text: texts.map(str::to_owned),
            partial: false,
        };
        let change = |diff| ToolResultPart::Diff { summary: "changed a.rs".into(), diff };
        use DialectName::{Acp, Canonical, Opencode, Qwen};
        let full = text_content("changed a.rs\n-a\n+b".into());
        check_for_model(change(diff(None)), &[Canonical, Qwen, Opencode], full);
        check_for_model(change(diff(Some("b"))), &[Opencode], text_content("changed a.rs".into()));
        check_for_model(change(diff(None)), &[Acp], text_content("a.rs\n-a\n+b".into()));
    }

    #[test]
    fn texts_of_change_may_be_in_display_only() {
        let diff = FileDiff {
            path: "a.rs".into(),
            unified: "-a\n+b".into(),
            old_text: Some("a".into()),
            new_text: Some("b".into()),
            partial: false,
        };
        let change = ToolResultPart::Diff { summary: "s".into(), diff: diff.without_texts() };
        let opencode = |display| {
            let result =
                ToolResult { content: vec![change.clone()], display, ..ToolResult::text("") };
            let rendered = Dialect::new(DialectName::Opencode).render("x", &result).content;
            let for_model =
                crate::dialect::render_for_model(DialectName::Opencode, "x", &result.into());
            (rendered, for_model)
        };
        let whole = json!({"type": "diff", "path": "a.rs", "oldText": "a", "newText": "b"});
        let (rendered, for_model) = opencode(ResultDisplay::Diff(diff.clone()));
        assert_eq!((rendered, for_model), (vec![whole], vec![text_content("changed a.rs".into())]));
        let hunks = "s\n-a\n+b";
        let of_other = FileDiff { path: "b.rs".into(), ..diff };
        let (rendered, for_model) = opencode(ResultDisplay::Diff(of_other));
        let text = json!({"type": "content", "content": {"type": "text", "text": hunks}});
        assert_eq!((rendered, for_model), (vec![text], vec![text_content(hunks.into())]));
    }

    #[test]
    fn model_gets_every_field_of_error() {
        let error = ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, "too slow")
            .with_detail("output", "line 1\nline 2\n")
            .with_detail("spill_file", "/tmp/all");
        for dialect in DialectName::ALL {
            let rendered = crate::dialect::render_for_model(dialect, "Bash", &error.clone().into());
            let expected = "{\"tool\":\"Bash\",\"error_type\":\"timeout\",\"message\":\"too slow\",\"details\":{\"reason\":\"deadline\",\"spill_file\":\"/tmp/all\"}}\n\nline 1\nline 2";
            assert_eq!(rendered, [text_content(expected.into())], "{dialect}");
        }
        let error = ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, "too slow")
            .with_detail("output", 7)
            .with_tool("Grep");
        let expected = "{\"tool\":\"Grep\",\"error_type\":\"timeout\",\"message\":\"too slow\",\"details\":{\"reason\":\"deadline\",\"output\":7}}";
        assert_eq!(render_error("Bash", &error), [text_content(expected.into())]);
    }
}
