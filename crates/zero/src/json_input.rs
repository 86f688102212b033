//! Reads the JSON input of a call from the command line or stdin. Errors show the position.

use std::borrow::Cow;
use std::io::Read;

use serde_json::Value;
use zero_core::HostLimits;
use zero_runtime::json_reader;

use crate::AppContext;
use crate::exit::UsageError;
use crate::terminal::escape_line;

/// Characters of the line shown on each side of an error.
const CONTEXT_CHARS: usize = 40;

/// Reads and parses the input; `-` means stdin.
pub(crate) fn read(app: &AppContext, input: &str, limits: &HostLimits) -> anyhow::Result<Value> {
    let text = read_text(app, input, limits)?;
    Ok(serde_json::from_str(&text).map_err(|error| UsageError(explain_error(&text, &error)))?)
}

/// Like [`read`], but rejects duplicate fields, for inputs that the policy evaluates.
pub(crate) fn read_unique(
    app: &AppContext,
    input: &str,
    limits: &HostLimits,
) -> anyhow::Result<Value> {
    let text = read_text(app, input, limits)?;
    let parsed = json_reader::parse_unique(text.as_bytes());
    Ok(parsed.map_err(|error| UsageError(explain_error(&text, &error)))?)
}

fn read_text<'a>(
    app: &AppContext,
    input: &'a str,
    limits: &HostLimits,
) -> Result<Cow<'a, str>, UsageError> {
    if input != "-" {
        return Ok(Cow::Borrowed(input));
    }
    if app.terminal.is_stdin_terminal() {
        app.terminal.print_note("reading the input from the terminal; end it with Ctrl-D");
    }
    read_bounded(std::io::stdin().lock(), limits).map(Cow::Owned)
}

fn read_bounded(stream: impl Read, limits: &HostLimits) -> Result<String, UsageError> {
    let most = limits.input_bytes_max;
    let mut bytes = Vec::new();
    stream
        .take(most.get() + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| UsageError(format!("could not read the input from stdin: {error}")))?;
    if bytes.len() as u64 > most.get() {
        return Err(UsageError(format!(
            "the input on stdin is larger than {most}; split it into several calls"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        UsageError(format!("the input on stdin is not valid UTF-8 at byte {}", offset + 1))
    })
}

/// Renders a parse error with the line and a pointer to the column.
fn explain_error(text: &str, error: &serde_json::Error) -> String {
    const QUOTING: &str = "quote it for your shell, such as '{\"file_path\": \"README.md\"}'";
    if text.trim().is_empty() {
        return format!("the input is empty; pass a JSON object and {QUOTING}");
    }
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    // serde_json counts columns in bytes from 1, and points past the end of a truncated line.
    let at = line.floor_char_boundary(error.column().saturating_sub(1).min(line.len()));
    let (before, after) = line.split_at(at);
    let column = before.chars().count() + 1;
    let skipped = before.chars().count().saturating_sub(CONTEXT_CHARS);
    let lead = if skipped > 0 { "…" } else { "" };
    let before: String = before.chars().skip(skipped).collect();
    let mut rest = after.chars();
    let after: String = rest.by_ref().take(CONTEXT_CHARS).collect();
    let trail = if rest.next().is_some() { "…" } else { "" };
    let shown_before = format!("{lead}{}", escape_line(&before));
    let pad = " ".repeat(shown_before.chars().count());
    format!(
        "the input is not valid JSON: {what} at line {}, column {column}\n  | {shown_before}{}{trail}\n  | {pad}^\n{QUOTING}",
        error.line(),
        escape_line(&after),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse_error(text: &str) -> String {
        explain_error(text, &serde_json::from_str::<Value>(text).unwrap_err())
    }

    #[test]
    fn json_error_points_at_position() {
        insta::assert_snapshot!(parse_error(r#"{"file_path" "a"}"#), @r#"
        the input is not valid JSON: expected `:` at line 1, column 14
          | {"file_path" "a"}
          |              ^
        quote it for your shell, such as '{"file_path": "README.md"}'
        "#);
        insta::assert_snapshot!(parse_error("{\"ü\": 1,\n  \"b\": tru}"), @r#"
        the input is not valid JSON: expected ident at line 2, column 11
          |   "b": tru}
          |           ^
        quote it for your shell, such as '{"file_path": "README.md"}'
        "#);
        insta::assert_snapshot!(parse_error("{"), @r#"
        the input is not valid JSON: EOF while parsing an object at line 1, column 1
          | {
          | ^
        quote it for your shell, such as '{"file_path": "README.md"}'
        "#);
    }

    #[test]
    fn long_lines_are_truncated_and_escaped() {
        let text = format!("[{}\x1b[2J{}]", "1,".repeat(500), "1,".repeat(500));
        let message = parse_error(&text);
        assert!(
            message.len() < 400 && message.contains("\\u{1b}") && message.contains('…'),
            "{message}"
        );
        assert!(parse_error("").starts_with("the input is empty"));
        for text in ["\u{1F600}", "{\u{1F600}", "[\"\u{1F600}", "\n\n\u{1F600}"] {
            parse_error(text);
        }
    }

    #[test]
    fn stdin_input_is_bounded() {
        let limits =
            HostLimits { input_bytes_max: zero_core::ByteSize::bytes(4), ..HostLimits::default() };
        assert_eq!(read_bounded(&b"null"[..], &limits), Ok("null".to_owned()));
        assert!(read_bounded(&b"false"[..], &limits).unwrap_err().0.contains("larger than 4 B"));
        assert!(read_bounded(&b"\"\xff\""[..], &limits).unwrap_err().0.contains("byte 2"));
    }
}
