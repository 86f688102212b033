//! Messages between zero, its spawner process and the supervisors, and how they are sent.
//!
//! Messages are JSON packets on sockets that preserve message boundaries, with descriptors
//! attached. The spec of a command ([`SpawnSpecMessage`]) can be larger than a packet, so it is
//! passed as a file in memory. A reader therefore never waits for the rest of a message.

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

/// Largest packet, in bytes.
const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Largest spawn spec, in bytes: more than the largest arguments and environment that the kernel
/// accepts.
const ORDER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Most descriptors of a message: those of [`residue`] and the list of mounts. A spawn request has
/// fewer: its spec, its channel, three streams, a capture and a network.
const FDS_MAX: usize = residue::HANDLE_COUNT + 1;

/// A [`SpawnSpec`](super::SpawnSpec) as it is sent to the spawner process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpawnSpecMessage {
    pub(super) command: CommandSpec,
    pub(super) profile: SandboxProfile,
    pub(super) timeout: Option<Duration>,
    pub(super) limits_by: LimitEnforcerChoice,
    pub(super) layers: LayerSelection,
    /// How long the sandbox is kept ready for the next command of its kind.
    pub(super) ready_for: Duration,
    /// Whether the last descriptor is the network namespace to start in.
    pub(super) joins: bool,
    /// Whether the descriptor behind the streams is the channel for the listener of its changes.
    #[serde(default)]
    pub(super) captures: bool,
    /// Paths that a placeholder was created for. The supervisor adds them once the command runs.
    #[serde(with = "wire::paths")]
    pub(super) stood_in: Vec<PathBuf>,
}

/// A request of zero to the spawner process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SpawnerRequest {
    /// Start a command; its spec is attached. Commands with equal `like` need the same sandbox. If
    /// it `joins` a network, the last descriptor is the network.
    Command { like: u64, joins: bool },
    /// The same, but do not prewarm a sandbox for the next command of this kind.
    Single { like: u64 },
    /// Remove all prewarmed sandboxes. An attached handle is closed once they are gone.
    Discard,
}

/// A task of the spawner process for a worker without a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerTask {
    /// Prewarm a sandbox like that of the last command, whose spec is attached, and its network if
    /// it joined one.
    Prewarm,
    /// Remove the prewarmed sandbox. An attached handle is closed once it is gone.
    Discard,
    /// Start and supervise a command, whose spec is attached.
    Run,
}

/// What a worker without a command reports to the spawner process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerEvent {
    /// It has a prewarmed sandbox.
    Prewarmed,
    /// It has none.
    Idle,
    /// It has none, and a new worker would be as fast.
    Useless,
}

/// What a supervisor reports about its command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpawnerReply {
    /// It has received the spec and is about to start the command. Until this message, the caller
    /// knows that nothing was started.
    Taken,
    /// The program runs.
    Started {
        pid: i32,
        limits: LimitsReport,
        confinement: ConfinementReport,
        sandbox_reuse: SandboxReuse,
    },
    /// The program does not run, and none of its processes is left.
    Failed(LaunchFailure),
    /// The command has ended, and none of its processes is left.
    Ended(CommandExit),
}

/// A request to a supervisor to end its command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopRequest {
    /// Kill all processes of the command at once.
    Kill { reason: KillReason },
    /// Send SIGTERM to the command.
    Terminate,
}

/// Why a program was not started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchFailure {
    pub(crate) step: LaunchStep,
    /// The error number of the system, if there is one.
    pub(crate) errno: Option<i32>,
    pub(crate) text: String,
    /// The properties of the profile that cannot be enforced here.
    pub(crate) gaps: Vec<ConfinementGap>,
}

/// The step of starting a command that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub(crate) enum LaunchStep {
    /// Reading the spec.
    Order,
    /// Preparing or applying the confinement.
    Confine,
    /// Creating a process.
    Fork,
    /// Joining the control groups.
    Cgroup,
    /// Connecting streams and terminal.
    Stdio,
    /// Changing to the folder.
    Folder,
    /// Joining the session's network.
    Network,
    /// Finding the program inside the sandbox.
    Find,
    /// Executing the program.
    Execute,
}

impl LaunchStep {
    /// The step for a byte that a forked child wrote.
    pub(crate) fn from_byte(byte: u8) -> Self {
        let steps = [Self::Order, Self::Confine, Self::Fork, Self::Cgroup, Self::Stdio];
        let mut steps = steps.into_iter().chain([Self::Folder, Self::Network, Self::Find]);
        steps.find(|step| *step as u8 == byte).unwrap_or(Self::Execute)
    }
}

/// Creates a channel and returns its two ends.
pub(crate) fn create_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with descriptors, which the kernel duplicates for the receiver.
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

/// Waits for the next message and its descriptors. Returns `None` when the other side is closed.
pub(crate) fn receive<M: DeserializeOwned>(
    channel: impl AsFd,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    receive_with(channel, RecvFlags::empty())
}

/// Returns the next message, or [`io::ErrorKind::WouldBlock`] if there is none yet. Returns `None`
/// when the other side is closed.
pub(crate) fn try_receive<M: DeserializeOwned>(channel: impl AsFd) -> io::Result<Option<M>> {
    Ok(receive_with(channel, RecvFlags::DONTWAIT)?.map(|(message, _)| message))
}

fn receive_with<M: DeserializeOwned>(
    channel: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    match receive_packet(channel, flags)? {
        Some((packet, fds)) => Ok(Some((serde_json::from_slice(&packet)?, fds))),
        None => Ok(None),
    }
}

/// Waits for the next packet and its descriptors. Returns `None` when the other side is closed.
pub(crate) fn receive_packet(
    channel: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    // Peek at the size first: packets are usually small, and a buffer for the largest takes time to
    // allocate.
    let size = loop {
        let look = flags | RecvFlags::PEEK | RecvFlags::TRUNC;
        match rustix::net::recv(&channel, &mut [0_u8; 0][..], look) {
            Ok((_, 0)) => return Ok(None),
            Ok((_, size)) => break size,
            Err(rustix::io::Errno::INTR) => {}
            // The other side closed its end with unread data of ours. The kernel reports that once;
            // what the other side had sent before can still be received.
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
    bytes.truncate(received.bytes);
    Ok((!bytes.is_empty()).then_some((bytes, fds)))
}

impl SpawnSpecMessage {
    /// Writes the spec to a file in memory.
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

    /// Replaces the spec in its file. A concurrent reader may find an incomplete one.
    pub(super) fn update_memfd(&self, file: &OwnedFd) -> io::Result<()> {
        let file = std::fs::File::from(file.try_clone()?);
        let bytes = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)
    }

    /// Reads a spec from a file in memory.
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
