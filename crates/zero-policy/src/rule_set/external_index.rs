//! Rules for tools of MCP servers and of commands, by the tools that they name.

use std::borrow::Cow;
use std::collections::HashMap;

use zero_core::ToolArguments;

use super::rule_position::{earlier_rule, set_if_empty};
use crate::Verdict;
use crate::rule::{ArgumentPattern, ExternalToolScope};

/// The rules with one verdict.
#[derive(Debug, Default)]
pub(super) struct ExternalRuleIndex {
    every_server: CallRules,
    servers: HashMap<String, CallRules>,
    tools: HashMap<String, CallRules>,
}

/// Rules for the same tools.
#[derive(Debug, Default)]
struct CallRules {
    /// The first rule for all calls.
    bare: Option<usize>,
    /// Rules for calls with certain arguments, in order.
    limited: Vec<(usize, Vec<ArgumentPattern>)>,
}

impl ExternalRuleIndex {
    pub(super) fn add(
        &mut self,
        verdict: Verdict,
        tools: &ExternalToolScope,
        arguments: &[ArgumentPattern],
        place: usize,
    ) {
        let rules = match tools {
            ExternalToolScope::EveryServer => &mut self.every_server,
            ExternalToolScope::Server(server) => {
                self.servers.entry(comparable_name(verdict, server).into_owned()).or_default()
            }
            ExternalToolScope::Tool(name) => {
                self.tools.entry(comparable_name(verdict, name).into_owned()).or_default()
            }
        };
        match arguments {
            [] => set_if_empty(&mut rules.bare, place),
            arguments => rules.limited.push((place, arguments.to_vec())),
        }
    }

    pub(super) fn find(
        &self,
        verdict: Verdict,
        server: &str,
        tool: &str,
        arguments: Option<&ToolArguments>,
    ) -> Option<usize> {
        let found = self.rules_for(verdict, server, tool);
        found.into_iter().flatten().filter_map(|rules| rules.find(verdict, arguments)).min()
    }

    /// The rule for every call of every tool of a server.
    pub(super) fn find_server(&self, verdict: Verdict, server: &str) -> Option<usize> {
        let rules = self.servers.get(comparable_name(verdict, server).as_ref());
        earlier_rule(self.every_server.bare, rules.and_then(|rules| rules.bare))
    }

    pub(super) fn limits_arguments(&self, verdict: Verdict, server: &str, tool: &str) -> bool {
        let found = self.rules_for(verdict, server, tool);
        found.into_iter().flatten().any(|rules| !rules.limited.is_empty())
    }

    fn rules_for(&self, verdict: Verdict, server: &str, tool: &str) -> [Option<&CallRules>; 3] {
        let name = format!("{server}__{tool}");
        [
            Some(&self.every_server),
            self.servers.get(comparable_name(verdict, server).as_ref()),
            self.tools.get(comparable_name(verdict, &name).as_ref()),
        ]
    }
}

impl CallRules {
    fn find(&self, verdict: Verdict, arguments: Option<&ToolArguments>) -> Option<usize> {
        let fits = |patterns: &[ArgumentPattern]| {
            patterns.iter().all(|pattern| pattern.matches(verdict, arguments))
        };
        let limited = self.limited.iter().find(|(_, patterns)| fits(patterns));
        earlier_rule(self.bare, limited.map(|(place, _)| *place))
    }
}

/// A server chooses its own names, so deny and ask rules ignore case.
fn comparable_name(verdict: Verdict, name: &str) -> Cow<'_, str> {
    match verdict {
        Verdict::Allow => Cow::Borrowed(name),
        Verdict::Ask | Verdict::Deny => Cow::Owned(name.to_lowercase()),
    }
}
