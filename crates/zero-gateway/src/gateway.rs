//! The gateway, as the program that runs it sees it.

use std::sync::Arc;
use std::time::Duration;

use zero_session::store::Store;
use zero_wire::devices::DeviceInviteResult;
use zero_wire::method::TokenScope;
use zero_wire::pipe::ServerPipeEnd;

use crate::auth::Principal;
use crate::connection::{self, PeerOrigin};
use crate::gateway_config::GatewayConfig;
use crate::gateway_inner::GatewayInner;
use crate::metric_families::MetricFamily;
use crate::node_requests::NodeRequestServer;
use crate::pipe_transport::PipeTransport;

/// A gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<GatewayInner>,
}

impl Gateway {
    /// Creates a gateway that does not listen anywhere yet.
    pub fn new(config: GatewayConfig) -> Self {
        let inner = Arc::new(GatewayInner::new(config));
        NodeRequestServer::start(&inner);
        Self { inner }
    }

    /// Serves a client in this process as the given principal, without authentication.
    pub fn attach_pipe(&self, end: ServerPipeEnd, who: Principal) {
        let gateway = Arc::clone(&self.inner);
        let link = PipeTransport::new(end);
        self.inner.tasks.spawn(connection::run_connection(gateway, link, PeerOrigin::Process(who)));
    }

    /// Shuts down: stops accepting clients, notifies connected ones, gives runs `grace` to finish,
    /// and closes every connection. Further calls wait for the same shutdown.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down(grace).await;
    }

    /// Parks the runs that are at work as soon as they only wait for the user. Returns when each has been parked
    /// or has ended.
    pub async fn park_runs(&self) {
        self.inner.sessions.park_runs().await;
    }

    /// The store of its sessions, for the program that runs it.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.inner.sessions.store())
    }

    /// Creates a one-time code that pairs a device. `None` if the system has no random numbers. `page` is
    /// the address of the console where the gateway was told no public one.
    pub fn invite_device(
        &self,
        scopes: Vec<TokenScope>,
        owner: &str,
        page: Option<&str>,
    ) -> Option<DeviceInviteResult> {
        self.inner.invite_device(scopes, owner, page)
    }

    /// Collects the current value of every metric.
    pub fn collect_metrics(&self) -> Vec<MetricFamily> {
        self.inner.collect_metrics()
    }
}
