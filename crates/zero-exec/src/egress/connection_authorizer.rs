//! Who decides which connections are made.

use std::net::IpAddr;
use std::sync::Arc;

use zero_policy::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, GrantScope, HostName, HostPattern,
};

use crate::command_policy::CommandPolicy;

/// Decides which connections are made.
pub trait ConnectionAuthorizer: Send + Sync {
    /// Whether a host may be connected to. `judged` are the hosts that were judged and allowed for
    /// calls that run now.
    fn authorize_host(
        &self,
        host: &HostName,
        port: u16,
        judged: &[HostName],
    ) -> Result<ConnectPermission, ConnectDeniedError>;

    /// Whether an address may be used that a permitted host turned out to have. `inside` says what
    /// is there when it is not one of the open internet.
    fn authorize_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError>;
}

/// The policy of a host as gatekeeper, with the hosts that settings list for commands.
///
/// To list an address or `localhost` does not open this machine or a private network: that needs a
/// rule of the person's own that names exactly that private address, as for every other tool.
pub struct PolicyAuthorizer {
    policy: Arc<dyn CommandPolicy>,
    network: Vec<HostPattern>,
    grants: Box<dyn Fn() -> Vec<GrantScope> + Send + Sync>,
}

impl PolicyAuthorizer {
    /// Lets through what the policy allows, and the hosts in `network` where it does not object.
    pub fn new(policy: Arc<dyn CommandPolicy>, network: Vec<HostPattern>) -> Self {
        Self { policy, network, grants: Box::new(Vec::new) }
    }

    /// Lets through what a person allowed for the session, too; `grants` is asked each time, so that
    /// what is taken back no longer counts.
    #[must_use]
    pub fn with_grants(self, grants: impl Fn() -> Vec<GrantScope> + Send + Sync + 'static) -> Self {
        Self { grants: Box::new(grants), ..self }
    }
}

impl ConnectionAuthorizer for PolicyAuthorizer {
    fn authorize_host(
        &self,
        host: &HostName,
        port: u16,
        judged: &[HostName],
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let (network, grants) = (&self.network[..], &(self.grants)()[..]);
        self.policy.authorize_host(ConnectRequest { host, port, network, grants, judged })
    }

    fn authorize_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        self.policy.authorize_address(address, inside)
    }
}
