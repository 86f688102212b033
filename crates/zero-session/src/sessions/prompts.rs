//! Validates prompts, and derives messages and titles from them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zero_core::prompt_folder::strip_folder;

use crate::event::PromptAttachment;
use crate::message::{MessageBlock, MessageRole, ModelMessage};
use crate::sessions::{Prompt, SessionError, SessionLimits};

/// Maximum length of a title, in characters.
const TITLE_CHARS_MAX: usize = 60;

/// Refuses prompts that no session accepts.
pub(super) fn validate(prompt: &Prompt, limits: &SessionLimits) -> Result<(), SessionError> {
    let invalid = |text: String| Err(SessionError::Invalid(text));
    if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
        return invalid("message or attachment required".to_owned());
    }
    if prompt.text.contains('\0') {
        return invalid("message must not contain null bytes".to_owned());
    }
    let (bytes, max) = (prompt.text.len(), limits.prompt_bytes_max);
    if bytes > max {
        return invalid(format!(
            "the message has {bytes} bytes, at most {max} are accepted; put the rest into a file and name it"
        ));
    }
    let bytes: usize = prompt.attachments.iter().map(|attachment| attachment.data.len()).sum();
    let max = limits.attachment_bytes_max;
    if bytes > max {
        return invalid(format!(
            "the attachments have {bytes} bytes in base64, at most {max} are accepted; make them smaller"
        ));
    }
    for (number, attachment) in (1_usize..).zip(&prompt.attachments) {
        let named = describe_attachment(number, attachment);
        if !attachment.mime.starts_with("image/") {
            let mime = attachment.mime.escape_debug();
            return invalid(format!(
                "{named} is `{mime}`; only images can be attached. Put the file into the workspace and give its path"
            ));
        }
        if attachment.data.is_empty() || STANDARD.decode(&attachment.data).is_err() {
            return invalid(format!("{named} is not valid base64"));
        }
    }
    Ok(())
}

fn describe_attachment(number: usize, attachment: &PromptAttachment) -> String {
    match &attachment.name {
        Some(name) => format!("attachment {number} (`{}`)", name.escape_debug()),
        None => format!("attachment {number}"),
    }
}

/// The user message of a prompt.
pub(super) fn build_message(text: &str, attachments: &[PromptAttachment]) -> ModelMessage {
    let images = attachments.iter().map(|attachment| MessageBlock::Image {
        mime: attachment.mime.clone(),
        data: attachment.data.clone(),
    });
    let words = (!text.trim().is_empty()).then(|| MessageBlock::text(text));
    ModelMessage { role: MessageRole::User, blocks: images.chain(words).collect() }
}

/// The title of a session from its first prompt: the first non-blank line after the folder, truncated at a word
/// boundary.
pub(super) fn make_title(text: &str) -> Option<String> {
    let line = strip_folder(text).lines().map(str::trim).find(|line| !line.is_empty())?;
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= TITLE_CHARS_MAX {
        return Some(line);
    }
    let cut: String = line.chars().take(TITLE_CHARS_MAX.saturating_sub(1)).collect();
    let word = cut.rsplit_once(' ').map(|(words, _)| words.trim_end());
    let word = word.filter(|words| words.chars().count() > TITLE_CHARS_MAX / 2);
    Some(format!("{}…", word.unwrap_or(&cut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_title(text: &str, expected: &str) {
        assert_eq!(make_title(text).as_deref().unwrap_or("none"), expected);
    }

    #[test]
    fn title_is_one_short_line() {
        check_title("fix the bug", "fix the bug");
        check_title("[Working directory: ~/project]\n\nfix the bug", "fix the bug");
        check_title("\n\n  fix\tit \nmore", "fix it");
        check_title("  \n ", "none");
        let words = "word ".repeat(20);
        check_title(&words, "word word word word word word word word word word word…");
        check_title(&"ä".repeat(61), &format!("{}…", "ä".repeat(59)));
        check_title(&"x".repeat(60), &"x".repeat(60));
    }

    #[track_caller]
    fn check_prompt(text: &str, attachment: Option<(&str, &str)>, expected: &str) {
        let limits =
            SessionLimits { prompt_bytes_max: 10, attachment_bytes_max: 8, ..Default::default() };
        let attachment = attachment.map(|(mime, data)| PromptAttachment {
            mime: mime.to_owned(),
            data: data.to_owned(),
            name: Some("a\n".to_owned()),
        });
        let prompt = Prompt {
            text: text.to_owned(),
            attachments: attachment.into_iter().collect(),
            ..Prompt::default()
        };
        let result = validate(&prompt, &limits).map(|()| "fine".to_owned());
        let text = result.unwrap_or_else(|error| error.to_string());
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn invalid_prompt_is_refused_with_reason() {
        let image = |data| Some(("image/png", data));
        check_prompt("hi", None, "fine");
        check_prompt("", image("AA=="), "fine");
        check_prompt(" \n", None, "message or attachment required");
        check_prompt("a\0b", None, "message must not contain null bytes");
        check_prompt("12345678901", None, "the message has 11 bytes, at most 10 are accepted; ");
        check_prompt("x", image("AAAAAAAAA"), "the attachments have 9 bytes in base64, at most 8");
        check_prompt("x", image("A=="), "attachment 1 (`a\\n`) is not valid base64");
        check_prompt("x", image(""), "attachment 1 (`a\\n`) is not valid base64");
        check_prompt(
            "x",
            Some(("text/plain", "AA==")),
            "attachment 1 (`a\\n`) is `text/plain`; only",
        );
    }
}
