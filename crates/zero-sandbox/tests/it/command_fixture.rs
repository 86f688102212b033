//! Helpers of the tests: commands, and how to find what they leave.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use zero_sandbox::running_command::{CommandExit, RunningCommand};
use zero_sandbox::spawner::{
    CommandStdio, LayerSelection, LimitEnforcerChoice, SpawnSpec, Spawner, SpawnerSettings,
};
use zero_sandbox::{CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile, SandboxProperty};

/// Longer than anything here takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// How soon everything has to be gone. Processes in these tests end by themselves only after ten
/// minutes, so a busy machine has enough time, and whatever stays is still found.
pub(crate) const GONE_MAX: Duration = Duration::from_secs(30);
/// How long a sandbox is kept that is not to be kept for long.
pub(crate) const SHORT: Duration = Duration::from_millis(250);

/// A shell command with generous limits.
pub(crate) fn shell_spec(script: &str) -> SpawnSpec {
    program_spec("sh", &["-c", script])
}

pub(crate) fn program_spec(program: &str, args: &[&str]) -> SpawnSpec {
    let limits = ProcessLimits { cpu_percent: 400, ..ProcessLimits::default() };
    SpawnSpec {
        command: CommandSpec {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            folder: "/".into(),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        },
        profile: profile(limits),
        stdio: CommandStdio::Pipes,
        timeout: None,
        net: None,
        capture: None,
    }
}

/// The most permissive profile: everything can be read, and one folder written to.
fn profile(limits: ProcessLimits) -> SandboxProfile {
    let tmp = std::env::temp_dir().join("zero-sandbox-tests");
    std::fs::create_dir_all(&tmp).unwrap();
    SandboxProfile {
        writable: vec![tmp.clone()],
        changeable: Vec::new(),
        readable: Vec::new(),
        protected: Vec::new(),
        protected_files: Vec::new(),
        masked: Vec::new(),
        network: NetworkAccess::Host,
        limits,
        tmp,
        weaknesses: vec![SandboxProperty::Attributes, SandboxProperty::PrivateTmp],
    }
}

/// Half of the tests need bubblewrap.
#[track_caller]
pub(crate) fn require_bubblewrap() {
    let bubblewrap = zero_sandbox::SandboxLayers::probe().report().into_iter().next().unwrap();
    assert!(
        Path::new("/usr/bin/bwrap").exists() || bubblewrap.holds,
        "bubblewrap is missing: apt-get install bubblewrap"
    );
    assert!(bubblewrap.holds, "bubblewrap does not work here: {bubblewrap:?}");
}

pub(crate) fn start_spawner() -> Spawner {
    require_bubblewrap();
    Spawner::start().unwrap()
}

/// One spawner with namespaces and one without: they differ in how processes are cleaned up.
pub(crate) fn start_both_confinements() -> [Spawner; 2] {
    require_bubblewrap();
    [LayerSelection::All, LayerSelection::WithoutBubblewrap].map(|layers| {
        Spawner::start_with_settings(SpawnerSettings { layers, ..SpawnerSettings::default() })
            .unwrap()
    })
}

/// Spawners with every combination of limit enforcer and layers.
pub(crate) fn start_all_variants() -> Vec<Spawner> {
    require_bubblewrap();
    let mut spawners = Vec::new();
    for limits_by in [LimitEnforcerChoice::Best, LimitEnforcerChoice::Watchdog] {
        for layers in [LayerSelection::All, LayerSelection::WithoutBubblewrap] {
            spawners.push(
                Spawner::start_with_settings(SpawnerSettings {
                    limits_by,
                    layers,
                    ..SpawnerSettings::default()
                })
                .unwrap(),
            );
        }
    }
    spawners
}

/// Waits for the end of a command that ends by itself.
#[track_caller]
pub(crate) fn wait_for_exit(running: &RunningCommand) -> CommandExit {
    // The command's own timeout is over before.
    running.wait(LONG + GONE_MAX).expect("it ends")
}

/// All output of a descriptor.
pub(crate) fn read_text(fd: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // Reading a terminal ends with an error.
    let _ = std::fs::File::from(fd).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a script, and returns its output and how it ended.
#[track_caller]
pub(crate) fn run(spawner: &Spawner, order: SpawnSpec) -> (String, CommandExit) {
    let mut running = spawner.spawn(order).unwrap();
    drop(running.stdin.take());
    let output = read_text(running.stdout.take().unwrap());
    (output, wait_for_exit(&running))
}

/// A name by which the processes of one test can be found: it is one of their arguments.
pub(crate) fn unique_marker(name: &str) -> String {
    format!("zero-test-{name}-{}", std::process::id())
}

/// The processes with a marker among their arguments.
pub(crate) fn find_marked(mark: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|arg| arg == mark.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

/// Waits until that many processes have a marker.
#[track_caller]
pub(crate) fn wait_for_marked(mark: &str, count: usize, limit: Duration) {
    wait_until(
        limit,
        || find_marked(mark).len() == count,
        || format!("{count} processes with {mark}, not {:?}", find_marked(mark)),
    );
}

#[track_caller]
pub(crate) fn wait_until(limit: Duration, is_so: impl Fn() -> bool, what: impl Fn() -> String) {
    let until = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < until, "{}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The children of a process, including zombies.
pub(crate) fn list_children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The number of open descriptors of a process.
pub(crate) fn count_fds(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The names of all control groups that a process owns.
pub(crate) fn find_cgroups(supervisor: &str) -> Vec<String> {
    fn search(folder: &Path, part: &str, found: &mut Vec<String>, depth: u32) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("zero-") && name.contains(part) {
                found.push(name);
            } else if depth < 6 {
                search(&entry.path(), part, found, depth + 1);
            }
        }
    }
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), &format!("-{supervisor}-"), &mut found, 0);
    found
}

pub(crate) fn parent_pid(pid: i32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

pub(crate) fn kill(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}
