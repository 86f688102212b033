//! The network that the commands of a session share, and the hosts it leads to.
//!
//! Commands that were judged to need no network have none. The others share the network of their
//! session, a loopback device on which a server started by one command is reachable for the next. It
//! is created when the first command needs it and ends with the session. Its only exit is one port,
//! at which the session's proxy authorizes every connection: see [`crate::egress`]. Where commands
//! share nothing, and no host is allowed, each has a loopback device of its own.
//!
//! Other code that runs programs for a session uses the same network, and holds its
//! [`NetworkUseGuard`] while these programs may be alive.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use zero_core::{CallId, ErrorReason, ToolError};
use zero_policy::{GrantScope, HostName, NetworkScope};
use zero_sandbox::shared_network::SharedNetwork;
use zero_sandbox::spawner::{SpawnError, Spawner};
use zero_sandbox::{AcceptedWeakness, NetworkAccess};

use crate::command_errors;
use crate::command_policy::CommandPolicy;
use crate::command_settings::CommandNetwork;
use crate::egress::{
    AttributionGuard, ConnectionLog, EgressConfig, EgressProxy, HeldConnections, PolicyAuthorizer,
    RefusalCursor, RefusalSummary, ResolverConfig,
};
use crate::network_failure::HostReach;

/// The variables that point programs to the proxy. Most programs read the lower-case names, some
/// the upper-case ones, and Node neither unless it is told to.
const PROXY_VARIABLES: &[(&str, &str)] = &[
    ("HTTP_PROXY", "http://127.0.0.1:3128"),
    ("http_proxy", "http://127.0.0.1:3128"),
    ("HTTPS_PROXY", "http://127.0.0.1:3128"),
    ("https_proxy", "http://127.0.0.1:3128"),
    ("ALL_PROXY", "socks5h://127.0.0.1:3128"),
    ("all_proxy", "socks5h://127.0.0.1:3128"),
    ("NO_PROXY", "localhost,127.0.0.1,::1"),
    ("no_proxy", "localhost,127.0.0.1,::1"),
    ("NODE_USE_ENV_PROXY", "1"),
];

/// Returns the user's grants. Called for every connection, so a revoked grant takes effect at once.
pub type GrantProvider = Arc<dyn Fn() -> Vec<GrantScope> + Send + Sync>;

/// Which hosts the commands of a session may connect to, and where connections are recorded.
pub struct NetworkPolicy {
    /// Hosts that settings allow.
    pub allowed: CommandNetwork,
    /// Decides which hosts rules allow.
    pub policy: Arc<dyn CommandPolicy>,
    /// The user's grants for the session.
    pub grants: GrantProvider,
    /// How host names are resolved.
    pub internet: ResolverConfig,
    /// Where connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
}

/// The network of one command.
pub(crate) struct NetworkAssignment {
    pub(crate) network: NetworkAccess,
    /// The shared network, if it has one.
    pub(crate) net: Option<Arc<SharedNetwork>>,
    /// Environment variables that point programs to the proxy.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// To be held while the command may be alive.
    pub(crate) network_use: NetworkUseGuard,
}

impl NetworkAssignment {
    /// No network at all.
    pub(super) fn none() -> Self {
        Self::new_unshared(NetworkAccess::Nothing, NetworkUseGuard::default())
    }

    /// A network that is not shared with other commands.
    fn new_unshared(network: NetworkAccess, network_use: NetworkUseGuard) -> Self {
        Self { network, net: None, variables: &[], network_use }
    }
}

/// A program's use of its session's network. While it exists, connections are attributed to its
/// call if no other call is alive, and the hosts allowed for the call are open.
#[derive(Default)]
pub struct NetworkUseGuard {
    used: Option<ProxyUse>,
    /// Why there is no network, although a host is allowed.
    without: Option<String>,
    host_reach: HostReach,
}

struct ProxyUse {
    proxy: Arc<EgressProxy>,
    call: CallId,
    since: RefusalCursor,
    _alive: AttributionGuard,
}

impl NetworkUseGuard {
    /// Notes about the network since the start of the program: refused connections, or why there is
    /// no network.
    pub fn notes(&self) -> Vec<String> {
        self.without.iter().cloned().chain(self.summarize().notes()).collect()
    }

    /// Notes about hosts that were allowed and could not be reached since the start of the program.
    pub(crate) fn failure_notes(&self) -> Vec<String> {
        self.summarize().failure_notes()
    }

    fn summarize(&self) -> RefusalSummary {
        let refused = |used: &ProxyUse| used.proxy.refusals_since(used.since, &used.call);
        self.used.as_ref().map_or_else(RefusalSummary::default, refused)
    }

    /// Whether the network leads to any host.
    pub(crate) fn host_reach(&self) -> HostReach {
        self.host_reach
    }
}

/// The network of a session.
pub struct SessionNetwork {
    terms: NetworkPolicy,
    made: Mutex<NetworkState>,
}

enum NetworkState {
    Uncreated,
    Shared(ProxiedNetwork),
    /// The session is over; no network is created any more.
    Closed,
}

struct ProxiedNetwork {
    net: Arc<SharedNetwork>,
    proxy: Arc<EgressProxy>,
}

/// Why the network could not be created.
enum NetworkSetupError {
    Spawn(SpawnError),
    Other(ToolError),
}

impl SessionNetwork {
    /// A network that is created when the first command needs it.
    pub fn new(terms: NetworkPolicy) -> Self {
        Self { terms, made: Mutex::new(NetworkState::Uncreated) }
    }

    /// Assigns a network to the next command of this call. Creates the shared network unless the
    /// command was judged to need none. `sharing` tells whether other commands share the network.
    ///
    /// On a machine where no network can be created, a command is refused if settings demand one,
    /// unless settings accept that weakness. Then it uses the host's network, and its confinement
    /// report says so. If only rules or this call allow a host, it gets no network, which weakens
    /// nothing; for a host of this call, its result says so.
    pub(crate) fn assign(
        &self,
        call: NetworkCall<'_>,
        sharing: NetworkSharing,
        weaknesses: &[AcceptedWeakness],
    ) -> Result<NetworkAssignment, ToolError> {
        let NetworkCall { id, hosts: call_hosts, scope, connections } = call;
        let allowed = &self.terms.allowed;
        let reaches_hosts = connections.is_some() || !call_hosts.is_empty() || self.allows_hosts();
        if *scope == NetworkScope::Nothing {
            let host_reach = match reaches_hosts {
                true => HostReach::NoneJudged,
                false => HostReach::NoneJudgedOrAllowed,
            };
            let network_use = NetworkUseGuard { host_reach, ..NetworkUseGuard::default() };
            return Ok(NetworkAssignment::new_unshared(NetworkAccess::Nothing, network_use));
        }
        let demand = match (!allowed.hosts.is_empty(), call_hosts.is_empty()) {
            (true, _) => NetworkDemand::Settings,
            (false, false) => NetworkDemand::Call,
            (false, true) if reaches_hosts => NetworkDemand::Rules,
            (false, true) => NetworkDemand::Loopback,
        };
        if demand == NetworkDemand::Loopback {
            match sharing {
                _ if !can_create_networks() => return Ok(NetworkAssignment::none()),
                NetworkSharing::None => {
                    let network_use = NetworkUseGuard::default();
                    let own = NetworkAccess::Loopback;
                    return Ok(NetworkAssignment::new_unshared(own, network_use));
                }
                NetworkSharing::Session => {}
            }
        }
        let (net, proxy) = match self.get_or_create() {
            Ok(shared) => shared,
            Err(why) => return assign_fallback(why, demand, weaknesses),
        };
        let connections = connections.cloned();
        let used = ProxyUse {
            call: id.clone(),
            since: proxy.refusal_cursor(),
            _alive: proxy.attribute(id.clone(), call_hosts, scope.clone(), connections),
            proxy,
        };
        Ok(NetworkAssignment {
            network: NetworkAccess::Loopback,
            net: Some(net),
            variables: if reaches_hosts { PROXY_VARIABLES } else { &[] },
            network_use: NetworkUseGuard {
                used: Some(used),
                without: None,
                host_reach: match reaches_hosts {
                    true => HostReach::Hosts,
                    false => HostReach::NoneAllowed,
                },
            },
        })
    }

    /// Whether settings, rules or grants allow any host to commands.
    fn allows_hosts(&self) -> bool {
        let NetworkPolicy { allowed, policy, grants, .. } = &self.terms;
        !allowed.hosts.is_empty() || policy.can_allow_any_host(&grants())
    }

    /// Stops the proxy and releases the network, which ends with the last command in it. No network
    /// is created afterwards.
    pub fn end(&self) {
        let made = std::mem::replace(&mut *self.lock(), NetworkState::Closed);
        if let NetworkState::Shared(ProxiedNetwork { proxy, .. }) = made {
            proxy.end();
        }
    }

    /// The network and its proxy, created if necessary.
    fn get_or_create(&self) -> Result<(Arc<SharedNetwork>, Arc<EgressProxy>), NetworkSetupError> {
        let mut made = self.lock();
        if let NetworkState::Uncreated = *made {
            *made = NetworkState::Shared(self.create()?);
        }
        match &*made {
            NetworkState::Shared(shared) => {
                Ok((Arc::clone(&shared.net), Arc::clone(&shared.proxy)))
            }
            NetworkState::Uncreated | NetworkState::Closed => {
                Err(NetworkSetupError::Other(session_over_error()))
            }
        }
    }

    fn create(&self) -> Result<ProxiedNetwork, NetworkSetupError> {
        let NetworkPolicy { allowed, policy, grants, internet, log } = &self.terms;
        let spawner = Spawner::shared();
        let spawner = spawner
            .map_err(|error| NetworkSetupError::Other(command_errors::spawner_error(&error)))?;
        let (net, port) =
            SharedNetwork::create_with_proxy(spawner).map_err(NetworkSetupError::Spawn)?;
        let grants = Arc::clone(grants);
        let authorizer = PolicyAuthorizer::new(Arc::clone(policy), allowed.hosts.clone())
            .with_grants(move || grants());
        let config = EgressConfig {
            internet: internet.clone(),
            ..EgressConfig::new(Arc::clone(log), Arc::new(authorizer))
        };
        let proxy = EgressProxy::start(config, port);
        let proxy = proxy.map_err(|error| NetworkSetupError::Other(proxy_start_error(&error)))?;
        Ok(ProxiedNetwork { net: Arc::new(net), proxy: Arc::new(proxy) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NetworkState> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionNetwork").finish_non_exhaustive()
    }
}

/// A call whose command gets a network.
#[derive(Clone, Copy)]
pub(crate) struct NetworkCall<'a> {
    pub(crate) id: &'a CallId,
    /// The hosts that were allowed for it.
    pub(crate) hosts: &'a [HostName],
    /// The hosts that its commands were judged to use.
    pub(crate) scope: &'a NetworkScope,
    /// Asks about other hosts, if a user can be asked.
    pub(crate) connections: Option<&'a Arc<HeldConnections>>,
}

/// Whether commands share a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkSharing {
    /// Those of a session do.
    Session,
    /// They do not, unless hosts are allowed to them.
    None,
}

/// Whether this machine can give commands a network that is not its own.
fn can_create_networks() -> bool {
    zero_sandbox::SandboxLayers::probe().has_namespaces()
}

/// Why a command needs a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkDemand {
    /// Settings allow hosts to every command.
    Settings,
    /// Hosts were allowed for this call.
    Call,
    /// Rules allow some host, or the user can be asked about one.
    Rules,
    /// No host is allowed: for servers that commands of the session start.
    Loopback,
}

/// The network of a command if the shared one could not be created.
fn assign_fallback(
    why: NetworkSetupError,
    demand: NetworkDemand,
    weaknesses: &[AcceptedWeakness],
) -> Result<NetworkAssignment, ToolError> {
    match (why, demand) {
        (NetworkSetupError::Spawn(error), NetworkDemand::Settings)
            if is_weakness_allowed(&error, weaknesses) =>
        {
            let network_use =
                NetworkUseGuard { host_reach: HostReach::Hosts, ..NetworkUseGuard::default() };
            Ok(NetworkAssignment::new_unshared(NetworkAccess::Loopback, network_use))
        }
        (NetworkSetupError::Spawn(error), NetworkDemand::Settings) => {
            Err(command_errors::start_error(&error))
        }
        (NetworkSetupError::Other(error), NetworkDemand::Settings) => Err(error),
        (why, NetworkDemand::Call | NetworkDemand::Rules | NetworkDemand::Loopback) => {
            let why = match why {
                NetworkSetupError::Spawn(SpawnError::Refused { why, .. }) => why,
                NetworkSetupError::Spawn(error) => error.to_string(),
                NetworkSetupError::Other(error) => error.message,
            };
            let note = || format!("network: not available: {why}");
            let without = (demand == NetworkDemand::Call).then(note);
            Ok(NetworkAssignment::new_unshared(
                NetworkAccess::Nothing,
                NetworkUseGuard { without, ..NetworkUseGuard::default() },
            ))
        }
    }
}

fn is_weakness_allowed(error: &SpawnError, weaknesses: &[AcceptedWeakness]) -> bool {
    let SpawnError::Refused { gaps, .. } = error else { return false };
    !gaps.is_empty() && gaps.iter().all(|gap| weaknesses.contains(&gap.property))
}

fn session_over_error() -> ToolError {
    ToolError::failed(ErrorReason::Io, "the session is over, so it has no network")
}

fn proxy_start_error(error: &std::io::Error) -> ToolError {
    let message = format!("could not start the session's network proxy: {error}; try again");
    ToolError::failed(ErrorReason::Io, message)
}

#[cfg(test)]
mod tests {
    use zero_sandbox::shared_network::PROXY_PORT;
    use zero_sandbox::{ConfinementGap, SandboxProperty};

    use super::*;

    #[test]
    fn proxy_variables_name_actual_port() {
        for (name, value) in PROXY_VARIABLES.iter().filter(|(_, value)| value.contains("://")) {
            assert!(value.ends_with(&format!("://127.0.0.1:{PROXY_PORT}")), "{name}={value}");
        }
    }

    #[track_caller]
    fn check(gaps: &[SandboxProperty], weaknesses: &[AcceptedWeakness], expected: bool) {
        let gap = |property: &SandboxProperty| ConfinementGap {
            property: *property,
            why: String::new(),
            fix: None,
        };
        let gaps = gaps.iter().map(gap).collect();
        let error = SpawnError::Refused { why: String::new(), gaps };
        assert_eq!(is_weakness_allowed(&error, weaknesses), expected);
    }

    #[test]
    fn only_allowed_weakness_is_accepted() {
        check(&[SandboxProperty::Network], &[], false);
        check(&[SandboxProperty::Network], &[SandboxProperty::Masked], false);
        check(
            &[SandboxProperty::Network],
            &[SandboxProperty::Masked, SandboxProperty::Network],
            true,
        );
        // A failure for another reason is not a missing property.
        check(&[], &[SandboxProperty::Network], false);
        assert!(!is_weakness_allowed(&SpawnError::SpawnerLost, &[SandboxProperty::Network]));
    }

    #[test]
    fn missing_network_never_widens_access() {
        #[track_caller]
        fn check(
            demand: NetworkDemand,
            weaknesses: &[AcceptedWeakness],
            expected: Result<(NetworkAccess, &[&str]), &str>,
        ) {
            let gap = ConfinementGap {
                property: SandboxProperty::Network,
                why: String::new(),
                fix: None,
            };
            let why = "there is no bubblewrap".to_owned();
            let why = NetworkSetupError::Spawn(SpawnError::Refused { why, gaps: vec![gap] });
            let given = assign_fallback(why, demand, weaknesses);
            let given = given.map(|given| (given.network, given.network_use.notes()));
            match (given, expected) {
                (Ok((network, notes)), Ok(expected)) => {
                    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
                    assert_eq!((network, &notes[..]), expected, "{demand:?}");
                }
                (Err(error), Err(expected)) => {
                    assert!(error.message.contains(expected), "{demand:?}: {error:?}");
                }
                (given, expected) => panic!("{demand:?}: {given:?} and not {expected:?}"),
            }
        }
        let refused = Err("cannot be confined: there is no bubblewrap");
        check(NetworkDemand::Settings, &[], refused);
        check(
            NetworkDemand::Settings,
            &[SandboxProperty::Network],
            Ok((NetworkAccess::Loopback, &[])),
        );
        for demand in [NetworkDemand::Rules, NetworkDemand::Loopback] {
            check(demand, &[SandboxProperty::Network], Ok((NetworkAccess::Nothing, &[])));
        }
        let note = "network: not available: there is no bubblewrap";
        check(
            NetworkDemand::Call,
            &[SandboxProperty::Network],
            Ok((NetworkAccess::Nothing, &[note])),
        );
    }
}
