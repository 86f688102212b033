//! Decides where zero itself connects: one gate per purpose, one policy for all of them.
//!
//! A call connects to the hosts that it was authorized for. A server in settings is allowed by
//! being there. A server that requires a login names the login server itself, so an untrusted party
//! chooses what zero fetches: such addresses must be public. A rule that denies a host applies to
//! all of them. A name is resolved once per connection, every address is checked, and the
//! connection uses one of exactly these.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use url::Url;
use zero_core::ExtraRootCertificates;
use zero_exec::egress::{
    AddressPinError, LookupError, ResolverConfig, suggest_remedy, validate_addresses,
};
use zero_policy::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, HostName, HostPattern, UserApproval,
};

use crate::policy::Policy;

/// Most simultaneous lookups; more wait.
const LOOKUPS_MAX: usize = 8;
/// How long a lookup may take.
const LOOKUP_TIME: Duration = Duration::from_secs(10);

/// Ports of other services that might interpret a request in their own protocol. Browsers block
/// them too.
const BLOCKED_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666,
    6667, 6668, 6669, 6679, 6697, 10080, 11211,
];

/// Decides where zero connects. Cheap to clone.
#[derive(Clone)]
pub struct NetworkGuard {
    policy: Arc<dyn Policy>,
    internet: ResolverConfig,
    lookups: Arc<Semaphore>,
    extra_roots: ExtraRootCertificates,
    number: u64,
}

impl NetworkGuard {
    /// A guard that applies this policy.
    pub fn new(policy: Arc<dyn Policy>, internet: ResolverConfig) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            policy,
            internet,
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            extra_roots: ExtraRootCertificates::default(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Trusts these certificates in addition to the machine's.
    #[must_use]
    pub fn with_extra_roots(self, extra_roots: ExtraRootCertificates) -> Self {
        Self { extra_roots, ..self }
    }

    /// The gate for a server whose endpoint is in settings.
    pub fn gate_for_endpoint(&self, endpoint: &Url) -> Result<ConnectionGate, UnreachableError> {
        let (host, port) = host_and_port(endpoint)?;
        let own = is_open_by_name(&host).then_some((host, port));
        let gate = ConnectionGate { guard: self.clone(), purpose: GatePurpose::Server { own } };
        gate.check_url(endpoint)?;
        Ok(gate)
    }

    /// The gate for a call that was authorized for these hosts.
    pub fn gate_for_hosts(&self, judged: Arc<[HostName]>) -> ConnectionGate {
        ConnectionGate { guard: self.clone(), purpose: GatePurpose::Call { judged } }
    }

    /// Identifies the guard; clones have the same number.
    pub(super) fn policy_number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for NetworkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkGuard").finish_non_exhaustive()
    }
}

/// Why zero does not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreachableError {
    /// The URL is not a web address, or not certainly one.
    #[error("`{origin}` cannot be fetched: {why}")]
    Address {
        /// The origin, without path and query.
        origin: String,
        /// The parse error.
        why: String,
    },
    /// A rule denies it, or the address is not public.
    #[error("no connection to {host} port {port}: {refusal}{}", private_remedy(.refusal, .host))]
    Refused {
        /// The refused host, by name or address.
        host: String,
        /// The requested TCP port.
        port: u16,
        /// Why it was refused.
        refusal: ConnectDeniedError,
    },
    /// Its addresses cannot be used.
    #[error("no connection to {host}: {why}{}", address_remedy(.why, .host))]
    Addresses {
        /// The requested host, without its port.
        host: String,
        /// Why the addresses cannot be used.
        why: AddressPinError,
    },
    /// The lookup failed or took too long.
    #[error("could not resolve {host}: {why}")]
    Lookup {
        /// The name that was looked up.
        host: String,
        /// Why the lookup failed.
        why: String,
    },
}

fn address_remedy(why: &AddressPinError, host: &str) -> String {
    match why {
        AddressPinError::Refused(refusal) => private_remedy(refusal, host),
        AddressPinError::NoAddress => String::new(),
    }
}

/// How the user can open an address that is not public, if a rule can.
fn private_remedy(refusal: &ConnectDeniedError, host: &str) -> String {
    let remedy = match (refusal, HostName::from_host(host)) {
        // Only the remedy for a port depends on the port.
        (ConnectDeniedError::PrivateHost { .. }, Ok(host)) => suggest_remedy(refusal, &host, 0),
        _ => None,
    };
    remedy.map_or_else(String::new, |remedy| format!("; {remedy}"))
}

/// Decides about the connections for one purpose.
pub struct ConnectionGate {
    guard: NetworkGuard,
    purpose: GatePurpose,
}

/// The purpose of connections.
enum GatePurpose {
    /// A server in settings, and the addresses it refers to.
    Server {
        /// Its endpoint, if that is this machine or a private address written in settings: only
        /// this host and port is open then, and no other address that is not public.
        own: Option<(HostName, u16)>,
    },
    /// A tool call, which connects only to the hosts it was authorized for.
    Call {
        /// The hosts that were allowed for the call.
        judged: Arc<[HostName]>,
    },
}

impl ConnectionGate {
    /// The certificates to trust in addition to the machine's.
    pub(super) fn extra_roots(&self) -> &ExtraRootCertificates {
        &self.guard.extra_roots
    }

    /// Whether a URL may be fetched. If it has a host name, its addresses are checked once they are
    /// resolved.
    pub fn check_url(&self, url: &Url) -> Result<(), UnreachableError> {
        let (host, port) = host_and_port(url)?;
        let refused = |refusal| UnreachableError::Refused { host: host.to_string(), port, refusal };
        let is_own = match &self.purpose {
            GatePurpose::Server { own } => {
                let is_own = own.as_ref().is_some_and(|own| *own == (host.clone(), port));
                self.check_server(&host, port, is_own).map_err(refused)?;
                if url.scheme() == "http" && !is_own && !is_this_machine(&host) {
                    let why = "only `https` is used, except on this machine".to_owned();
                    return Err(UnreachableError::Address { origin: format_origin(url), why });
                }
                is_own
            }
            GatePurpose::Call { judged } => {
                if BLOCKED_PORTS.contains(&port) {
                    let why = format!("port {port} is not one of web servers");
                    return Err(UnreachableError::Address { origin: format_origin(url), why });
                }
                self.check_call(&host, port, judged).map_err(refused)?;
                false
            }
        };
        match host.ip() {
            Some(address) => self.check_addresses(&host, vec![address], |_| is_own).map(drop),
            None => Ok(()),
        }
    }

    /// Whether zero may connect to a server in settings or to one it refers to.
    fn check_server(
        &self,
        host: &HostName,
        port: u16,
        is_own: bool,
    ) -> Result<(), ConnectDeniedError> {
        let network: Vec<_> = HostPattern::parse(&format!("{host}:{port}")).into_iter().collect();
        let judged = [host.clone()];
        let approval = UserApproval::Missing;
        let connect_request = ConnectRequest {
            host,
            port,
            network: &network,
            grants: &[],
            judged: &judged,
            approval,
        };
        match self.guard.policy.authorize_host(connect_request) {
            Err(ConnectDeniedError::PrivateHost { .. }) if is_own => Ok(()),
            decision => allow_unless_denied(
                decision,
                host.private_reason().filter(|_| host.name().is_some() && !is_own),
            ),
        }
    }

    /// Whether a call may connect to a host. Its port was part of the authorization; a rule about a
    /// host applies to all ports.
    fn check_call(
        &self,
        host: &HostName,
        port: u16,
        judged: &[HostName],
    ) -> Result<(), ConnectDeniedError> {
        if !judged.contains(host) {
            return Err(ConnectDeniedError::NoRule);
        }
        let approval = UserApproval::Missing;
        let connect_request =
            ConnectRequest { host, port, network: &[], grants: &[], judged, approval };
        match self.guard.policy.authorize_host(connect_request) {
            // Only the port was refused, which does not matter here.
            Err(ConnectDeniedError::Port { .. }) => Ok(()),
            decision => allow_unless_denied(
                decision,
                host.private_reason().filter(|_| host.name().is_some()),
            ),
        }
    }

    /// The addresses of an answer, if all of them are allowed. `is_opened` tells which addresses
    /// that are not public are open because settings name them.
    fn check_addresses(
        &self,
        host: &HostName,
        answer: Vec<IpAddr>,
        is_opened: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpAddr>, UnreachableError> {
        let may_pin = |address: IpAddr, inside: Option<&'static str>| {
            let inside = inside.filter(|_| !is_opened(address));
            match (self.guard.policy.authorize_address(address, inside), inside) {
                // Without a matching rule, public addresses are allowed and others are not.
                (Err(ConnectDeniedError::NoRule), Some(what)) => {
                    Err(ConnectDeniedError::PrivateHost {
                        what,
                        address: None,
                        may_be_named: false,
                    })
                }
                (Err(ConnectDeniedError::NoRule), None) => Ok(()),
                (judged, _) => judged,
            }
        };
        validate_addresses(&self.guard.internet, host, answer, may_pin)
            .map_err(|why| UnreachableError::Addresses { host: host.to_string(), why })
    }

    /// Resolves a name and checks the addresses.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, UnreachableError> {
        let failed =
            |why: &str| UnreachableError::Lookup { host: name.to_owned(), why: why.to_owned() };
        let host = HostName::from_host(name).map_err(|error| failed(&error.to_string()))?;
        let NetworkGuard { internet, lookups, .. } = &self.guard;
        let answer = internet.look_up(lookups, name, LOOKUP_TIME).await.map_err(|why| {
            failed(match why {
                LookupError::TimedOut => "the lookup took too long",
                LookupError::Unknown => "unknown host",
            })
        })?;
        // `localhost` in settings opens this machine, whatever the name resolves to.
        let opens_this_machine = match &self.purpose {
            GatePurpose::Server { own } => own.as_ref().is_some_and(|(own, _)| *own == host),
            GatePurpose::Call { judged } => is_this_machine(&host) && judged.contains(&host),
        };
        self.check_addresses(&host, answer, |address| opens_this_machine && address.is_loopback())
    }
}

/// The policy's decision if public addresses need no rule: a host without a rule is allowed, but
/// only at public addresses.
fn allow_unless_denied(
    decision: Result<ConnectPermission, ConnectDeniedError>,
    inside: Option<&'static str>,
) -> Result<(), ConnectDeniedError> {
    match (decision, inside) {
        (Ok(_), _) | (Err(ConnectDeniedError::NoRule | ConnectDeniedError::Port { .. }), None) => {
            Ok(())
        }
        (Err(ConnectDeniedError::NoRule | ConnectDeniedError::Port { .. }), Some(what)) => {
            Err(ConnectDeniedError::PrivateHost { what, address: None, may_be_named: false })
        }
        (Err(refusal), _) => Err(refusal),
    }
}

/// Resolves names for the HTTP client, which connects to these addresses only.
pub(super) struct GateResolver(pub(super) Arc<ConnectionGate>);

impl Resolve for GateResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = self.0.clone();
        Box::pin(async move {
            let addresses = gate.look_up(name.as_str()).await?;
            // The port of the address is filled in by the client.
            let addresses: Addrs =
                Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// The scheme, host and port of a URL: the part that may be shown.
pub fn format_origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Whether two URLs have the same origin.
pub(super) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Whether a URL may be public, as far as its host tells. A server at a private address in settings
/// belongs to the user.
pub fn is_public_url(url: &Url) -> bool {
    host_and_port(url).is_ok_and(|(host, _)| !is_open_by_name(&host))
}

fn host_and_port(url: &Url) -> Result<(HostName, u16), UnreachableError> {
    let wrong =
        |why: &str| UnreachableError::Address { origin: format_origin(url), why: why.to_owned() };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only addresses that begin with `https://` or `http://` are used"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a name and password in an address are not used; use `headers`"));
    }
    let host = url.host_str().unwrap_or_default();
    let host = HostName::from_host(host).map_err(|error| wrong(&error.to_string()))?;
    let port = url.port_or_known_default().ok_or_else(|| wrong("it has no port"))?;
    Ok((host, port))
}

/// Whether settings open a host that is not public by naming it: this machine, or a private
/// address. A name that resolves to one does not count, because its owner decides where it leads.
fn is_open_by_name(host: &HostName) -> bool {
    const PRIVATE: [&str; 2] = ["a private network", "a carrier's private network"];
    let is_private = |what: &str| host.ip().is_some() && PRIVATE.contains(&what);
    is_this_machine(host) || host.private_reason().is_some_and(is_private)
}

fn is_this_machine(host: &HostName) -> bool {
    match host.ip() {
        Some(address) => address.is_loopback(),
        None => host.private_reason() == Some("this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::RiskPolicy;
    use crate::rule_policy::RulePolicy;
    use std::io;
    use zero_exec::egress::HostResolver;
    use zero_policy::rule::RuleOwner;
    use zero_policy::{PolicyEngine, PolicyEngineConfig, PolicyRule, RuleSource, Verdict};

    /// Resolves a few names.
    struct FixedResolver;

    impl HostResolver for FixedResolver {
        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let addresses: &[&str] = match name {
                "public.example" => &["93.184.216.34"],
                "localhost" => &["127.0.0.1", "::1"],
                "rebinds.example" => &["127.0.0.1"],
                "intranet.example" => &["10.0.0.5"],
                "six.example" => &["fd00::5"],
                "mixed.example" => &["93.184.216.34", "10.0.0.5"],
                "cloud.example" => &["169.254.169.254"],
                "mapped.example" => &["::ffff:127.0.0.1"],
                "many.example" => return Ok(vec!["93.184.216.34".parse().unwrap(); 65]),
                _ => return Err(io::Error::other("unknown")),
            };
            Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
        }
    }

    fn policy(rules: &[(Verdict, &str)]) -> Arc<dyn Policy> {
        if rules.is_empty() {
            return Arc::new(RiskPolicy);
        }
        let rule = |(verdict, text): &(Verdict, &str)| {
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, *verdict, source).unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        let engine =
            PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() });
        Arc::new(RulePolicy::new(engine, Vec::new()))
    }

    /// The outcome of a connection to `url` for the server at `endpoint`.
    async fn connect_outcome(rules: &[(Verdict, &str)], endpoint: &str, url: &str) -> String {
        let internet =
            ResolverConfig { resolver: Arc::new(FixedResolver), ..ResolverConfig::default() };
        let guard = NetworkGuard::new(policy(rules), internet);
        let gate = match guard.gate_for_endpoint(&Url::parse(endpoint).unwrap()) {
            Ok(gate) => gate,
            Err(error) => return format!("endpoint: {error}"),
        };
        let url = Url::parse(url).unwrap();
        if let Err(error) = gate.check_url(&url) {
            return error.to_string();
        }
        match (url.domain(), &url) {
            (None, _) => "fine".to_owned(),
            (Some(name), _) => match gate.look_up(name).await {
                Ok(_) => "fine".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    #[track_caller]
    fn check_outcome(outcome: &str, row: &str, expected: &str) {
        assert!(outcome.contains(expected), "{row}: {outcome}");
    }

    #[tokio::test]
    async fn local_endpoint_opens_only_itself() {
        let local = "http://127.0.0.1:8000/mcp";
        for (endpoint, url, expected) in [
            (local, local, "fine"),
            (local, "http://127.0.0.1:8000/token", "fine"),
            (local, "http://127.0.0.1:2375/containers", "it is this machine"),
            (local, "http://127.0.0.2:8000/", "it is this machine"),
            (local, "http://localhost:8000/", "it is this machine"),
            (local, "https://169.254.169.254/latest", "it is a cloud metadata service"),
            (local, "https://public.example/token", "fine"),
            ("http://localhost:8000/mcp", "http://localhost:8000/x", "fine"),
            ("http://localhost:8000/mcp", "http://localhost:8001/x", "it is this machine"),
            ("http://10.0.0.5:80/", "http://10.0.0.5:80/x", "fine"),
            ("http://10.0.0.5:80/", "https://10.0.0.6/x", "it is a private network"),
            ("http://169.254.169.254/", "", "endpoint: "),
            ("http://0.0.0.0:80/", "", "endpoint: "),
        ] {
            let url = if url.is_empty() { endpoint } else { url };
            check_outcome(
                &connect_outcome(&[], endpoint, url).await,
                &format!("{endpoint} {url}"),
                expected,
            );
        }
    }

    #[tokio::test]
    async fn name_resolving_to_private_address_is_refused() {
        let public = "https://public.example/mcp";
        for (endpoint, url, expected) in [
            (public, public, "fine"),
            (public, "https://rebinds.example/token", "it resolves to 127.0.0.1, this machine"),
            (
                public,
                "https://intranet.example/token",
                "it resolves to 10.0.0.5, a private network",
            ),
            (public, "https://mixed.example/", "a private address, and also to public ones"),
            (public, "https://cloud.example/", "169.254.169.254, a cloud metadata service"),
            (public, "https://mapped.example/", "it resolves to 127.0.0.1, this machine"),
            (public, "https://many.example/", "could not be found"),
            (public, "https://unknown.example/", "unknown host"),
            (public, "http://public.example/token", "only `https` is used"),
            (public, "ftp://public.example/token", "begin with `https://`"),
            (public, "https://user:pass@public.example/", "use `headers`"),
            (
                "https://rebinds.example/mcp",
                "https://rebinds.example/mcp",
                "127.0.0.1, this machine",
            ),
            ("http://public.example/mcp", "https://public.example/", "endpoint: "),
        ] {
            check_outcome(
                &connect_outcome(&[], endpoint, url).await,
                &format!("{endpoint} {url}"),
                expected,
            );
        }
    }

    #[tokio::test]
    async fn remedy_names_resolved_address_and_opens_it() {
        let public = "https://public.example/mcp";
        let other = &[(Verdict::Allow, "WebFetch(domain:10.0.0.6)")];
        for (url, address) in [
            ("https://intranet.example/", "10.0.0.5"),
            ("https://six.example/", "fd00::5"),
            ("https://mapped.example/", "127.0.0.1"),
            ("https://10.0.0.5/", "10.0.0.5"),
        ] {
            let refused = connect_outcome(other, public, url).await;
            let rule = format!("WebFetch(domain:{address})");
            let remedy = format!(
                "; to allow it in your own settings: zero config add permissions.allow '{rule}'"
            );
            assert!(refused.ends_with(&remedy), "{refused}");
            assert!(refused.contains(&format!("resolves to {address}, ")) || url.contains(address));
            let opened = connect_outcome(&[(Verdict::Allow, &rule)], public, url).await;
            check_outcome(&opened, url, "fine");
        }
        // No rule opens these.
        for (url, why) in [
            (
                "https://mixed.example/",
                "it resolves to 10.0.0.5, a private address, and also to public ones; no rule opens that",
            ),
            ("https://cloud.example/", "it resolves to 169.254.169.254, a cloud metadata service"),
        ] {
            let refused = connect_outcome(other, public, url).await;
            assert!(refused.ends_with(why), "{refused}");
        }
        let deny = &[(Verdict::Deny, "WebFetch(domain:10.0.0.5)")];
        check_outcome(
            &connect_outcome(deny, public, "https://intranet.example/").await,
            "denied address",
            "it resolves to 10.0.0.5, and rule `WebFetch(domain:10.0.0.5)` denies it",
        );
    }

    #[tokio::test]
    async fn rules_deny_configured_hosts_and_open_named_ones() {
        let public = "https://public.example/mcp";
        let deny = &[(Verdict::Deny, "WebFetch(domain:public.example)")];
        check_outcome(&connect_outcome(deny, public, public).await, "deny", "denies it");
        let deny_all = &[(Verdict::Deny, "WebFetch(domain:127.0.0.1)")];
        let local = "http://127.0.0.1:8000/mcp";
        check_outcome(&connect_outcome(deny_all, local, local).await, "deny own", "denies it");
        let ask = &[(Verdict::Ask, "WebFetch")];
        check_outcome(&connect_outcome(ask, public, public).await, "ask", "fine");
        let open = &[(Verdict::Allow, "WebFetch(domain:10.0.0.5)")];
        let inside = "https://intranet.example/token";
        check_outcome(&connect_outcome(open, public, inside).await, "opened", "fine");
        let other = &[(Verdict::Allow, "WebFetch(domain:10.0.0.6)")];
        check_outcome(
            &connect_outcome(other, public, inside).await,
            "not opened",
            "a private network",
        );
    }
}
