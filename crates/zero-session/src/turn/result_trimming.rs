//! Shortens tool results that no longer matter, before a transcript is summarized.
//!
//! A file that was read again is in the transcript twice, and the model needs the later copy only. Of
//! an old, long result, its beginning and its end say what it was. Calls and prompts stay as they are.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use zero_core::text_shortening::{TextFocus, shorten_middle};
use zero_runtime::tool_backend::ToolList;

use super::context_meter::message_tokens;
use crate::event::ResultContent;
use crate::message::{MessageBlock, ModelMessage, ToolInput};

/// Latest messages that are never trimmed.
const RECENT_MESSAGES: usize = 8;
/// Most bytes that are kept of an old result.
const OLD_RESULT_BYTES_MAX: usize = 1024;
/// Smaller results are not worth it.
const TRIMMED_BYTES_MIN: usize = 2 * 1024;
/// Trimming that frees less than 1/`GAIN_SHARE` of the window is left to the summary.
const GAIN_SHARE: u64 = 10;
/// Canonical name of the tool that reads one file, and the names of its path in dialects.
const READ_TOOL: &str = "Read";
const PATH_FIELDS: [&str; 3] = ["file_path", "absolute_path", "path"];

const SUPERSEDED: &str = "[trimmed: the same was read again later]";

/// A transcript with shorter results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrimmedTranscript {
    pub(super) messages: Vec<Arc<ModelMessage>>,
    /// Number of results that are shorter now.
    pub(super) results: u64,
    /// Estimated tokens that they had more.
    pub(super) tokens: u64,
}

/// What a call reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ReadSubject {
    /// The same call of a tool that changes nothing.
    Call(String, String),
    /// A whole file.
    File(String),
}

/// Trims a transcript; `None` if that frees too little.
pub(super) fn trim(
    messages: &[Arc<ModelMessage>],
    tools: &ToolList,
    window: u64,
) -> Option<TrimmedTranscript> {
    let (subjects, latest) = find_reads(messages, tools);
    let recent_from = messages.len().saturating_sub(RECENT_MESSAGES);
    let (mut trimmed, mut results, mut tokens) = (Vec::with_capacity(messages.len()), 0, 0_u64);
    for (at, message) in messages.iter().enumerate() {
        let mut changed = (**message).clone();
        let mut count = 0;
        for block in &mut changed.blocks {
            let MessageBlock::ToolResult { id, content, is_error: false, .. } = block else {
                continue;
            };
            if at >= recent_from || content_bytes(content) < TRIMMED_BYTES_MIN {
                continue;
            }
            let reads = subjects.get(id.as_str()).into_iter().flatten();
            let is_superseded =
                reads.into_iter().any(|subject| latest.get(subject).is_some_and(|last| *last > at));
            let text = match is_superseded {
                true => SUPERSEDED.to_owned(),
                false => shorten_old_result(content),
            };
            *content = vec![ResultContent::Text { text }];
            count += 1;
        }
        match count {
            0 => trimmed.push(Arc::clone(message)),
            _ => {
                let gain = message_tokens(message).saturating_sub(message_tokens(&changed));
                tokens = tokens.saturating_add(gain);
                results += count;
                trimmed.push(Arc::new(changed));
            }
        }
    }
    let is_worth_it = results > 0 && tokens >= window / GAIN_SHARE;
    is_worth_it.then_some(TrimmedTranscript { messages: trimmed, results, tokens })
}

/// What each call reads, by its id, and the last message with a result for it.
fn find_reads<'a>(
    messages: &'a [Arc<ModelMessage>],
    tools: &ToolList,
) -> (HashMap<&'a str, Vec<ReadSubject>>, HashMap<ReadSubject, usize>) {
    let (mut subjects, mut latest) = (HashMap::new(), HashMap::new());
    for (at, message) in messages.iter().enumerate() {
        for block in &message.blocks {
            match block {
                MessageBlock::ToolUse { id, name, input: ToolInput::Json(input), .. } => {
                    let entry = tools.iter().find(|tool| tool.name == *name && tool.read_only);
                    let Some(entry) = entry else { continue };
                    let call = ReadSubject::Call(name.clone(), input.as_str().to_owned());
                    let mut reads = vec![call];
                    if entry.canonical == READ_TOOL {
                        reads.extend(read_path(input.as_str()).map(ReadSubject::File));
                    }
                    subjects.insert(id.as_str(), reads);
                }
                MessageBlock::ToolResult { id, is_error: false, .. } => {
                    let Some(reads) = subjects.get(id.as_str()) else { continue };
                    for subject in reads.clone() {
                        // A part of a file does not replace the whole.
                        let is_part =
                            matches!(&subject, ReadSubject::File(_)) && !is_whole_read(&reads[0]);
                        if !is_part {
                            latest.insert(subject, at);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    (subjects, latest)
}

fn read_path(input: &str) -> Option<String> {
    let input: Value = serde_json::from_str(input).ok()?;
    PATH_FIELDS.iter().find_map(|field| input.get(field)?.as_str().map(str::to_owned))
}

/// Whether a call of the tool that reads files names nothing but the file.
fn is_whole_read(call: &ReadSubject) -> bool {
    let ReadSubject::Call(_, input) = call else { return false };
    let input: Option<Value> = serde_json::from_str(input).ok();
    input.as_ref().and_then(Value::as_object).is_some_and(|fields| fields.len() == 1)
}

fn content_bytes(content: &[ResultContent]) -> usize {
    let bytes = content.iter().map(|piece| match piece {
        ResultContent::Text { text } => text.len(),
        ResultContent::Image { data, .. } => data.len(),
    });
    bytes.sum()
}

fn shorten_old_result(content: &[ResultContent]) -> String {
    let pieces = content.iter().map(|piece| match piece {
        ResultContent::Text { text } => text.clone(),
        ResultContent::Image { mime, .. } => format!("[image, {mime}, trimmed]"),
    });
    let text = pieces.collect::<Vec<_>>().join("\n");
    let mark = |bytes| format!("\n[… {bytes} bytes trimmed from this old result …]\n");
    shorten_middle(&text, OLD_RESULT_BYTES_MAX, TextFocus::End, mark).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_core::ToolKind;
    use zero_runtime::tool_backend::CatalogEntry;

    use super::*;
    use crate::message::{MessageRole, share_messages};

    fn tools() -> ToolList {
        let tool = |name: &str, read_only: bool| CatalogEntry {
            name: name.to_owned(),
            canonical: name.to_owned(),
            display_name: None,
            description: String::new(),
            input_schema: json!({}),
            kind: ToolKind::Other,
            read_only,
            info: None,
        };
        vec![tool("Read", true), tool("Grep", true), tool("Bash", false)].into()
    }

    /// A call and its result of `bytes` bytes.
    fn call(id: &str, name: &str, input: Value, bytes: usize) -> [ModelMessage; 2] {
        let (id, name) = (id.to_owned(), name.to_owned());
        let input = ToolInput::from(input);
        let opaque = Value::Null;
        let used = MessageBlock::ToolUse { id: id.clone(), name: name.clone(), input, opaque };
        let content = vec![ResultContent::Text { text: "x".repeat(bytes) }];
        let result = MessageBlock::ToolResult { id, name, content, is_error: false };
        let result = ModelMessage { role: MessageRole::User, blocks: vec![result] };
        [ModelMessage::assistant(vec![used]), result]
    }

    /// The results of a trimmed transcript: `kept`, `gone` or `short`.
    fn outcomes(calls: Vec<[ModelMessage; 2]>, window: u64) -> Option<String> {
        let mut messages = vec![ModelMessage::user("go")];
        messages.extend(calls.into_iter().flatten());
        // The latest messages are never trimmed.
        messages.extend((0..RECENT_MESSAGES).map(|_| ModelMessage::user("more")));
        let trimmed = trim(&share_messages(messages), &tools(), window)?;
        let blocks = trimmed.messages.iter().flat_map(|message| &message.blocks);
        let words = blocks.filter_map(|block| match block {
            MessageBlock::ToolResult { content, .. } => Some(match &content[..] {
                [ResultContent::Text { text }] if text == SUPERSEDED => "gone",
                [ResultContent::Text { text }] if text.contains("trimmed from this old") => "short",
                _ => "kept",
            }),
            _ => None,
        });
        Some(words.collect::<Vec<_>>().join(" "))
    }

    #[track_caller]
    fn check(calls: Vec<[ModelMessage; 2]>, expected: &str) {
        assert_eq!(outcomes(calls, 1000).as_deref(), Some(expected));
    }

    #[test]
    fn file_that_was_read_again_is_kept_once() {
        let read = |id: &str, input: Value| call(id, "Read", input, 4000);
        let whole = || json!({"file_path": "a"});
        let part = || json!({"file_path": "a", "offset": 7});
        check(vec![read("1", whole()), read("2", whole())], "gone short");
        check(vec![read("1", part()), read("2", whole())], "gone short");
        check(vec![read("1", whole()), read("2", part())], "short short");
        check(vec![read("1", whole()), read("2", json!({"file_path": "b"}))], "short short");
        let grep = |id: &str| call(id, "Grep", json!({"pattern": "x"}), 4000);
        check(vec![grep("1"), grep("2")], "gone short");
        // The same command may print something else.
        let bash = |id: &str| call(id, "Bash", json!({"command": "date"}), 4000);
        check(vec![bash("1"), bash("2")], "short short");
    }

    #[test]
    fn small_and_recent_results_are_kept() {
        let bash = |id: &str, bytes| call(id, "Bash", json!({"command": "x"}), bytes);
        check(vec![bash("1", 4000), bash("2", 100)], "short kept");
        assert_eq!(outcomes(vec![bash("1", 100)], 1000), None);
        assert_eq!(outcomes(vec![bash("1", 4000)], 1_000_000), None, "it frees too little");
        let mut messages = vec![ModelMessage::user("go")];
        messages.extend(bash("1", 40_000));
        assert_eq!(trim(&share_messages(messages), &tools(), 1000), None, "it is recent");
    }
}
