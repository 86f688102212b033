//! A proxy in a temporary folder, servers on loopback, and a resolver with fixed answers.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use zero_exec::egress::{
    EgressConfig, EgressLimits, EgressProxy, HostResolver, PolicyAuthorizer, ResolverConfig,
};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{HostName, HostPattern, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::audit::{AuditLog, AuditRow, ConnectionAuditLog};
use zero_runtime::{Policy, RulePolicy};
use zero_sandbox::{StateDir, Workspace};

/// Longest wait for an answer in a test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Fixed answers for names: each lookup takes the next one; the last one repeats.
#[derive(Default)]
pub(crate) struct TableResolver {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    pub(crate) lookups: Mutex<Vec<String>>,
}

impl HostResolver for TableResolver {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let mut lookups = self.lookups.lock().unwrap();
        let before = lookups.iter().filter(|looked| *looked == name).count();
        lookups.push(name.to_owned());
        let answers = self.answers.get(name).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(answers[before.min(answers.len() - 1)].clone())
    }
}

/// Describes an address; a test server on loopback counts as public.
pub(crate) fn loopback_is_public(address: IpAddr) -> Option<&'static str> {
    let is_test_server = ["127.0.0.1", "::1"].iter().any(|test| test.parse() == Ok(address));
    HostName::from_address(address).private_reason().filter(|_| !is_test_server)
}

/// A proxy with rules such as `allow WebFetch(domain:a.test)`.
#[derive(Default)]
pub(crate) struct ProxySetup {
    pub(crate) rules: Vec<String>,
    pub(crate) network: Vec<String>,
    pub(crate) answers: Vec<(&'static str, &'static str)>,
    pub(crate) limits: EgressLimits,
    /// Whether loopback counts as this machine.
    pub(crate) strict: bool,
}

impl ProxySetup {
    /// Allows these hosts, at `127.0.0.1`, on this port.
    pub(crate) fn with_hosts(hosts: &[&'static str], port: u16) -> Self {
        Self {
            network: hosts.iter().map(|host| format!("{host}:{port}")).collect(),
            answers: hosts.iter().map(|host| (*host, "127.0.0.1")).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn start(self) -> ProxyFixture {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let root = temp.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::open(&[root], None).unwrap();
        let rule = |text: &String| {
            let (verdict, text) = text.split_once(' ').unwrap();
            let verdict = Verdict::ALL.into_iter().find(|known| known.as_str() == verdict).unwrap();
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, verdict, source).unwrap()
        };
        let rules = self.rules.iter().map(rule).collect();
        let engine =
            PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() });
        let policy: Arc<dyn Policy> = Arc::new(RulePolicy::new(engine, Vec::new()));
        let network = self.network.iter().map(|text| HostPattern::parse(text).unwrap()).collect();
        let mut answers: HashMap<String, Vec<Vec<IpAddr>>> = HashMap::new();
        for (name, addresses) in self.answers {
            let addresses = addresses.split_whitespace().map(|text| text.parse().unwrap());
            answers.entry(name.to_owned()).or_default().push(addresses.collect());
        }
        let resolver = Arc::new(TableResolver { answers, ..TableResolver::default() });
        let mut config = EgressConfig::new(
            Arc::new(ConnectionAuditLog::new(&state, workspace, None)),
            Arc::new(PolicyAuthorizer::new(policy, network)),
        );
        let usual = ResolverConfig { resolver: resolver.clone(), ..ResolverConfig::default() };
        config.internet = match self.strict {
            true => usual,
            false => ResolverConfig { inside: loopback_is_public, ..usual },
        };
        config.limits = self.limits;
        let (listener, port) = bind_port();
        let egress = Some(EgressProxy::start(config, listener).unwrap());
        ProxyFixture { egress, port, resolver, state, _temp: temp }
    }
}

/// A running proxy and its environment.
pub(crate) struct ProxyFixture {
    egress: Option<EgressProxy>,
    /// The proxy's port on loopback.
    pub(crate) port: u16,
    pub(crate) resolver: Arc<TableResolver>,
    pub(crate) state: StateDir,
    _temp: TempDir,
}

impl ProxyFixture {
    pub(crate) fn egress(&self) -> &EgressProxy {
        self.egress.as_ref().unwrap()
    }

    /// Connects to the proxy.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Sends a request and returns the whole response.
    pub(crate) fn send_request(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).unwrap();
        read_to_end(&mut stream)
    }

    /// The response to a `CONNECT` to this target: status and text.
    pub(crate) fn tunnel_to(&self, target: &str) -> String {
        self.send_request(format!("CONNECT {target} HTTP/1.1\r\n\r\n"))
    }

    /// The number of lookups.
    pub(crate) fn lookups(&self) -> usize {
        self.resolver.lookups.lock().unwrap().len()
    }

    /// Stops the proxy and returns its audit rows.
    pub(crate) fn end(&mut self) -> Vec<AuditRow> {
        self.egress = None;
        let audit = AuditLog::new(&self.state);
        let mut rows = Vec::new();
        for day in audit.days().unwrap() {
            audit.open_day(&day).unwrap().for_each_row(|row| rows.push(row)).unwrap();
        }
        rows
    }
}

/// Binds a port on loopback.
pub(crate) fn bind_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Connects to a port on loopback.
pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Reads to the end; a reset connection has ended too.
pub(crate) fn read_to_end(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads exactly `count` bytes.
pub(crate) fn read_exactly(stream: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Serves each connection to a new loopback port on a separate thread.
pub(crate) fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    serve_at("127.0.0.1", each)
}

pub(crate) fn serve_at(host: &str, each: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = each.clone();
            thread::spawn(move || each(stream));
        }
    });
    port
}

/// Echoes its input, and counts its connections.
#[derive(Clone, Default)]
pub(crate) struct EchoServer {
    pub(crate) present: Arc<AtomicUsize>,
    pub(crate) most: Arc<AtomicUsize>,
    pub(crate) total: Arc<AtomicUsize>,
}

impl EchoServer {
    pub(crate) fn serve(&self) -> u16 {
        self.serve_at("127.0.0.1")
    }

    pub(crate) fn serve_at(&self, host: &str) -> u16 {
        let echo = self.clone();
        serve_at(host, move |mut stream| {
            let present = echo.present.fetch_add(1, Ordering::SeqCst) + 1;
            echo.most.fetch_max(present, Ordering::SeqCst);
            echo.total.fetch_add(1, Ordering::SeqCst);
            let mut out = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut stream, &mut out);
            let _ = out.write_all(b" bye");
            echo.present.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

/// An HTTP server that records its requests and answers `hello`.
#[derive(Clone, Default)]
pub(crate) struct HelloServer {
    pub(crate) received: Arc<Mutex<String>>,
}

impl HelloServer {
    pub(crate) fn serve(&self) -> u16 {
        let received = self.received.clone();
        serve(move |mut stream| {
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            let mut part = [0; 4096];
            let mut answered = false;
            while let Ok(count @ 1..) = stream.read(&mut part) {
                let mut received = received.lock().unwrap();
                received.push_str(&String::from_utf8_lossy(&part[..count]));
                if received.contains("\r\n\r\n") && !answered {
                    answered = true;
                    // Continues to read, like servers that expect a second request.
                    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
                    );
                }
            }
        })
    }

    pub(crate) fn request_text(&self) -> String {
        self.received.lock().unwrap().clone()
    }
}
