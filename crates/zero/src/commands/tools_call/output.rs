//! Prints the result of a call, as text or JSON.

use serde::Serialize;
use serde_json::Value;
use zero_core::event::ResultContent;
use zero_core::{FileLocation, ResultDisplay, ToolError, ToolResult, ToolResultPart};
use zero_runtime::dialect::{RenderedResult, render_error_for_platform, render_result};
use zero_runtime::{CallOutcome, DialectName};

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
    /// An error as Qwen Code writes it; a result has these inside.
    #[serde(rename = "llmContent", skip_serializing_if = "Option::is_none")]
    llm_content: Option<Vec<Value>>,
    #[serde(rename = "returnDisplay", skip_serializing_if = "Option::is_none")]
    return_display: Option<Value>,
}

#[derive(Serialize)]
struct JsonAnswerResult<'a> {
    content: &'a [Value],
    display: &'a Value,
    /// The names that Qwen Code has for both.
    #[serde(rename = "llmContent", skip_serializing_if = "Option::is_none")]
    llm_content: Option<&'a [Value]>,
    #[serde(rename = "returnDisplay", skip_serializing_if = "Option::is_none")]
    return_display: Option<&'a Value>,
    structured: &'a Value,
    locations: &'a [FileLocation],
}

/// The exit code for a result: that of a command that failed is an error, so that a script sees it.
/// Its own code is in the result.
fn exit_outcome(result: &ToolResult) -> ExitOutcome {
    match result.structured.get("exit_code").and_then(Value::as_i64) {
        None | Some(0) => ExitOutcome::Ok,
        Some(_) => ExitOutcome::Error,
    }
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
            let RenderedResult { content, display } = &outcome.rendered;
            let is_qwen = args.dialect == DialectName::Qwen;
            let result = JsonAnswerResult {
                content,
                display,
                llm_content: is_qwen.then_some(content),
                return_display: is_qwen.then_some(display),
                structured: &outcome.result.structured,
                locations: &outcome.result.locations,
            };
            out.write_json_line(&JsonAnswer {
                ok: true,
                result: Some(result),
                error: None,
                llm_content: None,
                return_display: None,
            })?;
            Ok(exit_outcome(&outcome.result))
        }
        Ok(outcome) => {
            let called = (args.dialect, args.name.as_str());
            let mut text = render_outcome(out, called, &outcome.result);
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            out.write(&text)?;
            Ok(exit_outcome(&outcome.result))
        }
        Err(error) => {
            if args.json {
                print_error(out, args, &error)?;
            } else {
                print_partial_output(out, &error)?;
                app.terminal.print_error(&error_for_user(&error.message));
            }
            Ok(ExitOutcome::from_error(&error))
        }
    }
}

/// Prints what a command had written before it failed, for example before its timeout.
fn print_partial_output(out: &TerminalStream, error: &ToolError) -> std::io::Result<()> {
    let Some(output) = error.details.get("output").and_then(Value::as_str) else { return Ok(()) };
    let mut text = out.escape_foreign(output).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    out.write(&text)
}

/// Prints an error as JSON.
pub(super) fn print_error(
    out: &TerminalStream,
    args: &ToolsCallArgs,
    error: &ToolError,
) -> std::io::Result<()> {
    let rendered = (args.dialect == DialectName::Qwen)
        .then(|| render_error_for_platform(args.dialect, &args.name, error));
    let (llm_content, return_display) = match rendered {
        Some(RenderedResult { content, display }) => (Some(content), Some(display)),
        None => (None, None),
    };
    out.write_json_line(&JsonAnswer {
        ok: false,
        result: None,
        error: Some(error),
        llm_content,
        return_display,
    })
}

/// Result as text: what the model gets, with a colored diff.
pub(in crate::commands) fn render_outcome(
    out: &TerminalStream,
    (dialect, tool): (DialectName, &str),
    result: &ToolResult,
) -> String {
    if out.is_terminal()
        && let ResultDisplay::Diff(diff) = &result.display
    {
        let summaries = result.content.iter().filter_map(|content| match content {
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
    let content = render_result(dialect, tool, result);
    let pieces: Vec<String> = content.into_iter().map(content_text).collect();
    let mut text = out.escape_foreign(&pieces.join("\n")).into_owned();
    if let ResultDisplay::Plan { entries } = &result.display {
        for entry in entries {
            text.push('\n');
            text.push_str(&render_step(out, entry));
        }
    }
    text
}

/// Text of one content item.
fn content_text(piece: ResultContent) -> String {
    match piece {
        ResultContent::Text { text } => text,
        ResultContent::Image { mime, .. } => format!("[{mime}; pass --json for the data]"),
    }
}
