//! Connections whose client has not authenticated yet, and which of them has to go when there are too
//! many.
//!
//! A connection costs a client nothing that it opens and then leaves alone. If the gateway waited
//! for such connections, a few hundred of them would keep all other clients out. So at the limit
//! the oldest one is dropped. A connection has a short time in which it is not: a burst of clients,
//! for example after a restart, waits for its turn, and none of them is dropped.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::address_group::AddressGroup;

/// Limits for connections without authentication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeLimits {
    /// Maximum in total.
    pub(crate) all_max: usize,
    /// Maximum per remote address. Loopback is exempt; only the total limit applies to it.
    pub(crate) per_address_max: usize,
    /// How long a connection that sends nothing is kept at the limit.
    pub(crate) silent_grace: Duration,
    /// How long every other one is kept at the limit.
    pub(crate) grace: Duration,
}

/// The connections without authentication.
pub(crate) struct HandshakeTable {
    limits: HandshakeLimits,
    state: Mutex<HandshakeSlots>,
    /// Signals that a slot is free.
    freed: Notify,
}

#[derive(Default)]
struct HandshakeSlots {
    next: u64,
    /// Oldest first.
    slots: BTreeMap<u64, SlotState>,
    per_address: HashMap<AddressGroup, usize>,
}

struct SlotState {
    group: AddressGroup,
    since: Instant,
    has_sent: bool,
    dropped: CancellationToken,
}

/// A connection's entry in the table, until it is dropped.
pub(crate) struct HandshakeSlot {
    table: Arc<HandshakeTable>,
    number: u64,
    dropped: CancellationToken,
}

/// The answer to a new connection.
enum Admission {
    Admitted(HandshakeSlot),
    /// Its address has too many, all of them young.
    Refused,
    /// There are too many, all of them young: the first can be dropped then.
    Later(Instant),
}

impl HandshakeTable {
    pub(crate) fn new(limits: HandshakeLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default(), freed: Notify::new() })
    }

    /// Adds a connection. At a limit, drops the oldest one that has had its time, and waits for that
    /// time if necessary. Returns `None` if the address has too many.
    pub(crate) async fn admit(self: &Arc<Self>, from: IpAddr) -> Option<HandshakeSlot> {
        loop {
            let freed = self.freed.notified();
            match self.try_admit(from, Instant::now()) {
                Admission::Admitted(slot) => return Some(slot),
                Admission::Refused => return None,
                Admission::Later(until) => tokio::select! {
                    () = freed => {}
                    () = tokio::time::sleep_until(until) => {}
                },
            }
        }
    }

    fn try_admit(self: &Arc<Self>, from: IpAddr, now: Instant) -> Admission {
        let group = AddressGroup::from(from);
        let mut state = self.lock();
        let of_this = state.per_address.get(&group).copied().unwrap_or_default();
        if group != AddressGroup::ThisMachine && of_this >= self.limits.per_address_max {
            match state.find_oldest(&self.limits, |slot| slot.group == group) {
                Some((number, until)) if until <= now => state.drop_slot(number),
                _ => return Admission::Refused,
            }
        }
        if state.slots.len() >= self.limits.all_max {
            match state.find_oldest(&self.limits, |_| true) {
                Some((number, until)) if until <= now => state.drop_slot(number),
                Some((_, until)) => return Admission::Later(until),
                None => return Admission::Refused,
            }
        }
        let number = state.next;
        state.next += 1;
        *state.per_address.entry(group).or_default() += 1;
        let dropped = CancellationToken::new();
        let slot = SlotState { group, since: now, has_sent: false, dropped: dropped.clone() };
        state.slots.insert(number, slot);
        Admission::Admitted(HandshakeSlot { table: Arc::clone(self), number, dropped })
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeSlots> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandshakeSlots {
    /// The connection that is to go first, and since when it may be dropped.
    fn find_oldest(
        &self,
        limits: &HandshakeLimits,
        is_meant: impl Fn(&SlotState) -> bool,
    ) -> Option<(u64, Instant)> {
        let until = |slot: &SlotState| {
            slot.since + if slot.has_sent { limits.grace } else { limits.silent_grace }
        };
        let matching = self.slots.iter().filter(|(_, slot)| is_meant(slot));
        matching.map(|(number, slot)| (*number, until(slot))).min_by_key(|(_, until)| *until)
    }

    fn drop_slot(&mut self, number: u64) {
        if let Some(slot) = self.remove(number) {
            slot.dropped.cancel();
        }
    }

    fn remove(&mut self, number: u64) -> Option<SlotState> {
        let slot = self.slots.remove(&number)?;
        if let Some(count) = self.per_address.get_mut(&slot.group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.per_address.remove(&slot.group);
            }
        }
        Some(slot)
    }
}

impl HandshakeSlot {
    /// Notes that the client has sent something.
    pub(crate) fn mark_sent(&self) {
        if let Some(slot) = self.table.lock().slots.get_mut(&self.number) {
            slot.has_sent = true;
        }
    }

    /// Completes when the connection has to go.
    pub(crate) async fn dropped(&self) {
        self.dropped.cancelled().await;
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        if self.table.lock().remove(self.number).is_some() {
            self.table.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn table() -> Arc<HandshakeTable> {
        HandshakeTable::new(HandshakeLimits {
            all_max: 3,
            per_address_max: 2,
            silent_grace: SECOND,
            grace: 5 * SECOND,
        })
    }

    #[track_caller]
    fn admit(table: &Arc<HandshakeTable>, from: &str, now: Instant) -> HandshakeSlot {
        match table.try_admit(from.parse().unwrap(), now) {
            Admission::Admitted(slot) => slot,
            Admission::Refused => panic!("refused"),
            Admission::Later(_) => panic!("later"),
        }
    }

    #[test]
    fn oldest_is_dropped_at_limit() {
        let (table, start) = (table(), Instant::now());
        let slots: Vec<HandshakeSlot> = (0..3).map(|_| admit(&table, "127.0.0.1", start)).collect();
        slots[0].mark_sent();
        let local = IpAddr::from([127, 0, 0, 1]);
        let Admission::Later(until) = table.try_admit(local, start) else {
            panic!("a young one was dropped")
        };
        assert_eq!(until, start + SECOND);
        // The first has sent something, so the second goes before it.
        let _next = admit(&table, "127.0.0.1", start + SECOND);
        let is_dropped: Vec<bool> = slots.iter().map(|slot| slot.dropped.is_cancelled()).collect();
        assert_eq!(is_dropped, [false, true, false]);
        let _next = admit(&table, "127.0.0.1", start + 5 * SECOND);
        assert!(slots[2].dropped.is_cancelled());
        drop(slots);
        assert_eq!(table.lock().slots.len(), 2);
    }

    #[test]
    fn address_drops_its_own() {
        let (table, start) = (table(), Instant::now());
        let other = admit(&table, "192.0.2.9", start);
        let first = admit(&table, "192.0.2.1", start);
        let _second = admit(&table, "192.0.2.1", start);
        let again = table.try_admit(IpAddr::from([192, 0, 2, 1]), start);
        assert!(matches!(again, Admission::Refused));
        let _third = admit(&table, "192.0.2.1", start + SECOND);
        assert!(first.dropped.is_cancelled() && !other.dropped.is_cancelled());
    }

    #[test]
    fn departed_address_is_forgotten() {
        let (table, start) = (table(), Instant::now());
        for at in 0..200 {
            drop(admit(&table, &format!("192.0.2.{at}"), start));
        }
        let state = table.lock();
        assert!(state.slots.is_empty() && state.per_address.is_empty());
    }

    #[tokio::test]
    async fn free_slot_ends_the_wait() {
        let table = table();
        let local = IpAddr::from([127, 0, 0, 1]);
        let mut slots = Vec::new();
        for _ in 0..3 {
            let slot = table.admit(local).await.unwrap();
            slot.mark_sent();
            slots.push(slot);
        }
        let mut next = std::pin::pin!(table.admit(local));
        assert!(futures_util::poll!(&mut next).is_pending());
        slots.pop();
        assert!(next.await.is_some());
        assert!(slots.iter().all(|slot| !slot.dropped.is_cancelled()));
    }
}
