//! Prints the result of a call, as text or JSON.

use serde::Serialize;
use serde_json::Value;
use zero_core::{FileLocation, ResultDisplay, ToolError, ToolResultPart};
use zero_runtime::CallOutcome;

use crate::AppContext;
use crate::approval::error_for_user;
use crate::cli::ToolsCallArgs;
use crate::exit::ExitOutcome;
use crate::plan_steps::render_step;
use crate::terminal::TerminalStream;

/// Result as JSON. Serialized directly, so that a value that cannot be serialized is an error.
#[derive(Serialize)]
struct JsonAnswer<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<JsonAnswerResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ToolError>,
}

#[derive(Serialize)]
struct JsonAnswerResult<'a> {
    content: &'a [Value],
    display: &'a Value,
    structured: &'a Value,
    locations: &'a [FileLocation],
}

/// Prints the result and returns the exit code.
pub(super) fn print(
    app: &AppContext,
    args: &ToolsCallArgs,
    outcome: Result<CallOutcome, ToolError>,
) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    match outcome {
        Ok(outcome) if args.json => {
            let result = JsonAnswerResult {
                content: &outcome.rendered.content,
                display: &outcome.rendered.display,
                structured: &outcome.result.structured,
                locations: &outcome.result.locations,
            };
            out.write_json_line(&JsonAnswer { ok: true, result: Some(result), error: None })?;
            Ok(ExitOutcome::Ok)
        }
        Ok(outcome) => {
            let mut text = render_outcome(out, &outcome);
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            out.write(&text)?;
            Ok(ExitOutcome::Ok)
        }
        Err(error) => {
            if args.json {
                print_error(out, &error)?;
            } else {
                app.terminal.print_error(&error_for_user(&error.message));
            }
            Ok(ExitOutcome::from_error(&error))
        }
    }
}

/// Prints an error as JSON.
pub(super) fn print_error(out: &TerminalStream, error: &ToolError) -> std::io::Result<()> {
    out.write_json_line(&JsonAnswer { ok: false, result: None, error: Some(error) })
}

/// Result as text: what the model gets, with a colored diff.
pub(in crate::commands) fn render_outcome(out: &TerminalStream, outcome: &CallOutcome) -> String {
    if out.is_terminal()
        && let ResultDisplay::Diff(diff) = &outcome.result.display
    {
        let summaries = outcome.result.content.iter().filter_map(|content| match content {
            ToolResultPart::Diff { summary, .. } | ToolResultPart::Text(summary) => {
                Some(summary.as_str())
            }
            _ => None,
        });
        let summaries: Vec<&str> = summaries.collect();
        return format!(
            "{}\n{}",
            out.escape_foreign(&summaries.join("\n")),
            out.render_diff(&diff.unified)
        );
    }
    let pieces: Vec<String> = outcome.rendered.content.iter().map(content_text).collect();
    let mut text = out.escape_foreign(&pieces.join("\n")).into_owned();
    if let ResultDisplay::Plan { entries } = &outcome.result.display {
        for entry in entries {
            text.push('\n');
            text.push_str(&render_step(out, entry));
        }
    }
    text
}

/// Text of one content item, in any dialect.
fn content_text(piece: &Value) -> String {
    if let Some(text) = piece.get("text").or_else(|| piece.get("diff")).and_then(Value::as_str) {
        return text.to_owned();
    }
    if let Some(inner) =
        ["content", "resource", "inlineData", "source"].iter().find_map(|name| piece.get(*name))
    {
        return content_text(inner);
    }
    if let Some(path) = piece.get("path").and_then(Value::as_str) {
        return format!("changed {path}");
    }
    let mime = ["mimeType", "mediaType"].iter().find_map(|name| piece.get(*name)?.as_str());
    match mime {
        Some(mime) => format!("[{mime}; pass --json for the data]"),
        None => piece.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_of_every_dialect_has_text() {
        for (piece, text) in [
            (json!({"type": "text", "text": "a"}), "a"),
            (json!({"text": "a"}), "a"),
            (json!({"type": "content", "content": {"type": "text", "text": "a"}}), "a"),
            (json!({"type": "diff", "path": "p", "diff": "-a"}), "-a"),
            (json!({"type": "diff", "path": "p", "oldText": null, "newText": "a"}), "changed p"),
            (
                json!({"type": "image", "mimeType": "image/png", "data": ""}),
                "[image/png; pass --json for the data]",
            ),
            (
                json!({"inlineData": {"mimeType": "image/png", "data": ""}}),
                "[image/png; pass --json for the data]",
            ),
            (
                json!({"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": ""}}),
                "[image/png; pass --json for the data]",
            ),
        ] {
            assert_eq!(content_text(&piece), text, "{piece}");
        }
    }
}
