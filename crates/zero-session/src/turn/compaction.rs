//! Compacts a transcript that gets too long.
//!
//! The model reads the conversation as plain text: some providers reject calls in a request without
//! tools, and text can be truncated to fit.

use std::sync::Arc;

use std::borrow::Cow;
use zero_core::text_shortening::{TextFocus, one_line, shorten_middle};

use super::context_meter::message_tokens;
use crate::event::{CompactionExtent, PlanEntry, ResultContent};
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};
use crate::model::{ModelError, ModelErrorKind, ModelRequest, ModelStopReason, ThinkingEffort};

/// System prompt of the request for a summary.
const SYSTEM: &str = "You summarize conversations between a user and a coding agent, so that the agent can continue from your summary alone. You have no tools.";
const INSTRUCTION: &str = "Summarize the conversation above for the agent that continues it. Use these headings and omit what is not needed to continue: Task (what the user wants, quoted where the wording matters); Decisions and facts; Files (paths that were read or changed, and what matters in them); Done; Open (what is to be done next, and what went wrong so far). Keep names, paths, commands, numbers and error messages exact. Write nothing but the summary.";
/// Text before the summary, and text before the prompts that are kept, in a compacted transcript.
const SUMMARY_PREFIX: &str = "The conversation so far was summarized to free space. Summary:";
const LATEST_PROMPTS_PREFIX: &str =
    "The user's latest messages follow unchanged. Continue where the summary ends.";
/// The same texts in transcripts that earlier versions stored.
const OLD_SUMMARY_PREFIX: &str = "The conversation so far was summed up to make room. The summary:";
const OLD_LATEST_PROMPTS_PREFIX: &str =
    "The user's latest message follows unchanged. Continue from where the summary ends.";
/// Maximum size of one tool result in the text to be summarized, in bytes.
const RESULT_BYTES_MAX: usize = 4 * 1024;
/// Bytes of text per token, as a safe lower bound.
const SAFE_BYTES_PER_TOKEN: u64 = 2;
/// Minimum size of the text, in bytes, however small the window is.
const READ_BYTES_MIN: usize = 8 * 1024;
/// Maximum size of the text, in bytes, however large the window is.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most characters of what the user wants kept.
const FOCUS_CHARS_MAX: usize = 2_000;
/// Number of prompts kept verbatim.
const KEPT_PROMPTS_MAX: usize = 3;

/// Maximum length of the provider's reason for a refusal, in characters.
const REFUSAL_CHARS_MAX: usize = 500;

/// Maximum and minimum size of the plan in the compacted transcript, in bytes.
const PLAN_BYTES_MAX: usize = 8 * 1024;
const PLAN_BYTES_MIN: usize = 256;
/// The plan may use 1/`PLAN_SHARE` of the window.
const PLAN_SHARE: u64 = 8;
/// Maximum length of one step, in characters.
const STEP_CHARS_MAX: usize = 500;

/// The messages to be summarized and those that are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TranscriptSplit {
    /// Messages to be summarized.
    pub(super) summed_up: Vec<Arc<ModelMessage>>,
    /// The user's latest prompts, oldest first.
    pub(super) kept_messages: Vec<ModelMessage>,
}

impl TranscriptSplit {
    /// What is replaced and what is kept, besides the plan.
    pub(super) fn extent(&self) -> CompactionExtent {
        let blocks = self.summed_up.iter().flat_map(|message| &message.blocks);
        let results = blocks.filter(|block| matches!(block, MessageBlock::ToolResult { .. }));
        CompactionExtent {
            messages_replaced: self.summed_up.len() as u64,
            results_replaced: results.count() as u64,
            prompts_kept: self.kept_messages.len() as u64,
            steps_kept: 0,
        }
    }
}

/// Splits a transcript. The latest prompts are kept verbatim, up to a quarter of the window. The last
/// message is kept whatever its size if it is a prompt: the model has not worked on it yet.
pub(super) fn split(messages: &[Arc<ModelMessage>], window: u64) -> TranscriptSplit {
    let budget = if window == 0 { u64::MAX } else { window / 4 };
    let mut kept_messages = Vec::new();
    let (mut left, mut waiting) = (budget, 0_usize);
    for (back, message) in messages.iter().rev().enumerate() {
        let Some(prompt) = extract_prompt(message) else { continue };
        let tokens = message_tokens(&prompt);
        let is_unanswered = back == kept_messages.len() && prompt == **message;
        let is_last = back == 0 && is_unanswered;
        if !is_last && (kept_messages.len() >= KEPT_PROMPTS_MAX || tokens > left) {
            break;
        }
        left = left.saturating_sub(tokens);
        if is_unanswered {
            waiting = waiting.saturating_add(1);
        }
        kept_messages.push(prompt);
    }
    kept_messages.reverse();
    let summed = match messages {
        // The transcript was just compacted.
        [only] if is_summary(only) => 0,
        _ => messages.len().saturating_sub(waiting),
    };
    TranscriptSplit { summed_up: messages.iter().take(summed).cloned().collect(), kept_messages }
}

/// The user's text of a message, without tool results and without an earlier summary: the summary
/// is summarized again, and its plan may be outdated.
fn extract_prompt(message: &ModelMessage) -> Option<ModelMessage> {
    let is_said = |block: &&MessageBlock| {
        matches!(block, MessageBlock::Text { .. } | MessageBlock::Image { .. })
    };
    let prefixes = [LATEST_PROMPTS_PREFIX, OLD_LATEST_PROMPTS_PREFIX];
    let is_latest = |block: &MessageBlock| matches!(block, MessageBlock::Text { text } if prefixes.contains(&text.as_str()));
    let own = match is_summary(message) {
        true => message.blocks.iter().position(is_latest).map_or(usize::MAX, |at| at + 1),
        false => 0,
    };
    let blocks: Vec<MessageBlock> =
        message.blocks.iter().skip(own).filter(is_said).cloned().collect();
    let is_prompt = message.role == MessageRole::User && !blocks.is_empty();
    is_prompt.then_some(ModelMessage { role: MessageRole::User, blocks })
}

/// Whether a message is the first one of a compacted transcript.
pub(super) fn is_summary(message: &ModelMessage) -> bool {
    let first = message.blocks.first();
    message.role == MessageRole::User
        && [SUMMARY_PREFIX, OLD_SUMMARY_PREFIX].iter().any(
            |prefix| matches!(first, Some(MessageBlock::Text { text }) if text.starts_with(prefix)),
        )
}

/// The request for a summary. `focus` is what the user wants kept; it may be empty.
pub(super) fn build_request(
    messages: &[Arc<ModelMessage>],
    window: u64,
    focus: &str,
) -> ModelRequest {
    let room = window.saturating_mul(SAFE_BYTES_PER_TOKEN);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let room =
        if window == 0 { READ_BYTES_MAX } else { room.clamp(READ_BYTES_MIN, READ_BYTES_MAX) };
    let texts: Vec<String> = messages.iter().map(|message| render_text(message)).collect();
    let text = texts.join("\n\n");
    let text = cut_middle(&text, room);
    let mut asked = format!("<conversation>\n{text}\n</conversation>\n\n{INSTRUCTION}");
    let focus = one_line(focus, FOCUS_CHARS_MAX);
    if !focus.is_empty() {
        asked.push_str(&format!("\n\nThe user asks to keep in particular: {focus}"));
    }
    ModelRequest {
        system: SYSTEM.to_owned(),
        messages: vec![ModelMessage::user(asked).into()],
        tools: Arc::default(),
        output_tokens_max: None,
        thinking: ThinkingEffort::Default,
        output_schema: None,
    }
}

/// The text of a summary that may replace a transcript: complete, not declined and not empty.
pub(super) fn accept_summary(text: &str, stop: ModelStopReason) -> Result<String, ModelError> {
    let rejected = |kind, why: &str| Err(ModelError::new(kind, why));
    match (stop, text.trim()) {
        (ModelStopReason::MaxTokens, _) => rejected(
            ModelErrorKind::Server,
            "the summary was cut at the model's output limit; raise the limit, or choose another model",
        ),
        (ModelStopReason::Refusal(why), _) => {
            let why = one_line(&why, REFUSAL_CHARS_MAX);
            let why = if why.is_empty() { why } else { format!(": {why}") };
            rejected(ModelErrorKind::Refusal, &format!("the model declined to summarize it{why}"))
        }
        (_, "") => rejected(ModelErrorKind::Server, "the model wrote an empty summary"),
        (ModelStopReason::End | ModelStopReason::ToolUse, text) => Ok(text.to_owned()),
    }
}

/// The plan for the compacted transcript, within a share of the window; `None` if there is none. If
/// not everything fits, completed steps are omitted first.
pub(super) fn format_plan(entries: &[PlanEntry], window: u64) -> Option<String> {
    let share = (window / PLAN_SHARE).saturating_mul(SAFE_BYTES_PER_TOKEN);
    let room = match usize::try_from(share).unwrap_or(usize::MAX) {
        0 => PLAN_BYTES_MAX,
        share => share.clamp(PLAN_BYTES_MIN, PLAN_BYTES_MAX),
    };
    let is_done = |entry: &&PlanEntry| entry.status == "completed";
    let all: Vec<String> = entries.iter().map(format_step).collect();
    let bytes: usize = all.iter().map(|line| line.len().saturating_add(1)).sum();
    let lines = match bytes <= room {
        true => all,
        false => entries.iter().filter(|entry| !is_done(entry)).map(format_step).collect(),
    };
    let mut left = room;
    let fits = |line: &&String| {
        let rest = left.checked_sub(line.len().saturating_add(1));
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let mut listed: Vec<String> = lines.iter().take_while(fits).cloned().collect();
    match entries.len().saturating_sub(listed.len()) {
        0 => {}
        left_out => listed.push(format!("(steps omitted for lack of space: {left_out})")),
    }
    (!entries.is_empty()).then(|| {
        format!("The task list as you last wrote it, which still stands:\n{}", listed.join("\n"))
    })
}

/// One step as a single line. Its text is untrusted: it comes from a model through the tool host.
fn format_step(entry: &PlanEntry) -> String {
    let mark = match entry.status.as_str() {
        "completed" => "[x]",
        "in_progress" => "[>]",
        _ => "[ ]",
    };
    format!("{mark} {}", one_line(&entry.content, STEP_CHARS_MAX))
}

/// The first message of a compacted transcript.
pub(super) fn build_message(
    summary: &str,
    plan: Option<String>,
    kept_messages: Vec<ModelMessage>,
) -> ModelMessage {
    let mut blocks = vec![MessageBlock::text(format!("{SUMMARY_PREFIX}\n\n{summary}"))];
    blocks.extend(plan.map(MessageBlock::text));
    if !kept_messages.is_empty() {
        blocks.push(MessageBlock::text(LATEST_PROMPTS_PREFIX));
    }
    blocks.extend(kept_messages.into_iter().flat_map(|message| message.blocks));
    ModelMessage { role: MessageRole::User, blocks }
}

fn render_text(message: &ModelMessage) -> String {
    let who = match message.role {
        MessageRole::User => "User",
        MessageRole::Assistant => "Agent",
    };
    let block = |block: &MessageBlock| match block {
        MessageBlock::Text { text } => format!("{who}: {text}"),
        MessageBlock::Thinking { .. } => String::new(),
        MessageBlock::Image { mime, .. } => format!("{who}: [image, {mime}]"),
        MessageBlock::ToolUse { name, input, .. } => {
            let input = match input {
                ToolInput::Json(json) => json.as_str(),
                ToolInput::Unreadable { unreadable, .. } => unreadable,
            };
            format!("Agent used {name}: {}", cut_middle(input, RESULT_BYTES_MAX))
        }
        MessageBlock::ToolResult { name, content, is_error, .. } => {
            let pieces = content.iter().map(|piece| match piece {
                ResultContent::Text { text } => text.clone(),
                ResultContent::Image { mime, .. } => format!("[image, {mime}]"),
            });
            let text = pieces.collect::<Vec<_>>().join("\n");
            let verb = if *is_error { "failed" } else { "returned" };
            format!("{name} {verb}: {}", cut_middle(&text, RESULT_BYTES_MAX))
        }
    };
    let lines = message.blocks.iter().map(block).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Truncates a text to `bytes_max` bytes by cutting its middle, with a note about the omitted part.
fn cut_middle(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let mark = |bytes| format!("\n[… {bytes} bytes left out …]\n");
    shorten_middle(text, bytes_max, TextFocus::End, mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::share_messages;

    fn result(text: &str) -> ModelMessage {
        let content = vec![ResultContent::Text { text: text.to_owned() }];
        let (id, name) = ("1".to_owned(), "Read".to_owned());
        let block = MessageBlock::ToolResult { id, name, content, is_error: false };
        ModelMessage { role: MessageRole::User, blocks: vec![block] }
    }

    fn user_message(text: &str) -> ModelMessage {
        ModelMessage::assistant(vec![MessageBlock::text(text)])
    }

    #[track_caller]
    fn check(messages: &[ModelMessage], window: u64, summed: usize, kept: &[&str]) {
        let split = split(&share_messages(messages.to_vec()), window);
        assert_eq!(split.summed_up.len(), summed);
        assert_eq!(split.kept_messages.iter().map(ModelMessage::text).collect::<Vec<_>>(), kept);
    }

    #[test]
    fn latest_prompts_are_kept_verbatim() {
        let user = |text: &str| ModelMessage::user(text);
        check(&[user("a"), user_message("b"), user("c")], 1000, 2, &["a", "c"]);
        check(&[user("a"), user_message("b"), result("r")], 1000, 3, &["a"]);
        check(&[user("a"), user("b")], 1000, 0, &["a", "b"]);
        check(
            &[user("old"), user_message("b"), user(&"x".repeat(400))],
            440,
            2,
            &[&"x".repeat(400)],
        );
        // A prompt that the model has not worked on is never summarized, however long it is.
        let long = "x".repeat(400);
        check(&[user("old"), user_message("b"), user(&long)], 40, 2, &[&long]);
        check(&[user(&long)], 40, 0, &[&long]);
        check(&[user(&long), user_message("b"), result("r")], 40, 3, &[]);
        check(&[user("1"), user("2"), user("3"), user("4")], 0, 1, &["2", "3", "4"]);
        // Of an earlier compaction, the user's prompts are kept, not the summary.
        let before = build_message("sum", Some("plan".to_owned()), vec![user("a")]);
        check(&[before.clone(), user_message("b"), user("c")], 1000, 2, &["a", "c"]);
        check(
            &[build_message("sum", None, Vec::new()), user_message("b"), user("c")],
            1000,
            2,
            &["c"],
        );
        check(&[before], 1000, 0, &["a"]);
    }

    #[test]
    fn only_complete_summary_is_accepted() {
        let check = |text: &str, stop: ModelStopReason, expected: Result<&str, &str>| {
            let accepted = accept_summary(text, stop).map_err(|error| error.message);
            let accepted = accepted.as_deref().map_err(String::as_str);
            match expected {
                Ok(text) => assert_eq!(accepted, Ok(text)),
                Err(why) => assert!(accepted.is_err_and(|error| error.contains(why)), "{why}"),
            }
        };
        check(" sum ", ModelStopReason::End, Ok("sum"));
        check("half a su", ModelStopReason::MaxTokens, Err("was cut at the model's output limit"));
        check("I cannot", ModelStopReason::Refusal("policy\nx".into()), Err("it: policy x"));
        check("I cannot", ModelStopReason::Refusal(String::new()), Err("declined to summarize"));
        check(" \n", ModelStopReason::End, Err("empty summary"));
        check("", ModelStopReason::ToolUse, Err("empty summary"));
    }

    #[test]
    fn plan_is_repeated_within_its_window_share() {
        let entry = |content: &str, status: &str| PlanEntry {
            content: content.to_owned(),
            priority: "medium".to_owned(),
            status: status.to_owned(),
        };
        let check = |entries: &[PlanEntry], window: u64, expected: &[&str]| {
            let text = format_plan(entries, window);
            let lines: Vec<&str> = text.iter().flat_map(|text| text.lines().skip(1)).collect();
            assert_eq!(lines, expected, "{window}");
        };
        check(&[], 0, &[]);
        let some = [
            entry("look", "completed"),
            entry("change\u{1b}[2J\nit", "in_progress"),
            entry("test", "pending"),
        ];
        check(&some, 0, &["[x] look", "[>] change [2J it", "[ ] test"]);
        check(&some, 100_000, &["[x] look", "[>] change [2J it", "[ ] test"]);
        let long = "l".repeat(300);
        let many = [
            entry(&long, "completed"),
            entry("now", "in_progress"),
            entry("then", "pending"),
            entry(&long, "pending"),
        ];
        check(&many, 8, &["[>] now", "[ ] then", "(steps omitted for lack of space: 2)"]);
        let all: Vec<PlanEntry> = (0..100).map(|_| entry(&long, "pending")).collect();
        let text = format_plan(&all, 0).unwrap();
        assert!(text.len() < PLAN_BYTES_MAX + 200, "{}", text.len());
        assert!(text.ends_with("(steps omitted for lack of space: 74)"), "{}", &text[7_000..]);
    }

    #[test]
    fn summary_input_fits_and_marks_omissions() {
        let long = "ä".repeat(100_000);
        let request = build_request(
            &share_messages(vec![ModelMessage::user("first"), result(&long), user_message(&long)]),
            8_000,
            "the names",
        );
        let text = request.messages[0].text();
        assert!(text.len() < 18_000, "{}", text.len());
        assert!(text.starts_with("<conversation>\nUser: first"));
        assert!(text.contains("bytes left out"), "{text}");
        assert!(text.ends_with("\n\nThe user asks to keep in particular: the names"), "{text}");
        assert!(request.tools.is_empty());
    }
}
