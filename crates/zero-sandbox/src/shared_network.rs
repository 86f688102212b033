//! A network namespace that the commands of a session share, with a loopback device and nothing
//! else.
//!
//! On many machines only bubblewrap may create namespaces, so it creates this one, for a helper
//! that is this binary under another name. The helper opens a socket inside, passes it out and
//! exits. A namespace lives as long as something refers to it, and [`SharedNetwork`] refers to it
//! by a descriptor: there is no process that could die before its session, or stay after it.
//!
//! A command joins the network before bubblewrap sets up the rest of its sandbox. That includes a
//! user namespace below the one that owns the network, so the command can use the network but not
//! configure it. If root runs without a user namespace, it has no capabilities instead.
//!
//! The port of a proxy is opened inside and served outside, by the holder of the listener: a socket
//! stays in the network in which it was created. So nothing of the host has to be brought in.
//!
//! Commands that share a network can reach each other's ports, on purpose. Abstract Unix sockets
//! belong to a network too: from version 6 on, Landlock restricts each command to its own; before,
//! commands of one session can reach each other's, as they can ports and files. Those of the host
//! and of other sessions are never reachable.

#![expect(unsafe_code, reason = "namespaces are opened and joined by bare system calls")]

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use crate::confinement::gaps;
use crate::helper_process;
use crate::layer_probe::BubblewrapProgram;
use crate::spawner::message;
use crate::spawner::{SpawnError, Spawner};

/// The port of the proxy on `127.0.0.1`, in a network that has one.
pub const PROXY_PORT: u16 = 3128;

/// The name under which this program runs as the helper.
pub(crate) const ARGV0: &str = "zero-net";

/// Where bubblewrap finds the helper.
const HELPER_PATH: &str = "/dev/zero-net";
/// How long the helper may take.
const HELP_MAX: Duration = Duration::from_secs(30);
/// How much of the error output is read.
const ERROR_BYTES_MAX: u64 = 4096;

/// Returns the network namespace of a socket.
const SIOCGSKNS: libc::Ioctl = 0x894c;
/// Returns the user namespace that owns a namespace.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// A network that commands share: see [`crate::spawner::SpawnSpec::net`]. It ends with this handle
/// and the last command in it.
#[derive(Debug)]
pub struct SharedNetwork {
    net: OwnedFd,
}

/// Which socket the helper opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperSocketRequest {
    /// Any socket.
    Any,
    /// A listener on the proxy's port.
    ProxyPort,
}

impl SharedNetwork {
    /// Creates a network in which nothing listens.
    pub fn create(spawner: &Spawner) -> Result<Self, SpawnError> {
        Ok(create_network(spawner, HelperSocketRequest::Any)?.0)
    }

    /// Creates a network with a proxy port, and returns the listener, on which the caller has to
    /// serve.
    pub fn create_with_proxy(spawner: &Spawner) -> Result<(Self, TcpListener), SpawnError> {
        let (net, socket) = create_network(spawner, HelperSocketRequest::ProxyPort)?;
        Ok((net, socket.into()))
    }
}

impl AsFd for SharedNetwork {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.net.as_fd()
    }
}

fn create_network(
    spawner: &Spawner,
    what: HelperSocketRequest,
) -> Result<(SharedNetwork, OwnedFd), SpawnError> {
    let refused = |what: &dyn std::fmt::Display| SpawnError::Refused {
        why: format!(
            "the network of the session could not be created: {what}; try again, or run commands \
             without network"
        ),
        gaps: Vec::new(),
    };
    let system = |error: io::Error| refused(&error);
    let bubblewrap = spawner.layers().bubblewrap.map_err(|absent| {
        let gaps = vec![gaps::network_gap(&absent)];
        SpawnError::Refused { why: gaps::describe_gaps(&gaps), gaps }
    })?;
    if !helper_process::can_run_helper() {
        return Err(refused(&"this program cannot start itself as a helper"));
    }
    let (channel, given) = message::create_channel().map_err(system)?;
    let mut helper = NetworkHelper(start_helper(&bubblewrap, what, given).map_err(system)?);
    let Some(socket) = receive_socket(&channel).map_err(system)? else {
        return Err(refused(&helper.read_error_output()));
    };
    helper.wait();
    let net = socket_namespace(&socket).map_err(system)?;
    if is_same_namespace(&net, "/proc/self/ns/net").map_err(system)? {
        return Err(refused(&"it is the host's network"));
    }
    Ok((SharedNetwork { net }, socket))
}

/// Starts the helper in its own network namespace. Nothing else has to be separate: it is our own
/// program, gets nothing, and exits at once. Without its own devices there is one level of user
/// namespaces, in which the user has the same ID as outside.
#[expect(clippy::disallowed_methods, reason = "the helper is this program, and confined as it is")]
fn start_helper(
    bubblewrap: &BubblewrapProgram,
    what: HelperSocketRequest,
    channel: OwnedFd,
) -> io::Result<Child> {
    let what = match what {
        HelperSocketRequest::Any => "any",
        HelperSocketRequest::ProxyPort => "proxy",
    };
    // Our binary is passed as its output, which it does not need: the binary may have no path any
    // more.
    Command::new(bubblewrap.path())
        .args(bubblewrap.user_namespace_args())
        .args(["--unshare-net", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"])
        .args(["--tmpfs", "/dev", "--symlink", "/proc/self/fd/1", HELPER_PATH, "--chdir", "/"])
        .args(["--", HELPER_PATH, what])
        .env_clear()
        .current_dir("/")
        .stdin(channel)
        .stdout(File::open("/proc/self/exe")?)
        .stderr(Stdio::piped())
        .spawn()
}

/// Receives the socket of the helper; `None` if it exits without sending one.
fn receive_socket(channel: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let until = Instant::now() + HELP_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                let received = message::receive::<String>(channel)?;
                return Ok(received.and_then(|(_, fds)| fds.into_iter().next()));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The helper process. Dropping it ends the process.
struct NetworkHelper(Child);

impl NetworkHelper {
    /// Waits for its end, which is near.
    fn wait(&mut self) {
        let until = Instant::now() + HELP_MAX;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The error output of a failed helper.
    fn read_error_output(&mut self) -> String {
        self.wait();
        let mut bytes = Vec::new();
        if let Some(stderr) = self.0.stderr.take() {
            let read = stderr.take(ERROR_BYTES_MAX).read_to_end(&mut bytes);
            drop(read);
        }
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

impl Drop for NetworkHelper {
    fn drop(&mut self) {
        // Both fail if it has ended and been reaped.
        let ended = self.0.kill().and_then(|()| self.0.wait());
        drop(ended);
    }
}

/// The main function of the helper: opens a socket and sends it over its standard input. Returns
/// the exit code.
pub(crate) fn run_helper(what: Option<std::ffi::OsString>) -> i32 {
    let socket = match what.as_ref().and_then(|what| what.to_str()) {
        Some("proxy") => TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)).map(OwnedFd::from),
        _ => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(OwnedFd::from),
    };
    let sent = socket
        .and_then(|socket| message::send(rustix::stdio::stdin(), &"socket", &[socket.as_fd()]));
    match sent {
        Ok(()) => 0,
        Err(error) => {
            let written = writeln!(io::stderr(), "no socket: {error}");
            drop(written);
            1
        }
    }
}

/// Descriptors to join a session's network, for a process that is about to execute bubblewrap.
#[derive(Debug)]
pub(crate) struct NetworkEntryHandles {
    /// The user namespace that owns the network, unless we are in it: root can do without.
    users: Option<OwnedFd>,
    net: OwnedFd,
}

/// Which network namespace something is in. Valid as long as a process or a handle keeps the
/// namespace: the kernel may use the number again afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NetworkIdentity {
    device: u64,
    inode: u64,
}

impl NetworkIdentity {
    /// The identity in the facts about the file of a namespace.
    pub(crate) fn from_stat(facts: &rustix::fs::Stat) -> Self {
        Self { device: facts.st_dev, inode: facts.st_ino }
    }
}

impl NetworkEntryHandles {
    /// The network that they lead to.
    pub(crate) fn identity(&self) -> io::Result<NetworkIdentity> {
        let facts = rustix::fs::fstat(&self.net)?;
        Ok(NetworkIdentity::from_stat(&facts))
    }

    pub(crate) fn new(net: OwnedFd) -> io::Result<Self> {
        let users = namespace_ioctl(&net, NS_GET_USERNS)?;
        let users = (!is_same_namespace(&users, "/proc/self/ns/user")?).then_some(users);
        Ok(Self { users, net })
    }

    /// Joins the network. A process that is not root there has every capability over the network
    /// until it executes the next program, and root until bubblewrap has created a user namespace
    /// below: the command has none of it. Makes system calls only.
    pub(crate) fn enter(&self) -> Result<(), rustix::io::Errno> {
        let users = self.users.iter().map(|users| (users, libc::CLONE_NEWUSER));
        for (namespace, kind) in users.chain([(&self.net, libc::CLONE_NEWNET)]) {
            // SAFETY: takes two numbers. The process has one thread, as the kernel demands.
            if unsafe { libc::setns(namespace.as_raw_fd(), kind) } != 0 {
                let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM);
                return Err(rustix::io::Errno::from_raw_os_error(errno));
            }
        }
        Ok(())
    }
}

fn socket_namespace(socket: &OwnedFd) -> io::Result<OwnedFd> {
    namespace_ioctl(socket, SIOCGSKNS)
}

/// Opens a namespace by an ioctl.
fn namespace_ioctl(of: &OwnedFd, request: libc::Ioctl) -> io::Result<OwnedFd> {
    // SAFETY: neither request has an argument. Both return a new descriptor, closed on exec, that
    // has no other owner, or an error.
    match unsafe { libc::ioctl(of.as_raw_fd(), request) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: see above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Whether a namespace is the one that a file in `/proc` names.
fn is_same_namespace(namespace: &OwnedFd, name: &str) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(namespace)?, rustix::fs::stat(name)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
