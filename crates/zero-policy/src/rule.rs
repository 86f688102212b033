//! A rule as written in settings: `Tool`, `Tool(pattern)`, `server__tool(argument:pattern)`.
//!
//! A rule that cannot be parsed is an error, never a rule that matches nothing: a deny rule with a
//! typo must not look as if it protected something.

mod argument_match;
mod argument_pattern;
mod command_pattern;
mod copied_tree;
mod domain_pattern;
mod name_glob;
mod narrow_rule;
pub(crate) mod overbroad_rule;
mod path_pattern;
mod rule_error;
mod rule_target;
mod tool_names;

use std::fmt;
use std::path::{Path, PathBuf};

pub use rule_error::RuleError;
pub use tool_names::canonical_tool;

pub(crate) use argument_pattern::ArgumentPattern;
pub(crate) use command_pattern::{CommandPattern, PatternWord, PatternWordPart};
pub(crate) use domain_pattern::{DomainPattern, match_labels};
pub use name_glob::escape_glob;
pub(crate) use name_glob::{NameGlob, fold_case};
pub(crate) use path_pattern::{PatternBase, RulePathPattern, literal};
pub(crate) use rule_target::{ExternalToolScope, RulePattern, RuleTarget};

use zero_core::CommandLimitChange;

use crate::Verdict;

/// A rule with its verdict and origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The rule as written.
    pub text: String,
    /// The verdict on calls that it matches.
    pub verdict: Verdict,
    /// Its origin.
    pub source: RuleSource,
    /// Limits that it raises for commands that it decides about.
    pub limits: CommandLimitChange,
    pub(crate) target: RuleTarget,
}

/// The origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// The file or flag, for messages.
    pub name: String,
    /// Its line, if it is from a file.
    pub line: Option<u32>,
    /// The owner of the rule.
    pub owner: RuleOwner,
}

/// The owner of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOwner {
    /// The user: their settings, flags and answers.
    User,
    /// The project, whose settings may be untrusted.
    Project,
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl PolicyRule {
    /// Parses a rule.
    pub fn parse(text: &str, verdict: Verdict, source: RuleSource) -> Result<Self, RuleError> {
        let text = text.trim();
        let target = RuleTarget::parse(text)?;
        let limits = CommandLimitChange::default();
        Ok(Self { text: text.to_owned(), verdict, source, limits, target })
    }

    /// Sets the limits that the rule raises for commands that it decides about.
    #[must_use]
    pub fn with_limits(self, limits: CommandLimitChange) -> Self {
        Self { limits, ..self }
    }

    /// The path pattern of a rule about reads, if it has one.
    fn read_pattern(&self) -> Option<&RulePathPattern> {
        let RuleTarget::Tool { tool, pattern: Some(RulePattern::Path(pattern)) } = &self.target
        else {
            return None;
        };
        (!matches!(*tool, "Edit" | "Write" | "Delete")).then_some(pattern)
    }

    /// Whether it is about reading certain paths.
    pub(crate) fn restricts_reads(&self) -> bool {
        self.read_pattern().is_some()
    }

    /// The fixed start of its path pattern, if it is absolute or in the home folder: `//etc/x`,
    /// `~/x`.
    pub(crate) fn path_start(&self, home: Option<&Path>) -> Option<PathBuf> {
        let pattern = self.read_pattern()?;
        let base = match pattern.base {
            PatternBase::Machine => Path::new("/"),
            PatternBase::Home => home?,
            PatternBase::Workspace | PatternBase::AnyFolder | PatternBase::AnyFolderUnlessAllow => {
                return None;
            }
        };
        let names = pattern.parts.iter().map_while(|part| literal(part)).map(PathBuf::from);
        Some(base.iter().map(PathBuf::from).chain(names).collect())
    }

    /// What an allow rule opens to reading as a whole, if that is absolute or in the home folder.
    pub(crate) fn allowed_read_root(&self, home: Option<&Path>) -> Option<PathBuf> {
        match &self.target {
            RuleTarget::Tool { tool: "Read", pattern: None } => Some(PathBuf::from("/")),
            RuleTarget::Tool { tool: "Read", pattern: Some(RulePattern::Path(pattern)) } => {
                let is_literal = pattern.parts.iter().all(|part| literal(part).is_some());
                self.path_start(home).filter(|_| is_literal)
            }
            _ => None,
        }
    }

    /// Whether it is an exact rule of the user, which can open what no other rule does.
    pub(crate) fn is_exact_person_rule(&self) -> bool {
        self.is_exact() && self.source.owner == RuleOwner::User
    }

    /// Whether it names a protected path that no other rule opens: `Edit(.vscode/**)`.
    pub(crate) fn names_protected(&self) -> bool {
        let RuleTarget::Tool { pattern: Some(RulePattern::Path(pattern)), .. } = &self.target
        else {
            return false;
        };
        let names: Vec<String> = pattern.parts.iter().map_while(|part| literal(part)).collect();
        crate::protected_paths::names_protected(names.iter().map(String::as_str))
    }

    /// Whether it names one thing: it has a pattern without wildcards.
    pub fn is_exact(&self) -> bool {
        match &self.target {
            RuleTarget::Tool { pattern: Some(pattern), .. } => pattern.is_exact(),
            _ => false,
        }
    }

    /// The canonical tool of the rule; `None` for rules about every tool or external ones.
    pub fn tool_name(&self) -> Option<&'static str> {
        match &self.target {
            RuleTarget::Tool { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Whether it is about changing files, or about everything.
    pub(crate) fn restricts_changes(&self) -> bool {
        match &self.target {
            RuleTarget::Everything => true,
            RuleTarget::Tool { tool, .. } => matches!(*tool, "Edit" | "Write" | "Delete"),
            RuleTarget::External { .. } => false,
        }
    }

    /// The command pattern of the rule, with its text.
    pub(crate) fn command(&self) -> Option<(&CommandPattern, &str)> {
        match &self.target {
            RuleTarget::Tool { pattern: Some(RulePattern::Command(command)), .. } => {
                let start = self.text.find('(')?;
                Some((command, self.text.get(start + 1..self.text.len() - 1)?.trim()))
            }
            _ => None,
        }
    }

    /// Why the rule is risky, if it allows nearly anything.
    pub fn overbroad_reason(&self) -> Option<String> {
        match self.verdict {
            Verdict::Allow => overbroad_rule::overbroad_reason(&self.target),
            Verdict::Ask | Verdict::Deny => None,
        }
    }

    /// Why a deny or ask rule matches less than it seems to. `is_elsewhere` returns whether a path
    /// exists on the machine, but not in the workspace.
    pub fn narrow_reason(&self, is_elsewhere: &dyn Fn(&Path) -> bool) -> Option<String> {
        match self.verdict {
            Verdict::Allow => None,
            Verdict::Ask | Verdict::Deny => {
                narrow_rule::narrow_reason(&self.text, &self.target, is_elsewhere)
            }
        }
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
