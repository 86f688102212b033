//! Whom the commands of a session may reach, and the network that they share for it.
//!
//! The network is made when the first command needs it and goes when the session does, so that a
//! server which one command starts is there for the next. Its only way out, where there is one, is
//! the port of a proxy: connections to it are passed on to the proxy's socket, as they are. What
//! the proxy lets through is its own business.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use zero_core::{Reason, ToolError};
use zero_sandbox::net::SessionNet;
use zero_sandbox::warden::{SpawnError, Warden};
use zero_sandbox::{Network, Weakness};

use super::failure;

/// Connections to the proxy at a time; further ones wait.
const CONNECTIONS_MAX: usize = 256;
/// How long to wait when a connection could not be taken, so that a full table does not spin.
const PAUSE: Duration = Duration::from_millis(10);

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

/// Whom the commands of a session may reach.
#[derive(Clone, Debug, Default)]
pub enum CommandNetwork {
    /// Nobody, not even each other.
    #[default]
    Nothing,
    /// Each other, over loopback.
    Loopback,
    /// Each other, and the hosts that lie behind a door.
    Hosts(Arc<dyn Door>),
}

/// A way out of a session's network.
pub trait Door: fmt::Debug + Send + Sync {
    /// The unix socket of a proxy that speaks HTTP and SOCKS 5 and decides about each host.
    fn socket(&self) -> io::Result<PathBuf>;
}

/// What a command gets.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) network: Network,
    /// The network it shares.
    pub(super) net: Option<Arc<SessionNet>>,
    /// What it has to know to use it.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

/// The network of a session, once there is one.
#[derive(Debug, Default)]
pub(super) struct SessionNetwork(Mutex<Option<Shared>>);

#[derive(Debug)]
struct Shared {
    net: Arc<SessionNet>,
    way: Option<Way>,
}

impl SessionNetwork {
    /// What the next command gets. Makes the network if there is none yet.
    ///
    /// On a machine where none can be made, commands are refused, unless they may do without. Then
    /// they have the host's, and their confinement says so.
    pub(super) fn give(
        &self,
        allowed: &CommandNetwork,
        weaknesses: &[Weakness],
    ) -> Result<Given, ToolError> {
        let door = match allowed {
            CommandNetwork::Nothing => {
                return Ok(Given { network: Network::Nothing, net: None, variables: &[] });
            }
            CommandNetwork::Loopback => None,
            CommandNetwork::Hosts(door) => Some(door.as_ref()),
        };
        let network = Network::Loopback;
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |shared: &Shared| shared.way.is_some() == door.is_some();
        if !shared.as_ref().is_some_and(fits) {
            let warden = Warden::shared().map_err(|error| failure::no_warden(&error))?;
            *shared = match Shared::make(warden, door) {
                Ok(made) => Some(made),
                Err(error) if may_do_without(&error, weaknesses) => None,
                Err(error) => return Err(failure::of_start(&error)),
            };
        }
        let Some(shared) = &mut *shared else {
            return Ok(Given { network, net: None, variables: &[] });
        };
        if let (Some(way), Some(door)) = (&mut shared.way, door) {
            way.keep_open(door).map_err(|error| no_proxy(&error))?;
        }
        let variables = if shared.way.is_some() { PROXY_VARIABLES } else { &[] };
        Ok(Given { network, net: Some(Arc::clone(&shared.net)), variables })
    }

    /// Lets go of it: it ends with the last command in it.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Shared {
    fn make(warden: &Warden, door: Option<&dyn Door>) -> Result<Self, SpawnError> {
        let (net, way) = match door {
            None => (SessionNet::alone(warden)?, None),
            Some(_) => {
                let (net, port) = SessionNet::with_proxy(warden)?;
                (net, Some(Way { port, passing: None }))
            }
        };
        Ok(Self { net: Arc::new(net), way })
    }
}

/// From the proxy's port inside to its socket.
#[derive(Debug)]
struct Way {
    port: TcpListener,
    passing: Option<JoinHandle<()>>,
}

impl Way {
    /// Passes connections on, if nobody does: nobody has yet, or whoever did is gone.
    fn keep_open(&mut self, door: &dyn Door) -> io::Result<()> {
        if self.passing.as_ref().is_some_and(|passing| !passing.is_finished()) {
            return Ok(());
        }
        let socket = door.socket()?;
        let port = self.port.try_clone()?;
        port.set_nonblocking(true)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let _inside = runtime.enter();
        let port = tokio::net::TcpListener::from_std(port)?;
        self.passing = Some(runtime.spawn(pass_on(port, socket)));
        Ok(())
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // Its connections end with it.
        if let Some(passing) = &self.passing {
            passing.abort();
        }
    }
}

async fn pass_on(port: tokio::net::TcpListener, socket: PathBuf) {
    let socket: Arc<Path> = socket.into();
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        if open.len() >= CONNECTIONS_MAX {
            open.join_next().await;
            continue;
        }
        match port.accept().await {
            Ok((connection, _)) => {
                open.spawn(pass(connection, Arc::clone(&socket)));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn pass(mut connection: TcpStream, socket: Arc<Path>) {
    let Ok(mut proxy) = UnixStream::connect(&socket).await else {
        tracing::warn!(socket = %socket.display(), "the proxy of commands does not answer");
        return;
    };
    // A connection that breaks is the business of its two ends.
    let _ = tokio::io::copy_bidirectional(&mut connection, &mut proxy).await;
}

fn may_do_without(error: &SpawnError, weaknesses: &[Weakness]) -> bool {
    let SpawnError::Refused { gaps, .. } = error else { return false };
    !gaps.is_empty() && gaps.iter().all(|gap| weaknesses.contains(&gap.property))
}

fn no_proxy(error: &io::Error) -> ToolError {
    let message = format!(
        "there is no way to the hosts that commands may reach: {error}; try again, or allow none in the settings"
    );
    ToolError::failed(Reason::Io, message)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use zero_sandbox::net::PROXY_PORT;
    use zero_sandbox::{Gap, Property};

    use super::*;

    #[derive(Debug)]
    struct Test(PathBuf);

    impl Door for Test {
        fn socket(&self) -> io::Result<PathBuf> {
            Ok(self.0.clone())
        }
    }

    /// A proxy that says back what it hears, and counts whom it listens to.
    struct Echo {
        folder: tempfile::TempDir,
        open: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    impl Echo {
        fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let socket = tokio::net::UnixListener::bind(folder.path().join("proxy")).unwrap();
            let (counted, highest) = (Arc::clone(&open), Arc::clone(&most));
            tokio::spawn(async move {
                while let Ok((mut connection, _)) = socket.accept().await {
                    let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
                    highest.fetch_max(now, Ordering::SeqCst);
                    let counted = Arc::clone(&counted);
                    tokio::spawn(async move {
                        let (mut from, mut to) = connection.split();
                        let _ = tokio::io::copy(&mut from, &mut to).await;
                        counted.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
            Self { folder, open, most }
        }

        fn way(&self) -> (Way, std::net::SocketAddr) {
            let port = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = port.local_addr().unwrap();
            let mut way = Way { port, passing: None };
            way.keep_open(&Test(self.folder.path().join("proxy"))).unwrap();
            (way, address)
        }

        async fn until_open(&self, count: usize) {
            let settled = async {
                while self.open.load(Ordering::SeqCst) != count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let settled = tokio::time::timeout(Duration::from_secs(10), settled).await;
            assert!(settled.is_ok(), "{count}, not {}", self.open.load(Ordering::SeqCst));
        }
    }

    async fn says(connection: &mut TcpStream, word: &str) -> String {
        connection.write_all(word.as_bytes()).await.unwrap();
        let mut bytes = vec![0; word.len()];
        connection.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn connections_reach_the_proxy_and_only_so_many_at_a_time() {
        let echo = Echo::start();
        let (_way, address) = echo.way();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_MAX + 40 {
            open.push(TcpStream::connect(address).await.unwrap());
        }
        echo.until_open(CONNECTIONS_MAX).await;
        assert_eq!(says(&mut open[0], "hello").await, "hello");
        assert_eq!(says(&mut open[CONNECTIONS_MAX - 1], "hello").await, "hello");
        // The next ones wait for those before them.
        let mut next = open.remove(CONNECTIONS_MAX);
        let waiting = tokio::time::timeout(Duration::from_millis(50), says(&mut next, "hello"));
        assert!(waiting.await.is_err());
        drop(open);
        let mut word = [0; 5];
        next.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"hello");
        drop(next);
        echo.until_open(0).await;
        assert_eq!(echo.most.load(Ordering::SeqCst), CONNECTIONS_MAX);
    }

    #[tokio::test]
    async fn an_end_of_input_is_passed_on() {
        let echo = Echo::start();
        let (_way, address) = echo.way();
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(b"all").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "all");
    }

    #[tokio::test]
    async fn a_way_that_is_gone_takes_its_connections_along() {
        let echo = Echo::start();
        let (way, address) = echo.way();
        let mut connection = TcpStream::connect(address).await.unwrap();
        assert_eq!(says(&mut connection, "hello").await, "hello");
        drop(way);
        echo.until_open(0).await;
        assert_eq!(connection.read(&mut [0]).await.unwrap_or(0), 0);
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_way_that_broke_is_opened_again() {
        let echo = Echo::start();
        let (mut way, address) = echo.way();
        way.passing.as_ref().unwrap().abort();
        while !way.passing.as_ref().unwrap().is_finished() {
            tokio::task::yield_now().await;
        }
        way.keep_open(&Test(echo.folder.path().join("proxy"))).unwrap();
        let mut connection = TcpStream::connect(address).await.unwrap();
        assert_eq!(says(&mut connection, "hello").await, "hello");
    }

    #[test]
    fn programs_are_told_of_the_port_there_is() {
        for (name, value) in PROXY_VARIABLES.iter().filter(|(_, value)| value.contains("://")) {
            assert!(value.ends_with(&format!("://127.0.0.1:{PROXY_PORT}")), "{name}={value}");
        }
    }

    #[track_caller]
    fn check(gaps: &[Property], weaknesses: &[Weakness], expected: bool) {
        let gap = |property: &Property| Gap { property: *property, why: String::new(), fix: None };
        let gaps = gaps.iter().map(gap).collect();
        let error = SpawnError::Refused { why: String::new(), gaps };
        assert_eq!(may_do_without(&error, weaknesses), expected);
    }

    #[test]
    fn only_a_weakness_that_was_allowed_is_one() {
        check(&[Property::Network], &[], false);
        check(&[Property::Network], &[Property::Masked], false);
        check(&[Property::Network], &[Property::Masked, Property::Network], true);
        // What failed for another reason is no weakness.
        check(&[], &[Property::Network], false);
        assert!(!may_do_without(&SpawnError::WardenLost, &[Property::Network]));
    }
}
