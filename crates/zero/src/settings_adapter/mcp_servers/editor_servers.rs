//! Converts the MCP servers that an editor adds to a session into settings, and gives them valid names.

use std::collections::BTreeSet;

use zero_acp::{SessionMcpServer, SessionServerTransport};
use zero_mcp::server_definition::ServerAlias;
use zero_settings::mcp_servers::server_setting::{
    McpCommandSetting, McpServerSetting, VariablesSetting,
};

/// Source of these servers, for the user.
pub(super) const EDITOR_SOURCE: &str = "your editor";
/// Most characters of a name that are shown.
pub(super) const NAME_CHARS_MAX: usize = 60;
/// Most numbers that are tried if a name is taken. A session has fewer servers.
const SUFFIX_MAX: u32 = 1_000;

/// Converts a server of an editor into settings.
pub(super) fn from_editor(server: &SessionMcpServer) -> Result<McpServerSetting, String> {
    let mut setting = McpServerSetting::default();
    match &server.transport {
        SessionServerTransport::Command { command, args, env } => {
            let program = command.to_str().ok_or("its command is not UTF-8; rename it")?;
            setting.command = Some(McpCommandSetting::Program(program.to_owned()));
            setting.args.clone_from(args);
            setting.env = VariablesSetting::ByName(env.clone());
        }
        SessionServerTransport::Http { url, headers } => {
            setting.url = Some(url.clone());
            setting.headers.clone_from(headers);
        }
    }
    Ok(setting)
}

/// The assigned names of servers; each is unique.
pub(super) struct ServerAliases(BTreeSet<String>);

impl ServerAliases {
    pub(super) fn new<'a>(taken: impl Iterator<Item = &'a str>) -> Self {
        // Names must differ in more than upper and lower case.
        Self(taken.map(str::to_ascii_lowercase).collect())
    }

    /// Returns a free name for a server, and the name it would have if that were free.
    pub(super) fn assign(&mut self, requested: &str) -> (String, String) {
        let preferred = sanitize_name(requested);
        let number = |number: u32| match number {
            1 => preferred.clone(),
            _ => with_suffix(&preferred, &format!("-{number}")),
        };
        let is_free = |name: &String| {
            ServerAlias::new(name.as_str()).is_ok() && !self.0.contains(&name.to_ascii_lowercase())
        };
        let name = (1..=SUFFIX_MAX).map(number).find(is_free).unwrap_or_else(|| preferred.clone());
        self.0.insert(name.to_ascii_lowercase());
        (name, preferred)
    }
}

/// Returns the name with invalid characters replaced.
fn sanitize_name(requested: &str) -> String {
    let mut name = String::new();
    for c in requested.chars().take(4 * ServerAlias::LEN_MAX) {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c),
            // Consecutive separators and invalid characters become one `_` or `-`.
            '_' if !name.ends_with(['_', '-']) => name.push('_'),
            '_' => {}
            _ if !name.ends_with(['_', '-']) => name.push('-'),
            _ => {}
        }
    }
    let name = name.trim_matches(['_', '-']);
    let is_named = name.starts_with(|c: char| c.is_ascii_alphabetic());
    with_suffix(&if is_named { name.to_owned() } else { format!("server-{name}") }, "")
}

/// Returns the name with a suffix, shortened to the longest valid length.
fn with_suffix(name: &str, suffix: &str) -> String {
    // The name is ASCII, so every length is a character boundary.
    let room = ServerAlias::LEN_MAX.saturating_sub(suffix.len()).min(name.len());
    let head = name.get(..room).unwrap_or(name).trim_end_matches(['_', '-']);
    format!("{head}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_valid_alias() {
        for (called, expected) in [
            ("github", "github"),
            ("My Server", "My-Server"),
            ("a__b", "a_b"),
            ("_a_", "a"),
            ("a.b/c", "a-b-c"),
            ("2nd", "server-2nd"),
            ("", "server"),
            ("é漢", "server"),
            ("mcp", "mcp-2"),
            ("a -- b", "a-b"),
            (&"x".repeat(50), &"x".repeat(32)),
        ] {
            let (name, _) = ServerAliases::new(std::iter::empty()).assign(called);
            assert_eq!(name, expected, "{called:?}");
            assert!(ServerAlias::new(name.as_str()).is_ok(), "{name}");
        }
    }

    #[test]
    fn taken_alias_gets_number() {
        let mut names = ServerAliases::new(["github"].into_iter());
        let mut take = |called: &str| names.assign(called).0;
        assert_eq!(take("GitHub"), "GitHub-2");
        assert_eq!(take("github"), "github-3");
        let long = "x".repeat(40);
        assert_eq!(take(&long), "x".repeat(32));
        assert_eq!(take(&long), format!("{}-2", "x".repeat(30)));
    }
}
