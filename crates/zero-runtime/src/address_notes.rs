//! What is the matter with a host about which the user is asked: its address may be one that the answer
//! does not open.
//!
//! An answer about a name opens public addresses. A private or reserved one needs a rule of the user for
//! exactly that address. Where the address is known, the question says so, with the rule.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use zero_exec::egress::suggest_remedy;
use zero_exec::{HostCommands, ResolverConfig};
use zero_policy::{ConnectDeniedError, HostName};

use crate::policy::{Policy, PolicyDecision, Verdict};

/// The port for which a remedy is suggested.
const TLS_PORT: u16 = 443;
/// Longest time for which a question waits for the addresses of default registries, all together.
const LOOKUP_TIME: Duration = Duration::from_secs(2);
/// Most hosts of a question that are compared.
const HOSTS_MAX: usize = 8;

/// A host that the answer to a question does not open.
pub(crate) struct AddressNote {
    /// The host.
    host: String,
    /// Why, and what would open it.
    reason: String,
    /// The address for which a rule is missing; `None` if no rule opens it.
    address: Option<IpAddr>,
}

/// A note for each host of a question that its answer would not open. Looks up no name but those of
/// the default registries of installed programs: any other could carry data.
pub(crate) async fn list_address_notes(
    internet: &ResolverConfig,
    commands: &HostCommands,
    policy: &dyn Policy,
    decision: &PolicyDecision,
) -> Vec<AddressNote> {
    let is_asked = |kind: &str, verdict: Verdict| kind == "net" && verdict == Verdict::Ask;
    let asked = decision.effects.iter().filter(|effect| is_asked(effect.kind, effect.decision));
    let hosts = asked.filter_map(|effect| HostName::from_host(&effect.target).ok());
    let hosts: Vec<HostName> = hosts.take(HOSTS_MAX).collect();
    let registries = hosts.iter().filter(|host| commands.is_default_registry(host));
    look_up_together(internet, registries, LOOKUP_TIME).await;
    let mut notes = Vec::new();
    for host in hosts {
        let may_pin = |address, inside| policy.authorize_address(address, inside);
        let Some(refusal) = internet.find_known_refusal(&host, may_pin) else { continue };
        let remedy = suggest_remedy(&refusal, &host, TLS_PORT);
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        let address = match refusal {
            ConnectDeniedError::PrivateHost { address, may_be_named: true, .. } => address,
            _ => None,
        };
        notes.push(AddressNote {
            host: host.to_string(),
            reason: format!("{refusal}{remedy}"),
            address,
        });
    }
    notes
}

/// Looks up at most [`HOSTS_MAX`] hosts at the same time, as far as they answer in time. The answers are
/// remembered.
async fn look_up_together<'a>(
    internet: &ResolverConfig,
    hosts: impl Iterator<Item = &'a HostName>,
    time: Duration,
) {
    let lookups = Arc::new(Semaphore::new(HOSTS_MAX));
    let names = hosts.filter_map(HostName::name).take(HOSTS_MAX);
    join_all(names.map(|name| internet.look_up(&lookups, name, time))).await;
}

/// Adds the notes to what the user is shown: at each host what is the matter, and to the reason the
/// rules that are missing, each once.
pub(crate) fn add_address_notes(notes: &[AddressNote], shown: &mut PolicyDecision) {
    for effect in shown.effects.iter_mut().filter(|effect| effect.kind == "net") {
        if let Some(note) = notes.iter().find(|note| note.host == effect.target) {
            effect.reason.clone_from(&note.reason);
        }
    }
    shown.reason.push_str(&describe_notes(notes));
}

fn describe_notes(notes: &[AddressNote]) -> String {
    let mut text = String::new();
    let mut said: Vec<Option<IpAddr>> = Vec::new();
    for note in notes {
        if said.contains(&note.address) {
            continue;
        }
        said.push(note.address);
        let others = notes.iter().filter(|other| other.address == note.address).count() - 1;
        let hosts = match others {
            0 => format!("`{}`", note.host),
            others => format!("`{}` and {others} more", note.host),
        };
        let without = note.address.map_or_else(String::new, |address| {
            let rule = HostName::from_address(address);
            format!(" without the rule `WebFetch(domain:{rule})` in your own settings")
        });
        text.push_str(&format!("; {hosts} will be refused{without}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use zero_exec::egress::HostResolver;

    use super::*;

    /// Answers once all hosts are asked for.
    struct JointResolver(Barrier);

    impl HostResolver for JointResolver {
        fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
            self.0.wait();
            Ok(vec![IpAddr::from([10, 0, 0, 1])])
        }
    }

    #[tokio::test]
    async fn hosts_are_looked_up_at_the_same_time() {
        let resolver = Arc::new(JointResolver(Barrier::new(HOSTS_MAX)));
        let internet = ResolverConfig { resolver, inside: |_| Some("a private address") };
        let names = (0..HOSTS_MAX).map(|at| format!("together-{at}.test"));
        let hosts: Vec<HostName> = names.map(|name| HostName::from_host(&name).unwrap()).collect();
        look_up_together(&internet, hosts.iter(), Duration::from_secs(60)).await;
        let refuse = |address, _: Option<&'static str>| {
            let what = "a private address";
            let address = Some(address);
            Err(ConnectDeniedError::PrivateHost { what, address, may_be_named: true })
        };
        for host in &hosts {
            assert!(internet.find_known_refusal(host, refuse).is_some(), "{host}");
        }
    }

    #[test]
    fn missing_rule_is_named_once_for_all_hosts_of_an_address() {
        let note = |host: &str, address: Option<&str>| AddressNote {
            host: host.to_owned(),
            reason: String::new(),
            address: address.map(|address| address.parse().unwrap()),
        };
        let notes = [
            note("a.test", Some("10.0.0.1")),
            note("b.test", Some("10.0.0.1")),
            note("c.test", None),
        ];
        let expected = "; `a.test` and 1 more will be refused without the rule `WebFetch(domain:10.0.0.1)` in your own settings; `c.test` will be refused";
        assert_eq!(describe_notes(&notes), expected);
    }
}
