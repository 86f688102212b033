//! Estimates how much of the context window a request uses.

use std::sync::Arc;

use crate::event::{ResultContent, TokenUsage};
use crate::message::{MessageBlock, ModelMessage, ToolInput};
use crate::turn::RequestContext;
use zero_runtime::tool_backend::CatalogEntry;

/// Approximate bytes per token in most languages and models.
const BYTES_PER_TOKEN: u64 = 4;
/// Approximate tokens of an image.
const IMAGE_TOKENS: u64 = 1500;
/// Overhead of a message or a tool, in tokens.
pub(super) const FRAME_TOKENS: u64 = 8;

/// Counts the tokens of the next request: the last count of the provider, plus an estimate of later
/// content.
#[derive(Clone, Debug)]
pub(super) struct ContextMeter {
    known: Option<u64>,
    /// Tokens that remained after the last compaction, also if it failed.
    floor: u64,
}

impl ContextMeter {
    pub(super) fn new(known: Option<u64>) -> Self {
        Self { known: known.filter(|tokens| *tokens > 0), floor: 0 }
    }

    /// Adds a message of the transcript.
    pub(super) fn add(&mut self, message: &ModelMessage) {
        if let Some(known) = &mut self.known {
            *known = known.saturating_add(message_tokens(message));
        }
    }

    /// Records the provider's count, or an estimate if the provider sends none.
    pub(super) fn record_usage(
        &mut self,
        usage: TokenUsage,
        context: &RequestContext,
        transcript: &[Arc<ModelMessage>],
    ) {
        let counted = usage.input_tokens.saturating_add(usage.output_tokens);
        let tokens =
            if usage.input_tokens == 0 { estimate_all(context, transcript) } else { counted };
        self.known = Some(tokens);
    }

    /// Counts a compacted transcript by the same measure as the one that it replaces: the count so far,
    /// in the proportion of the estimates. System prompt and tools are part of both. If they are not
    /// known, they are what the count has besides the messages.
    pub(super) fn replace(
        &mut self,
        context: &RequestContext,
        before: &[Arc<ModelMessage>],
        after: &[Arc<ModelMessage>],
    ) {
        let known = self.estimate(context, before);
        let messages = all_message_tokens(before);
        let fixed = match fixed_tokens(context) {
            0 => known.saturating_sub(messages),
            tokens => tokens,
        };
        let estimated = u128::from(fixed.saturating_add(messages)).max(1);
        let left = u128::from(fixed.saturating_add(all_message_tokens(after)));
        let tokens = u64::try_from(u128::from(known) * left / estimated).unwrap_or(u64::MAX);
        *self = Self { known: Some(tokens), floor: tokens };
    }

    /// Accounts for content that was removed from the transcript.
    pub(super) fn subtract(&mut self, tokens: u64) {
        if let Some(known) = &mut self.known {
            *known = known.saturating_sub(tokens);
        }
    }

    /// Waits with the next compaction until the conversation has grown, since one just failed.
    pub(super) fn postpone_compaction(
        &mut self,
        context: &RequestContext,
        transcript: &[Arc<ModelMessage>],
    ) {
        self.floor = self.estimate(context, transcript);
    }

    pub(super) fn estimate(
        &self,
        context: &RequestContext,
        transcript: &[Arc<ModelMessage>],
    ) -> u64 {
        self.known.unwrap_or_else(|| estimate_all(context, transcript))
    }

    /// Whether the count exceeds the limit and a compaction would help; directly after one, another
    /// gains nothing.
    pub(super) fn needs_compaction(&self, tokens: u64, window: u64, percent: u8) -> bool {
        let full = compaction_limit(window, percent);
        let gain = if self.floor == 0 { 0 } else { self.floor.saturating_add(window / 10) };
        window > 0 && tokens > full && tokens > gain
    }
}

/// Tokens above which a transcript is compacted.
pub(crate) fn compaction_limit(window: u64, percent: u8) -> u64 {
    window / 100 * u64::from(percent) + window % 100 * u64::from(percent) / 100
}

fn estimate_all(context: &RequestContext, transcript: &[Arc<ModelMessage>]) -> u64 {
    fixed_tokens(context).saturating_add(all_message_tokens(transcript))
}

/// Approximate tokens of what every request has, whatever its messages: 0 if that is not known.
fn fixed_tokens(context: &RequestContext) -> u64 {
    text_tokens(&context.system) + context.tools.weight(tool_tokens)
}

fn all_message_tokens(transcript: &[Arc<ModelMessage>]) -> u64 {
    transcript.iter().map(|message| message_tokens(message)).sum()
}

/// Approximate tokens of the definition of a tool.
pub(super) fn tool_tokens(tool: &CatalogEntry) -> u64 {
    text_tokens(&tool.description) + text_tokens(&tool.input_schema.to_string()) + FRAME_TOKENS
}

/// Approximate tokens of a message.
pub(crate) fn message_tokens(message: &ModelMessage) -> u64 {
    FRAME_TOKENS + message.blocks.iter().map(block_tokens).sum::<u64>()
}

/// Approximate tokens of a part of a message.
pub(super) fn block_tokens(block: &MessageBlock) -> u64 {
    match block {
        MessageBlock::Text { text } => text_tokens(text),
        MessageBlock::Thinking { text, opaque } => {
            let opaque = if opaque.is_null() { 0 } else { text_tokens(&opaque.to_string()) };
            text_tokens(text) + opaque
        }
        MessageBlock::Image { .. } => IMAGE_TOKENS,
        MessageBlock::ToolUse { name, input, .. } => {
            let input = match input {
                ToolInput::Json(json) => text_tokens(json.as_str()),
                ToolInput::Unreadable { unreadable, .. } => text_tokens(unreadable),
            };
            FRAME_TOKENS + text_tokens(name) + input
        }
        MessageBlock::ToolResult { content, .. } => {
            let pieces = content.iter().map(|piece| match piece {
                ResultContent::Text { text } => text_tokens(text),
                ResultContent::Image { .. } => IMAGE_TOKENS,
            });
            FRAME_TOKENS + pieces.sum::<u64>()
        }
    }
}

/// Approximate tokens of a text.
pub(crate) fn text_tokens(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(floor: u64, tokens: u64, window: u64, expected: bool) {
        let meter = ContextMeter { known: Some(tokens), floor };
        assert_eq!(meter.needs_compaction(tokens, window, 80), expected, "{tokens} of {window}");
    }

    #[test]
    fn nearly_full_window_needs_compaction() {
        check(0, 800, 1000, false);
        check(0, 801, 1000, true);
        check(0, u64::MAX, 0, false);
        check(0, 1000, u64::MAX, false);
        check(790, 850, 1000, false);
        check(790, 891, 1000, true);
    }

    #[test]
    fn compaction_is_counted_by_the_measure_before_it() {
        let check = |known: Option<u64>, system: usize, expected: (u64, u64)| {
            let context =
                RequestContext { system: "s".repeat(system), ..RequestContext::default() };
            let message = |bytes: usize| Arc::new(ModelMessage::user("a".repeat(bytes)));
            let before = [message(4 * 992), message(4 * 992)];
            let mut meter = ContextMeter::new(known);
            let counted = meter.estimate(&context, &before);
            meter.replace(&context, &before, &[message(4 * 492)]);
            assert_eq!((counted, meter.estimate(&context, &before)), expected, "{known:?}");
        };
        // 2,000 tokens of messages become 500, with 1,000 tokens of system prompt and tools.
        check(None, 4_000, (3_000, 1_500));
        check(Some(3_600), 4_000, (3_600, 1_800));
        check(Some(1_000), 4_000, (1_000, 500));
        // The tools could not be asked.
        check(Some(3_000), 0, (3_000, 1_500));
        check(Some(1_000), 0, (1_000, 250));
        check(None, 0, (2_000, 500));
    }

    #[test]
    fn new_messages_add_to_provider_count() {
        let context = RequestContext::default();
        let mut transcript = vec![ModelMessage::user("a".repeat(400)).into()];
        let mut meter = ContextMeter::new(Some(0));
        assert_eq!(meter.estimate(&context, &transcript), 108);
        let usage = TokenUsage { input_tokens: 90, output_tokens: 10, ..TokenUsage::default() };
        meter.record_usage(usage, &context, &transcript);
        let more = Arc::new(ModelMessage::user("b".repeat(40)));
        meter.add(&more);
        transcript.push(more);
        assert_eq!(meter.estimate(&context, &transcript), 118);
    }
}
