//! Tries to do what a confined command must not, and prints the kernel's answer.
//!
//! `attack confine PLAN` runs a command under a profile; `attack try NAME ARGS…` is such a command.
//! The tests start both; the second also without the first, to show that it does harm then.

#![expect(
    unsafe_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program for tests, which does what zero does not"
)]

#[path = "attack/files.rs"]
mod files;
#[path = "attack/processes.rs"]
mod processes;
#[path = "attack/sockets.rs"]
mod sockets;
#[path = "attack/system_calls.rs"]
mod system_calls;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use zero_sandbox::output_collector::OutputCollector;
use zero_sandbox::shared_network::SharedNetwork;
use zero_sandbox::spawner::{CommandStdio, LayerSelection, SpawnSpec, Spawner, SpawnerSettings};
use zero_sandbox::{CommandSpec, SandboxProfile};

#[derive(Deserialize)]
struct AttackPlan {
    profile: SandboxProfile,
    command: CommandSpec,
    layers: LayerSelection,
    /// Runs beside the command, in a shared network, and prints when it is ready.
    server: Option<CommandSpec>,
    /// What to do on the host while a sandbox is prewarmed for the command. If `None`, none is
    /// prewarmed.
    meanwhile: Option<Vec<String>>,
}

fn main() -> ExitCode {
    zero_sandbox::helper_process::dispatch_helper();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["confine", plan] => confine(plan),
        ["try", name, rest @ ..] => {
            let answer = attempt(name, rest).unwrap_or_else(|error| errno_name(&error));
            println!("{answer}");
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}

fn confine(plan: &str) -> ExitCode {
    let AttackPlan { profile, command, layers, server, meanwhile } =
        serde_json::from_slice(&fs::read(plan).unwrap()).unwrap();
    let spawner =
        Spawner::start_with_settings(SpawnerSettings { layers, ..SpawnerSettings::default() })
            .unwrap();
    let net = server.as_ref().map(|_| Arc::new(SharedNetwork::create(&spawner).unwrap()));
    let order = |command| {
        let (profile, net) = (profile.clone(), net.clone());
        SpawnSpec {
            command,
            profile,
            stdio: CommandStdio::Pipes,
            timeout: None,
            net,
            capture: None,
        }
    };
    let mut server = server.map(|server| {
        let mut order = order(server);
        // It changes nothing, and placeholders are to be created for the command itself.
        order.profile.protected.clear();
        spawner.spawn(order).unwrap()
    });
    if let Some(output) = server.as_mut().and_then(|server| server.stdout.take()) {
        let mut line = String::new();
        BufReader::new(File::from(output)).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    if let Some(meanwhile) = &meanwhile {
        prewarm(&spawner, order(CommandSpec { program: "true".into(), ..command.clone() }));
        perform_host_action(meanwhile);
    }
    let mut running = match spawner.spawn(order(command)) {
        Ok(running) => {
            fs::write(format!("{plan}.reuse"), format!("{:?}", running.sandbox_reuse)).unwrap();
            running
        }
        Err(error) => {
            println!("refused: {error}");
            return ExitCode::from(3);
        }
    };
    drop(running.stdin.take());
    let collected = OutputCollector::default().collect(&mut running, |_| ControlFlow::Continue(()));
    let (collected, ended) = collected.unwrap();
    io::stdout().write_all(collected.stdout.head()).unwrap();
    io::stderr().write_all(collected.stderr.head()).unwrap();
    match ended.signal {
        Some(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap()),
        None => {
            let code =
                ended.exit_code.unwrap_or_else(|| panic!("neither code nor signal: {ended:?}"));
            ExitCode::from(u8::try_from(code).unwrap())
        }
    }
}

/// Runs a harmless command, and waits until a sandbox like its own is prewarmed. Prewarming may
/// fail; the next command tries again.
fn prewarm(spawner: &Spawner, harmless: SpawnSpec) {
    const TRIES: usize = 4;
    const PATIENCE: Duration = Duration::from_secs(30);
    let ready = (0..TRIES).any(|_| {
        let running = spawner.spawn(harmless.clone()).unwrap();
        running.wait(PATIENCE).unwrap();
        drop(running);
        let until = std::time::Instant::now() + PATIENCE;
        while !is_prewarmed(spawner) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        is_prewarmed(spawner)
    });
    assert!(ready, "no prewarmed sandbox");
    // Checked once more before it is relied on.
    std::thread::sleep(Duration::from_millis(50));
}

/// Whether there are a worker, bubblewrap and the init process, one below the other, and no other
/// process.
fn is_prewarmed(spawner: &Spawner) -> bool {
    let children = |pid: u32| -> Vec<u32> {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let list = list.unwrap_or_default();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let only = |pid: u32| -> Option<u32> {
        let [only] = <[u32; 1]>::try_from(children(pid)).ok()?;
        Some(only)
    };
    children(spawner.pid().unwrap()).into_iter().any(|supervisor| {
        let stage = only(supervisor).and_then(only);
        stage.is_some_and(|stage| children(stage).is_empty())
    })
}

/// Changes something on the host: runs a program, or creates a socket.
fn perform_host_action(what: &[String]) {
    let words: Vec<&str> = what.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {}
        // Open until this process ends.
        ["bind", path] => std::mem::forget(UnixListener::bind(path).unwrap()),
        ["churn", folder] => {
            perform_host_action(&["bind".to_owned(), format!("{folder}/stays")]);
            for thread in 0..2 {
                let folder = (*folder).to_owned();
                std::thread::spawn(move || churn_sockets(&folder, thread));
            }
        }
        [program, args @ ..] => {
            assert!(Command::new(program).args(args).status().unwrap().success(), "{words:?}");
        }
    }
}

/// Creates sockets that exist for a moment each, until this process ends.
fn churn_sockets(folder: &str, thread: u32) {
    for number in 0..u64::MAX {
        let path = format!("{folder}/{thread}-{number}");
        let door = UnixListener::bind(&path).unwrap();
        std::thread::sleep(Duration::from_millis(number % 4));
        fs::remove_file(&path).unwrap();
        drop(door);
    }
}

fn attempt(name: &str, args: &[&str]) -> io::Result<String> {
    let elsewhere = [system_calls::attempt, files::attempt, processes::attempt, sockets::attempt];
    if let Some(answer) = elsewhere.iter().find_map(|attempt| attempt(name, args)) {
        return answer;
    }
    let ok = |()| "ok".to_owned();
    match (name, args) {
        ("read", [path]) => {
            let mut text = String::new();
            File::open(path)?.read_to_string(&mut text)?;
            Ok(if text.is_empty() { "empty".to_owned() } else { "ok".to_owned() })
        }
        ("list", [path]) => {
            let count = fs::read_dir(path)?.count();
            Ok(if count == 0 { "empty".to_owned() } else { "ok".to_owned() })
        }
        ("write", [path]) => fs::write(path, "attacked").map(ok),
        ("append", [path]) => OpenOptions::new().append(true).open(path).map(drop).map(ok),
        ("truncate", [path]) => {
            let path = std::ffi::CString::new(*path)?;
            check_syscall(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
        }
        ("chmod", [path]) => {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).map(ok)
        }
        ("mkdir", [path]) => fs::create_dir(path).map(ok),
        ("remove", [path]) => fs::remove_file(path).map(ok),
        ("rename", [from, to]) => fs::rename(from, to).map(ok),
        ("hardlink", [from, to]) => fs::hard_link(from, to).map(ok),
        ("read-through-link", [path, link]) => {
            std::os::unix::fs::symlink(path, link)?;
            attempt("read", &[link])
        }
        ("read-through-hardlink", [path, link]) => {
            fs::hard_link(path, link)?;
            attempt("read", &[link])
        }
        ("environ-of", [pid]) => attempt("read", &[&format!("/proc/{pid}/environ")]),
        ("handles", []) => {
            let is_listing = |entry: &fs::DirEntry| {
                fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("fd"))
            };
            let open = fs::read_dir("/proc/self/fd")?.flatten().filter(|entry| !is_listing(entry));
            let mut names: Vec<_> =
                open.filter_map(|open| open.file_name().into_string().ok()).collect();
            names.sort_unstable();
            Ok(names.join(","))
        }
        ("tcp", [address]) => {
            let address = address.parse().map_err(io::Error::other)?;
            TcpStream::connect_timeout(&address, Duration::from_secs(30)).map(drop).map(ok)
        }
        ("tcp-says", [address]) => {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"hello")?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        }
        ("serve", [address]) => {
            let port = TcpListener::bind(address)?;
            println!("ready");
            loop {
                let (mut stream, _) = port.accept()?;
                let mut text = String::new();
                stream.read_to_string(&mut text)?;
                stream.write_all(format!("{text} yourself").as_bytes())?;
            }
        }
        ("serve-abstract", [name]) => {
            let port = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
            println!("ready");
            loop {
                port.accept()?;
            }
        }
        ("bind", [address]) => TcpListener::bind(address).map(drop).map(ok),
        ("raw-icmp", []) => {
            let (kind, protocol) = (libc::SOCK_RAW, libc::IPPROTO_ICMP);
            check_syscall(unsafe { libc::socket(libc::AF_INET, kind, protocol) }.into())
        }
        ("lo-flags", []) => request_loopback_change(libc::SIOCSIFFLAGS),
        ("lo-address", []) => request_loopback_change(libc::SIOCSIFADDR),
        ("lo-mtu", []) => request_loopback_change(libc::SIOCSIFMTU),
        ("own-loopback", []) => {
            let port = TcpListener::bind("127.0.0.1:0")?;
            TcpStream::connect(port.local_addr()?).map(drop).map(ok)
        }
        ("udp", [address]) => UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", address).map(|_| ok(())),
        ("socket", [family, kind]) => {
            let family = family.parse().map_err(io::Error::other)?;
            let kind = kind.parse().map_err(io::Error::other)?;
            check_syscall(unsafe { libc::socket(family, kind, 0) }.into())
        }
        ("pair", []) => UnixStream::pair().map(drop).map(ok),
        ("own-unix", [path]) => {
            let _door = UnixListener::bind(path)?;
            UnixStream::connect(path).map(drop).map(ok)
        }
        ("unix", [path]) => UnixStream::connect(path).map(drop).map(ok),
        ("abstract", [name]) => {
            let address = SocketAddr::from_abstract_name(name)?;
            UnixStream::connect_addr(&address).map(drop).map(ok)
        }
        ("kill", [pid]) => {
            let pid = pid.parse().map_err(io::Error::other)?;
            check_syscall(unsafe { libc::kill(pid, libc::SIGCONT) }.into())
        }
        ("ptrace", [pid]) => {
            let pid: libc::pid_t = pid.parse().map_err(io::Error::other)?;
            check_syscall(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) })
        }
        ("threads", []) => {
            let answer = std::thread::spawn(|| "ok".to_owned()).join();
            answer.map_err(|_| io::Error::other("no thread"))
        }
        ("capabilities", []) => {
            let status = fs::read_to_string("/proc/self/status")?;
            let sum = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name)).unwrap();
                line.rsplit('\t').next().unwrap().trim_start_matches('0').to_owned()
            };
            let (held, more) = (sum("CapPrm:") + &sum("CapEff:"), sum("NoNewPrivs:"));
            Ok(format!("{}{more}", if held.is_empty() { "none" } else { "some" }))
        }
        ("euid-of", [program]) => {
            let output = Command::new(program).args(["try", "euid"]).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        ("euid", []) => Ok(unsafe { libc::geteuid() }.to_string()),
        ("sparse", [path, size]) => {
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
            File::create(path)?.set_len(size.parse().map_err(io::Error::other)?).map(ok)
        }
        ("open-many", [most]) => {
            let most: usize = most.parse().map_err(io::Error::other)?;
            let mut open = Vec::new();
            while open.len() < most {
                match File::open("/dev/null") {
                    Ok(file) => open.push(file),
                    Err(error) => return Ok(errno_name(&error)),
                }
            }
            Ok("ok".to_owned())
        }
        ("core", []) => {
            let mut limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
            unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
            Ok(limit.rlim_max.to_string())
        }
        ("processes", []) => {
            let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
            let entries = fs::read_dir("/proc")?.flatten();
            let seen = entries.filter(|entry| is_process(&entry.file_name().to_string_lossy()));
            Ok(if seen.count() <= 3 { "few".to_owned() } else { "ok".to_owned() })
        }
        ("wait", []) => {
            println!("waiting");
            std::thread::sleep(Duration::from_secs(600));
            Ok("ok".to_owned())
        }
        _ => Ok(format!("no such attempt: {name} {args:?}")),
    }
}

/// Requests a change of the loopback device. Everything in the request is zero but its name and the
/// family of an address, which stops the device, gives it another address, or makes it useless.
fn request_loopback_change(request: libc::Ioctl) -> io::Result<String> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    asked.ifr_name[0] = b'l'.cast_signed();
    asked.ifr_name[1] = b'o'.cast_signed();
    if request == libc::SIOCSIFADDR {
        asked.ifr_ifru.ifru_addr.sa_family = libc::AF_INET.try_into().map_err(io::Error::other)?;
    }
    if request == libc::SIOCSIFMTU {
        asked.ifr_ifru.ifru_mtu = 1000;
    }
    check_syscall(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut asked) }.into())
}

fn check_syscall(answer: libc::c_long) -> io::Result<String> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok("ok".to_owned()) }
}

fn errno_name(error: &io::Error) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EACCES, "EACCES"),
        (libc::EROFS, "EROFS"),
        (libc::EBUSY, "EBUSY"),
        (libc::EXDEV, "EXDEV"),
        (libc::EFBIG, "EFBIG"),
        (libc::ESRCH, "ESRCH"),
        (libc::EMFILE, "EMFILE"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EEXIST, "EEXIST"),
        (libc::EISDIR, "EISDIR"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EBADF, "EBADF"),
        (libc::EFAULT, "EFAULT"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOEXEC, "ENOEXEC"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::EADDRINUSE, "EADDRINUSE"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    ];
    let code = error.raw_os_error();
    let named = known.iter().find(|(known, _)| Some(*known) == code);
    named.map_or_else(|| error.to_string(), |(_, name)| (*name).to_owned())
}
