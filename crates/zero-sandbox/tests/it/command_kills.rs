//! Whenever zero is killed, what a command changed can be undone, and an undo is completed.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zero_sandbox::ChangeState;
use zero_sandbox::command_capture::CommandCapture;
use zero_sandbox::journal::{SetLimits, UndoConflictPolicy};
use zero_sandbox::spawner::Spawner;

use crate::command_changes::{UndoLab, open_journal, origin, snapshot};
use crate::command_fixture::{GONE_MAX, program_spec, unique_marker, wait_for_marked};

pub(crate) const ARGV0: &str = "zero-test-undo-victim";

/// Kills of a recorded command, and of an undo, in one run.
const KILLS: usize = 60;
/// The variable with another number of them: before a release, each is run with 1,000.
const KILLS_VARIABLE: &str = "ZERO_TEST_KILLS";

fn count_kills() -> usize {
    let text = std::env::var(KILLS_VARIABLE).ok();
    text.map_or(KILLS, |text| text.parse().unwrap())
}

/// Changes everything in the tree in some way, with links of both kinds, and takes a while.
const SCRIPT: &str = "\
    mv a b; for i in 1 2 3 4 5 6 7 8; do echo $i >> b/$i; rm c/$i; echo new > n$i; done; \
    ln b/1 c/one; echo x >> c/one; mkdir a; mv c/hard a/hard; echo y >> a/hard; \
    chmod 700 d; ln -sf nowhere link; rm -rf d; mkdir -p d/e/f; echo z > d/e/f/g; mv d/e e";

fn make_tree(tree: &Path) {
    for folder in ["a", "c", "d"] {
        std::fs::create_dir(tree.join(folder)).unwrap();
        for name in 1..=8 {
            std::fs::write(tree.join(folder).join(name.to_string()), format!("{folder}{name}"))
                .unwrap();
        }
    }
    std::fs::hard_link(tree.join("a/1"), tree.join("c/hard")).unwrap();
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
}

/// The process that is killed: `FOLDER command|undo MARKER`.
pub(crate) fn main() -> i32 {
    use std::io::Write as _;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, mode, marker] = args.as_slice() else { return 2 };
    let folder = Path::new(folder);
    let journal = open_journal(folder);
    let spawner = (mode == "command").then(|| Spawner::start().unwrap());
    std::io::stdout().write_all(b"!").unwrap();
    std::io::stdout().flush().unwrap();
    let Some(spawner) = spawner else {
        let newest = journal.newest_undoable().unwrap().unwrap();
        journal.undo_set(newest.id, UndoConflictPolicy::Refuse).unwrap();
        return 0;
    };
    let recorder = journal.record_command(origin(), SetLimits::NONE).unwrap();
    let (capture, channel) = CommandCapture::start(recorder).unwrap();
    let mut spec = program_spec("bash", &["-c", SCRIPT, marker]);
    spec.profile.writable.push(folder.join("tree"));
    spec.command.folder = folder.join("tree");
    spec.capture = Some(std::sync::Arc::new(channel));
    let running = spawner.spawn(spec).unwrap();
    running.wait(GONE_MAX).unwrap();
    drop(running);
    capture.finish();
    0
}

/// Runs the victim for at most this long after its start, and returns how long it ran.
fn run_victim(folder: &Path, mode: &str, limit: Duration) -> Duration {
    let marker = unique_marker("undo");
    let mut victim = Command::new("/proc/self/exe")
        .arg0(ARGV0)
        .args([folder.to_str().unwrap(), mode, &marker])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    victim.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let began = Instant::now();
    while began.elapsed() < limit {
        if victim.try_wait().unwrap().is_some() {
            return began.elapsed();
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for_marked(&marker, 0, GONE_MAX);
    began.elapsed()
}

/// Numbers from 0 to 1 that are spread evenly.
fn fraction(number: usize) -> f64 {
    (number as f64 * 0.618_033_988_75).fract()
}

#[test]
fn killed_command_can_be_undone() {
    let whole = {
        let lab = UndoLab::new();
        make_tree(&lab.tree());
        run_victim(lab.tree().parent().unwrap(), "command", GONE_MAX)
    };
    let mut interrupted = 0;
    for kill in 0..count_kills() {
        let lab = UndoLab::new();
        let tree = lab.tree();
        make_tree(&tree);
        let old = snapshot(&tree);
        run_victim(tree.parent().unwrap(), "command", whole.mul_f64(fraction(kill) * 1.1));
        lab.journal.recover().unwrap();
        let entries = lab.journal.list().unwrap();
        let Some(entry) = entries.first() else {
            assert_eq!(snapshot(&tree), old, "kill {kill}: changed without a record");
            continue;
        };
        assert_eq!(entry.state, ChangeState::Applied, "kill {kill}: {entry:?}");
        interrupted += usize::from(entry.totals.as_ref().unwrap().is_interrupted);
        lab.journal.undo_set(entry.id, UndoConflictPolicy::Refuse).unwrap();
        assert_eq!(snapshot(&tree), old, "kill {kill}");
    }
    assert!(interrupted > 0, "no kill hit the command");
}

#[test]
fn killed_undo_is_completed_or_not_begun() {
    let mut completed = 0;
    let mut whole = Duration::from_millis(50);
    for kill in 0..count_kills() {
        let lab = UndoLab::new();
        let tree = lab.tree();
        make_tree(&tree);
        let old = snapshot(&tree);
        run_victim(tree.parent().unwrap(), "command", GONE_MAX);
        let new = snapshot(&tree);
        let id = lab.journal.list().unwrap().first().unwrap().id;
        let limit = if kill == 0 { GONE_MAX } else { whole.mul_f64(fraction(kill)) };
        let took = run_victim(tree.parent().unwrap(), "undo", limit);
        if kill == 0 {
            whole = took;
        }
        completed += lab.journal.recover().unwrap();
        let now = snapshot(&tree);
        if now == new {
            assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::Applied, "kill {kill}");
            continue;
        }
        assert_eq!(now, old, "kill {kill}");
        assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::Undone, "kill {kill}");
        // The undo can be undone, whoever completed it.
        let undo = lab.journal.list().unwrap().first().unwrap().id;
        lab.journal.undo_set(undo, UndoConflictPolicy::Refuse).unwrap();
        assert_eq!(snapshot(&tree), new, "kill {kill}");
    }
    assert!(completed > 0, "no kill hit the undo");
}
