//! Completes the transcript of a killed run from its ledger.
//!
//! The ledger is ahead of the transcript: results of calls are there as soon as each ends, and text
//! as soon as it was shown, while the transcript gets whole messages. Messages are saved before the
//! model is asked for the next one, so at most one reply and the results of its calls are missing.

use std::collections::HashMap;

use zero_core::ToolOutcome;
use zero_runtime::DialectName;

use crate::event::{EventKind, ResultContent, ToolCallStatus};
use crate::message::{MessageBlock, MessageRole, ModelMessage};
use crate::turn::call_batch::{NOT_RUN, render_outcome, result_block};
use crate::turn::transcript_repair::tool_calls;

/// The replies of a run, as its ledger shows them.
#[derive(Default)]
struct LedgerReplies<'a> {
    /// Text of the last one.
    text: String,
    /// Whether that text has ended.
    is_complete: bool,
    /// Whether there is a reply. Then the last one of the transcript is of this run.
    is_present: bool,
    /// The calls that were announced, by their ids in the transcript.
    calls: HashMap<&'a str, &'a str>,
    /// Whether there are calls whose ids in the transcript are not known.
    has_unknown_ids: bool,
    /// How calls ended.
    outcomes: HashMap<&'a str, &'a ToolOutcome>,
}

/// The messages that a run left out of its transcript, given the events of the run in which every
/// call has an end.
pub(super) fn missing_messages<'a>(
    transcript: &[ModelMessage],
    events: impl Iterator<Item = &'a EventKind>,
    dialect: Option<DialectName>,
) -> Vec<ModelMessage> {
    let mut replies = LedgerReplies::default();
    events.for_each(|event| replies.add(event));
    let Some(last) = transcript.last() else { return Vec::new() };
    let message = match last.role {
        MessageRole::User => replies.shown_text_message(transcript),
        MessageRole::Assistant => replies.results_message(&tool_calls(last), dialect),
    };
    message.into_iter().collect()
}

impl<'a> LedgerReplies<'a> {
    fn add(&mut self, event: &'a EventKind) {
        match event {
            EventKind::Text { text } => {
                if std::mem::take(&mut self.is_complete) {
                    self.text.clear();
                }
                self.text.push_str(text);
                self.is_present = true;
            }
            EventKind::Thought { .. } => self.is_present = true,
            // Reported once for each reply, after its text.
            EventKind::UsageReported { .. } => {
                if self.is_complete {
                    self.text.clear();
                }
                (self.is_complete, self.is_present) = (true, true);
            }
            EventKind::Compacted { .. } => {
                self.text.clear();
                self.is_present = true;
                // Ids are unique in one transcript only, and a summary begins a new one.
                self.calls.clear();
                self.outcomes.clear();
                self.has_unknown_ids = false;
            }
            EventKind::ToolStarted { call, transcript_id, .. } => match transcript_id {
                Some(id) => drop(self.calls.insert(id, call)),
                None => self.has_unknown_ids = true,
            },
            EventKind::ToolEnded { call, outcome, .. } => {
                self.outcomes.insert(call, outcome);
            }
            _ => {}
        }
    }

    /// The text of the last reply, unless the transcript has it: its last message is not a reply.
    fn shown_text_message(&self, transcript: &[ModelMessage]) -> Option<ModelMessage> {
        // The transcript may have one reply more than the ledger.
        let replies = transcript.iter().rev().filter(|it| it.role == MessageRole::Assistant);
        let is_there = replies.take(2).any(|reply| has_same_words(&reply.text(), &self.text));
        let is_shown = !self.text.trim().is_empty() && !is_there;
        is_shown.then(|| ModelMessage::assistant(vec![MessageBlock::text(&*self.text)]))
    }

    /// The results of the last calls of the transcript, given by their ids and names there. Calls
    /// of which the ledger cannot know anything get none.
    fn results_message(
        &self,
        calls: &[(String, String)],
        dialect: Option<DialectName>,
    ) -> Option<ModelMessage> {
        let blocks: Vec<MessageBlock> =
            calls.iter().filter_map(|(id, name)| self.result_block(id, name, dialect)).collect();
        (!blocks.is_empty()).then_some(ModelMessage { role: MessageRole::User, blocks })
    }

    fn result_block(
        &self,
        id: &str,
        name: &str,
        dialect: Option<DialectName>,
    ) -> Option<MessageBlock> {
        let (content, status) = match self.calls.get(id) {
            Some(call) => {
                let outcome = self.outcomes.get(call)?;
                (render_outcome(dialect, name, outcome), outcome.status())
            }
            // A call is in the ledger before it begins.
            None if self.is_present && !self.has_unknown_ids => {
                let content = vec![ResultContent::Text { text: NOT_RUN.to_owned() }];
                (content, ToolCallStatus::Cancelled)
            }
            None => return None,
        };
        Some(result_block(id.to_owned(), name.to_owned(), content, status))
    }
}

/// Whether two texts differ in white space only: a message joins its blocks by line breaks.
fn has_same_words(one: &str, other: &str) -> bool {
    one.split_whitespace().flat_map(str::chars).eq(other.split_whitespace().flat_map(str::chars))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TokenUsage;
    use crate::message::ToolInput;
    use zero_core::{ErrorReason, ToolError, ToolKind, ToolResult};

    fn text(text: &str) -> EventKind {
        EventKind::Text { text: text.to_owned() }
    }

    fn usage() -> EventKind {
        let run_usage = TokenUsage::default();
        EventKind::UsageReported { run_usage, context_tokens: 0, context_window: 0 }
    }

    /// A call of `Write` with the id `id` in the transcript.
    fn started(id: &str, call: &str) -> EventKind {
        EventKind::ToolStarted {
            call: call.to_owned(),
            name: "Write".to_owned(),
            title: String::new(),
            kind: ToolKind::Edit,
            input: serde_json::Value::Null,
            locations: Vec::new(),
            waits: false,
            transcript_id: Some(id.to_owned()),
        }
    }

    fn ended(call: &str) -> EventKind {
        EventKind::tool_ended(call, ToolResult::text(format!("wrote {call}")).into())
    }

    fn failed(call: &str) -> EventKind {
        EventKind::tool_ended(call, ToolError::failed(ErrorReason::Io, "no").into())
    }

    fn user(text: &str) -> ModelMessage {
        ModelMessage::user(text)
    }

    fn assistant(text: &str, calls: &[&str]) -> ModelMessage {
        let words = (!text.is_empty()).then(|| MessageBlock::text(text));
        let calls = calls.iter().map(|id| MessageBlock::ToolUse {
            id: (*id).to_owned(),
            name: "Write".to_owned(),
            input: ToolInput::parse(""),
            opaque: serde_json::Value::Null,
        });
        ModelMessage::assistant(words.into_iter().chain(calls).collect())
    }

    #[track_caller]
    fn check(transcript: &[ModelMessage], events: &[EventKind], expected: &[&str]) {
        let missing = missing_messages(transcript, events.iter(), None);
        let block = |block: &MessageBlock| match block {
            MessageBlock::Text { text } => text.clone(),
            MessageBlock::ToolResult { id, content, is_error, .. } => {
                let [ResultContent::Text { text }] = &content[..] else { panic!("{content:?}") };
                format!("{id}{} {text}", if *is_error { "!" } else { "" })
            }
            other => panic!("{other:?}"),
        };
        let shown: Vec<String> =
            missing.iter().flat_map(|message| message.blocks.iter().map(block)).collect();
        assert_eq!(shown, expected, "{events:?}");
        let whole: Vec<ModelMessage> = transcript.iter().cloned().chain(missing).collect();
        let again = missing_messages(&whole, events.iter(), None);
        assert_eq!(again, [], "completing twice changes nothing");
    }

    #[test]
    fn calls_get_results_of_ledger() {
        let calls = [user("go"), assistant("hm", &["a", "b"])];
        let shown = [text("hm"), usage(), started("a", "w1"), started("b", "w2")];
        let with = |more: &[EventKind]| [&shown[..], more].concat();
        check(&calls, &with(&[ended("w1"), failed("w2")]), &["a wrote w1", "b! no"]);
        // Not announced, so not begun.
        let not_run = [format!("a! {NOT_RUN}"), format!("b! {NOT_RUN}")];
        check(&calls, &[text("hm")], &not_run.each_ref().map(String::as_str));
        // The reply after one with the same calls was not announced yet.
        let second = [&calls[..], &[user("results"), assistant("", &["c"])]].concat();
        let done = with(&[ended("w1"), ended("w2")]);
        check(&second, &done, &[&format!("c! {NOT_RUN}")]);
        let more = [&done[..], &[usage(), started("c", "w3"), ended("w3")]].concat();
        check(&second, &more, &["c wrote w3"]);
    }

    #[test]
    fn calls_of_other_runs_and_versions_get_nothing() {
        let calls = [user("go"), assistant("hm", &["a"])];
        check(&calls, &[], &[]);
        let mut before = started("a", "w1");
        if let EventKind::ToolStarted { transcript_id, .. } = &mut before {
            *transcript_id = None;
        }
        check(&calls, &[text("hm"), usage(), before, ended("w1")], &[]);
    }

    #[test]
    fn shown_text_is_added_once() {
        check(&[user("go")], &[text("so "), text("far")], &["so far"]);
        check(&[user("go"), assistant("so far", &[])], &[text("so "), text("far"), usage()], &[]);
        check(&[user("go")], &[text("hm"), usage(), started("a", "w1")], &["hm"]);
        check(&[user("go")], &[text(" ")], &[]);
        check(&[], &[text("hm")], &[]);
        // The next reply has said nothing yet.
        let answered = [user("go"), assistant("hm", &["a"]), user("results")];
        let first = [text("hm"), usage(), started("a", "w1"), ended("w1")];
        check(&answered, &first, &[]);
        let with = |more: &[EventKind]| [&first[..], more].concat();
        check(&answered, &with(&[text("and")]), &["and"]);
        let (summary, tokens_before, tokens_after) = ("hm".to_owned(), 2, 1);
        let compacted = EventKind::Compacted { summary, tokens_before, tokens_after, extent: None };
        check(&[user("summary")], &with(std::slice::from_ref(&compacted)), &[]);
        // The new transcript uses an id again, for a call that was not announced yet.
        let again = [user("summary"), assistant("", &["a"])];
        check(&again, &with(&[compacted]), &[&format!("a! {NOT_RUN}")]);
    }
}
