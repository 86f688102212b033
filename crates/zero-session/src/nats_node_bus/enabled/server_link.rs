//! The connection to the server: made, watched, and made again.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectOptions, Event, Message, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::{Notify, mpsc};
use zero_core::error_chain::describe_causes;

use super::bus_core::{NatsBusCore, ReceiverState, ServerLink};
use super::server_address::NatsAddress;
use crate::cluster_tls;
use crate::nats_node_bus::{NatsOptions, NodeBusOpenError};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a message may take to the server and back.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);
/// How often that is measured.
const ROUND_TRIP_INTERVAL: Duration = Duration::from_secs(2);
/// Pause before the connection is made again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Messages that wait to be handled, for each subject. The client drops further ones.
const MESSAGES_MAX: usize = 4_096;

/// Makes connections.
pub(super) struct LinkMaker {
    address: NatsAddress,
    secret: Option<String>,
    tls: rustls::ClientConfig,
}

/// A connection from which no message was received yet.
struct NewLink {
    link: Arc<ServerLink>,
    events: mpsc::Receiver<Event>,
    rings: Subscriber,
    messages: Subscriber,
    statuses: Subscriber,
}

impl LinkMaker {
    /// Checks the login, and reads the certificates of the system.
    pub(super) async fn new(
        address: NatsAddress,
        options: &NatsOptions,
    ) -> Result<Self, NodeBusOpenError> {
        let secret = options.secret.clone().or_else(|| address.password.clone());
        if address.user.is_some() && secret.is_none() {
            let why = "the address of the bus has a user, but no password is set".to_owned();
            return Err(NodeBusOpenError::Settings(why));
        }
        let roots = options.extra_roots.clone();
        let made = tokio::task::spawn_blocking(move || cluster_tls::client_config(&roots)).await;
        let made = made.map_err(|error| NodeBusOpenError::System(error.to_string()))?;
        // Servers of this machine may want encryption too.
        let tls = made.map_err(|error| NodeBusOpenError::System(error.to_string()))?;
        let maker = Self { address, secret, tls };
        maker.options()?;
        Ok(maker)
    }

    fn options(&self) -> Result<ConnectOptions, NodeBusOpenError> {
        let wrong = |what: &str| NodeBusOpenError::Settings(what.to_owned());
        let mut options = ConnectOptions::new()
            .name("zero")
            .connection_timeout(CONNECT_MAX)
            .ping_interval(ROUND_TRIP_INTERVAL)
            .subscription_capacity(MESSAGES_MAX)
            .ignore_discovered_servers()
            // Connections are made again here. At most these attempts go on after one was given up.
            .max_reconnects(self.address.hosts.len());
        options = match (&self.address.user, &self.secret) {
            (Some(user), Some(password)) => {
                options.user_and_password(user.clone(), password.clone())
            }
            (_, Some(secret)) if secret.contains("-----BEGIN NATS USER JWT-----") => options
                .credentials(secret)
                .map_err(|_| wrong("the credentials of the bus are not a valid `.creds` file"))?,
            (_, Some(secret)) if is_user_seed(secret.trim()) => {
                options.nkey(secret.trim().to_owned())
            }
            (_, Some(token)) => options.token(token.clone()),
            (_, None) => options,
        };
        Ok(options.tls_client_config(self.tls.clone()).require_tls(self.address.is_encrypted))
    }

    async fn connect(&self, core: &NatsBusCore) -> Result<NewLink, String> {
        let (sender, events) = mpsc::channel(16);
        let options = self.options().map_err(|error| error.to_string())?;
        let options = options.event_callback(move |event| {
            // Only the first of them matters.
            let _ = sender.try_send(event);
            std::future::ready(())
        });
        let scheme = if self.address.is_encrypted { "tls" } else { "nats" };
        let hosts: Vec<String> =
            self.address.hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        let connecting = tokio::time::timeout(CONNECT_MAX * 2, options.connect(hosts)).await;
        let client = match connecting {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.describe(&error)),
            Err(_) => return Err(format!("{} does not answer", self.address.description)),
        };
        let subjects = core.subjects();
        let inbox = subjects.inbox();
        let subscribe = async |subject: String| {
            client.subscribe(subject).await.map_err(|error| error.to_string())
        };
        let rings = subscribe(subjects.rings()).await?;
        let messages = subscribe(subjects.node(&core.node)).await?;
        let statuses = subscribe(format!("{inbox}.*")).await?;
        let link = Arc::new(ServerLink { client, inbox });
        Ok(NewLink { link, events, rings, messages, statuses })
    }

    fn describe(&self, error: &async_nats::ConnectError) -> String {
        use async_nats::ConnectErrorKind::{Authentication, AuthorizationViolation};
        let server = &self.address.description;
        match error.kind() {
            Authentication | AuthorizationViolation => {
                format!(
                    "{server} refuses the login; check the user, the password or the credentials"
                )
            }
            _ => format!("{server} cannot be reached ({})", describe_causes(error)),
        }
    }
}

/// Whether a text is the seed of an NKey of a user.
fn is_user_seed(text: &str) -> bool {
    text.len() == 58
        && text.starts_with("SU")
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Keeps a connection for ever. `attempted` is notified after the first attempt.
pub(super) async fn run(core: Arc<NatsBusCore>, maker: LinkMaker, attempted: Arc<Notify>) {
    let mut state = ReceiverState::new();
    let mut pause = PAUSES.0;
    loop {
        let (why, was_up) = match maker.connect(&core).await {
            Ok(link) => serve(&core, &mut state, link, &attempted).await,
            Err(why) => (why, false),
        };
        core.set_down(why);
        attempted.notify_one();
        if was_up {
            pause = PAUSES.0;
        }
        // Processes that lost the same server do not come back all at once.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Uses a connection until it is lost. Returns why, and whether it had worked.
async fn serve(
    core: &Arc<NatsBusCore>,
    state: &mut ReceiverState,
    new: NewLink,
    attempted: &Notify,
) -> (String, bool) {
    let NewLink { link, mut events, mut rings, mut messages, mut statuses } = new;
    let mut was_up = false;
    let receiving = async {
        let next = async |subject: &mut Subscriber| subject.next().await;
        loop {
            let (message, to_all): (Option<Message>, _) = tokio::select! {
                message = next(&mut messages) => (message, false),
                message = next(&mut rings) => (message, true),
                message = next(&mut statuses) => match message {
                    Some(message) => {
                        core.receive_status(&link, &message);
                        continue;
                    }
                    None => (None, false),
                },
            };
            match message {
                Some(message) => core.receive(state, &link, &message, to_all).await,
                None => return "the connection was closed".to_owned(),
            }
        }
    };
    let watching = async {
        loop {
            // It also says whether the server lets this process send and receive.
            if !core.measure_round_trip(&link, ROUND_TRIP_MAX).await {
                return "a message to the server did not come back; may this user publish and \
                        subscribe below `zero.`?"
                    .to_owned();
            }
            if !was_up {
                was_up = true;
                core.set_up(Arc::clone(&link));
                attempted.notify_one();
            }
            tokio::time::sleep(ROUND_TRIP_INTERVAL).await;
        }
    };
    let failing = async {
        loop {
            match events.recv().await {
                Some(Event::Connected | Event::LameDuckMode | Event::Draining) => {}
                Some(Event::SlowConsumer(_)) => core.counters.messages_ignored.add(1),
                Some(Event::ServerError(error)) => return format!("the server says: {error}"),
                Some(event) => return format!("the connection was lost ({event})"),
                None => return "the connection was closed".to_owned(),
            }
        }
    };
    let sending = async {
        core.send_rings(&link).await;
        "the connection was closed".to_owned()
    };
    let why = tokio::select! {
        why = receiving => why,
        why = watching => why,
        why = failing => why,
        why = sending => why,
    };
    (why, was_up)
}
