//! The bus within one process: the conformance suite, and who may join.

use std::sync::Arc;

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;
use zero_session::local_node_bus::{LocalNetwork, LocalNodeBus};
use zero_session::node_bus::{ClusterName, NodeBus};

use crate::node_bus_conformance::{TestNetwork, check_node_bus, session, wait_for};

impl TestNetwork for LocalNetwork {
    fn join<'a>(&'a self, cluster: &'a str, node: &'a str) -> BoxFuture<'a, Arc<dyn NodeBus>> {
        let bus = LocalNetwork::join(self, &ClusterName::new(cluster).unwrap(), node);
        Box::pin(async move { Arc::new(bus.unwrap()) as Arc<dyn NodeBus> })
    }

    fn store_seq<'a>(
        &'a self,
        _cluster: &'a str,
        _session: &'a SessionId,
        _seq: u64,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_node_bus_passes_conformance() {
    check_node_bus(|| async { Arc::new(LocalNetwork::default()) as Arc<dyn TestNetwork> }).await;
}

#[tokio::test]
async fn name_belongs_to_one_process_of_a_cluster() {
    let network = LocalNetwork::default();
    let [c, d] = ["c", "d"].map(|name| ClusterName::new(name).unwrap());
    let x = network.join(&c, "x").unwrap();
    assert!(network.join(&c, "x").is_none());
    assert!(network.join(&d, "x").is_some());
    drop(x);
    assert!(network.join(&c, "x").is_some());
}

#[tokio::test]
async fn process_alone_hears_its_own_rings() {
    let bus = LocalNodeBus::alone("x");
    let a = session("a");
    let mut doorbell = bus.doorbell(&a);
    bus.ring(&a, 3);
    wait_for(&mut doorbell, 3).await;
}
