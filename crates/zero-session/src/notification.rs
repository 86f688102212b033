//! Tells the user that a run waits for them, or that a long run ended, while they do not watch.
//!
//! The text is generic: no prompt, path, command or result is in it, so that nothing of the work
//! leaves the machine. A webhook that is slow or away delays no run: it has little time, and what
//! does not fit is dropped.

pub mod command_notifier;

use std::sync::{Arc, OnceLock};
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

/// Address of the console of this process, once a gateway in it listens.
pub type ConsoleAddress = Arc<OnceLock<String>>;

/// What the user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it is about.
    pub kind: NotificationKind,
    /// Where the console shows the question. It has an id and no secret: who opens it has to be paired.
    pub link: Option<String>,
}

impl Notification {
    /// What an event is worth, with a link if there is a console.
    fn from_event(event: &EventKind, min_seconds: u64, console: Option<&str>) -> Option<Self> {
        let kind = NotificationKind::from_event(event, min_seconds)?;
        let question = match event {
            EventKind::ApprovalRequested(request) => Some(&request.id),
            EventKind::QuestionAsked(question) => Some(&question.id),
            _ => None,
        };
        let link = console.zip(question).and_then(|(console, id)| question_link(console, id));
        Some(Self { kind, link })
    }
}

/// Where a console shows a question. Its id is as zero makes them, else there is no link.
fn question_link(console: &str, id: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_link = !id.is_empty() && id.bytes().all(is_plain);
    is_link.then(|| format!("{}/#/inbox/{id}", console.trim_end_matches('/')))
}

/// Posts notifications to the webhook of the settings.
pub struct WebhookNotifier {
    client: reqwest::Client,
    address: String,
    slots: Arc<Semaphore>,
    first_failure: FirstFailure,
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
        let first_failure = FirstFailure::new("notify.webhook");
        Ok(Arc::new(Self { client, address, slots, first_failure }))
    }

    /// Posts a notification in the background, as ntfy takes it. Drops it if too many are on their
    /// way.
    fn post(&self, notification: &Notification) {
        let (Ok(runtime), Ok(slot)) =
            (tokio::runtime::Handle::try_current(), Arc::clone(&self.slots).try_acquire_owned())
        else {
            self.first_failure.note("is so slow that a notification was dropped");
            return;
        };
        let mut request = self.client.post(&self.address).header("Title", TITLE);
        if let Some(link) = &notification.link {
            request = request.header("Click", link);
        }
        let request = request.body(notification.kind.text());
        let first_failure = self.first_failure.clone();
        runtime.spawn(async move {
            // The address may contain a secret, and so may the text of an error.
            match request.send().await {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    first_failure.note(&format!("answered with HTTP status {status}"));
                }
                Err(error) if error.is_timeout() => {
                    let seconds = POST_TIMEOUT.as_secs();
                    first_failure.note(&format!("took no notification within {seconds} s"));
                }
                Err(_) => first_failure.note("could not be reached"),
            }
            drop(slot);
        });
    }
}

impl Notifier for WebhookNotifier {
    fn notify(&self, notification: &Notification) {
        self.post(notification);
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), NotificationFailure>> {
        Box::pin(async {
            let sent = tokio::time::timeout(FLUSH_TIME_MAX, self.slots.acquire_many(POSTS_MAX));
            let is_flushed = sent.await.is_ok();
            self.first_failure.after_flush(is_flushed)
        })
    }
}

/// A way to notify the user. It must not block.
pub trait Notifier: Send + Sync {
    /// Notifies the user, soon.
    fn notify(&self, notification: &Notification);

    /// Waits a little for notifications that are on their way, and returns the first failure.
    fn flush(&self) -> BoxFuture<'_, Result<(), NotificationFailure>>;
}

/// Why the user may not have been notified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` {why}, so you may not have been notified")]
pub struct NotificationFailure {
    setting: &'static str,
    why: String,
}

/// The first failure of a notifier. It is kept until it can be reported.
#[derive(Clone)]
struct FirstFailure {
    setting: &'static str,
    failure: Arc<OnceLock<NotificationFailure>>,
}

impl FirstFailure {
    fn new(setting: &'static str) -> Self {
        Self { setting, failure: Arc::default() }
    }

    fn note(&self, why: &str) {
        let failure = NotificationFailure { setting: self.setting, why: why.to_owned() };
        if self.failure.set(failure).is_ok() {
            tracing::warn!("`{}` {why}", self.setting);
        }
    }

    /// The failure after notifications were waited for.
    fn after_flush(&self, is_flushed: bool) -> Result<(), NotificationFailure> {
        if !is_flushed {
            self.note(&format!("took no notification within {} s", FLUSH_TIME_MAX.as_secs()));
        }
        self.failure.get().cloned().map_or(Ok(()), Err)
    }
}

/// Waits a little for the notifications of all notifiers, and returns their failures.
pub async fn flush_all(notifiers: &[Arc<dyn Notifier>]) -> Vec<NotificationFailure> {
    let flushed = notifiers.iter().map(|notifier| notifier.flush());
    futures_util::future::join_all(flushed).await.into_iter().filter_map(Result::err).collect()
}

/// A bus that notifies the user of some of the events that it delivers.
pub struct NotifyingBus<B> {
    bus: B,
    notifiers: Vec<Arc<dyn Notifier>>,
    min_seconds: u64,
    console: ConsoleAddress,
}

impl<B> NotifyingBus<B> {
    /// Delivers through this bus, and tells the notifiers of questions and of ends of runs that worked
    /// at least so many seconds. Notifications of questions link to the console.
    pub fn new(
        bus: B,
        notifiers: Vec<Arc<dyn Notifier>>,
        min_seconds: u64,
        console: ConsoleAddress,
    ) -> Self {
        Self { bus, notifiers, min_seconds, console }
    }
}

impl<B: EventBus> EventBus for NotifyingBus<B> {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        self.bus.publish(session, events);
        for event in events {
            let console = self.console.get().map(String::as_str);
            let worth = Notification::from_event(&event.kind, self.min_seconds, console);
            if let Some(notification) = worth {
                self.notifiers.iter().for_each(|notifier| notifier.notify(&notification));
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

    struct HangingNotifier;

    impl Notifier for HangingNotifier {
        fn notify(&self, _: &Notification) {}

        fn flush(&self) -> BoxFuture<'_, Result<(), NotificationFailure>> {
            Box::pin(async {
                tokio::time::sleep(FLUSH_TIME_MAX).await;
                FirstFailure::new("notify.webhook").after_flush(false)
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_notifiers_are_waited_for_together() {
        let notifiers: [Arc<dyn Notifier>; 2] =
            [Arc::new(HangingNotifier), Arc::new(HangingNotifier)];
        let began = tokio::time::Instant::now();
        let failures = flush_all(&notifiers).await;
        assert_eq!((failures.len(), began.elapsed()), (2, FLUSH_TIME_MAX));
        assert_eq!(
            failures.first().unwrap().to_string(),
            "`notify.webhook` took no notification within 3 s, so you may not have been notified"
        );
    }

    #[test]
    fn only_questions_have_a_link_and_only_with_a_console() {
        let asked = |id: &str| {
            EventKind::QuestionAsked(UserQuestion {
                id: id.to_owned(),
                origin: "github".to_owned(),
                message: "hunter2-planted".to_owned(),
                schema: None,
                url: None,
                subagent: None,
            })
        };
        let link = |event: &EventKind, console| {
            Notification::from_event(event, 60, console).and_then(|notification| notification.link)
        };
        let console = Some("https://box.lan:18789/");
        let expected = "https://box.lan:18789/#/inbox/q-1".to_owned();
        assert_eq!(link(&asked("q-1"), console), Some(expected));
        assert_eq!(link(&asked("q-1"), None), None);
        assert_eq!(link(&asked("q\r\nX: 1"), console), None);
        assert_eq!(link(&ended(RunOutcome::Completed, 60), console), None);
    }

    #[test]
    fn questions_and_long_runs_notify_the_user() {
        let kind = |event: &EventKind| NotificationKind::from_event(event, 60);
        let secret = "hunter2-planted";
        let question = EventKind::QuestionAsked(UserQuestion {
            id: secret.to_owned(),
            origin: secret.to_owned(),
            message: secret.to_owned(),
            schema: None,
            url: None,
            subagent: None,
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
