//! What was refused lately, so that a command's result can say so.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_core::CallId;
use zero_policy::{HostName, Refusal};

/// Most refusals that are remembered with their host.
const KEPT_MAX: usize = 256;
/// Most hosts that one answer names.
const NAMED_MAX: usize = 16;

/// A place in the list of refused connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// What was refused since a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// How many connections.
    pub count: u64,
    /// To which hosts, each once, in the order of their first refusal; not all when there were many.
    pub hosts: Vec<RefusedHost>,
}

/// A host that could not be reached because nothing allowed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// The host.
    pub host: HostName,
    /// The port.
    pub port: u16,
    /// Why.
    pub refusal: Refusal,
    /// The call whose connection it was, where that is known.
    pub call: Option<CallId>,
}

#[derive(Debug, Default)]
pub(super) struct RefusalList {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    latest: VecDeque<RefusedHost>,
}

impl RefusalList {
    pub(super) fn add(&self, refused: RefusedHost) {
        let mut kept = self.kept();
        kept.count += 1;
        kept.latest.push_back(refused);
        if kept.latest.len() > KEPT_MAX {
            kept.latest.pop_front();
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.kept().count)
    }

    pub(super) fn since(&self, mark: Mark) -> Refusals {
        let kept = self.kept();
        let count = kept.count.saturating_sub(mark.0);
        let known = usize::try_from(count).unwrap_or(usize::MAX).min(kept.latest.len());
        let mut hosts: Vec<RefusedHost> = Vec::new();
        for refused in kept.latest.iter().skip(kept.latest.len() - known) {
            let is_same =
                |other: &RefusedHost| (&other.host, other.port) == (&refused.host, refused.port);
            if hosts.len() < NAMED_MAX && !hosts.iter().any(is_same) {
                hosts.push(refused.clone());
            }
        }
        Refusals { count, hosts }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: &str) -> RefusedHost {
        let host = HostName::from_host(host).unwrap();
        RefusedHost { host, port: 443, refusal: Refusal::NoRule, call: None }
    }

    #[test]
    fn what_came_since_a_mark_is_told_once_for_each_host() {
        let list = RefusalList::default();
        list.add(refused("old.com"));
        let mark = list.mark();
        assert_eq!(list.since(mark), Refusals::default());
        for host in ["a.com", "b.com", "A.com"] {
            list.add(refused(host));
        }
        let since = list.since(mark);
        let hosts: Vec<String> = since.hosts.iter().map(|host| host.host.to_string()).collect();
        assert_eq!((since.count, hosts.join(" ")), (3, "a.com b.com".to_owned()));
    }

    #[test]
    fn a_flood_is_counted_but_not_kept() {
        let list = RefusalList::default();
        let mark = list.mark();
        for number in 0..10_000 {
            list.add(refused(&format!("h{number}.com")));
        }
        let since = list.since(mark);
        assert_eq!((since.count, since.hosts.len()), (10_000, NAMED_MAX));
        assert!(list.kept().latest.len() <= KEPT_MAX);
    }
}
