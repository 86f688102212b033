//! Where zero itself connects to for a server: one gate for its endpoint and for every address that
//! its metadata names.
//!
//! A server that wants a login says where that is done, and so has a stranger choose what zero
//! fetches. Its own endpoint stands in settings and is allowed by that, others only on the open
//! internet; a rule that denies a host holds for all. A name is looked up once for a connection,
//! every address is checked, and the connection goes to one of exactly these.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;
use zero_policy::{HostName, HostPattern, Reach, Refusal};
use zero_runtime::egress::{Unusable, usable_addresses};
use zero_runtime::{Internet, Policy};

use crate::client::detached;

/// Lookups at a time; more wait.
const LOOKUPS_MAX: usize = 8;
/// How long looking a name up may take.
const LOOKUP_TIME: Duration = Duration::from_secs(10);

/// Judges where zero connects to for servers. Cheap to clone.
#[derive(Clone)]
pub struct NetworkGuard {
    policy: Arc<dyn Policy>,
    internet: Internet,
    lookups: Arc<Semaphore>,
}

impl NetworkGuard {
    /// A guard that refuses what this policy denies.
    pub fn new(policy: Arc<dyn Policy>, internet: Internet) -> Self {
        Self { policy, internet, lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// The gate for a server that settings place at `endpoint`.
    pub(crate) fn gate(&self, endpoint: &Url) -> Result<Gate, Unreachable> {
        let (host, port) = host_and_port(endpoint)?;
        let own = is_open_by_name(&host).then_some((host, port));
        let gate = Gate { guard: self.clone(), own };
        gate.admit(endpoint)?;
        Ok(gate)
    }
}

impl fmt::Debug for NetworkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkGuard").finish_non_exhaustive()
    }
}

/// Why zero does not connect somewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// It is no address of the web, or not certainly one.
    #[error("`{origin}` is not reached: {why}")]
    Address {
        /// Where it is, without path and query.
        origin: String,
        /// What is wrong with it.
        why: String,
    },
    /// A rule denies it, or it leads inside.
    #[error("no connection to {host} port {port}: {refusal}")]
    Refused {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Who refuses, and why.
        refusal: Refusal,
    },
    /// Its addresses cannot be used.
    #[error("no connection to {host}: {why}")]
    Addresses {
        /// The host.
        host: String,
        /// Why not.
        why: Unusable,
    },
    /// Looking its address up failed, or took too long.
    #[error("the address of {host} could not be found: {why}")]
    Lookup {
        /// The host.
        host: String,
        /// Why not.
        why: String,
    },
}

/// Judges the connections for one server.
pub(crate) struct Gate {
    guard: NetworkGuard,
    /// The endpoint, where it is on this machine or a private address that settings write out: only
    /// this host and port is open then, and nothing else inside.
    own: Option<(HostName, u16)>,
}

impl Gate {
    /// Whether an address may be fetched. For a name, the addresses are judged when they are known.
    pub(crate) fn admit(&self, url: &Url) -> Result<(), Unreachable> {
        let (host, port) = host_and_port(url)?;
        let is_own = self.own.as_ref().is_some_and(|own| *own == (host.clone(), port));
        let network: Vec<_> = HostPattern::parse(&format!("{host}:{port}")).into_iter().collect();
        let judged = [host.clone()];
        let reach = Reach { host: &host, port, network: &network, grants: &[], judged: &judged };
        let inside = host.is_private().filter(|_| host.name().is_some() && !is_own);
        let refusal = match (self.guard.policy.may_reach(reach), inside) {
            (Ok(_), _) => None,
            (Err(Refusal::Inside { .. }), None) if is_own => None,
            // That no rule names it is no objection, but opens nothing inside either.
            (Err(Refusal::NoRule | Refusal::Port { .. }), None) => None,
            (Err(Refusal::NoRule | Refusal::Port { .. }), Some(what)) => {
                Some(Refusal::Inside { what, may_be_named: false })
            }
            (Err(refusal), _) => Some(refusal),
        };
        if let Some(refusal) = refusal {
            return Err(Unreachable::Refused { host: host.to_string(), port, refusal });
        }
        if url.scheme() == "http" && !is_own && !is_this_machine(&host) {
            let why = "only `https` is used, except on this machine".to_owned();
            return Err(Unreachable::Address { origin: shown_origin(url), why });
        }
        match host.ip() {
            Some(address) if is_own => self.judge(&host, vec![address], |_| true),
            Some(address) => self.judge(&host, vec![address], |_| false),
            None => Ok(Vec::new()),
        }
        .map(|_| ())
    }

    /// The addresses of an answer, when all of them may be used. `is_opened` says which addresses
    /// inside are open because settings name them.
    fn judge(
        &self,
        host: &HostName,
        answer: Vec<IpAddr>,
        is_opened: impl Fn(IpAddr) -> bool,
    ) -> Result<Vec<IpAddr>, Unreachable> {
        let may_pin = |address: IpAddr, inside: Option<&'static str>| {
            let inside = inside.filter(|_| !is_opened(address));
            match (self.guard.policy.may_pin(address, inside), inside) {
                // A policy without rules has no objection to the open internet, and opens nothing.
                (Err(Refusal::NoRule), Some(what)) => {
                    Err(Refusal::Inside { what, may_be_named: false })
                }
                (Err(Refusal::NoRule), None) => Ok(()),
                (judged, _) => judged,
            }
        };
        usable_addresses(&self.guard.internet, answer, may_pin)
            .map_err(|why| Unreachable::Addresses { host: host.to_string(), why })
    }

    /// Looks a name up, and judges what comes.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Unreachable> {
        let failed = |why: &str| Unreachable::Lookup { host: name.to_owned(), why: why.to_owned() };
        let host = HostName::from_host(name).map_err(|error| failed(&error.to_string()))?;
        let (resolver, lookups) =
            (self.guard.internet.resolver.clone(), self.guard.lookups.clone());
        let asked = name.to_owned();
        let look_up = async {
            let place = lookups.acquire_owned().await;
            // The place is given back when the lookup ends, also when nobody waits for it any more.
            let lookup = move || {
                let _place = place;
                resolver.resolve(&asked)
            };
            detached::run("zero-mcp-lookup", lookup).await
        };
        let answer = match timeout(LOOKUP_TIME, look_up).await {
            Err(_) => return Err(failed("it took too long")),
            Ok(Some(Ok(answer))) => answer,
            Ok(_) => return Err(failed("nobody knows it")),
        };
        // `localhost` in settings opens this machine, wherever else the name may lead.
        let is_own = self.own.as_ref().is_some_and(|(own, _)| *own == host);
        self.judge(&host, answer, |address| is_own && address.is_loopback())
    }
}

/// The gate looks names up for the HTTP client, which connects to what it is given and nothing else.
pub(crate) struct GateResolver(pub(crate) Arc<Gate>);

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

/// The scheme, host and port of an address: what may be shown of it.
pub(crate) fn shown_origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Whether two addresses belong to the same origin.
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

fn host_and_port(url: &Url) -> Result<(HostName, u16), Unreachable> {
    let wrong = |why: &str| Unreachable::Address { origin: shown_origin(url), why: why.to_owned() };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only `https` is used, and `http` on this machine"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a name and password in an address are not used; use `headers`"));
    }
    let host = url.host_str().unwrap_or_default();
    let host = HostName::from_host(host).map_err(|error| wrong(&error.to_string()))?;
    let port = url.port_or_known_default().ok_or_else(|| wrong("it has no port"))?;
    Ok((host, port))
}

/// Whether settings open a host inside by naming it: this machine, or a private address written out.
/// A name that only leads to one does not count, for whoever owns the name decides where it leads.
fn is_open_by_name(host: &HostName) -> bool {
    const PRIVATE: [&str; 2] = ["a private network", "a carrier's private network"];
    let is_private = |what: &str| host.ip().is_some() && PRIVATE.contains(&what);
    is_this_machine(host) || host.is_private().is_some_and(is_private)
}

fn is_this_machine(host: &HostName) -> bool {
    match host.ip() {
        Some(address) => address.is_loopback(),
        None => host.is_private() == Some("this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use zero_policy::rule::Owner;
    use zero_policy::{Engine, EngineConfig, Rule, Source, Verdict};
    use zero_runtime::egress::Resolver;
    use zero_runtime::{RiskPolicy, RulePolicy};

    /// Knows a few names.
    struct Names;

    impl Resolver for Names {
        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let addresses: &[&str] = match name {
                "public.example" => &["93.184.216.34"],
                "localhost" => &["127.0.0.1", "::1"],
                "rebinds.example" => &["127.0.0.1"],
                "intranet.example" => &["10.0.0.5"],
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
            let source = Source { name: "test".to_owned(), line: None, owner: Owner::Person };
            Rule::parse(text, *verdict, source).unwrap()
        };
        let rules = rules.iter().map(rule).collect();
        let engine = Engine::new(EngineConfig { rules, ..EngineConfig::default() });
        Arc::new(RulePolicy::new(engine, Vec::new()))
    }

    /// What becomes of a connection to `url` for the server at `endpoint`.
    async fn said(rules: &[(Verdict, &str)], endpoint: &str, url: &str) -> String {
        let internet = Internet { resolver: Arc::new(Names), ..Internet::default() };
        let guard = NetworkGuard::new(policy(rules), internet);
        let gate = match guard.gate(&Url::parse(endpoint).unwrap()) {
            Ok(gate) => gate,
            Err(error) => return format!("endpoint: {error}"),
        };
        let url = Url::parse(url).unwrap();
        if let Err(error) = gate.admit(&url) {
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
    fn check_said(said: &str, row: &str, expected: &str) {
        assert!(said.contains(expected), "{row}: {said}");
    }

    #[tokio::test]
    async fn an_endpoint_on_this_machine_opens_itself_and_nothing_else() {
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
            check_said(&said(&[], endpoint, url).await, &format!("{endpoint} {url}"), expected);
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_wherever_it_comes_from() {
        let public = "https://public.example/mcp";
        for (endpoint, url, expected) in [
            (public, public, "fine"),
            (public, "https://rebinds.example/token", "it is this machine"),
            (public, "https://intranet.example/token", "it is a private network"),
            (public, "https://mixed.example/", "to the internet and to a private network"),
            (public, "https://cloud.example/", "it is a cloud metadata service"),
            (public, "https://mapped.example/", "it is this machine"),
            (public, "https://many.example/", "could not be found"),
            (public, "https://unknown.example/", "nobody knows it"),
            (public, "http://public.example/token", "only `https` is used"),
            (public, "ftp://public.example/token", "only `https` is used"),
            (public, "https://user:pass@public.example/", "use `headers`"),
            ("https://rebinds.example/mcp", "https://rebinds.example/mcp", "it is this machine"),
            ("http://public.example/mcp", "https://public.example/", "endpoint: "),
        ] {
            check_said(&said(&[], endpoint, url).await, &format!("{endpoint} {url}"), expected);
        }
    }

    #[tokio::test]
    async fn rules_deny_whatever_settings_name_and_open_what_a_person_names() {
        let public = "https://public.example/mcp";
        let deny = &[(Verdict::Deny, "WebFetch(domain:public.example)")];
        check_said(&said(deny, public, public).await, "deny", "denies it");
        let deny_all = &[(Verdict::Deny, "WebFetch(domain:127.0.0.1)")];
        let local = "http://127.0.0.1:8000/mcp";
        check_said(&said(deny_all, local, local).await, "deny own", "denies it");
        let ask = &[(Verdict::Ask, "WebFetch")];
        check_said(&said(ask, public, public).await, "ask", "fine");
        let open = &[(Verdict::Allow, "WebFetch(domain:10.0.0.5)")];
        let inside = "https://intranet.example/token";
        check_said(&said(open, public, inside).await, "opened", "fine");
        let other = &[(Verdict::Allow, "WebFetch(domain:10.0.0.6)")];
        check_said(&said(other, public, inside).await, "not opened", "a private network");
    }
}
