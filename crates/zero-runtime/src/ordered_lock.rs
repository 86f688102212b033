//! A lock that is given in the order in which it was asked for.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::unconstrained;

/// Takes the next place in the queue for a lock, now. The future completes with the lock; dropping it
/// leaves the queue.
///
/// [`Mutex::lock`] takes its place when it is first polled, and tasks that were spawned one after the
/// other are polled in any order.
pub fn queue_for_lock(
    lock: &Arc<Mutex<()>>,
) -> impl Future<Output = OwnedMutexGuard<()>> + Send + use<> {
    // A task that has used up its budget would not get a place.
    let mut place = Box::pin(unconstrained(Arc::clone(lock).lock_owned()));
    let first = place.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    async move {
        match first {
            Poll::Ready(guard) => guard,
            Poll::Pending => place.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lock_is_given_in_order_of_calls() {
        let (lock, order) =
            (Arc::<Mutex<()>>::default(), Arc::new(std::sync::Mutex::new(Vec::new())));
        let places: Vec<_> = (0..10).map(|number| (number, queue_for_lock(&lock))).collect();
        // The last that asked is polled first.
        let spawn = |(number, place)| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                let _lock: OwnedMutexGuard<()> = place.await;
                order.lock().unwrap().push(number);
            })
        };
        for task in places.into_iter().rev().map(spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<i32>>());
    }

    #[tokio::test]
    async fn dropped_place_is_skipped() {
        let lock = Arc::<Mutex<()>>::default();
        let [first, second, third] = [(); 3].map(|()| queue_for_lock(&lock));
        drop(second);
        drop(first);
        drop(third.await);
        assert!(lock.try_lock().is_ok());
    }

    #[tokio::test]
    async fn busy_task_gets_its_place() {
        let lock = Arc::<Mutex<()>>::default();
        let held = queue_for_lock(&lock);
        // Uses up what one poll of a task may do.
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1_000);
        for number in 0..1_000 {
            sender.try_send(number).unwrap();
        }
        let (first, second) = std::future::poll_fn(|cx| {
            while receiver.poll_recv(cx).is_ready() {}
            Poll::Ready((queue_for_lock(&lock), queue_for_lock(&lock)))
        })
        .await;
        drop(held);
        // If the first had no place, the second would have the lock.
        let mut second = std::pin::pin!(second);
        let waits = second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        drop(first.await);
        drop(second.await);
    }
}
