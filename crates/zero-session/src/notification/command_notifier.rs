//! Notifies the user by a program of theirs, such as `notify-send`.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::watch;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::notification_program::NotificationProgram;

use super::{FLUSH_TIME_MAX, NotificationKind, Notifier, TITLE};

/// Most notifications that wait for the one before; more are dropped.
const QUEUE_MAX: usize = 8;
/// How long the program may run.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a program for each notification, one at a time.
pub struct CommandNotifier {
    queue: SyncSender<NotificationKind>,
    /// Notifications that are not done.
    pending: watch::Sender<usize>,
    has_failed: Arc<AtomicBool>,
}

impl CommandNotifier {
    /// Starts the thread that runs the program. In its arguments, `{title}`, `{text}` and `{kind}` are
    /// replaced.
    pub fn start(program: NotificationProgram) -> std::io::Result<Arc<Self>> {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let pending = watch::Sender::new(0);
        let has_failed = Arc::new(AtomicBool::new(false));
        let worker = NotificationWorker {
            program,
            waiting,
            pending: pending.clone(),
            has_failed: Arc::clone(&has_failed),
        };
        std::thread::Builder::new().name("zero-notify".to_owned()).spawn(move || worker.run())?;
        Ok(Arc::new(Self { queue, pending, has_failed }))
    }
}

impl Notifier for CommandNotifier {
    fn notify(&self, kind: NotificationKind) {
        self.pending.send_modify(|count| *count += 1);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(kind)
        {
            self.pending.send_modify(|count| *count = count.saturating_sub(1));
            warn_once(&self.has_failed, "too many notifications wait for it");
        }
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut pending = self.pending.subscribe();
            let done = pending.wait_for(|count| *count == 0);
            let _ = tokio::time::timeout(FLUSH_TIME_MAX, done).await;
        })
    }
}

struct NotificationWorker {
    program: NotificationProgram,
    waiting: Receiver<NotificationKind>,
    pending: watch::Sender<usize>,
    has_failed: Arc<AtomicBool>,
}

impl NotificationWorker {
    fn run(self) {
        while let Ok(kind) = self.waiting.recv() {
            if let Err(error) = fill_in(&self.program, kind).run(RUN_TIMEOUT) {
                warn_once(&self.has_failed, &error.to_string());
            }
            self.pending.send_modify(|count| *count = count.saturating_sub(1));
        }
    }
}

/// The program for one notification.
fn fill_in(program: &NotificationProgram, kind: NotificationKind) -> NotificationProgram {
    let values = [("{title}", TITLE), ("{text}", kind.text()), ("{kind}", kind.as_str())];
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
    ] {
        filled.environment.push((name.into(), value.into()));
    }
    filled
}

/// Whoever cannot be notified is not told of it again and again.
fn warn_once(has_failed: &AtomicBool, why: &str) {
    if !has_failed.swap(true, Ordering::Relaxed) {
        tracing::warn!("the program of `notify.command` could not notify you: {why}");
    }
}
