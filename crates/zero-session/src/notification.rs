//! Tells the user that a run waits for them, or that a long run ended, while they do not watch.
//!
//! The text is generic: no prompt, path, command or result is in it, so that nothing of the work
//! leaves the machine. A webhook that is slow or away delays no run: it has little time, and what
//! does not fit is dropped.

pub mod command_notifier;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use zero_core::event::{ApprovalSubject, Event, EventKind, RunOutcome};
use zero_core::{ExtraRootCertificates, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::web::client_builder;

use crate::event_bus::{DeliverySender, EventBus, Subscription};

/// Title of every notification.
pub const TITLE: &str = "zero";
/// Time limit of one notification.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most notifications on their way at a time; more are dropped.
const POSTS_MAX: u32 = 4;
/// How long the end of the process waits for notifications that are on their way.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(3);

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationKind {
    /// A run waits for an answer.
    Question,
    /// A long run ended.
    End,
    /// A long run failed.
    Failure,
}

impl NotificationKind {
    /// What an event is worth, if anything. Runs that worked less than `min_seconds` end silently.
    pub fn from_event(kind: &EventKind, min_seconds: u64) -> Option<Self> {
        match kind {
            EventKind::ApprovalRequested(request) => {
                (request.subject != ApprovalSubject::Connection).then_some(Self::Question)
            }
            EventKind::QuestionAsked(_) => Some(Self::Question),
            EventKind::RunEnded { end, usage } if usage.work_ms / 1_000 >= min_seconds => {
                Some(match end {
                    RunOutcome::Completed => Self::End,
                    // The user stopped it.
                    RunOutcome::Aborted { .. } => return None,
                    _ => Self::Failure,
                })
            }
            _ => None,
        }
    }

    /// Stable word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::End => "end",
            Self::Failure => "failure",
        }
    }

    /// The whole text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Question => "A run waits for your answer",
            Self::End => "A run has ended",
            Self::Failure => "A run ended without an answer",
        }
    }
}

/// Posts notifications to the webhook of the settings.
pub struct WebhookNotifier {
    client: reqwest::Client,
    address: String,
    slots: Arc<Semaphore>,
}

impl WebhookNotifier {
    /// A webhook at an address.
    pub fn new(
        address: String,
        roots: &ExtraRootCertificates,
    ) -> Result<Arc<Self>, reqwest::Error> {
        let client = client_builder(roots)?;
        let client = client.timeout(POST_TIMEOUT).pool_max_idle_per_host(1).build()?;
        let slots = Arc::new(Semaphore::new(POSTS_MAX as usize));
        Ok(Arc::new(Self { client, address, slots }))
    }

    /// Posts a notification in the background, as ntfy takes it. Drops it if too many are on their
    /// way.
    fn post(&self, kind: NotificationKind) {
        let (Ok(runtime), Ok(slot)) =
            (tokio::runtime::Handle::try_current(), Arc::clone(&self.slots).try_acquire_owned())
        else {
            tracing::warn!("a notification was dropped, since others are on their way");
            return;
        };
        let request = self.client.post(&self.address).header("Title", TITLE).body(kind.text());
        runtime.spawn(async move {
            // The address may contain a secret, and so may the text of an error.
            match request.send().await {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    tracing::warn!(status, "the webhook of `notify` refused a notification");
                }
                Err(error) => {
                    let timed_out = error.is_timeout();
                    tracing::warn!(timed_out, "the webhook of `notify` could not be reached");
                }
            }
            drop(slot);
        });
    }
}

impl Notifier for WebhookNotifier {
    fn notify(&self, kind: NotificationKind) {
        self.post(kind);
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let _ = tokio::time::timeout(FLUSH_TIME_MAX, self.slots.acquire_many(POSTS_MAX)).await;
        })
    }
}

/// A way to notify the user. It must not block.
pub trait Notifier: Send + Sync {
    /// Notifies the user, soon.
    fn notify(&self, kind: NotificationKind);

    /// Waits a little for notifications that are on their way.
    fn flush(&self) -> BoxFuture<'_, ()>;
}

/// A bus that notifies the user of some of the events that it delivers.
pub struct NotifyingBus<B> {
    bus: B,
    notifiers: Vec<Arc<dyn Notifier>>,
    min_seconds: u64,
}

impl<B> NotifyingBus<B> {
    /// Delivers through this bus, and tells the notifiers of questions and of ends of runs that worked
    /// at least so many seconds.
    pub fn new(bus: B, notifiers: Vec<Arc<dyn Notifier>>, min_seconds: u64) -> Self {
        Self { bus, notifiers, min_seconds }
    }
}

impl<B: EventBus> EventBus for NotifyingBus<B> {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        self.bus.publish(session, events);
        for event in events {
            if let Some(kind) = NotificationKind::from_event(&event.kind, self.min_seconds) {
                self.notifiers.iter().for_each(|notifier| notifier.notify(kind));
            }
        }
    }

    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription {
        self.bus.subscribe(session, sender)
    }
}

#[cfg(test)]
mod tests {
    use zero_core::event::{TokenUsage, UserQuestion};

    use super::*;

    fn ended(end: RunOutcome, seconds: u64) -> EventKind {
        EventKind::RunEnded {
            end,
            usage: TokenUsage { work_ms: seconds * 1_000, ..TokenUsage::default() },
        }
    }

    #[test]
    fn questions_and_long_runs_are_told() {
        let kind = |event: &EventKind| NotificationKind::from_event(event, 60);
        let secret = "hunter2-planted";
        let question = EventKind::QuestionAsked(UserQuestion {
            id: secret.to_owned(),
            origin: secret.to_owned(),
            message: secret.to_owned(),
            schema: None,
            url: None,
        });
        assert_eq!(kind(&question), Some(NotificationKind::Question));
        assert_eq!(kind(&ended(RunOutcome::Completed, 60)), Some(NotificationKind::End));
        assert_eq!(kind(&ended(RunOutcome::Completed, 59)), None);
        let failed = RunOutcome::Failed { kind: "auth".to_owned(), message: secret.to_owned() };
        assert_eq!(kind(&ended(failed, 90)), Some(NotificationKind::Failure));
        let aborted = RunOutcome::Aborted { by: "rpc".to_owned() };
        assert_eq!(kind(&ended(aborted, 90)), None);
        assert_eq!(kind(&EventKind::Text { text: secret.to_owned() }), None);
        for kind in [NotificationKind::Question, NotificationKind::End, NotificationKind::Failure] {
            assert!(!kind.text().contains(secret));
        }
    }
}
