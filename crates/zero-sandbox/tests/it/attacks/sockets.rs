//! What a command without a network could connect to.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{OTHER, UNCLAIMED, check, check_allowed};
use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, is_root};
use zero_sandbox::SandboxProfile;

#[test]
fn no_network_peer_is_reachable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = format!("tcp {}", port.local_addr().unwrap());
    let udp = format!("udp {}", port.local_addr().unwrap());
    check(&[
        (&tcp, "ok", "EPERM", "EPERM"),
        (&udp, "ok", "EPERM", "EPERM"),
        ("tcp [::1]:1", OTHER, "EPERM", "EPERM"),
        ("own-loopback", "ok", "EPERM", "EPERM"),
        // Of all families, only Unix sockets in its own namespace.
        ("families", OTHER, "1", "none"),
    ]);
}

#[test]
fn host_services_are_unreachable() {
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

/// A folder of the host's `/tmp` is visible, read-only, to a command that starts in it.
#[test]
fn services_in_read_only_folder_are_unreachable() {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let folder = tempfile::Builder::new().prefix("zero-lab-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("file"), "text").unwrap();
        let path = folder.path().join("door");
        let _door = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        let profile = SandboxProfile { writable: Vec::new(), ..lab.profile(SandboxSetup::Full) };
        let door = path.to_str().unwrap();
        let answer = lab.attempt_in(folder.path(), &profile, &["unix", door]);
        assert_eq!(answer, "EACCES", "{who:?}");
        assert_eq!(lab.attempt(SandboxSetup::Bare, &["unix", door]), "ok", "{who:?}");
        let read = path.with_file_name("file");
        let answer = lab.attempt_in(folder.path(), &profile, &["read", read.to_str().unwrap()]);
        assert_eq!(answer, "ok", "{who:?}");
    }
}

/// Like a program that first changes to its folder. The kernel lists the name as it was given.
#[test]
fn service_bound_by_relative_name_is_unreachable() {
    for who in Attacker::available() {
        for (setup, expected) in [
            (SandboxSetup::Bare, "ok"),
            (SandboxSetup::Full, "EACCES"),
            (SandboxSetup::Direct, "EPERM"),
        ] {
            let lab = AttackLab::new(*who);
            for folder in ["outside", "ws"] {
                let mut service = start_service_in(&lab.path(folder), *who);
                let answer = lab.attempt(setup, &["unix", &format!("$/{folder}/relative")]);
                service.kill().unwrap();
                service.wait().unwrap();
                assert_eq!(answer, expected, "{folder} by {who:?} under {setup:?}");
            }
        }
    }
}

/// A process that listens in a folder by a relative name.
fn start_service_in(folder: &Path, who: Attacker) -> Child {
    const SCRIPT: &str = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
        bind(S, sockaddr_un('relative')) or die; chmod 0777, 'relative'; listen(S, 9) or die; \
        $| = 1; print \"listening\\n\"; sleep 600";
    let mut perl = match who {
        Attacker::Me => Command::new("perl"),
        Attacker::Nobody => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "perl"]);
            command
        }
    };
    perl.args(["-e", SCRIPT]).current_dir(folder).stdout(Stdio::piped());
    let mut service = perl.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    service
}

/// Where container engines and desktop buses listen. A user other than root has an own folder
/// there, or can create no socket, and sees that the folder is empty.
#[test]
fn services_in_run_are_unreachable() {
    let lab = AttackLab::new(Attacker::Me);
    assert_eq!(lab.run_shell(&lab.profile(SandboxSetup::Full), "find /run -type s"), "");
    let bind =
        |folder: &str| tempfile::Builder::new().make_in(folder, |path| UnixListener::bind(path));
    let user = rustix::process::geteuid().as_raw();
    let door = match bind("/run").or_else(|_| bind(&format!("/run/user/{user}"))) {
        Ok(door) => door,
        Err(error) => return assert!(!is_root(), "{error}"),
    };
    for (setup, expected) in [
        (SandboxSetup::Bare, "ok"),
        (SandboxSetup::Full, "ENOENT"),
        (SandboxSetup::Direct, "EPERM"),
    ] {
        let answer =
            AttackLab::new(Attacker::Me).attempt(setup, &["unix", door.path().to_str().unwrap()]);
        assert_eq!(answer, expected, "under {setup:?}");
    }
}
