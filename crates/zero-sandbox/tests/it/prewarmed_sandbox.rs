//! A prewarmed sandbox is used as long as the host has not changed, and only then.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use zero_sandbox::running_command::{ExitCause, LimitsReport, SandboxReuse};
use zero_sandbox::spawner::{SpawnSpec, Spawner, SpawnerSettings};
use zero_sandbox::{ProcessLimits, SandboxProfile};

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, is_root};
use crate::command_fixture::{
    GONE_MAX, LONG, kill, list_children, program_spec, require_bubblewrap, run, shell_spec,
    wait_for_exit, wait_until,
};

/// How often to try to get a prewarmed sandbox, which changes of the host may prevent: other tests
/// create sockets.
const TRIES_MAX: u32 = 100;

/// How long to wait for a prewarmed sandbox before another command is run.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// How long a sandbox is kept that is to be observed, and then to be removed.
const A_WHILE: Duration = Duration::from_secs(1);

/// The lab's profile, with more paths that may be created or changed.
fn profile(lab: &AttackLab) -> SandboxProfile {
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.masked.extend(["ws/late", "ws/link/key"].map(|name| lab.path(name)));
    profile.protected.push(lab.path("ws/.zero"));
    profile.protected_files = vec![lab.path("ws/.git/deep/attributes")];
    for name in ["outside/a", "outside/b"] {
        std::fs::create_dir_all(lab.path(name)).unwrap();
        std::fs::write(lab.path(name).join("key"), "worth something").unwrap();
    }
    std::os::unix::fs::symlink(lab.path("outside/a"), lab.path("ws/link")).unwrap();
    profile
}

/// Something changes on the host while a sandbox is prewarmed, and the next attack gets a new
/// sandbox.
#[track_caller]
fn check(meanwhile: &[&str], words: &str, expected: &str) {
    assert_eq!(reuse_after(meanwhile, words, expected), "New", "after {meanwhile:?}");
}

#[track_caller]
fn check_script(script: &str, words: &str, expected: &str) {
    check(&["sh", "-ec", &format!("cd $/ws; {script}")], words, expected);
}

/// Something changes that may or may not make the prewarmed sandbox unusable.
#[track_caller]
fn check_answer(script: &str, words: &str, expected: &str) {
    reuse_after(&["sh", "-ec", &format!("cd $/ws; {script}")], words, expected);
}

#[track_caller]
fn reuse_after(meanwhile: &[&str], words: &str, expected: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let lab = AttackLab::new(Attacker::Me);
    let (answer, reuse) = lab.attempt_after(&profile(&lab), meanwhile, &words);
    assert_eq!(answer, expected, "after {meanwhile:?}, reuse: {reuse}");
    reuse
}

/// Without a change, the same attacks run in a prewarmed sandbox and get the same answers.
#[test]
fn prewarmed_sandbox_answers_attacks_alike() {
    let rows = [
        ("read $/ws/.env", "EACCES"),
        ("read $/ws/keys/key", "ENOENT"),
        ("read $/outside/a/key", "EACCES"),
        ("write $/ws/.git/hooks/x", "EROFS"),
        ("mkdir $/ws/.zero/x", "EROFS"),
        ("write $/ws/.git/deep/attributes", "EROFS"),
        ("unix $/ws/door", "EACCES"),
        ("write $/ws/file", "ok"),
    ];
    for who in Attacker::available() {
        for (words, expected) in rows {
            let words: Vec<&str> = words.split(' ').collect();
            let is_ready = (0..TRIES_MAX).any(|_| {
                let lab = AttackLab::new(*who);
                let (answer, reuse) = lab.attempt_after(&profile(&lab), &[], &words);
                assert_eq!(answer, expected, "{words:?} by {who:?}, reuse: {reuse}");
                for name in ["ws/.zero", "ws/.git/deep"] {
                    assert!(!lab.path(name).exists(), "{name} is left");
                }
                reuse == "Prewarmed"
            });
            assert!(is_ready, "no prewarmed sandbox was ready");
        }
    }
}

#[test]
fn replaced_secret_is_hidden() {
    check_script("echo new >n; mv n .env", "read $/ws/.env", "EACCES");
    check_script("mv .env old; echo new >.env", "read $/ws/.env", "EACCES");
    // The new file may get the inode number of the old one.
    check_script("rm .env; echo new >.env", "read $/ws/.env", "EACCES");
    // It is the same file, but the mount that hid it is gone.
    check_script("ln .env x; rm .env; mv x .env", "read $/ws/.env", "EACCES");
    check_script("mv keys old; mkdir keys; echo x >keys/key", "read $/ws/keys/key", "ENOENT");
    check_script("rm -r keys; mkdir keys; echo x >keys/key", "read $/ws/keys/key", "ENOENT");
    check_script("rm -r keys; echo x >keys", "read $/ws/keys", "EACCES");
}

#[test]
fn new_secret_is_hidden() {
    check_script("echo new >late", "read $/ws/late", "EACCES");
    check_script("mkdir late; echo new >late/key", "read $/ws/late/key", "ENOENT");
    check_script("ln -sfn $/outside/b link", "read $/outside/b/key", "EACCES");
}

#[test]
fn protected_path_stays_protected() {
    check_script("mv .git/hooks x; mkdir .git/hooks", "write $/ws/.git/hooks/x", "EROFS");
    check_script("rmdir .git/hooks; mkdir .git/hooks", "write $/ws/.git/hooks/x", "EROFS");
    check_script("mv .git g; cp -r g .git", "write $/ws/.git/hooks/x", "EROFS");
    // The placeholder, if it still exists, has contents now, or is gone.
    check_answer("mkdir -p .zero; echo x >.zero/config", "write $/ws/.zero/config", "EROFS");
    check_script("rmdir .zero 2>&- || true", "mkdir $/ws/.zero", "EEXIST");
    check_script("rmdir .zero 2>&- || true; mkdir .zero", "mkdir $/ws/.zero/x", "EROFS");
    check_answer(
        "mkdir -p .git/deep; echo x >.git/deep/other",
        "write $/ws/.git/deep/attributes",
        "EROFS",
    );
}

#[test]
fn new_socket_is_hidden() {
    check(&["bind", "$/ws/late-door"], "unix $/ws/late-door", "EACCES");
    check(&["bind", "$/late-door"], "unix $/late-door", "EACCES");
    check_script("mv door x; mv x door; rm $/door", "unix $/ws/door", "EACCES");
}

#[test]
fn replaced_folder_is_the_one_used() {
    check_script("cd ..; mv ws old; cp -r old ws", "write $/ws/file", "ok");
    check_script("cd ..; rmdir tmp; mkdir tmp", "write /tmp/file", "ok");
}

#[test]
fn new_mount_is_read_only() {
    // Only root can mount, in its own mount namespace that the processes below inherit.
    if is_root() {
        let mount = "mount -t tmpfs none $/outside/empty";
        check_script(mount, "write $/outside/empty/x", "EROFS");
        check_script("mount --bind $/outside/a keys", "read $/ws/keys/key", "ENOENT");
    }
}

/// A workspace with a folder that needs a placeholder.
struct PrewarmFixture(tempfile::TempDir);

impl PrewarmFixture {
    fn new() -> Self {
        require_bubblewrap();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["ws", "sessions/tmp"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn script_spec(&self, script: &str) -> SpawnSpec {
        let mut order = shell_spec(script);
        order.command.folder = self.0.path().join("ws");
        order.profile.writable = vec![self.0.path().join("ws")];
        order.profile.protected = vec![self.0.path().join("ws/.zero")];
        order.profile.tmp = self.0.path().join("sessions/tmp");
        order
    }

    fn has_placeholder(&self) -> bool {
        self.0.path().join("ws/.zero").exists()
    }

    fn count_records(&self) -> usize {
        std::fs::read_dir(self.0.path().join("sessions")).unwrap().count() - 1
    }

    /// Runs a command, and waits until a sandbox is prewarmed for the next.
    fn prewarm(&self, spawner: &Spawner) -> PrewarmedProcesses {
        run(spawner, self.script_spec("true"));
        self.wait_until_prewarmed(spawner)
    }

    /// A sandbox that exists only for a moment may be missed if this process has to wait.
    #[track_caller]
    fn wait_until_prewarmed(&self, spawner: &Spawner) -> PrewarmedProcesses {
        for _ in 0..TRIES_MAX {
            let until = Instant::now() + SEEN_WITHIN;
            while Instant::now() < until {
                if let (Some(standing), true) = (find_prewarmed(spawner), self.has_placeholder()) {
                    std::thread::sleep(Duration::from_millis(50));
                    return standing;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            run(spawner, self.script_spec("true"));
        }
        panic!("no prewarmed sandbox was found");
    }
}

/// The processes of a prewarmed sandbox.
struct PrewarmedProcesses {
    supervisor: i32,
    /// Its init process.
    stage: i32,
}

/// Finds a prewarmed sandbox without a command.
fn find_prewarmed(spawner: &Spawner) -> Option<PrewarmedProcesses> {
    let numbers = |pid: u32| -> Vec<u32> {
        list_children(pid).iter().filter_map(|pid| pid.parse().ok()).collect()
    };
    let only = |pid: u32| -> Option<u32> {
        let [only] = <[u32; 1]>::try_from(numbers(pid)).ok()?;
        Some(only)
    };
    numbers(spawner.pid().unwrap()).into_iter().find_map(|supervisor| {
        let stage = only(only(supervisor)?)?;
        let is_alone = list_children(stage).is_empty();
        is_alone
            .then_some(PrewarmedProcesses { supervisor: supervisor as i32, stage: stage as i32 })
    })
}

fn kill_if_alive(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

fn start_spawner(ready_for: Duration) -> Spawner {
    Spawner::start_with_settings(SpawnerSettings { ready_for, ..SpawnerSettings::default() })
        .unwrap()
}

/// Runs commands until one gets a prewarmed sandbox.
#[track_caller]
fn run_prewarmed(
    spawner: &Spawner,
    place: &PrewarmFixture,
    order: impl Fn() -> SpawnSpec,
) -> String {
    for _ in 0..TRIES_MAX {
        place.prewarm(spawner);
        let mut running = spawner.spawn(order()).unwrap();
        drop(running.stdin.take());
        let output = crate::command_fixture::read_text(running.stdout.take().unwrap());
        assert_eq!(wait_for_exit(&running).exit_code, Some(0));
        if running.sandbox_reuse == SandboxReuse::Prewarmed {
            return output;
        }
    }
    panic!("no prewarmed sandbox was ready");
}

#[test]
fn command_in_prewarmed_sandbox_has_only_its_streams() {
    let (spawner, place) = (start_spawner(LONG), PrewarmFixture::new());
    let order = |script: &str| place.script_spec(script);
    let handles = || order("for fd in $(seq 0 99); do ! test -e /proc/$$/fd/$fd || echo $fd; done");
    assert_eq!(run_prewarmed(&spawner, &place, handles), "0\n1\n2\n");
    // It has its own folder, arguments and environment.
    let words = || {
        let mut order = order("");
        std::fs::create_dir_all(place.0.path().join("ws/sub")).unwrap();
        order.command =
            program_spec("sh", &["-c", "pwd | sed 's,.*/,,'; echo $A $0", "word"]).command;
        order.command.folder = place.0.path().join("ws/sub");
        order.command.environment.push(("A".into(), "b".into()));
        order
    };
    assert_eq!(run_prewarmed(&spawner, &place, words), "sub\nb word\n");
    // The only processes are the command and the init process.
    let count = || order("set -- /proc/[0-9]*; echo $#");
    assert_eq!(run_prewarmed(&spawner, &place, count), "2\n");
}

#[test]
fn other_profile_gets_new_sandbox() {
    let (spawner, place) = (start_spawner(LONG), PrewarmFixture::new());
    let secret = place.0.path().join("ws/secret");
    std::fs::write(&secret, "worth something").unwrap();
    place.prewarm(&spawner);
    let mut order = place.script_spec("cat secret 2>/dev/null || echo hidden");
    order.profile.masked = vec![secret];
    let mut running = spawner.spawn(order).unwrap();
    assert_eq!(crate::command_fixture::read_text(running.stdout.take().unwrap()), "hidden\n");
    assert_eq!(running.sandbox_reuse, SandboxReuse::New);
    wait_for_exit(&running);
}

/// A process that runs beside commands does not prevent the next one from using a prewarmed
/// sandbox.
#[test]
fn one_off_command_keeps_earlier_prewarmed_sandbox() {
    let (spawner, place, other) =
        (start_spawner(LONG), PrewarmFixture::new(), PrewarmFixture::new());
    place.prewarm(&spawner);
    let running = spawner.spawn_one_off(other.script_spec("true")).unwrap();
    assert_eq!(
        (running.sandbox_reuse, wait_for_exit(&running).exit_code),
        (SandboxReuse::New, Some(0))
    );
    drop(running);
    place.wait_until_prewarmed(&spawner);
    assert!(!other.has_placeholder());
    let (_, how) = run(&spawner, place.script_spec("true"));
    assert_eq!(how.exit_code, Some(0));
}

/// A path that existed for the last command and is gone gets no placeholder: the next command may
/// create it.
#[test]
fn removed_path_gets_no_placeholder() {
    let (spawner, place) = (start_spawner(LONG), PrewarmFixture::new());
    let idea = place.0.path().join("ws/.idea");
    std::fs::create_dir(&idea).unwrap();
    let order = |script: &str| {
        let mut order = place.script_spec(script);
        order.profile.protected.push(idea.clone());
        order
    };
    let running = spawner.spawn(order("while ! test -e go; do sleep 0.01; done")).unwrap();
    std::fs::remove_dir(&idea).unwrap();
    std::fs::write(place.0.path().join("ws/go"), "").unwrap();
    wait_for_exit(&running);
    assert!(!idea.exists(), "the placeholder still exists");
    let next =
        spawner.spawn(place.script_spec("mkdir .idea && rmdir .idea && mkdir .idea")).unwrap();
    assert_eq!(wait_for_exit(&next).exit_code, Some(0), "the placeholder is in its way");
    assert!(idea.exists());
}

/// Without a command, the control groups of a worker have the limits of the last command.
#[test]
fn prewarmed_limits_are_those_of_the_command() {
    let (spawner, place) = (start_spawner(LONG), PrewarmFixture::new());
    for megabytes in [64, 512, 64] {
        // Held long enough for a watchdog that checks only now and then.
        let mut order = place.script_spec("head -c 200000000 /dev/zero | tail | (sleep 2; wc -c)");
        order.profile.limits.memory_bytes = megabytes << 20;
        let mut running = spawner.spawn(order).unwrap();
        assert_eq!(running.limits, read_limits_report(&spawner));
        let output = crate::command_fixture::read_text(running.stdout.take().unwrap());
        let is_over = matches!(wait_for_exit(&running).why, ExitCause::MemoryLimit { .. });
        assert_eq!((is_over, output == "200000000\n"), (megabytes == 64, megabytes == 512));
        place.wait_until_prewarmed(&spawner);
    }
}

fn read_limits_report(spawner: &Spawner) -> LimitsReport {
    spawner.limits_report(&ProcessLimits { cpu_percent: 400, ..ProcessLimits::default() })
}

#[test]
fn prewarmed_sandbox_expires_without_leftovers() {
    let (spawner, place) = (start_spawner(A_WHILE), PrewarmFixture::new());
    place.prewarm(&spawner);
    wait_until(
        LONG,
        || !place.has_placeholder() && place.count_records() == 0,
        || "it stays".to_owned(),
    );
    assert!(find_prewarmed(&spawner).is_none());
    // Removed at once on request, and prewarmed again after the next command.
    let spawner = self::start_spawner(LONG);
    for _ in 0..2 {
        place.prewarm(&spawner);
        spawner.release_prewarmed();
        assert!(
            !place.has_placeholder()
                && place.count_records() == 0
                && find_prewarmed(&spawner).is_none()
        );
    }
    // None if prewarming is disabled.
    let spawner = self::start_spawner(Duration::ZERO);
    for _ in 0..5 {
        let running = spawner.spawn(place.script_spec("true")).unwrap();
        assert_eq!(running.sandbox_reuse, SandboxReuse::New);
        wait_for_exit(&running);
        assert!(find_prewarmed(&spawner).is_none() && !place.has_placeholder());
    }
}

#[test]
fn prewarmed_sandbox_ends_with_spawner() {
    let place = PrewarmFixture::new();
    let spawner = start_spawner(LONG);
    let inside = place.prewarm(&spawner).stage;
    drop(spawner);
    assert!(!place.has_placeholder() && place.count_records() == 0);
    assert!(!std::path::Path::new(&format!("/proc/{inside}")).exists());

    let gone = |pid: i32| move || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let spawner = self::start_spawner(LONG);
    let inside = place.prewarm(&spawner).stage;
    kill(i32::try_from(spawner.pid().unwrap()).unwrap(), Signal::KILL);
    wait_until(GONE_MAX, gone(inside), || "it lives on".to_owned());
    wait_until(GONE_MAX, || !place.has_placeholder(), || "the placeholder still exists".to_owned());

    // If a worker is killed, its sandbox ends with it; what it left on the host is removed with the
    // next command.
    let spawner = self::start_spawner(LONG);
    let PrewarmedProcesses { supervisor, stage } = place.prewarm(&spawner);
    kill(supervisor, Signal::KILL);
    wait_until(GONE_MAX, gone(stage), || "it lives on".to_owned());
    assert_eq!(run(&spawner, place.script_spec("mkdir .zero/x 2>&- || echo held")).0, "held\n");
    drop(spawner);
    assert!(!place.has_placeholder() && place.count_records() == 0);
}

#[test]
fn killed_prewarmed_sandbox_is_replaced() {
    let (spawner, place) = (start_spawner(LONG), PrewarmFixture::new());
    // The sandbox may be checked again, and replaced, before there is a command.
    let mut reuse = (0..TRIES_MAX).map(|_| {
        kill_if_alive(place.prewarm(&spawner).stage);
        let mut running =
            spawner.spawn(place.script_spec("mkdir .zero/x 2>&- || echo held")).unwrap();
        assert_eq!(crate::command_fixture::read_text(running.stdout.take().unwrap()), "held\n");
        assert_eq!(wait_for_exit(&running).exit_code, Some(0));
        running.sandbox_reuse
    });
    assert!(reuse.any(|reuse| reuse == SandboxReuse::New));
}

/// A running command, a prewarmed sandbox and a new command do not remove what the others need.
#[test]
fn running_and_prewarmed_sandboxes_share_placeholders() {
    let (spawner, place) = (start_spawner(A_WHILE), PrewarmFixture::new());
    let script = "while ! test -e go; do sleep 0.01; done; mkdir .zero/x 2>&- || echo held";
    let mut first = spawner.spawn(place.script_spec(script)).unwrap();
    for _ in 0..5 {
        assert_eq!(run(&spawner, place.script_spec("mkdir .zero/x 2>&- || echo held")).0, "held\n");
        place.wait_until_prewarmed(&spawner);
    }
    std::fs::write(place.0.path().join("ws/go"), "").unwrap();
    assert_eq!(crate::command_fixture::read_text(first.stdout.take().unwrap()), "held\n");
    wait_for_exit(&first);
    assert_eq!(run(&spawner, place.script_spec("mkdir .zero/x 2>&- || echo held")).0, "held\n");
    wait_until(
        LONG,
        || !place.has_placeholder() && place.count_records() == 0,
        || "it stays".to_owned(),
    );
}

/// Sockets that come and go faster than a sandbox is set up do not prevent commands from starting,
/// and one that stays is hidden. Only root can have them in its own network, where no other test
/// sees them.
#[test]
fn short_lived_sockets_do_not_block_start() {
    if is_root() {
        for _ in 0..10 {
            let lab = AttackLab::new(Attacker::Me);
            let (meanwhile, words) = (["churn", "$/outside"], ["unix", "$/outside/stays"]);
            let (answer, _) = lab.attempt_after(&profile(&lab), &meanwhile, &words);
            assert_eq!(answer, "EACCES");
        }
    }
}
