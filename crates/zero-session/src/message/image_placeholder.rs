//! Replaces images for models that do not accept them.

use std::sync::Arc;

use zero_core::event::ResultContent;

use super::{MessageBlock, ModelMessage};

/// Replaces images by text; `words` receives the media type. A message without images stays shared
/// and unchanged.
pub(crate) fn replace_images(messages: &mut [Arc<ModelMessage>], words: impl Fn(&str) -> String) {
    for message in messages.iter_mut().filter(|message| has_images(message)) {
        for block in &mut Arc::make_mut(message).blocks {
            match block {
                MessageBlock::Image { mime, .. } => *block = MessageBlock::text(words(mime)),
                MessageBlock::ToolResult { content, .. } => {
                    for piece in content {
                        if let ResultContent::Image { mime, .. } = piece {
                            *piece = ResultContent::Text { text: words(mime) };
                        }
                    }
                }
                MessageBlock::Text { .. }
                | MessageBlock::Thinking { .. }
                | MessageBlock::ToolUse { .. } => {}
            }
        }
    }
}

fn has_images(message: &ModelMessage) -> bool {
    let is_image = |piece: &ResultContent| matches!(piece, ResultContent::Image { .. });
    message.blocks.iter().any(|block| match block {
        MessageBlock::Image { .. } => true,
        MessageBlock::ToolResult { content, .. } => content.iter().any(is_image),
        MessageBlock::Text { .. }
        | MessageBlock::Thinking { .. }
        | MessageBlock::ToolUse { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageRole;

    #[test]
    fn only_messages_with_images_are_rewritten() {
        let image = || MessageBlock::Image { mime: "image/png".into(), data: "AA==".into() };
        let content = vec![
            ResultContent::Text { text: "a".into() },
            ResultContent::Image { mime: "image/gif".into(), data: "AA==".into() },
        ];
        let result = MessageBlock::ToolResult {
            id: "1".into(),
            name: "Read".into(),
            content,
            is_error: false,
        };
        let shown = ModelMessage {
            role: MessageRole::User,
            blocks: vec![MessageBlock::text("look"), image(), result],
        };
        let kept = [ModelMessage::user("hello"), shown].map(Arc::new);
        let mut replaced = kept.clone();
        replace_images(&mut replaced, |mime| format!("<{mime}>"));
        assert!(Arc::ptr_eq(&kept[0], &replaced[0]));
        assert_eq!(replaced[1].text(), "look\n<image/png>");
        let MessageBlock::ToolResult { content, .. } = &replaced[1].blocks[2] else {
            panic!("a result")
        };
        assert_eq!(content[1], ResultContent::Text { text: "<image/gif>".into() });
        assert!(has_images(&kept[1]), "what is kept has them still");
    }
}
