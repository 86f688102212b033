//! Walls that had a command before: the next one finds them as if they were new, or finds others.

use std::time::Duration;

use rustix::process::Signal;
use zero_sandbox::running_command::{
    CommandExit, ExitCause, KillReason, RunningCommand, SandboxReuse,
};
use zero_sandbox::spawner::{
    CommandStdio, LimitEnforcerChoice, SpawnSpec, Spawner, SpawnerSettings,
};

use crate::command_fixture::{
    GONE_MAX, LONG, children, ended, fds, groups_of, kill, mark, marked, need_bubblewrap, parent,
    program, sh, text, wait_until, warden,
};

const MB: u64 = 1 << 20;

/// Runs a command to its end, and gives what it wrote, how it ended, and when its walls were put up.
#[track_caller]
fn run(warden: &Spawner, order: SpawnSpec) -> (String, CommandExit, SandboxReuse, i32) {
    let mut running = warden.spawn(order).unwrap();
    drop(running.stdin.take());
    let output = text(running.stdout.take().unwrap());
    (output, ended(&running), running.walls, running.pid)
}

/// Runs one that leaves its walls to the next, which is the next that has them.
#[track_caller]
fn leave_walls(warden: &Spawner) -> i32 {
    for _ in 0..20 {
        let (_, _, _, first) = run(warden, sh("true"));
        let (_, _, walls, second) = run(warden, sh("true"));
        // Other tests make sockets, which have to be hidden by walls of their own.
        if walls == SandboxReuse::Ready && first == second {
            return second;
        }
    }
    panic!("no walls are left");
}

/// Walls are left to the next command, behind which it finds itself alone, with streams of its own.
#[test]
fn the_next_command_is_alone() {
    let warden = warden();
    let look = "ls /proc/self/fd | wc -l; set -- /proc/[0-9]*; echo $#; ls -A /dev/shm /dev/mqueue; \
                cat /proc/sysvipc/* | wc -l; echo $PWD $A; umask; cat";
    let order = |value: &str, folder: &str| {
        let mut order = sh(look);
        order.command.environment.push(("A".into(), value.into()));
        order.command.folder = folder.into();
        order
    };
    let (first, ..) = run(&warden, order("one", "/usr"));
    leave_walls(&warden);
    let mut seen_ready = false;
    for _ in 0..20 {
        let (second, how, walls, _) = run(&warden, order("two", "/etc"));
        assert_eq!(second, first.replace("/usr one", "/etc two"));
        assert_eq!((how.exit_code, how.why), (Some(0), ExitCause::Finished));
        seen_ready |= walls == SandboxReuse::Ready;
    }
    assert!(seen_ready);
}

/// Whatever is left of a command, the next one does not find it.
#[test]
fn what_is_left_behind_is_left_behind() {
    let libc = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True);";
    let python = |code: &str| program("python3", &["-c", &format!("{libc} {code}")]);
    let rows = [
        (sh("echo x >/dev/shm/x"), sh("ls /dev/shm")),
        (sh("mkdir /dev/shm/x"), sh("ls /dev/shm")),
        (sh("chmod 700 /dev/shm"), sh("stat -c %a /dev/shm | grep -v 755")),
        (sh("chmod 700 /dev"), sh("stat -c %a /dev | grep -v 755")),
        (sh("chmod 700 /dev/pts"), sh("stat -c %a /dev/pts | grep -v 755")),
        (sh("ipcmk -M 4096"), sh("tail -qn+2 /proc/sysvipc/*")),
        (sh("ipcmk -S 1"), sh("tail -qn+2 /proc/sysvipc/*")),
        (sh("ipcmk -Q"), sh("tail -qn+2 /proc/sysvipc/*")),
        // Nobody can open one behind Landlock, but one is made before that is found out.
        (
            python("c.mq_open(b'/x', os.O_CREAT | os.O_RDWR, 0o600, None)"),
            python(
                "c.mq_open(b'/x', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, None); \
                 ctypes.get_errno() == 17 and print('found')",
            ),
        ),
    ];
    let warden = warden();
    for (first, mut second) in rows {
        let said = format!("{:?}", first.command.args);
        leave_walls(&warden);
        let (_, how, ..) = run(&warden, first);
        assert_eq!((how.exit_code, how.why), (Some(0), ExitCause::Finished), "{said}");
        second.timeout = Some(LONG);
        let (found, _, walls, _) = run(&warden, second);
        assert_eq!((found.as_str(), walls), ("", SandboxReuse::PutUp), "{said}");
    }
}

/// Ends that are out of the ordinary end the walls too.
#[test]
fn one_that_did_not_just_end_takes_its_walls_along() {
    let warden = warden();
    let name = mark("again");
    let stays = format!(
        "(setsid bash -c 'exec -a {name} sleep 600' &) ; \
                         until pgrep -fx '{name} 600' >/dev/null; do :; done"
    );
    let mut late = sh("sleep 600");
    late.timeout = Some(Duration::from_millis(50));
    let mut fat = sh("head -c 300M /dev/zero | tail | wc -c");
    fat.profile.limits.memory_bytes = 100 * MB;
    let mut bomb = sh("for i in $(seq 60); do sleep 600 & done; wait");
    bomb.profile.limits.processes = 30;
    let mut terminal = sh("true");
    terminal.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    for (first, leftover) in
        [(sh(&stays), 1), (late, 0), (fat, 0), (bomb, 0), (sh("kill -9 $$"), 0), (terminal, 0)]
    {
        let said = format!("{:?}", first.command.args);
        let profile = first.profile.clone();
        let (_, how, _, pid) = run(&warden, first);
        assert_eq!(how.leftover_processes, leftover, "{said}: {how:?}");
        assert_eq!(marked(&name), [0; 0], "{said}");
        let mut second = sh("sleep 0.2; echo well");
        second.profile = profile;
        let (output, then, _, next) = run(&warden, second);
        assert_eq!((output.as_str(), then.why), ("well\n", ExitCause::Finished), "{said}");
        assert_eq!(then.leftover_processes, 0, "{said}");
        // A signal of its own is an end like any other.
        assert!(pid != next || how.signal == Some(libc::SIGKILL), "{said}");
    }
    let running = warden.spawn(sh("sleep 600")).unwrap();
    running.kill(KillReason::Asked);
    assert_eq!(ended(&running).why, ExitCause::Killed);
    let (_, how, _, pid) = run(&warden, sh("true"));
    assert!(how.why == ExitCause::Finished && pid != running.pid);
}

/// Every way to keep limits keeps them for each command alone, and what it used is its own.
#[test]
fn limits_and_figures_are_each_commands_own() {
    need_bubblewrap();
    for limits_by in [LimitEnforcerChoice::Best, LimitEnforcerChoice::Watchdog] {
        let settings = SpawnerSettings { limits_by, ..SpawnerSettings::default() };
        let warden = Spawner::start_with(settings).unwrap();
        let order = |script: &str| {
            let mut order = program("python3", &["-c", script]);
            order.profile.limits.memory_bytes = 400 * MB;
            order.profile.limits.processes = 20;
            order.timeout = Some(LONG);
            order
        };
        let holds = |megabytes: u64| {
            order(&format!("import time; x = b'x' * {}; time.sleep(0.5)", megabytes * MB))
        };
        for _ in 0..3 {
            let (_, how, ..) = run(&warden, holds(300));
            assert_eq!((how.why, how.exit_code), (ExitCause::Finished, Some(0)), "{limits_by:?}");
            assert!(how.max_memory_bytes >= 300 * MB, "{how:?}");
        }
        let (_, how, ..) = run(&warden, holds(1));
        assert!(how.max_memory_bytes < 200 * MB, "{limits_by:?}: {how:?}");
        let busy = "import time\nwhile time.process_time() < 1.5: pass";
        let (_, how, ..) = run(&warden, order(busy));
        assert!(how.cpu_time >= Duration::from_millis(1400), "{limits_by:?}: {how:?}");
        // Also of one that is killed behind walls that others had.
        let (_, how, ..) = run(&warden, order("pass"));
        assert!(how.cpu_time < Duration::from_secs(1), "{limits_by:?}: {how:?}");
        let running = warden.spawn(order("import time; time.sleep(600)")).unwrap();
        running.kill(KillReason::Asked);
        let how = ended(&running);
        assert!(how.cpu_time < Duration::from_secs(1), "{limits_by:?}: {how:?}");
        assert!(how.max_memory_bytes < 200 * MB, "{limits_by:?}: {how:?}");
        let (_, how, ..) = run(&warden, holds(1));
        assert_eq!(how.why, ExitCause::Finished, "{limits_by:?}");
        // One that is over a limit is told so, behind walls that others had, and the next is not.
        let (_, how, ..) = run(&warden, holds(600));
        assert!(
            matches!(how.why, ExitCause::MemoryLimit { limit, .. } if limit == 400 * MB),
            "{how:?}"
        );
        run(&warden, holds(1));
        let many =
            "import os, time\nfor i in range(40): os.fork() or time.sleep(600)\ntime.sleep(600)";
        let (_, how, ..) = run(&warden, order(many));
        assert!(
            matches!(how.why, ExitCause::ProcessLimit { limit: 20, .. }),
            "{limits_by:?}: {how:?}"
        );
        let (_, how, ..) = run(&warden, holds(300));
        assert_eq!((how.why, how.exit_code), (ExitCause::Finished, Some(0)), "{limits_by:?}");
    }
}

/// A keeper that had many commands holds what it held after the first.
#[test]
fn many_commands_add_nothing_to_their_keeper() {
    let warden = warden();
    let main = leave_walls(&warden);
    let stage = |main: i32| children(main as u32)[0].parse::<u32>().unwrap();
    let held = |main: i32| [fds(parent(main) as u32), fds(main as u32), fds(stage(main))];
    let before = held(main);
    for _ in 0..200 {
        let (_, how, ..) = run(&warden, sh("exec 9</dev/null; (true &); true"));
        assert_eq!(how.exit_code, Some(0));
    }
    let main = leave_walls(&warden);
    // The keeper may just be letting go of the last one.
    let now = held(main);
    let is_alike = now.iter().zip(&before).all(|(now, before)| *now < before + 20);
    assert!(is_alike, "{before:?}, {now:?}");
    let keeper = parent(main);
    drop(warden);
    assert_eq!(groups_of(&keeper.to_string()), [""; 0]);
    assert!(!std::path::Path::new(&format!("/proc/{keeper}")).exists());
}

/// Nothing that waits outlives the keeper or the warden, and others take its place.
#[test]
fn those_that_wait_go_with_whom_they_belong_to() {
    let warden = warden();
    let is_gone = |pid: i32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let main = leave_walls(&warden);
    kill(parent(main), Signal::KILL);
    wait_until(GONE_MAX, || is_gone(main), || "it lives on".to_owned());
    assert_eq!(run(&warden, sh("echo on")).0, "on\n");
    let main = leave_walls(&warden);
    kill(warden.pid().unwrap() as i32, Signal::KILL);
    wait_until(GONE_MAX, || is_gone(main), || "it lives on".to_owned());
    assert_eq!(run(&warden, sh("echo on")).0, "on\n");
}

/// Commands side by side have walls of their own, whoever had them before.
#[test]
fn two_at_once_do_not_meet() {
    let warden = warden();
    for _ in 0..5 {
        let script = "cat; set -- /proc/[0-9]*; echo $#";
        let all: Vec<RunningCommand> = (0..3).map(|_| warden.spawn(sh(script)).unwrap()).collect();
        let mains: std::collections::BTreeSet<i32> = all.iter().map(|one| one.pid).collect();
        assert_eq!(mains.len(), 3);
        for mut one in all {
            drop(one.stdin.take());
            // The last step, and the shell.
            assert_eq!(text(one.stdout.take().unwrap()), "2\n");
            assert_eq!(ended(&one).exit_code, Some(0));
        }
    }
}
