//! The port that delivers events of sessions to subscribers.
//!
//! Only ledger entries are published, with their sequence numbers. A subscriber that missed an
//! entry can detect the gap and read the entry from the ledger.

use std::sync::Arc;

use tokio::sync::mpsc;
use zero_core::SessionId;

use crate::event::Event;

/// Delivers ledger entries to subscribers.
pub trait EventBus: Send + Sync {
    /// Publishes entries to all subscribers of a session. Never waits for a subscriber.
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]);

    /// Delivers the entries of a session to `ear` from now on, until the subscription is dropped.
    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription;
}

impl<B: EventBus + ?Sized> EventBus for Arc<B> {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        (**self).publish(session, events);
    }

    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription {
        (**self).subscribe(session, sender)
    }
}

/// Sending half of a subscriber's channel. One channel may receive many sessions.
#[derive(Clone)]
pub struct DeliverySender {
    sender: mpsc::Sender<Delivery>,
}

/// Receiving half of a [`DeliverySender`].
pub struct DeliveryReceiver {
    receiver: mpsc::Receiver<Delivery>,
}

/// One delivered entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Id of the session that the entry belongs to.
    pub session: SessionId,
    /// The ledger entry.
    pub event: Arc<Event>,
}

/// Ends the subscription when dropped.
pub struct Subscription {
    /// Dropped with the subscription; its `Drop` unsubscribes from the bus.
    _end: Box<dyn Send + Sync>,
}

impl Subscription {
    /// Creates a subscription that ends by dropping `end`; for implementations of [`EventBus`].
    pub fn new(end: impl Send + Sync + 'static) -> Self {
        Self { _end: Box::new(end) }
    }
}

/// Creates a channel that holds at most `entries_max` entries; further ones are dropped.
pub fn delivery_channel(entries_max: usize) -> (DeliverySender, DeliveryReceiver) {
    let (sender, receiver) = mpsc::channel(entries_max);
    (DeliverySender { sender }, DeliveryReceiver { receiver })
}

impl DeliverySender {
    /// Sends an entry. Returns false if the channel is full or closed. The subscriber notices
    /// dropped entries by the gap in their sequence numbers.
    pub fn send(&self, delivery: Delivery) -> bool {
        self.sender.try_send(delivery).is_ok()
    }
}

impl DeliveryReceiver {
    /// Waits for the next entry; `None` when every sender is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.receiver.recv().await
    }
}
