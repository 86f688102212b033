//! The client's capabilities, as far as this crate depends on them.

use agent_client_protocol::v1::schema::ClientCapabilities;
use serde_json::Value;

/// The client's capabilities. A capability that is not announced is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientFeatures {
    /// Can read the text of its buffers.
    pub(crate) reads_files: bool,
    /// Can write text to its buffers.
    pub(crate) writes_files: bool,
    /// Shows command output while the command runs (`_meta.terminal_output`).
    pub(crate) shows_output: bool,
    /// Accepts session notices (the `session.notices` capability).
    pub(crate) takes_notices: bool,
    /// Accepts compaction updates.
    pub(crate) takes_compaction: bool,
    /// Shows elicitation forms; without it, only choice fields can be asked.
    pub(crate) shows_forms: bool,
    /// Opens elicitation URLs; without it, such questions are cancelled.
    pub(crate) opens_pages: bool,
    /// Runs commands in terminals; see [`crate::client_terminal`].
    pub(crate) runs_terminals: bool,
    /// Can run zero in a terminal for login.
    pub(crate) logs_in_at_terminal: bool,
    /// The same capability in its older form (`_meta.terminal-auth`).
    pub(crate) starts_terminals: bool,
}

impl ClientFeatures {
    /// Reads the capabilities that the client sent.
    pub(crate) fn from_capabilities(capabilities: &ClientCapabilities) -> Self {
        let meta = |name: &str| {
            let value = capabilities.meta.as_ref().and_then(|meta| meta.get(name));
            value.and_then(Value::as_bool).unwrap_or(false)
        };
        let session = capabilities.session.as_ref();
        let elicitation = capabilities.elicitation.as_ref();
        Self {
            reads_files: capabilities.fs.read_text_file,
            writes_files: capabilities.fs.write_text_file,
            shows_output: meta("terminal_output"),
            takes_notices: session.is_some_and(|session| session.notices.is_some()),
            takes_compaction: session.is_some_and(|session| session.compaction.is_some()),
            shows_forms: elicitation.is_some_and(|elicitation| elicitation.form.is_some()),
            opens_pages: elicitation.is_some_and(|elicitation| elicitation.url.is_some()),
            runs_terminals: capabilities.terminal,
            logs_in_at_terminal: capabilities.auth.terminal,
            starts_terminals: meta("terminal-auth"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(capabilities: Value, expected: ClientFeatures) {
        let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap();
        assert_eq!(ClientFeatures::from_capabilities(&capabilities), expected);
    }

    #[test]
    fn features_default_to_unsupported() {
        check(json!({}), ClientFeatures::default());
        check(
            json!({"_meta": {"terminal_output": "yes"}, "terminal": false}),
            ClientFeatures::default(),
        );
        check(
            json!({"elicitation": {}, "session": {}, "fs": {}, "auth": {}}),
            ClientFeatures::default(),
        );
        check(json!({"session": {"configOptions": {}}}), ClientFeatures::default());
    }

    #[test]
    fn each_feature_is_parsed_independently() {
        let none = ClientFeatures::default;
        check(
            json!({"fs": {"readTextFile": true}}),
            ClientFeatures { reads_files: true, ..none() },
        );
        check(
            json!({"fs": {"writeTextFile": true}}),
            ClientFeatures { writes_files: true, ..none() },
        );
        check(
            json!({"_meta": {"terminal_output": true}}),
            ClientFeatures { shows_output: true, ..none() },
        );
        check(
            json!({"session": {"notices": {}}}),
            ClientFeatures { takes_notices: true, ..none() },
        );
        check(
            json!({"session": {"compaction": {}}}),
            ClientFeatures { takes_compaction: true, ..none() },
        );
        check(json!({"elicitation": {"form": {}}}), ClientFeatures { shows_forms: true, ..none() });
        check(json!({"elicitation": {"url": {}}}), ClientFeatures { opens_pages: true, ..none() });
        check(json!({"terminal": true}), ClientFeatures { runs_terminals: true, ..none() });
        check(
            json!({"auth": {"terminal": true}}),
            ClientFeatures { logs_in_at_terminal: true, ..none() },
        );
        check(
            json!({"_meta": {"terminal-auth": true}}),
            ClientFeatures { starts_terminals: true, ..none() },
        );
    }
}
