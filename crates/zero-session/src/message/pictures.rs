//! Messages for a model that cannot see.

use std::sync::Arc;

use zero_core::event::ResultContent;

use super::{Block, Message};

/// Puts words where pictures were; `words` are told the media type. A message without any stays as it
/// is, and shared.
pub(crate) fn put_in_words(messages: &mut [Arc<Message>], words: impl Fn(&str) -> String) {
    for message in messages.iter_mut().filter(|message| has_pictures(message)) {
        for block in &mut Arc::make_mut(message).blocks {
            match block {
                Block::Image { mime, .. } => *block = Block::text(words(mime)),
                Block::ToolResult { content, .. } => {
                    for piece in content {
                        if let ResultContent::Image { mime, .. } = piece {
                            *piece = ResultContent::Text { text: words(mime) };
                        }
                    }
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolUse { .. } => {}
            }
        }
    }
}

fn has_pictures(message: &Message) -> bool {
    let is_picture = |piece: &ResultContent| matches!(piece, ResultContent::Image { .. });
    message.blocks.iter().any(|block| match block {
        Block::Image { .. } => true,
        Block::ToolResult { content, .. } => content.iter().any(is_picture),
        Block::Text { .. } | Block::Thinking { .. } | Block::ToolUse { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn only_what_has_pictures_is_written_anew() {
        let image = || Block::Image { mime: "image/png".into(), data: "AA==".into() };
        let content = vec![
            ResultContent::Text { text: "a".into() },
            ResultContent::Image { mime: "image/gif".into(), data: "AA==".into() },
        ];
        let result =
            Block::ToolResult { id: "1".into(), name: "Read".into(), content, is_error: false };
        let shown =
            Message { role: Role::User, blocks: vec![Block::text("look"), image(), result] };
        let kept = [Message::user("hello"), shown].map(Arc::new);
        let mut told = kept.clone();
        put_in_words(&mut told, |mime| format!("<{mime}>"));
        assert!(Arc::ptr_eq(&kept[0], &told[0]));
        assert_eq!(told[1].text(), "look\n<image/png>");
        let Block::ToolResult { content, .. } = &told[1].blocks[2] else { panic!("a result") };
        assert_eq!(content[1], ResultContent::Text { text: "<image/gif>".into() });
        assert!(has_pictures(&kept[1]), "what is kept has them still");
    }
}
