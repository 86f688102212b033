//! All rules of a session, indexed so that a lookup does not depend on their number.
//!
//! A lookup returns the first matching rule in the given order; the engine decides which verdict
//! takes precedence. Deny and ask rules match loosely and allow rules strictly: an inexact match
//! may ask once too often, but must not allow anything.

mod command_index;
mod external_index;
mod host_index;
mod literal_index;
mod loose_command_line;
mod path_index;
mod rule_position;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_core::{CommandLimitChange, ToolArguments};

use crate::Verdict;
use crate::host::HostName;
use crate::program::FileAccess;
use crate::rule::{PolicyRule, RulePattern, RuleTarget};
use crate::shell::ShellArg;

use command_index::CommandRuleIndex;
use external_index::ExternalRuleIndex;
use host_index::HostRuleIndex;
use path_index::{PathRuleCoverage, PathRuleIndex, comparable_names};
use rule_position::{earlier_rule, set_if_empty};

/// The base folders of path patterns.
#[derive(Clone, Debug, Default)]
pub struct PatternRoots {
    /// The workspace folders, with symlinks resolved.
    pub roots: Vec<PathBuf>,
    /// The home folder, with symlinks resolved.
    pub home: Option<PathBuf>,
}

impl PatternRoots {
    /// The base of relative paths.
    pub(crate) fn primary_root(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Whether a folder is the home folder or contains it.
    pub(crate) fn holds_home(&self, folder: &Path) -> bool {
        self.home.as_deref().is_some_and(|home| home.starts_with(folder))
    }
}

/// The words of a command, as far as known.
#[derive(Clone, Copy, Debug)]
pub struct CommandWords<'a> {
    /// The program as written, such as `/usr/bin/git`, if `words` has only its name.
    pub program_path: Option<&'a str>,
    /// The program and its arguments.
    pub words: &'a [ShellArg],
}

impl<'a> CommandWords<'a> {
    /// A program as written, with its arguments.
    pub fn new(words: &'a [ShellArg]) -> Self {
        Self { program_path: None, words }
    }
}

/// A path as written, and its canonical path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathViews {
    /// Absolute, without `.` and `..`; symlinks are not resolved.
    pub written: PathBuf,
    /// With symlinks resolved.
    pub canonical: PathBuf,
}

/// The rules of a session.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<PolicyRule>,
    allow: VerdictIndex,
    ask: VerdictIndex,
    deny: VerdictIndex,
    /// Allow rules that name one command without a wildcard.
    exact: CommandRuleIndex,
    /// The same by their text.
    lines: HashMap<String, usize>,
    /// Command rules that raise limits, each with an index of its own: all that match apply, not
    /// only the first.
    raising: Vec<(usize, CommandRuleIndex)>,
}

/// The rules with one verdict, by their target. Numbers are indexes into [`RuleSet::rules`].
#[derive(Debug, Default)]
struct VerdictIndex {
    everything: Option<usize>,
    external: ExternalRuleIndex,
    tools: HashMap<&'static str, usize>,
    commands: CommandRuleIndex,
    paths: PathRuleIndex,
    hosts: HashMap<&'static str, HostRuleIndex>,
}

impl RuleSet {
    /// Indexes rules, given in the order of their precedence.
    pub fn new(rules: Vec<PolicyRule>, places: PatternRoots) -> Self {
        let lists = |verdict| VerdictIndex::new(&rules, verdict, &places);
        let (allow, ask, deny) = (lists(Verdict::Allow), lists(Verdict::Ask), lists(Verdict::Deny));
        let (mut exact, mut lines) = (CommandRuleIndex::new(Verdict::Allow), HashMap::new());
        for (place, rule) in rules.iter().enumerate() {
            if let (Verdict::Allow, true, Some((command, line))) =
                (rule.verdict, rule.is_exact(), rule.command())
            {
                exact.add(command, place);
                lines.entry(line.to_owned()).or_insert(place);
            }
        }
        exact.build();
        let raising = index_limit_raising_rules(&rules);
        Self { rules, allow, ask, deny, exact, lines, raising }
    }

    /// All rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = &PolicyRule> {
        self.rules.iter()
    }

    /// The first rule for a command.
    pub fn find_command_rule(
        &self,
        verdict: Verdict,
        words: &CommandWords<'_>,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let bare = lists.find_tool("Bash");
        self.rule_at(earlier_rule(bare, lists.commands.find(words)))
    }

    /// The limits that rules with this verdict raise for a command; the maximum of each.
    pub fn raised_limits(&self, verdict: Verdict, words: &CommandWords<'_>) -> CommandLimitChange {
        let mut limits = CommandLimitChange::default();
        for (place, commands) in &self.raising {
            let rule = self.rule_at(Some(*place)).filter(|rule| rule.verdict == verdict);
            let Some(rule) = rule else { continue };
            if rule.command().is_none() || commands.find(words).is_some() {
                limits.merge_larger(&rule.limits);
            }
        }
        limits
    }

    /// The allow rule that names a command without a wildcard.
    pub fn find_exact_command_rule(&self, words: &CommandWords<'_>) -> Option<&PolicyRule> {
        self.rule_at(self.exact.find(words))
    }

    /// The allow rule whose command is exactly this line.
    pub fn find_whole_line_rule(&self, line: &str) -> Option<&PolicyRule> {
        self.rule_at(self.lines.get(line).copied())
    }

    /// Whether some rule denies access to files or asks about it.
    pub fn guards_paths(&self) -> bool {
        let bare = ["Read", "Edit", "Write", "Delete", "Grep", "Glob", "LS", "ReadMany", "LSP"];
        self.deny.everything.is_some()
            || !self.deny.paths.is_empty()
            || bare.iter().any(|tool| self.deny.tools.contains_key(tool))
            || !self.ask.paths.is_empty()
    }

    /// Whether some rule denies a host or asks about one.
    pub fn guards_hosts(&self) -> bool {
        let guards = |lists: &VerdictIndex| {
            lists.everything.is_some()
                || !lists.hosts.is_empty()
                || lists.tools.keys().any(|tool| is_web_tool(tool))
        };
        guards(&self.deny) || guards(&self.ask)
    }

    /// Whether some rule allows a host.
    pub fn allows_hosts(&self) -> bool {
        self.allow.everything.is_some()
            || !self.allow.hosts.is_empty()
            || self.allow.tools.contains_key("WebFetch")
    }

    /// The rule for a file that `tool` accesses.
    ///
    /// A deny or ask rule has to match one of the views, an allow rule both.
    pub fn find_path_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        access: FileAccess,
        path: &PathViews,
    ) -> Option<&PolicyRule> {
        self.find_path_rule_by_names(verdict, tool, access, &ComparablePath::new(path))
    }

    /// The rule that decides about a file: the first one of the strictest verdict.
    pub fn find_strictest_path_rule(
        &self,
        tool: &str,
        access: FileAccess,
        path: &PathViews,
    ) -> Option<&PolicyRule> {
        let path = ComparablePath::new(path);
        let strictest_first = [Verdict::Deny, Verdict::Ask, Verdict::Allow].into_iter();
        strictest_first
            .filter_map(|verdict| self.find_path_rule_by_names(verdict, tool, access, &path))
            .next()
    }

    /// The deny rule with a path for a file, or else the ask rule. A rule without a path is about
    /// the call, not about each file that the call finds.
    pub fn find_path_guard(
        &self,
        tool: &str,
        access: FileAccess,
        path: &PathViews,
    ) -> Option<&PolicyRule> {
        let path = ComparablePath::new(path);
        let guard = |verdict| {
            let lists = self.index_for(verdict);
            path.find_in_either(|path| lists.find_path(verdict, tool, access, path))
        };
        self.rule_at(guard(Verdict::Deny).or_else(|| guard(Verdict::Ask)))
    }

    /// Whether a rule denies a file, or an ask rule with a path matches it. An ask rule without a
    /// path is about the call, not about each file that the call finds.
    pub fn is_path_guarded(&self, tool: &str, access: FileAccess, path: &PathViews) -> bool {
        let path = ComparablePath::new(path);
        let asks = |path: &[Cow<'_, str>]| self.ask.find_path(Verdict::Ask, tool, access, path);
        self.find_path_rule_by_names(Verdict::Deny, tool, access, &path).is_some()
            || path.find_in_either(asks).is_some()
    }

    fn find_path_rule_by_names(
        &self,
        verdict: Verdict,
        tool: &str,
        access: FileAccess,
        path: &ComparablePath<'_>,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let bare = lists.find_bare(verdict, tool, access);
        let find = |path: &[Cow<'_, str>]| {
            earlier_rule(bare, lists.find_path(verdict, tool, access, path))
        };
        self.rule_at(match verdict {
            Verdict::Allow => path.find_in_both(find),
            Verdict::Ask | Verdict::Deny => path.find_in_either(find),
        })
    }

    /// A deny or ask rule for a file that an absolute shell glob may match, compared by names only:
    /// `/w/.e*` may be `.env`.
    pub fn find_rule_for_glob(
        &self,
        verdict: Verdict,
        access: FileAccess,
        pattern: &str,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let coverages = PathRuleCoverage::for_access(verdict, "Bash", access);
        self.rule_at(lists.paths.find_rule_for_glob(coverages, pattern))
    }

    /// The rule for a host that `tool` connects to.
    pub fn find_host_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        host: &HostName,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        // A rule that allows fetching covers other connections too.
        let found = ["WebFetch", tool].iter().fold(lists.everything, |found, tool| {
            let bare = is_web_tool(tool).then(|| lists.tools.get(tool).copied()).flatten();
            let by_host = lists.hosts.get(tool).and_then(|hosts| hosts.find(host));
            earlier_rule(earlier_rule(found, bare), by_host)
        });
        self.rule_at(found)
    }

    /// The rule for a host that is written for `tool` itself, or for everything.
    pub fn find_tool_host_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        host: &HostName,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let bare = is_web_tool(tool).then(|| lists.tools.get(tool).copied()).flatten();
        let by_host = lists.hosts.get(tool).and_then(|hosts| hosts.find(host));
        self.rule_at(earlier_rule(earlier_rule(lists.everything, bare), by_host))
    }

    /// The rule that names a host. A text that may be a file name, such as `main.rs`, does not
    /// match rules for all hosts.
    pub fn find_named_host_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        host: &HostName,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let named =
            |tool| lists.hosts.get(tool).and_then(|hosts: &HostRuleIndex| hosts.find_named(host));
        self.rule_at(earlier_rule(named("WebFetch"), named(tool)))
    }

    /// The rule for a tool by its name; for a tool that is not zero's own, also by its arguments.
    pub fn find_tool_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        arguments: Option<&ToolArguments>,
    ) -> Option<&PolicyRule> {
        match split_external_name(tool) {
            Some((server, tool)) => self.find_external_rule(verdict, server, tool, arguments),
            None => self.rule_at(self.index_for(verdict).find_tool(tool)),
        }
    }

    /// The rule for a tool of an MCP server or of a command. If the arguments are not known, deny
    /// and ask rules match whatever they say about arguments, and such allow rules do not.
    pub fn find_external_rule(
        &self,
        verdict: Verdict,
        server: &str,
        tool: &str,
        arguments: Option<&ToolArguments>,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let external = lists.external.find(verdict, server, tool, arguments);
        self.rule_at(earlier_rule(lists.everything, external))
    }

    /// The rule for every call of every tool of an MCP server.
    pub fn find_server_rule(&self, verdict: Verdict, server: &str) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        self.rule_at(earlier_rule(lists.everything, lists.external.find_server(verdict, server)))
    }

    /// Whether the decision about a tool may depend on its arguments.
    pub fn limits_arguments(&self, tool: &str) -> bool {
        split_external_name(tool).is_some_and(|(server, tool)| {
            Verdict::ALL.into_iter().any(|verdict| {
                self.index_for(verdict).external.limits_arguments(verdict, server, tool)
            })
        })
    }

    fn index_for(&self, verdict: Verdict) -> &VerdictIndex {
        match verdict {
            Verdict::Allow => &self.allow,
            Verdict::Ask => &self.ask,
            Verdict::Deny => &self.deny,
        }
    }

    fn rule_at(&self, place: Option<usize>) -> Option<&PolicyRule> {
        self.rules.get(place?)
    }
}

impl VerdictIndex {
    fn new(rules: &[PolicyRule], verdict: Verdict, places: &PatternRoots) -> Self {
        let mut lists = Self { commands: CommandRuleIndex::new(verdict), ..Self::default() };
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.verdict == verdict) {
            match &rule.target {
                RuleTarget::Everything => set_if_empty(&mut lists.everything, place),
                RuleTarget::External { tools, arguments } => {
                    lists.external.add(verdict, tools, arguments, place);
                }
                RuleTarget::Tool { tool, pattern: None } => {
                    lists.tools.entry(tool).or_insert(place);
                }
                RuleTarget::Tool { tool, pattern: Some(pattern) } => match pattern {
                    RulePattern::Command(command) => lists.commands.add(command, place),
                    RulePattern::Path(path) => {
                        lists.paths.add(
                            PathRuleCoverage::for_rule(tool),
                            verdict,
                            path,
                            places,
                            place,
                        );
                    }
                    RulePattern::Domain(domain) => {
                        lists.hosts.entry(tool).or_default().add(domain, place);
                    }
                },
            }
        }
        lists.commands.build();
        lists.paths.build();
        lists
    }

    fn find_tool(&self, tool: &str) -> Option<usize> {
        earlier_rule(self.everything, self.tools.get(tool).copied())
    }

    /// The rule without a path that covers an access.
    fn find_bare(&self, verdict: Verdict, tool: &str, access: FileAccess) -> Option<usize> {
        PathRuleCoverage::for_access(verdict, tool, access)
            .flat_map(PathRuleCoverage::tools)
            .fold(self.everything, |found, name| earlier_rule(found, self.tools.get(name).copied()))
    }

    /// The rule with a path that covers an access.
    fn find_path(
        &self,
        verdict: Verdict,
        tool: &str,
        access: FileAccess,
        path: &[Cow<'_, str>],
    ) -> Option<usize> {
        let coverages = PathRuleCoverage::for_access(verdict, tool, access);
        coverages.filter_map(|coverage| self.paths.find(coverage, path)).min()
    }
}

/// Both views of a path, in comparable form.
struct ComparablePath<'a> {
    canonical: Vec<Cow<'a, str>>,
    /// Only if it differs from the canonical path.
    written: Option<Vec<Cow<'a, str>>>,
}

impl<'a> ComparablePath<'a> {
    fn new(path: &'a PathViews) -> Self {
        let PathViews { written, canonical } = path;
        let written = (written != canonical).then(|| comparable_names(written));
        Self { canonical: comparable_names(canonical), written }
    }

    /// The earlier rule of those found for the two views.
    fn find_in_either(&self, find: impl Fn(&[Cow<'_, str>]) -> Option<usize>) -> Option<usize> {
        earlier_rule(self.written.as_deref().and_then(&find), find(&self.canonical))
    }

    /// The rule for the canonical path, if both views have one.
    fn find_in_both(&self, find: impl Fn(&[Cow<'_, str>]) -> Option<usize>) -> Option<usize> {
        let by_name = self.written.as_deref().is_none_or(|written| find(written).is_some());
        find(&self.canonical).filter(|_| by_name)
    }
}

/// The command rules that raise limits.
fn index_limit_raising_rules(rules: &[PolicyRule]) -> Vec<(usize, CommandRuleIndex)> {
    let about_commands =
        |rule: &PolicyRule| rule.tool_name() == Some("Bash") && !rule.limits.is_empty();
    let theirs = rules.iter().enumerate().filter(|(_, rule)| about_commands(rule));
    theirs
        .map(|(place, rule)| {
            let mut commands = CommandRuleIndex::new(rule.verdict);
            if let Some((command, _)) = rule.command() {
                commands.add(command, place);
            }
            commands.build();
            (place, commands)
        })
        .collect()
}

/// The server and the tool of a name such as `github__create_issue`.
fn split_external_name(tool: &str) -> Option<(&str, &str)> {
    tool.strip_prefix("mcp__").unwrap_or(tool).split_once("__")
}

fn is_web_tool(tool: &str) -> bool {
    matches!(tool, "WebFetch" | "WebSearch" | "WebRequest")
}

#[cfg(test)]
mod tests;
