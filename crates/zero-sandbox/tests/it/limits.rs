//! Limits apply to whole process trees, whatever enforces them.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use zero_sandbox::running_command::{ExitCause, KillReason, LimitEnforcer};
use zero_sandbox::spawner::{LayerSelection, LimitEnforcerChoice, Spawner, SpawnerSettings};

use crate::command_fixture::{
    GONE_MAX, LONG, find_cgroups, find_marked, kill, list_children, parent_pid, program_spec,
    require_bubblewrap, run, shell_spec, start_all_variants, start_both_confinements,
    unique_marker, wait_for_exit, wait_for_marked, wait_until,
};

const MB: u64 = 1024 * 1024;
/// How often a processor share is measured on a machine that is shared with others.
const SHARE_TRIES_MAX: u32 = 5;

#[test]
fn memory_limit_ends_the_tree() {
    for spawner in start_all_variants() {
        // One process, or several that are each within the limit.
        for script in [
            "head -c 200M /dev/zero | tail; sleep 600",
            "for i in 1 2 3 4; do (head -c 25M /dev/zero | tail -c 25M | (sleep 600)) & done; \
             for i in 1 2 3 4; do (x=$(head -c 20M /dev/zero | tr '\\0' x); sleep 600) & done; wait",
        ] {
            let mut order = shell_spec(script);
            order.profile.limits.memory_bytes = 64 * MB;
            order.timeout = Some(LONG);
            let running = spawner.spawn(order).unwrap();
            let how = wait_for_exit(&running);
            let ExitCause::MemoryLimit { limit, used } = how.why else {
                panic!("{how:?} {:?}", running.limits)
            };
            assert_eq!(limit, 64 * MB);
            assert!(used >= limit && used < 1024 * MB, "{used}");
        }
        let mut order = shell_spec("head -c 20M /dev/zero | tail -c 20M | wc -c");
        order.profile.limits.memory_bytes = 200 * MB;
        let (output, how) = run(&spawner, order);
        assert_eq!((output.as_str(), how.why), ("20971520\n", ExitCause::Finished));
        assert!(how.max_memory_bytes > MB, "{}", how.max_memory_bytes);
    }
}

#[test]
fn disk_limit_ends_the_tree() {
    for spawner in start_both_confinements() {
        let folder = unique_marker("disk");
        let mut order = shell_spec(&format!(
            "mkdir \"$TMPDIR/{folder}\"; for i in $(seq 300); do \
             head -c 5M /dev/zero > \"$TMPDIR/{folder}/$i\"; sleep 0.02; done; sleep 600"
        ));
        order.profile.limits.disk_bytes = 30 * MB;
        order.profile.limits.file_bytes = 10 * MB;
        order.timeout = Some(LONG);
        let written = order.profile.tmp.join(folder);
        let how = wait_for_exit(&spawner.spawn(order).unwrap());
        std::fs::remove_dir_all(written).unwrap();
        let ExitCause::DiskLimit { limit, used } = how.why else { panic!("{how:?}") };
        assert!(limit == 30 * MB && used > limit, "{used}");
    }
}

/// Files in memory count as memory, whether or not a process has them mapped.
#[test]
fn memory_files_count_towards_limit() {
    const MEMFD: &str = "import os, mmap, time\n\
        def fill(size):\n    fd = os.memfd_create('x')\n    os.write(fd, bytes(size))\n    return fd\n";
    let many = format!("{MEMFD}fds = [fill(10 << 20) for _ in range(12)]\ntime.sleep(600)");
    let passed = format!(
        "{MEMFD}fds = [fill(10 << 20) for _ in range(12)]\n\
         for fd in fds: os.set_inheritable(fd, True)\nos.execvp('sleep', ['sleep', '600'])"
    );
    let mapped = format!(
        "{MEMFD}fd = fill(50 << 20)\nm = mmap.mmap(fd, 50 << 20)\nm.write(bytes(50 << 20))\n\
         time.sleep(0.5)\nprint('fits')"
    );
    for spawner in start_watchdog_spawners() {
        for script in [&many, &passed] {
            let mut order = program_spec("python3", &["-c", script]);
            order.profile.limits.memory_bytes = 100 * MB;
            order.timeout = Some(LONG);
            let how = wait_for_exit(&spawner.spawn(order).unwrap());
            let ExitCause::MemoryLimit { limit, used } = how.why else {
                panic!("{script}: {how:?}")
            };
            assert!(limit == 100 * MB && used < 400 * MB, "{used}");
        }
        // If it is mapped as well, it counts once.
        let mut order = program_spec("python3", &["-c", &mapped]);
        order.profile.limits.memory_bytes = 140 * MB;
        let (output, how) = run(&spawner, order);
        assert_eq!((output.as_str(), how.why), ("fits\n", ExitCause::Finished));
    }
}

#[test]
fn shared_memory_files_count_towards_limit() {
    let [mounts, direct] = start_watchdog_spawners();
    for script in [
        "head -c 90M /dev/zero > /dev/shm/x; sleep 600",
        "for i in 1 2 3 4 5 6; do head -c 20M /dev/zero > /dev/shm/$i & done; wait; sleep 600",
        "exec 7>/dev/shm/x; rm /dev/shm/x; head -c 90M /dev/zero >&7; sleep 600",
    ] {
        let mut order = shell_spec(script);
        order.profile.limits.memory_bytes = 64 * MB;
        order.timeout = Some(LONG);
        let how = wait_for_exit(&mounts.spawn(order).unwrap());
        let ExitCause::MemoryLimit { used, .. } = how.why else { panic!("{script}: {how:?}") };
        assert!(used < 100 * MB, "{used}");
    }
    let mut order =
        shell_spec("df -B1 --output=size /dev/shm | tail -1; head -c 40M /dev/zero > /dev/shm/x");
    order.profile.limits.memory_bytes = 64 * MB;
    let (output, how) = run(&mounts, order);
    assert_eq!((output.trim(), how.why), ("67108864", ExitCause::Finished));
    // Without mounts it is the host's, and cannot be written to.
    let (output, _) = run(&direct, shell_spec("echo x > /dev/shm/zero-test || echo refused"));
    assert_eq!(output, "refused\n");
}

/// A supervisor that has not yet left the command's group is not what the kernel kills.
#[test]
fn memory_exceeded_before_supervisor_left_is_reported() {
    require_bubblewrap();
    let spawner = Spawner::start().unwrap();
    let mut order = shell_spec("head -c 16M /dev/zero > /dev/shm/x; sleep 600");
    order.profile.limits.memory_bytes = 16 * MB;
    order.timeout = Some(LONG);
    let running = spawner.spawn(order).unwrap();
    let supervisor = parent_pid(running.pid);
    // It cannot leave the group.
    kill(supervisor, Signal::STOP);
    let score = |pid: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        text.trim().to_owned()
    };
    assert_eq!(score(&supervisor.to_string()), score("self"));
    let is_first = score(&running.pid.to_string()) == "1000";
    assert_eq!(is_first, running.limits.memory == LimitEnforcer::CgroupV1);
    let main = u32::try_from(running.pid).unwrap();
    let is_killed = || list_children(main).is_empty();
    wait_until(GONE_MAX, is_killed, || "the kernel kills nothing".to_owned());
    kill(supervisor, Signal::CONT);
    let how = wait_for_exit(&running);
    assert!(matches!(how.why, ExitCause::MemoryLimit { .. }), "{how:?}");
}

/// One spawner with mounts, and one without.
fn start_watchdog_spawners() -> [Spawner; 2] {
    require_bubblewrap();
    [LayerSelection::All, LayerSelection::WithoutBubblewrap].map(|layers| {
        Spawner::start_with_settings(SpawnerSettings {
            limits_by: LimitEnforcerChoice::Watchdog,
            layers,
            ..SpawnerSettings::default()
        })
        .unwrap()
    })
}

#[test]
fn process_limit_ends_the_tree() {
    for spawner in start_all_variants() {
        let name = unique_marker("many");
        let mut order = program_spec(
            "bash",
            &["-c", &format!("for i in {{1..60}}; do (exec -a {name} sleep 600) & done; wait")],
        );
        order.profile.limits.processes = 30;
        order.timeout = Some(LONG);
        let how = wait_for_exit(&spawner.spawn(order).unwrap());
        let ExitCause::ProcessLimit { limit, used } = how.why else { panic!("{how:?}") };
        assert!(limit == 30 && used > 30, "{used}");
        assert_eq!(find_marked(&name), [0; 0]);
    }
}

/// Only the kernel can limit a fork bomb, so the test is about its limit only.
#[test]
fn fork_bomb_is_contained() {
    for spawner in start_both_confinements() {
        run_fork_bomb(&spawner);
    }
}

fn run_fork_bomb(spawner: &Spawner) {
    let name = unique_marker("bomb");
    let mut order =
        program_spec("bash", &["-c", "bomb() { bomb | bomb & }; bomb; sleep 600", &name]);
    order.profile.limits.processes = 60;
    order.profile.limits.cpu_percent = 100;
    order.timeout = Some(LONG);
    let mut probe = shell_spec("true");
    probe.profile.limits = order.profile.limits;
    if spawner.spawn(probe).unwrap().limits.processes == LimitEnforcer::Watchdog {
        order.command.args[1] = "for i in {1..500}; do sleep 600 & done; wait".into();
    }
    let start = Instant::now();
    let how = wait_for_exit(&spawner.spawn(order).unwrap());
    assert!(matches!(how.why, ExitCause::ProcessLimit { limit: 60, .. }), "{how:?}");
    assert!(start.elapsed() < GONE_MAX, "{:?}", start.elapsed());
    assert_eq!(find_marked(&name), [0; 0]);
}

/// A process that keeps forking and exiting: its ID has changed whenever it is searched for.
#[test]
fn ever_forking_process_is_ended() {
    for spawner in start_all_variants() {
        let name = unique_marker("comet");
        let mut order = program_spec("perl", &["-e", "while (1) { fork and exit }", &name]);
        order.profile.limits.cpu_percent = 100;
        // What has exited counts as a process until it is reaped, which a busy machine delays.
        order.profile.limits.processes = 100_000;
        let running = spawner.spawn(order).unwrap();
        // Its main process ends at once; the rest is left over.
        let start = Instant::now();
        let how = wait_for_exit(&running);
        assert_eq!(how.why, ExitCause::Finished);
        assert!(how.leftover_processes > 0 && start.elapsed() < GONE_MAX, "{how:?}");
        wait_for_marked(&name, 0, GONE_MAX);
    }
}

#[test]
fn cpu_limit_throttles_without_ending() {
    // Two processes that want a processor each, and finish although they do not get it. They count
    // their own time: on a fast machine, a fixed number of steps ends before the watchdog looks.
    const COUNT: &str =
        "python3 -c 'import time\nwhile time.process_time() < 0.5: sum(range(1000))'";
    for spawner in start_all_variants() {
        let share = || {
            let mut order = shell_spec(&format!("({COUNT}) & {COUNT}; wait"));
            order.profile.limits.cpu_percent = 40;
            order.timeout = Some(LONG);
            let start = Instant::now();
            let how = wait_for_exit(&spawner.spawn(order).unwrap());
            assert_eq!((how.why, how.exit_code), (ExitCause::Finished, Some(0)));
            how.cpu_time.as_secs_f64() / start.elapsed().as_secs_f64()
        };
        // The watchdog may be delayed for a while, but not every time.
        let mut shares = (0..SHARE_TRIES_MAX).map(|_| share());
        assert!(shares.any(|share| share < 0.6), "it has more than its share");
    }
}

#[test]
fn process_stopped_by_others_stays_stopped() {
    let settings =
        SpawnerSettings { limits_by: LimitEnforcerChoice::Watchdog, ..SpawnerSettings::default() };
    let spawner = Spawner::start_with_settings(settings).unwrap();
    let (name, busy) = (unique_marker("halted"), unique_marker("busy"));
    let script = format!(
        "(exec -a {name} sleep 600) & \
        until grep -q sleep /proc/$!/comm; do sleep 0.01; done; kill -STOP $!; while :; do :; done"
    );
    let mut order = program_spec("bash", &["-c", &script, &busy]);
    order.profile.limits.cpu_percent = 20;
    let running = spawner.spawn(order).unwrap();
    wait_for_marked(&name, 1, LONG);
    wait_for_marked(&busy, 1, LONG);
    let stat = |mark: &str| {
        std::fs::read_to_string(format!("/proc/{}/stat", find_marked(mark)[0])).unwrap()
    };
    let is_stopped = |mark: &str| stat(mark).contains(") T ");
    wait_until(LONG, || is_stopped(&name), || stat(&name));
    // Some rounds of stopping and continuing.
    for _ in 0..3 {
        for stopped in [true, false] {
            wait_until(LONG, || is_stopped(&busy) == stopped, || stat(&busy));
            assert!(is_stopped(&name), "{}", stat(&name));
        }
    }
    running.kill(KillReason::Asked);
    wait_for_exit(&running);
}

#[test]
fn limit_enforcer_is_reported_and_removed() {
    let [best, watchdog] =
        [LimitEnforcerChoice::Best, LimitEnforcerChoice::Watchdog].map(|limits_by| {
            Spawner::start_with_settings(SpawnerSettings {
                limits_by,
                ..SpawnerSettings::default()
            })
            .unwrap()
        });
    let order = shell_spec("sleep 600");
    let limits = order.profile.limits;
    for spawner in [&best, &watchdog] {
        let running = spawner.spawn(order.clone()).unwrap();
        let report = spawner.limits_report(&limits);
        assert_eq!(running.limits, report);
        let supervisor = parent_pid(running.pid);
        let has_groups = [report.memory, report.cpu, report.processes]
            .iter()
            .any(|by| *by != LimitEnforcer::Watchdog);
        // Groups that were joined ahead exist for the watchdog too, without limits.
        assert!(!has_groups || !find_cgroups(&supervisor.to_string()).is_empty());
        running.kill(KillReason::Asked);
        wait_for_exit(&running);
        let left = || find_cgroups(&supervisor.to_string());
        wait_until(GONE_MAX, || left().is_empty(), || format!("{:?}", left()));
    }
    assert_eq!(watchdog.limits_report(&limits).memory, LimitEnforcer::Watchdog);
    assert_eq!(find_cgroups(&std::process::id().to_string()), [""; 0]);
}

#[test]
fn threads_do_not_count_as_processes() {
    let script = "import threading, time\n\
        ts = [threading.Thread(target=time.sleep, args=(0.4,)) for _ in range(40)]\n\
        [t.start() for t in ts]\n[t.join() for t in ts]\nprint('done')";
    for spawner in start_all_variants() {
        let mut order = program_spec("python3", &["-c", script]);
        order.profile.limits.processes = 10;
        let (output, how) = run(&spawner, order);
        assert_eq!((output.as_str(), how.why), ("done\n", ExitCause::Finished));
    }
}

/// Reads and writes past the page cache: the kernel of version 1 limits no others.
#[test]
fn disk_rate_is_limited_or_reported_as_not() {
    const RATE: u64 = 4 * MB;
    let temp = tempfile::tempdir().unwrap();
    let spawner = start_all_variants().into_iter().next().unwrap();
    let script = "dd if=/dev/zero of=big bs=1M count=16 oflag=direct 2>/dev/null; stat -c %s big";
    let mut order = shell_spec(script);
    order.command.folder = temp.path().to_owned();
    order.profile.writable = vec![temp.path().to_owned()];
    let usual = spawner.spawn(order.clone()).unwrap();
    assert_eq!(usual.limits.disk_rate, None);
    let usual = wait_for_exit(&usual);
    assert_eq!(usual.exit_code, Some(0));
    order.profile.limits.disk_rate = RATE;
    let began = Instant::now();
    let running = spawner.spawn(order).unwrap();
    let by = running.limits.disk_rate.unwrap();
    assert_eq!(wait_for_exit(&running).exit_code, Some(0));
    let least = Duration::from_secs(16 * MB / RATE) / 2;
    match by {
        LimitEnforcer::Nothing => {}
        _ => assert!(began.elapsed() >= least, "{by:?}: {:?}", began.elapsed()),
    }
}
