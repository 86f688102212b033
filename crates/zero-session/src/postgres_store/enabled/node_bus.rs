//! The bus of processes that share nothing but the database.
//!
//! Requests are rows. A notification wakes the receiver; it is sent in small transactions of its own,
//! never in those that write to sessions, because the server lets only one notifying transaction commit at
//! a time. Without notifications everything is found by polling.

pub(super) mod bus_rows;
mod notification_listener;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use self::bus_rows::{RequestState, TakenRequest};
use super::PostgresStore;
use super::database::Database;
use super::postgres_error::PostgresError;
use crate::node_bus::{
    BODY_BYTES_MAX, BusCounters, Doorbell, DoorbellHints, DoorbellPoller, DoorbellRegistry,
    NODE_NAME_BYTES_MAX, NodeBus, NodeBusError, NodeBusState, NodeBusStatus, NodeRequestHandler,
    OutgoingRings, RequestServer,
};
use crate::store::StoreError;

/// The channel of notifications.
const CHANNEL: &str = "zero_bus";
/// How often rows are looked at: if notifications arrive, and if they do not.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(100));
/// How often this process says that it is there.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// How often rows that are no longer needed are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// How often it is looked whether the recipient of a request is still there.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// How long a recipient that is there may take to see a request.
const TAKING_MAX: Duration = Duration::from_secs(5);
/// How often answers are looked for, at least.
const ANSWER_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// Pause between two looks for answers.
const ANSWER_PAUSE: Duration = Duration::from_millis(2);
/// Maximum number of sessions in one transaction with notifications.
const RINGS_MAX: usize = 500;
/// Maximum size of a notification; the server allows 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_900;
/// Pause between two such transactions.
const RINGS_PAUSE: Duration = Duration::from_millis(5);

/// A bus over the database of a store. It leaves when it is dropped.
pub(super) struct PostgresNodeBus {
    core: Arc<PostgresBusCore>,
    _stop: DropGuard,
}

struct PostgresBusCore {
    store: Arc<PostgresStore>,
    node: String,
    instance: i64,
    doorbells: Arc<DoorbellRegistry>,
    outgoing: OutgoingRings,
    requests: RequestServer,
    counters: BusCounters,
    /// Why the database cannot be used, if it cannot.
    problem: Mutex<Option<String>>,
    round_trip: Mutex<Option<Duration>>,
    is_listening: AtomicBool,
    /// There is a request to this process.
    asked: Notify,
    /// Doorbells are to be looked at.
    hints: DoorbellHints,
    /// Who waits for an answer.
    waiting: Mutex<HashMap<i64, watch::Sender<RequestState>>>,
    /// An answer may be there.
    answered: Notify,
}

impl PostgresNodeBus {
    /// Joins under a name that no other process has.
    pub(super) async fn open(store: Arc<PostgresStore>, node: &str) -> Result<Self, StoreError> {
        const VERB: &str = "join the other gateways";
        let broken = |why: String| StoreError::Broken { verb: VERB, why };
        if node.is_empty() || node.len() > NODE_NAME_BYTES_MAX || node.contains('\0') {
            return Err(broken(format!(
                "the name of a gateway has 1 to {NODE_NAME_BYTES_MAX} bytes"
            )));
        }
        let core = Arc::new(PostgresBusCore {
            node: node.to_owned(),
            instance: fastrand::i64(..),
            doorbells: Arc::default(),
            outgoing: OutgoingRings::default(),
            requests: RequestServer::default(),
            counters: BusCounters::default(),
            problem: Mutex::default(),
            round_trip: Mutex::default(),
            is_listening: AtomicBool::new(false),
            asked: Notify::new(),
            hints: DoorbellHints::default(),
            waiting: Mutex::default(),
            answered: Notify::new(),
            store,
        });
        let announced = bus_rows::announce(core.database(), node, core.instance).await;
        if !core.store.report(VERB, announced)? {
            return Err(broken(format!(
                "the name `{node}` belongs to another process; start zero again"
            )));
        }
        let stop = CancellationToken::new();
        let spawn = |running: BoxFuture<'static, ()>| {
            tokio::spawn(stop.clone().run_until_cancelled_owned(running));
        };
        let poller = DoorbellPoller::new(core.store.clone(), Arc::clone(&core.doorbells));
        let polled = Arc::clone(&core);
        spawn(Box::pin(async move {
            poller.run(|| polled.poll_interval(), &polled.hints).await;
        }));
        spawn(Box::pin(Arc::clone(&core).take_requests()));
        spawn(Box::pin(Arc::clone(&core).poll_answers()));
        spawn(Box::pin(Arc::clone(&core).send_rings()));
        spawn(Box::pin(Arc::clone(&core).renew_announcement()));
        let (config, tls) = (core.store.listener.0.clone(), core.store.listener.1.clone());
        spawn(Box::pin(notification_listener::run(Arc::clone(&core), config, tls)));
        Ok(Self { core, _stop: stop.drop_guard() })
    }
}

impl PostgresBusCore {
    fn database(&self) -> &Database {
        &self.store.database
    }

    fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Relaxed)
    }

    fn poll_interval(&self) -> Duration {
        if self.is_listening() { POLL_INTERVALS.0 } else { POLL_INTERVALS.1 }
    }

    /// Looks for what came while there was no connection.
    fn set_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Ordering::Relaxed);
        self.asked.notify_one();
        self.hints.add_all();
        self.answered.notify_one();
    }

    /// A session may have new entries.
    fn hint(&self, session: SessionId) {
        self.counters.rings_received.add(1);
        if self.doorbells.has(&session) {
            self.hints.add(session);
        }
    }

    fn wake_waiter(&self, request: i64) {
        if self.waiting().contains_key(&request) {
            self.answered.notify_one();
        }
    }

    fn describe(&self, error: PostgresError) -> String {
        error.into_store_error("reach other gateways", &self.database().description).to_string()
    }

    /// Executes the requests of others.
    async fn take_requests(self: Arc<Self>) {
        loop {
            let taken = bus_rows::take(self.database(), &self.node, self.instance).await;
            match taken {
                Ok(taken) if !taken.is_empty() => {
                    for request in taken {
                        Arc::clone(&self).begin(request);
                    }
                    continue;
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(?error, "requests could not be read"),
            }
            let _ = tokio::time::timeout(self.poll_interval(), self.asked.notified()).await;
        }
    }

    fn begin(self: Arc<Self>, request: TakenRequest) {
        let TakenRequest { id, from, body } = request;
        let core = Arc::clone(&self);
        let begun = self.requests.begin(from, body, move |answer| async move {
            let answer = answer.as_ref().map(|body| &**body).map_err(|refusal| *refusal);
            core.finish(id, answer).await;
        });
        match begun {
            Ok(()) => self.counters.requests_served.add(1),
            Err(refusal) => {
                self.counters.requests_refused.add(1);
                tokio::spawn(async move { self.finish(id, Err(refusal)).await });
            }
        }
    }

    async fn finish(&self, id: i64, end: Result<&[u8], crate::node_bus::NodeRequestRefusal>) {
        if let Err(error) = bus_rows::finish(self.database(), id, end, self.is_listening()).await {
            tracing::warn!(?error, "the answer to another gateway could not be written");
        }
    }

    /// Lets others know where there are new entries. Those that poll need nothing.
    async fn send_rings(self: Arc<Self>) {
        loop {
            let rings = self.outgoing.take(RINGS_MAX).await;
            if !self.is_listening() {
                continue;
            }
            self.counters.rings_sent.add(rings.len() as u64);
            let payloads = ring_payloads(&rings);
            if let Err(error) = bus_rows::notify(self.database(), &payloads).await {
                tracing::debug!(?error, "notifications could not be sent");
            }
            tokio::time::sleep(RINGS_PAUSE).await;
        }
    }

    /// Says that this process is there.
    async fn renew_announcement(self: Arc<Self>) {
        let mut swept = Instant::now();
        loop {
            let sent = Instant::now();
            let announced = bus_rows::announce(self.database(), &self.node, self.instance).await;
            let problem = match announced {
                Ok(true) => None,
                Ok(false) => Some(format!(
                    "the name `{}` belongs to another process; start zero again",
                    self.node
                )),
                Err(error) => Some(self.describe(error)),
            };
            let taken = problem.is_none().then(|| sent.elapsed());
            *lock(&self.round_trip) = taken;
            let before = std::mem::replace(&mut *lock(&self.problem), problem.clone());
            if let Some(why) = problem.filter(|why| before.as_ref() != Some(why)) {
                self.counters.connections_lost.add(u64::from(before.is_none()));
                tracing::warn!(why, "other gateways cannot be reached");
            }
            if swept.elapsed() > SWEEP_INTERVAL {
                swept = Instant::now();
                if let Err(error) = bus_rows::sweep(self.database()).await {
                    tracing::debug!(?error, "old requests could not be removed");
                }
            }
            tokio::time::sleep(ANNOUNCE_INTERVAL).await;
        }
    }

    async fn ask(&self, node: &str, body: Bytes, within: Duration) -> Result<Bytes, NodeBusError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(NodeBusError::TooLarge { bytes: body.len() });
        }
        self.counters.requests_sent.add(1);
        if node == self.node {
            return self.requests.ask(node, node, body, within, &self.counters).await;
        }
        if node.is_empty() || node.len() > NODE_NAME_BYTES_MAX || node.contains('\0') {
            return Err(NodeBusError::NoSuchNode(node.to_owned()));
        }
        let (id, asked) = (fastrand::i64(..), Instant::now());
        let (database, wakes) = (self.database(), self.is_listening());
        match bus_rows::ask(database, id, &self.node, node, within, &body, wakes).await {
            Ok(true) => {}
            Ok(false) => return Err(NodeBusError::NoSuchNode(node.to_owned())),
            // Whether the row was written is not known.
            Err(error) => {
                let why = self.describe(error);
                return match bus_rows::withdraw(database, id).await {
                    Ok(true) => Err(NodeBusError::Unavailable { why }),
                    Ok(false) | Err(_) => {
                        Err(NodeBusError::Interrupted { node: node.to_owned(), why })
                    }
                };
            }
        }
        drop(body);
        let (sender, mut state) = watch::channel(RequestState::New);
        self.waiting().insert(id, sender);
        let _end = PostgresWaitGuard { core: self, id };
        self.answered.notify_one();
        self.wait(id, node, within, asked, &mut state).await
    }

    /// Waits for the answer to a request that is written.
    async fn wait(
        &self,
        id: i64,
        node: &str,
        within: Duration,
        asked: Instant,
        state: &mut watch::Receiver<RequestState>,
    ) -> Result<Bytes, NodeBusError> {
        let interrupted =
            |why: &str| NodeBusError::Interrupted { node: node.to_owned(), why: why.to_owned() };
        loop {
            let left = within.saturating_sub(asked.elapsed()).min(WATCH_INTERVAL);
            let is_changed = tokio::time::timeout(left, state.changed()).await.is_ok();
            let now = *state.borrow_and_update();
            match now {
                RequestState::Ended => match bus_rows::end(self.database(), id).await {
                    Ok(Some(end)) => return end.map_err(|refusal| refusal.into_error(node)),
                    Ok(None) => return Err(interrupted("the database has lost the answer")),
                    Err(error) => return Err(interrupted(&self.describe(error))),
                },
                RequestState::Missing => {
                    return Err(interrupted("the database has lost the request"));
                }
                RequestState::New | RequestState::Taken => {}
            }
            let is_late = asked.elapsed() >= within;
            if now == RequestState::New && (is_late || asked.elapsed() > TAKING_MAX) {
                // Its recipient may take it at the same time; one of both succeeds.
                if let Ok(true) = bus_rows::withdraw(self.database(), id).await {
                    return Err(NodeBusError::NoSuchNode(node.to_owned()));
                }
            }
            if is_late {
                return Err(NodeBusError::TimedOut { node: node.to_owned(), within });
            }
            if is_changed {
                continue;
            }
            if let Ok(false) = bus_rows::is_there(self.database(), node).await {
                // It may have answered before it ended.
                return match bus_rows::end(self.database(), id).await {
                    Ok(Some(end)) => end.map_err(|refusal| refusal.into_error(node)),
                    Ok(None) | Err(_) => Err(interrupted("it has ended or lost its connection")),
                };
            }
        }
    }

    /// Looks what has become of the requests of this process, of all of them at once.
    async fn poll_answers(self: Arc<Self>) {
        loop {
            let ids: Vec<i64> = self.waiting().keys().copied().collect();
            if ids.is_empty() {
                self.answered.notified().await;
                continue;
            }
            match bus_rows::states(self.database(), &ids).await {
                Ok(states) => {
                    let waiting = self.waiting();
                    for (id, waiter) in ids.iter().filter_map(|id| Some((id, waiting.get(id)?))) {
                        let state = states.get(id).copied().unwrap_or(RequestState::Missing);
                        waiter.send_if_modified(|known| std::mem::replace(known, state) != state);
                    }
                }
                Err(error) => tracing::debug!(?error, "answers could not be looked for"),
            }
            let interval = self.poll_interval().min(ANSWER_INTERVAL_MAX);
            let _ = tokio::time::timeout(interval, self.answered.notified()).await;
            // Answers that come at the same time are looked for together.
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<i64, watch::Sender<RequestState>>> {
        lock(&self.waiting)
    }
}

/// What a lock protects here is consistent even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notifications that name sessions, each as large as the server allows.
fn ring_payloads(rings: &[(SessionId, u64)]) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    let sessions: HashSet<&SessionId> = rings.iter().map(|(session, _)| session).collect();
    for session in sessions {
        let session = session.as_str();
        match payloads.last_mut() {
            Some(last) if last.len() + 1 + session.len() <= PAYLOAD_BYTES_MAX => {
                last.push(' ');
                last.push_str(session);
            }
            _ => payloads.push(format!("r{session}")),
        }
    }
    payloads
}

/// Removes who does not wait any more.
struct PostgresWaitGuard<'a> {
    core: &'a PostgresBusCore,
    id: i64,
}

impl Drop for PostgresWaitGuard<'_> {
    fn drop(&mut self) {
        self.core.waiting().remove(&self.id);
    }
}

impl NodeBus for PostgresNodeBus {
    fn local_node(&self) -> &str {
        &self.core.node
    }

    fn ring(&self, session: &SessionId, seq: u64) {
        self.core.doorbells.ring(session, crate::node_bus::DoorbellSignal::UpTo(seq));
        self.core.outgoing.add(session, seq);
    }

    fn doorbell(&self, session: &SessionId) -> Doorbell {
        self.core.doorbells.add(session)
    }

    fn request(
        &self,
        node: &str,
        body: Bytes,
        within: Duration,
    ) -> BoxFuture<'_, Result<Bytes, NodeBusError>> {
        let node = node.to_owned();
        Box::pin(async move { self.core.ask(&node, body, within).await })
    }

    fn serve(&self, handler: Arc<dyn NodeRequestHandler>) {
        self.core.requests.serve(handler);
    }

    fn status(&self) -> NodeBusStatus {
        let state = match lock(&self.core.problem).clone() {
            None => NodeBusState::Connected,
            Some(why) => NodeBusState::Disconnected { why },
        };
        let round_trip = *lock(&self.core.round_trip);
        NodeBusStatus { state, round_trip, counts: self.core.counters.read() }
    }
}

impl Drop for PostgresNodeBus {
    fn drop(&mut self) {
        // Otherwise others notice after some seconds.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let core = Arc::clone(&self.core);
            runtime.spawn(async move {
                if let Err(error) =
                    bus_rows::leave(core.database(), &core.node, core.instance).await
                {
                    tracing::debug!(?error, "others could not be told that this process ends");
                }
            });
        }
    }
}
