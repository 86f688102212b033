//! The bus over a NATS server.

mod body_assembly;
mod bus_core;
mod message_content;
mod sealed_message;
mod server_address;
mod server_link;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use self::bus_core::NatsBusCore;
use self::sealed_message::MessageSealer;
use self::server_address::NatsAddress;
use self::server_link::LinkMaker;
use super::{NatsOptions, NodeBusOpenError};
use crate::node_bus::{
    Doorbell, DoorbellPoller, NODE_NAME_BYTES_MAX, NodeBus, NodeBusError, NodeBusStatus,
    NodeBusStore, NodeRequestHandler,
};

/// How often the store is looked at for entries whose rings were lost.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long the first connection may take before the process goes on without it.
const FIRST_CONNECTION_MAX: Duration = Duration::from_secs(10);

/// A bus over a NATS server. It connects again by itself, and leaves the server when it is dropped.
pub struct NatsNodeBus {
    core: Arc<NatsBusCore>,
    _stop: DropGuard,
}

impl NatsNodeBus {
    /// Joins the cluster of a store under a name that no other process has or had. Waits for the first
    /// attempt to connect; whether it succeeded, [`NodeBus::status`] says.
    pub async fn open(
        options: &NatsOptions,
        node: &str,
        store: Arc<dyn NodeBusStore>,
    ) -> Result<Self, NodeBusOpenError> {
        if node.is_empty() || node.len() > NODE_NAME_BYTES_MAX {
            let why = format!("the name of a gateway has 1 to {NODE_NAME_BYTES_MAX} bytes");
            return Err(NodeBusOpenError::Settings(why));
        }
        let address = NatsAddress::parse(&options.url).map_err(NodeBusOpenError::Settings)?;
        let maker = LinkMaker::new(address, options).await?;
        let cluster = store.cluster().await.map_err(NodeBusOpenError::Store)?;
        let sealer = MessageSealer::new(cluster.secret, cluster.name.clone(), node)
            .map_err(|_| NodeBusOpenError::System("the system gives no random numbers".into()))?;
        let core = Arc::new(NatsBusCore::new(node, &cluster.name, sealer));
        let stop = CancellationToken::new();
        let attempted = Arc::new(Notify::new());
        let running = server_link::run(Arc::clone(&core), maker, Arc::clone(&attempted));
        tokio::spawn(stop.clone().run_until_cancelled_owned(running));
        let poller = DoorbellPoller::new(store, Arc::clone(&core.doorbells));
        let polled = Arc::clone(&core);
        let polling = async move { poller.run(|| POLL_INTERVAL, &polled.hints).await };
        tokio::spawn(stop.clone().run_until_cancelled_owned(polling));
        let stop = stop.drop_guard();
        let _ = tokio::time::timeout(FIRST_CONNECTION_MAX, attempted.notified()).await;
        Ok(Self { core, _stop: stop })
    }
}

impl NodeBus for NatsNodeBus {
    fn local_node(&self) -> &str {
        &self.core.node
    }

    fn ring(&self, session: &SessionId, seq: u64) {
        self.core.ring(session, seq);
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
        self.core.status()
    }
}
