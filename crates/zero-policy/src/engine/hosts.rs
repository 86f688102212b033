//! Evaluates connections to hosts.

use zero_core::RiskLevel;

use super::{CommandHosts, EffectAssessment, RequestEvaluator};
use crate::command_access::ChangeScope;
use crate::decision::{GrantScope, Verdict};
use crate::host::HostName;
use crate::rule::{PolicyRule, RuleOwner};
use crate::rule_set::RuleSet;
use crate::shell::ShellArg;

/// The tool that can send data.
const SEND_TOOL: &str = "WebRequest";

impl<'a> RequestEvaluator<'a> {
    /// Evaluates a host given as text. `covered` is the rule that allows the command.
    pub(super) fn evaluate_host(
        &self,
        text: &str,
        covered: Option<&'a PolicyRule>,
    ) -> EffectAssessment {
        let (judged, changes) = match HostName::parse(text) {
            Ok(host) => (self.evaluate_host_name(&host, covered), ChangeScope::Host(host)),
            Err(error) => {
                let reason = error.to_string();
                let ask = EffectAssessment::new("net", text.to_owned(), Verdict::Ask, reason);
                (ask, ChangeScope::UnknownHosts)
            }
        };
        EffectAssessment { changes, ..judged.with_risk(RiskLevel::Medium) }
    }

    /// Evaluates a host that a command names.
    pub(super) fn evaluate_command_host(
        &self,
        host: &ShellArg,
        covered: Option<&'a PolicyRule>,
    ) -> EffectAssessment {
        match host {
            ShellArg::Known(host) => self.evaluate_host_text(host, covered),
            // The brackets of an IPv6 address and the question mark of a query look like globs. No
            // file has such a name, so the shell passes them on unchanged.
            ShellArg::Pattern(pattern) => {
                self.evaluate_host_text(&pattern.replace('\\', ""), covered)
            }
            ShellArg::Unknown { starts_with, .. } => {
                let reason = "the host is only known at run time".to_owned();
                let ask = EffectAssessment::new("net", host.to_string(), Verdict::Ask, reason);
                // `https://host/$path` has a known host.
                let named = starts_with
                    .split_once("://")
                    .is_some_and(|(_, rest)| rest.contains(['/', '?', '#']));
                match named {
                    true => self.evaluate_host_text(starts_with, covered),
                    false => EffectAssessment {
                        changes: ChangeScope::Unknown,
                        ..ask.with_risk(RiskLevel::Medium)
                    },
                }
            }
        }
    }

    /// The same for a known text.
    fn evaluate_host_text(&self, text: &str, covered: Option<&'a PolicyRule>) -> EffectAssessment {
        let opened = HostName::parse(text).ok().and_then(|host| self.evaluate_listed_host(&host));
        opened.unwrap_or_else(|| self.evaluate_host(text, covered))
    }

    /// Hosts that settings open to commands if no rule decides: listed hosts, and the loopback
    /// network of the session, which is not this machine's.
    fn evaluate_listed_host(&self, host: &HostName) -> Option<EffectAssessment> {
        let CommandHosts { listed, own_loopback } = &self.engine.network;
        let tool = self.request.tool;
        let ruled = self.find_strictest_rule(|rules: &'a RuleSet, verdict| {
            rules.find_host_rule(verdict, tool, host)
        });
        if ruled.is_some_and(|(verdict, _)| verdict != Verdict::Allow) {
            return None;
        }
        let reason = match host.private_reason() {
            Some("this machine") if *own_loopback => {
                "it is the loopback network of the session's commands"
            }
            None if listed.iter().any(|pattern| pattern.matches_host(host)) => {
                "`sandbox.network` lists it"
            }
            _ => return None,
        };
        let judged =
            EffectAssessment::new("net", host.to_string(), Verdict::Allow, reason.to_owned());
        let changes = ChangeScope::Host(host.clone());
        Some(EffectAssessment { changes, ..judged.with_risk(RiskLevel::Medium) })
    }

    fn evaluate_host_name(
        &self,
        host: &HostName,
        covered: Option<&'a PolicyRule>,
    ) -> EffectAssessment {
        let target = host.to_string();
        let tool = self.request.tool;
        let ruled = self.find_strictest_rule(|rules: &'a RuleSet, verdict| {
            rules.find_host_rule(verdict, tool, host)
        });
        if let Some(why) = host.private_reason() {
            // Only an exact rule of the user opens a private host, for local development.
            let may_be_named = !why.contains("metadata") && !why.contains("link-local");
            let named = ruled.is_some_and(|(verdict, rule)| {
                verdict == Verdict::Allow && rule.is_exact() && rule.source.owner == RuleOwner::User
            });
            if let Some((verdict @ Verdict::Deny, rule)) = ruled {
                return EffectAssessment::from_rule("net", target, verdict, rule);
            }
            if !(named && may_be_named) {
                let reason = match may_be_named {
                    true => format!(
                        "it is {why}; to allow it, add `WebFetch(domain:{host})` to your own settings"
                    ),
                    false => format!("it is {why}"),
                };
                return EffectAssessment::new("net", target, Verdict::Deny, reason);
            }
        }
        let sends = tool == SEND_TOOL;
        // A rule that allows fetching does not allow sending: that needs a rule for this tool.
        let ruled = match ruled {
            Some((verdict @ Verdict::Allow, _)) if sends => {
                let own = self.engine.rules.find_tool_host_rule(verdict, tool, host);
                own.map(|rule| (verdict, rule))
            }
            ruled => ruled,
        };
        // A command rule with a URL covers only that URL's host.
        let covered = covered
            .filter(|rule| !rule.text.contains("://") || rule.text.contains(target.as_str()));
        match (ruled, covered) {
            (Some((verdict, rule)), _) => EffectAssessment::from_rule("net", target, verdict, rule),
            (None, Some(rule)) => EffectAssessment::from_rule("net", target, Verdict::Allow, rule),
            (None, None) => {
                let rule = format!("WebFetch(domain:{host})");
                let reason = "no rule allows this host".to_owned();
                // Every request differs and is shown before it is sent, so it cannot be granted.
                let grant = (!sends).then_some(GrantScope { rule, folder: None, program: None });
                EffectAssessment {
                    grant,
                    ..EffectAssessment::new("net", target, Verdict::Ask, reason)
                }
            }
        }
    }
}
