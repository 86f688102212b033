//! What `/rewind` is asked for.

use zero_core::text_shortening::one_line;

use crate::event::RewindScope;

/// Maximum number of characters of a wrong argument in a message.
const WORD_CHARS_MAX: usize = 40;

/// Where a session is taken back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewindTarget {
    /// Before the newest prompt of the conversation.
    #[default]
    LastPrompt,
    /// Before the prompt with this number.
    Prompt(u64),
    /// Before the newest rewind, which is thereby taken back.
    LastRewind,
}

/// What the user typed after `/rewind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewindArguments {
    /// Where to; `None` lists the prompts.
    pub target: Option<RewindTarget>,
    /// What to take back.
    pub scope: RewindScope,
    /// Whether to overwrite what another program changed in files since.
    pub overwrite: bool,
}

impl RewindArguments {
    pub(crate) fn parse(arguments: &str) -> Result<Self, String> {
        let mut parsed = Self::default();
        for (at, word) in arguments.split_whitespace().enumerate() {
            match (word.to_ascii_lowercase().as_str(), word.parse()) {
                ("undo", _) if at == 0 => parsed.target = Some(RewindTarget::LastRewind),
                ("last", _) if at == 0 => parsed.target = Some(RewindTarget::LastPrompt),
                (_, Ok(number)) if at == 0 => parsed.target = Some(RewindTarget::Prompt(number)),
                ("files", _) if at > 0 => parsed.scope = RewindScope::Files,
                ("conversation", _) if at > 0 => parsed.scope = RewindScope::Conversation,
                ("both", _) if at > 0 => parsed.scope = RewindScope::Both,
                ("force", _) if at > 0 => parsed.overwrite = true,
                _ => {
                    let word = one_line(word, WORD_CHARS_MAX);
                    return Err(format!(
                        "`/rewind` does not understand `{word}`: write `/rewind` to list the prompts, and the number of one of them, `last` or `undo` to rewind; then `files` or `conversation` to take back only these, and `force` to overwrite later changes of files"
                    ));
                }
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, target: Option<RewindTarget>, scope: RewindScope, overwrite: bool) {
        let expected = RewindArguments { target, scope, overwrite };
        assert_eq!(RewindArguments::parse(text), Ok(expected), "{text:?}");
    }

    #[test]
    fn arguments_are_a_target_and_options() {
        use RewindScope::{Both, Conversation, Files};
        check("", None, Both, false);
        check("3", Some(RewindTarget::Prompt(3)), Both, false);
        check("3 files", Some(RewindTarget::Prompt(3)), Files, false);
        check("last conversation", Some(RewindTarget::LastPrompt), Conversation, false);
        check("UNDO force", Some(RewindTarget::LastRewind), Both, true);
        for wrong in
            ["three", "files", "force", "3 4", "-1", "3 everything", "99999999999999999999"]
        {
            let error = RewindArguments::parse(wrong).unwrap_err();
            assert!(error.contains("write `/rewind` to list the prompts"), "{wrong}: {error}");
        }
    }
}
