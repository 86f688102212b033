//! Measures what it costs to record the changes of a command, and to undo them, in nanoseconds.
//!
//! Prints one line of JSON. `cargo xtask bench --only undo` runs it. Each command runs with and
//! without recording in turn, so that a busy machine slows both. The first argument is the number of
//! rounds of the short command, the second that of the long ones.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement, which makes files and starts others beside ours"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zero_core::ByteSize;
use zero_sandbox::command_capture::CommandCapture;
use zero_sandbox::journal::{SetLimits, SetOrigin, SetSummary, UndoConflictPolicy};
use zero_sandbox::output_collector::OutputCollector;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec, Spawner};
use zero_sandbox::{
    CommandSpec, Journal, NetworkAccess, ProcessLimits, SandboxProfile, StateDir, Workspace,
};

/// Packages of the installation, and files in each: 20,000 files.
const PACKAGES: usize = 200;
const PACKAGE_FILES: usize = 100;
/// Sources of the build, each with two results: 2,000 files.
const SOURCES: usize = 1_000;
const FILE_BYTES: usize = 4_096;
/// Background work of the command before is finished then.
const PAUSE: Duration = Duration::from_millis(20);

/// What `npm ci` does to files: each package is checked and unpacked into a folder of its own.
const INSTALL: &str = "mkdir node_modules; for package in cache/*.tgz; do \
    name=${package##*/}; sha512sum $package > /dev/null && mkdir node_modules/${name%.tgz} && \
    tar xzf $package -C node_modules/${name%.tgz} || exit 1; done";
/// A build: two programs for each source, each with a result. Compilers take longer.
const BUILD: &str = "mkdir -p obj; for source in src/*.c; do name=${source##*/}; \
    sed s/return/give/ $source > obj/$name.i && gzip -c obj/$name.i > obj/$name.o || exit 1; done";
const REMOVE: &str = "rm -rf node_modules";

fn main() -> ExitCode {
    zero_sandbox::helper_process::dispatch_helper();
    let count = |at: usize, or: usize| {
        std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let (short_rounds, long_rounds) = (count(1, 101), count(2, 5));
    let lab = UndoBench::new();
    let nothing = lab.compare("true", short_rounds, || ());
    lab.make_packages();
    let install = lab.compare(INSTALL, long_rounds, || lab.remove("node_modules"));
    lab.make_sources();
    let build = lab.compare(BUILD, long_rounds, || lab.remove("obj"));
    let mut undos = Vec::new();
    let mut removals = (Vec::new(), Vec::new());
    lab.run(INSTALL, None);
    for _ in 0..long_rounds {
        removals.0.push(lab.run(REMOVE, Some(lab.capture())).0);
        let newest = lab.journal.newest_undoable().unwrap().unwrap();
        undos.push(measure(|| {
            lab.journal.undo_set(newest.id, UndoConflictPolicy::Refuse).unwrap();
        }));
        removals.1.push(lab.run(REMOVE, None).0);
        lab.run(INSTALL, None);
    }
    let rows = [
        ("nothing", nothing),
        ("install", install),
        ("build", build),
        ("remove", (median(removals.0), median(removals.1))),
    ];
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, (on, off))| format!("\"{name}\":{{\"on_ns\":{on},\"off_ns\":{off}}}"))
        .collect();
    println!("{{{},\"undo_ns\":{}}}", rows.join(","), median(undos));
    ExitCode::SUCCESS
}

/// A workspace with its journal, on a disk.
struct UndoBench {
    place: tempfile::TempDir,
    journal: Journal,
    spawner: Spawner,
}

impl UndoBench {
    fn new() -> Self {
        let folder = std::env::args().nth(3).unwrap_or_else(|| "/var/tmp".to_owned());
        let place = tempfile::Builder::new().prefix("zero-undo-").tempdir_in(folder).unwrap();
        for name in ["ws", "tmp", "state"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let workspace = Workspace::open(&[place.path().join("ws")], None).unwrap();
        let state = StateDir::new(place.path().join("state"));
        let journal = Journal::new(&state, workspace, ByteSize::megabytes(100));
        Self { place, journal, spawner: Spawner::start().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("ws").join(name)
    }

    /// Archives as a registry has them.
    fn make_packages(&self) {
        fs::create_dir(self.path("cache")).unwrap();
        for package in 0..PACKAGES {
            let source = self.place.path().join("package");
            for file in 0..PACKAGE_FILES {
                let folder = source.join(format!("lib{}", file / 10));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(format!("m{file}.js")), make_text(package * 1_000 + file))
                    .unwrap();
            }
            let mut tar = Command::new("tar");
            tar.arg("czf").arg(self.path(&format!("cache/p{package}.tgz")));
            tar.arg("-C").arg(&source).arg(".").stdin(Stdio::null());
            assert!(tar.status().unwrap().success(), "{tar:?}");
            fs::remove_dir_all(&source).unwrap();
        }
    }

    fn make_sources(&self) {
        fs::create_dir(self.path("src")).unwrap();
        for source in 0..SOURCES {
            fs::write(self.path(&format!("src/s{source}.c")), make_text(source)).unwrap();
        }
    }

    fn remove(&self, name: &str) {
        fs::remove_dir_all(self.path(name)).unwrap();
    }

    fn capture(&self) -> (CommandCapture, std::os::fd::OwnedFd) {
        let origin = SetOrigin {
            tool: "Bash".to_owned(),
            call: "call_1".to_owned(),
            command: "bench".to_owned(),
            undoes: None,
            is_beside: false,
            caller: None,
        };
        let limits = SetLimits { bytes_max: ByteSize::bytes(2_000_000_000), ..SetLimits::NONE };
        CommandCapture::start(self.journal.record_command(origin, limits).unwrap()).unwrap()
    }

    /// The medians with and without recording. `reset` is called after each run.
    fn compare(&self, script: &str, rounds: usize, reset: impl Fn()) -> (u128, u128) {
        let (mut on, mut off) = (Vec::new(), Vec::new());
        // The first of each fills the caches.
        for round in 0..=rounds {
            let (took, totals) = self.run_recorded(script);
            reset();
            let plain = self.run(script, None).0;
            reset();
            assert_eq!(totals.losses, Vec::<String>::new(), "{script}");
            if round > 0 {
                on.push(took);
                off.push(plain);
            }
        }
        (median(on), median(off))
    }

    fn run_recorded(&self, script: &str) -> (Duration, SetSummary) {
        std::thread::sleep(PAUSE);
        let began = Instant::now();
        let capture = self.capture();
        let (_, totals) = self.run(script, Some(capture));
        (began.elapsed(), totals)
    }

    /// Runs a script to its end, that of its recording included.
    fn run(
        &self,
        script: &str,
        capture: Option<(CommandCapture, std::os::fd::OwnedFd)>,
    ) -> (Duration, SetSummary) {
        if capture.is_none() {
            std::thread::sleep(PAUSE);
        }
        let began = Instant::now();
        let (capture, channel) = capture
            .map_or((None, None), |(capture, channel)| (Some(capture), Some(Arc::new(channel))));
        let mut running = self.spawner.spawn(self.spawn_spec(script, channel)).unwrap();
        let collected = OutputCollector::default()
            .collect(&mut running, |_| std::ops::ControlFlow::Continue(()));
        let (output, ended) = collected.unwrap();
        assert_eq!(ended.exit_code, Some(0), "{script}: {ended:?} {output:?}");
        drop(running);
        let totals = capture.map(|capture| capture.finish().totals).unwrap_or_default();
        (began.elapsed(), totals)
    }

    fn spawn_spec(&self, script: &str, capture: Option<Arc<std::os::fd::OwnedFd>>) -> SpawnSpec {
        SpawnSpec {
            command: CommandSpec {
                program: "/bin/bash".into(),
                args: vec!["-c".into(), script.into()],
                folder: self.path(""),
                environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            },
            profile: SandboxProfile {
                writable: vec![self.path("")],
                changeable: Vec::new(),
                readable: Vec::new(),
                protected: Vec::new(),
                protected_files: Vec::new(),
                masked: vec![self.place.path().join("state")],
                network: NetworkAccess::Nothing,
                limits: ProcessLimits::default(),
                tmp: self.place.path().join("tmp"),
                weaknesses: Vec::new(),
            },
            stdio: CommandStdio::Pipes,
            timeout: None,
            net: None,
            capture,
        }
    }
}

/// Text like that of a program, another for each number.
fn make_text(number: usize) -> String {
    let mut text = String::with_capacity(FILE_BYTES + 80);
    let mut word = number as u64 + 1;
    while text.len() < FILE_BYTES {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += &format!(
            "function handle{:x}(event) {{ return event.field{}; }}\n",
            word >> 40,
            word % 97
        );
    }
    text
}

fn measure(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0, Duration::as_nanos)
}
