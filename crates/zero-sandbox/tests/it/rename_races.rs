//! Folders of the workspace are renamed while a sandbox is set up, or a process outlives its
//! command in a sandbox. The renaming process is not confined at all, so it can do more than
//! another command could.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags};
use zero_sandbox::spawner::{SpawnSpec, Spawner};

use crate::command_fixture::{read_text, run, shell_spec, start_spawner, wait_for_exit};

/// Number of commands that are started while folders are swapped.
const STARTS: u32 = 60;

/// What a refusal may say: that a path is a link now, or has changed.
const REFUSALS: [&str; 3] =
    ["changed while the sandbox was set up", "is a link", "sandbox could not be set up"];

struct RaceFixture {
    folder: tempfile::TempDir,
}

impl RaceFixture {
    /// A workspace with a link to a victim's files beside it, which look the same.
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("zero-race-").tempdir_in("/var/tmp").unwrap();
        let place = Self { folder };
        for name in ["tmp", "ws/held/deep", "victim/deep"] {
            fs::create_dir_all(place.path(name)).unwrap();
        }
        for name in ["ws/held/.env", "victim/.env", "victim/key"] {
            fs::write(place.path(name), "worth something").unwrap();
        }
        symlink("../victim", place.path("ws/link")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A script in the workspace, with the victim's files hidden.
    fn script_spec(&self, script: &str) -> SpawnSpec {
        let mut order = shell_spec(script);
        order.command.folder = self.path("ws");
        order.profile.writable = vec![self.path("ws")];
        order.profile.tmp = self.path("tmp");
        order.profile.masked = vec![self.path("victim")];
        order.profile.weaknesses = Vec::new();
        order
    }

    /// The contents of the victim's folder, except for the only thing that a race can create: an
    /// empty mount point, which bubblewrap creates before it can be checked whether it is in the
    /// right place.
    fn list_victim_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("victim")).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "missing" || !is_empty(&self.path("victim/missing")));
        names.sort();
        names
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Exchanges two names until it is stopped, at a varying speed.
fn swap_repeatedly(one: &Path, other: &Path, stop: &AtomicBool) {
    for round in 0..u64::MAX {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        match round / 64 % 4 {
            0 => {}
            pause => std::thread::sleep(Duration::from_micros(pause * pause * 120)),
        }
    }
}

/// The result of a command: its output, or why it was refused.
fn run_to_outcome(spawner: &Spawner, order: SpawnSpec) -> Result<String, String> {
    let mut running = spawner.spawn(order).map_err(|error| error.to_string())?;
    drop(running.stdin.take());
    let output = read_text(running.stdout.take().unwrap());
    assert_eq!(wait_for_exit(&running).exit_code, Some(0), "{output}");
    Ok(output)
}

/// Starts commands while a folder between the workspace and what `with` adds to the profile is
/// swapped for a link that leads out.
#[track_caller]
fn check(with: impl Fn(&RaceFixture, &mut SpawnSpec)) {
    let place = RaceFixture::new();
    let spawner = start_spawner();
    let script = "for i in 1 2 3 4 5; do
        for at in held link; do
            cat $at/key; echo attacked > $at/new; echo attacked > $at/.env; mkdir $at/deep/new
        done
    done 2>/dev/null; echo ran";
    let stop = AtomicBool::new(false);
    let mut ran = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| swap_repeatedly(&place.path("ws/held"), &place.path("ws/link"), &stop));
        for _ in 0..STARTS {
            let mut order = place.script_spec(script);
            with(&place, &mut order);
            let answer = run_to_outcome(&spawner, order);
            let victims = (place.list_victim_files(), fs::read(place.path("victim/.env")).unwrap());
            let is_fine = match &answer {
                Ok(output) => output == "ran\n",
                Err(why) => REFUSALS.iter().any(|words| why.contains(words)),
            };
            ran += u32::from(answer.is_ok());
            let is_whole = victims.0 == [".env", "deep", "key"] && victims.1 == b"worth something";
            if !(is_fine && is_whole && is_empty(&place.path("victim/deep"))) {
                // Before anything fails: a scope waits for its threads.
                stop.store(true, Ordering::Relaxed);
                panic!("{answer:?}, and outside {victims:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Once nothing is swapped any more, everything runs.
    if !fs::symlink_metadata(place.path("ws/held")).unwrap().is_dir() {
        let (held, link) = (place.path("ws/held"), place.path("ws/link"));
        rustix::fs::renameat_with(CWD, held, CWD, link, RenameFlags::EXCHANGE).unwrap();
    }
    let mut order = place.script_spec(script);
    with(&place, &mut order);
    assert_eq!(run_to_outcome(&spawner, order).as_deref(), Ok("ran\n"), "{ran} ran before");
}

#[test]
fn parent_of_protected_folder_swapped_for_link_is_harmless() {
    check(|place, order| order.profile.protected.push(place.path("ws/held/deep")));
}

#[test]
fn parent_of_missing_path_swapped_for_link_is_harmless() {
    check(|place, order| order.profile.protected.push(place.path("ws/held/missing")));
}

#[test]
fn parent_of_masked_file_swapped_for_link_is_harmless() {
    check(|place, order| order.profile.masked.push(place.path("ws/held/.env")));
}

#[test]
fn nested_writable_folder_swapped_for_link_is_harmless() {
    check(|place, order| order.profile.writable.push(place.path("ws/held/deep")));
}

/// The process that counts what a command leaves is made unable to count, or slow.
#[test]
fn surviving_process_cannot_create_protected_path() {
    let place = RaceFixture::new();
    let spawner = start_spawner();
    let script = "{ prlimit --pid 1 --nofile=0; chrt -i -p 0 1; taskset -p 1 1; } >/dev/null 2>&1
        late() { while :; do mkdir .zero && echo {} > .zero/settings.json; done; }
        late </dev/null >/dev/null 2>&1 & exit 0";
    for _ in 0..12 {
        let mut order = place.script_spec(script);
        order.profile.protected.push(place.path("ws/.zero"));
        let (_, ended) = run(&spawner, order);
        assert_eq!(ended.exit_code, Some(0));
        // A prewarmed sandbox may have created the placeholder again.
        std::thread::sleep(Duration::from_millis(2));
        assert!(!place.path("ws/.zero/settings.json").exists());
    }
}

#[test]
fn hard_linked_protected_file_is_refused() {
    let place = RaceFixture::new();
    let spawner = start_spawner();
    let first = "mkdir -p .git/hooks && echo mine > .git/config && ln .git/config innocent";
    assert_eq!(run_to_outcome(&spawner, place.script_spec(first)), Ok(String::new()));
    let second = || {
        let mut order = place.script_spec("echo attacked > innocent; cat .git/config");
        order.profile.protected_files.push(place.path("ws/.git/config"));
        order.profile.protected.push(place.path("ws/.git/hooks"));
        order
    };
    let why = run_to_outcome(&spawner, second()).unwrap_err();
    assert!(why.contains(".git/config` has another name"), "{why}");
    let (_, fix) = why.split_once("replace it by a copy: ").unwrap();
    assert_eq!(run_to_outcome(&spawner, place.script_spec(fix)), Ok(String::new()));
    assert_eq!(run_to_outcome(&spawner, second()), Ok("mine\n".to_owned()));
}

#[test]
fn placeholder_failure_says_what_to_do() {
    if crate::attack_lab::is_root() {
        // Root can write everywhere but in the kernel's own folders.
        let place = RaceFixture::new();
        let mut order = place.script_spec("true");
        order.profile.writable = vec!["/sys/kernel".into()];
        order.profile.protected.push("/sys/kernel/zero".into());
        let why = run_to_outcome(&start_spawner(), order).unwrap_err();
        assert!(why.contains("commands must not create `/sys/kernel/zero`"), "{why}");
        assert!(why.contains("let zero write to `/sys/kernel`, or create it yourself"), "{why}");
    }
}
