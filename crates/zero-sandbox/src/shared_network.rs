//! A network that the commands of a session share: a loopback device, and nothing else.
//!
//! On many machines only bubblewrap may make namespaces, so it makes this one, for a helper that is
//! this binary again. The helper opens a socket inside, hands it out and ends. A namespace lives for
//! as long as anything of it is held, and from then on it is held by a handle: there is no process
//! that could die before its session, or stay after it.
//!
//! A command goes in before bubblewrap puts up the rest of its walls. Among these are users of its
//! own, beneath those whose the network is: whatever it becomes there, it has no say over the
//! network, only its use. Where root does without users of its own, what it has no more is every
//! capability.
//!
//! The port of a proxy is opened inside and answered outside, by whoever holds the listener: a
//! socket stays in the network in which it was made. So nothing of the host has to be brought in.
//!
//! Commands that share a network reach each other's ports; that is what it is for. Abstract unix
//! sockets belong to a network too: Landlock keeps each command to its own from version 6 on, and
//! before that, commands of one session reach each other's as they do ports and files. Those of the
//! host and of other sessions are out of reach either way.

#![expect(unsafe_code, reason = "namespaces are asked for and entered by bare system calls")]

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::confinement::gaps;
use crate::helper_process;
use crate::layer_probe::BubblewrapProgram;
use crate::spawner::message;
use crate::spawner::{SpawnError, Spawner};

/// Where commands find the proxy in a network that has one: `127.0.0.1`, this port.
pub const PROXY_PORT: u16 = 3128;

/// The name under which this program is the helper.
pub(crate) const ARGV0: &str = "zero-net";

/// Where bubblewrap finds the helper.
const HELPER_PATH: &str = "/dev/zero-net";
/// How long the helper may take.
const HELP_MAX: Duration = Duration::from_secs(30);
/// How much of what is said about a failure is read.
const ERROR_BYTES_MAX: u64 = 4096;

/// Gives the namespace of a socket.
const SIOCGSKNS: libc::Ioctl = 0x894c;
/// Gives the users whose a namespace is.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// A network that commands share: see [`crate::spawner::SpawnSpec::net`]. It ends with this handle and
/// the last command in it.
#[derive(Debug)]
pub struct SharedNetwork {
    net: OwnedFd,
}

/// What is asked of the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperSocketRequest {
    /// Any socket.
    Any,
    /// A listener on the proxy's port.
    ProxyPort,
}

impl SharedNetwork {
    /// Makes one in which nobody listens.
    pub fn create(spawner: &Spawner) -> Result<Self, SpawnError> {
        Ok(create_network(spawner, HelperSocketRequest::Any)?.0)
    }

    /// Makes one with a proxy's port, and gives the listener to whoever answers there.
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
            "the network of its session could not be made: {what}; try again, or let commands \
             reach nothing"
        ),
        gaps: Vec::new(),
    };
    let system = |error: io::Error| refused(&error);
    let bubblewrap = spawner.layers().bubblewrap.map_err(|absent| {
        let gaps = vec![gaps::network_gap(&absent)];
        SpawnError::Refused { why: gaps::describe_gaps(&gaps), gaps }
    })?;
    if !helper_process::can_run_helper() {
        return Err(refused(&"this program does not begin as zero does"));
    }
    let (channel, given) = message::create_channel().map_err(system)?;
    let mut helper = NetworkHelper(start_helper(&bubblewrap, what, given).map_err(system)?);
    let Some(socket) = receive_socket(&channel).map_err(system)? else {
        return Err(refused(&helper.read_error_output()));
    };
    helper.wait();
    let net = socket_namespace(&socket).map_err(system)?;
    if is_same_namespace(&net, "/proc/self/ns/net").map_err(system)? {
        return Err(refused(&"it would be the host's"));
    }
    Ok((SharedNetwork { net }, socket))
}

/// Starts the helper in a network of its own. Nothing else has to be: it is our own program, is
/// given nothing, and ends at once. Without devices of its own there is one level of users, in which
/// a person is the same person as outside.
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
    // Our binary comes as its output, which it does not need: it may have no path any more.
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

/// The socket that the helper hands out; nothing when it ends without.
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

/// The helper while it is needed. None is left behind.
struct NetworkHelper(Child);

impl NetworkHelper {
    /// Waits for its end, which is near.
    fn wait(&mut self) {
        let until = Instant::now() + HELP_MAX;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was said about a failure.
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
        // Both are refused when it has ended and been waited for.
        let ended = self.0.kill().and_then(|()| self.0.wait());
        drop(ended);
    }
}

/// The helper itself: opens a socket and hands it to whoever holds the other end of its input.
/// Gives the code to exit with.
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
            let said = writeln!(io::stderr(), "no socket: {error}");
            drop(said);
            1
        }
    }
}

/// The way into a session's network, for a process that is about to execute bubblewrap.
#[derive(Debug)]
pub(crate) struct NetworkEntryHandles {
    /// The users whose it is, unless we are among them: root can do without users of their own.
    users: Option<OwnedFd>,
    net: OwnedFd,
}

impl NetworkEntryHandles {
    pub(crate) fn new(net: OwnedFd) -> io::Result<Self> {
        let users = namespace_ioctl(&net, NS_GET_USERNS)?;
        let users = (!is_same_namespace(&users, "/proc/self/ns/user")?).then_some(users);
        Ok(Self { users, net })
    }

    /// Goes in. Whoever is not root there holds every capability over the network until the next
    /// program is executed, and root until bubblewrap has made users beneath: none of it is the
    /// command. Makes system calls only.
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

/// Asks for a namespace.
fn namespace_ioctl(of: &OwnedFd, request: libc::Ioctl) -> io::Result<OwnedFd> {
    // SAFETY: neither request has an argument. Both answer with a new handle, closed on exec, that
    // nobody else owns, or with an error.
    match unsafe { libc::ioctl(of.as_raw_fd(), request) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: see above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Whether a namespace is the one that a file of the kernel names.
fn is_same_namespace(namespace: &OwnedFd, name: &str) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(namespace)?, rustix::fs::stat(name)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
