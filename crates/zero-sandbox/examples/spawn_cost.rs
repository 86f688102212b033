//! Measures what it costs to start a command in the sandbox and to read its output, in nanoseconds.
//!
//! Prints one line of JSON, preceded by one with the fastest of each if `fastest` is the second
//! argument. With `series` it prints only the cost of consecutive commands, with `loopback` only that
//! of commands without a network and in a shared one. `cargo xtask bench`
//! runs it. Measurements that are compared take turns, so that a busy machine slows all of them.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement, which starts others beside ours"
)]

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio as StdStdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zero_sandbox::output_collector::OutputCollector;
use zero_sandbox::shared_network::SharedNetwork;
use zero_sandbox::spawner::{CommandStdio, LayerSelection, SpawnSpec, Spawner, SpawnerSettings};
use zero_sandbox::{CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile, SandboxProperty};

const GIGABYTE: &str = "1G";
const PAUSE: Duration = Duration::from_millis(60);
/// The pause of an agent that answers at once, between two commands.
const SHORT_PAUSE: Duration = Duration::from_micros(1500);
const LONG_PAUSE: Duration = Duration::from_millis(20);
/// Concurrent agents, each with its own workspace.
const AGENTS: usize = 20;
/// How long remains of a command may take to disappear after its end was reported.
const SETTLE_MAX: Duration = Duration::from_millis(500);

/// Paths of a typical workspace that a command must not change.
const PROTECTED: &[&str] =
    &["ws/.git/hooks", "ws/.git/config", "ws/.github/workflows", "ws/.envrc"];
/// The same, for paths that do not exist yet.
const PROTECTED_MISSING: &[&str] = &["ws/.vscode", "ws/.mcp.json"];
/// Paths that a command must not read, a typical home folder among them.
const SECRET_FOLDERS: &[&str] = &["home", "state"];
const SECRET_FILES: &[&str] = &["home/.cargo/credentials.toml"];
/// What a command needs of that home folder.
const READABLE: &[&str] = &[
    "home/.cargo",
    "home/.rustup",
    "home/.npm",
    "home/.cache",
    "home/.local/bin",
    "home/.config/git",
];

fn main() -> ExitCode {
    zero_sandbox::helper_process::dispatch_helper();
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(101);
    let Some(bwrap) =
        ["/usr/bin/bwrap", "/usr/local/bin/bwrap"].iter().find(|p| Path::new(p).exists())
    else {
        println!("bubblewrap is missing: apt-get install bubblewrap");
        return ExitCode::FAILURE;
    };
    if std::env::args().nth(2).is_some_and(|word| word == "series") {
        println!("{}", measure_series(rounds));
        return ExitCode::SUCCESS;
    }
    if std::env::args().nth(2).is_some_and(|word| word == "loopback") {
        println!("{}", measure_loopback(rounds));
        return ExitCode::SUCCESS;
    }
    let place = CostFixture::new();
    let spawners = [LayerSelection::All, LayerSelection::WithoutBubblewrap].map(|layers| {
        Spawner::start_with_settings(SpawnerSettings { layers, ..SpawnerSettings::default() })
            .unwrap()
    });
    let [full, direct] = &spawners;
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..rounds {
        let [plain, bare_bwrap, landlock, sandboxed, at_once] = &mut times;
        plain.push(measure_after_pause(|| run_successfully(Command::new("/bin/true"))));
        landlock.push(measure_after_pause(|| {
            run(direct, place.spawn_spec(LayerSelection::WithoutBubblewrap, "/bin/true", &[]))
        }));
        bare_bwrap.push(measure_after_pause(|| run_successfully(plain_bwrap_command(bwrap))));
        let confined = || run(full, place.spawn_spec(LayerSelection::All, "/bin/true", &[]));
        sandboxed.push(measure_after_pause(confined));
        // Right after the one before, when no sandbox is ready yet.
        at_once.push(measure(confined));
    }
    if std::env::args().nth(2).is_some_and(|word| word == "fastest") {
        println!("{:?}", times.clone().map(|times| times.into_iter().min()));
    }
    let [plain, bwrap, landlock, sandboxed, at_once] = times.map(median);
    let (mut drained, mut piped) = (Vec::new(), Vec::new());
    let before = read_peak_kb();
    for _ in 0..rounds.min(5) {
        drained.push(measure_after_pause(|| drain_output(full, &place)));
        piped.push(measure_after_pause(|| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("head -c {GIGABYTE} /dev/zero | cat > /dev/null")]);
            run_successfully(shell);
        }));
    }
    let drain_kb = read_peak_kb().saturating_sub(before);
    let [drained, piped] = [drained, piped].map(median);
    drop(spawners);
    let left = find_residue(&place, 1000);
    println!(
        "{{\"plain_ns\":{plain},\"bwrap_ns\":{bwrap},\"landlock_ns\":{landlock},\
         \"walls_ns\":{sandboxed},\"at_once_ns\":{at_once},\"drained_ns\":{drained},\"piped_ns\":{piped},\
         \"drain_kb\":{drain_kb},\"left\":{left:?}}}"
    );
    ExitCode::SUCCESS
}

/// The cost of consecutive commands: at once, after a moment, and those of several agents in turn.
fn measure_series(rounds: usize) -> String {
    let spawner = Spawner::start().unwrap();
    let places: Vec<CostFixture> = (0..AGENTS).map(|_| CostFixture::new()).collect();
    let [at_once, paused, in_turn] = [(SHORT_PAUSE, 1), (LONG_PAUSE, 1), (SHORT_PAUSE, AGENTS)]
        .map(|(pause, agents)| {
            let places: Vec<&CostFixture> = places.iter().take(agents).collect();
            let each = |place: &&CostFixture| {
                std::thread::sleep(pause);
                let mut order = place.spawn_spec(LayerSelection::All, "/bin/bash", &["-c", "true"]);
                order.profile.limits = ProcessLimits::default();
                measure(|| run(&spawner, order))
            };
            // The first of each finds no sandbox that is ready.
            places.iter().for_each(|place| assert!(each(place) > Duration::ZERO));
            let times: Vec<Duration> = places.iter().cycle().take(rounds).map(each).collect();
            let mean = times.iter().sum::<Duration>().as_nanos() / times.len().max(1) as u128;
            let worst = times.iter().max().map_or(0, Duration::as_nanos);
            format!("{{\"median_ns\":{},\"mean_ns\":{mean},\"worst_ns\":{worst}}}", median(times))
        });
    format!("{{\"at_once\":{at_once},\"paused\":{paused},\"in_turn\":{in_turn}}}")
}

/// The cost of a command without a network, and of one in the network that a session shares. Each
/// finds a sandbox that is ready.
fn measure_loopback(rounds: usize) -> String {
    let spawner = Spawner::start().unwrap();
    // A sandbox waits for the next command of the same place.
    let places = [CostFixture::new(), CostFixture::new()];
    let network = Arc::new(SharedNetwork::create(&spawner).unwrap());
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..rounds {
        let nets = [None, Some(Arc::clone(&network))];
        for ((place, net), times) in places.iter().zip(nets).zip(&mut times) {
            let mut order = place.spawn_spec(LayerSelection::All, "/bin/true", &[]);
            if net.is_some() {
                order.profile.network = NetworkAccess::Loopback;
            }
            order.net = net;
            times.push(measure_after_pause(|| run(&spawner, order)));
        }
    }
    let [without, loopback] = times.map(median);
    format!("{{\"without_ns\":{without},\"loopback_ns\":{loopback}}}")
}

/// A typical workspace and home folder, outside `/tmp`.
struct CostFixture(tempfile::TempDir);

impl CostFixture {
    fn new() -> Self {
        let place = tempfile::Builder::new().prefix("zero-cost-").tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["ws/.git/hooks", "ws/.github/workflows", "tmp", "home/.cargo"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in SECRET_FOLDERS.iter().chain(READABLE) {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in SECRET_FILES.iter().chain(&["ws/.git/config", "ws/.envrc", "ws/file"]) {
            fs::write(path(name), "text").unwrap();
        }
        Self(place)
    }

    fn spawn_spec(&self, layers: LayerSelection, program: &str, args: &[&str]) -> SpawnSpec {
        let path = |name: &str| self.0.path().join(name);
        let paths = |names: [&[&str]; 2]| names.concat().into_iter().map(path).collect();
        let inside = layers == LayerSelection::All;
        SpawnSpec {
            command: CommandSpec {
                program: program.into(),
                args: args.iter().map(Into::into).collect(),
                folder: path("ws"),
                environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            },
            profile: SandboxProfile {
                writable: vec![path("ws")],
                changeable: Vec::new(),
                readable: paths([READABLE, &[]]),
                // Without namespaces a writable folder is writable as a whole.
                protected: if inside { paths([PROTECTED, PROTECTED_MISSING]) } else { Vec::new() },
                protected_files: Vec::new(),
                masked: paths([SECRET_FOLDERS, SECRET_FILES]),
                network: NetworkAccess::Nothing,
                limits: ProcessLimits { cpu_percent: 400, ..ProcessLimits::default() },
                tmp: path("tmp"),
                weaknesses: if inside {
                    Vec::new()
                } else {
                    vec![SandboxProperty::Attributes, SandboxProperty::PrivateTmp]
                },
            },
            stdio: CommandStdio::Pipes,
            timeout: None,
            net: None,
            capture: None,
        }
    }

    /// Every file and folder in it.
    fn list_files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open: Vec<PathBuf> = vec![self.0.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                found.insert(entry.path().display().to_string());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        found
    }
}

/// The same namespaces and a root like ours, by bubblewrap alone.
fn plain_bwrap_command(bwrap: &str) -> Command {
    let mut command = Command::new(bwrap);
    let users = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try";
    let rest = "--unshare-net --die-with-parent --cap-drop ALL --ro-bind / /";
    let own = "--dev /dev --proc /proc --tmpfs /tmp -- /bin/true";
    command.args([users, rest, own].iter().flat_map(|words| words.split(' ')));
    command
}

fn run(spawner: &Spawner, order: SpawnSpec) {
    let running = spawner.spawn(order).unwrap();
    let ended = running.wait(Duration::from_secs(30)).unwrap();
    assert_eq!(ended.exit_code, Some(0), "{ended:?}");
}

fn run_successfully(mut command: Command) {
    assert!(command.stdin(StdStdio::null()).status().unwrap().success(), "{command:?}");
}

fn drain_output(spawner: &Spawner, place: &CostFixture) {
    let order = place.spawn_spec(LayerSelection::All, "head", &["-c", GIGABYTE, "/dev/zero"]);
    let mut running = spawner.spawn(order).unwrap();
    let collected = OutputCollector::default().collect(&mut running, |_| ControlFlow::Continue(()));
    assert_eq!(collected.unwrap().0.stdout.total_bytes(), 1 << 30);
}

/// The peak memory of this process, in kilobytes.
fn read_peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What this many commands leave, one entry each: processes and zombies, descriptors, mounts,
/// control groups, and files.
fn find_residue(place: &CostFixture, commands: usize) -> Vec<String> {
    let both = [LayerSelection::All, LayerSelection::WithoutBubblewrap];
    // Prewarmed sandboxes are gone when the result of the last command is checked.
    let spawners = both.map(|layers| {
        let settings =
            SpawnerSettings { layers, ready_for: SETTLE_MAX / 2, ..SpawnerSettings::default() };
        Spawner::start_with_settings(settings).unwrap()
    });
    let run_each = || {
        for (spawner, layers) in spawners.iter().zip(both) {
            run(spawner, place.spawn_spec(layers, "/bin/true", &[]));
        }
    };
    run_each();
    let before = HostResidue::collect(&spawners, place);
    for _ in 0..commands / 2 {
        run_each();
    }
    HostResidue::collect(&spawners, place).list_added_since(&before)
}

/// What is visible of commands from outside.
struct HostResidue {
    /// By kind, because a worker that is ready has another process ID each time.
    counts: [(&'static str, usize); 3],
    /// By name: the user's files, and control groups.
    files: BTreeSet<String>,
}

impl HostResidue {
    fn collect(spawners: &[Spawner; 2], place: &CostFixture) -> Self {
        // Processes whose end was reported may still be exiting.
        std::thread::sleep(SETTLE_MAX);
        let own = std::process::id();
        let pids = || spawners.iter().filter_map(Spawner::pid).chain([own]);
        let lines = |path: &str| fs::read_to_string(path).unwrap_or_default().lines().count();
        Self {
            counts: [
                ("processes", pids().map(count_descendants).sum()),
                ("handles", pids().map(count_handles).sum()),
                ("mounts", lines("/proc/self/mountinfo")),
            ],
            files: place.list_files().into_iter().chain(find_stale_cgroups()).collect(),
        }
    }

    fn list_added_since(&self, before: &Self) -> Vec<String> {
        let counts = self.counts.iter().zip(&before.counts).filter(|(now, then)| now.1 > then.1);
        let counts = counts.map(|(now, then)| format!("{} {}", now.1 - then.1, now.0));
        counts.chain(self.files.difference(&before.files).cloned()).collect()
    }
}

/// Processes below one, including zombies.
fn count_descendants(pid: u32) -> usize {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.map(|child| 1 + count_descendants(child)).sum()
}

fn count_handles(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Control groups whose owner has ended. Other commands run on this machine too, so a group that is
/// about to be removed does not count: it is gone at the second check.
fn find_stale_cgroups() -> BTreeSet<String> {
    fn search(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            match name.strip_prefix("zero-").and_then(|rest| rest.split('-').nth(1)) {
                Some(supervisor) if Path::new("/proc").join(supervisor).exists() => {}
                Some(_) => drop(found.insert(entry.path().display().to_string())),
                None => search(&entry.path(), found),
            }
        }
    }
    let looks = [Duration::ZERO, SETTLE_MAX].map(|pause| {
        std::thread::sleep(pause);
        let mut found = BTreeSet::new();
        search(Path::new("/sys/fs/cgroup"), &mut found);
        found
    });
    let [first, second] = looks;
    first.intersection(&second).cloned().collect()
}

fn measure_after_pause(work: impl FnOnce()) -> Duration {
    // Background work of the command before is finished then.
    std::thread::sleep(PAUSE);
    measure(work)
}

fn measure(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0, Duration::as_nanos)
}
