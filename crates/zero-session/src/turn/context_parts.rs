//! Measures what fills the context window, with the estimate that decides when to compact.

use std::collections::BTreeMap;

use zero_core::{ContextPart, ContextPartKind};
use zero_runtime::tool_backend::CatalogEntry;

use super::compaction::is_summary;
use super::context_meter::{FRAME_TOKENS, block_tokens, message_tokens, text_tokens, tool_tokens};
use crate::message::{MessageBlock, MessageRole, ModelMessage};

/// Most parts of one kind; the smallest ones are added up.
const PARTS_PER_KIND_MAX: usize = 20;

/// Collects the parts of a context.
#[derive(Default)]
pub(crate) struct ContextParts(BTreeMap<(ContextPartKind, Option<String>), (u64, u64)>);

impl ContextParts {
    /// Adds a text of the system prompt.
    pub(crate) fn add_text(&mut self, kind: ContextPartKind, name: Option<&str>, text: &str) {
        self.add(kind, name, 1, text_tokens(text));
    }

    /// Adds the definitions of tools, by source.
    pub(crate) fn add_tools(&mut self, tools: &[CatalogEntry]) {
        for tool in tools {
            let source = tool.canonical.split_once("__").map(|(source, _)| source);
            self.add(ContextPartKind::Tools, source, 1, tool_tokens(tool));
        }
    }

    /// Adds the messages of a transcript.
    pub(crate) fn add_messages(&mut self, messages: &[ModelMessage]) {
        for message in messages {
            if is_summary(message) {
                self.add(ContextPartKind::Summary, None, 1, message_tokens(message));
                continue;
            }
            let (mut own, mut last_result) = (0, None);
            for block in &message.blocks {
                let tokens = block_tokens(block);
                match block {
                    MessageBlock::ToolResult { name, .. } => {
                        self.add(ContextPartKind::Results, Some(name), 1, tokens);
                        last_result = Some(name);
                    }
                    _ => own += tokens,
                }
            }
            match (message.role, last_result) {
                // A message that only carries results is not one of the user.
                (MessageRole::User, Some(tool)) if own == 0 => {
                    self.add(ContextPartKind::Results, Some(tool), 0, FRAME_TOKENS);
                }
                (MessageRole::User, _) => {
                    self.add(ContextPartKind::User, None, 1, own + FRAME_TOKENS);
                }
                (MessageRole::Assistant, _) => {
                    self.add(ContextPartKind::Assistant, None, 1, own + FRAME_TOKENS);
                }
            }
        }
    }

    fn add(&mut self, kind: ContextPartKind, name: Option<&str>, items: u64, tokens: u64) {
        let part = self.0.entry((kind, name.map(str::to_owned))).or_default();
        *part = (part.0.saturating_add(items), part.1.saturating_add(tokens));
    }

    /// The parts in the order of a request, the largest of a kind first.
    pub(crate) fn into_parts(self) -> Vec<ContextPart> {
        let parts = self.0.into_iter().map(|((kind, name), (items, tokens))| ContextPart {
            kind,
            name,
            items,
            tokens,
        });
        let mut kinds: BTreeMap<ContextPartKind, Vec<ContextPart>> = BTreeMap::new();
        for part in parts {
            kinds.entry(part.kind).or_default().push(part);
        }
        kinds.into_values().flat_map(fold_smallest).collect()
    }
}

fn fold_smallest(mut parts: Vec<ContextPart>) -> Vec<ContextPart> {
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    let rest = parts.split_off(parts.len().min(PARTS_PER_KIND_MAX));
    if let Some(first) = rest.first() {
        let sum = |of: fn(&ContextPart) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        let (items, tokens) = (sum(|part| part.items), sum(|part| part.tokens));
        parts.push(ContextPart { kind: first.kind, name: None, items, tokens });
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_core::ToolKind;

    use super::*;
    use crate::event::ResultContent;
    use crate::message::ToolInput;

    fn tool(canonical: &str) -> CatalogEntry {
        CatalogEntry {
            name: canonical.to_owned(),
            canonical: canonical.to_owned(),
            display_name: None,
            description: "d".repeat(40),
            input_schema: json!({}),
            kind: ToolKind::Read,
            read_only: true,
            info: None,
        }
    }

    fn call(name: &str) -> MessageBlock {
        let input = ToolInput::Unreadable { unreadable: "{}".to_owned(), why: String::new() };
        let (id, name) = ("1".to_owned(), name.to_owned());
        MessageBlock::ToolUse { id, name, input, opaque: json!(null) }
    }

    fn results(name: &str, text: &str, more: Option<MessageBlock>) -> ModelMessage {
        let content = vec![ResultContent::Text { text: text.to_owned() }];
        let (id, name) = ("1".to_owned(), name.to_owned());
        let result = MessageBlock::ToolResult { id, name, content, is_error: false };
        ModelMessage { role: MessageRole::User, blocks: [result].into_iter().chain(more).collect() }
    }

    fn rows(parts: ContextParts) -> Vec<String> {
        let row = |part: ContextPart| {
            let name = part.name.unwrap_or_default();
            format!("{:?} {name} {} {}", part.kind, part.items, part.tokens)
        };
        parts.into_parts().into_iter().map(row).collect()
    }

    #[test]
    fn every_token_of_the_estimate_has_a_part() {
        let messages = vec![
            ModelMessage::user("a".repeat(400)),
            ModelMessage::assistant(vec![MessageBlock::text("b".repeat(40)), call("Read")]),
            results("Read", &"c".repeat(4000), None),
            results("Bash", "", Some(MessageBlock::text("d"))),
        ];
        let tools = [tool("Read"), tool("github__search"), tool("github__get"), tool("cmd__x")];
        let mut parts = ContextParts::default();
        parts.add_text(ContextPartKind::SystemPrompt, None, &"s".repeat(80));
        parts.add_text(ContextPartKind::Instructions, Some("AGENTS.md"), "iiii");
        parts.add_tools(&tools);
        parts.add_messages(&messages);
        let all = messages.iter().map(message_tokens).chain(tools.iter().map(tool_tokens));
        let expected = all.sum::<u64>() + 21;
        assert_eq!(
            rows(parts),
            [
                "SystemPrompt  1 20",
                "Instructions AGENTS.md 1 1",
                "Tools github 2 38",
                "Tools  1 19",
                "Tools cmd 1 19",
                "User  2 117",
                "Assistant  1 28",
                "Results Read 1 1016",
                "Results Bash 1 8",
            ]
        );
        assert_eq!(20 + 1 + 38 + 19 + 19 + 117 + 28 + 1016 + 8, expected);
    }

    #[test]
    fn smallest_of_many_parts_are_added_up() {
        let mut parts = ContextParts::default();
        for number in 0..1_000 {
            parts.add_messages(&[results(&format!("t{number}"), &"x".repeat(number), None)]);
        }
        let parts = parts.into_parts();
        assert_eq!(parts.len(), PARTS_PER_KIND_MAX + 1);
        assert_eq!(parts.last().map(|part| (part.name.clone(), part.items)), Some((None, 980)));
    }
}
