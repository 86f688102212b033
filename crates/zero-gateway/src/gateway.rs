//! The gateway, as the program that runs it sees it.

use std::sync::Arc;
use std::time::Duration;

use zero_wire::pipe::ServerPipeEnd;

use crate::auth::Principal;
use crate::connection::{self, PeerOrigin};
use crate::gateway_config::GatewayConfig;
use crate::gateway_inner::GatewayInner;
use crate::metric_families::MetricFamily;
use crate::pipe_transport::PipeTransport;

/// A gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<GatewayInner>,
}

impl Gateway {
    /// A gateway that nobody can reach yet.
    pub fn new(config: GatewayConfig) -> Self {
        Self { inner: Arc::new(GatewayInner::new(config)) }
    }

    /// Serves a client in this process, as whom it says. It is asked for nothing.
    pub fn attach_pipe(&self, end: ServerPipeEnd, who: Principal) {
        let gateway = Arc::clone(&self.inner);
        let link = PipeTransport::new(end);
        self.inner.tasks.spawn(connection::run_connection(gateway, link, PeerOrigin::Process(who)));
    }

    /// Stops: lets nobody in any more, tells everybody, gives runs so long to end, and then closes
    /// every connection. Whoever calls it again waits for the same end.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down(grace).await;
    }

    /// All it counts, as of now.
    pub fn collect_metrics(&self) -> Vec<MetricFamily> {
        self.inner.collect_metrics()
    }
}
