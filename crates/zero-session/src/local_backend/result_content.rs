//! A tool's result as the loop keeps it: words and pictures, whatever the dialect wrote.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zero_core::{FileDiff, FileLocation, ResultDisplay};

use crate::event::{CallDisplay, FilePosition, PlanEntry, ResultContent};

/// What the model is told, of pieces as a dialect writes them.
pub(super) fn convert_content(pieces: Vec<Value>) -> Vec<ResultContent> {
    pieces.into_iter().map(convert_piece).collect()
}

/// What the person sees.
pub(super) fn convert_display(display: ResultDisplay) -> Option<CallDisplay> {
    match display {
        ResultDisplay::Markdown { text } if text.is_empty() => None,
        ResultDisplay::Markdown { text } => Some(CallDisplay::Markdown { text }),
        ResultDisplay::Diff(FileDiff { path, unified, old_text, new_text, partial }) => {
            Some(CallDisplay::Diff { path, unified, old_text, new_text, partial })
        }
        // It is told as a plan, which every face shows in its own way.
        ResultDisplay::Plan { .. } => None,
    }
}

/// The plan that a result sets.
pub(super) fn extract_plan(display: &ResultDisplay) -> Option<Vec<PlanEntry>> {
    match display {
        ResultDisplay::Plan { entries } => Some(entries.clone()),
        ResultDisplay::Markdown { .. } | ResultDisplay::Diff(_) => None,
    }
}

/// Places that a call is about.
pub(super) fn convert_locations(locations: &[FileLocation]) -> Vec<FilePosition> {
    let place = |location: &FileLocation| FilePosition {
        path: location.path.display().to_string(),
        line: location.line,
    };
    locations.iter().map(place).collect()
}

/// One piece. Dialects write them in their own ways; transcripts know words and pictures.
fn convert_piece(mut piece: Value) -> ResultContent {
    if piece["type"] == "content" {
        piece = take_field(&mut piece, "content");
    }
    let kind = piece["type"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "diff" if piece["diff"].is_string() => text_content(format!(
            "{}\n{}",
            take_text(&mut piece, "path"),
            take_text(&mut piece, "diff")
        )),
        "diff" => text_content(format!("changed {}", take_text(&mut piece, "path"))),
        "image" if piece["source"].is_object() => {
            let mut source = take_field(&mut piece, "source");
            convert_media(take_text(&mut source, "mediaType"), take_text(&mut source, "data"))
        }
        "image" | "audio" => {
            convert_media(take_text(&mut piece, "mimeType"), take_text(&mut piece, "data"))
        }
        "resource" => {
            let mut resource = take_field(&mut piece, "resource");
            convert_media(take_text(&mut resource, "mimeType"), take_text(&mut resource, "blob"))
        }
        "" if piece["inlineData"].is_object() => {
            let mut data = take_field(&mut piece, "inlineData");
            convert_media(take_text(&mut data, "mimeType"), take_text(&mut data, "data"))
        }
        _ if piece["text"].is_string() => text_content(take_text(&mut piece, "text")),
        // A shape that nobody here knows still says what it says.
        _ => text_content(piece.to_string()),
    }
}

/// Bytes, by what they are. What is neither a picture nor text cannot be shown to a model here.
fn convert_media(mime: String, data: String) -> ResultContent {
    match mime.split('/').next() {
        Some("image") => ResultContent::Image { mime, data },
        Some("text") => match STANDARD.decode(&data).map(String::from_utf8) {
            Ok(Ok(text)) => text_content(text),
            _ => omitted_media(&mime, &data),
        },
        _ => omitted_media(&mime, &data),
    }
}

fn omitted_media(mime: &str, data: &str) -> ResultContent {
    let bytes = data.len() / 4 * 3;
    text_content(format!("(about {bytes} bytes of {mime}, which cannot be shown here)"))
}

fn text_content(text: String) -> ResultContent {
    ResultContent::Text { text }
}

/// Takes a text out of an object.
fn take_text(object: &mut Value, field: &str) -> String {
    match take_field(object, field) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

fn take_field(object: &mut Value, field: &str) -> Value {
    object.get_mut(field).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_core::{ToolResult, ToolResultPart};
    use zero_runtime::{Dialect, DialectName};

    use super::*;

    #[track_caller]
    fn check(one: ToolResultPart, dialects: &[DialectName], expected: ResultContent) {
        for dialect in dialects {
            let result = ToolResult {
                content: vec![one.clone()],
                display: ResultDisplay::markdown(""),
                structured: json!({}),
                locations: vec![],
            };
            let rendered = Dialect::new(*dialect).render("x", &result);
            assert_eq!(convert_content(rendered.content)[0], expected, "{dialect}");
        }
    }

    #[test]
    fn every_dialect_converts_to_text_and_images() {
        let all = &DialectName::ALL;
        let data = || "AAAA".to_owned();
        check(ToolResultPart::Text("a".into()), all, text_content("a".into()));
        let (mime, picture) = ("image/png".to_owned(), data());
        check(
            ToolResultPart::Image { mime: mime.clone(), data: data() },
            all,
            ResultContent::Image { mime, data: picture },
        );
        let note = "(about 3 bytes of audio/wav, which cannot be shown here)";
        check(
            ToolResultPart::Audio { mime: "audio/wav".into(), data: data() },
            all,
            text_content(note.into()),
        );
        let resource = |mime: &str, data: &str| ToolResultPart::Resource {
            uri: "file:///a".into(),
            mime: mime.into(),
            data: data.into(),
        };
        check(resource("text/plain", "w7w="), all, text_content("ü".into()));
        let note = "(about 3 bytes of application/pdf, which cannot be shown here)";
        check(resource("application/pdf", "AAAA"), all, text_content(note.into()));
    }

    #[test]
    fn diff_is_text_for_model_and_diff_for_display() {
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
        check(change(diff(None)), &[Canonical, Qwen, Opencode], full);
        check(change(diff(Some("b"))), &[Opencode], text_content("changed a.rs".into()));
        check(change(diff(None)), &[Acp], text_content("a.rs\n-a\n+b".into()));
        let shown = convert_display(ResultDisplay::Diff(diff(Some("b")))).unwrap();
        assert!(matches!(shown, CallDisplay::Diff { path, .. } if path == "a.rs"));
    }
}
