//! The bus of processes that are one process: a gateway alone, and several of them in a test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::node_bus::{
    BODY_BYTES_MAX, BusCounters, ClusterName, Doorbell, DoorbellRegistry, DoorbellSignal, NodeBus,
    NodeBusError, NodeBusState, NodeBusStatus, NodeRequestHandler, RequestServer,
};

/// What connects the buses of one process.
#[derive(Clone, Default)]
pub struct LocalNetwork {
    members: Arc<Mutex<MemberTable>>,
}

type MemberTable = HashMap<(ClusterName, String), Arc<LocalMember>>;

/// A bus within this process. It leaves the network when it is dropped.
pub struct LocalNodeBus {
    network: LocalNetwork,
    cluster: ClusterName,
    member: Arc<LocalMember>,
}

struct LocalMember {
    node: String,
    doorbells: Arc<DoorbellRegistry>,
    requests: RequestServer,
    counters: BusCounters,
}

impl LocalMember {
    fn new(node: &str) -> Arc<Self> {
        Arc::new(Self {
            node: node.to_owned(),
            doorbells: Arc::default(),
            requests: RequestServer::default(),
            counters: BusCounters::default(),
        })
    }
}

impl LocalNetwork {
    /// Adds a process to a cluster; `None` if its name is taken there.
    pub fn join(&self, cluster: &ClusterName, node: &str) -> Option<LocalNodeBus> {
        let member = LocalMember::new(node);
        let mut members = self.lock();
        let name = (cluster.clone(), node.to_owned());
        if members.contains_key(&name) {
            return None;
        }
        members.insert(name, Arc::clone(&member));
        let network = self.clone();
        Some(LocalNodeBus { network, cluster: cluster.clone(), member })
    }

    fn lock(&self) -> MutexGuard<'_, MemberTable> {
        // The table is consistent even after a panic.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalNodeBus {
    /// The bus of a process that is alone.
    pub fn alone(node: &str) -> Self {
        let (network, cluster) = (LocalNetwork::default(), ClusterName::default());
        let member = LocalMember::new(node);
        network.lock().insert((cluster.clone(), node.to_owned()), Arc::clone(&member));
        Self { network, cluster, member }
    }

    fn find(&self, node: &str) -> Option<Arc<LocalMember>> {
        self.network.lock().get(&(self.cluster.clone(), node.to_owned())).cloned()
    }

    async fn ask(&self, node: &str, body: Bytes, within: Duration) -> Result<Bytes, NodeBusError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(NodeBusError::TooLarge { bytes: body.len() });
        }
        let Some(member) = self.find(node) else {
            return Err(NodeBusError::NoSuchNode(node.to_owned()));
        };
        self.member.counters.requests_sent.add(1);
        let from = &self.member.node;
        member.requests.ask(from, node, body, within, &member.counters).await
    }
}

impl NodeBus for LocalNodeBus {
    fn local_node(&self) -> &str {
        &self.member.node
    }

    fn ring(&self, session: &SessionId, seq: u64) {
        self.member.counters.rings_sent.add(1);
        for ((cluster, _), member) in &*self.network.lock() {
            if *cluster == self.cluster {
                member.counters.rings_received.add(1);
                member.doorbells.ring(session, DoorbellSignal::UpTo(seq));
            }
        }
    }

    fn doorbell(&self, session: &SessionId) -> Doorbell {
        self.member.doorbells.add(session)
    }

    fn request(
        &self,
        node: &str,
        body: Bytes,
        within: Duration,
    ) -> BoxFuture<'_, Result<Bytes, NodeBusError>> {
        let node = node.to_owned();
        Box::pin(async move { self.ask(&node, body, within).await })
    }

    fn serve(&self, handler: Arc<dyn NodeRequestHandler>) {
        self.member.requests.serve(handler);
    }

    fn status(&self) -> NodeBusStatus {
        let counts = self.member.counters.read();
        NodeBusStatus { state: NodeBusState::Connected, round_trip: None, counts }
    }
}

impl Drop for LocalNodeBus {
    fn drop(&mut self) {
        self.network.lock().remove(&(self.cluster.clone(), self.member.node.clone()));
    }
}
