//! Whom the commands of a session may reach, and the network that they share for it.
//!
//! Commands that may reach nobody have no network. Others share that of their session, so that a
//! server which one command starts is there for the next. It is made when the first of them needs it
//! and goes when the session does. Its only way out is one port, and at that port the session's
//! proxy judges every connection: see [`crate::egress`].
//!
//! Whoever else runs something for a session takes part in the same way: it is given the network,
//! and holds its [`NetworkUseGuard`] for as long as what it runs may be alive.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use zero_core::{CallId, ErrorReason, ToolError};
use zero_policy::{GrantScope, HostName};
use zero_sandbox::shared_network::SharedNetwork;
use zero_sandbox::spawner::{SpawnError, Spawner};
use zero_sandbox::{AcceptedWeakness, NetworkAccess};

use crate::command_errors;
use crate::command_policy::CommandPolicy;
use crate::command_settings::CommandNetwork;
use crate::egress::{
    AttributionGuard, ConnectionLog, EgressConfig, EgressProxy, PolicyAuthorizer, RefusalCursor,
    RefusalSummary, ResolverConfig,
};

/// How programs are told of the proxy. Most look at the small names, some at the large ones, and
/// Node at neither unless it is asked to.
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

/// Lists what a person allowed. It is asked each time, so that what is taken back no longer counts.
pub type GrantProvider = Arc<dyn Fn() -> Vec<GrantScope> + Send + Sync>;

/// On what terms the commands of a session reach others.
pub struct NetworkPolicy {
    /// What settings allow.
    pub allowed: CommandNetwork,
    /// What rules allow.
    pub policy: Arc<dyn CommandPolicy>,
    /// What a person allowed for the session.
    pub grants: GrantProvider,
    /// What lies outside.
    pub internet: ResolverConfig,
    /// Where connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
}

/// What a command gets.
pub(crate) struct NetworkAssignment {
    pub(crate) network: NetworkAccess,
    /// The network it shares.
    pub(crate) net: Option<Arc<SharedNetwork>>,
    /// What it has to know to use it.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// To be held for as long as it may be alive.
    pub(crate) network_use: NetworkUseGuard,
}

impl NetworkAssignment {
    /// No network at all.
    pub(super) fn none() -> Self {
        Self::new_unshared(NetworkAccess::Nothing, NetworkUseGuard::default())
    }

    /// A network that is nobody's in particular.
    fn new_unshared(network: NetworkAccess, network_use: NetworkUseGuard) -> Self {
        Self { network, net: None, variables: &[], network_use }
    }
}

/// The use that something makes of its session's network. While it lives, connections are known to
/// come from its call, if from no other, and the hosts that were judged for the call are open.
#[derive(Default)]
pub struct NetworkUseGuard {
    used: Option<ProxyUse>,
    /// Why it has no network, though some host is allowed.
    without: Option<String>,
}

struct ProxyUse {
    proxy: Arc<EgressProxy>,
    call: CallId,
    since: RefusalCursor,
    _alive: AttributionGuard,
}

impl NetworkUseGuard {
    /// What is to be known of the network since its beginning: connections that were refused, or
    /// why there is no network.
    pub fn notes(&self) -> Vec<String> {
        let refused = |used: &ProxyUse| used.proxy.refusals_since(used.since, &used.call);
        let refused = self.used.as_ref().map_or_else(RefusalSummary::default, refused);
        self.without.iter().cloned().chain(refused.notes()).collect()
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
    /// The session is over, and nothing is made any more.
    Closed,
}

struct ProxiedNetwork {
    net: Arc<SharedNetwork>,
    proxy: Arc<EgressProxy>,
}

/// Why there is no network.
enum NetworkSetupError {
    Spawn(SpawnError),
    Other(ToolError),
}

impl SessionNetwork {
    /// One that is made when the first command needs it.
    pub fn new(terms: NetworkPolicy) -> Self {
        Self { terms, made: Mutex::new(NetworkState::Uncreated) }
    }

    /// What the next command gets, one of this call. Makes the network if there is none yet and it
    /// may reach somebody: `judged` are the hosts that were judged for the call and allowed.
    ///
    /// On a machine where none can be made, commands are refused that settings want to have one,
    /// unless they may do without. Then they have the host's, and their confinement says so. Where
    /// it is only that rules allow some host, or that one was judged for the call, they have none
    /// at all, which takes nothing from their confinement; in the latter case their result says so.
    pub(crate) fn assign(
        &self,
        call: &CallId,
        judged: &[HostName],
        weaknesses: &[AcceptedWeakness],
    ) -> Result<NetworkAssignment, ToolError> {
        let NetworkPolicy { allowed, policy, grants, .. } = &self.terms;
        let reaches_hosts =
            !allowed.hosts.is_empty() || !judged.is_empty() || policy.can_allow_any_host(&grants());
        if !reaches_hosts && !allowed.localhost {
            return Ok(NetworkAssignment::none());
        }
        let (net, proxy) = match self.get_or_create() {
            Ok(shared) => shared,
            Err(why) => {
                let wish = match (*allowed != CommandNetwork::default(), judged.is_empty()) {
                    (true, _) => NetworkDemand::Settings,
                    (false, false) => NetworkDemand::Call,
                    (false, true) => NetworkDemand::Rules,
                };
                return assign_fallback(why, wish, weaknesses);
            }
        };
        let used = ProxyUse {
            call: call.clone(),
            since: proxy.refusal_cursor(),
            _alive: proxy.attribute(call.clone(), judged),
            proxy,
        };
        Ok(NetworkAssignment {
            network: NetworkAccess::Loopback,
            net: Some(net),
            variables: if reaches_hosts { PROXY_VARIABLES } else { &[] },
            network_use: NetworkUseGuard { used: Some(used), without: None },
        })
    }

    /// Ends the proxy and lets go of the network, which ends with the last command in it. Nothing
    /// is made afterwards.
    pub fn end(&self) {
        let made = std::mem::replace(&mut *self.lock(), NetworkState::Closed);
        if let NetworkState::Shared(ProxiedNetwork { proxy, .. }) = made {
            proxy.end();
        }
    }

    /// The network and its proxy, made if need be.
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
        let warden = Spawner::shared();
        let warden = warden
            .map_err(|error| NetworkSetupError::Other(command_errors::spawner_error(&error)))?;
        let (net, port) =
            SharedNetwork::create_with_proxy(warden).map_err(NetworkSetupError::Spawn)?;
        let grants = Arc::clone(grants);
        let gate = PolicyAuthorizer::new(Arc::clone(policy), allowed.hosts.clone())
            .with_grants(move || grants());
        let config = EgressConfig {
            internet: internet.clone(),
            ..EgressConfig::new(Arc::clone(log), Arc::new(gate))
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

/// Who wants a command to reach somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkDemand {
    /// The settings, for every command.
    Settings,
    /// The call: hosts were judged for it.
    Call,
    /// Nobody in particular; there are rules that allow some host.
    Rules,
}

/// What a command gets where no network can be made for it.
fn assign_fallback(
    why: NetworkSetupError,
    wish: NetworkDemand,
    weaknesses: &[AcceptedWeakness],
) -> Result<NetworkAssignment, ToolError> {
    match (why, wish) {
        (NetworkSetupError::Spawn(error), NetworkDemand::Settings)
            if is_weakness_allowed(&error, weaknesses) =>
        {
            Ok(NetworkAssignment::new_unshared(NetworkAccess::Loopback, NetworkUseGuard::default()))
        }
        (NetworkSetupError::Spawn(error), NetworkDemand::Settings) => {
            Err(command_errors::start_error(&error))
        }
        (NetworkSetupError::Other(error), NetworkDemand::Settings) => Err(error),
        (why, NetworkDemand::Call | NetworkDemand::Rules) => {
            let why = match why {
                NetworkSetupError::Spawn(SpawnError::Refused { why, .. }) => why,
                NetworkSetupError::Spawn(error) => error.to_string(),
                NetworkSetupError::Other(error) => error.message,
            };
            let said = || format!("network: no host could be reached: {why}");
            let without = (wish == NetworkDemand::Call).then(said);
            Ok(NetworkAssignment::new_unshared(
                NetworkAccess::Nothing,
                NetworkUseGuard { used: None, without },
            ))
        }
    }
}

fn is_weakness_allowed(error: &SpawnError, weaknesses: &[AcceptedWeakness]) -> bool {
    let SpawnError::Refused { gaps, .. } = error else { return false };
    !gaps.is_empty() && gaps.iter().all(|gap| weaknesses.contains(&gap.property))
}

fn session_over_error() -> ToolError {
    ToolError::failed(ErrorReason::Io, "the session is over, and its network with it")
}

fn proxy_start_error(error: &std::io::Error) -> ToolError {
    let message = format!(
        "the proxy of the session does not start, through which commands reach hosts: {error}; try again"
    );
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
        // What failed for another reason is no weakness.
        check(&[], &[SandboxProperty::Network], false);
        assert!(!is_weakness_allowed(&SpawnError::SpawnerLost, &[SandboxProperty::Network]));
    }

    #[test]
    fn missing_network_never_widens_access() {
        #[track_caller]
        fn check(
            wish: NetworkDemand,
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
            let given = assign_fallback(why, wish, weaknesses);
            let given = given.map(|given| (given.network, given.network_use.notes()));
            match (given, expected) {
                (Ok((network, notes)), Ok(expected)) => {
                    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
                    assert_eq!((network, &notes[..]), expected, "{wish:?}");
                }
                (Err(error), Err(expected)) => {
                    assert!(error.message.contains(expected), "{wish:?}: {error:?}");
                }
                (given, expected) => panic!("{wish:?}: {given:?} and not {expected:?}"),
            }
        }
        let refused = Err("cannot be confined: there is no bubblewrap");
        check(NetworkDemand::Settings, &[], refused);
        check(
            NetworkDemand::Settings,
            &[SandboxProperty::Network],
            Ok((NetworkAccess::Loopback, &[])),
        );
        check(NetworkDemand::Rules, &[SandboxProperty::Network], Ok((NetworkAccess::Nothing, &[])));
        let note = "network: no host could be reached: there is no bubblewrap";
        check(
            NetworkDemand::Call,
            &[SandboxProperty::Network],
            Ok((NetworkAccess::Nothing, &[note])),
        );
    }
}
