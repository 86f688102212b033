//! The TCP ports on which the processes of a command listen, in networks that are not the host's.
//!
//! The kernel lists the sockets of a network for each process in it, and the sockets of a process
//! among its files. Both are read from outside, so nothing runs in the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use crate::kernel_file;
use crate::process_tree::descendants;
use crate::shared_network::NetworkIdentity;

/// Most ports in one list.
const PORTS_MAX: usize = 1_000;
/// Most open files of all processes that are looked at.
const FILES_MAX: usize = 200_000;
/// The state of a socket that listens, in the kernel's list.
const LISTEN: &str = "0A";

/// A TCP port on which a process listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListeningPort {
    /// The port.
    pub port: u16,
    /// The address that it listens on.
    pub address: IpAddr,
    /// The process, as this machine sees it.
    pub pid: i32,
    /// The name of its program, as the process itself states it.
    pub process: String,
    /// The network that it is in.
    pub network: NetworkIdentity,
}

/// The ports on which a process and those below it listen, in networks other than that of this
/// process. Each port of a process once per address.
pub fn list_listening_ports(root: i32) -> Vec<ListeningPort> {
    let Some(own) = NetworkIdentity::of_process("self") else { return Vec::new() };
    let below = descendants(root, &BTreeSet::new());
    let pids = std::iter::once(root).chain(below.iter().map(|process| process.pid));
    let mut networks: BTreeMap<NetworkIdentity, BTreeMap<u64, (IpAddr, u16)>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut files = 0;
    for pid in pids {
        let network = NetworkIdentity::of_process(&pid.to_string());
        let Some(network) = network.filter(|network| *network != own) else { continue };
        let sockets = networks.entry(network).or_insert_with(|| read_sockets(pid));
        if sockets.is_empty() {
            continue;
        }
        let folder = format!("/proc/{pid}/fd");
        let mut seen = BTreeSet::new();
        for name in kernel_file::list_names(Path::new(&folder)).unwrap_or_default() {
            files += 1;
            if files > FILES_MAX || found.len() >= PORTS_MAX {
                return found;
            }
            let inode = read_socket_inode(&format!("{folder}/{name}"));
            let Some((address, port)) = inode.and_then(|inode| sockets.get(&inode)) else {
                continue;
            };
            if seen.insert((*address, *port)) {
                found.push(ListeningPort {
                    port: *port,
                    address: *address,
                    pid,
                    process: read_name(pid),
                    network,
                });
            }
        }
    }
    found
}

/// The sockets that listen in the network of a process, by their inodes.
fn read_sockets(pid: i32) -> BTreeMap<u64, (IpAddr, u16)> {
    let mut sockets = BTreeMap::new();
    for file in ["tcp", "tcp6"] {
        let path = format!("/proc/{pid}/net/{file}");
        let text = kernel_file::read(Path::new(&path)).unwrap_or_default();
        sockets.extend(text.lines().filter_map(parse_socket));
    }
    sockets
}

/// Parses a line of `/proc/net/tcp` if its socket listens.
fn parse_socket(line: &str) -> Option<(u64, (IpAddr, u16))> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    if *state != LISTEN {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Groups of 32 bits in the byte order of this machine.
    let group = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(group(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&group(at)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some((inode.parse().ok()?, (address, port)))
}

/// The inode of a socket among the files of a process.
fn read_socket_inode(path: &str) -> Option<u64> {
    let target = rustix::fs::readlink(path, Vec::new()).ok()?;
    target.to_str().ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn read_name(pid: i32) -> String {
    let path = format!("/proc/{pid}/comm");
    kernel_file::read(Path::new(&path)).unwrap_or_default().trim_end().to_owned()
}

impl NetworkIdentity {
    /// The network of a process.
    fn of_process(pid: &str) -> Option<Self> {
        let facts = rustix::fs::stat(format!("/proc/{pid}/ns/net")).ok()?;
        Some(Self::from_stat(&facts))
    }

    /// Opens the network of a process, if it is this one.
    pub(crate) fn open(self, pid: i32) -> std::io::Result<std::os::fd::OwnedFd> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(format!("/proc/{pid}/ns/net"), flags, Mode::empty())?;
        match Self::from_stat(&rustix::fs::fstat(&opened)?) == self {
            true => Ok(opened),
            // The process has ended, and its number belongs to another.
            false => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_are_parsed() {
        let check = |line: &str, expected: Option<(u64, &str, u16)>| {
            let expected = expected
                .map(|(inode, address, port)| (inode, (address.parse::<IpAddr>().unwrap(), port)));
            assert_eq!(parse_socket(line), expected, "{line}");
        };
        let rest = "00000000:00000000 00:00000000 00000000  1000        0";
        let address = u32::from_ne_bytes([127, 0, 0, 1]);
        check(
            &format!("   0: {address:08X}:1435 00000000:0000 0A {rest} 815 1 0 100 0"),
            Some((815, "127.0.0.1", 5173)),
        );
        check(&format!("   0: {address:08X}:1435 {address:08X}:A000 01 {rest} 816 1"), None);
        let last = u32::from_ne_bytes([0, 0, 0, 1]);
        let remote = "00000000000000000000000000000000:0000";
        check(
            &format!("   1: 000000000000000000000000{last:08X}:0050 {remote} 0A {rest} 9 1"),
            Some((9, "::1", 80)),
        );
        check("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when", None);
        check("", None);
    }

    #[test]
    fn host_network_is_not_listed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(list_listening_ports(own).is_empty());
        let sockets = read_sockets(own);
        let port = listener.local_addr().unwrap().port();
        assert!(sockets.values().any(|(_, listening)| *listening == port));
    }
}
