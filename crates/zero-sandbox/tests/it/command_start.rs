//! How commands start, what they get, and which errors are reported if they do not.

use std::io::Write as _;

use zero_sandbox::running_command::ExitCause;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec};

use crate::command_fixture::{
    program_spec, read_text, run, shell_spec, start_both_confinements, start_spawner, wait_for_exit,
};

#[test]
fn failed_start_says_why() {
    let spawner = start_spawner();
    let temp = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = |name: &str, content: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = temp.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let check = |order: SpawnSpec, expected: &str| {
        let error = spawner.spawn(order).unwrap_err().to_string();
        assert_eq!(error.replace(&temp.path().display().to_string(), "@"), expected);
    };
    check(
        program_spec("no-such-program", &[]),
        "program `no-such-program` was not found in `/usr/local/bin`, `/usr/bin`, `/bin`",
    );
    check(
        program_spec("/etc/passwd", &[]),
        "`/etc/passwd` cannot be executed: it has no permission to be executed",
    );
    check(
        program_spec(&file("script", "#!/no/shell\n"), &[]),
        "`@/script` cannot be executed: its interpreter does not exist",
    );
    check(
        program_spec(&file("noise", "\x7fELFnoise"), &[]),
        "`@/noise` cannot be executed: it is not a program",
    );
    let mut elsewhere = shell_spec("true");
    elsewhere.command.folder = temp.path().join("nowhere");
    check(elsewhere, "cannot start in folder `@/nowhere`");
    let mut in_file = shell_spec("true");
    in_file.command.folder = temp.path().join("script");
    check(in_file, "cannot start in folder `@/script`");
    check(
        program_spec("echo", &["x".repeat(200_000).as_str()]),
        "the arguments and the environment are larger than the kernel accepts",
    );
    check(
        program_spec("echo", &["x".repeat(100_000).as_str(); 50]),
        "the arguments and the environment are larger than the kernel accepts",
    );
    // The next command starts.
    assert_eq!(run(&spawner, shell_spec("echo fine")).0, "fine\n");
}

#[test]
fn exit_codes_and_signals_are_reported() {
    let spawners = start_both_confinements();
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 42", Some(42), None),
        ("exit 255", Some(255), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -SEGV $$", None, Some(11)),
        ("kill -KILL $$", None, Some(9)),
    ] {
        for spawner in &spawners {
            let (_, how) = run(spawner, shell_spec(script));
            let seen = (how.exit_code, how.signal, how.why);
            assert_eq!(seen, (code, signal, ExitCause::Finished), "{script}");
        }
    }
}

#[test]
fn command_gets_only_its_own_resources() {
    for (spawner, inside) in start_both_confinements().iter().zip([true, false]) {
        let mut order = shell_spec(
            "pwd; env | grep -v '^\\(PWD\\|_\\|SHLVL\\|OLDPWD\\)=' | sort; ls /proc/self/fd; \
            awk '/^Sig(Blk|Ign)/ {print $1, $2}' /proc/self/status; \
            [ $(ps -o sid= -p $$) = $$ ] && echo own session",
        );
        order.command.folder = "/usr".into();
        order.command.environment.push(("GREETING".into(), "hello\nworld".into()));
        let tmp = if inside { "/tmp".to_owned() } else { order.profile.tmp.display().to_string() };
        let _inherited =
            rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let (output, _) = run(spawner, order);
        assert_eq!(
            output,
            format!(
                "/usr\nGREETING=hello\nPATH=/usr/local/bin:/usr/bin:/bin\nTMPDIR={tmp}\nworld\n\
                 0\n1\n2\n3\nSigBlk: 0000000000000000\nSigIgn: 0000000000000000\nown session\n"
            )
        );
    }
}

#[test]
fn large_environment_arrives() {
    let spawner = start_spawner();
    let mut order = shell_spec("env | wc -c");
    for number in 0..12 {
        let value = "x".repeat(100_000);
        order.command.environment.push((format!("LARGE_{number}").into(), value.into()));
    }
    let (output, how) = run(&spawner, order);
    assert_eq!(how.exit_code, Some(0));
    assert!(output.trim().parse::<u64>().unwrap() > 1_200_000, "{output}");
}

#[test]
fn input_reaches_command() {
    let spawner = start_spawner();
    let mut running = spawner.spawn(program_spec("wc", &["-c"])).unwrap();
    let mut stdin = std::fs::File::from(running.stdin.take().unwrap());
    stdin.write_all(&[b'x'; 1_000_000]).unwrap();
    assert_eq!(running.try_wait(), None);
    drop(stdin);
    assert_eq!(read_text(running.stdout.take().unwrap()).trim(), "1000000");
    assert_eq!(wait_for_exit(&running).exit_code, Some(0));
}

#[test]
fn pty_is_a_terminal() {
    let spawner = start_spawner();
    let mut order = shell_spec(
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; \
        echo control >/dev/tty; read line; echo \"got $line\"",
    );
    order.stdio = CommandStdio::Pty { rows: 33, cols: 111 };
    let mut running = spawner.spawn(order).unwrap();
    assert!(running.stdin.is_none() && running.stderr.is_none());
    let terminal = running.stdout.take().unwrap();
    let mut input = std::fs::File::from(rustix::io::fcntl_dupfd_cloexec(&terminal, 3).unwrap());
    input.write_all(b"a line\n").unwrap();
    let output = read_text(terminal).replace('\r', "");
    assert_eq!(wait_for_exit(&running).exit_code, Some(0));
    for line in ["terminal", "control", "got a line", "33 111"] {
        assert!(output.lines().any(|seen| seen == line), "{line} in {output}");
    }
    // The interrupt key reaches the command.
    let mut order = program_spec("sleep", &["600"]);
    order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    let mut running = spawner.spawn(order).unwrap();
    let mut terminal = std::fs::File::from(running.stdout.take().unwrap());
    terminal.write_all(b"\x03").unwrap();
    assert_eq!(wait_for_exit(&running).signal, Some(2));
}

#[test]
fn terminal_has_name_and_job_control() {
    for spawner in start_both_confinements() {
        let script = "tty >/dev/null && echo named; bash --norc --noprofile -ic \
            'sleep 600 & jobs; kill %1; wait; echo inner' && echo controlled";
        let mut order = shell_spec(script);
        order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
        let mut running = spawner.spawn(order).unwrap();
        let output = read_text(running.stdout.take().unwrap()).replace('\r', "");
        assert_eq!(wait_for_exit(&running).exit_code, Some(0), "{output}");
        for line in ["named", "inner", "controlled"] {
            assert!(output.lines().any(|seen| seen == line), "{line} in {output}");
        }
        assert!(output.contains("Running") && !output.contains("no job control"), "{output}");
        assert!(!output.contains("cannot set terminal process group"), "{output}");
    }
}

#[test]
fn many_threads_spawn_commands_at_once() {
    let spawner = start_spawner();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let spawner = &spawner;
            scope.spawn(move || {
                for round in 0..5 {
                    let word = format!("{number}-{round}");
                    assert_eq!(run(spawner, shell_spec(&format!("echo {word}"))).0.trim(), word);
                }
            });
        }
    });
}
