//! Everyday commands work in the sandbox.

use rustix::process::Signal;
use zero_sandbox::NetworkAccess;

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup};
use crate::command_fixture::{kill, list_children, run, shell_spec, start_both_confinements};

#[track_caller]
fn check(script: &str, expected: &str) {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let answer = lab.run_shell(&lab.profile(SandboxSetup::Full), script);
        assert_eq!(answer, expected, "{script} by {who:?}");
    }
}

/// The names in a folder, except for the host's socket.
fn list_names(lab: &AttackLab, folder: &str) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(lab.path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "door")
        .collect();
    names.sort();
    names
}

#[test]
fn git_commits_and_status_is_clean() {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let mut profile = lab.profile(SandboxSetup::Full);
        profile.limits.open_files = 1024;
        std::fs::remove_dir_all(lab.path("ws/.git")).unwrap();
        std::fs::remove_file(lab.path("ws/.env")).unwrap();
        std::fs::remove_dir_all(lab.path("ws/keys")).unwrap();
        let made = lab.run(SandboxSetup::Bare, &profile, "git", &["init", "-q"]);
        assert_eq!(made, "");
        let script = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a \
             GIT_COMMITTER_EMAIL=a; git add -A && git commit -qm one && echo more >> file && \
             git stash -q && git stash pop -q && git commit -qam two && git checkout -qb other && \
             git rebase -q HEAD~1 && git gc -q && git status --short && git log --format=%s && \
             git ls-files";
        assert_eq!(lab.run_shell(&profile, script), "two\none\nfile", "{who:?}");
        let refused = lab.run_shell(&profile, "git config core.pager evil 2>/dev/null || echo no");
        assert_eq!(refused, "no");
        assert_eq!(list_names(&lab, "ws"), [".git", "file", "sub"], "ghosts are gone");
        let left: Vec<_> =
            list_names(&lab, "").into_iter().filter(|name| name.contains("placeholders")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn private_tmp_is_shown_as_tmp() {
    check(
        "echo $TMPDIR; mktemp | sed 's/tmp\\.[A-Za-z0-9]*$/X/'; pwd | sed 's,.*/,,'",
        "/tmp\n/tmp/X\nws",
    );
}

/// The host's `/tmp` is hidden, except for a workspace in it.
#[test]
fn workspace_in_tmp_can_be_written() {
    for spawner in start_both_confinements() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        for name in ["ws/sub", "tmp"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for start in ["ws", "ws/sub"] {
            let mut order = shell_spec("echo made >made && cat made");
            order.command.folder = folder.path().join(start);
            order.profile.writable = vec![folder.path().join("ws")];
            order.profile.tmp = folder.path().join("tmp");
            let (output, how) = run(&spawner, order);
            assert_eq!(output, "made\n", "in {start}: {how:?}");
        }
    }
}

#[test]
fn own_loopback_reaches_only_itself() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let mut profile = lab.profile(SandboxSetup::Full);
        profile.network = NetworkAccess::Loopback;
        let attempt = |words: &[&str]| lab.attempt_under(SandboxSetup::Full, &profile, words);
        assert_eq!(attempt(&["own-loopback"]), "ok");
        assert_eq!(attempt(&["tcp", &address]), "ECONNREFUSED");
        assert_eq!(attempt(&["tcp", "192.0.2.1:80"]), "ENETUNREACH");
        assert_eq!(attempt(&["abstract", "$"]), "ECONNREFUSED");
    }
}

#[test]
fn host_network_gives_no_unix_or_raw_sockets() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    for who in Attacker::available() {
        for setup in [SandboxSetup::Full, SandboxSetup::Direct] {
            let lab = AttackLab::new(*who);
            let mut profile = lab.profile(setup);
            profile.network = NetworkAccess::Host;
            let attempt = |words: &[&str]| lab.attempt_under(setup, &profile, words);
            assert_eq!(attempt(&["tcp", &address]), "ok", "{setup:?}");
            assert_eq!(attempt(&["abstract", "$"]), "EPERM", "{setup:?}");
            let raw = libc::AF_PACKET.to_string();
            assert_eq!(attempt(&["socket", &raw, "3"]), "EPERM", "{setup:?}");
            let expected = if setup == SandboxSetup::Full { "EACCES" } else { "EPERM" };
            assert_eq!(attempt(&["unix", "$/door"]), expected);
            assert_eq!(attempt(&["datagram-from-pair", "$/log"]), expected);
        }
    }
}

#[test]
fn missing_command_is_reported() {
    check("no-such-program 2>/dev/null; echo $?", "127");
    let lab = AttackLab::new(Attacker::Me);
    for setup in [SandboxSetup::Full, SandboxSetup::Direct] {
        let answer = lab.run(setup, &lab.profile(setup), "no-such-program", &[]);
        assert!(answer.contains("program `no-such-program` was not found"), "{answer}");
    }
}

#[test]
fn host_environment_does_not_reach_command() {
    let lab = AttackLab::new(Attacker::Me);
    let answer = lab.run_shell(&lab.profile(SandboxSetup::Full), "echo ${SECRET:-nothing}");
    assert_eq!(answer, "nothing");
}

#[test]
fn shared_placeholder_folder_is_removed_with_last_command() {
    let lab = AttackLab::new(Attacker::Me);
    let mut longer = lab.profile(SandboxSetup::Full);
    longer.tmp = lab.path("tmp-of-another");
    std::fs::create_dir(&longer.tmp).unwrap();
    std::thread::scope(|scope| {
        let (lab, longer) = (&lab, &longer);
        let script = "while ! test -e go; do sleep 0.01; done; \
             mkdir .vscode/x 2>&1 | grep -o Read-only";
        let other = scope.spawn(move || lab.run_shell(longer, script));
        while !lab.path("ws/.vscode").exists() {
            std::thread::yield_now();
        }
        // Starts later and ends earlier.
        assert_eq!(lab.attempt(SandboxSetup::Full, &["mkdir", "$/ws/.vscode/x"]), "EROFS");
        assert!(lab.path("ws/.vscode").exists(), "another command still relies on it");
        std::fs::write(lab.path("ws/go"), "").unwrap();
        assert_eq!(other.join().unwrap(), "Read-only");
    });
    assert_eq!(list_names(&lab, "ws"), [".env", ".git", "file", "go", "keys", "sub"]);
}

#[test]
fn placeholders_of_killed_process_are_removed() {
    let lab = AttackLab::new(Attacker::Me);
    let profile = lab.profile(SandboxSetup::Full);
    let mut child = lab.start(SandboxSetup::Full, &profile, "sleep", &["600"]);
    while !(lab.path("ws/.vscode").exists() && lab.path("ws/.npmrc").exists()) {
        std::thread::yield_now();
    }
    // Everything is killed at once, and nothing is left that could clean up: the spawner is stopped
    // before its supervisors are killed.
    let below = |pid: u32| list_children(pid).into_iter().map(|pid| pid.parse().unwrap());
    for spawner in below(child.id()).collect::<Vec<i32>>() {
        kill(spawner, Signal::STOP);
        below(u32::try_from(spawner).unwrap())
            .for_each(|supervisor| kill(supervisor, Signal::KILL));
        kill(spawner, Signal::KILL);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lab.path("ws/.vscode").exists(), "no process was left to remove it");
    // The command dies with its parent, and only then are the locks released.
    let deadline = std::time::Instant::now() + crate::command_fixture::LONG;
    while lab.path("ws/.vscode").exists() || lab.path("ws/.npmrc").exists() {
        assert!(std::time::Instant::now() < deadline, "it stays");
        zero_sandbox::confinement::sweep_placeholders(&profile.tmp);
    }
}

#[track_caller]
fn check_program(program: &str, script: &str, expected: &str) {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let mut profile = lab.profile(SandboxSetup::Full);
        profile.limits.open_files = 1024;
        profile.limits.file_bytes = 1 << 28;
        profile.network = NetworkAccess::Loopback;
        let missing =
            lab.run_shell(&profile, &format!("command -v {program} >/dev/null || echo no"));
        assert_eq!(missing, "", "this test needs `{program}`");
        assert_eq!(lab.run_shell(&profile, script), expected, "{script} by {who:?}");
    }
}

#[test]
fn compilers_and_languages_work() {
    let c = "echo 'int main(void){return 7;}' > a.c && gcc a.c -o a; ./a; echo $?";
    check_program("gcc", c, "7");
    check_program("make", "printf 'a:\\n\\techo made\\n' > Makefile && make -s", "made");
    let python = "cat > p.py <<'END'
import multiprocessing as m, socket, subprocess, tempfile
if __name__ == '__main__':
    with m.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
    with m.Manager() as manager: print(list(manager.list([3])))
    s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())
    print(tempfile.gettempdir(), subprocess.check_output(['echo', 'x']).decode().strip())
END
python3 p.py";
    check_program("python3", python, "[1, 2]\n[3]\n/tmp x");
}
