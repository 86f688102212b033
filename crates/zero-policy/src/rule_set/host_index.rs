//! Index of rules for hosts, by name.

use std::collections::HashMap;
use std::net::IpAddr;

use super::rule_position::{earlier_rule, set_if_empty};
use crate::host::HostName;
use crate::rule::{DomainPattern, match_labels};

#[derive(Debug, Default)]
pub(super) struct HostRuleIndex {
    any: Option<usize>,
    names: HashMap<String, usize>,
    addresses: HashMap<IpAddr, usize>,
    subdomains: HashMap<String, usize>,
    labels: Vec<(Vec<String>, usize)>,
}

impl HostRuleIndex {
    pub(super) fn add(&mut self, domain: &DomainPattern, place: usize) {
        match domain {
            DomainPattern::Any => set_if_empty(&mut self.any, place),
            DomainPattern::Name(name) => {
                self.names.entry(name.clone()).or_insert(place);
            }
            DomainPattern::Address(address) => {
                self.addresses.entry(*address).or_insert(place);
            }
            DomainPattern::Beneath(name) => {
                self.subdomains.entry(name.clone()).or_insert(place);
            }
            DomainPattern::Labels(labels) => self.labels.push((labels.clone(), place)),
        }
    }

    pub(super) fn find(&self, host: &HostName) -> Option<usize> {
        earlier_rule(self.any, self.find_named(host))
    }

    /// The same, without rules for all hosts.
    pub(super) fn find_named(&self, host: &HostName) -> Option<usize> {
        if let Some(address) = host.ip() {
            return self.addresses.get(&address).copied();
        }
        let name = host.name()?;
        let parents = name.match_indices('.').filter_map(|(dot, _)| name.get(dot + 1..));
        let beneath = parents.filter_map(|parent| self.subdomains.get(parent).copied()).min();
        let by_name = self.names.get(name).copied();
        let by_labels =
            self.labels.iter().find(|(labels, _)| match_labels(labels, name)).map(|(_, at)| *at);
        earlier_rule(by_name, earlier_rule(beneath, by_labels))
    }
}
