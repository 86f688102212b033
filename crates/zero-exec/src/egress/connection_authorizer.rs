//! Decides which connections the proxy makes.

use std::net::IpAddr;
use std::sync::Arc;

use zero_policy::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, GrantScope, HostName, HostPattern,
    UserApproval,
};

use super::proxy_request::ConnectTarget;
use crate::command_policy::CommandPolicy;

/// Decides which connections the proxy makes.
pub trait ConnectionAuthorizer: Send + Sync {
    /// Whether the proxy may connect to a host. `call_hosts` are the hosts that were allowed for the
    /// calls that run now, `approval` is what the user said about this target meanwhile.
    fn authorize_host(
        &self,
        target: &ConnectTarget,
        call_hosts: &[HostName],
        approval: UserApproval,
    ) -> Result<ConnectPermission, ConnectDeniedError>;

    /// Whether the proxy may use an address that an allowed host resolved to. `inside` describes
    /// its network if the address is not public.
    fn authorize_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError>;
}

/// Decides by the host's policy and by the hosts that settings list for commands.
///
/// Listing an address or `localhost` in settings does not open this machine or a private network.
/// That needs a rule in the user's own settings that names exactly this address, as for every other
/// tool.
pub struct PolicyAuthorizer {
    policy: Arc<dyn CommandPolicy>,
    network: Vec<HostPattern>,
    grants: Box<dyn Fn() -> Vec<GrantScope> + Send + Sync>,
}

impl PolicyAuthorizer {
    /// Allows what the policy allows, and the hosts in `network` unless the policy denies them.
    pub fn new(policy: Arc<dyn CommandPolicy>, network: Vec<HostPattern>) -> Self {
        Self { policy, network, grants: Box::new(Vec::new) }
    }

    /// Also allows what the user granted for the session. Calls `grants` for every connection, so a
    /// revoked grant takes effect at once.
    #[must_use]
    pub fn with_grants(self, grants: impl Fn() -> Vec<GrantScope> + Send + Sync + 'static) -> Self {
        Self { grants: Box::new(grants), ..self }
    }
}

impl ConnectionAuthorizer for PolicyAuthorizer {
    fn authorize_host(
        &self,
        target: &ConnectTarget,
        call_hosts: &[HostName],
        approval: UserApproval,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let ConnectTarget { host, port } = target;
        let (network, grants) = (&self.network[..], &(self.grants)()[..]);
        self.policy.authorize_host(ConnectRequest {
            host,
            port: *port,
            network,
            grants,
            judged: call_hosts,
            approval,
        })
    }

    fn authorize_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        self.policy.authorize_address(address, inside)
    }
}
