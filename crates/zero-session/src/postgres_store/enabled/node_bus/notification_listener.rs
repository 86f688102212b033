//! A connection of its own on which the server says that there is something new.
//!
//! Behind a pooler in transaction mode nothing would arrive there, which is tried first. The bus then works
//! by polling alone.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Config};
use zero_core::SessionId;

use super::super::tls::RustlsConnect;
use super::{CHANNEL, PostgresBusCore, bus_rows};

/// How long the first notification may take.
const TRIAL_MAX: Duration = Duration::from_secs(3);
/// Pause before the connection is made again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Pause before it is tried again whether notifications arrive.
const TRIAL_PAUSE: Duration = Duration::from_secs(600);
/// Notifications that wait to be handled. Further ones are found by polling.
const NOTIFICATIONS_MAX: usize = 1_024;

/// How a connection ended.
enum ListenEnd {
    /// Notifications do not arrive on it.
    Deaf,
    /// It was lost after they had arrived.
    Lost,
    /// It could not be made.
    Failed(String),
}

/// Listens for ever.
pub(super) async fn run(core: Arc<PostgresBusCore>, config: Config, tls: RustlsConnect) {
    let mut pause = PAUSES.0;
    loop {
        let end = listen(&core, &config, tls.clone()).await;
        core.set_listening(false);
        match end {
            ListenEnd::Deaf => {
                tracing::info!(
                    "the database sends no notifications, perhaps because of a pooler; the bus polls"
                );
                tokio::time::sleep(TRIAL_PAUSE).await;
            }
            ListenEnd::Lost => pause = PAUSES.0,
            ListenEnd::Failed(why) => tracing::debug!(why, "notifications cannot be received"),
        }
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn listen(core: &Arc<PostgresBusCore>, config: &Config, tls: RustlsConnect) -> ListenEnd {
    let (client, mut connection) = match config.connect(tls).await {
        Ok(connected) => connected,
        Err(error) => return ListenEnd::Failed(error.to_string()),
    };
    let (sender, mut notifications) = mpsc::channel(NOTIFICATIONS_MAX);
    let receiving = async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    let (channel, payload) =
                        (notification.channel().to_owned(), notification.payload().to_owned());
                    // Notifications that do not fit are found by polling.
                    let _ = sender.try_send((channel, payload));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return ListenEnd::Lost,
            }
        }
    };
    let using = async {
        let trial = format!("zero_trial_{:016x}", fastrand::u64(..));
        if let Err(error) = client.batch_execute(&format!("LISTEN {trial}")).await {
            return ListenEnd::Failed(error.to_string());
        }
        if bus_rows::notify_channel(core.database(), &trial).await.is_err() {
            return ListenEnd::Failed("the database cannot be used".to_owned());
        }
        match tokio::time::timeout(TRIAL_MAX, notifications.recv()).await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return ListenEnd::Deaf,
        }
        let listen = format!("UNLISTEN {trial}; LISTEN {CHANNEL}");
        if let Err(error) = client.batch_execute(&listen).await {
            return ListenEnd::Failed(error.to_string());
        }
        core.set_listening(true);
        while let Some((_, payload)) = notifications.recv().await {
            if handle(core, &payload).is_none() {
                core.counters.messages_ignored.add(1);
            }
        }
        ListenEnd::Lost
    };
    tokio::select! {
        end = receiving => end,
        end = using => end,
    }
}

/// Every user of the database can send anything here. So a payload only says where to look.
fn handle(core: &PostgresBusCore, payload: &str) -> Option<()> {
    match payload.split_at_checked(1)? {
        ("r", sessions) => {
            for session in sessions.split(' ') {
                core.hint(SessionId::new(session).ok()?);
            }
        }
        ("q", node) => {
            if node == core.node {
                core.asked.notify_one();
            }
        }
        ("a", request) => core.wake_waiter(request.parse().ok()?),
        _ => return None,
    }
    Some(())
}
