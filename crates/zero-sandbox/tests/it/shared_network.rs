//! Networks that only the commands of a session share.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

use rustix::process::Signal;
use zero_sandbox::running_command::{RunningCommand, SandboxReuse};
use zero_sandbox::shared_network::{PROXY_PORT, SharedNetwork};
use zero_sandbox::spawner::{
    CommandStdio, LayerSelection, SpawnError, SpawnSpec, Spawner, SpawnerSettings,
};
use zero_sandbox::{NetworkAccess, SandboxProperty};

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, find_attack_program, is_root};
use crate::command_fixture::{
    GONE_MAX, LONG, count_fds, find_marked, kill, list_children, parent_pid, program_spec,
    read_text, run, start_spawner, unique_marker, wait_for_exit, wait_for_marked, wait_until,
};
use crate::spawner_client;

const SERVER: &str = "127.0.0.1:8123";

/// An attack that runs in a network.
fn attack_spec(net: Option<&Arc<SharedNetwork>>, words: &[&str]) -> SpawnSpec {
    let words: Vec<&str> = std::iter::once("try").chain(words.iter().copied()).collect();
    let attack = find_attack_program();
    let mut order = program_spec(attack.to_str().unwrap(), &words);
    // Files in `/tmp` are visible only if the profile names them.
    order.profile.writable.push(attack.parent().unwrap().to_owned());
    order.profile.network = NetworkAccess::Loopback;
    order.net = net.cloned();
    order
}

#[track_caller]
fn check(spawner: &Spawner, net: Option<&Arc<SharedNetwork>>, words: &[&str], expected: &str) {
    let (output, _) = run(spawner, attack_spec(net, words));
    assert_eq!(output.trim(), expected, "{words:?}");
}

/// Starts a server in a network and waits until it answers.
fn start_server(spawner: &Spawner, net: &Arc<SharedNetwork>) -> RunningCommand {
    let mut server = spawner.spawn(attack_spec(Some(net), &["serve", SERVER])).unwrap();
    let mut line = String::new();
    BufReader::new(File::from(server.stdout.take().unwrap())).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    server
}

fn create_network(spawner: &Spawner) -> Arc<SharedNetwork> {
    Arc::new(SharedNetwork::create(spawner).unwrap())
}

/// The inode number of a network, which the kernel shows in names like `net:[4026531840]`.
fn namespace_inode(net: &SharedNetwork) -> u64 {
    rustix::fs::fstat(net.as_fd()).unwrap().st_ino
}

#[test]
fn commands_of_one_session_reach_each_other() {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let answer =
            lab.attempt_with_server(SandboxSetup::Full, &["serve", SERVER], &["tcp-says", SERVER]);
        assert_eq!(answer, "hello yourself", "{who:?}");
        let six = "[::1]:8123";
        let answer =
            lab.attempt_with_server(SandboxSetup::Full, &["serve", six], &["tcp-says", six]);
        assert_eq!(answer, "hello yourself", "{who:?}");
    }
}

#[test]
fn sessions_do_not_reach_each_other() {
    let spawner = start_spawner();
    let (one, other) = (create_network(&spawner), create_network(&spawner));
    let _server = start_server(&spawner, &one);
    check(&spawner, Some(&one), &["tcp-says", SERVER], "hello yourself");
    check(&spawner, Some(&other), &["tcp-says", SERVER], "ECONNREFUSED");
    check(&spawner, None, &["tcp-says", SERVER], "ECONNREFUSED");
    // The host cannot reach into it either.
    let address: SocketAddr = SERVER.parse().unwrap();
    let refused = std::net::TcpStream::connect_timeout(&address, LONG);
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    // Both can have a server with the same address.
    let _server = start_server(&spawner, &other);
    check(&spawner, Some(&other), &["tcp-says", SERVER], "hello yourself");
}

#[test]
fn nothing_outside_shared_network_is_reachable() {
    let host = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("[::1]:0")];
    let host: Vec<String> =
        host.iter().flatten().map(|port| port.local_addr().unwrap().to_string()).collect();
    let spawner = start_spawner();
    let net = create_network(&spawner);
    for address in &host {
        check(&spawner, Some(&net), &["tcp", address], "ECONNREFUSED");
    }
    for outside in ["10.0.0.1:80", "8.8.8.8:53", "169.254.169.254:80", "[2001:db8::1]:80"] {
        check(&spawner, Some(&net), &["tcp", outside], "ENETUNREACH");
    }
    check(&spawner, Some(&net), &["udp", "8.8.8.8:53"], "ENETUNREACH");
}

/// A sandbox is reused in the network of its session, and never in another one.
#[test]
fn sandbox_is_reused_only_in_same_network() {
    let spawner = start_spawner();
    let (one, other) = (create_network(&spawner), create_network(&spawner));
    let show = |net: &Arc<SharedNetwork>| {
        let mut order = program_spec("readlink", &["/proc/self/ns/net"]);
        order.profile.network = NetworkAccess::Loopback;
        order.net = Some(Arc::clone(net));
        let mut running = spawner.spawn(order).unwrap();
        let output = read_text(running.stdout.take().unwrap());
        wait_for_exit(&running);
        assert_eq!(output.trim(), format!("net:[{}]", namespace_inode(net)));
        running.sandbox_reuse
    };
    // Other tests create sockets, which make a new sandbox necessary.
    let is_reused = (0..20).any(|_| {
        show(&one);
        show(&one) == SandboxReuse::Prewarmed
    });
    assert!(is_reused, "no sandbox was reused");
    assert_eq!(show(&other), SandboxReuse::New);
}

#[test]
fn command_without_network_does_not_join() {
    let spawner = start_spawner();
    let net = create_network(&spawner);
    let _server = start_server(&spawner, &net);
    let mut order = attack_spec(Some(&net), &["tcp", SERVER]);
    order.profile.network = NetworkAccess::Nothing;
    assert_eq!(run(&spawner, order).0.trim(), "EPERM");
}

#[test]
fn shared_network_cannot_be_reconfigured() {
    let packet = libc::AF_PACKET.to_string();
    let rows: &[(&[&str], &str)] = &[
        (&["lo-flags"], "EPERM"),
        (&["lo-address"], "EPERM"),
        (&["lo-mtu"], "EPERM"),
        (&["raw-icmp"], "EPERM"),
        (&["socket", &packet, "3"], "EPERM"),
        (&["call", "setns"], "EPERM"),
        (&["unshare", "user"], "EPERM"),
        (&["capabilities"], "none1"),
        (&["handles"], "0,1,2"),
        (&["bind", "127.0.0.1:80"], "EACCES"),
        (&["own-loopback"], "ok"),
    ];
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        for (words, expected) in rows {
            let answer = lab.attempt_with_server(SandboxSetup::Full, &["serve", SERVER], words);
            assert_eq!(answer, *expected, "{words:?} by {who:?}");
        }
        // Only opened, never written to.
        let words = ["append", "/proc/sys/net/ipv4/ip_forward"];
        let expected = if *who == Attacker::Me && is_root() { "EROFS" } else { "EACCES" };
        assert_eq!(
            lab.attempt_with_server(SandboxSetup::Full, &["serve", SERVER], &words),
            expected
        );
    }
    // The owner of a network can do this: nothing else prevents it. Every user owns a network
    // namespace that they create.
    for word in ["raw-icmp", "lo-mtu", "lo-address", "lo-flags"] {
        // bubblewrap, because some machines let only selected programs create a namespace.
        let mut bubblewrap = std::process::Command::new("bwrap");
        let users: &[&str] = if is_for_root_only() { &[] } else { &["--unshare-user"] };
        bubblewrap.args(users).args(["--unshare-net", "--cap-add", "ALL", "--dev-bind", "/", "/"]);
        let output = bubblewrap.arg(find_attack_program()).args(["try", word]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{word} {output:?}");
    }
}

/// Whether bubblewrap works without user namespaces, and so for root only.
fn is_for_root_only() -> bool {
    zero_sandbox::SandboxLayers::probe().report().remove(0).why.contains("for root only")
}

#[test]
fn user_namespace_is_child_of_network_owner() {
    let spawner = start_spawner();
    let net = create_network(&spawner);
    let mut order = program_spec("sleep", &["600"]);
    order.profile.network = NetworkAccess::Loopback;
    order.net = Some(Arc::clone(&net));
    let running = spawner.spawn(order).unwrap();
    let inside: i32 = wait_for_child(running.pid).parse().unwrap();
    let seen = |kind: &str| File::open(format!("/proc/{inside}/ns/{kind}")).unwrap();
    let ino = |fd: &File| rustix::fs::fstat(fd).unwrap().st_ino;
    assert_eq!(ino(&seen("net")), namespace_inode(&net));
    let owner = open_related_namespace(net.as_fd().as_raw_fd(), NS_GET_USERNS);
    let mut users = seen("user");
    if is_for_root_only() {
        let ours = ino(&File::open("/proc/self/ns/user").unwrap());
        assert_eq!((ino(&users), ino(&owner)), (ours, ours), "there is only one");
        return;
    }
    // From the command's user namespace up to the one that owns the network.
    assert_ne!(ino(&users), ino(&owner));
    for _ in 0..3 {
        users = open_related_namespace(users.as_raw_fd(), NS_GET_PARENT);
        if ino(&users) == ino(&owner) {
            return;
        }
    }
    panic!("no user namespace above owns the network");
}

const NS_GET_USERNS: libc::Ioctl = 0xb701;
const NS_GET_PARENT: libc::Ioctl = 0xb702;

#[expect(unsafe_code, reason = "the kernel is asked about a namespace")]
fn open_related_namespace(fd: i32, request: libc::Ioctl) -> File {
    // SAFETY: the request has no argument and returns a new descriptor.
    let fd = unsafe { libc::ioctl(fd, request) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it has no other owner.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

#[track_caller]
fn wait_for_child(pid: i32) -> String {
    let pid = u32::try_from(pid).unwrap();
    wait_until(LONG, || !list_children(pid).is_empty(), || format!("{pid} has no children"));
    list_children(pid).remove(0)
}

#[test]
fn proxy_port_is_answered_only_from_outside() {
    let spawner = start_spawner();
    let (net, port) = SharedNetwork::create_with_proxy(&spawner).unwrap();
    let net = Arc::new(net);
    let address = format!("127.0.0.1:{PROXY_PORT}");
    let proxy = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut connection, _) = port.accept().unwrap();
            let mut request = String::new();
            connection.read_to_string(&mut request).unwrap();
            connection.write_all(format!("{request} outside").as_bytes()).unwrap();
        }
        port
    });
    for _ in 0..2 {
        check(&spawner, Some(&net), &["tcp-says", &address], "hello outside");
    }
    // No command can take its place.
    for taken in [&address, "0.0.0.0:3128"] {
        check(&spawner, Some(&net), &["bind", taken], "EADDRINUSE");
    }
    // Without a process that serves it, the port is closed.
    drop(proxy.join().unwrap());
    check(&spawner, Some(&net), &["tcp", &address], "ECONNREFUSED");
}

#[test]
fn terminal_command_can_join_network() {
    let spawner = start_spawner();
    let net = create_network(&spawner);
    let _server = start_server(&spawner, &net);
    let mut order = attack_spec(Some(&net), &["tcp-says", SERVER]);
    order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    let mut running = spawner.spawn(order).unwrap();
    assert_eq!(read_text(running.stdout.take().unwrap()).trim(), "hello yourself");
    assert_eq!(wait_for_exit(&running).exit_code, Some(0));
}

#[test]
fn abstract_sockets_are_private_with_landlock_scope() {
    let server = ["serve-abstract", "zero-test"];
    let attempt = ["abstract", "zero-test"];
    let lab = AttackLab::new(Attacker::Me);
    assert_eq!(lab.attempt_with_server(SandboxSetup::Full, &server, &attempt), "EPERM");
    assert_eq!(lab.attempt_with_server(SandboxSetup::Mounts, &server, &attempt), "ok");
    // The host's are never reachable.
    assert_eq!(
        lab.attempt_with_server(SandboxSetup::Mounts, &server, &["abstract", "$"]),
        "ECONNREFUSED"
    );
}

#[test]
fn without_bubblewrap_network_is_refused_and_gap_says_why() {
    let settings =
        SpawnerSettings { layers: LayerSelection::WithoutBubblewrap, ..SpawnerSettings::default() };
    let direct = Spawner::start_with_settings(settings).unwrap();
    let Err(SpawnError::Refused { why, gaps }) = SharedNetwork::create(&direct) else { panic!() };
    let properties: Vec<SandboxProperty> = gaps.iter().map(|gap| gap.property).collect();
    assert_eq!(properties, [SandboxProperty::Network]);
    assert!(why.contains("whatever the host can"), "{why}");
    assert!(why.contains("to fix it: allow bubblewrap in the settings"), "{why}");

    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = host.local_addr().unwrap().to_string();
    // Also for a network that was created with bubblewrap enabled.
    for net in [None, Some(create_network(&start_spawner()))] {
        let mut order = attack_spec(net.as_ref(), &["tcp", &host]);
        let Err(SpawnError::Refused { gaps, .. }) = direct.spawn(order.clone()) else { panic!() };
        assert!(gaps.iter().any(|gap| gap.property == SandboxProperty::Network), "{gaps:?}");
        order.profile.weaknesses.push(SandboxProperty::Network);
        let mut running = direct.spawn(order).unwrap();
        let missing = &running.confinement.missing;
        let gap = missing.iter().find(|gap| gap.property == SandboxProperty::Network).unwrap();
        assert!(gap.why.contains("whatever the host can"), "{gap:?}");
        assert_eq!(read_text(running.stdout.take().unwrap()).trim(), "ok");
    }
}

#[test]
fn shared_network_outlives_spawner() {
    let spawner = start_spawner();
    let net = create_network(&spawner);
    let server = start_server(&spawner, &net);
    kill(i32::try_from(spawner.pid().unwrap()).unwrap(), Signal::KILL);
    wait_for_exit(&server);
    check(&spawner, Some(&net), &["tcp", SERVER], "ECONNREFUSED");
    let _server = start_server(&spawner, &net);
    check(&spawner, Some(&net), &["tcp-says", SERVER], "hello yourself");
}

/// The system calls by which a thread waits for a message.
const POLLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
];

/// A spawner process that dies with a request that it has not read yet.
#[test]
fn command_not_accepted_goes_to_new_spawner() {
    let spawner = start_spawner();
    let net = create_network(&spawner);
    let old = i32::try_from(spawner.pid().unwrap()).unwrap();
    kill(old, Signal::STOP);
    std::thread::scope(|scope| {
        let (sender, own) = std::sync::mpsc::sync_channel(1);
        let command = scope.spawn({
            let (spawner, net) = (&spawner, &net);
            move || {
                sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                check(spawner, Some(net), &["own-loopback"], "ok");
            }
        });
        // Once it waits for the answer, it has sent its request.
        let syscall = std::path::Path::new("/proc").join(own.recv().unwrap()).join("syscall");
        let waits = || {
            let now = std::fs::read_to_string(&syscall).unwrap_or_default();
            now.split(' ')
                .next()
                .is_some_and(|call| POLLS.iter().any(|poll| poll.to_string() == call))
        };
        wait_until(GONE_MAX, waits, || "it never waits".into());
        kill(old, Signal::KILL);
        command.join().unwrap();
    });
    assert_ne!(spawner.pid(), u32::try_from(old).ok());
}

#[test]
fn death_of_zero_or_supervisor_ends_network_commands() {
    let name = unique_marker("net");
    let script =
        format!("(exec -a {name} sleep 600) & (setsid bash -c 'exec -a {name} sleep 600') & wait");
    let mut client = spawner_client::start_in_network(&script);
    wait_for_marked(&name, 2, LONG);
    client.kill().unwrap();
    client.wait().unwrap();
    wait_for_marked(&name, 0, GONE_MAX);

    let spawner = start_spawner();
    let net = create_network(&spawner);
    let mut order = program_spec("bash", &["-c", &script]);
    order.profile.network = NetworkAccess::Loopback;
    order.net = Some(net);
    let running = spawner.spawn(order).unwrap();
    wait_for_marked(&name, 2, LONG);
    kill(parent_pid(running.pid), Signal::KILL);
    wait_for_exit(&running);
    wait_for_marked(&name, 0, GONE_MAX);
    assert_eq!(find_marked(&name), [0; 0]);
}

#[test]
fn hundred_sessions_leave_nothing_behind() {
    let spawner = start_spawner();
    check(&spawner, Some(&create_network(&spawner)), &["own-loopback"], "ok");
    let own = std::process::id();
    let spawner_pid = spawner.pid().unwrap();
    wait_until(GONE_MAX, || list_children(spawner_pid).len() == 1, || "no worker is ready".into());
    let before = (count_fds(own), count_fds(spawner_pid));
    for round in 0..100 {
        let (net, _port) = SharedNetwork::create_with_proxy(&spawner).unwrap();
        let net = Arc::new(net);
        if round % 10 == 0 {
            check(&spawner, Some(&net), &["own-loopback"], "ok");
        }
    }
    wait_until(GONE_MAX, || list_children(spawner_pid).len() == 1, || "a worker is left".into());
    // A network is kept alive only by descriptors and processes. The worker that is ready, or about
    // to be, has some.
    let now = (count_fds(own), count_fds(spawner_pid));
    assert!(now.0 < before.0 + 10 && now.1 < before.1 + 10, "{now:?}, before {before:?}");
    assert_eq!(list_child_processes(own), [spawner_pid], "no helper stays");
}

/// The children of a process, whichever of its threads started them.
fn list_child_processes(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let text =
        tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let text: Vec<String> = text.collect();
    text.iter().flat_map(|text| text.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}
