//! Measures what the proxy of confined commands costs: a download, and a connection that the user has
//! approved. Prints one line of JSON, in nanoseconds. `cargo xtask bench` runs it.
//!
//! Server and client are threads of this process, on loopback. Measurements that are compared take
//! turns, so that a busy machine slows all of them.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement, with a server of its own"
)]

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use zero_core::CallId;
use zero_exec::egress::{
    ConnectTarget, ConnectionAnswer, ConnectionApprover, ConnectionAuthorizer, ConnectionLog,
    ConnectionQuestion, ConnectionRecord, EgressConfig, EgressProxy, HeldConnections, HostResolver,
    ResolverConfig,
};
use zero_policy::{ConnectDeniedError, ConnectPermission, HostName, NetworkScope, UserApproval};

/// What is downloaded as fast as loopback is.
const FAST_BYTES: usize = 256 << 20;
/// What is downloaded at the speed of a network.
const PACED_BYTES: usize = 64 << 20;
/// A gigabit each second.
const PACED_BYTES_PER_SECOND: f64 = 125e6;
const CHUNK_BYTES: usize = 64 << 10;
/// Connections in a round.
const CONNECTIONS: usize = 20;
/// The host that a rule allows, and the one that the user approves.
const RULED_HOST: &str = "ruled.test";
const HELD_HOST: &str = "held.test";

/// What a client asks of the server, as one byte.
#[derive(Clone, Copy)]
enum Download {
    Fast = b'f' as isize,
    Paced = b'p' as isize,
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let server = serve();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy_address = listener.local_addr().unwrap();
    let internet = ResolverConfig { resolver: Arc::new(LoopbackResolver), inside: |_| None };
    let config =
        EgressConfig { internet, ..EgressConfig::new(Arc::new(NoLog), Arc::new(RuledAuthorizer)) };
    let proxy = EgressProxy::start(config, listener).unwrap();
    let held = Arc::new(HeldConnections::new(Arc::new(WillingApprover)));
    let _call = proxy.attribute(CallId::from_bits(1), &[], NetworkScope::Allowed, Some(held));
    let via = |host: &str| open_tunnel(proxy_address, host, server.port());
    // The question is asked and answered here.
    drop(via(HELD_HOST));
    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..rounds {
        let [direct, proxied, paced_direct, paced_proxied, ruled, approved] = &mut times;
        let direct_stream = || TcpStream::connect(server).unwrap();
        direct.push(download(direct_stream(), Download::Fast));
        proxied.push(download(via(RULED_HOST), Download::Fast));
        paced_direct.push(download(direct_stream(), Download::Paced));
        paced_proxied.push(download(via(RULED_HOST), Download::Paced));
        for _ in 0..CONNECTIONS {
            ruled.push(measure(|| drop(via(RULED_HOST))));
            approved.push(measure(|| drop(via(HELD_HOST))));
        }
    }
    let [direct, proxied, paced_direct, paced_proxied, ruled, approved] = times.map(median);
    println!(
        "{{\"direct_ns\":{direct},\"proxied_ns\":{proxied},\"paced_direct_ns\":{paced_direct},\
         \"paced_proxied_ns\":{paced_proxied},\"ruled_ns\":{ruled},\"approved_ns\":{approved}}}"
    );
}

/// Starts a server that sends what the first byte of a connection asks for, and returns its address.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || send_download(stream));
        }
    });
    address
}

/// A client that leaves ends it.
fn send_download(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0];
    stream.read_exact(&mut request)?;
    let is_paced = request == [Download::Paced as u8];
    let total = if is_paced { PACED_BYTES } else { FAST_BYTES };
    let (began, chunk) = (Instant::now(), vec![b'x'; CHUNK_BYTES]);
    for sent in (0..total).step_by(CHUNK_BYTES) {
        if is_paced {
            let due = Duration::from_secs_f64(sent as f64 / PACED_BYTES_PER_SECOND);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// How long a download takes, on a connection that is open.
fn download(mut stream: TcpStream, kind: Download) -> Duration {
    let (mut buffer, mut received) = (vec![0; CHUNK_BYTES], 0);
    let time = measure(|| {
        stream.write_all(&[kind as u8]).unwrap();
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => break,
                count => received += count,
            }
        }
    });
    let expected = match kind {
        Download::Fast => FAST_BYTES,
        Download::Paced => PACED_BYTES,
    };
    assert_eq!(received, expected);
    time
}

/// Connects to a host through the proxy.
fn open_tunnel(proxy: SocketAddr, host: &str, port: u16) -> TcpStream {
    const GRANTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut reply = [0; GRANTED.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, GRANTED);
    stream
}

fn measure(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0, Duration::as_nanos)
}

/// Every name is this machine.
struct LoopbackResolver;

impl HostResolver for LoopbackResolver {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

/// Allows one host by a rule, and others if the user approved them.
struct RuledAuthorizer;

impl ConnectionAuthorizer for RuledAuthorizer {
    fn authorize_host(
        &self,
        target: &ConnectTarget,
        _: &[HostName],
        approval: UserApproval,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let is_open = target.host.name() == Some(RULED_HOST) || approval == UserApproval::Given;
        let permit = ConnectPermission { rule: "rule".to_owned(), source: "bench".to_owned() };
        if is_open { Ok(permit) } else { Err(ConnectDeniedError::NoRule) }
    }

    fn authorize_address(
        &self,
        _: IpAddr,
        _: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        Ok(())
    }
}

/// Says yes at once.
struct WillingApprover;

impl ConnectionApprover for WillingApprover {
    fn is_open(&self) -> bool {
        true
    }

    fn ask(&self, _: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer> {
        let answer = ConnectionAnswer { decision: Ok(()), answer_source: None, grants: Vec::new() };
        std::future::ready(answer).boxed()
    }
}

struct NoLog;

impl ConnectionLog for NoLog {
    fn ensure_writable(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: ConnectionRecord) -> io::Result<()> {
        Ok(())
    }
}
