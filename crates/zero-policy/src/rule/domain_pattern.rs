//! Hosts in a rule: `example.com`, `*.example.com`, `a.*.com`, `*`, an address.

use std::net::IpAddr;

use super::rule_error::RuleError;
use crate::host::{self, HostName};

/// The hosts that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainPattern {
    /// Every host.
    Any,
    /// One name, in the form of a [`HostName`].
    Name(String),
    /// Exactly this IP address, written as an address; never a name that resolves to it.
    Address(IpAddr),
    /// Every name beneath this one, at any depth, but not itself.
    Beneath(String),
    /// Labels; `*` as the first matches one or more, `*` elsewhere exactly one.
    Labels(Vec<String>),
}

impl DomainPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Domain(text.to_owned());
        let domain = text.strip_suffix('.').unwrap_or(text);
        if domain == "*" {
            return Ok(Self::Any);
        }
        if !domain.contains('*') {
            let host = domain
                .parse()
                .map(|address| Ok(HostName::from_address(IpAddr::V6(address))))
                .unwrap_or_else(|_| HostName::from_host(domain))
                .map_err(|_| wrong())?;
            return Ok(match host.ip() {
                Some(address) => Self::Address(address),
                None => Self::Name(host.to_string()),
            });
        }
        let label = |label: &str| match label {
            "*" => Ok("*".to_owned()),
            label => host::canonical_label(label).map_err(|_| wrong()),
        };
        let labels: Vec<String> = domain.split('.').map(label).collect::<Result<_, _>>()?;
        match labels.split_first() {
            Some((first, rest)) if first == "*" && !rest.iter().any(|label| label == "*") => {
                Ok(Self::Beneath(rest.join(".")))
            }
            _ => Ok(Self::Labels(labels)),
        }
    }

    /// Whether a host matches. An address matches only if the rule names it: `*` matches names.
    pub(crate) fn matches_host(&self, host: &HostName) -> bool {
        match (self, host.name()) {
            (Self::Address(address), _) => host.ip() == Some(*address),
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Name(wanted), Some(name)) => wanted == name,
            (Self::Beneath(parent), Some(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Self::Labels(labels), Some(name)) => match_labels(labels, name),
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Address(_))
    }
}

/// Whether a name matches [`DomainPattern::Labels`].
pub(crate) fn match_labels(pattern: &[String], name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let (first, rest) = match pattern.split_first() {
        // Several labels: the others must match the end, and at least one must remain.
        Some((first, rest)) if first == "*" && labels.len() >= pattern.len() => {
            (labels.len() - rest.len(), rest)
        }
        _ if labels.len() == pattern.len() => (0, pattern),
        _ => return false,
    };
    labels.iter().skip(first).zip(rest).all(|(label, wanted)| wanted == "*" || wanted == label)
}
