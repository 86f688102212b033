//! Connections that were recently refused or failed, for the results of commands.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_core::CallId;
use zero_policy::{ConnectDeniedError, HostName};

use super::proxy_error::suggest_remedy;

/// Most refusals that are stored with their host.
const KEPT_MAX: usize = 256;
/// Most hosts that one summary names.
const NAMED_MAX: usize = 8;

/// A position in the lists of refused and of failed connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCursor {
    refused: u64,
    failed: u64,
}

/// The connections refused since a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalSummary {
    /// The number of connections, including those that are no longer stored.
    pub count: u64,
    /// The hosts, each once, in the order of their first refusal; at most eight.
    pub hosts: Vec<RefusedHost>,
    /// The hosts that were allowed and could not be reached, each once; at most eight.
    pub failed_hosts: Vec<FailedHost>,
}

impl RefusalSummary {
    /// Adds a connection that was not made.
    pub(super) fn add(&mut self, refused: RefusedHost) {
        self.count += 1;
        push_host(&mut self.hosts, refused, RefusedHost::target);
    }

    /// One sentence per host, with the command that allows it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        if self.hosts.len() == NAMED_MAX {
            notes.push(format!(
                "network: {} connections were refused; run `zero audit tail` to see them",
                self.count
            ));
        }
        notes
    }

    /// One sentence per host that was allowed and could not be reached. Programs show only that the
    /// proxy answered 502.
    pub fn failure_notes(&self) -> Vec<String> {
        self.failed_hosts.iter().map(ToString::to_string).collect()
    }
}

/// Adds a host that is not in the list yet, as long as there is room.
fn push_host<T>(hosts: &mut Vec<T>, new: T, target: impl Fn(&T) -> (&HostName, u16)) {
    let is_known = hosts.iter().any(|other| target(other) == target(&new));
    if hosts.len() < NAMED_MAX && !is_known {
        hosts.push(new);
    }
}

/// A host that a command was not allowed to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// The host that the command asked for, by name or address.
    pub host: HostName,
    /// The TCP port that the command asked for.
    pub port: u16,
    /// Why the connection was refused.
    pub refusal: ConnectDeniedError,
    /// The call that opened the connection, if known.
    pub call: Option<CallId>,
}

impl RefusedHost {
    fn target(&self) -> (&HostName, u16) {
        (&self.host, self.port)
    }
}

/// A host that a command was allowed to connect to, and that could not be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedHost {
    /// The host that the command asked for, by name or address.
    pub host: HostName,
    /// The TCP port that the command asked for.
    pub port: u16,
    /// What failed, such as the lookup of its name.
    pub failure: String,
    /// The call that opened the connection, if known.
    pub call: Option<CallId>,
}

impl FailedHost {
    fn target(&self) -> (&HostName, u16) {
        (&self.host, self.port)
    }
}

impl fmt::Display for FailedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, failure, .. } = self;
        write!(f, "connection: {host}:{port} is allowed, but zero's proxy {failure}")
    }
}

impl fmt::Display for RefusedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, refusal, .. } = self;
        write!(f, "network: {host}:{port} was refused: {refusal}")?;
        match suggest_remedy(refusal, host, *port) {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    recent: Mutex<RecentRefusals>,
}

#[derive(Debug, Default)]
struct RecentRefusals {
    count: u64,
    latest: VecDeque<RefusedHost>,
    failed_count: u64,
    latest_failed: VecDeque<FailedHost>,
}

impl RefusalLog {
    pub(super) fn add(&self, refused: RefusedHost) {
        let mut recent = self.lock_recent();
        recent.count += 1;
        recent.latest.push_back(refused);
        if recent.latest.len() > KEPT_MAX {
            recent.latest.pop_front();
        }
    }

    pub(super) fn add_failure(&self, failed: FailedHost) {
        let mut recent = self.lock_recent();
        recent.failed_count += 1;
        recent.latest_failed.push_back(failed);
        if recent.latest_failed.len() > KEPT_MAX {
            recent.latest_failed.pop_front();
        }
    }

    pub(super) fn cursor(&self) -> RefusalCursor {
        let recent = self.lock_recent();
        RefusalCursor { refused: recent.count, failed: recent.failed_count }
    }

    /// The connections refused or failed since `mark`, without those that belong to other calls.
    pub(super) fn summarize_since(&self, mark: RefusalCursor, call: &CallId) -> RefusalSummary {
        let recent = self.lock_recent();
        let is_of_other = |of: &Option<CallId>| of.as_ref().is_some_and(|other| other != call);
        let mut summary = RefusalSummary {
            count: recent.count.saturating_sub(mark.refused),
            ..RefusalSummary::default()
        };
        for refused in since(&recent.latest, recent.count, mark.refused) {
            match is_of_other(&refused.call) {
                true => summary.count -= 1,
                false => push_host(&mut summary.hosts, refused.clone(), RefusedHost::target),
            }
        }
        let failed = since(&recent.latest_failed, recent.failed_count, mark.failed);
        for failed in failed.filter(|failed| !is_of_other(&failed.call)) {
            push_host(&mut summary.failed_hosts, failed.clone(), FailedHost::target);
        }
        summary
    }

    fn lock_recent(&self) -> MutexGuard<'_, RecentRefusals> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entries after a position, as far as they are still stored.
fn since<T>(latest: &VecDeque<T>, count: u64, mark: u64) -> impl Iterator<Item = &T> {
    let new = usize::try_from(count.saturating_sub(mark)).unwrap_or(usize::MAX);
    latest.iter().skip(latest.len().saturating_sub(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_host(host: &str) -> RefusedHost {
        let host = HostName::from_host(host).unwrap();
        RefusedHost { host, port: 443, refusal: ConnectDeniedError::NoRule, call: None }
    }

    fn call(number: u128) -> CallId {
        CallId::from_bits(number)
    }

    #[test]
    fn refusals_since_cursor_list_each_host_once() {
        let list = RefusalLog::default();
        list.add(refused_host("old.com"));
        let mark = list.cursor();
        assert_eq!(list.summarize_since(mark, &call(1)), RefusalSummary::default());
        for host in ["a.com", "b.com", "A.com"] {
            list.add(refused_host(host));
        }
        list.add(RefusedHost { call: Some(call(1)), ..refused_host("c.com") });
        list.add(RefusedHost { call: Some(call(2)), ..refused_host("d.com") });
        let since = list.summarize_since(mark, &call(1));
        let hosts: Vec<String> = since.hosts.iter().map(|host| host.host.to_string()).collect();
        assert_eq!((since.count, hosts.join(" ")), (4, "a.com b.com c.com".to_owned()));
    }

    #[test]
    fn refusal_flood_is_counted_but_not_stored() {
        let list = RefusalLog::default();
        let mark = list.cursor();
        for number in 0..10_000 {
            list.add(refused_host(&format!("h{number}.com")));
        }
        let since = list.summarize_since(mark, &call(1));
        let notes = since.notes();
        assert_eq!(notes.len(), NAMED_MAX + 1);
        assert_eq!(
            notes[NAMED_MAX],
            "network: 10000 connections were refused; run `zero audit tail` to see them"
        );
        assert_eq!((since.count, since.hosts.len()), (10_000, NAMED_MAX));
        assert!(list.lock_recent().latest.len() <= KEPT_MAX);
    }

    #[test]
    fn failed_hosts_are_listed_once_without_those_of_other_calls() {
        let list = RefusalLog::default();
        let failed = |host: &str, of: Option<CallId>| FailedHost {
            host: HostName::from_host(host).unwrap(),
            port: 443,
            failure: "could not resolve its address".to_owned(),
            call: of,
        };
        list.add_failure(failed("old.com", None));
        let mark = list.cursor();
        list.add_failure(failed("a.com", Some(call(1))));
        list.add_failure(failed("a.com", None));
        list.add_failure(failed("b.com", Some(call(2))));
        let summary = list.summarize_since(mark, &call(1));
        assert_eq!((summary.count, summary.notes()), (0, Vec::new()));
        assert_eq!(
            summary.failure_notes(),
            ["connection: a.com:443 is allowed, but zero's proxy could not resolve its address"]
        );
    }

    #[test]
    fn refusal_note_names_host_reason_and_remedy() {
        #[track_caller]
        fn check(refusal: ConnectDeniedError, expected: &str) {
            let note = RefusedHost { refusal, ..refused_host("a.com") }.to_string();
            assert_eq!(note, format!("network: a.com:443 was refused: {expected}"));
        }
        check(
            ConnectDeniedError::NoRule,
            "no rule allows this host; to allow it: zero config add permissions.allow 'WebFetch(domain:a.com)'",
        );
        let rule = "a.com:22".to_owned();
        check(
            ConnectDeniedError::Port { rule, port: 443 },
            "rule `a.com:22` allows this host, but not port 443; to allow it: zero config add sandbox.network 'a.com:443'",
        );
        let what = "a reserved documentation address";
        check(
            ConnectDeniedError::PrivateHost { what, address: None, may_be_named: true }
                .resolved_to("192.0.2.10".parse().unwrap()),
            "it resolves to 192.0.2.10, a reserved documentation address; to allow it in your own settings: zero config add permissions.allow 'WebFetch(domain:192.0.2.10)'",
        );
        let by_address = ConnectDeniedError::Rule {
            verdict: zero_policy::Verdict::Deny,
            rule: "WebFetch(domain:10.0.0.5)".to_owned(),
            place: "your settings".to_owned(),
            address: None,
        };
        check(
            by_address.resolved_to("10.0.0.5".parse().unwrap()),
            "it resolves to 10.0.0.5, and rule `WebFetch(domain:10.0.0.5)` denies it; the rule is in your settings",
        );
        check(
            ConnectDeniedError::OtherName {
                named_host_clause: "names another host, `b.com`".to_owned(),
            },
            "its TLS greeting names another host, `b.com`",
        );
    }
}
