//! What a bus has done, as it counts it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::NodeBusCounts;

/// See [`NodeBusCounts`] for each field.
#[derive(Default)]
pub(crate) struct BusCounters {
    pub(crate) rings_sent: BusCounter,
    pub(crate) rings_received: BusCounter,
    pub(crate) requests_sent: BusCounter,
    pub(crate) requests_served: BusCounter,
    pub(crate) requests_refused: BusCounter,
    pub(crate) messages_ignored: BusCounter,
    pub(crate) connections_lost: BusCounter,
}

/// One count.
#[derive(Default)]
pub(crate) struct BusCounter(AtomicU64);

impl BusCounter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl BusCounters {
    /// The counts now.
    pub(crate) fn read(&self) -> NodeBusCounts {
        NodeBusCounts {
            rings_sent: self.rings_sent.read(),
            rings_received: self.rings_received.read(),
            requests_sent: self.requests_sent.read(),
            requests_served: self.requests_served.read(),
            requests_refused: self.requests_refused.read(),
            messages_ignored: self.messages_ignored.read(),
            connections_lost: self.connections_lost.read(),
        }
    }
}
