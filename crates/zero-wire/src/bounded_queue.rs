//! A queue that limits both the number of its items and their size in bytes.
//!
//! A limit on the number alone would let a peer that sends only the longest messages use gigabytes
//! of memory.

use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TryRecvError, error::TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Creates a queue of at most `items_max` items with at most `bytes_max` bytes together.
///
/// An item larger than `bytes_max` is accepted when the queue is empty.
pub(crate) fn bounded_queue<T>(
    items_max: usize,
    bytes_max: usize,
) -> (QueueSender<T>, QueueReceiver<T>) {
    let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX).max(1);
    let bytes = Arc::new(Semaphore::new(bytes_max as usize));
    let (sender, receiver) = mpsc::channel(items_max);
    (QueueSender { items: sender, bytes, bytes_max }, QueueReceiver { items: receiver })
}

/// The sending half of a queue; clones send to the same queue.
pub(crate) struct QueueSender<T> {
    items: mpsc::Sender<(T, OwnedSemaphorePermit)>,
    bytes: Arc<Semaphore>,
    bytes_max: u32,
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), bytes: self.bytes.clone(), bytes_max: self.bytes_max }
    }
}

/// Why an item was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueSendError {
    /// The queue is at one of its limits.
    Full,
    /// The receiver is gone.
    Closed,
}

impl<T> QueueSender<T> {
    /// Queues an item of `weight` bytes, and waits until the limits allow it. Returns false if the
    /// receiver is gone.
    pub(crate) async fn send(&self, item: T, weight: usize) -> bool {
        let room = self.bytes.clone().acquire_many_owned(self.weight(weight));
        // The receiver may be dropped while this waits; then nothing would free the bytes.
        let permit = tokio::select! {
            permit = room => permit,
            () = self.items.closed() => return false,
        };
        match permit {
            Ok(permit) => self.items.send((item, permit)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Queues an item of `weight` bytes if the limits allow it now.
    pub(crate) fn try_send(&self, item: T, weight: usize) -> Result<(), QueueSendError> {
        if self.items.is_closed() {
            return Err(QueueSendError::Closed);
        }
        let permit = self.bytes.clone().try_acquire_many_owned(self.weight(weight));
        let permit = permit.map_err(|_| QueueSendError::Full)?;
        self.items.try_send((item, permit)).map_err(|error| match error {
            TrySendError::Full(_) => QueueSendError::Full,
            TrySendError::Closed(_) => QueueSendError::Closed,
        })
    }

    fn weight(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max)
    }
}

/// The receiving half of a queue.
pub(crate) struct QueueReceiver<T> {
    items: mpsc::Receiver<(T, OwnedSemaphorePermit)>,
}

impl<T> QueueReceiver<T> {
    /// Returns the next item, or `None` when all senders are gone and the queue is empty.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        self.items.recv().await.map(|(item, _)| item)
    }

    /// Returns the next item if there is one now.
    pub(crate) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.items.try_recv().map(|(item, _)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn item_and_byte_limits_both_hold() {
        let (sender, mut receiver) = bounded_queue(3, 10);
        assert_eq!(sender.try_send('a', 6), Ok(()));
        assert_eq!(sender.try_send('b', 5), Err(QueueSendError::Full), "bytes");
        assert_eq!(sender.try_send('b', 1), Ok(()));
        assert_eq!(sender.try_send('c', 1), Ok(()));
        assert_eq!(sender.try_send('d', 1), Err(QueueSendError::Full), "items");
        assert_eq!(receiver.recv().await, Some('a'));
        assert_eq!(sender.try_send('d', 7), Ok(()), "the bytes of the received item are free");
        drop(receiver);
        assert_eq!(sender.try_send('e', 1), Err(QueueSendError::Closed));
        assert!(!sender.send('e', 11).await);
    }

    #[tokio::test]
    async fn item_heavier_than_limit_passes_alone() {
        let (sender, mut receiver) = bounded_queue(3, 10);
        assert!(sender.send('a', 1000).await);
        assert_eq!(sender.try_send('b', 1), Err(QueueSendError::Full));
        let (sent, got) = tokio::join!(sender.send('b', 1), receiver.recv());
        assert_eq!((sent, got), (true, Some('a')));
    }
}
