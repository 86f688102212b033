//! The event bus of one process: publishing delivers directly to the subscribers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_core::SessionId;

use crate::event::Event;
use crate::event_bus::{Delivery, DeliverySender, EventBus, Subscription};

/// Delivers entries within this process.
#[derive(Clone, Default)]
pub struct LocalEventBus {
    topics: Arc<SubscriberRegistry>,
}

/// The subscribers of each session. The lock is held during delivery: delivery never blocks, and
/// nothing is delivered after a subscription has ended.
#[derive(Default)]
struct SubscriberRegistry(Mutex<SubscriberTable>);

#[derive(Default)]
struct SubscriberTable {
    subscribers: HashMap<SessionId, Vec<SubscriberEntry>>,
    /// Number of the newest subscription.
    newest: u64,
}

struct SubscriberEntry {
    number: u64,
    sender: DeliverySender,
}

/// Removes a subscriber when dropped.
struct UnsubscribeGuard {
    topics: Arc<SubscriberRegistry>,
    session: SessionId,
    number: u64,
}

impl LocalEventBus {
    /// Creates a bus without subscribers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sessions that have subscribers.
    pub fn subscribed_sessions(&self) -> HashSet<SessionId> {
        self.topics.lock().subscribers.keys().cloned().collect()
    }
}

impl EventBus for LocalEventBus {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        let topics = self.topics.lock();
        for SubscriberEntry { sender, .. } in topics.subscribers.get(session).into_iter().flatten()
        {
            for event in events {
                // A full channel drops this entry; its owner notices the gap and reads the ledger.
                sender.send(Delivery { session: session.clone(), event: Arc::clone(event) });
            }
        }
    }

    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription {
        let mut topics = self.topics.lock();
        topics.newest += 1;
        let number = topics.newest;
        let listed = SubscriberEntry { number, sender: sender.clone() };
        topics.subscribers.entry(session.clone()).or_default().push(listed);
        let topics = Arc::clone(&self.topics);
        Subscription::new(UnsubscribeGuard { topics, session: session.clone(), number })
    }
}

impl SubscriberRegistry {
    fn lock(&self) -> MutexGuard<'_, SubscriberTable> {
        // The table is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnsubscribeGuard {
    fn drop(&mut self) {
        let mut topics = self.topics.lock();
        if let Some(listed) = topics.subscribers.get_mut(&self.session) {
            listed.retain(|listed| listed.number != self.number);
            if listed.is_empty() {
                topics.subscribers.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::event_bus::{DeliveryReceiver, delivery_channel};

    fn session(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn entries(seqs: std::ops::RangeInclusive<u64>) -> Vec<Arc<Event>> {
        let entry = |seq| Event {
            seq,
            run: None,
            time_ms: 0,
            kind: EventKind::Text { text: seq.to_string() },
        };
        seqs.map(|seq| Arc::new(entry(seq))).collect()
    }

    /// All deliveries until every sender is gone.
    async fn collect_deliveries(mut listener: DeliveryReceiver) -> Vec<String> {
        let mut deliveries = Vec::new();
        while let Some(Delivery { session, event }) = listener.next().await {
            deliveries.push(format!("{session} {}", event.seq));
        }
        deliveries
    }

    #[tokio::test]
    async fn subscriber_receives_all_events_in_order() {
        let bus = LocalEventBus::new();
        let (sender, one) = delivery_channel(100);
        let (other_sender, other) = delivery_channel(100);
        let (a, b) = (session("a"), session("b"));
        bus.publish(&a, &entries(1..=1));
        let subscriptions = [
            bus.subscribe(&a, &sender),
            bus.subscribe(&b, &sender),
            bus.subscribe(&b, &other_sender),
        ];
        bus.publish(&a, &entries(2..=3));
        bus.publish(&b, &entries(1..=2));
        bus.publish(&session("c"), &entries(1..=9));
        bus.publish(&a, &entries(4..=4));
        drop((subscriptions, sender, other_sender));
        assert_eq!(collect_deliveries(one).await, ["a 2", "a 3", "b 1", "b 2", "a 4"]);
        assert_eq!(collect_deliveries(other).await, ["b 1", "b 2"]);
    }

    #[tokio::test]
    async fn dropped_subscription_ends_and_is_removed() {
        let bus = LocalEventBus::new();
        let (sender, listener) = delivery_channel(100);
        let a = session("a");
        let (first, second) = (bus.subscribe(&a, &sender), bus.subscribe(&a, &sender));
        bus.publish(&a, &entries(1..=1));
        drop(first);
        bus.publish(&a, &entries(2..=2));
        drop(second);
        bus.publish(&a, &entries(3..=3));
        assert!(bus.topics.lock().subscribers.is_empty());
        drop(sender);
        assert_eq!(collect_deliveries(listener).await, ["a 1", "a 1", "a 2"]);
    }

    #[tokio::test]
    async fn slow_subscriber_does_not_block_others() {
        let bus = LocalEventBus::new();
        let a = session("a");
        let (narrow, slow) = delivery_channel(2);
        let (wide, quick) = delivery_channel(100);
        let (gone, dropped) = delivery_channel(1);
        let subscriptions =
            [bus.subscribe(&a, &gone), bus.subscribe(&a, &narrow), bus.subscribe(&a, &wide)];
        drop(dropped);
        bus.publish(&a, &entries(1..=5));
        drop((subscriptions, narrow, wide));
        assert_eq!(collect_deliveries(slow).await, ["a 1", "a 2"]);
        assert_eq!(collect_deliveries(quick).await, ["a 1", "a 2", "a 3", "a 4", "a 5"]);
    }

    #[test]
    fn concurrent_publish_subscribe_and_drop_have_no_gaps() {
        const ENTRIES: u64 = 2_000;
        let bus = LocalEventBus::new();
        let a = session("a");
        let (steady_ear, mut steady) = delivery_channel(usize::try_from(ENTRIES).unwrap());
        let steady_subscription = bus.subscribe(&a, &steady_ear);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=ENTRIES).for_each(|seq| bus.publish(&a, &entries(seq..=seq))));
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (sender, listener) = delivery_channel(10_000);
                        let subscription = bus.subscribe(&a, &sender);
                        std::thread::yield_now();
                        drop((subscription, sender));
                        let deliveries = block_on(collect_deliveries(listener));
                        // The entries are contiguous from the first to the last.
                        let first = deliveries.first().map_or(0, |first| seq(first));
                        let seqs: Vec<u64> =
                            deliveries.iter().map(|delivery| seq(delivery)).collect();
                        let expected: Vec<u64> = (first..).take(seqs.len()).collect();
                        assert_eq!(seqs, expected);
                    }
                });
            }
        });
        drop((steady_subscription, steady_ear));
        assert!(bus.topics.lock().subscribers.is_empty());
        for seq in 1..=ENTRIES {
            assert_eq!(block_on(steady.next()).map(|delivery| delivery.event.seq), Some(seq));
        }
        assert_eq!(block_on(steady.next()), None);
    }

    fn seq(delivery: &str) -> u64 {
        delivery.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }
}
