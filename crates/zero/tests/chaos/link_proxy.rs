//! A TCP connection between two parts of the cluster, which can be held or cut without root.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long a connection to the other side may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 64 * 1024;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkMode {
    /// They arrive.
    Open,
    /// They wait, in both directions, and arrive later.
    Held,
    /// All connections are closed, and new ones at once.
    Cut,
}

/// A proxy with an address that stays the same.
pub(crate) struct LinkProxy {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
    state: watch::Sender<LinkMode>,
}

impl LinkProxy {
    pub(crate) async fn start(target: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, states) = watch::channel(LinkMode::Open);
        let target = Arc::new(Mutex::new(target));
        let to = Arc::clone(&target);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let to = *to.lock().unwrap();
                if *states.borrow() != LinkMode::Cut
                    && let Some(to) = to
                {
                    tokio::spawn(pass(near, to, states.clone()));
                }
            }
        });
        Self { address, target, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections lead.
    pub(crate) fn set_target(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = Some(target);
    }

    pub(crate) fn set(&self, state: LinkMode) {
        self.state.send_replace(state);
    }
}

async fn pass(near: TcpStream, to: SocketAddr, states: watch::Receiver<LinkMode>) {
    let Ok(Ok(far)) = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(to)).await else {
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_reader, near_writer) = near.into_split();
    let (far_reader, far_writer) = far.into_split();
    // When one direction ends, so does the other.
    tokio::select! {
        () = pump(near_reader, far_writer, states.clone()) => {}
        () = pump(far_reader, near_writer, states) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut states: watch::Receiver<LinkMode>,
) {
    let mut cut = states.clone();
    let forward = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let passes = states.wait_for(|state| *state == LinkMode::Open).await.is_ok();
            if !passes || to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
        // An end waits, too.
        let _ = states.wait_for(|state| *state == LinkMode::Open).await;
    };
    tokio::select! {
        () = forward => {}
        _ = cut.wait_for(|state| *state == LinkMode::Cut) => {}
    }
}
