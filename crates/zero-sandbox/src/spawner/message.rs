//! What zero, the warden and the keepers say to each other.
//!
//! Messages are packets of JSON on sockets that keep their borders, with descriptors attached. An
//! order can be larger than a packet: its text travels as a file in memory, so that no reader ever
//! waits for the rest of a message.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{LayerSelection, LimitEnforcerChoice};
use crate::confinement::{ConfinementGap, residue};
use crate::profile::{CommandSpec, SandboxProfile, wire};
use crate::running_command::{
    CommandExit, ConfinementReport, KillReason, LimitsReport, SandboxReuse,
};

/// Bytes of a packet.
const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an order: more than what the kernel takes of arguments and environment needs here.
const ORDER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Descriptors of a message: those of what a command could leave behind, and the list of its mounts.
/// An order has fewer: itself, its channel, three streams, and a network.
const FDS_MAX: usize = residue::HANDLE_COUNT + 1;

/// An order as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpawnSpecMessage {
    pub(super) command: CommandSpec,
    pub(super) profile: SandboxProfile,
    pub(super) timeout: Option<Duration>,
    pub(super) limits_by: LimitEnforcerChoice,
    pub(super) layers: LayerSelection,
    /// How long walls like its own stand ready for the next one.
    pub(super) ready_for: Duration,
    /// Whether the last descriptor is the network to start in.
    pub(super) joins: bool,
    /// What something empty stood in for, as its keeper noted once it ran.
    #[serde(with = "wire::paths")]
    pub(super) stood_in: Vec<PathBuf>,
}

/// What zero wants of the warden.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SpawnerRequest {
    /// A command: its order comes along. Those that want the same walls are like each other.
    Command { like: u64 },
    /// The same, though the next one will be another: none is put up walls for.
    Single { like: u64 },
    /// That no walls stand ready. A handle comes along, which is closed when none do.
    Rest,
}

/// What the warden wants of a keeper that has no command yet.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerTask {
    /// Walls like those of the last command, whose order comes along, for the next one.
    PutUp,
    /// No such walls any more. A handle comes along, which is closed when they are gone.
    TakeDown,
    /// To keep a command: its order comes along.
    Keep,
}

/// What a keeper that waits for a command says to the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerEvent {
    /// Behind walls that stand.
    WithWalls,
    /// With none.
    Bare,
    /// With none, and a new keeper would be as good.
    Useless,
}

/// What a keeper says of its command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnerReply {
    /// It has the order, and is about to start it. Who never hears this knows that nobody did.
    Taken,
    /// Its program runs.
    Started { pid: i32, limits: LimitsReport, confinement: ConfinementReport, walls: SandboxReuse },
    /// It does not, and nothing is left of it.
    Failed(LaunchFailure),
    /// It has ended, and nothing is left of it.
    Ended(CommandExit),
}

/// What is asked of a keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopRequest {
    /// To end everything at once.
    Kill { reason: KillReason },
    /// To ask the command itself to end.
    Terminate,
}

/// Why a program does not run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchFailure {
    pub(crate) step: LaunchStep,
    /// The system's error number, where there is one.
    pub(crate) errno: Option<i32>,
    pub(crate) text: String,
    /// What of the profile cannot be enforced here.
    pub(crate) gaps: Vec<ConfinementGap>,
}

/// On the way to a running program, what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub(crate) enum LaunchStep {
    /// Reading the order.
    Order,
    /// Preparing or applying the confinement.
    Confine,
    /// A new process.
    Fork,
    /// Going into the control groups.
    Cgroup,
    /// Streams and terminal.
    Stdio,
    /// Going to the folder.
    Folder,
    /// Going into the session's network.
    Network,
    /// Finding the program, where the command is.
    Find,
    /// The program itself.
    Execute,
}

impl LaunchStep {
    /// The step a byte stands for, as a forked child writes it.
    pub(crate) fn from_byte(byte: u8) -> Self {
        let steps = [Self::Order, Self::Confine, Self::Fork, Self::Cgroup, Self::Stdio];
        let mut steps = steps.into_iter().chain([Self::Folder, Self::Network, Self::Find]);
        steps.find(|step| *step as u8 == byte).unwrap_or(Self::Execute)
    }
}

/// Two ends of a new channel.
pub(crate) fn create_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with descriptors; the kernel copies those.
pub(crate) fn send<M: Serialize>(
    channel: impl AsFd,
    message: &M,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !attached.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let parts = [io::IoSlice::new(&bytes)];
    loop {
        match rustix::net::sendmsg(&channel, &parts, &mut attached, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The next message and its descriptors, waiting for it; nothing when the other side is closed.
pub(crate) fn receive<M: DeserializeOwned>(
    channel: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    receive_with(channel, RecvFlags::empty())
}

/// The next message if there is one, [`io::ErrorKind::WouldBlock`] otherwise; nothing when the
/// other side is closed.
pub(crate) fn try_receive<M: DeserializeOwned>(channel: impl AsFd) -> io::Result<Option<M>> {
    Ok(receive_with(channel, RecvFlags::DONTWAIT)?.map(|(message, _)| message))
}

fn receive_with<M: DeserializeOwned>(
    channel: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    // First how much there is: packets are small as a rule, and room for the largest takes time.
    let size = loop {
        let look = flags | RecvFlags::PEEK | RecvFlags::TRUNC;
        match rustix::net::recv(&channel, &mut [0_u8; 0][..], look) {
            Ok((_, 0)) => return Ok(None),
            Ok((_, size)) => break size,
            Err(rustix::io::Errno::INTR) => {}
            // The other side went away with something of ours unread. That is said once, and what
            // it had sent before can be received after it.
            Err(rustix::io::Errno::CONNRESET) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    if size > PACKET_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut bytes = vec![0; size];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(&channel, &mut parts, &mut attached, flags) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    let mut fds = Vec::new();
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    match bytes.get(..received.bytes) {
        None | Some([]) => Ok(None),
        Some(packet) => Ok(Some((serde_json::from_slice(packet)?, fds))),
    }
}

impl SpawnSpecMessage {
    /// Puts the order into a file in memory.
    pub(super) fn to_memfd(&self) -> io::Result<OwnedFd> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() as u64 > ORDER_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let file = rustix::fs::memfd_create("zero-order", MemfdFlags::CLOEXEC)?;
        let file = std::fs::File::from(file);
        file.write_all_at(&bytes, 0)?;
        Ok(file.into())
    }

    /// Puts the order as it is now into its file. Who reads meanwhile may find no order there.
    pub(super) fn update_memfd(&self, file: &OwnedFd) -> io::Result<()> {
        let file = std::fs::File::from(file.try_clone()?);
        let bytes = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)
    }

    /// Reads an order out of a file in memory.
    pub(super) fn from_memfd(file: &OwnedFd) -> io::Result<Self> {
        let file = std::fs::File::from(file.try_clone()?);
        let size = file.metadata()?.len();
        if size > ORDER_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}
