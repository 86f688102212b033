//! A reused sandbox is like a new one for the next command; otherwise the command gets a new one.

use std::time::Duration;

use rustix::process::Signal;
use zero_sandbox::running_command::{
    CommandExit, ExitCause, KillReason, RunningCommand, SandboxReuse,
};
use zero_sandbox::spawner::{
    CommandStdio, LimitEnforcerChoice, SpawnSpec, Spawner, SpawnerSettings,
};

use crate::command_fixture::{
    GONE_MAX, LONG, count_fds, find_cgroups, find_marked, kill, list_children, parent_pid,
    program_spec, read_text, require_bubblewrap, shell_spec, start_spawner, unique_marker,
    wait_for_exit, wait_until,
};

const MB: u64 = 1 << 20;

/// Runs a command to its end, and returns its output, its exit, whether its sandbox was ready, and
/// the process ID.
#[track_caller]
fn run(spawner: &Spawner, order: SpawnSpec) -> (String, CommandExit, SandboxReuse, i32) {
    let mut running = spawner.spawn(order).unwrap();
    drop(running.stdin.take());
    let output = read_text(running.stdout.take().unwrap());
    (output, wait_for_exit(&running), running.sandbox_reuse, running.pid)
}

/// Runs commands until one reuses the sandbox of the one before.
#[track_caller]
fn leave_reusable_sandbox(spawner: &Spawner) -> i32 {
    for _ in 0..20 {
        let (_, _, _, first) = run(spawner, shell_spec("true"));
        let (_, _, reuse, second) = run(spawner, shell_spec("true"));
        // Other tests create sockets, which make a new sandbox necessary.
        if reuse == SandboxReuse::Prewarmed && first == second {
            return second;
        }
    }
    panic!("no sandbox was reused");
}

/// In a reused sandbox, the next command is alone and has its own streams.
#[test]
fn next_command_is_alone_in_reused_sandbox() {
    let spawner = start_spawner();
    let look = "ls /proc/self/fd | wc -l; set -- /proc/[0-9]*; echo $#; ls -A /dev/shm /dev/mqueue; \
                cat /proc/sysvipc/* | wc -l; echo $PWD $A; umask; cat";
    let order = |value: &str, folder: &str| {
        let mut order = shell_spec(look);
        order.command.environment.push(("A".into(), value.into()));
        order.command.folder = folder.into();
        order
    };
    let (first, ..) = run(&spawner, order("one", "/usr"));
    leave_reusable_sandbox(&spawner);
    let mut seen_ready = false;
    for _ in 0..20 {
        let (second, how, reuse, _) = run(&spawner, order("two", "/etc"));
        assert_eq!(second, first.replace("/usr one", "/etc two"));
        assert_eq!((how.exit_code, how.why), (Some(0), ExitCause::Finished));
        seen_ready |= reuse == SandboxReuse::Prewarmed;
    }
    assert!(seen_ready);
}

/// The next command finds nothing that an earlier one left.
#[test]
fn next_command_finds_no_residue() {
    let libc = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True);";
    let python = |code: &str| program_spec("python3", &["-c", &format!("{libc} {code}")]);
    let rows = [
        (shell_spec("echo x >/dev/shm/x"), shell_spec("ls /dev/shm")),
        (shell_spec("mkdir /dev/shm/x"), shell_spec("ls /dev/shm")),
        (shell_spec("chmod 700 /dev/shm"), shell_spec("stat -c %a /dev/shm | grep -v 755")),
        (shell_spec("chmod 700 /dev"), shell_spec("stat -c %a /dev | grep -v 755")),
        (shell_spec("chmod 700 /dev/pts"), shell_spec("stat -c %a /dev/pts | grep -v 755")),
        (shell_spec("ipcmk -M 4096"), shell_spec("tail -qn+2 /proc/sysvipc/*")),
        (shell_spec("ipcmk -S 1"), shell_spec("tail -qn+2 /proc/sysvipc/*")),
        (shell_spec("ipcmk -Q"), shell_spec("tail -qn+2 /proc/sysvipc/*")),
        // Landlock forbids opening it, but it is created before that is checked.
        (
            python("c.mq_open(b'/x', os.O_CREAT | os.O_RDWR, 0o600, None)"),
            python(
                "c.mq_open(b'/x', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, None); \
                 ctypes.get_errno() == 17 and print('found')",
            ),
        ),
    ];
    let spawner = start_spawner();
    for (first, mut second) in rows {
        let args = format!("{:?}", first.command.args);
        leave_reusable_sandbox(&spawner);
        let (_, how, ..) = run(&spawner, first);
        assert_eq!((how.exit_code, how.why), (Some(0), ExitCause::Finished), "{args}");
        second.timeout = Some(LONG);
        let (found, _, reuse, _) = run(&spawner, second);
        assert_eq!((found.as_str(), reuse), ("", SandboxReuse::New), "{args}");
    }
}

/// After an abnormal end of a command, its sandbox is not reused.
#[test]
fn abnormal_exit_ends_sandbox() {
    let spawner = start_spawner();
    let name = unique_marker("again");
    let stays = format!(
        "(setsid bash -c 'exec -a {name} sleep 600' &) ; \
                         until pgrep -fx '{name} 600' >/dev/null; do :; done"
    );
    let mut late = shell_spec("sleep 600");
    late.timeout = Some(Duration::from_millis(50));
    let mut fat = shell_spec("head -c 300M /dev/zero | tail | wc -c");
    fat.profile.limits.memory_bytes = 100 * MB;
    let mut bomb = shell_spec("for i in $(seq 60); do sleep 600 & done; wait");
    bomb.profile.limits.processes = 30;
    let mut terminal = shell_spec("true");
    terminal.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    for (first, leftover) in [
        (shell_spec(&stays), 1),
        (late, 0),
        (fat, 0),
        (bomb, 0),
        (shell_spec("kill -9 $$"), 0),
        (terminal, 0),
    ] {
        let args = format!("{:?}", first.command.args);
        let profile = first.profile.clone();
        let (_, how, _, pid) = run(&spawner, first);
        assert_eq!(how.leftover_processes, leftover, "{args}: {how:?}");
        assert_eq!(find_marked(&name), [0; 0], "{args}");
        let mut second = shell_spec("sleep 0.2; echo well");
        second.profile = profile;
        let (output, then, _, next) = run(&spawner, second);
        assert_eq!((output.as_str(), then.why), ("well\n", ExitCause::Finished), "{args}");
        assert_eq!(then.leftover_processes, 0, "{args}");
        // A signal that the command sends itself is a normal end.
        assert!(pid != next || how.signal == Some(libc::SIGKILL), "{args}");
    }
    let running = spawner.spawn(shell_spec("sleep 600")).unwrap();
    running.kill(KillReason::Asked);
    assert_eq!(wait_for_exit(&running).why, ExitCause::Killed);
    let (_, how, _, pid) = run(&spawner, shell_spec("true"));
    assert!(how.why == ExitCause::Finished && pid != running.pid);
}

/// Every enforcer applies limits to each command alone, and usage is counted per command.
#[test]
fn limits_and_usage_are_per_command() {
    require_bubblewrap();
    for limits_by in [LimitEnforcerChoice::Best, LimitEnforcerChoice::Watchdog] {
        let settings = SpawnerSettings { limits_by, ..SpawnerSettings::default() };
        let spawner = Spawner::start_with_settings(settings).unwrap();
        let order = |script: &str| {
            let mut order = program_spec("python3", &["-c", script]);
            order.profile.limits.memory_bytes = 400 * MB;
            order.profile.limits.processes = 20;
            order.timeout = Some(LONG);
            order
        };
        // Long enough for a watchdog that checks now and then.
        let holds_for = |megabytes: u64, seconds: f64| {
            order(&format!("import time; x = b'x' * {}; time.sleep({seconds})", megabytes * MB))
        };
        let holds = |megabytes: u64| holds_for(megabytes, 0.15);
        for _ in 0..2 {
            let (_, how, ..) = run(&spawner, holds(300));
            assert_eq!((how.why, how.exit_code), (ExitCause::Finished, Some(0)), "{limits_by:?}");
            assert!(how.max_memory_bytes >= 300 * MB, "{how:?}");
        }
        let (_, how, ..) = run(&spawner, holds(1));
        assert!(how.max_memory_bytes < 200 * MB, "{limits_by:?}: {how:?}");
        let busy = "import time\nwhile time.process_time() < 1.1: pass";
        let (_, how, ..) = run(&spawner, order(busy));
        assert!(how.cpu_time >= Duration::from_secs(1), "{limits_by:?}: {how:?}");
        // Also for a command that is killed in a reused sandbox.
        let (_, how, ..) = run(&spawner, order("pass"));
        assert!(how.cpu_time < Duration::from_secs(1), "{limits_by:?}: {how:?}");
        let running = spawner.spawn(order("import time; time.sleep(600)")).unwrap();
        running.kill(KillReason::Asked);
        let how = wait_for_exit(&running);
        assert!(how.cpu_time < Duration::from_secs(1), "{limits_by:?}: {how:?}");
        assert!(how.max_memory_bytes < 200 * MB, "{limits_by:?}: {how:?}");
        let (_, how, ..) = run(&spawner, holds(1));
        assert_eq!(how.why, ExitCause::Finished, "{limits_by:?}");
        // A command that exceeds a limit in a reused sandbox is reported, and the next one is not.
        let (_, how, ..) = run(&spawner, holds_for(600, 600.0));
        assert!(
            matches!(how.why, ExitCause::MemoryLimit { limit, .. } if limit == 400 * MB),
            "{how:?}"
        );
        run(&spawner, holds(1));
        let many =
            "import os, time\nfor i in range(40): os.fork() or time.sleep(600)\ntime.sleep(600)";
        let (_, how, ..) = run(&spawner, order(many));
        assert!(
            matches!(how.why, ExitCause::ProcessLimit { limit: 20, .. }),
            "{limits_by:?}: {how:?}"
        );
        let (_, how, ..) = run(&spawner, holds(300));
        assert_eq!((how.why, how.exit_code), (ExitCause::Finished, Some(0)), "{limits_by:?}");
    }
}

/// After many commands, a worker has the same resources open as after the first.
#[test]
fn many_commands_do_not_grow_supervisor() {
    let spawner = start_spawner();
    let main = leave_reusable_sandbox(&spawner);
    let stage = |main: i32| list_children(main as u32)[0].parse::<u32>().unwrap();
    let held = |main: i32| {
        [count_fds(parent_pid(main) as u32), count_fds(main as u32), count_fds(stage(main))]
    };
    let before = held(main);
    for _ in 0..200 {
        let (_, how, ..) = run(&spawner, shell_spec("exec 9</dev/null; (true &); true"));
        assert_eq!(how.exit_code, Some(0));
    }
    let main = leave_reusable_sandbox(&spawner);
    // The supervisor may still be closing descriptors of the last command.
    let now = held(main);
    let is_alike = now.iter().zip(&before).all(|(now, before)| *now < before + 20);
    assert!(is_alike, "{before:?}, {now:?}");
    let supervisor = parent_pid(main);
    drop(spawner);
    assert_eq!(find_cgroups(&supervisor.to_string()), [""; 0]);
    assert!(!std::path::Path::new(&format!("/proc/{supervisor}")).exists());
}

/// Nothing that waits outlives the worker or the spawner, and new ones replace it.
#[test]
fn waiting_workers_end_with_supervisor_or_spawner() {
    let spawner = start_spawner();
    let is_gone = |pid: i32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let main = leave_reusable_sandbox(&spawner);
    kill(parent_pid(main), Signal::KILL);
    wait_until(GONE_MAX, || is_gone(main), || "it lives on".to_owned());
    assert_eq!(run(&spawner, shell_spec("echo on")).0, "on\n");
    let main = leave_reusable_sandbox(&spawner);
    kill(spawner.pid().unwrap() as i32, Signal::KILL);
    wait_until(GONE_MAX, || is_gone(main), || "it lives on".to_owned());
    assert_eq!(run(&spawner, shell_spec("echo on")).0, "on\n");
}

/// Concurrent commands have separate sandboxes, whichever commands used them before.
#[test]
fn parallel_commands_have_separate_sandboxes() {
    let spawner = start_spawner();
    for _ in 0..5 {
        let script = "cat; set -- /proc/[0-9]*; echo $#";
        let all: Vec<RunningCommand> =
            (0..3).map(|_| spawner.spawn(shell_spec(script)).unwrap()).collect();
        let mains: std::collections::BTreeSet<i32> = all.iter().map(|one| one.pid).collect();
        assert_eq!(mains.len(), 3);
        for mut one in all {
            drop(one.stdin.take());
            // The init process and the shell.
            assert_eq!(read_text(one.stdout.take().unwrap()), "2\n");
            assert_eq!(wait_for_exit(&one).exit_code, Some(0));
        }
    }
}
