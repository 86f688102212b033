//! Decides on each connection that a sandboxed command tries to make.
//!
//! A connection is refused unless a rule allows it, and also if a rule says to ask. For some of these
//! refusals the proxy asks the user, while the connection waits: see
//! [`ConnectDeniedError::can_be_approved`].

use std::net::IpAddr;
use std::time::Duration;

use super::PolicyEngine;
use crate::decision::{GrantScope, Verdict};
use crate::host::{HostName, HostPattern, is_web_port};
use crate::rule::PolicyRule;

/// Connections are judged as those of Bash; host rules apply to every tool.
const COMMAND_TOOL: &str = "Bash";

/// A connection to decide on.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// The host.
    pub host: &'a HostName,
    /// The port.
    pub port: u16,
    /// Hosts that settings list for commands, in addition to the rules.
    pub network: &'a [HostPattern],
    /// The grants of the session.
    pub grants: &'a [GrantScope],
    /// Hosts of running calls: each was allowed for its call, by a rule or by the user.
    pub judged: &'a [HostName],
    /// The answer of the user about exactly this host and port while the command ran.
    pub approval: UserApproval,
}

/// Whether the user approved a connection while the command that opens it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserApproval {
    /// They were not asked, or did not approve it.
    #[default]
    Missing,
    /// They approved this host and port.
    Given,
}

/// Why a connection is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectPermission {
    /// The rule that allows it, as written.
    pub rule: String,
    /// The origin of the rule.
    pub source: String,
}

/// Why a connection is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectDeniedError {
    /// No rule allows the host.
    #[error("no rule allows this host")]
    NoRule,
    /// The host is allowed, but the commands that run were judged for other hosts.
    #[error("the command line does not name this host")]
    NotJudged,
    /// The host is allowed, but not on this port.
    #[error("rule `{rule}` allows this host, but not port {port}")]
    Port {
        /// The rule that allows the host.
        rule: String,
        /// The requested port, which the rule does not cover.
        port: u16,
    },
    /// A rule denies the host or asks about it.
    #[error("{}rule `{rule}` {}", describe_resolution(*.address), describe_verdict(*.verdict))]
    Rule {
        /// The verdict of the rule.
        verdict: Verdict,
        /// The rule, as written.
        rule: String,
        /// The origin of the rule.
        place: String,
        /// The address that the host's name resolved to, if the rule is about that address.
        address: Option<IpAddr>,
    },
    /// The host is not on the public internet.
    #[error("{}", describe_private(*.address, .what))]
    PrivateHost {
        /// The kind of address.
        what: &'static str,
        /// The address that the host's name resolved to; absent if the host itself is not public.
        address: Option<IpAddr>,
        /// Whether a rule of the user for exactly this host would allow it.
        may_be_named: bool,
    },
    /// The TLS greeting names another host at the same address.
    #[error("its TLS greeting {named_host_clause}")]
    OtherName {
        /// What the greeting names, as a clause for the message.
        named_host_clause: String,
    },
    /// The user was asked while the command ran, and rejected it.
    #[error("the user rejected it{}", describe_message(.message.as_deref()))]
    Rejected {
        /// The message of the user about it.
        message: Option<String>,
    },
    /// The user was asked while the command ran, and did not answer.
    #[error("the user did not answer the question about it within {} s", .waited.as_secs().max(1))]
    Unanswered {
        /// How long the question was open.
        waited: Duration,
    },
}

fn describe_message(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(" and says: {message}"))
}

fn describe_private(address: Option<IpAddr>, what: &str) -> String {
    match address {
        Some(address) => format!("it resolves to {address}, {what}"),
        None => format!("it is {what}"),
    }
}

fn describe_resolution(address: Option<IpAddr>) -> String {
    address.map_or_else(String::new, |address| format!("it resolves to {address}, and "))
}

fn describe_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Deny => "denies it",
        Verdict::Ask => "requires approval, and the user was not asked",
        Verdict::Allow => "allows it",
    }
}

impl ConnectDeniedError {
    fn from_rule(verdict: Verdict, rule: &PolicyRule) -> Self {
        let (rule, place) = (rule.text.clone(), rule.source.to_string());
        Self::Rule { verdict, rule, place, address: None }
    }

    fn private_host(what: &'static str) -> Self {
        // The same addresses that no rule opens for a fetch.
        let may_be_named = !what.contains("metadata") && !what.contains("link-local");
        Self::PrivateHost { what, address: None, may_be_named }
    }

    /// Whether the user can be asked about the connection: nothing denies it, it only was not judged.
    pub fn can_be_approved(&self) -> bool {
        match self {
            Self::NoRule | Self::NotJudged | Self::Port { .. } => true,
            Self::Rule { verdict, address, .. } => *verdict == Verdict::Ask && address.is_none(),
            Self::PrivateHost { .. }
            | Self::OtherName { .. }
            | Self::Rejected { .. }
            | Self::Unanswered { .. } => false,
        }
    }

    /// The same error for a host whose name resolved to `address`.
    #[must_use]
    pub fn resolved_to(mut self, resolved: IpAddr) -> Self {
        if let Self::PrivateHost { address, .. } | Self::Rule { address, .. } = &mut self {
            *address = Some(resolved);
        }
        self
    }
}

impl PolicyEngine {
    /// Whether a sandboxed command may connect to a host: a rule, a grant, a running call or a
    /// listing must allow it, and no rule may deny it or ask about it. A rule for a host given as an
    /// address must name that address. Rules cover the web ports only, listings also the port that
    /// they name.
    ///
    /// A name for this machine or a private network, such as `localhost`, needs a rule of the user
    /// for exactly that name; a listing in settings is not enough.
    /// [`PolicyEngine::may_connect_to_address`] decides which addresses the host may have.
    ///
    /// A host that was allowed for a running call counts as granted and as asked about: an approval
    /// for one call never permits more than a grant for the session. The user's approval of a
    /// connection that waits also covers its port.
    pub fn may_connect(
        &self,
        connect_request: ConnectRequest<'_>,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let ConnectRequest { host, port, network, grants, judged, approval } = connect_request;
        let is_approved = approval == UserApproval::Given;
        let is_judged = is_approved || judged.contains(host);
        self.check_no_rule(Verdict::Deny, host)?;
        // The user was already asked, and approved.
        if !is_judged {
            self.check_no_rule(Verdict::Ask, host)?;
        }
        let rule = match host.ip() {
            Some(_) => self.rules.find_named_host_rule(Verdict::Allow, COMMAND_TOOL, host),
            None => self.rules.find_host_rule(Verdict::Allow, COMMAND_TOOL, host),
        };
        if let Some(what) = host.private_reason().filter(|_| host.name().is_some()) {
            let refusal = ConnectDeniedError::private_host(what);
            let is_opened = rule.is_some_and(PolicyRule::is_exact_person_rule)
                && matches!(refusal, ConnectDeniedError::PrivateHost { may_be_named: true, .. });
            if !is_opened {
                return Err(refusal);
            }
        }
        let granted = format!("WebFetch(domain:{host})");
        let granted = grants.iter().find(|grant| grant.rule == granted);
        let by_rule = rule.map(|rule| (rule.text.clone(), rule.source.to_string()));
        let by_grant = granted.map(|grant| (grant.rule.clone(), "grant".to_owned()));
        let by_call = is_judged.then(|| (format!("WebFetch(domain:{host})"), "call".to_owned()));
        let on_web = by_rule.or(by_grant).or(by_call);
        let mut listed = network.iter().filter(|pattern| pattern.matches_host(host));
        let listed_here = listed.clone().find(|pattern| pattern.matches_port(port));
        match (on_web, listed_here) {
            (Some((rule, source)), _) if is_web_port(port) => {
                Ok(ConnectPermission { rule, source })
            }
            (_, Some(pattern)) => Ok(ConnectPermission {
                rule: pattern.to_string(),
                source: "sandbox.network".to_owned(),
            }),
            // The question named the port.
            _ if is_approved => {
                Ok(ConnectPermission { rule: format!("{host}:{port}"), source: "call".to_owned() })
            }
            (Some((rule, _)), None) => Err(ConnectDeniedError::Port { rule, port }),
            (None, None) => Err(match listed.next() {
                Some(pattern) => ConnectDeniedError::Port { rule: pattern.to_string(), port },
                None => ConnectDeniedError::NoRule,
            }),
        }
    }

    /// Whether an address of a permitted host may be connected to. `inside` describes the address
    /// if it is not on the public internet; then a rule of the user must name exactly this address,
    /// whatever rules say about the host.
    pub fn may_connect_to_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        let host = HostName::from_address(address);
        self.check_no_rule(Verdict::Deny, &host)?;
        // Rules that ask about hosts were applied before: here only rules for addresses count.
        if let Some(rule) = self.rules.find_named_host_rule(Verdict::Ask, COMMAND_TOOL, &host) {
            return Err(ConnectDeniedError::from_rule(Verdict::Ask, rule));
        }
        let Some(what) = inside else { return Ok(()) };
        let refusal = ConnectDeniedError::private_host(what);
        let rule = self.rules.find_named_host_rule(Verdict::Allow, COMMAND_TOOL, &host);
        match refusal {
            ConnectDeniedError::PrivateHost { may_be_named: true, .. }
                if rule.is_some_and(PolicyRule::is_exact_person_rule) =>
            {
                Ok(())
            }
            refusal => Err(refusal),
        }
    }

    /// Whether [`PolicyEngine::may_connect`] can allow anything, with these grants and without
    /// hosts listed in settings.
    pub fn can_connect_anywhere(&self, grants: &[GrantScope]) -> bool {
        let is_host = |grant: &GrantScope| grant.rule.starts_with("WebFetch(");
        self.rules.allows_hosts() || grants.iter().any(is_host)
    }

    fn check_no_rule(&self, verdict: Verdict, host: &HostName) -> Result<(), ConnectDeniedError> {
        let rule = self.rules.find_host_rule(verdict, COMMAND_TOOL, host);
        rule.map_or(Ok(()), |rule| Err(ConnectDeniedError::from_rule(verdict, rule)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::PolicyEngineConfig;
    use crate::rule::{RuleOwner, RuleSource};

    /// Rules such as `allow WebFetch(domain:a.com)`; the prefix `theirs` makes it a project rule.
    fn build_engine(rules: &[&str]) -> PolicyEngine {
        let rule = |text: &&str| {
            let (owner, text) = match text.strip_prefix("theirs ") {
                Some(text) => (RuleOwner::Project, text),
                None => (RuleOwner::User, *text),
            };
            let (verdict, text) = text.split_once(' ').unwrap();
            let verdict = Verdict::ALL.into_iter().find(|known| known.as_str() == verdict).unwrap();
            PolicyRule::parse(
                text,
                verdict,
                RuleSource { name: "test".to_owned(), line: None, owner },
            )
            .unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() })
    }

    #[track_caller]
    fn check(rules: &[&str], network: &[&str], target: &str, expected: &str) {
        let network: Vec<_> =
            network.iter().map(|text| HostPattern::parse(text).unwrap()).collect();
        let (host, port) = target.rsplit_once(':').unwrap();
        let (host, port) = (HostName::from_host(host).unwrap(), port.parse().unwrap());
        let request = ConnectRequest {
            host: &host,
            port,
            network: &network,
            grants: &[],
            judged: &[],
            approval: UserApproval::Missing,
        };
        let outcome = match build_engine(rules).may_connect(request) {
            Ok(permit) => format!("{} of {}", permit.rule, permit.source),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(outcome, expected, "{rules:?} {network:?} {target}");
    }

    const ALLOW_A: &str = "allow WebFetch(domain:a.com)";
    const NO_RULE: &str = "no rule allows this host";

    #[test]
    fn connect_without_allow_is_denied() {
        check(&[], &[], "a.com:443", NO_RULE);
        check(&[ALLOW_A], &[], "a.com:443", "WebFetch(domain:a.com) of test");
        check(&[ALLOW_A], &[], "A.com.:80", "WebFetch(domain:a.com) of test");
        check(&[ALLOW_A], &[], "b.com:443", NO_RULE);
        check(&[ALLOW_A], &[], "x.a.com:443", NO_RULE);
        check(&[], &["b.com"], "b.com:443", "b.com of sandbox.network");
        check(&["allow WebFetch"], &[], "b.com:443", "WebFetch of test");
        check(&["allow Bash", "allow Read"], &[], "b.com:443", NO_RULE);
    }

    #[test]
    fn connect_to_other_port_needs_listed_port() {
        let port = "rule `WebFetch(domain:a.com)` allows this host, but not port 22";
        check(&[ALLOW_A], &[], "a.com:22", port);
        check(&[ALLOW_A], &["a.com:22"], "a.com:22", "a.com:22 of sandbox.network");
        check(
            &[],
            &["a.com:22"],
            "a.com:443",
            "rule `a.com:22` allows this host, but not port 443",
        );
        check(&[], &["a.com:22", "a.com"], "a.com:443", "a.com of sandbox.network");
    }

    #[test]
    fn deny_and_ask_rules_override_every_allow() {
        let deny = "rule `WebFetch(domain:*.a.com)` denies it";
        check(&[ALLOW_A, "deny WebFetch(domain:*.a.com)"], &["x.a.com"], "x.a.com:443", deny);
        let ask = "rule `WebFetch(domain:a.com)` requires approval, and the user was not asked";
        check(&[ALLOW_A, "ask WebFetch(domain:a.com)"], &["a.com"], "a.com:443", ask);
        check(&[ALLOW_A, "deny WebFetch"], &["a.com"], "a.com:443", "rule `WebFetch` denies it");
    }

    #[test]
    fn ip_address_needs_rule_naming_it() {
        check(&["allow WebFetch"], &["*"], "93.184.216.34:443", NO_RULE);
        let named = "allow WebFetch(domain:93.184.216.34)";
        check(&[named], &[], "0x5db8d822:443", "WebFetch(domain:93.184.216.34) of test");
        check(
            &[],
            &["[2606:4700::1111]:53"],
            "[2606:4700::1111]:53",
            "[2606:4700::1111]:53 of sandbox.network",
        );
    }

    #[test]
    fn local_host_name_needs_exact_person_rule() {
        let local = "allow WebFetch(domain:localhost)";
        check(&["allow WebFetch"], &["localhost"], "localhost:80", "it is this machine");
        check(&[local], &[], "LOCALHOST.:80", "WebFetch(domain:localhost) of test");
        check(&[&format!("theirs {local}")], &[], "localhost:80", "it is this machine");
        check(
            &["allow WebFetch(domain:metadata.google.internal)"],
            &[],
            "metadata.google.internal:80",
            "it is a cloud metadata service",
        );
    }

    #[track_caller]
    fn check_address(rules: &[&str], address: &str, expected: &str) {
        let address: IpAddr = address.parse().unwrap();
        let inside = HostName::from_address(address).private_reason();
        let outcome = match build_engine(rules).may_connect_to_address(address, inside) {
            Ok(()) => "fine".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(outcome, expected, "{rules:?} {address}");
    }

    #[test]
    fn private_address_needs_exact_person_rule() {
        check_address(&[], "93.184.216.34", "fine");
        check_address(&["allow WebFetch"], "127.0.0.1", "it is this machine");
        check_address(&["allow WebFetch(domain:127.0.0.1)"], "127.0.0.1", "fine");
        check_address(&["allow WebFetch(domain:127.0.0.1)"], "::ffff:127.0.0.1", "fine");
        check_address(&["allow WebFetch(domain:127.0.0.1)"], "127.0.0.2", "it is this machine");
        check_address(&["allow WebFetch(domain:localhost)"], "127.0.0.1", "it is this machine");
        check_address(
            &["theirs allow WebFetch(domain:127.0.0.1)"],
            "127.0.0.1",
            "it is this machine",
        );
        check_address(
            &["allow WebFetch(domain:169.254.169.254)"],
            "169.254.169.254",
            "it is a cloud metadata service",
        );
        check_address(&["ask WebFetch"], "93.184.216.34", "fine");
        check_address(
            &["ask WebFetch(domain:93.184.216.34)"],
            "93.184.216.34",
            "rule `WebFetch(domain:93.184.216.34)` requires approval, and the user was not asked",
        );
        check_address(
            &["deny WebFetch(domain:93.184.216.34)"],
            "93.184.216.34",
            "rule `WebFetch(domain:93.184.216.34)` denies it",
        );
    }

    #[test]
    fn session_grant_allows_connect() {
        let host = HostName::from_host("a.com").unwrap();
        let grants =
            [GrantScope { rule: "WebFetch(domain:a.com)".to_owned(), folder: None, program: None }];
        let request = ConnectRequest {
            host: &host,
            port: 443,
            network: &[],
            grants: &grants,
            judged: &[],
            approval: UserApproval::Missing,
        };
        assert_eq!(build_engine(&[]).may_connect(request).unwrap().source, "grant");
        let denied = build_engine(&["ask WebFetch(domain:a.com)"]).may_connect(request);
        assert!(matches!(denied, Err(ConnectDeniedError::Rule { .. })));
    }

    #[test]
    fn host_approved_for_call_allows_connect() {
        #[track_caller]
        fn check(rules: &[&str], target: &str, expected: &str) {
            let judged = ["a.com", "93.184.216.34", "localhost"]
                .map(|host| HostName::from_host(host).unwrap());
            let (host, port) = target.rsplit_once(':').unwrap();
            let (host, port) = (HostName::from_host(host).unwrap(), port.parse().unwrap());
            let request = ConnectRequest {
                host: &host,
                port,
                network: &[],
                grants: &[],
                judged: &judged,
                approval: UserApproval::Missing,
            };
            let outcome = match build_engine(rules).may_connect(request) {
                Ok(permit) => format!("{} of {}", permit.rule, permit.source),
                Err(refusal) => refusal.to_string(),
            };
            assert_eq!(outcome, expected, "{rules:?} {target}");
        }
        check(&[], "a.com:443", "WebFetch(domain:a.com) of call");
        check(&["ask WebFetch(domain:a.com)"], "a.com:443", "WebFetch(domain:a.com) of call");
        check(&["deny WebFetch"], "a.com:443", "rule `WebFetch` denies it");
        check(&[], "a.com:22", "rule `WebFetch(domain:a.com)` allows this host, but not port 22");
        check(&[], "x.a.com:443", NO_RULE);
        check(&[], "93.184.216.34:443", "WebFetch(domain:93.184.216.34) of call");
        check(&[], "localhost:80", "it is this machine");
    }

    #[test]
    fn approval_covers_host_and_port_but_overrides_no_denial() {
        #[track_caller]
        fn check(rules: &[&str], target: &str, expected: &str) {
            let (host, port) = target.rsplit_once(':').unwrap();
            let (host, port) = (HostName::from_host(host).unwrap(), port.parse().unwrap());
            let approval = UserApproval::Given;
            let request = ConnectRequest {
                host: &host,
                port,
                network: &[],
                grants: &[],
                judged: &[],
                approval,
            };
            let outcome = match build_engine(rules).may_connect(request) {
                Ok(permit) => format!("{} of {}", permit.rule, permit.source),
                Err(refusal) => refusal.to_string(),
            };
            assert_eq!(outcome, expected, "{rules:?} {target}");
        }
        check(&[], "a.com:443", "WebFetch(domain:a.com) of call");
        check(&[], "a.com:22", "a.com:22 of call");
        check(&[ALLOW_A], "a.com:22", "a.com:22 of call");
        check(&["ask WebFetch"], "a.com:443", "WebFetch(domain:a.com) of call");
        check(
            &["deny WebFetch(domain:*.com)"],
            "a.com:443",
            "rule `WebFetch(domain:*.com)` denies it",
        );
        check(&[], "localhost:80", "it is this machine");
        check(&[], "metadata.google.internal:80", "it is a cloud metadata service");
    }

    #[test]
    fn only_refusal_without_denial_can_be_approved() {
        let rule = |verdict, address: Option<&str>| ConnectDeniedError::Rule {
            verdict,
            rule: "WebFetch".to_owned(),
            place: "test".to_owned(),
            address: address.map(|address| address.parse().unwrap()),
        };
        for (refusal, expected) in [
            (ConnectDeniedError::NoRule, true),
            (ConnectDeniedError::NotJudged, true),
            (ConnectDeniedError::Port { rule: String::new(), port: 22 }, true),
            (rule(Verdict::Ask, None), true),
            (rule(Verdict::Ask, Some("93.184.216.34")), false),
            (rule(Verdict::Deny, None), false),
            (ConnectDeniedError::private_host("this machine"), false),
            (ConnectDeniedError::OtherName { named_host_clause: String::new() }, false),
            (ConnectDeniedError::Rejected { message: None }, false),
            (ConnectDeniedError::Unanswered { waited: Duration::ZERO }, false),
        ] {
            assert_eq!(refusal.can_be_approved(), expected, "{refusal:?}");
        }
    }

    #[test]
    fn can_connect_anywhere_reports_any_allow() {
        #[track_caller]
        fn check(rules: &[&str], grant: Option<&str>, expected: bool) {
            let grant =
                grant.map(|rule| GrantScope { rule: rule.to_owned(), folder: None, program: None });
            let grants: Vec<GrantScope> = grant.into_iter().collect();
            assert_eq!(
                build_engine(rules).can_connect_anywhere(&grants),
                expected,
                "{rules:?} {grants:?}"
            );
        }
        check(&[], None, false);
        check(&[ALLOW_A], None, true);
        check(&["allow WebFetch"], None, true);
        check(&["deny WebFetch", "ask WebFetch(domain:a.com)", "allow Bash"], None, false);
        check(&[], Some("WebFetch(domain:a.com)"), true);
        check(&[], Some("Bash(curl:*)"), false);
    }
}
