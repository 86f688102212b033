//! The port through which what happens in a session reaches everybody who watches it.
//!
//! Only what is in the ledger is published, with its number, so a listener that missed something
//! can tell, and read it there.

use std::sync::Arc;

use tokio::sync::mpsc;
use zero_core::SessionId;

use crate::event::Event;

/// Carries entries of ledgers to listeners.
pub trait EventBus: Send + Sync {
    /// Tells all who listen to a session. Never waits for a listener.
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]);

    /// Lets an ear hear a session from now on, until the subscription is dropped.
    fn subscribe(&self, session: &SessionId, ear: &DeliverySender) -> Subscription;
}

/// Where a listener hears. One ear may listen to many sessions.
#[derive(Clone)]
pub struct DeliverySender {
    sender: mpsc::Sender<Delivery>,
}

/// The other end of an [`DeliverySender`].
pub struct DeliveryReceiver {
    receiver: mpsc::Receiver<Delivery>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Id of the session that the entry belongs to.
    pub session: SessionId,
    /// An entry of its ledger.
    pub event: Arc<Event>,
}

/// Ends a subscription when it is dropped.
pub struct Subscription {
    /// Dropped with it; what it does then is the bus's business.
    _end: Box<dyn Send + Sync>,
}

impl Subscription {
    /// A subscription that ends by dropping `end`; for implementations of [`EventBus`].
    pub fn new(end: impl Send + Sync + 'static) -> Self {
        Self { _end: Box::new(end) }
    }
}

/// An ear that holds so many entries before it is deaf, and its other end.
pub fn delivery_channel(entries_max: usize) -> (DeliverySender, DeliveryReceiver) {
    let (sender, receiver) = mpsc::channel(entries_max);
    (DeliverySender { sender }, DeliveryReceiver { receiver })
}

impl DeliverySender {
    /// Tells it. False when it does not keep up or is gone; it then misses entries, which its owner
    /// sees by their numbers.
    pub fn send(&self, heard: Delivery) -> bool {
        self.sender.try_send(heard).is_ok()
    }
}

impl DeliveryReceiver {
    /// Waits for the next; `None` when every ear is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.receiver.recv().await
    }
}
