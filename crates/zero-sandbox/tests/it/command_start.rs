//! How commands start, what they get, and what is said when they do not.

use std::io::Write as _;

use zero_sandbox::running_command::ExitCause;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec};

use crate::command_fixture::{both_walls, ended, program, run, sh, text, warden};

#[test]
fn a_command_that_cannot_start_says_why() {
    let warden = warden();
    let temp = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = |name: &str, content: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = temp.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let check = |order: SpawnSpec, expected: &str| {
        let error = warden.spawn(order).unwrap_err().to_string();
        assert_eq!(error.replace(&temp.path().display().to_string(), "@"), expected);
    };
    check(
        program("no-such-program", &[]),
        "program `no-such-program` was not found in `/usr/local/bin`, `/usr/bin`, `/bin`",
    );
    check(
        program("/etc/passwd", &[]),
        "`/etc/passwd` cannot be executed: it has no permission to be executed",
    );
    check(
        program(&file("script", "#!/no/shell\n"), &[]),
        "`@/script` cannot be executed: its interpreter does not exist",
    );
    check(
        program(&file("noise", "\x7fELFnoise"), &[]),
        "`@/noise` cannot be executed: it is no program",
    );
    let mut elsewhere = sh("true");
    elsewhere.command.folder = temp.path().join("nowhere");
    check(elsewhere, "cannot start in folder `@/nowhere`");
    let mut in_file = sh("true");
    in_file.command.folder = temp.path().join("script");
    check(in_file, "cannot start in folder `@/script`");
    check(
        program("echo", &["x".repeat(200_000).as_str()]),
        "the arguments and the environment are too large",
    );
    check(
        program("echo", &["x".repeat(100_000).as_str(); 50]),
        "the arguments and the environment are too large",
    );
    // And the next one starts.
    assert_eq!(run(&warden, sh("echo fine")).0, "fine\n");
}

#[test]
fn codes_and_signals_arrive() {
    let wardens = both_walls();
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 42", Some(42), None),
        ("exit 255", Some(255), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -SEGV $$", None, Some(11)),
        ("kill -KILL $$", None, Some(9)),
    ] {
        for warden in &wardens {
            let (_, how) = run(warden, sh(script));
            let seen = (how.exit_code, how.signal, how.why);
            assert_eq!(seen, (code, signal, ExitCause::Finished), "{script}");
        }
    }
}

#[test]
fn a_command_gets_its_own_and_nothing_else() {
    for (warden, inside) in both_walls().iter().zip([true, false]) {
        let mut order =
            sh("pwd; env | grep -v '^\\(PWD\\|_\\|SHLVL\\|OLDPWD\\)=' | sort; ls /proc/self/fd; \
            awk '/^Sig(Blk|Ign)/ {print $1, $2}' /proc/self/status; \
            [ $(ps -o sid= -p $$) = $$ ] && echo own session");
        order.command.folder = "/usr".into();
        order.command.environment.push(("GREETING".into(), "hello\nworld".into()));
        let tmp = if inside { "/tmp".to_owned() } else { order.profile.tmp.display().to_string() };
        let _inherited =
            rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let (output, _) = run(warden, order);
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
fn a_large_environment_arrives() {
    let warden = warden();
    let mut order = sh("env | wc -c");
    for number in 0..12 {
        let value = "x".repeat(100_000);
        order.command.environment.push((format!("LARGE_{number}").into(), value.into()));
    }
    let (output, how) = run(&warden, order);
    assert_eq!(how.exit_code, Some(0));
    assert!(output.trim().parse::<u64>().unwrap() > 1_200_000, "{output}");
}

#[test]
fn input_reaches_a_command() {
    let warden = warden();
    let mut running = warden.spawn(program("wc", &["-c"])).unwrap();
    let mut stdin = std::fs::File::from(running.stdin.take().unwrap());
    stdin.write_all(&[b'x'; 1_000_000]).unwrap();
    assert_eq!(running.try_ended(), None);
    drop(stdin);
    assert_eq!(text(running.stdout.take().unwrap()).trim(), "1000000");
    assert_eq!(ended(&running).exit_code, Some(0));
}

#[test]
fn a_terminal_is_one() {
    let warden = warden();
    let mut order = sh("test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; \
        echo control >/dev/tty; read line; echo \"got $line\"");
    order.stdio = CommandStdio::Pty { rows: 33, cols: 111 };
    let mut running = warden.spawn(order).unwrap();
    assert!(running.stdin.is_none() && running.stderr.is_none());
    let terminal = running.stdout.take().unwrap();
    let mut input = std::fs::File::from(rustix::io::fcntl_dupfd_cloexec(&terminal, 3).unwrap());
    input.write_all(b"a line\n").unwrap();
    let output = text(terminal).replace('\r', "");
    assert_eq!(ended(&running).exit_code, Some(0));
    for line in ["terminal", "control", "got a line", "33 111"] {
        assert!(output.lines().any(|seen| seen == line), "{line} in {output}");
    }
    // The interrupt key reaches the command.
    let mut order = program("sleep", &["600"]);
    order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
    let mut running = warden.spawn(order).unwrap();
    let mut terminal = std::fs::File::from(running.stdout.take().unwrap());
    terminal.write_all(b"\x03").unwrap();
    assert_eq!(ended(&running).signal, Some(2));
}

#[test]
fn a_terminal_has_a_name_and_controls_jobs() {
    for warden in both_walls() {
        let script = "tty >/dev/null && echo named; bash --norc --noprofile -ic \
            'sleep 600 & jobs; kill %1; wait; echo inner' && echo controlled";
        let mut order = sh(script);
        order.stdio = CommandStdio::Pty { rows: 24, cols: 80 };
        let mut running = warden.spawn(order).unwrap();
        let output = text(running.stdout.take().unwrap()).replace('\r', "");
        assert_eq!(ended(&running).exit_code, Some(0), "{output}");
        for line in ["named", "inner", "controlled"] {
            assert!(output.lines().any(|seen| seen == line), "{line} in {output}");
        }
        assert!(output.contains("Running") && !output.contains("no job control"), "{output}");
        assert!(!output.contains("cannot set terminal process group"), "{output}");
    }
}

#[test]
fn many_threads_start_commands_at_once() {
    let warden = warden();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let warden = &warden;
            scope.spawn(move || {
                for round in 0..5 {
                    let word = format!("{number}-{round}");
                    assert_eq!(run(warden, sh(&format!("echo {word}"))).0.trim(), word);
                }
            });
        }
    });
}
