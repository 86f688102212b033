//! What the bus sends, what it waits for, and what it does with what it receives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::{Client, Message, StatusCode};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use zero_core::SessionId;
use zero_core::hexadecimal::to_hex;

use super::body_assembly::{BodyAssembly, PartOutcome};
use super::message_content::{
    BodyPart, PART_HEAD_BYTES, RINGS_MAX, RefusalReason, decode_pair, decode_rings, encode_pair,
    encode_rings,
};
use super::sealed_message::{
    BusMessageKind, MessageOpener, MessageSealer, OVERHEAD_BYTES_MAX, OpenedMessage,
    RejectedMessage, SENDER_IDLE_MAX,
};
use crate::node_bus::{
    BODY_BYTES_MAX, BusCounters, ClusterName, DoorbellHints, DoorbellRegistry, DoorbellSignal,
    NODE_NAME_BYTES_MAX, NodeBusError, NodeBusState, NodeBusStatus, NodeRequestRefusal,
    OutgoingRings, RequestServer,
};

/// Maximum size of a part of a body. Servers allow a message of 1 MiB by default.
const PART_BYTES_MAX: usize = 256 * 1024;
/// How long a process may take to say that it is there.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// How long it is known to be there, and how its clock goes.
const PEER_FRESH_MAX: Duration = Duration::from_secs(5);
/// How often it is asked whether it is still there, while an answer is awaited.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How many of these questions may remain without an answer.
const SILENT_PROBES_MAX: u32 = 3;
/// How long a request may be on its way. Its sender is remembered for longer, so that a recorded request is
/// never executed again.
const ON_THE_WAY_MAX: Duration = Duration::from_secs(300);
const _: () = assert!(ON_THE_WAY_MAX.as_secs() < SENDER_IDLE_MAX.as_secs());
/// Maximum number of processes whose clocks are remembered.
const PEERS_MAX: usize = 4_096;
/// Pause between two messages with rings, so that those of the same session are merged.
const RINGS_PAUSE: Duration = Duration::from_millis(2);

/// A connection to the server that works.
pub(super) struct ServerLink {
    pub(super) client: Client,
    /// Where the server says that a message has no receiver.
    pub(super) inbox: String,
}

/// Whether there is one.
#[derive(Clone)]
enum LinkState {
    Up(Arc<ServerLink>),
    Down { why: String },
}

/// All but the connection.
pub(super) struct NatsBusCore {
    pub(super) node: String,
    sealer: MessageSealer,
    subjects: ClusterSubjects,
    pub(super) doorbells: Arc<DoorbellRegistry>,
    outgoing: OutgoingRings,
    pub(super) requests: RequestServer,
    pub(super) counters: BusCounters,
    link: watch::Sender<LinkState>,
    /// All doorbells are looked at when there is a connection again.
    pub(super) hints: DoorbellHints,
    waiting: Mutex<WaitingTable>,
    round_trip: Mutex<Option<Duration>>,
    next_number: AtomicU64,
    /// The start of the clock that other processes see.
    started: Instant,
}

/// Where messages of a cluster go.
pub(super) struct ClusterSubjects {
    prefix: String,
}

/// Who waits for what, by the numbers of their requests and probes.
#[derive(Default)]
struct WaitingTable {
    requests: HashMap<u64, WaitingRequest>,
    probes: HashMap<u64, WaitingProbe>,
    peers: HashMap<String, PeerClock>,
}

struct WaitingRequest {
    node: String,
    sender: oneshot::Sender<Result<Bytes, NodeBusError>>,
}

struct WaitingProbe {
    node: String,
    sender: oneshot::Sender<Option<PeerClock>>,
}

/// What the clock of another process showed. It has shown more since then, at least as much more as time has
/// passed here.
#[derive(Clone, Copy)]
struct PeerClock {
    shown_ms: u64,
    at: Instant,
}

/// What became of a probe.
enum ProbeOutcome {
    Reply(PeerClock),
    NobodyThere,
    Silent,
}

/// What the receiving task knows.
pub(super) struct ReceiverState {
    opener: MessageOpener,
    incoming: BodyAssembly,
    answers: BodyAssembly,
}

impl ReceiverState {
    pub(super) fn new() -> Self {
        Self {
            opener: MessageOpener::new(),
            incoming: BodyAssembly::default(),
            answers: BodyAssembly::default(),
        }
    }
}

impl ClusterSubjects {
    fn new(cluster: &ClusterName) -> Self {
        Self { prefix: format!("zero.{cluster}") }
    }

    pub(super) fn rings(&self) -> String {
        format!("{}.rings", self.prefix)
    }

    /// Names of processes may contain anything, so their digest is used.
    pub(super) fn node(&self, node: &str) -> String {
        let digest = Sha256::digest(node.as_bytes());
        format!("{}.node.{}", self.prefix, to_hex(digest.get(..16).unwrap_or_default()))
    }

    pub(super) fn inbox(&self) -> String {
        format!("{}.inbox.{:032x}", self.prefix, fastrand::u128(..))
    }
}

impl PeerClock {
    /// What the clock shows at least, at a time of this process.
    fn at(&self, time: Instant) -> u64 {
        self.shown_ms.saturating_add(to_millis(time.saturating_duration_since(self.at)))
    }
}

/// Until when a request that is sent now may begin.
fn latest_arrival(now: Instant, deadline: Instant) -> Instant {
    deadline.min(now + ON_THE_WAY_MAX)
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl NatsBusCore {
    pub(super) fn new(node: &str, cluster: &ClusterName, sealer: MessageSealer) -> Self {
        let down = LinkState::Down { why: "the first connection is being made".to_owned() };
        Self {
            node: node.to_owned(),
            sealer,
            subjects: ClusterSubjects::new(cluster),
            doorbells: Arc::new(DoorbellRegistry::default()),
            outgoing: OutgoingRings::default(),
            requests: RequestServer::default(),
            counters: BusCounters::default(),
            link: watch::Sender::new(down),
            hints: DoorbellHints::default(),
            waiting: Mutex::default(),
            round_trip: Mutex::default(),
            next_number: AtomicU64::new(1),
            started: Instant::now(),
        }
    }

    pub(super) fn subjects(&self) -> &ClusterSubjects {
        &self.subjects
    }

    pub(super) fn status(&self) -> NodeBusStatus {
        let state = match &*self.link.borrow() {
            LinkState::Up(_) => NodeBusState::Connected,
            LinkState::Down { why } => NodeBusState::Disconnected { why: why.clone() },
        };
        let round_trip = *self.round_trip.lock().unwrap_or_else(PoisonError::into_inner);
        NodeBusStatus { state, round_trip, counts: self.counters.read() }
    }

    /// The connection works.
    pub(super) fn set_up(&self, link: Arc<ServerLink>) {
        self.link.send_replace(LinkState::Up(link));
        self.hints.add_all();
    }

    /// The connection does not work any more, or not yet.
    pub(super) fn set_down(&self, why: String) {
        let before = self.link.send_replace(LinkState::Down { why: why.clone() });
        match before {
            LinkState::Up(_) => {
                self.counters.connections_lost.add(1);
                tracing::warn!(why, "the connection to the bus was lost");
            }
            LinkState::Down { why: known } if known == why => {}
            LinkState::Down { .. } => tracing::warn!(why, "there is no connection to the bus"),
        }
        // Waiters see that the connection has changed. Others may be elsewhere when it is back.
        self.waiting().peers.clear();
    }

    pub(super) fn ring(&self, session: &SessionId, seq: u64) {
        self.doorbells.ring(session, DoorbellSignal::UpTo(seq));
        self.outgoing.add(session, seq);
    }

    /// Sends rings for ever, or until the connection is closed.
    pub(super) async fn send_rings(&self, link: &ServerLink) {
        loop {
            let rings = self.outgoing.take(RINGS_MAX).await;
            self.counters.rings_sent.add(rings.len() as u64);
            for content in encode_rings(&rings) {
                let subject = self.subjects.rings();
                if self.send(link, BusMessageKind::Rings, None, subject, &content).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(RINGS_PAUSE).await;
        }
    }

    async fn send(
        &self,
        link: &ServerLink,
        kind: BusMessageKind,
        to: Option<&str>,
        subject: String,
        content: &[u8],
    ) -> Result<(), String> {
        let message = self.sealer.seal(kind, to, content).map_err(|error| error.to_string())?;
        let sent = link.client.publish(subject, message.into()).await;
        sent.map_err(|error| error.to_string())
    }

    async fn send_body(
        &self,
        link: &ServerLink,
        kind: BusMessageKind,
        to: &str,
        mut part: BodyPart,
        body: Bytes,
    ) -> Result<(), String> {
        let allowed =
            link.client.max_payload().saturating_sub(OVERHEAD_BYTES_MAX + PART_HEAD_BYTES);
        let part_bytes = PART_BYTES_MAX.min(allowed);
        if part_bytes == 0 {
            return Err("the server of the bus allows no message of useful size".to_owned());
        }
        part.total = u32::try_from(body.len()).map_err(|error| error.to_string())?;
        let mut rest = body;
        loop {
            part.bytes = rest.split_to(part_bytes.min(rest.len()));
            let subject = self.subjects.node(to);
            self.send(link, kind, Some(to), subject, &part.encode()).await?;
            if rest.is_empty() {
                return Ok(());
            }
            part.offset += u32::try_from(part.bytes.len()).map_err(|error| error.to_string())?;
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(
        &self,
        node: &str,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, NodeBusError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(NodeBusError::TooLarge { bytes: body.len() });
        }
        self.counters.requests_sent.add(1);
        if node == self.node {
            return self.requests.ask(node, node, body, within, &self.counters).await;
        }
        if node.is_empty() || node.len() > NODE_NAME_BYTES_MAX {
            return Err(NodeBusError::NoSuchNode(node.to_owned()));
        }
        let Some(deadline) = Instant::now().checked_add(within) else {
            return Err(NodeBusError::TimedOut { node: node.to_owned(), within });
        };
        let mut links = self.link.subscribe();
        let link = match &*links.borrow_and_update() {
            LinkState::Up(link) => Arc::clone(link),
            LinkState::Down { why } => {
                return Err(NodeBusError::Unavailable { why: why.clone() });
            }
        };
        let clock = self.find_clock(&link, node, deadline).await?;
        let request = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let waiting = WaitingRequest { node: node.to_owned(), sender };
        self.waiting().requests.insert(request, waiting);
        let _end = NatsWaitGuard { core: self, request: Some(request), probe: None };
        let part = BodyPart {
            request,
            valid_until_ms: clock.at(latest_arrival(Instant::now(), deadline)),
            offset: 0,
            total: 0,
            bytes: Bytes::new(),
        };
        let interrupted = |why: &str| {
            Err(NodeBusError::Interrupted { node: node.to_owned(), why: why.to_owned() })
        };
        let asked = async {
            if let Err(why) = self.send_body(&link, BusMessageKind::Request, node, part, body).await
            {
                return interrupted(&why);
            }
            match answer.await {
                Ok(answer) => answer,
                Err(_) => interrupted("its answer was lost"),
            }
        };
        let is_other = |state: &LinkState| match state {
            LinkState::Up(now) => !Arc::ptr_eq(now, &link),
            LinkState::Down { .. } => true,
        };
        tokio::select! {
            answer = asked => answer,
            () = self.watch(&link, node) => {
                self.waiting().peers.remove(node);
                interrupted("it has ended or lost its connection")
            }
            _ = links.wait_for(is_other) => interrupted("the connection to the bus was lost"),
            () = tokio::time::sleep_until(deadline) => {
                self.waiting().peers.remove(node);
                Err(NodeBusError::TimedOut { node: node.to_owned(), within })
            }
        }
    }

    /// Finds out whether a process is there and what its clock shows, unless that is known.
    async fn find_clock(
        &self,
        link: &ServerLink,
        node: &str,
        deadline: Instant,
    ) -> Result<PeerClock, NodeBusError> {
        let known = self.waiting().peers.get(node).copied();
        if let Some(clock) = known.filter(|clock| clock.at.elapsed() < PEER_FRESH_MAX) {
            return Ok(clock);
        }
        let wait = deadline.saturating_duration_since(Instant::now()).min(PROBE_MAX);
        match self.probe(link, node, wait).await {
            ProbeOutcome::Reply(clock) => Ok(clock),
            // Nothing was asked of it.
            ProbeOutcome::NobodyThere | ProbeOutcome::Silent => {
                Err(NodeBusError::NoSuchNode(node.to_owned()))
            }
        }
    }

    /// Returns when a process is not there any more.
    async fn watch(&self, link: &ServerLink, node: &str) {
        let mut silent = 0;
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            match self.probe(link, node, PROBE_MAX).await {
                ProbeOutcome::Reply(_) => silent = 0,
                ProbeOutcome::NobodyThere => return,
                ProbeOutcome::Silent => silent += 1,
            }
            if silent >= SILENT_PROBES_MAX {
                return;
            }
        }
    }

    /// Asks a process whether it is there. The answer that no process is there comes from the server and can
    /// be forged, so only a probe may rely on it.
    async fn probe(&self, link: &ServerLink, node: &str, wait: Duration) -> ProbeOutcome {
        let probe = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.waiting().probes.insert(probe, WaitingProbe { node: node.to_owned(), sender });
        let _end = NatsWaitGuard { core: self, request: None, probe: Some(probe) };
        let asked = async {
            let content = encode_pair(probe, 0);
            let message = self.sealer.seal(BusMessageKind::Probe, Some(node), &content).ok()?;
            let (subject, inbox) = (self.subjects.node(node), format!("{}.{probe}", link.inbox));
            link.client.publish_with_reply(subject, inbox, message.into()).await.ok()?;
            reply.await.ok()
        };
        match tokio::time::timeout(wait, asked).await {
            Ok(Some(Some(clock))) => ProbeOutcome::Reply(clock),
            Ok(Some(None)) => ProbeOutcome::NobodyThere,
            Ok(None) | Err(_) => ProbeOutcome::Silent,
        }
    }

    /// Sends a message to the server and waits until it is back. Returns whether it came.
    pub(super) async fn measure_round_trip(&self, link: &ServerLink, wait: Duration) -> bool {
        let sent = Instant::now();
        let is_back = matches!(self.probe(link, &self.node, wait).await, ProbeOutcome::Reply(_));
        let taken = is_back.then(|| sent.elapsed());
        *self.round_trip.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        is_back
    }

    /// Handles a message of the server itself, to a subject below the inbox.
    pub(super) fn receive_status(&self, link: &ServerLink, message: &Message) {
        let number = message.subject.strip_prefix(&*link.inbox);
        let number = number.and_then(|rest| rest.strip_prefix('.')?.parse::<u64>().ok());
        match number {
            Some(number) if message.status == Some(StatusCode::NO_RESPONDERS) => {
                if let Some(probe) = self.waiting().probes.remove(&number) {
                    let _ = probe.sender.send(None);
                }
            }
            _ => self.counters.messages_ignored.add(1),
        }
    }

    /// Handles a message of another process.
    pub(super) async fn receive(
        self: &Arc<Self>,
        state: &mut ReceiverState,
        link: &Arc<ServerLink>,
        message: &Message,
        to_all: bool,
    ) {
        let now = self.started.elapsed();
        let opened = match state.opener.open(&self.sealer, &message.payload, to_all, now) {
            Ok(opened) => opened,
            Err(why) => {
                self.counters.messages_ignored.add(1);
                match why {
                    RejectedMessage::StolenName => tracing::warn!(
                        "a message was ignored, because two processes have the same name"
                    ),
                    _ => tracing::debug!(?why, "a message was ignored"),
                }
                return;
            }
        };
        if self.handle(state, link, opened, now).await.is_none() {
            self.counters.messages_ignored.add(1);
        }
    }

    /// `None` if the message is malformed, or if no request waits for it.
    async fn handle(
        self: &Arc<Self>,
        state: &mut ReceiverState,
        link: &Arc<ServerLink>,
        message: OpenedMessage,
        now: Duration,
    ) -> Option<()> {
        let OpenedMessage { kind, from, content } = message;
        match kind {
            BusMessageKind::Rings => {
                let rings = decode_rings(&content)?;
                // Its own doorbells have rung.
                if from != self.node {
                    self.counters.rings_received.add(rings.len() as u64);
                    for (session, seq) in &rings {
                        self.doorbells.ring(session, DoorbellSignal::UpTo(*seq));
                    }
                }
            }
            BusMessageKind::Probe => {
                let (probe, _) = decode_pair(&content)?;
                let reply = encode_pair(probe, to_millis(now));
                let subject = self.subjects.node(&from);
                let kind = BusMessageKind::ProbeReply;
                self.send(link, kind, Some(&from), subject, &reply).await.ok()?;
            }
            BusMessageKind::ProbeReply => {
                let (probe, shown_ms) = decode_pair(&content)?;
                let clock = PeerClock { shown_ms, at: Instant::now() };
                let mut waiting = self.waiting();
                waiting.probes.get(&probe).filter(|waiting| waiting.node == from)?;
                let waiter = waiting.probes.remove(&probe)?;
                if waiting.peers.len() >= PEERS_MAX {
                    waiting.peers.retain(|_, clock| clock.at.elapsed() < PEER_FRESH_MAX);
                }
                waiting.peers.insert(from, clock);
                let _ = waiter.sender.send(Some(clock));
            }
            BusMessageKind::Request => {
                let part = BodyPart::decode(content).ok()?;
                let (request, valid_until_ms) = (part.request, part.valid_until_ms);
                let body = match state.incoming.add(&from, part, now) {
                    PartOutcome::Complete(body) => body,
                    PartOutcome::Incomplete => return Some(()),
                    PartOutcome::Misplaced => return None,
                    PartOutcome::NoSpace => {
                        self.counters.requests_refused.add(1);
                        self.refuse(link, &from, request, RefusalReason::Busy).await;
                        return Some(());
                    }
                };
                // No request waits for it any more.
                if to_millis(now) > valid_until_ms {
                    return None;
                }
                self.begin(link, from, request, body).await;
            }
            BusMessageKind::Answer => {
                let part = BodyPart::decode(content).ok()?;
                let request = part.request;
                self.waiting().requests.get(&request).filter(|waiting| waiting.node == from)?;
                match state.answers.add(&from, part, now) {
                    PartOutcome::Complete(body) => self.finish(request, Ok(body)),
                    PartOutcome::Incomplete => {}
                    PartOutcome::Misplaced | PartOutcome::NoSpace => {
                        let why = "parts of its answer were lost".to_owned();
                        let error = NodeBusError::Interrupted { node: from, why };
                        self.finish(request, Err(error));
                    }
                }
            }
            BusMessageKind::Refusal => {
                let (request, reason) = decode_pair(&content)?;
                let refusal = match RefusalReason::from_number(reason)? {
                    RefusalReason::Busy => NodeRequestRefusal::Busy,
                    RefusalReason::Failed => NodeRequestRefusal::Failed,
                    RefusalReason::AnswerTooLarge => NodeRequestRefusal::AnswerTooLarge,
                };
                self.waiting().requests.get(&request).filter(|waiting| waiting.node == from)?;
                self.finish(request, Err(refusal.into_error(&from)));
            }
        }
        Some(())
    }

    /// Begins to execute a request.
    async fn begin(
        self: &Arc<Self>,
        link: &Arc<ServerLink>,
        from: String,
        request: u64,
        body: Bytes,
    ) {
        let (core, asking) = (Arc::clone(self), from.clone());
        let begun = self.requests.begin(from.clone(), body, move |answer| async move {
            core.deliver(&asking, request, answer).await;
        });
        match begun {
            Ok(()) => self.counters.requests_served.add(1),
            Err(_) => {
                self.counters.requests_refused.add(1);
                self.refuse(link, &from, request, RefusalReason::Busy).await;
            }
        }
    }

    /// Sends an answer to the process that asked, by the connection that there is now.
    async fn deliver(&self, to: &str, request: u64, answer: Result<Bytes, NodeRequestRefusal>) {
        let link = match &*self.link.borrow() {
            LinkState::Up(link) => Arc::clone(link),
            // The other one knows that its connection, or this one's, was lost.
            LinkState::Down { .. } => return,
        };
        match answer {
            Ok(body) => {
                let bytes = Bytes::new();
                let part = BodyPart { request, valid_until_ms: 0, offset: 0, total: 0, bytes };
                if let Err(why) =
                    self.send_body(&link, BusMessageKind::Answer, to, part, body).await
                {
                    tracing::debug!(why, "an answer could not be sent");
                }
            }
            Err(NodeRequestRefusal::Busy) => {
                self.refuse(&link, to, request, RefusalReason::Busy).await
            }
            Err(NodeRequestRefusal::Failed) => {
                self.refuse(&link, to, request, RefusalReason::Failed).await;
            }
            Err(NodeRequestRefusal::AnswerTooLarge) => {
                self.refuse(&link, to, request, RefusalReason::AnswerTooLarge).await;
            }
        }
    }

    async fn refuse(&self, link: &ServerLink, to: &str, request: u64, reason: RefusalReason) {
        let (subject, content) = (self.subjects.node(to), encode_pair(request, reason as u64));
        if let Err(why) =
            self.send(link, BusMessageKind::Refusal, Some(to), subject, &content).await
        {
            tracing::debug!(why, "a refusal could not be sent");
        }
    }

    fn finish(&self, request: u64, answer: Result<Bytes, NodeBusError>) {
        if let Some(waiting) = self.waiting().requests.remove(&request) {
            // It may have stopped waiting just now.
            let _ = waiting.sender.send(answer);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingTable> {
        // The tables are consistent even after a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes an entry when no request waits for it any more.
struct NatsWaitGuard<'a> {
    core: &'a NatsBusCore,
    request: Option<u64>,
    probe: Option<u64>,
}

impl Drop for NatsWaitGuard<'_> {
    fn drop(&mut self) {
        let mut waiting = self.core.waiting();
        if let Some(request) = self.request {
            waiting.requests.remove(&request);
        }
        if let Some(probe) = self.probe {
            waiting.probes.remove(&probe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_valid_until_its_deadline_or_for_some_minutes() {
        let now = Instant::now();
        let check = |within: Duration, expected: Duration| {
            let clock = PeerClock { shown_ms: 5, at: now };
            let valid_until = clock.at(latest_arrival(now, now + within));
            assert_eq!(valid_until, 5 + to_millis(expected));
        };
        check(Duration::from_secs(2), Duration::from_secs(2));
        check(Duration::from_secs(86_400), ON_THE_WAY_MAX);
    }
}
