//! Limits the number of connections: in total and per address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::address_group::AddressGroup;

/// Counts connections.
pub(crate) struct ConnectionLimiter {
    connections: Arc<Semaphore>,
    connections_per_address: Arc<AddressCounter>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections_max: usize,
    pub(crate) connections_per_address_max: usize,
}

/// A slot that is released on drop.
pub(crate) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    _of_one: Option<AddressCountGuard>,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(limits.connections_max)),
            connections_per_address: AddressCounter::new(limits.connections_per_address_max),
        }
    }

    /// Returns a permit for a WebSocket connection, or `None` if a limit is reached.
    pub(crate) fn admit_connection(&self, from: IpAddr) -> Option<ConnectionPermit> {
        let permit = Arc::clone(&self.connections).try_acquire_owned().ok()?;
        self.connections_per_address.acquire(permit, from)
    }
}

/// Counts connections per address. Loopback is exempt; only the total limit applies to it.
struct AddressCounter {
    max: usize,
    counts: Mutex<HashMap<AddressGroup, usize>>,
}

struct AddressCountGuard {
    count: Arc<AddressCounter>,
    group: AddressGroup,
}

impl AddressCounter {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    fn acquire(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        from: IpAddr,
    ) -> Option<ConnectionPermit> {
        let group = AddressGroup::from(from);
        if group == AddressGroup::ThisMachine {
            return Some(ConnectionPermit { _permit: permit, _of_one: None });
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_this = counts.entry(group).or_default();
        if *of_this >= self.max {
            return None;
        }
        *of_this += 1;
        Some(ConnectionPermit {
            _permit: permit,
            _of_one: Some(AddressCountGuard { count: Arc::clone(self), group }),
        })
    }
}

impl Drop for AddressCountGuard {
    fn drop(&mut self) {
        let mut counts = self.count.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = counts.entry(self.group) {
            *entry.get_mut() = entry.get().saturating_sub(1);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> ConnectionLimiter {
        ConnectionLimiter::new(ConnectionLimits {
            connections_max: 4,
            connections_per_address_max: 2,
        })
    }

    #[test]
    fn one_address_cannot_take_all_permits() {
        let slots = limiter();
        let take = |from: &str| slots.admit_connection(from.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let _second = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let _other = take("192.0.2.2").unwrap();
        drop(first);
        let _again = take("192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none());
        let _here = take("127.0.0.1").unwrap();
        assert!(take("127.0.0.1").is_none(), "the bound of all holds here too");
        assert!(take("192.0.2.3").is_none());
    }

    #[test]
    fn departed_address_is_forgotten() {
        let slots = limiter();
        for at in 0..200_u8 {
            drop(slots.admit_connection(IpAddr::from([192, 0, 2, at])).unwrap());
        }
        assert!(slots.connections_per_address.counts.lock().unwrap().is_empty());
    }
}
