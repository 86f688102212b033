//! All rules of a session, arranged so that looking one up does not depend on how many there are.
//!
//! A lookup answers with the first rule, in the order they were given, that matches; which list
//! wins is for the engine to say. Deny and ask rules are read generously and allow rules strictly:
//! a rule that is read wrongly may ask once too often, but must not let something through.

mod commands;
mod hosts;
mod literals;
mod options;
mod paths;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::Verdict;
use crate::host::HostName;
use crate::path::lexical;
use crate::program::Access;
use crate::rule::{Pattern, Rule, Target};
use crate::shell::Arg;

use commands::Commands;
use hosts::Hosts;
use paths::{Coverage, Paths};

/// Whether names that differ only in case are one file here.
pub(crate) const IGNORE_CASE: bool = cfg!(any(target_os = "macos", target_os = "windows"));

/// Where the patterns of rules start.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The folders of the workspace, links settled.
    pub roots: Vec<PathBuf>,
    /// The home folder, links settled.
    pub home: Option<PathBuf>,
}

/// A command as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct CommandWords<'a> {
    /// The program as it is written, such as `/usr/bin/git`, when `words` has its name only.
    pub program_path: Option<&'a str>,
    /// The program and its arguments.
    pub words: &'a [Arg],
}

impl<'a> CommandWords<'a> {
    /// A program, as it is written, with its arguments.
    pub fn new(words: &'a [Arg]) -> Self {
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
pub struct Rules {
    rules: Vec<Rule>,
    allow: Lists,
    ask: Lists,
    deny: Lists,
    /// Allow rules that name one command without a wildcard.
    exact: Commands,
    /// The same by their text.
    lines: HashMap<String, usize>,
}

/// The rules with one verdict, by what they are about. Numbers are places in [`Rules::rules`].
#[derive(Debug, Default)]
struct Lists {
    everything: Option<usize>,
    every_server: Option<usize>,
    servers: HashMap<String, usize>,
    mcp_tools: HashMap<String, usize>,
    tools: HashMap<&'static str, usize>,
    commands: Commands,
    paths: Paths,
    hosts: HashMap<&'static str, Hosts>,
}

impl Rules {
    /// Arranges rules, given in the order in which they are to be found.
    pub fn new(rules: Vec<Rule>, places: Places) -> Self {
        let lists = |verdict| Lists::new(&rules, verdict, &places);
        let (allow, ask, deny) = (lists(Verdict::Allow), lists(Verdict::Ask), lists(Verdict::Deny));
        let (mut exact, mut lines) = (Commands::new(Verdict::Allow), HashMap::new());
        for (place, rule) in rules.iter().enumerate() {
            if let (Verdict::Allow, true, Some((command, line))) =
                (rule.verdict, rule.is_exact(), rule.command())
            {
                exact.add(command, place);
                lines.entry(line.to_owned()).or_insert(place);
            }
        }
        exact.finish();
        Self { rules, allow, ask, deny, exact, lines }
    }

    /// All rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Allow rules that let nearly anything run, each with the reason.
    pub fn warnings(&self) -> Vec<(&Rule, String)> {
        self.rules.iter().filter_map(|rule| Some((rule, rule.danger()?))).collect()
    }

    /// The rule for a command.
    pub fn command(&self, verdict: Verdict, words: &CommandWords<'_>) -> Option<&Rule> {
        let lists = self.lists(verdict);
        let bare = lists.tool("Bash");
        self.rule(first(bare, lists.commands.find(words)))
    }

    /// The allow rule that names a command without a wildcard.
    pub fn exact_command(&self, words: &CommandWords<'_>) -> Option<&Rule> {
        self.rule(self.exact.find(words))
    }

    /// The allow rule whose command is this line, letter by letter.
    pub fn whole_line(&self, line: &str) -> Option<&Rule> {
        self.rule(self.lines.get(line).copied())
    }

    /// Whether a rule may deny some file to somebody.
    pub fn denies_paths(&self) -> bool {
        let bare = ["Read", "Edit", "Write", "Delete", "Grep", "Glob", "LS", "ReadMany", "LSP"];
        self.deny.everything.is_some()
            || !self.deny.paths.is_empty()
            || bare.iter().any(|tool| self.deny.tools.contains_key(tool))
    }

    /// The rule for a file that `tool` touches.
    ///
    /// A deny or ask rule needs to match one of the views, an allow rule both.
    pub fn path(
        &self,
        verdict: Verdict,
        tool: &str,
        access: Access,
        path: &PathViews,
    ) -> Option<&Rule> {
        let lists = self.lists(verdict);
        let coverages = Coverage::of(verdict, tool, access);
        let bare = coverages
            .iter()
            .flat_map(|coverage| coverage.tools())
            .fold(lists.everything, |found, name| first(found, lists.tools.get(name).copied()));
        let find = |path: &Path| {
            let covering =
                coverages.iter().filter_map(|coverage| lists.paths.find(*coverage, path));
            first(bare, covering.min())
        };
        let (written, canonical) = (find(&lexical(&path.written)), find(&lexical(&path.canonical)));
        self.rule(match verdict {
            Verdict::Allow => written.and(canonical),
            Verdict::Ask | Verdict::Deny => first(written, canonical),
        })
    }

    /// A deny or ask rule for a file that an absolute shell pattern may stand for, judged by
    /// names alone: `/w/.e*` may be `.env`.
    pub fn glob_could_name(
        &self,
        verdict: Verdict,
        access: Access,
        pattern: &str,
    ) -> Option<&Rule> {
        let lists = self.lists(verdict);
        let coverages = Coverage::of(verdict, "Bash", access);
        self.rule(lists.paths.could_be_named_by(&coverages, pattern))
    }

    /// The rule for a host that `tool` talks to.
    pub fn host(&self, verdict: Verdict, tool: &str, host: &HostName) -> Option<&Rule> {
        let lists = self.lists(verdict);
        // What may be fetched may be reached in any other way too.
        let found = ["WebFetch", tool].iter().fold(lists.everything, |found, tool| {
            let bare = is_web(tool).then(|| lists.tools.get(tool).copied()).flatten();
            let by_host = lists.hosts.get(tool).and_then(|hosts| hosts.find(host));
            first(first(found, bare), by_host)
        });
        self.rule(found)
    }

    /// The rule that names a tool, without a pattern.
    pub fn tool(&self, verdict: Verdict, tool: &str) -> Option<&Rule> {
        match tool.strip_prefix("mcp__").unwrap_or(tool).split_once("__") {
            Some((server, tool)) => self.mcp(verdict, server, tool),
            None => self.rule(self.lists(verdict).tool(tool)),
        }
    }

    /// The rule for a tool of an MCP server.
    pub fn mcp(&self, verdict: Verdict, server: &str, tool: &str) -> Option<&Rule> {
        let lists = self.lists(verdict);
        let by_tool = lists.mcp_tools.get(&format!("{server}__{tool}")).copied();
        let by_server = lists.servers.get(server).copied();
        let of_all = first(lists.everything, lists.every_server);
        self.rule(first(of_all, first(by_server, by_tool)))
    }

    fn lists(&self, verdict: Verdict) -> &Lists {
        match verdict {
            Verdict::Allow => &self.allow,
            Verdict::Ask => &self.ask,
            Verdict::Deny => &self.deny,
        }
    }

    fn rule(&self, place: Option<usize>) -> Option<&Rule> {
        self.rules.get(place?)
    }
}

impl Lists {
    fn new(rules: &[Rule], verdict: Verdict, places: &Places) -> Self {
        let mut lists = Self { commands: Commands::new(verdict), ..Self::default() };
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.verdict == verdict) {
            match &rule.target {
                Target::Everything => keep_first(&mut lists.everything, place),
                Target::EveryServer => keep_first(&mut lists.every_server, place),
                Target::Server(server) => {
                    lists.servers.entry(server.clone()).or_insert(place);
                }
                Target::McpTool(name) => {
                    lists.mcp_tools.entry(name.clone()).or_insert(place);
                }
                Target::Tool { tool, pattern: None } => {
                    lists.tools.entry(tool).or_insert(place);
                }
                Target::Tool { tool, pattern: Some(pattern) } => match pattern {
                    Pattern::Command(command) => lists.commands.add(command, place),
                    Pattern::Path(path) => {
                        lists.paths.add(Coverage::of_rule(tool), verdict, path, places, place);
                    }
                    Pattern::Domain(domain) => {
                        lists.hosts.entry(tool).or_default().add(domain, place);
                    }
                },
            }
        }
        lists.commands.finish();
        lists.paths.finish();
        lists
    }

    fn tool(&self, tool: &str) -> Option<usize> {
        first(self.everything, self.tools.get(tool).copied())
    }
}

/// The earlier of two rules.
fn first(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a.into_iter().chain(b).min()
}

fn keep_first(slot: &mut Option<usize>, place: usize) {
    slot.get_or_insert(place);
}

fn is_web(tool: &str) -> bool {
    matches!(tool, "WebFetch" | "WebSearch" | "WebRequest")
}

#[cfg(test)]
mod tests;
