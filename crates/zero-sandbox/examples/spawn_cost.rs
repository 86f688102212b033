//! What it costs to start a command behind walls and to read what it writes, in nanoseconds.
//!
//! Prints one line of JSON, after one with the fastest of each when `fastest` is the second argument.
//! `cargo xtask bench` runs it. What is compared takes turns, so that a
//! busy machine slows all of it.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement, which starts others beside ours"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio as StdStdio};
use std::time::{Duration, Instant};

use zero_sandbox::drain::Collector;
use zero_sandbox::warden::{Order, Settings, Stdio, Use, Warden};
use zero_sandbox::{CommandSpec, Network, ProcessLimits, Profile, Property};

const GIGABYTE: &str = "1G";
const PAUSE: Duration = Duration::from_millis(30);

fn main() -> ExitCode {
    zero_sandbox::child::from_argv0();
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(101);
    let Some(bwrap) =
        ["/usr/bin/bwrap", "/usr/local/bin/bwrap"].iter().find(|p| Path::new(p).exists())
    else {
        println!("bubblewrap is missing: apt-get install bubblewrap");
        return ExitCode::FAILURE;
    };
    let place = Place::new();
    let wardens = [Use::All, Use::WithoutBubblewrap]
        .map(|layers| Warden::start_with(Settings { layers, ..Settings::default() }).unwrap());
    let [full, direct] = &wardens;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        let [plain, bare_bwrap, landlock, walls] = &mut times;
        plain.push(timed(|| succeed(Command::new("/bin/true"))));
        landlock.push(timed(|| run(direct, place.order(Use::WithoutBubblewrap, "/bin/true", &[]))));
        bare_bwrap.push(timed(|| succeed(place.plain_bwrap(bwrap))));
        walls.push(timed(|| run(full, place.order(Use::All, "/bin/true", &[]))));
    }
    if std::env::args().nth(2).is_some_and(|word| word == "fastest") {
        println!("{:?}", times.clone().map(|times| times.into_iter().min()));
    }
    let [plain, bwrap, landlock, walls] = times.map(median);
    let (mut drained, mut piped) = (Vec::new(), Vec::new());
    for _ in 0..rounds.min(5) {
        drained.push(timed(|| drain(full, &place)));
        piped.push(timed(|| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("head -c {GIGABYTE} /dev/zero | cat > /dev/null")]);
            succeed(shell);
        }));
    }
    let [drained, piped] = [drained, piped].map(median);
    let left = left_by(&wardens, &place, 1000);
    println!(
        "{{\"plain_ns\":{plain},\"bwrap_ns\":{bwrap},\"landlock_ns\":{landlock},\
         \"walls_ns\":{walls},\"drained_ns\":{drained},\"piped_ns\":{piped},\"left\":{left}}}"
    );
    ExitCode::SUCCESS
}

/// A workspace as people have it, outside `/tmp`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("zero-cost-").tempdir_in("/var/tmp").unwrap();
        for name in ["ws/.git/hooks", "tmp", "secret"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn order(&self, layers: Use, program: &str, args: &[&str]) -> Order {
        let path = |name: &str| self.0.path().join(name);
        let inside = layers == Use::All;
        Order {
            command: CommandSpec {
                program: program.into(),
                args: args.iter().map(Into::into).collect(),
                folder: path("ws"),
                environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            },
            profile: Profile {
                writable: vec![path("ws")],
                protected: if inside { vec![path("ws/.git/hooks")] } else { Vec::new() },
                masked: vec![path("secret")],
                network: Network::Nothing,
                limits: ProcessLimits { cpu_percent: 400, ..ProcessLimits::default() },
                tmp: path("tmp"),
                weaknesses: if inside {
                    Vec::new()
                } else {
                    vec![Property::Attributes, Property::PrivateTmp]
                },
            },
            stdio: Stdio::Pipes,
            timeout: None,
            net: None,
        }
    }

    /// The same namespaces and folders, by bubblewrap alone.
    fn plain_bwrap(&self, bwrap: &str) -> Command {
        let mut command = Command::new(bwrap);
        let users = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try";
        let rest = "--unshare-net --die-with-parent --cap-drop ALL --ro-bind / /";
        let own = "--dev /dev --proc /proc --tmpfs /run";
        command.args([users, rest, own].iter().flat_map(|words| words.split(' ')));
        command.args(["--bind".as_ref(), self.0.path().join("tmp").as_os_str(), "/tmp".as_ref()]);
        let ws = self.0.path().join("ws");
        command.arg("--bind").args([&ws, &ws]);
        command.arg("--ro-bind").args([ws.join(".git/hooks"), ws.join(".git/hooks")]);
        command.arg("--tmpfs").arg(self.0.path().join("secret"));
        command.args(["--", "/bin/true"]);
        command
    }
}

fn run(warden: &Warden, order: Order) {
    let running = warden.spawn(order).unwrap();
    let ended = running.wait(Duration::from_secs(30)).unwrap();
    assert_eq!(ended.exit_code, Some(0), "{ended:?}");
}

fn succeed(mut command: Command) {
    assert!(command.stdin(StdStdio::null()).status().unwrap().success(), "{command:?}");
}

fn drain(warden: &Warden, place: &Place) {
    let order = place.order(Use::All, "head", &["-c", GIGABYTE, "/dev/zero"]);
    let mut running = warden.spawn(order).unwrap();
    let collected = Collector::default().collect(&mut running, |_| ControlFlow::Continue(()));
    assert_eq!(collected.unwrap().0.stdout.total_bytes(), 1 << 30);
}

/// Processes and handles that so many commands leave to their wardens.
fn left_by(wardens: &[Warden; 2], place: &Place, commands: usize) -> usize {
    let held = || -> usize {
        // Ends that were told may still be on their way out.
        std::thread::sleep(Duration::from_millis(300));
        wardens.iter().filter_map(Warden::pid).map(|pid| children(pid) + handles(pid)).sum()
    };
    let before = held();
    for _ in 0..commands / 2 {
        for (warden, layers) in wardens.iter().zip([Use::All, Use::WithoutBubblewrap]) {
            run(warden, place.order(layers, "/bin/true", &[]));
        }
    }
    held().saturating_sub(before)
}

fn children(pid: u32) -> usize {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap_or_default().split_whitespace().count()
}

fn handles(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn timed(work: impl FnOnce()) -> Duration {
    // What the one before set off in the background is over then.
    std::thread::sleep(PAUSE);
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0, Duration::as_nanos)
}
