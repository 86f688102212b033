//! Renders a session for the terminal and as Markdown.

use std::fmt::Write as _;

use zero_core::ResultDisplay;
use zero_core::event::{
    Event, EventKind, ResultContent, RunOutcome, ToolCallStatus, describe_compaction,
};
use zero_core::sanitize::code_fence;
use zero_core::text_shortening::{head_chars, shorten_end};
use zero_runtime::dialect;
use zero_wire::zero_sessions::SessionInfo;

/// Characters shown of a tool result on the terminal.
const RESULT_CHARS_MAX: usize = 2_000;

/// Renders a session as plain text.
pub(super) fn render_plain(session: &SessionInfo, events: &[Event]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<8} {value}");
        }
    };
    line("session", &session.session_key);
    line("label", session.label.as_deref().unwrap_or_default());
    line("title", session.title.as_deref().unwrap_or_default());
    line("model", &session.model);
    line("mode", session.mode.as_deref().unwrap_or_default());
    line("folder", session.cwd.as_deref().unwrap_or_default());
    line("tools", session.tool_host.as_deref().unwrap_or_default());
    let usage = &session.usage;
    if usage.input_tokens + usage.output_tokens > 0 {
        let tokens = format!("{} input, {} output", usage.input_tokens, usage.output_tokens);
        line("tokens", &tokens);
    }
    for piece in collect_items(events) {
        let _ = match piece {
            TranscriptItem::Prompt(prompt) => {
                writeln!(text, "\n> {}", prompt.replace('\n', "\n> "))
            }
            TranscriptItem::Text(words) => writeln!(text, "\n{}", words.trim_end()),
            TranscriptItem::Thought(_) => Ok(()),
            TranscriptItem::Call { title, status, result, diff } => {
                let _ = writeln!(text, "\n[{}] {title}", status_label(status));
                match diff {
                    Some(diff) => writeln!(text, "{}", indent(diff)),
                    None => writeln!(text, "{}", indent(&truncate(&result))),
                }
            }
            TranscriptItem::Note(note) => writeln!(text, "\n({note})"),
        };
    }
    text
}

/// Renders a session as Markdown.
pub(super) fn render_markdown(session: &SessionInfo, events: &[Event]) -> String {
    let title = session.title.as_deref().or(session.label.as_deref());
    let mut text = format!("# {}\n\n", title.unwrap_or(&session.session_key));
    let _ = writeln!(text, "- session: `{}`\n- model: `{}`", session.session_key, session.model);
    if let Some(cwd) = &session.cwd {
        let _ = writeln!(text, "- folder: `{cwd}`");
    }
    for piece in collect_items(events) {
        let _ = match piece {
            TranscriptItem::Prompt(prompt) => writeln!(text, "\n## {}\n", first_line(prompt))
                .and_then(|()| writeln!(text, "> {}", prompt.replace('\n', "\n> "))),
            TranscriptItem::Text(words) => writeln!(text, "\n{}", words.trim_end()),
            TranscriptItem::Thought(thought) => {
                let quoted = thought.trim_end().replace('\n', "\n> ");
                writeln!(text, "\n<details><summary>thought</summary>\n\n> {quoted}\n\n</details>")
            }
            TranscriptItem::Call { title, status, result, diff } => {
                let _ = writeln!(text, "\n**{title}** ({})\n", status_label(status));
                match diff {
                    Some(diff) => writeln!(text, "{}", fence("diff", diff)),
                    None => writeln!(text, "{}", fence("", &result)),
                }
            }
            TranscriptItem::Note(note) => writeln!(text, "\n*{note}*"),
        };
    }
    text
}

/// One item of a rendered transcript.
enum TranscriptItem<'a> {
    Prompt(&'a str),
    Text(String),
    Thought(String),
    Call { title: String, status: ToolCallStatus, result: String, diff: Option<&'a str> },
    Note(String),
}

/// Selects the events to render, and joins streamed text.
fn collect_items(events: &[Event]) -> Vec<TranscriptItem<'_>> {
    let mut pieces: Vec<TranscriptItem<'_>> = Vec::new();
    let mut titles: std::collections::HashMap<&str, &str> = std::collections::HashMap::new();
    for event in events {
        match &event.kind {
            EventKind::Prompt { text, .. } => pieces.push(TranscriptItem::Prompt(text)),
            EventKind::Text { text } => match pieces.last_mut() {
                Some(TranscriptItem::Text(words)) => words.push_str(text),
                _ => pieces.push(TranscriptItem::Text(text.clone())),
            },
            EventKind::Thought { text } => match pieces.last_mut() {
                Some(TranscriptItem::Thought(thought)) => thought.push_str(text),
                _ => pieces.push(TranscriptItem::Thought(text.clone())),
            },
            EventKind::ToolStarted { call, title, .. } => {
                titles.insert(call, title);
            }
            EventKind::ToolUpdated { call, title: Some(title), .. } => {
                titles.insert(call, title);
            }
            EventKind::ToolEnded { call, status, outcome } => {
                let title = titles.get(call.as_str()).copied().unwrap_or(call).to_owned();
                let diff = match outcome.result().map(|result| &result.display) {
                    Some(ResultDisplay::Diff(diff)) => Some(diff.unified.as_str()),
                    _ => None,
                };
                let content = dialect::render_plain(outcome);
                let texts = content.iter().filter_map(|piece| match piece {
                    ResultContent::Text { text } => Some(text.as_str()),
                    ResultContent::Image { .. } => None,
                });
                let result = texts.collect::<Vec<_>>().join("\n");
                pieces.push(TranscriptItem::Call { title, status: *status, result, diff });
            }
            EventKind::Notice { text, .. } => pieces.push(TranscriptItem::Note(text.clone())),
            EventKind::Opaque(opaque) => pieces.push(TranscriptItem::Note(opaque.describe())),
            EventKind::Compacted { tokens_before, tokens_after, extent, .. } => {
                let text = describe_compaction(*tokens_before, *tokens_after, *extent);
                pieces.push(TranscriptItem::Note(text));
            }
            EventKind::Reset { .. } => {
                pieces.push(TranscriptItem::Note("the session was reset".to_owned()))
            }
            EventKind::Rewound { prompt, scope, files, .. } => {
                pieces.push(TranscriptItem::Note(scope.describe_rewind(*prompt, *files)));
            }
            EventKind::RunEnded { end, .. } => {
                pieces.extend(describe_end(end).map(TranscriptItem::Note))
            }
            _ => {}
        }
    }
    pieces
}

fn describe_end(end: &RunOutcome) -> Option<String> {
    Some(match end {
        RunOutcome::Completed => return None,
        RunOutcome::MaxTokens => "cut off: output limit reached".to_owned(),
        RunOutcome::MaxTurns { turns } => format!("stopped after {turns} model requests"),
        RunOutcome::Budget { message } => format!("stopped: {message}"),
        RunOutcome::Refused { message } => format!("the model refused: {message}"),
        RunOutcome::Aborted { by } => match by.as_str() {
            "rpc" => "stopped by you".to_owned(),
            "loop_guard" => "stopped: the model kept repeating the same calls".to_owned(),
            other => format!("stopped ({other})"),
        },
        RunOutcome::Failed { message, .. } => format!("failed: {message}"),
        RunOutcome::Interrupted => "zero exited before the run ended".to_owned(),
    })
}

fn status_label(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Completed => "done",
        ToolCallStatus::Failed => "failed",
        ToolCallStatus::Denied => "denied",
        ToolCallStatus::Cancelled => "cancelled",
        ToolCallStatus::Interrupted => "interrupted",
    }
}

fn first_line(text: &str) -> String {
    shorten_end(text.lines().next().unwrap_or_default(), 80)
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn truncate(text: &str) -> String {
    let shown = head_chars(text, RESULT_CHARS_MAX);
    if shown.len() == text.len() {
        text.to_owned()
    } else {
        format!("{shown}\n… (use --json for the full text)")
    }
}

/// A Markdown code block with a fence that is longer than any in the text.
fn fence(language: &str, text: &str) -> String {
    let delimiter = code_fence(text);
    format!("{delimiter}{language}\n{}\n{delimiter}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_is_longer_than_any_fence_inside() {
        assert_eq!(fence("", "a"), "```\na\n```");
        assert_eq!(fence("md", "a ```` b"), "`````md\na ```` b\n`````");
    }

    #[test]
    fn text_chunks_are_joined() {
        let event = |kind| Event { seq: 1, run: None, time_ms: 0, kind };
        let text = |text: &str| event(EventKind::Text { text: text.to_owned() });
        let events = [
            event(EventKind::Prompt { text: "hi\nyou".to_owned(), attachments: vec![] }),
            text("Hel"),
            text("lo"),
            event(EventKind::RunEnded { end: RunOutcome::MaxTokens, usage: Default::default() }),
        ];
        let session = SessionInfo {
            session_key: "agent:main:x".to_owned(),
            model: "m".to_owned(),
            ..SessionInfo::default()
        };
        assert_eq!(
            render_plain(&session, &events),
            "session  agent:main:x\nmodel    m\n\n> hi\n> you\n\nHello\n\n(cut off: output limit reached)\n"
        );
        assert!(render_markdown(&session, &events).contains("## hi\n\n> hi\n> you\n\nHello\n"));
    }
}
