//! Parses the target of a rule.

use super::argument_pattern::ArgumentPattern;
use super::command_pattern::CommandPattern;
use super::domain_pattern::DomainPattern;
use super::path_pattern::RulePathPattern;
use super::rule_error::RuleError;
use super::tool_names::{self, PatternSubject};

const RULE_LENGTH_MAX: usize = 4096;
/// The tool that starts sub-agents. It has no effects of its own that a rule could be about.
const SUBAGENT_TOOL: &str = "Task";

/// The target of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleTarget {
    /// `*`.
    Everything,
    /// A tool of zero; without a pattern, all of its calls.
    Tool { tool: &'static str, pattern: Option<RulePattern> },
    /// Tools of MCP servers and of commands, limited to calls whose arguments match all patterns.
    External { tools: ExternalToolScope, arguments: Vec<ArgumentPattern> },
}

/// Which tools that are not zero's own a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExternalToolScope {
    /// `mcp__*`.
    EveryServer,
    /// `server__*`: all tools of the MCP server with this name.
    Server(String),
    /// `server__tool`, in that form.
    Tool(String),
}

/// The pattern in the parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RulePattern {
    Command(CommandPattern),
    Path(RulePathPattern),
    Domain(DomainPattern),
}

impl RuleTarget {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        if text.is_empty() {
            return Err(RuleError::Empty);
        }
        if text.len() > RULE_LENGTH_MAX {
            return Err(RuleError::TooLong(RULE_LENGTH_MAX));
        }
        if let Some(invisible) = text.chars().find(|c| is_invisible(*c)) {
            return Err(RuleError::Invisible(invisible));
        }
        let (name, pattern) = split_rule(text)?;
        if name == "*" {
            return match pattern {
                None | Some("*") => Ok(Self::Everything),
                Some(_) => Err(RuleError::UnknownTool { name: name.to_owned(), nearest: None }),
            };
        }
        if name.contains("__") {
            let tools = ExternalToolScope::parse(name)?;
            let arguments = match (pattern.map(str::trim), pattern) {
                (Some(""), _) => return Err(RuleError::EmptyPattern { tool: name.to_owned() }),
                (None | Some("*"), _) | (_, None) => Vec::new(),
                // With its blanks: a backslash may precede the last one.
                (Some(_), Some(patterns)) => ArgumentPattern::parse_list(patterns)?,
            };
            return Ok(Self::External { tools, arguments });
        }
        let Some((tool, matches)) = tool_names::find_tool(name) else {
            if name == SUBAGENT_TOOL {
                return Err(RuleError::Subagents);
            }
            let (name, nearest) = (name.to_owned(), tool_names::find_nearest_tool(name));
            return Err(RuleError::UnknownTool { name, nearest });
        };
        let pattern = match pattern.map(str::trim) {
            None | Some("*") => None,
            Some("") => return Err(RuleError::EmptyPattern { tool: name.to_owned() }),
            Some(pattern) => Some(RulePattern::parse(tool, matches, pattern)?),
        };
        Ok(Self::Tool { tool, pattern })
    }
}

impl ExternalToolScope {
    fn parse(name: &str) -> Result<Self, RuleError> {
        let fits = |part: &str| {
            let letter = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
            !part.is_empty() && part.bytes().all(letter)
        };
        let bare = name.strip_prefix("mcp__").unwrap_or(name);
        match bare.split_once("__") {
            None if bare == "*" => Ok(Self::EveryServer),
            None if fits(bare) => Ok(Self::Server(bare.to_owned())),
            Some((server, "*")) if fits(server) => Ok(Self::Server(server.to_owned())),
            Some((server, tool)) if fits(server) && fits(tool) => Ok(Self::Tool(bare.to_owned())),
            _ => Err(RuleError::McpName(name.to_owned())),
        }
    }
}

impl RulePattern {
    fn parse(tool: &'static str, matches: PatternSubject, text: &str) -> Result<Self, RuleError> {
        let domain = text.strip_prefix("domain:");
        match (matches, domain) {
            (PatternSubject::Nothing, _) => Err(RuleError::NoPattern(tool)),
            (PatternSubject::Host, Some(domain)) => DomainPattern::parse(domain).map(Self::Domain),
            (PatternSubject::Host, None) => Err(RuleError::OnlyHosts { tool }),
            (_, Some(domain)) => Err(RuleError::NoHosts { tool, domain: domain.to_owned() }),
            (PatternSubject::Command, None) => CommandPattern::parse(text).map(Self::Command),
            (PatternSubject::Path, None) => RulePathPattern::parse(text).map(Self::Path),
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Command(command) => command.is_exact(),
            Self::Path(path) => path.is_exact(),
            Self::Domain(domain) => domain.is_exact(),
        }
    }
}

/// Splits `Tool(pattern)`.
fn split_rule(text: &str) -> Result<(&str, Option<&str>), RuleError> {
    let unbalanced = || RuleError::Parentheses(text.to_owned());
    let Some((name, rest)) = text.split_once('(') else {
        return if text.contains(')') { Err(unbalanced()) } else { Ok((text, None)) };
    };
    let mut depth = 1_usize;
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (pattern, after) = rest.split_at(at);
            return match after {
                ")" => Ok((name.trim_end(), Some(pattern))),
                _ if after.trim_start_matches(')').is_empty() => Err(unbalanced()),
                _ => Err(RuleError::AfterPattern(text.to_owned())),
            };
        }
    }
    Err(unbalanced())
}

pub(super) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}
