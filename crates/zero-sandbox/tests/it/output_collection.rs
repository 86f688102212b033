//! Output of any size is read, and a limited part of it kept.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use zero_core::{SecretMask, SecretValue};
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector, OutputSpill, OutputStream};
use zero_sandbox::running_command::{CommandExit, ExitCause, KillReason};
use zero_sandbox::spawner::{CommandStdio, SpawnSpec};

use crate::command_fixture::{
    GONE_MAX, LONG, find_marked, program_spec, shell_spec, start_spawner, unique_marker,
    wait_for_marked,
};

fn collect(order: SpawnSpec, collector: OutputCollector) -> (CollectedOutput, CommandExit) {
    let spawner = start_spawner();
    let mut running = spawner.spawn(order).unwrap();
    collector.collect(&mut running, |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn interleaved_output_keeps_order() {
    // Each part is written after the one before was read: data that waits in two streams has no
    // order.
    let script = "echo one; read x; echo two >&2; read x; echo three; exit 4";
    let spawner = start_spawner();
    let mut running = spawner.spawn(shell_spec(script)).unwrap();
    let mut stdin = std::fs::File::from(running.stdin.take().unwrap());
    let (collected, how) = OutputCollector::default()
        .collect(&mut running, |_| {
            // The last time, no process is left to read it.
            let _ = stdin.write_all(b"go\n");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(how.exit_code, Some(4));
    let runs: Vec<_> = collected.mixed.head().map(|run| (run.stream, run.bytes)).collect();
    assert_eq!(
        runs,
        [
            (OutputStream::Stdout, b"one\n".as_slice()),
            (OutputStream::Stderr, b"two\n"),
            (OutputStream::Stdout, b"three\n")
        ]
    );
    assert_eq!(collected.stdout.head(), b"one\nthree\n");
    assert_eq!(collected.stderr.head(), b"two\n");
}

#[test]
fn line_whose_end_is_held_back_stays_whole() {
    // A value may begin with the last letter of the first line.
    let value = SecretValue { name: "KEY".into(), text: "g8fJ2kQ9vLxZw3Rt7Yb".into() };
    let secrets = Arc::new(SecretMask::new([value]));
    let spawner = start_spawner();
    let script = "printf 'a\\nbad thing\\n' >&2; read x; echo one; read x";
    let mut running = spawner.spawn(shell_spec(script)).unwrap();
    let mut stdin = std::fs::File::from(running.stdin.take().unwrap());
    let collector = OutputCollector { secrets, ..OutputCollector::default() };
    let (collected, _) = collector
        .collect(&mut running, |_| {
            let _ = stdin.write_all(b"go\n");
            ControlFlow::Continue(())
        })
        .unwrap();
    let runs: Vec<_> = collected.mixed.head().map(|run| (run.stream, run.bytes)).collect();
    assert_eq!(
        runs,
        [
            (OutputStream::Stderr, b"a\n".as_slice()),
            (OutputStream::Stdout, b"one\n"),
            (OutputStream::Stderr, b"bad thing\n")
        ]
    );
}

#[test]
fn full_stream_does_not_block_the_other() {
    let script = "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; echo end";
    let (collected, _) = collect(shell_spec(script), OutputCollector::default());
    assert_eq!(collected.stderr.total_bytes(), 3_000_000);
    assert_eq!(collected.stdout.total_bytes(), 3_000_004);
    assert!(collected.stdout.tail().ends_with(b"\0end\n"));
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn gigabyte_of_output_needs_constant_memory() {
    let spawner = start_spawner();
    let mut running = spawner.spawn(program_spec("head", &["-c", "1G", "/dev/zero"])).unwrap();
    let before = resident_bytes();
    let mut most = 0;
    let mut reads = 0_u64;
    let (collected, how) = OutputCollector::default()
        .collect(&mut running, |_| {
            reads += 1;
            if reads.is_multiple_of(500) {
                most = most.max(resident_bytes());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((collected.mixed.total_bytes(), how.exit_code), (1 << 30, Some(0)));
    // Other tests run in this process too, and none of them needs that much.
    assert!(most < before + 64 * 1024 * 1024, "{most} after {before}");
}

#[test]
fn spill_file_gets_everything_up_to_limit() {
    for (bytes_max, expected) in [(u64::MAX, 2_000_000), (1_234_567, 1_234_567), (0, 0)] {
        let file = tempfile::tempfile().unwrap();
        let spill = Some(OutputSpill { file: Box::new(file.try_clone().unwrap()), bytes_max });
        let collector = OutputCollector { spill, ..OutputCollector::default() };
        let (collected, _) = collect(shell_spec("yes | head -c 2000000"), collector);
        assert_eq!((collected.spilled_bytes, file.metadata().unwrap().len()), (expected, expected));
        let mut start = [0; 4];
        std::os::unix::fs::FileExt::read_at(&file, &mut start, 0).unwrap();
        assert_eq!(&start, if expected == 0 { b"\0\0\0\0" } else { b"y\ny\n" });
    }
    // A file that cannot be written is reported, and the command goes on.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let spill = Some(OutputSpill { file: Box::new(full), bytes_max: u64::MAX });
    let collector = OutputCollector { spill, ..OutputCollector::default() };
    let (collected, how) = collect(shell_spec("yes | head -c 2000000"), collector);
    assert!(collected.spill_error.is_some() && how.exit_code == Some(0));
    assert_eq!(collected.mixed.total_bytes(), 2_000_000);
}

#[test]
fn outside_holder_of_stream_is_not_waited_for() {
    let spawner = start_spawner();
    let name = unique_marker("holds");
    let mut running =
        spawner.spawn(program_spec("sh", &["-c", "echo said; read x", &name])).unwrap();
    wait_for_marked(&name, 1, LONG);
    // Like a process that is not below the supervisor: it holds the writing end.
    let path = format!("/proc/{}/fd/1", find_marked(&name)[0]);
    let held = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    drop(running.stdin.take());
    let start = Instant::now();
    let (collected, how) =
        OutputCollector::default().collect(&mut running, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((collected.stdout.head(), how.exit_code), (b"said\n".as_slice(), Some(1)));
    assert!(start.elapsed() < GONE_MAX, "{:?}", start.elapsed());
    drop(held);
    // A process below the supervisor ends with the command.
    let mut running = spawner.spawn(shell_spec("echo said; sleep 600 & exit 0")).unwrap();
    let start = Instant::now();
    let (collected, how) =
        OutputCollector::default().collect(&mut running, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((collected.stdout.head(), how.leftover_processes), (b"said\n".as_slice(), 1));
    assert!(start.elapsed() < GONE_MAX, "{:?}", start.elapsed());
}

#[test]
fn progress_callback_can_kill_command() {
    let spawner = start_spawner();
    let mut running = spawner.spawn(program_spec("yes", &[])).unwrap();
    let (collected, how) = OutputCollector::default()
        .collect(&mut running, |news| {
            if news.total_bytes > 1_000_000 {
                ControlFlow::Break(KillReason::OutputLimit)
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(how.why, ExitCause::OutputLimit);
    assert!(collected.mixed.total_bytes() > 1_000_000);
}

#[test]
fn terminal_output_is_collected() {
    let mut order = shell_spec("echo out; echo err >&2");
    order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    let (collected, how) = collect(order, OutputCollector::default());
    assert_eq!((collected.stdout.head(), how.exit_code), (b"out\r\nerr\r\n".as_slice(), Some(0)));
}

#[test]
fn early_closed_stream_does_not_end_command() {
    let (_, how) =
        collect(shell_spec("exec >&- 2>&-; sleep 0.2; exit 7"), OutputCollector::default());
    assert_eq!(how.exit_code, Some(7));
}
