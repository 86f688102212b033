//! Whom a command without a network could reach.

use std::os::unix::net::UnixListener;

use super::{OTHER, UNCLAIMED, check, check_allowed};
use crate::lab::{Lab, Walls, Who, is_root};

#[test]
fn nobody_is_reached() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = format!("tcp {}", port.local_addr().unwrap());
    let udp = format!("udp {}", port.local_addr().unwrap());
    check(&[
        (&tcp, "ok", "EPERM", "EPERM"),
        (&udp, "ok", "EPERM", "EPERM"),
        ("tcp [::1]:1", OTHER, "EPERM", "EPERM"),
        ("own-loopback", "ok", "EPERM", "EPERM"),
        // Of all families, only files of its own namespace.
        ("families", OTHER, "1", "none"),
    ]);
}

#[test]
fn services_of_the_host_are_not_reached() {
    check(&[
        ("unix $/door", "ok", "EACCES", "EPERM"),
        ("unix $/ws/door", "ok", "EACCES", "EPERM"),
        ("unix /proc/self/root$/door", "ok", "EACCES", "EPERM"),
        ("unix ^", "ok", "ENOENT", "EPERM"),
        ("abstract $", "ok", "ECONNREFUSED", "EPERM"),
        ("datagram $/log", "ok", "EACCES", "EPERM"),
        ("datagram-from-pair $/log", "ok", "EACCES", "EPERM"),
        ("abstract-datagram-from-pair $-log", "ok", "ECONNREFUSED", "EPERM"),
    ]);
    check_allowed(&[("pair", "ok", "ok", "ok"), ("own-unix $/ws/s", "ok", "ok", UNCLAIMED)]);
}

/// Where engines of containers and buses of the desktop listen. Only root can, so only root tests it.
#[test]
fn services_in_run_are_not_reached() {
    if !is_root() {
        return;
    }
    let door = tempfile::Builder::new().make_in("/run", |path| UnixListener::bind(path)).unwrap();
    for (walls, expected) in
        [(Walls::Bare, "ok"), (Walls::Full, "ENOENT"), (Walls::Direct, "EPERM")]
    {
        let answer = Lab::new(Who::Me).attempt(walls, &["unix", door.path().to_str().unwrap()]);
        assert_eq!(answer, expected, "behind {walls:?}");
    }
}
