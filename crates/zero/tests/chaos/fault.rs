//! The faults, and in which order they happen.

use std::fmt;
use std::time::Duration;

use crate::cluster::{Cluster, NODES};
use crate::gateway_node::GatewayNode;
use crate::link_proxy::{LinkMode, LinkProxy};

/// Longer than the lease of a gateway.
const LONG: Duration = Duration::from_millis(6_500);
/// Shorter than it.
const SHORT: Duration = Duration::from_millis(2_500);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    Kill,
    Pause,
    Drain,
    CutDatabase,
    HoldDatabase,
    CutBus,
    HoldBus,
    CutClients,
    HoldClients,
    RestartDatabase,
    CrashDatabase,
    StopBus,
}

impl FaultKind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Kill,
        Self::Pause,
        Self::Drain,
        Self::CutDatabase,
        Self::HoldDatabase,
        Self::CutBus,
        Self::HoldBus,
        Self::CutClients,
        Self::HoldClients,
        Self::RestartDatabase,
        Self::CrashDatabase,
        Self::StopBus,
    ];
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "`kill -9` of a gateway",
            Self::Pause => "pause of a gateway, longer than its lease",
            Self::Drain => "drain of a gateway",
            Self::CutDatabase => "links to the database cut",
            Self::HoldDatabase => "links to the database held",
            Self::CutBus => "links to the bus cut",
            Self::HoldBus => "links to the bus held",
            Self::CutClients => "links to clients and tool hosts cut",
            Self::HoldClients => "links to clients and tool hosts held",
            Self::RestartDatabase => "restart of the database",
            Self::CrashDatabase => "crash of the database",
            Self::StopBus => "outage of the bus",
        })
    }
}

/// A fault, where it happens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    node: usize,
    lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, gateway {}, {} ms", self.kind, self.node, self.lasts.as_millis())
    }
}

/// Draws all kinds before it draws one again.
pub(crate) struct FaultPlan(Vec<FaultKind>);

impl FaultPlan {
    pub(crate) fn new(_random: &mut fastrand::Rng) -> Self {
        Self(Vec::new())
    }

    pub(crate) fn next(&mut self, random: &mut fastrand::Rng) -> Fault {
        if self.0.is_empty() {
            self.0.extend(FaultKind::ALL);
            random.shuffle(&mut self.0);
        }
        let kind = self.0.pop().unwrap();
        let is_long = kind == FaultKind::Pause || random.bool();
        Fault { kind, node: random.usize(..NODES), lasts: if is_long { LONG } else { SHORT } }
    }
}

impl Fault {
    /// Lets it happen, and then be over.
    pub(crate) async fn happen(&self, cluster: &mut Cluster) {
        let node = &mut cluster.nodes[self.node];
        let (cut, held) = (LinkMode::Cut, LinkMode::Held);
        match self.kind {
            FaultKind::Kill => {
                node.kill();
                node.start().await;
            }
            FaultKind::Pause => {
                node.pause();
                tokio::time::sleep(self.lasts).await;
                node.resume();
            }
            FaultKind::Drain => {
                node.drain().await;
                node.start().await;
            }
            FaultKind::CutDatabase => self.change(node, |node| &node.database, cut).await,
            FaultKind::HoldDatabase => self.change(node, |node| &node.database, held).await,
            FaultKind::CutBus => self.change(node, |node| &node.bus, cut).await,
            FaultKind::HoldBus => self.change(node, |node| &node.bus, held).await,
            FaultKind::CutClients => self.change(node, |node| &node.clients, cut).await,
            FaultKind::HoldClients => self.change(node, |node| &node.clients, held).await,
            FaultKind::RestartDatabase => {
                cluster.postgres.stop();
                tokio::time::sleep(self.lasts).await;
                cluster.postgres.run();
            }
            FaultKind::CrashDatabase => {
                cluster.postgres.crash();
                cluster.postgres.run();
            }
            FaultKind::StopBus => {
                cluster.nats.stop();
                tokio::time::sleep(self.lasts).await;
                cluster.nats.run();
            }
        }
    }

    async fn change(
        &self,
        node: &GatewayNode,
        link: fn(&GatewayNode) -> &LinkProxy,
        state: LinkMode,
    ) {
        link(node).set(state);
        tokio::time::sleep(self.lasts).await;
        link(node).set(LinkMode::Open);
    }
}
