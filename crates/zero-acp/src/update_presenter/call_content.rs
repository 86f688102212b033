//! The content shown for a call: diffs, text, and raw output for programs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    self as acp, ContentBlock, Diff, ImageContent, Meta, ToolCallContent, ToolCallLocation,
};
use serde_json::{Map, Value, json};
use zero_core::ansi_filter::{AnsiFilter, AnsiFilterMode};
use zero_core::event::{ResultContent, ToolCallStatus};
use zero_core::text_shortening::head;
use zero_core::tool_result::render_checklist;
use zero_core::{FileDiff, FileLocation, ResultDisplay, ToolKind, ToolOutcome, ToolResultPart};
use zero_runtime::dialect::render_plain;

use crate::text_sanitizer::{code_block, make_exact, make_visible, shorten_for_display};

/// Most bytes of result text that are shown.
pub(super) const SHOWN_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of text in raw input and output.
pub(super) const RAW_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of each text of a diff.
const DIFF_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of a result's images, in base64.
const IMAGES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most locations of a call.
const PLACES_MAX: usize = 50;

/// A call that has ended: its status, and the text and images of its outcome.
pub(super) struct CallResultView<'a> {
    outcome: &'a ToolOutcome,
    pub(super) status: ToolCallStatus,
    content: Vec<ResultContent>,
}

impl<'a> CallResultView<'a> {
    pub(super) fn new(outcome: &'a ToolOutcome) -> Self {
        Self { outcome, status: outcome.status(), content: render_plain(outcome) }
    }

    /// The locations that the call touched.
    pub(super) fn locations(&self) -> Cow<'a, [FileLocation]> {
        self.outcome.locations()
    }

    /// The structured result or error details.
    fn structured(&self) -> &'a Value {
        self.outcome.result().map_or(&Value::Null, |result| &result.structured)
    }

    /// Exit code and signal of its command, as far as known.
    pub(super) fn exit_status(&self) -> (Option<i64>, Option<&'a str>) {
        let field = |name: &str| match self.outcome {
            ToolOutcome::Result(result) => result.structured.get(name),
            ToolOutcome::Error(error) => error.details.get(name),
        };
        (field("exit_code").and_then(Value::as_i64), field("signal").and_then(Value::as_str))
    }

    /// Notes about a command besides its output, one line each.
    pub(super) fn command_notes(&self) -> Vec<String> {
        let structured = self.structured();
        let word = |name: &str| structured.get(name).and_then(Value::as_str);
        let mut notes = Vec::new();
        match self.exit_status() {
            (Some(code), Some(signal)) => {
                notes.push(format!("(ended by {signal}, exit code {code})"));
            }
            (Some(code), None) if code != 0 => notes.push(format!("(exit code {code})")),
            _ => {}
        }
        notes.extend(word("cwd").map(|folder| format!("(now in `{folder}`)")));
        notes.extend(word("job_id").map(|job| format!("(continues as job `{job}`)")));
        let others = self.outcome.result().map(|result| &result.metadata.notes[..]);
        notes.extend(others.unwrap_or_default().iter().map(|note| format!("({note})")));
        notes
    }

    /// The text of the outcome.
    pub(super) fn text(&self) -> String {
        let mut joined = String::new();
        for piece in &self.content {
            if let ResultContent::Text { text } = piece {
                if !joined.is_empty() && !joined.ends_with('\n') {
                    joined.push('\n');
                }
                joined.push_str(text);
            }
        }
        joined
    }

    fn display(&self) -> Option<&'a ResultDisplay> {
        self.outcome.result().map(|result| &result.display)
    }

    /// The output of a command, with colours if they are known.
    pub(super) fn command_output(&self) -> String {
        match self.display() {
            Some(ResultDisplay::Markdown { text }) if !text.is_empty() => text.clone(),
            _ => self.text(),
        }
    }

    /// The content for clients without a terminal, except what a failed call had printed.
    pub(super) fn display_content(&self, kind: ToolKind, cwd: &Path) -> Vec<ToolCallContent> {
        let mut shown = Vec::new();
        let text = self.text();
        match (self.status, self.display()) {
            (_, Some(display @ ResultDisplay::Diff(_))) => {
                shown.extend(diff_content(display, cwd));
                // Do not repeat the diff.
                shown.extend(text_content(&self.change_summary()));
            }
            (ToolCallStatus::Completed, display) => {
                let summary = match display {
                    Some(ResultDisplay::Markdown { text }) => text.as_str(),
                    _ => "",
                };
                match kind {
                    ToolKind::Execute if text.is_empty() => {
                        shown.extend(code_content(&self.command_output(), "console"));
                    }
                    ToolKind::Execute => shown.extend(code_content(&text, "console")),
                    ToolKind::Read | ToolKind::Search => {
                        shown.extend(text_content(summary));
                        if text.trim() != summary.trim() {
                            shown.extend(code_content(&text, ""));
                        }
                    }
                    _ if summary.is_empty() => shown.extend(text_content(&text)),
                    _ => shown.extend(text_content(summary)),
                }
            }
            _ => {
                let reason = self.outcome.error().map_or("", |error| error.message.as_str());
                let is_empty = reason.trim().is_empty();
                shown.extend(text_content(if is_empty { end_label(self.status) } else { reason }));
            }
        }
        shown.extend(self.image_content());
        shown
    }

    /// What a failed call had printed, as a code block: as Markdown it could contain links and
    /// images.
    pub(super) fn error_output_content(&self) -> Option<ToolCallContent> {
        code_content(self.outcome.error()?.details.get("output")?.as_str()?, "console")
    }

    /// The text of a call that changed a file, without the diff.
    fn change_summary(&self) -> String {
        let parts = self.outcome.result().map_or(&[][..], |result| &result.content);
        let words = parts.iter().filter_map(|part| match part {
            ToolResultPart::Diff { summary: text, .. } | ToolResultPart::Text(text) => {
                Some(text.as_str())
            }
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }

    fn image_content(&self) -> Vec<ToolCallContent> {
        let mut left = IMAGES_BYTES_MAX;
        let image = |piece: &ResultContent| match piece {
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
        self.content.iter().filter_map(image).collect()
    }

    /// The raw output for programs. `attempted` is the first location of the call, for an error
    /// that names none.
    pub(super) fn raw_output(&self, attempted: Option<&Path>) -> Value {
        let mut left = RAW_BYTES_MAX;
        let mut metadata = Map::new();
        let (exit_code, signal) = self.exit_status();
        metadata.extend(exit_code.map(|code| ("exitCode".to_owned(), json!(code))));
        metadata.extend(signal.map(|signal| ("signal".to_owned(), json!(signal))));
        metadata.insert("status".to_owned(), json!(self.status));
        match self.outcome {
            ToolOutcome::Result(result) => {
                if let ResultDisplay::Diff(diff) = &result.display {
                    let is_changed = |line: &&str| line.starts_with(['+', '-']);
                    let lines = diff.unified.lines().filter(is_changed).count();
                    let backup = result.structured.get("backup").is_some_and(Value::is_string);
                    metadata.insert("linesChanged".to_owned(), json!(lines));
                    metadata.insert("backupCreated".to_owned(), json!(backup));
                }
                if let Value::Object(fields) = json!(result.metadata) {
                    metadata.extend(fields);
                }
                let text = self.text();
                let output = truncate_text(&text, &mut left);
                let structured = truncate_value(&result.structured, &mut left, 0);
                if output.len() != text.len() || structured != result.structured {
                    metadata.insert("truncated".to_owned(), Value::Bool(true));
                }
                if !structured.is_null() {
                    metadata.insert("structured".to_owned(), structured);
                }
                json!({ "output": output, "metadata": metadata })
            }
            ToolOutcome::Error(error) => {
                let errno = error.details.get("errno").and_then(Value::as_str);
                metadata.insert("errorType".to_owned(), json!(error.error_type));
                metadata.insert(
                    "errorCode".to_owned(),
                    errno.map_or_else(|| json!(error.error_type), |errno| json!(errno)),
                );
                let file = error.details.get("file").and_then(Value::as_str).map(Path::new);
                let path = file.or(attempted).map(|path| path.display().to_string());
                metadata.extend(path.map(|path| ("attemptedPath".to_owned(), json!(path))));
                let details = Value::Object(error.details.clone());
                let shown = truncate_value(&details, &mut left, 0);
                if shown != details {
                    metadata.insert("truncated".to_owned(), Value::Bool(true));
                }
                metadata.insert("details".to_owned(), shown);
                let message = shorten_for_display(&error.message, RAW_BYTES_MAX);
                let text = errno
                    .map_or_else(|| message.to_string(), |errno| format!("{errno}: {message}"));
                json!({ "error": text, "metadata": metadata })
            }
        }
    }
}

/// A label for a call that ended without text.
pub(super) fn end_label(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Completed => "",
        ToolCallStatus::Failed => "it failed without a reason",
        ToolCallStatus::Denied => "it was not allowed",
        ToolCallStatus::Cancelled => "it was stopped",
        ToolCallStatus::Interrupted => "zero stopped before the outcome was known",
    }
}

/// Text as Markdown content; `None` if it is empty.
pub(super) fn text_content(text: &str) -> Option<ToolCallContent> {
    let text = shorten_for_display(text, SHOWN_BYTES_MAX);
    (!text.trim().is_empty()).then(|| ToolCallContent::from(make_visible(&text)))
}

/// Text as a code block; `None` if it is empty.
pub(super) fn code_content(text: &str, language: &str) -> Option<ToolCallContent> {
    let text = AnsiFilter::filter_all(
        AnsiFilterMode::PlainText,
        &shorten_for_display(text, SHOWN_BYTES_MAX),
    );
    (!text.trim().is_empty())
        .then(|| ToolCallContent::from(code_block(&make_visible(&text), language)))
}

/// A diff in the client's form. If the texts are not known it is shown as hunks, because a diff
/// without the old text would look like a new file.
pub(super) fn diff_content(shown: &ResultDisplay, cwd: &Path) -> Option<ToolCallContent> {
    let (path, unified, old, new, partial) = match shown {
        ResultDisplay::Markdown { text } => return text_content(text),
        ResultDisplay::Plan { entries } => return text_content(&render_checklist(entries)),
        ResultDisplay::Diff(FileDiff { path, unified, old_text, new_text, partial }) => {
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
        let hunks = code_block(&make_exact(&shorten_for_display(unified, SHOWN_BYTES_MAX)), "diff");
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

/// Absolute locations without duplicates.
pub(super) fn call_locations(locations: &[FileLocation], cwd: &Path) -> Vec<ToolCallLocation> {
    let mut unique: Vec<ToolCallLocation> = Vec::new();
    for location in locations.iter().filter(|location| !location.path.as_os_str().is_empty()) {
        let line = location.line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0);
        let location = ToolCallLocation::new(to_absolute(&location.path, cwd)).line(line);
        if !unique.contains(&location) {
            unique.push(location);
        }
        if unique.len() == PLACES_MAX {
            break;
        }
    }
    unique
}

fn to_absolute(path: impl AsRef<Path>, cwd: &Path) -> PathBuf {
    // `components` drops every `.` except the first.
    let path = path.as_ref();
    let inner = path.strip_prefix(".").unwrap_or(path);
    cwd.join(inner).components().collect()
}

/// The files that the input of a call names, until its tool has described it.
pub(super) fn input_locations(kind: ToolKind, input: &Value) -> Vec<FileLocation> {
    const PATH_FIELDS: [&str; 5] = ["file_path", "absolute_path", "path", "filePath", "paths"];
    if kind == ToolKind::Execute || kind == ToolKind::Fetch {
        return Vec::new();
    }
    let named = PATH_FIELDS.iter().filter_map(|name| input.get(*name));
    let paths = named.flat_map(|value| match value {
        Value::Array(paths) => paths.iter().collect(),
        path => vec![path],
    });
    // A pattern is not a file name.
    let is_path = |path: &&str| !path.contains(['*', '?', '[', '{']);
    let paths = paths.filter_map(Value::as_str).filter(is_path).take(PLACES_MAX);
    paths.map(|path| FileLocation { path: path.into(), line: None }).collect()
}

/// The raw input for programs.
pub(super) fn raw_input(input: &Value) -> Value {
    let mut left = RAW_BYTES_MAX;
    truncate_value(input, &mut left, 0)
}

/// The text if it fits into `left`; otherwise its beginning and end, with some bytes left for what
/// follows.
fn truncate_text<'a>(text: &'a str, left: &mut usize) -> Cow<'a, str> {
    let bytes_max = if text.len() <= *left { *left } else { *left / 8 * 7 };
    let short = shorten_for_display(text, bytes_max);
    *left = left.saturating_sub(short.len());
    short
}

/// Copies a value, with at most `left` bytes: those of keys and strings, and a constant for each
/// node. The items that follow are left out.
fn truncate_value(value: &Value, left: &mut usize, depth: usize) -> Value {
    const DEPTH_MAX: usize = 32;
    const NODE_BYTES: usize = 16;
    *left = left.saturating_sub(NODE_BYTES);
    if depth > DEPTH_MAX {
        return Value::String("[…]".to_owned());
    }
    match value {
        Value::String(text) => Value::String(truncate_text(text, left).into_owned()),
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                if *left == 0 {
                    break;
                }
                kept.push(truncate_value(item, left, depth.saturating_add(1)));
            }
            Value::Array(kept)
        }
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, value) in fields {
                *left = left.saturating_sub(name.len());
                if *left == 0 {
                    break;
                }
                kept.insert(name.clone(), truncate_value(value, left, depth.saturating_add(1)));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// The protocol's kind for a tool kind.
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

    fn diff(old: Option<&str>, new: Option<&str>, unified: &str, partial: bool) -> ResultDisplay {
        ResultDisplay::Diff(FileDiff {
            path: "src/a.rs".to_owned(),
            unified: unified.to_owned(),
            old_text: old.map(str::to_owned),
            new_text: new.map(str::to_owned),
            partial,
        })
    }

    #[track_caller]
    fn check(shown: &ResultDisplay, expected: Value) {
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
        let text = "`src/a.rs`\n```diff\n-a\n+b\n```";
        let words = json!({"type": "content", "content": {"type": "text", "text": text}});
        check(&diff(None, Some("b"), "-a\n+b", false), words.clone());
        check(&diff(None, None, "-a\n+b", true), words);
    }

    #[test]
    fn locations_are_absolute_and_limited() {
        let location = |path: &str, line| FileLocation { path: path.into(), line };
        let locations = [
            location("./a", Some(3)),
            location("/w/a", Some(3)),
            location("/x/./b", Some(0)),
            location("", None),
            location("c", Some(u64::MAX)),
        ];
        let locations = call_locations(&locations, Path::new("/w"));
        let expected = json!([{"path": "/w/a", "line": 3}, {"path": "/x/b"}, {"path": "/w/c"}]);
        assert_eq!(serde_json::to_value(locations).unwrap(), expected);
        let many: Vec<FileLocation> = (0..1000).map(|n| location(&format!("/{n}"), None)).collect();
        assert_eq!(call_locations(&many, Path::new("/w")).len(), PLACES_MAX);
    }

    #[test]
    fn raw_values_are_truncated_and_omit_images() {
        let long = "ä".repeat(RAW_BYTES_MAX);
        let image = "AAAA".repeat(9000);
        let content = vec![
            ToolResultPart::Text(long.clone()),
            ToolResultPart::Image { mime: "image/png".to_owned(), data: image.clone() },
            ToolResultPart::Text("more".to_owned()),
        ];
        let outcome = ToolOutcome::Result(zero_core::ToolResult {
            content,
            structured: json!({"content": long}),
            ..zero_core::ToolResult::text("")
        });
        let raw = CallResultView::new(&outcome).raw_output(None);
        assert!(raw.to_string().len() < RAW_BYTES_MAX + 1024);
        assert_eq!(raw["metadata"]["truncated"], true);
        assert!(!raw.to_string().contains(&image));
        let input = raw_input(&json!({"content": long, "list": [1, {"deep": "x"}]}));
        assert!(input.to_string().len() < RAW_BYTES_MAX + 1024);
        assert_eq!(input["list"][0], 1);
        let keys: Map<String, Value> =
            (0..RAW_BYTES_MAX).map(|n| (format!("key {n}"), json!([n, ""]))).collect();
        for large in [Value::Object(keys), json!([vec![long.clone(); 99], vec![0; RAW_BYTES_MAX]])]
        {
            assert!(raw_input(&large).to_string().len() < RAW_BYTES_MAX + 1024);
        }
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(raw_input(&deep).to_string().contains("[…]"));
    }
}
