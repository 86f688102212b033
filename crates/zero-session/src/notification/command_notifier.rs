//! Notifies the user by a program of theirs, such as `notify-send`.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::watch;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::notification_program::NotificationProgram;

use super::{FLUSH_TIME_MAX, FirstFailure, Notification, NotificationFailure, Notifier, TITLE};

/// Most notifications that wait for the one before; more are dropped.
const QUEUE_MAX: usize = 8;
/// How long the program may run.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a program for each notification, one at a time.
pub struct CommandNotifier {
    queue: SyncSender<Notification>,
    /// Notifications that are not done.
    pending: watch::Sender<usize>,
    first_failure: FirstFailure,
}

impl CommandNotifier {
    /// Starts the thread that runs the program. In its arguments, `{title}`, `{text}`, `{kind}` and
    /// `{link}` are replaced.
    pub fn start(program: NotificationProgram) -> std::io::Result<Arc<Self>> {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let pending = watch::Sender::new(0);
        let first_failure = FirstFailure::new("notify.command");
        let worker = NotificationWorker {
            program,
            waiting,
            pending: pending.clone(),
            first_failure: first_failure.clone(),
        };
        std::thread::Builder::new().name("zero-notify".to_owned()).spawn(move || worker.run())?;
        Ok(Arc::new(Self { queue, pending, first_failure }))
    }
}

impl Notifier for CommandNotifier {
    fn notify(&self, notification: &Notification) {
        self.pending.send_modify(|count| *count += 1);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(notification.clone())
        {
            self.pending.send_modify(|count| *count = count.saturating_sub(1));
            self.first_failure.note("is so slow that a notification was dropped");
        }
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), NotificationFailure>> {
        Box::pin(async {
            let mut pending = self.pending.subscribe();
            let done = pending.wait_for(|count| *count == 0);
            let is_flushed = tokio::time::timeout(FLUSH_TIME_MAX, done).await.is_ok();
            self.first_failure.after_flush(is_flushed)
        })
    }
}

struct NotificationWorker {
    program: NotificationProgram,
    waiting: Receiver<Notification>,
    pending: watch::Sender<usize>,
    first_failure: FirstFailure,
}

impl NotificationWorker {
    fn run(self) {
        while let Ok(notification) = self.waiting.recv() {
            if let Err(error) = fill_in(&self.program, &notification).run(RUN_TIMEOUT) {
                self.first_failure.note(&format!("did not work: {error}"));
            }
            self.pending.send_modify(|count| *count = count.saturating_sub(1));
        }
    }
}

/// The program for one notification.
fn fill_in(program: &NotificationProgram, notification: &Notification) -> NotificationProgram {
    let kind = notification.kind;
    let link = notification.link.as_deref().unwrap_or_default();
    let values =
        [("{title}", TITLE), ("{text}", kind.text()), ("{kind}", kind.as_str()), ("{link}", link)];
    let mut filled = program.clone();
    for arg in &mut filled.args {
        if let Some(text) = arg.to_str() {
            let text = values
                .iter()
                .fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
            *arg = OsString::from(text);
        }
    }
    for (name, value) in [
        ("ZERO_NOTIFY_TITLE", TITLE),
        ("ZERO_NOTIFY_TEXT", kind.text()),
        ("ZERO_NOTIFY_KIND", kind.as_str()),
        ("ZERO_NOTIFY_LINK", link),
    ] {
        filled.environment.push((name.into(), value.into()));
    }
    filled
}
