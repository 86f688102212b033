//! The tools that a hook applies to.

use zero_policy::rule::RuleOwner;
use zero_policy::{PolicyRule, RuleSource, Verdict};

/// The tools that one name in a hook's `match` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPattern {
    /// `*`: all tools.
    All,
    /// One tool, by its canonical name.
    Named(String),
    /// `server__*`: the tools of one MCP server or of a tool command.
    Server(String),
    /// `mcp__*`: the tools of all servers.
    EveryServer,
}

impl ToolPattern {
    /// Parses a name as rules do: any platform's name for a built-in tool, `server__tool`,
    /// `server__*`, `mcp__*` or `*`. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.contains(['(', ')']) {
            let what = "a hook matches tools by name; inspect the input in the hook itself";
            return Err(what.to_owned());
        }
        let source = RuleSource { name: String::new(), line: None, owner: RuleOwner::User };
        let rule =
            PolicyRule::parse(text, Verdict::Deny, source).map_err(|error| error.to_string())?;
        if let Some(tool) = rule.tool_name() {
            return Ok(Self::Named(tool.to_owned()));
        }
        let bare = text.strip_prefix("mcp__").unwrap_or(text);
        Ok(match bare.split_once("__") {
            None if text == "*" => Self::All,
            None if bare == "*" => Self::EveryServer,
            None => Self::Server(bare.to_owned()),
            Some((server, "*")) => Self::Server(server.to_owned()),
            Some(_) => Self::Named(bare.to_owned()),
        })
    }

    /// Whether it matches a tool, given by its canonical name.
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(name) => name == tool,
            Self::Server(server) => {
                tool.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with("__"))
            }
            Self::EveryServer => tool.contains("__"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let read = ToolPattern::parse(pattern).unwrap();
        for (tools, expected) in [(matching, true), (others, false)] {
            for tool in tools {
                assert_eq!(read.matches(tool), expected, "{pattern} on {tool}");
            }
        }
    }

    #[test]
    fn pattern_matches_tools_as_rules_do() {
        check("*", &["Read", "Bash", "github__create"], &[]);
        check("Edit", &["Edit"], &["Write", "x__Edit", "edit"]);
        check("run_shell_command", &["Bash"], &["BashOutput"]);
        check("MultiEdit", &["Edit"], &["Write"]);
        check(" Bash ", &["Bash"], &["BashKill"]);
        check("github__*", &["github__create"], &["github_x__create", "Read", "git__github__x"]);
        check("mcp__github", &["github__create"], &["gitlab__create"]);
        check("mcp__github__create", &["github__create"], &["github__created"]);
        check("mcp__*", &["a__b", "cmd__c"], &["Read"]);
    }

    #[test]
    fn unmatched_pattern_is_an_error() {
        for (text, part) in [
            ("Bsh", "Bash"),
            ("", "empty"),
            ("Bash(git push:*)", "inspect the input"),
            ("Ed*", "Ed*"),
            ("a b__c", "a b__c"),
        ] {
            let error = ToolPattern::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
