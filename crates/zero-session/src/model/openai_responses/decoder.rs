//! Decodes replies of the Responses API: items that begin, grow and complete.

use std::collections::BTreeMap;
use std::mem;

use serde_json::{Value, json};

use super::OPAQUE;
use crate::event::TokenUsage;
use crate::message::{MessageBlock, ToolInput};
use crate::model::attempt_failure;
use crate::model::openai::{
    ARGUMENT_BYTES_MAX, CALLS_MAX, invalid_response_error, parse_json, read_tokens,
    truncated_stream_error,
};
use crate::model::protocol::ReplyDecoder;
use crate::model::{ModelError, ModelEvent, ModelReply, ModelStopReason};

/// Maximum number of items per reply: texts, thoughts and calls.
const ITEMS_MAX: usize = 1024;

/// Decodes one reply.
#[derive(Default)]
pub(super) struct ResponsesDecoder {
    /// By the provider's index, which determines their order only.
    items: BTreeMap<u64, OutputItem>,
    calls: usize,
    argument_bytes: usize,
    /// The stop reason, once known.
    stop: Option<ModelStopReason>,
    usage: TokenUsage,
}

#[derive(Default)]
struct OutputItem {
    what: OutputItemKind,
    /// The text, the visible thought, or the arguments.
    text: String,
    refusal: String,
    /// Whether any of its text was streamed.
    was_shown: bool,
}

#[derive(Default)]
enum OutputItemKind {
    #[default]
    Message,
    Thought {
        /// The encrypted thought that is sent back.
        opaque: Value,
    },
    Call {
        id: String,
        name: String,
    },
    /// An item kind that zero did not request.
    Other,
}

impl ReplyDecoder for ResponsesDecoder {
    fn decode_event(&mut self, name: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = parse_json(data)?;
        let name = event["type"].as_str().unwrap_or(name);
        let index = event["output_index"].as_u64().unwrap_or(0);
        let delta = event["delta"].as_str().unwrap_or_default();
        let mut events = Vec::new();
        match name {
            "response.output_item.added" => self.begin_item(index, &event["item"], &mut events)?,
            "response.output_item.done" => {
                self.complete_item(index, &event["item"], &mut events)?
            }
            "response.output_text.delta" if !delta.is_empty() => {
                let item = self.item_mut(index, || OutputItemKind::Message)?;
                item.text.push_str(delta);
                item.was_shown = true;
                events.push(ModelEvent::Text(delta.to_owned()));
            }
            "response.refusal.delta" => {
                self.item_mut(index, || OutputItemKind::Message)?.refusal.push_str(delta);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta"
                if !delta.is_empty() =>
            {
                self.push_thought(index, delta, &mut events)?;
            }
            "response.reasoning_summary_part.added" => {
                let has_begun = self.items.get(&index).is_some_and(|item| !item.text.is_empty());
                if has_begun {
                    self.push_thought(index, "\n\n", &mut events)?;
                }
            }
            "response.function_call_arguments.delta" => {
                if let Some(item) = self.items.get_mut(&index) {
                    item.text.push_str(delta);
                }
                self.count_arguments(delta)?;
            }
            "response.function_call_arguments.done" => {
                if let (Some(item), Some(whole)) =
                    (self.items.get_mut(&index), event["arguments"].as_str())
                {
                    whole.clone_into(&mut item.text);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end_response(name, &event["response"], &mut events)?;
            }
            "error" => return Err(attempt_failure::failure_from_object(&event, None).error),
            // Starts and ends of parts, progress, and future events.
            _ => {}
        }
        Ok(events)
    }

    fn is_done(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self) -> Result<ModelReply, ModelError> {
        let stop = self.stop.take().ok_or_else(truncated_stream_error)?;
        let mut refusal = String::new();
        let mut has_calls = false;
        let mut blocks = Vec::new();
        for item in mem::take(&mut self.items).into_values() {
            refusal.push_str(&item.refusal);
            has_calls |= matches!(item.what, OutputItemKind::Call { .. });
            blocks.extend(item.into_block());
        }
        let stop = match stop {
            ModelStopReason::End if has_calls => ModelStopReason::ToolUse,
            ModelStopReason::End if !refusal.is_empty() => ModelStopReason::Refusal(refusal),
            stop => stop,
        };
        Ok(ModelReply { blocks, stop, usage: self.usage })
    }
}

impl ResponsesDecoder {
    fn item_mut(
        &mut self,
        index: u64,
        what: fn() -> OutputItemKind,
    ) -> Result<&mut OutputItem, ModelError> {
        if self.items.len() >= ITEMS_MAX && !self.items.contains_key(&index) {
            return Err(invalid_response_error(&format!(
                "more than {ITEMS_MAX} items in one answer"
            )));
        }
        Ok(self
            .items
            .entry(index)
            .or_insert_with(|| OutputItem { what: what(), ..OutputItem::default() }))
    }

    fn push_thought(
        &mut self,
        index: u64,
        delta: &str,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item = self.item_mut(index, || OutputItemKind::Thought { opaque: Value::Null })?;
        item.text.push_str(delta);
        item.was_shown = true;
        events.push(ModelEvent::Thought(delta.to_owned()));
        Ok(())
    }

    fn begin_item(
        &mut self,
        index: u64,
        item: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let what = OutputItemKind::from_item(item);
        if let OutputItemKind::Call { id, name } = &what {
            self.calls += 1;
            if self.calls > CALLS_MAX {
                return Err(invalid_response_error(&format!(
                    "more than {CALLS_MAX} tool calls at once"
                )));
            }
            events.push(ModelEvent::ToolUse { id: id.clone(), name: name.clone() });
        }
        self.item_mut(index, OutputItemKind::default)?.what = what;
        Ok(())
    }

    /// Processes a complete item and emits the part of it that was not streamed.
    fn complete_item(
        &mut self,
        index: u64,
        whole: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if !self.items.get(&index).is_some_and(|item| item.what.is_same_kind(whole)) {
            self.begin_item(index, whole, events)?;
        }
        let text = match whole["type"].as_str() {
            Some("message") => join_field(&whole["content"], "text", ""),
            Some("reasoning") => match join_field(&whole["summary"], "text", "\n\n") {
                summary if summary.is_empty() => join_field(&whole["content"], "text", ""),
                summary => summary,
            },
            Some("function_call") => {
                let arguments = whole["arguments"].as_str().unwrap_or_default().to_owned();
                if self.items.get(&index).is_some_and(|item| item.text.is_empty()) {
                    self.count_arguments(&arguments)?;
                }
                arguments
            }
            _ => return Ok(()),
        };
        let item = self.item_mut(index, OutputItemKind::default)?;
        let refusal = join_field(&whole["content"], "refusal", "");
        if !refusal.is_empty() {
            item.refusal = refusal;
        }
        if !text.is_empty() {
            if !item.was_shown {
                match item.what {
                    OutputItemKind::Message => events.push(ModelEvent::Text(text.clone())),
                    OutputItemKind::Thought { .. } => {
                        events.push(ModelEvent::Thought(text.clone()))
                    }
                    OutputItemKind::Call { .. } | OutputItemKind::Other => {}
                }
                item.was_shown = true;
            }
            item.text = text;
        }
        if let OutputItemKind::Thought { opaque } = &mut item.what
            && whole["encrypted_content"].is_string()
        {
            *opaque = json!({ OPAQUE: {
                "summary": whole["summary"],
                "encrypted_content": whole["encrypted_content"],
            }});
        }
        Ok(())
    }

    fn end_response(
        &mut self,
        name: &str,
        response: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if name == "response.failed" {
            return Err(attempt_failure::failure_from_object(response, None).error);
        }
        // A server that does not stream its items sends all of them at the end.
        if self.items.is_empty() {
            for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
                self.complete_item(index, item, events)?;
            }
        }
        let usage = &response["usage"];
        self.usage = TokenUsage {
            input_tokens: read_tokens(usage, "/input_tokens"),
            output_tokens: read_tokens(usage, "/output_tokens"),
            cache_read_tokens: read_tokens(usage, "/input_tokens_details/cached_tokens"),
            ..TokenUsage::default()
        };
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.stop = Some(match (name, reason) {
            ("response.incomplete", Some("content_filter")) => ModelStopReason::Refusal(
                "the provider's content filter stopped the answer".to_owned(),
            ),
            ("response.incomplete", _) => ModelStopReason::MaxTokens,
            _ => ModelStopReason::End,
        });
        Ok(())
    }

    fn count_arguments(&mut self, more: &str) -> Result<(), ModelError> {
        self.argument_bytes += more.len();
        match self.argument_bytes > ARGUMENT_BYTES_MAX {
            true => Err(invalid_response_error(&format!(
                "more than {ARGUMENT_BYTES_MAX} bytes of arguments"
            ))),
            false => Ok(()),
        }
    }
}

impl OutputItemKind {
    fn from_item(item: &Value) -> Self {
        match item["type"].as_str() {
            Some("message") => Self::Message,
            Some("reasoning") => Self::Thought { opaque: Value::Null },
            Some("function_call") => Self::Call {
                id: match item["call_id"].as_str() {
                    Some(id) if !id.is_empty() => id.to_owned(),
                    _ => format!("call_{:016x}", fastrand::u64(..)),
                },
                name: match item["name"].as_str() {
                    Some(name) if !name.is_empty() => name.to_owned(),
                    // No tool has this name, so the model receives an error.
                    _ => "unnamed".to_owned(),
                },
            },
            _ => Self::Other,
        }
    }

    /// Whether the item has the kind that it began with.
    fn is_same_kind(&self, item: &Value) -> bool {
        let kind = match self {
            Self::Message => "message",
            Self::Thought { .. } => "reasoning",
            Self::Call { .. } => "function_call",
            Self::Other => return true,
        };
        item["type"] == kind
    }
}

impl OutputItem {
    fn into_block(self) -> Option<MessageBlock> {
        match self.what {
            OutputItemKind::Message if self.text.is_empty() => None,
            OutputItemKind::Message => Some(MessageBlock::Text { text: self.text }),
            OutputItemKind::Thought { opaque } if self.text.is_empty() && opaque.is_null() => None,
            OutputItemKind::Thought { opaque } => {
                Some(MessageBlock::Thinking { text: self.text, opaque })
            }
            OutputItemKind::Call { id, name } => {
                let input = ToolInput::parse(&self.text);
                Some(MessageBlock::ToolUse { id, name, input, opaque: Value::Null })
            }
            OutputItemKind::Other => None,
        }
    }
}

/// Joins a field of all parts of a list.
fn join_field(parts: &Value, field: &str, between: &str) -> String {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|part| part[field].as_str()).collect::<Vec<_>>().join(between)
}
