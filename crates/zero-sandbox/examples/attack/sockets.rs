//! Attacks over sockets.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Socket families that a kernel may know.
const FAMILIES: std::ops::Range<i32> = 1..46;

/// The result of an attempt of this module; `None` for other attempts.
pub(crate) fn attempt(name: &str, args: &[&str]) -> Option<io::Result<String>> {
    let ok = |_| "ok".to_owned();
    Some(match (name, args) {
        ("families", []) => Ok(list_socket_families()),
        ("datagram", [path]) => {
            UnixDatagram::unbound().and_then(|socket| socket.send_to(b"x", path)).map(ok)
        }
        // One end of a pair is a socket like any other.
        ("datagram-from-pair", [path]) => {
            UnixDatagram::pair().and_then(|(socket, _)| socket.send_to(b"x", path)).map(ok)
        }
        ("abstract-datagram-from-pair", [name]) => UnixDatagram::pair()
            .and_then(|(socket, _)| {
                socket.send_to_addr(b"x", &SocketAddr::from_abstract_name(name)?)
            })
            .map(ok),
        _ => return None,
    })
}

/// The families that have a socket of any type, by number.
fn list_socket_families() -> String {
    let opens = |family: &i32| {
        [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET]
            .iter()
            .any(|kind| unsafe { libc::socket(*family, *kind, 0) } >= 0)
    };
    let open: Vec<String> = FAMILIES.filter(opens).map(|family| family.to_string()).collect();
    if open.is_empty() { "none".to_owned() } else { open.join(",") }
}
