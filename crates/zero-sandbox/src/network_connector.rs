//! Connections into the network of a sandbox, made by its user from outside.
//!
//! A socket stays in the network in which it was created. So a helper, which is this binary under
//! another name, joins the network, connects there, and passes the connected sockets out. It joins
//! nothing else of the sandbox: no process of the sandbox can see it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::helper_process;
use crate::listening_ports::ListeningPort;
use crate::shared_network::NetworkEntryHandles;
use crate::spawner::message;

/// The name under which this program runs as the helper.
pub(crate) const ARGV0: &str = "zero-connect";

/// How long one connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Connects to a port of a sandbox. Dropping it ends the helper; its connections stay.
#[derive(Debug)]
pub struct NetworkConnector {
    addresses: Vec<SocketAddr>,
    /// Held while a connection is made: one request at a time.
    channel: Mutex<OwnedFd>,
    helper: Mutex<Child>,
}

/// The answer of the helper: a socket comes with it unless there is an error.
#[derive(Debug, Serialize, Deserialize)]
struct ConnectReply {
    error: Option<String>,
}

impl NetworkConnector {
    /// Joins the network in which a port was found. Fails if its process has ended.
    pub fn open(port: &ListeningPort) -> io::Result<Self> {
        if !helper_process::can_run_helper() {
            return Err(io::Error::other("this program cannot start itself as a helper"));
        }
        let network = port.network.open(port.pid)?;
        let (channel, given) = message::create_channel()?;
        let helper = start_helper(network, given)?;
        let addresses = list_addresses(port);
        let connector =
            Self { addresses, channel: Mutex::new(channel), helper: Mutex::new(helper) };
        // The helper reports whether it joined the network.
        receive(&connector.lock())?;
        Ok(connector)
    }

    /// Connects to the port.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let channel = self.lock();
        message::send(&*channel, &self.addresses, &[])?;
        let socket = receive(&channel)?;
        socket.map(TcpStream::from).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn lock(&self) -> MutexGuard<'_, OwnedFd> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives the answer of the helper.
fn receive(channel: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let received = message::receive::<ConnectReply>(channel)?;
    let (reply, sockets) = received.ok_or(io::ErrorKind::BrokenPipe)?;
    match reply.error {
        Some(error) => Err(io::Error::other(error)),
        None => Ok(sockets.into_iter().next()),
    }
}

impl Drop for NetworkConnector {
    fn drop(&mut self) {
        let helper = self.helper.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Both fail if it has ended and been reaped.
        let ended = helper.kill().and_then(|()| helper.wait());
        drop(ended);
    }
}

/// The addresses at which a port is reached from inside its network.
fn list_addresses(port: &ListeningPort) -> Vec<SocketAddr> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let any = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let addresses = match port.address {
        // A server on all addresses of IPv6 mostly serves IPv4 too.
        address if address.is_unspecified() => any.to_vec(),
        address => vec![address],
    };
    addresses.into_iter().map(|address| SocketAddr::new(address, port.port)).collect()
}

/// Starts the helper with the network as its output, which it does not need.
#[expect(clippy::disallowed_methods, reason = "the helper is this program")]
fn start_helper(network: OwnedFd, channel: OwnedFd) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(ARGV0)
        .env_clear()
        .current_dir("/")
        .stdin(channel)
        .stdout(network)
        .stderr(Stdio::null())
        .spawn()
}

/// The main function of the helper: joins the network that is its output, connects to the addresses
/// of each request on its input, and sends the sockets back. Returns the exit code.
pub(crate) fn run_helper() -> i32 {
    let channel = rustix::stdio::stdin();
    let joined = (|| {
        let network = rustix::stdio::stdout().try_clone_to_owned()?;
        NetworkEntryHandles::new(network)?.enter()?;
        io::Result::Ok(())
    })();
    let reply = ConnectReply { error: joined.as_ref().err().map(ToString::to_string) };
    if message::send(channel, &reply, &[]).is_err() || joined.is_err() {
        return 1;
    }
    // Ends with its caller, who closes the channel.
    while let Ok(Some((addresses, _))) = message::receive::<Vec<SocketAddr>>(channel) {
        let sent = match connect_to_any(&addresses) {
            Ok(stream) => message::send(channel, &ConnectReply { error: None }, &[stream.as_fd()]),
            Err(error) => {
                message::send(channel, &ConnectReply { error: Some(error.to_string()) }, &[])
            }
        };
        if sent.is_err() {
            return 1;
        }
    }
    0
}

fn connect_to_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
