//! Settings for what zero tells you while you do not watch it (`notify`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `notify`.
pub const KEYS: [&str; 4] = ["notify.webhook", "notify.terminal", "notify.minSeconds", COMMAND_KEY];
/// The key of the program.
pub const COMMAND_KEY: &str = "notify.command";
/// Most arguments of the program.
const ARGUMENTS_MAX: usize = 32;

/// Run time from which the end of a run is worth a notification, in seconds.
const MIN_SECONDS: u64 = 60;

/// How zero tells you that a run waits for an answer, and that a long run ended or failed. The text
/// says no more than that. Only your own settings apply here, never a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct NotifySettings {
    /// Address to which the text is posted, such as `https://ntfy.sh/your-topic`. It must be https,
    /// or on this machine.
    pub webhook: Option<String>,
    /// What `zero run` writes to the terminal; nothing when absent.
    pub terminal: Option<TerminalSignal>,
    /// Seconds from which a run is long enough to tell its end; 60 when absent. Questions are always
    /// told.
    pub min_seconds: Option<u64>,
    /// Program of yours and its arguments, such as `["notify-send", "{title}", "{text}"]`. It runs
    /// outside the sandbox and must not be in a workspace.
    pub command: Option<Vec<String>>,
}

/// What `zero run` writes to the terminal to get your attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TerminalSignal {
    /// The bell.
    Bell,
    /// A notification of the desktop, by the sequence OSC 9, in terminals that know it.
    Osc9,
}

impl NotifySettings {
    /// Seconds from which a run is long.
    pub fn min_seconds(&self) -> u64 {
        self.min_seconds.unwrap_or(MIN_SECONDS)
    }
}

/// Why a list is not a program with arguments, if so.
pub(crate) fn command_problem(words: &[&str], example: &str) -> Option<String> {
    match words {
        [] | ["", ..] => Some(format!("name the program first, such as `{example}`")),
        words if words.len() > ARGUMENTS_MAX => {
            Some(format!("at most {ARGUMENTS_MAX} words; write a script for more"))
        }
        words if words.iter().any(|word| word.contains('\0')) => {
            Some("a word contains a NUL character; remove it".to_owned())
        }
        _ => None,
    }
}

/// Why nothing may be posted to an address, if so. The text does not repeat the address, since it may
/// contain a secret.
pub(crate) fn webhook_problem(address: &str) -> Option<&'static str> {
    let is_local = |rest: &str| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (host, ""),
        };
        port.len() <= 5 && ["localhost", "127.0.0.1", "[::1]"].contains(&name)
    };
    match (address.strip_prefix("https://"), address.strip_prefix("http://")) {
        (Some(rest), _) if !rest.is_empty() && !rest.starts_with('/') => None,
        (None, Some(rest)) if is_local(rest) => None,
        (None, Some(_)) => {
            Some("a webhook is called over https, except on this machine; write `https://…`")
        }
        _ => Some("not the address of a webhook; write it like `https://ntfy.sh/your-topic`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn project_cannot_set_a_webhook_or_program() {
        const TEXT: &str = r#"{"notify": {"webhook": "https://ntfy.sh/x", "terminal": "osc9",
            "minSeconds": 5, "command": ["notify-send", "{text}"]}}"#;
        let read = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).notify()
        };
        let expected = NotifySettings {
            webhook: Some("https://ntfy.sh/x".to_owned()),
            terminal: Some(TerminalSignal::Osc9),
            min_seconds: Some(5),
            command: Some(vec!["notify-send".to_owned(), "{text}".to_owned()]),
        };
        assert_eq!(read(SettingsLayerKind::User), expected);
        for kind in [SettingsLayerKind::Project, SettingsLayerKind::Local] {
            assert_eq!(read(kind), NotifySettings::default());
        }
        assert_eq!(NotifySettings::default().min_seconds(), 60);
    }

    #[test]
    fn command_names_a_program() {
        assert_eq!(command_problem(&["notify-send", "", "{text}"], "x"), None);
        for bad in [&[][..], &["", "x"], &["x", "a\0b"], &["x"; ARGUMENTS_MAX + 1]] {
            assert!(command_problem(bad, "x").is_some(), "{bad:?}");
        }
    }

    #[test]
    fn webhook_is_https_or_on_this_machine() {
        for good in [
            "https://ntfy.sh/topic",
            "http://localhost/x",
            "http://127.0.0.1:8080/x",
            "http://[::1]:80",
        ] {
            assert_eq!(webhook_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "ntfy.sh/topic",
            "https://",
            "https:///x",
            "http://ntfy.sh/topic",
            "http://127.0.0.1.example.org/x",
            "http://localhost@example.org/x",
            "file:///etc/passwd",
        ] {
            assert!(webhook_problem(bad).is_some(), "{bad}");
        }
    }
}
