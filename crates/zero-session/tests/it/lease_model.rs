//! Leases of processes that share a database, in many random orders of events.
//!
//! The database, the network and the clocks are a model. The processes decide with the product's own
//! [`NodeLease`]. Requests are executed late, twice after another or never, answers are lost, and a
//! process that does nothing for a while is one that was paused.

use std::time::Duration;

use zero_session::node_lease::{LeaseRules, LeaseStep, NodeLease};

/// All processes, what is under way between them and the database, and the database.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClusterModel {
    rules: LeaseRules,
    /// Time of the database, in milliseconds.
    now_ms: u64,
    /// Of each process.
    lease_until_ms: Vec<u64>,
    /// Holder and number of the claim of each session.
    claims: Vec<Option<(usize, u64)>>,
    nodes: Vec<NodeModel>,
    wire: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeModel {
    lease: NodeLease,
    /// How fast its clock is, in parts of a thousand.
    clock_permille: u64,
    /// Number of the claim of each session that it believes to hold.
    beliefs: Vec<Option<u64>>,
    /// Whether it waits for the answer about its lease, or about a session.
    waits_for_lease: bool,
    waits_for_claim: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    node: usize,
    kind: RequestKind,
    /// Number of the lease's generation when it was sent.
    generation: u64,
    sent_at: Duration,
    /// `None` until the database has executed it.
    answer: Option<Answer>,
    /// Whether its sender waits for the answer.
    is_awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestKind {
    Renew,
    Confirm,
    Claim(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Renewed,
    Claims(Vec<Option<u64>>),
    Claimed(Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ClusterAction {
    /// Time passes.
    Tick(u64),
    /// A process does what its lease asks for.
    Step(usize),
    /// A process claims a session.
    Claim(usize, usize),
    /// The database executes a request.
    Execute(usize),
    /// An answer arrives.
    Deliver(usize),
    /// A request or its answer is lost.
    Lose(usize),
    /// A process no longer waits for an answer, which may still come into being.
    GiveUp(usize),
}

impl ClusterModel {
    fn new(rules: LeaseRules, clocks_permille: &[u64], sessions: usize) -> Self {
        let lease_ms = u64::try_from(rules.duration.as_millis()).unwrap();
        let node = |&clock_permille: &u64| NodeModel {
            lease: NodeLease::granted(rules, Duration::ZERO),
            clock_permille,
            beliefs: vec![None; sessions],
            waits_for_lease: false,
            waits_for_claim: false,
        };
        Self {
            rules,
            now_ms: 0,
            lease_until_ms: vec![lease_ms; clocks_permille.len()],
            claims: vec![None; sessions],
            nodes: clocks_permille.iter().map(node).collect(),
            wire: Vec::new(),
        }
    }

    /// The time of the clock of a process.
    fn clock(&self, node: usize) -> Duration {
        Duration::from_millis(self.now_ms * self.nodes[node].clock_permille / 1000)
    }

    fn send(&mut self, node: usize, kind: RequestKind) {
        let (generation, sent_at) = (self.nodes[node].lease.generation(), self.clock(node));
        let request = Request { node, kind, generation, sent_at, answer: None, is_awaited: true };
        self.wire.push(request);
    }

    /// Whether a process may act for a session.
    fn acts(&self, node: usize, session: usize) -> bool {
        let model = &self.nodes[node];
        model.beliefs[session].is_some() && model.lease.can_act(self.clock(node))
    }

    /// Whether each process that may act for a session is the one that holds it.
    fn has_one_actor_each(&self) -> bool {
        (0..self.nodes.len()).all(|node| {
            (0..self.claims.len()).all(|session| {
                let belief = self.nodes[node].beliefs[session];
                !self.acts(node, session)
                    || self.claims[session] == belief.map(|epoch| (node, epoch))
            })
        })
    }

    /// Performs an action; `false` if it is not possible now.
    fn perform(&mut self, action: &ClusterAction) -> bool {
        match *action {
            ClusterAction::Tick(step_ms) => {
                self.now_ms += step_ms;
                true
            }
            ClusterAction::Step(node) => {
                let now = self.clock(node);
                let model = &mut self.nodes[node];
                let kind = match model.lease.step(now) {
                    _ if model.waits_for_lease => return false,
                    LeaseStep::Renew => RequestKind::Renew,
                    LeaseStep::ConfirmClaims => RequestKind::Confirm,
                    LeaseStep::Wait(_) | LeaseStep::Stop => return false,
                };
                model.waits_for_lease = true;
                self.send(node, kind);
                true
            }
            ClusterAction::Claim(node, session) => {
                if self.nodes[node].waits_for_claim {
                    return false;
                }
                self.nodes[node].waits_for_claim = true;
                self.send(node, RequestKind::Claim(session));
                true
            }
            ClusterAction::Execute(at) => self.execute(at),
            ClusterAction::Deliver(at) => self.deliver(at),
            ClusterAction::Lose(at) => {
                if at >= self.wire.len() {
                    return false;
                }
                let lost = self.wire.remove(at);
                self.stop_waiting(&lost);
                true
            }
            ClusterAction::GiveUp(at) => {
                let Some(request) = self.wire.get_mut(at).filter(|request| request.is_awaited)
                else {
                    return false;
                };
                request.is_awaited = false;
                let given_up = request.clone();
                self.stop_waiting(&Request { is_awaited: true, ..given_up });
                true
            }
        }
    }

    fn stop_waiting(&mut self, request: &Request) {
        if !request.is_awaited {
            return;
        }
        let now = self.clock(request.node);
        let node = &mut self.nodes[request.node];
        match request.kind {
            RequestKind::Claim(_) => node.waits_for_claim = false,
            RequestKind::Renew | RequestKind::Confirm => node.waits_for_lease = false,
        }
        if request.kind == RequestKind::Renew {
            node.lease.renewal_failed(now);
        }
    }

    fn execute(&mut self, at: usize) -> bool {
        let Some(request) = self.wire.get(at).filter(|request| request.answer.is_none()) else {
            return false;
        };
        let node = request.node;
        let answer = match request.kind {
            RequestKind::Renew => {
                let lease_ms = u64::try_from(self.rules.duration.as_millis()).unwrap();
                self.lease_until_ms[node] = self.now_ms + lease_ms;
                Answer::Renewed
            }
            RequestKind::Confirm => {
                let own = |claim: &Option<(usize, u64)>| {
                    claim.and_then(|(holder, epoch)| (holder == node).then_some(epoch))
                };
                Answer::Claims(self.claims.iter().map(own).collect())
            }
            RequestKind::Claim(session) => {
                let claim = &mut self.claims[session];
                match *claim {
                    Some((holder, epoch)) if holder == node => Answer::Claimed(Some(epoch)),
                    Some((holder, _)) if self.now_ms < self.lease_until_ms[holder] => {
                        Answer::Claimed(None)
                    }
                    held => {
                        let epoch = held.map_or(1, |(_, epoch)| epoch + 1);
                        *claim = Some((node, epoch));
                        Answer::Claimed(Some(epoch))
                    }
                }
            }
        };
        let request = &mut self.wire[at];
        request.answer = Some(answer);
        if !request.is_awaited {
            // It changed the database, and nobody hears of it.
            self.wire.remove(at);
        }
        true
    }

    fn deliver(&mut self, at: usize) -> bool {
        if self.wire.get(at).is_none_or(|request| request.answer.is_none()) {
            return false;
        }
        let request = self.wire.remove(at);
        let now = self.clock(request.node);
        let node = &mut self.nodes[request.node];
        match (request.kind, request.answer) {
            (RequestKind::Renew, _) => {
                node.waits_for_lease = false;
                node.lease.renewed(request.sent_at, now);
            }
            (_, Some(Answer::Claims(claims))) => {
                node.waits_for_lease = false;
                if node.lease.claims_confirmed(request.generation, now) {
                    node.beliefs = claims;
                }
            }
            (RequestKind::Claim(session), Some(Answer::Claimed(epoch))) => {
                node.waits_for_claim = false;
                if request.generation == node.lease.generation() {
                    node.beliefs[session] = epoch;
                }
            }
            _ => {}
        }
        true
    }
}

/// Random events of three processes with the product's times, clocks that differ, and pauses. Returns
/// how often a session was taken over.
fn simulate(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let clocks: Vec<u64> = (0..3).map(|_| random.u64(990..=1010)).collect();
    let mut cluster = ClusterModel::new(LeaseRules::default(), &clocks, 3);
    // A process that is paused does nothing until this time.
    let mut paused_until_ms = [0; 3];
    for _ in 0..600 {
        let (node, at) = (random.usize(..3), random.usize(..=cluster.wire.len()));
        let is_awake = |node: usize| paused_until_ms[node] <= cluster.now_ms;
        let action = match random.u8(..100) {
            0..30 => ClusterAction::Tick(random.u64(1..400)),
            30..31 => {
                paused_until_ms[node] = cluster.now_ms + random.u64(..15_000);
                continue;
            }
            31..50 if is_awake(node) => ClusterAction::Step(node),
            50..55 if is_awake(node) => ClusterAction::Claim(node, random.usize(..3)),
            55..75 => ClusterAction::Execute(at),
            75..96 if cluster.wire.get(at).is_some_and(|request| is_awake(request.node)) => {
                ClusterAction::Deliver(at)
            }
            96..98 => ClusterAction::Lose(at),
            98.. => ClusterAction::GiveUp(at),
            _ => continue,
        };
        cluster.perform(&action);
        assert!(cluster.has_one_actor_each(), "seed {seed}: {action:?} leads to {cluster:?}");
    }
    cluster.claims.iter().flatten().map(|(_, epoch)| epoch - 1).sum()
}

#[test]
fn lease_in_random_orders_of_events_has_one_actor() {
    let taken_over: u64 = (0..10_000).map(simulate).sum();
    assert!(taken_over > 10_000, "{taken_over}: the leases hardly ever ran out");
}
