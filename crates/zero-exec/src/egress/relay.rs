//! Relays bytes between both ends until one of them is done.
//!
//! Each direction reads no further than it can write, and ends separately: a client that has sent
//! everything still receives the response.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use zero_policy::HostName;

use super::request_body::RequestBodyReader;
use super::sni::{self, ClientHelloCheck};

/// Buffer size of one direction at first, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// Largest buffer of one direction, in bytes. It doubles when a read fills it: only downloads need it.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// How many bytes were relayed, and when the last ones were.
#[derive(Debug)]
pub(super) struct TrafficCounters {
    started_at: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    last_ms: AtomicU64,
}

impl TrafficCounters {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { started_at: Instant::now(), sent: zero(), received: zero(), last_ms: zero() }
    }

    /// Bytes from the client to the host.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes from the host to the client.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Counts the head of a request, which is sent before the relay starts.
    pub(super) fn record_sent_head(&self, bytes: usize) {
        self.add(&self.sent, bytes);
    }

    fn add(&self, counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        self.touch();
    }

    fn touch(&self) {
        let now = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// Completes when nothing was relayed for `idle`.
    async fn wait_until_idle(&self, idle: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let until = self.started_at + last + idle;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// How an established connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RelayEnd {
    /// Both ends are done.
    Closed,
    /// One end failed.
    Broken(io::ErrorKind),
    /// Nothing was relayed for too long.
    Idle,
    /// The body is malformed, or a second request followed.
    NotOneRequest,
    /// The TLS `ClientHello` names another host than the request; the details.
    ServerNameMismatch(String),
}

/// What is relayed to the host.
pub(super) struct UpstreamTransfer {
    /// Bytes that were read already.
    pub(super) early: Vec<u8>,
    /// The only body that may be sent; without one, everything is relayed.
    pub(super) body: Option<RequestBodyReader>,
    /// The host that a TLS client must name.
    pub(super) greets: Option<HostName>,
}

/// Relays bytes until both ends are done, one fails, or the connection is idle for too long.
pub(super) async fn relay<C, H>(
    client: C,
    host: H,
    outgoing: UpstreamTransfer,
    traffic: &TrafficCounters,
    idle: Duration,
) -> RelayEnd
where
    C: AsyncRead + AsyncWrite + Unpin,
    H: AsyncRead + AsyncWrite + Unpin,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_host, to_host) = tokio::io::split(host);
    let is_message = outgoing.body.is_some();
    let send = forward(from_client, to_host, outgoing, |bytes| traffic.add(&traffic.sent, bytes));
    let all = UpstreamTransfer { early: Vec::new(), body: None, greets: None };
    let receive = forward(from_host, to_client, all, |bytes| traffic.add(&traffic.received, bytes));
    tokio::pin!(send, receive);
    let idle = traffic.wait_until_idle(idle);
    tokio::pin!(idle);
    let (mut sent, mut received) = (false, false);
    loop {
        tokio::select! {
            stop = &mut send, if !sent => {
                sent = true;
                match stop {
                    // The response is relayed to its end, even if the host no longer reads.
                    RelayStop::End | RelayStop::Write(_) if !received => {}
                    RelayStop::End => return RelayEnd::Closed,
                    RelayStop::Read(kind) | RelayStop::Write(kind) => return RelayEnd::Broken(kind),
                    RelayStop::NotOneRequest => return RelayEnd::NotOneRequest,
                    RelayStop::ServerNameMismatch(reason) => return RelayEnd::ServerNameMismatch(reason),
                }
            }
            stop = &mut receive, if !received => {
                received = true;
                match stop {
                    RelayStop::End if !sent && !is_message => {}
                    RelayStop::End => return RelayEnd::Closed,
                    RelayStop::Read(kind) | RelayStop::Write(kind) => return RelayEnd::Broken(kind),
                    RelayStop::NotOneRequest => return RelayEnd::NotOneRequest,
                    RelayStop::ServerNameMismatch(reason) => return RelayEnd::ServerNameMismatch(reason),
                }
            }
            () = &mut idle => return RelayEnd::Idle,
        }
    }
}

/// Why one direction stopped.
enum RelayStop {
    End,
    Read(io::ErrorKind),
    Write(io::ErrorKind),
    NotOneRequest,
    ServerNameMismatch(String),
}

async fn forward<R, W>(
    mut from: R,
    mut to: W,
    outgoing: UpstreamTransfer,
    passed: impl Fn(usize),
) -> RelayStop
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let UpstreamTransfer { early, mut body, mut greets } = outgoing;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut out = Vec::new();
    // The beginning of a `ClientHello`, until it is complete.
    let mut pending_bytes = Vec::new();
    let mut early = Some(early).filter(|early| !early.is_empty());
    let mut is_full = false;
    loop {
        let early = early.take();
        if is_full && buffer.len() < BUFFER_BYTES_MAX {
            buffer.resize(buffer.len() * 2, 0);
        }
        let bytes = match &early {
            Some(early) => early.as_slice(),
            None => match from.read(&mut buffer).await {
                Ok(0) => {
                    // The other side may be gone, which a read from it will show.
                    let _ = to.shutdown().await;
                    return RelayStop::End;
                }
                Ok(count) => {
                    is_full = count == buffer.len();
                    buffer.get(..count).unwrap_or_default()
                }
                Err(error) => return RelayStop::Read(error.kind()),
            },
        };
        let bytes = match &mut body {
            None => bytes,
            Some(body) => {
                out.clear();
                let Ok(surplus) = body.feed(bytes, &mut out) else {
                    return RelayStop::NotOneRequest;
                };
                // Old clients send a meaningless line break after a body.
                if surplus.iter().any(|byte| !b"\r\n".contains(byte)) {
                    return RelayStop::NotOneRequest;
                }
                out.as_slice()
            }
        };
        if let Some(host) = &greets {
            pending_bytes.extend_from_slice(bytes);
            match sni::check_client_hello(&pending_bytes, host) {
                ClientHelloCheck::Unfinished => continue,
                ClientHelloCheck::Accepted => greets = None,
                ClientHelloCheck::Rejected(reason) => return RelayStop::ServerNameMismatch(reason),
            }
        }
        let bytes = if pending_bytes.is_empty() { bytes } else { pending_bytes.as_slice() };
        if let Err(error) = to.write_all(bytes).await {
            return RelayStop::Write(error.kind());
        }
        passed(bytes.len());
        pending_bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn traffic_in_either_direction_postpones_idle_end() {
        const IDLE: Duration = Duration::from_secs(300);
        let ((mut client, near), (far, mut host)) = (duplex(64), duplex(64));
        let traffic = TrafficCounters::new();
        let outgoing = UpstreamTransfer { early: Vec::new(), body: None, greets: None };
        let relayed = relay(near, far, outgoing, &traffic, IDLE);
        let talk = async {
            for is_from_client in [true, false, true, true, false, false] {
                tokio::time::sleep(IDLE - Duration::from_millis(1)).await;
                let (from, to) = match is_from_client {
                    true => (&mut client, &mut host),
                    false => (&mut host, &mut client),
                };
                from.write_all(b"x").await.unwrap();
                assert_eq!(to.read_u8().await.unwrap(), b'x');
            }
            Instant::now()
        };
        let (end, last) = tokio::join!(async { (relayed.await, Instant::now()) }, talk);
        assert_eq!(end, (RelayEnd::Idle, last + IDLE));
        assert_eq!((traffic.sent(), traffic.received()), (3, 3));
    }
}
