//! All rules of a session, arranged so that looking one up does not depend on how many there are.
//!
//! A lookup answers with the first rule, in the order they were given, that matches; which list
//! wins is for the engine to say. Deny and ask rules are read generously and allow rules strictly:
//! a rule that is read wrongly may ask once too often, but must not let something through.

mod command_index;
mod host_index;
mod literal_index;
mod loose_command_line;
mod path_index;
mod rule_position;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_core::CommandLimitChange;

use crate::Verdict;
use crate::host::HostName;
use crate::program::FileAccess;
use crate::rule::{PolicyRule, RulePattern, RuleTarget};
use crate::shell::ShellArg;

use command_index::CommandRuleIndex;
use host_index::HostRuleIndex;
use path_index::{PathRuleCoverage, PathRuleIndex, comparable_names};
use rule_position::{earlier_rule, set_if_empty};

/// Where the patterns of rules start.
#[derive(Clone, Debug, Default)]
pub struct PatternRoots {
    /// The folders of the workspace, links settled.
    pub roots: Vec<PathBuf>,
    /// The home folder, links settled.
    pub home: Option<PathBuf>,
}

impl PatternRoots {
    /// The folder relative paths start in.
    pub(crate) fn primary_root(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// Whether a folder is the home folder or one that home lies in.
    pub(crate) fn holds_home(&self, folder: &Path) -> bool {
        self.home.as_deref().is_some_and(|home| home.starts_with(folder))
    }
}

/// A command as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct CommandWords<'a> {
    /// The program as it is written, such as `/usr/bin/git`, when `words` has its name only.
    pub program_path: Option<&'a str>,
    /// The program and its arguments.
    pub words: &'a [ShellArg],
}

impl<'a> CommandWords<'a> {
    /// A program, as it is written, with its arguments.
    pub fn new(words: &'a [ShellArg]) -> Self {
        Self { program_path: None, words }
    }
}

/// A path as it is written, and the file it really is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathViews {
    /// Absolute, without `.` and `..`, links not followed.
    pub written: PathBuf,
    /// Links settled.
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
    /// Rules for commands that raise limits, each by itself: all that match count, not the first.
    raising: Vec<(usize, CommandRuleIndex)>,
}

/// The rules with one verdict, by what they are about. Numbers are places in [`RuleSet::rules`].
#[derive(Debug, Default)]
struct VerdictIndex {
    everything: Option<usize>,
    every_server: Option<usize>,
    servers: HashMap<String, usize>,
    mcp_tools: HashMap<String, usize>,
    tools: HashMap<&'static str, usize>,
    commands: CommandRuleIndex,
    paths: PathRuleIndex,
    hosts: HashMap<&'static str, HostRuleIndex>,
}

impl RuleSet {
    /// Arranges rules, given in the order in which they are to be found.
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

    /// Allow rules that let nearly anything run, each with the reason.
    pub fn overbroad_rules(&self) -> Vec<(&PolicyRule, String)> {
        self.rules.iter().filter_map(|rule| Some((rule, rule.overbroad_reason()?))).collect()
    }

    /// The rule for a command.
    pub fn find_command_rule(
        &self,
        verdict: Verdict,
        words: &CommandWords<'_>,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let bare = lists.find_tool("Bash");
        self.rule_at(earlier_rule(bare, lists.commands.find(words)))
    }

    /// Limits that the rules with a verdict raise for a command, of each limit the most.
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

    /// The allow rule whose command is this line, letter by letter.
    pub fn find_whole_line_rule(&self, line: &str) -> Option<&PolicyRule> {
        self.rule_at(self.lines.get(line).copied())
    }

    /// Whether a rule may deny some file to somebody, or says to ask about some.
    pub fn guards_paths(&self) -> bool {
        let bare = ["Read", "Edit", "Write", "Delete", "Grep", "Glob", "LS", "ReadMany", "LSP"];
        self.deny.everything.is_some()
            || !self.deny.paths.is_empty()
            || bare.iter().any(|tool| self.deny.tools.contains_key(tool))
            || !self.ask.paths.is_empty()
    }

    /// Whether a rule denies some host, or says to ask about one.
    pub fn guards_hosts(&self) -> bool {
        let guards = |lists: &VerdictIndex| {
            lists.everything.is_some()
                || !lists.hosts.is_empty()
                || lists.tools.keys().any(|tool| is_web_tool(tool))
        };
        guards(&self.deny) || guards(&self.ask)
    }

    /// Whether a rule allows some host.
    pub fn allows_hosts(&self) -> bool {
        self.allow.everything.is_some()
            || !self.allow.hosts.is_empty()
            || self.allow.tools.contains_key("WebFetch")
    }

    /// The rule for a file that `tool` touches.
    ///
    /// A deny or ask rule needs to match one of the views, an allow rule both.
    pub fn find_path_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        access: FileAccess,
        path: &PathViews,
    ) -> Option<&PolicyRule> {
        self.find_path_rule_by_names(verdict, tool, access, &ComparablePath::new(path))
    }

    /// The rule that decides about a file: the first of the strictest list that has one.
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

    /// The rule with a path that denies a file, or else one that says to ask about it. A rule
    /// without a path is about the call, not about each file that the call comes across.
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

    /// Whether a rule denies a file, or one with a path says to ask about it. A rule without a path
    /// that says to ask is about the call, not about each file that the call comes across.
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

    /// A deny or ask rule for a file that an absolute shell pattern may stand for, judged by
    /// names alone: `/w/.e*` may be `.env`.
    pub fn find_rule_for_glob(
        &self,
        verdict: Verdict,
        access: FileAccess,
        pattern: &str,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        let coverages = PathRuleCoverage::for_access(verdict, "Bash", access);
        self.rule_at(lists.paths.find_named_by_glob(coverages, pattern))
    }

    /// The rule for a host that `tool` talks to.
    pub fn find_host_rule(
        &self,
        verdict: Verdict,
        tool: &str,
        host: &HostName,
    ) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        // What may be fetched may be reached in any other way too.
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

    /// The rule that names a host. A text that may as well be the name of a file, such as
    /// `main.rs`, is not caught by what is said of all hosts.
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

    /// The rule that names a tool, without a pattern.
    pub fn find_tool_rule(&self, verdict: Verdict, tool: &str) -> Option<&PolicyRule> {
        match tool.strip_prefix("mcp__").unwrap_or(tool).split_once("__") {
            Some((server, tool)) => self.find_mcp_rule(verdict, server, tool),
            None => self.rule_at(self.index_for(verdict).find_tool(tool)),
        }
    }

    /// The rule for a tool of an MCP server.
    pub fn find_mcp_rule(&self, verdict: Verdict, server: &str, tool: &str) -> Option<&PolicyRule> {
        let lists = self.index_for(verdict);
        // A server may take its names as it likes: what is forbidden is so in every case of letters.
        let (server, name) = match verdict {
            Verdict::Allow => (Cow::Borrowed(server), format!("{server}__{tool}")),
            Verdict::Ask | Verdict::Deny => {
                let server = server.to_lowercase();
                let name = format!("{server}__{}", tool.to_lowercase());
                (Cow::Owned(server), name)
            }
        };
        let by_tool = lists.mcp_tools.get(&name).copied();
        let by_server = lists.servers.get(server.as_ref()).copied();
        let of_all = earlier_rule(lists.everything, lists.every_server);
        self.rule_at(earlier_rule(of_all, earlier_rule(by_server, by_tool)))
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
        let compared = |name: &String| match verdict {
            Verdict::Allow => name.clone(),
            Verdict::Ask | Verdict::Deny => name.to_lowercase(),
        };
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.verdict == verdict) {
            match &rule.target {
                RuleTarget::Everything => set_if_empty(&mut lists.everything, place),
                RuleTarget::EveryServer => set_if_empty(&mut lists.every_server, place),
                RuleTarget::Server(server) => {
                    lists.servers.entry(compared(server)).or_insert(place);
                }
                RuleTarget::McpTool(name) => {
                    lists.mcp_tools.entry(compared(name)).or_insert(place);
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

    /// The rule without a path that covers a touch.
    fn find_bare(&self, verdict: Verdict, tool: &str, access: FileAccess) -> Option<usize> {
        PathRuleCoverage::for_access(verdict, tool, access)
            .flat_map(PathRuleCoverage::tools)
            .fold(self.everything, |found, name| earlier_rule(found, self.tools.get(name).copied()))
    }

    /// The rule with a path that covers a touch.
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

/// Both views of a path, as rules compare them.
struct ComparablePath<'a> {
    canonical: Vec<Cow<'a, str>>,
    /// Only when it is another path.
    written: Option<Vec<Cow<'a, str>>>,
}

impl<'a> ComparablePath<'a> {
    fn new(path: &'a PathViews) -> Self {
        let PathViews { written, canonical } = path;
        let written = (written != canonical).then(|| comparable_names(written));
        Self { canonical: comparable_names(canonical), written }
    }

    /// What is found for one of the views, the earlier of two.
    fn find_in_either(&self, find: impl Fn(&[Cow<'_, str>]) -> Option<usize>) -> Option<usize> {
        earlier_rule(self.written.as_deref().and_then(&find), find(&self.canonical))
    }

    /// What is found for the file it really is, if something is found for both.
    fn find_in_both(&self, find: impl Fn(&[Cow<'_, str>]) -> Option<usize>) -> Option<usize> {
        let by_name = self.written.as_deref().is_none_or(|written| find(written).is_some());
        find(&self.canonical).filter(|_| by_name)
    }
}

/// The rules about commands that raise limits.
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

fn is_web_tool(tool: &str) -> bool {
    matches!(tool, "WebFetch" | "WebSearch" | "WebRequest")
}

#[cfg(test)]
mod tests;
