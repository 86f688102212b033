//! What is shown of a call: changes as changes, words as words, and what programs read.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    self as acp, ContentBlock, Diff, ImageContent, Meta, ToolCallContent, ToolCallLocation,
};
use serde_json::{Value, json};
use zero_core::ToolKind;
use zero_core::ansi_filter::{AnsiFilter, AnsiFilterMode};
use zero_core::event::{CallDisplay, FilePosition, ResultContent, ToolCallStatus};
use zero_core::text_shortening::head;

use crate::text_sanitizer::{code_block, make_visible, shorten_middle};

/// Most bytes of words shown of a result.
pub(super) const SHOWN_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of words in what programs read.
pub(super) const RAW_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of each text of a change.
const DIFF_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of the pictures of a result, in base64.
const PICTURES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most places told of a call.
const PLACES_MAX: usize = 50;

/// Of a call that is over: what became of it.
#[derive(Clone, Copy)]
pub(super) struct CallResultView<'a> {
    pub(super) status: ToolCallStatus,
    pub(super) content: &'a [ResultContent],
    pub(super) display: Option<&'a CallDisplay>,
}

impl CallResultView<'_> {
    /// What the model is told, in words.
    pub(super) fn model_text(&self) -> String {
        let mut told = String::new();
        for piece in self.content {
            if let ResultContent::Text { text } = piece {
                if !told.is_empty() && !told.ends_with('\n') {
                    told.push('\n');
                }
                told.push_str(text);
            }
        }
        told
    }

    /// What a command wrote, with its colours where they are known.
    pub(super) fn command_output(&self) -> String {
        match self.display {
            Some(CallDisplay::Markdown { text }) if !text.is_empty() => text.clone(),
            _ => self.model_text(),
        }
    }

    /// Everything that is shown of it where there is no terminal.
    pub(super) fn display_content(&self, kind: ToolKind, cwd: &Path) -> Vec<ToolCallContent> {
        let mut shown = Vec::new();
        let told = self.model_text();
        match (self.status, self.display) {
            (_, Some(CallDisplay::Diff { unified, .. })) => {
                shown.extend(self.display.and_then(|display| diff_content(display, cwd)));
                // The change is not told twice.
                let words = told.trim_end().strip_suffix(unified.trim_end()).unwrap_or(&told);
                shown.extend(text_content(words.trim_end()));
            }
            (ToolCallStatus::Completed, display) => {
                let summary = match display {
                    Some(CallDisplay::Markdown { text }) => text.as_str(),
                    _ => "",
                };
                match kind {
                    ToolKind::Execute if told.is_empty() => {
                        shown.extend(code_content(&self.command_output(), "console"));
                    }
                    ToolKind::Execute => shown.extend(code_content(&told, "console")),
                    ToolKind::Read | ToolKind::Search => {
                        shown.extend(text_content(summary));
                        if told.trim() != summary.trim() {
                            shown.extend(code_content(&told, ""));
                        }
                    }
                    _ if summary.is_empty() => shown.extend(text_content(&told)),
                    _ => shown.extend(text_content(summary)),
                }
            }
            // Why it gave nothing is in the words, whatever else there is.
            _ => shown.extend(text_content(if told.is_empty() {
                end_label(self.status)
            } else {
                &told
            })),
        }
        shown.extend(self.image_content());
        shown
    }

    fn image_content(&self) -> Vec<ToolCallContent> {
        let mut left = PICTURES_BYTES_MAX;
        let picture = |piece: &ResultContent| match piece {
            ResultContent::Text { .. } => None,
            ResultContent::Image { mime, data } if data.len() <= left => {
                left = left.saturating_sub(data.len());
                let image = ImageContent::new(data.clone(), mime.clone());
                Some(ToolCallContent::from(ContentBlock::Image(image)))
            }
            ResultContent::Image { mime, .. } => {
                text_content(&format!("({mime}, too large to show)"))
            }
        };
        self.content.iter().filter_map(picture).collect()
    }

    /// What programs read.
    pub(super) fn raw_output(&self) -> Value {
        let mut left = RAW_BYTES_MAX;
        let piece = |piece: &ResultContent| match piece {
            ResultContent::Text { text } => {
                let short = shorten_middle(text, left);
                left = left.saturating_sub(text.len());
                let is_cut = short.len() != text.len();
                let mut piece = json!({ "type": "text", "text": short });
                if let (true, Some(piece)) = (is_cut, piece.as_object_mut()) {
                    piece.insert("truncated".to_owned(), Value::Bool(true));
                }
                piece
            }
            ResultContent::Image { mime, data } => {
                json!({ "type": "image", "mimeType": mime, "bytes": data.len() / 4 * 3 })
            }
        };
        let content: Vec<Value> = self.content.iter().map(piece).collect();
        json!({ "status": self.status, "isError": self.status != ToolCallStatus::Completed, "content": content })
    }
}

/// How a call ended that said nothing.
pub(super) fn end_label(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Completed => "",
        ToolCallStatus::Failed => "it failed and did not say why",
        ToolCallStatus::Denied => "it was not allowed",
        ToolCallStatus::Cancelled => "it was stopped",
        ToolCallStatus::Interrupted => "zero stopped before it was known what became of it",
    }
}

/// Words as they are; nothing where there are none.
pub(super) fn text_content(text: &str) -> Option<ToolCallContent> {
    let text = shorten_middle(text, SHOWN_BYTES_MAX);
    (!text.trim().is_empty()).then(|| ToolCallContent::from(make_visible(&text)))
}

/// Words that are no Markdown.
pub(super) fn code_content(text: &str, language: &str) -> Option<ToolCallContent> {
    let text =
        AnsiFilter::filter_all(AnsiFilterMode::PlainText, &shorten_middle(text, SHOWN_BYTES_MAX));
    (!text.trim().is_empty())
        .then(|| ToolCallContent::from(code_block(&make_visible(&text), language)))
}

/// A change, as clients draw it. Where its texts are not known it is told as hunks, since a change
/// without the text before would look like a new file.
pub(super) fn diff_content(shown: &CallDisplay, cwd: &Path) -> Option<ToolCallContent> {
    let (path, unified, old, new, partial) = match shown {
        CallDisplay::Markdown { text } => return text_content(text),
        CallDisplay::Diff { path, unified, old_text, new_text, partial } => {
            (path, unified, old_text.as_deref(), new_text.as_deref(), *partial)
        }
    };
    let removes = unified.lines().any(|line| line.starts_with('-'));
    let adds = unified.lines().any(|line| line.starts_with('+'));
    let is_known = match (old, new) {
        (Some(_), Some(_)) => true,
        (None, Some(_)) => !removes,
        (Some(_), None) => !adds,
        (None, None) => false,
    };
    if !is_known {
        let hunks = code_block(&make_visible(&shorten_middle(unified, SHOWN_BYTES_MAX)), "diff");
        return Some(ToolCallContent::from(format!(
            "{}\n{hunks}",
            crate::text_sanitizer::inline_code(path)
        )));
    }
    let cut = |text: &str| head(text, DIFF_TEXT_BYTES_MAX).to_owned();
    let is_cut = [old, new].into_iter().flatten().any(|text| text.len() > DIFF_TEXT_BYTES_MAX);
    let mut flags = Meta::new();
    if partial || is_cut {
        flags.insert("zero/partial".to_owned(), Value::Bool(true));
    }
    if new.is_none() {
        flags.insert("zero/removed".to_owned(), Value::Bool(true));
    }
    let diff = Diff::new(to_absolute(path, cwd), new.map(cut).unwrap_or_default())
        .old_text(old.map(cut))
        .meta((!flags.is_empty()).then_some(flags));
    Some(ToolCallContent::Diff(diff))
}

/// Places, absolute, each once.
pub(super) fn call_locations(places: &[FilePosition], cwd: &Path) -> Vec<ToolCallLocation> {
    let mut told: Vec<ToolCallLocation> = Vec::new();
    for place in places.iter().filter(|place| !place.path.is_empty()) {
        let line = place.line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0);
        let location = ToolCallLocation::new(to_absolute(&place.path, cwd)).line(line);
        if !told.contains(&location) {
            told.push(location);
        }
        if told.len() == PLACES_MAX {
            break;
        }
    }
    told
}

fn to_absolute(path: &str, cwd: &Path) -> PathBuf {
    // `components` leaves out every `.` but the first.
    let path = Path::new(path);
    let inner = path.strip_prefix(".").unwrap_or(path);
    cwd.join(inner).components().collect()
}

/// What a call was given, as programs read it.
pub(super) fn raw_input(input: &Value) -> Value {
    let mut left = RAW_BYTES_MAX;
    truncate_value(input, &mut left, 0)
}

/// A value of which no more than so many bytes of words are kept.
fn truncate_value(value: &Value, left: &mut usize, depth: usize) -> Value {
    const DEPTH_MAX: usize = 32;
    const ITEMS_MAX: usize = 4096;
    if depth > DEPTH_MAX {
        return Value::String("[…]".to_owned());
    }
    match value {
        Value::String(text) => {
            let short = shorten_middle(text, *left).into_owned();
            *left = left.saturating_sub(text.len());
            Value::String(short)
        }
        Value::Array(items) => {
            let items = items.iter().take(ITEMS_MAX);
            items.map(|item| truncate_value(item, left, depth.saturating_add(1))).collect()
        }
        Value::Object(fields) => {
            let fields = fields.iter().take(ITEMS_MAX);
            fields
                .map(|(name, value)| {
                    (name.clone(), truncate_value(value, left, depth.saturating_add(1)))
                })
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

/// How a client pictures it.
pub(super) fn tool_kind(kind: ToolKind) -> acp::ToolKind {
    match kind {
        ToolKind::Read => acp::ToolKind::Read,
        ToolKind::Edit => acp::ToolKind::Edit,
        ToolKind::Delete => acp::ToolKind::Delete,
        ToolKind::Move => acp::ToolKind::Move,
        ToolKind::Search => acp::ToolKind::Search,
        ToolKind::Execute => acp::ToolKind::Execute,
        ToolKind::Think => acp::ToolKind::Think,
        ToolKind::Fetch => acp::ToolKind::Fetch,
        ToolKind::Other => acp::ToolKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: Option<&str>, new: Option<&str>, unified: &str, partial: bool) -> CallDisplay {
        CallDisplay::Diff {
            path: "src/a.rs".to_owned(),
            unified: unified.to_owned(),
            old_text: old.map(str::to_owned),
            new_text: new.map(str::to_owned),
            partial,
        }
    }

    #[track_caller]
    fn check(shown: &CallDisplay, expected: Value) {
        let content = diff_content(shown, Path::new("/w")).unwrap();
        assert_eq!(serde_json::to_value(content).unwrap(), expected);
    }

    #[test]
    fn diff_has_both_texts_or_falls_back_to_hunks() {
        let path = "/w/src/a.rs";
        check(
            &diff(Some("a"), Some("b"), "-a\n+b", false),
            json!({"type": "diff", "path": path, "oldText": "a", "newText": "b"}),
        );
        check(
            &diff(None, Some("b"), "+b", false),
            json!({"type": "diff", "path": path, "newText": "b"}),
        );
        check(
            &diff(Some("a"), None, "-a", false),
            json!({"type": "diff", "path": path, "oldText": "a", "newText": "", "_meta": {"zero/removed": true}}),
        );
        check(
            &diff(Some("a"), Some("b"), "-a\n+b", true),
            json!({"type": "diff", "path": path, "oldText": "a", "newText": "b", "_meta": {"zero/partial": true}}),
        );
        let told = "`src/a.rs`\n```diff\n-a\n+b\n```";
        let words = json!({"type": "content", "content": {"type": "text", "text": told}});
        check(&diff(None, Some("b"), "-a\n+b", false), words.clone());
        check(&diff(None, None, "-a\n+b", true), words);
    }

    #[test]
    fn locations_are_absolute_and_limited() {
        let place = |path: &str, line| FilePosition { path: path.to_owned(), line };
        let places = [
            place("./a", Some(3)),
            place("/w/a", Some(3)),
            place("/x/./b", Some(0)),
            place("", None),
            place("c", Some(u64::MAX)),
        ];
        let told = call_locations(&places, Path::new("/w"));
        let expected = json!([{"path": "/w/a", "line": 3}, {"path": "/x/b"}, {"path": "/w/c"}]);
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
        let many: Vec<FilePosition> = (0..1000).map(|n| place(&format!("/{n}"), None)).collect();
        assert_eq!(call_locations(&many, Path::new("/w")).len(), PLACES_MAX);
    }

    #[test]
    fn raw_values_are_truncated_and_omit_images() {
        let long = "ä".repeat(RAW_BYTES_MAX);
        let content = [
            ResultContent::Text { text: long.clone() },
            ResultContent::Image { mime: "image/png".to_owned(), data: "AAAA".repeat(9000) },
            ResultContent::Text { text: "more".to_owned() },
        ];
        let outcome =
            CallResultView { status: ToolCallStatus::Completed, content: &content, display: None };
        let raw = outcome.raw_output();
        assert!(raw.to_string().len() < RAW_BYTES_MAX + 1024);
        assert_eq!(raw["content"][0]["truncated"], true);
        assert_eq!(
            raw["content"][1],
            json!({"type": "image", "mimeType": "image/png", "bytes": 27000})
        );
        let input = raw_input(&json!({"content": long, "list": [1, {"deep": "x"}]}));
        assert!(input.to_string().len() < RAW_BYTES_MAX + 1024);
        assert_eq!(input["list"][0], 1);
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(raw_input(&deep).to_string().contains("[…]"));
    }
}
