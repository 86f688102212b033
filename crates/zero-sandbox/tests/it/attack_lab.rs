//! A folder full of things worth attacking, and ways to run an attack in it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use zero_sandbox::spawner::LayerSelection;
use zero_sandbox::{CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile, SandboxProperty};

/// The user that attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attacker {
    /// The user that runs the tests.
    Me,
    /// A user without any privileges; only root can become one.
    Nobody,
}

const NOBODY: u32 = 65534;

impl Attacker {
    /// All users that we can be.
    pub(crate) fn available() -> &'static [Self] {
        if is_root() { &[Self::Me, Self::Nobody] } else { &[Self::Me] }
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The sandbox around an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxSetup {
    /// None.
    Bare,
    /// Every layer.
    Full,
    /// Every layer, prewarmed before the attack.
    Prewarmed,
    /// Every layer but Landlock.
    Mounts,
    /// Landlock, the seccomp filter and limits.
    Direct,
}

pub(crate) struct AttackLab {
    folder: tempfile::TempDir,
    who: Attacker,
    victim: Child,
    plans: AtomicU32,
    doors: HostListeners,
}

/// Sockets of the host, created before any command starts.
struct HostListeners {
    /// In `/tmp`, where agents have theirs.
    tmp: tempfile::NamedTempFile<UnixListener>,
    /// Beside the workspace, in it, and one without a file.
    _listeners: [UnixListener; 3],
    /// For datagrams, as loggers use, and one without a file.
    _datagrams: [UnixDatagram; 2],
}

impl HostListeners {
    fn new(root: &Path) -> Self {
        let bind = |name: &str| UnixListener::bind(root.join(name)).unwrap();
        let name = root.as_os_str().as_encoded_bytes();
        let no_file = SocketAddr::from_abstract_name(name).unwrap();
        let datagrams = SocketAddr::from_abstract_name([name, b"-log"].concat()).unwrap();
        let doors = Self {
            tmp: tempfile::Builder::new().make_in("/tmp", |path| UnixListener::bind(path)).unwrap(),
            _listeners: [bind("door"), bind("ws/door"), UnixListener::bind_addr(&no_file).unwrap()],
            _datagrams: [
                UnixDatagram::bind(root.join("log")).unwrap(),
                UnixDatagram::bind_addr(&datagrams).unwrap(),
            ],
        };
        for door in [doors.tmp.path(), &root.join("door"), &root.join("ws/door"), &root.join("log")]
        {
            fs::set_permissions(door, PermissionsExt::from_mode(0o777)).unwrap();
        }
        doors
    }
}

impl AttackLab {
    /// Sets it up outside `/tmp`, which the attacker has to itself.
    pub(crate) fn new(who: Attacker) -> Self {
        crate::command_fixture::require_bubblewrap();
        let folder = tempfile::Builder::new().prefix("zero-lab-").tempdir_in("/var/tmp").unwrap();
        let root = folder.path();
        let folders = ["ws/.git/hooks", "ws/.git/info", "ws/sub", "ws/keys", "secret"];
        for name in folders.iter().chain(&["outside/empty", "outside/empty2"]) {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::create_dir(root.join("tmp")).unwrap();
        let files =
            ["ws/file", "ws/.git/config", "ws/.env", "ws/keys/key", "outside/file", "secret/key"];
        for name in files {
            fs::write(root.join(name), "worth something").unwrap();
        }
        copy(&find_attack_program(), &root.join("attack"));
        let doors = HostListeners::new(root);
        if who == Attacker::Nobody {
            chown_to_nobody(root);
        }
        fs::set_permissions(root.join("attack"), PermissionsExt::from_mode(0o755)).unwrap();
        let victim = start_victim(build_command(who, &root.join("attack"), &["try", "wait"], root));
        Self { folder, who, victim, plans: AtomicU32::new(0), doors }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn profile(&self, setup: SandboxSetup) -> SandboxProfile {
        let paths = |names: &[&str]| names.iter().map(|name| self.path(name)).collect();
        let inside = setup != SandboxSetup::Direct;
        let protected = [
            "ws/.git/hooks",
            "ws/.git/config",
            "ws/.git/config.worktree",
            "ws/.git/info/attributes",
            "ws/.vscode",
            "ws/.npmrc",
        ];
        let masked: &[&str] = if inside { &["secret", "ws/.env", "ws/keys"] } else { &["secret"] };
        SandboxProfile {
            writable: paths(&["ws"]),
            changeable: Vec::new(),
            readable: Vec::new(),
            protected: if inside { paths(&protected) } else { Vec::new() },
            protected_files: Vec::new(),
            masked: paths(masked),
            network: NetworkAccess::Nothing,
            limits: ProcessLimits {
                memory_bytes: 1 << 30,
                cpu_percent: 100,
                processes: 100,
                open_files: 64,
                file_bytes: 1 << 20,
                disk_bytes: 1 << 40,
                disk_rate: u64::MAX,
            },
            tmp: self.path("tmp"),
            weaknesses: if inside {
                Vec::new()
            } else {
                vec![SandboxProperty::Attributes, SandboxProperty::PrivateTmp]
            },
        }
    }

    /// Runs one attack and returns what it printed. `$` in an argument is the lab's folder, `%` the
    /// process to attack, `^` a socket of the host in `/tmp`.
    pub(crate) fn attempt(&self, setup: SandboxSetup, words: &[&str]) -> String {
        self.attempt_under(setup, &self.profile(setup), words)
    }

    pub(crate) fn attempt_under(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        words: &[&str],
    ) -> String {
        let words: Vec<String> = words.iter().map(|word| self.expand_placeholders(word)).collect();
        let words: Vec<&str> =
            std::iter::once("try").chain(words.iter().map(String::as_str)).collect();
        self.run(setup, profile, self.path("attack").to_str().unwrap(), &words)
    }

    /// Runs one attack that starts in another folder.
    pub(crate) fn attempt_in(
        &self,
        folder: &Path,
        profile: &SandboxProfile,
        words: &[&str],
    ) -> String {
        let words: Vec<&str> = std::iter::once("try").chain(words.iter().copied()).collect();
        let attack = self.path("attack");
        let spec = self.command_spec(attack.to_str().unwrap(), &words);
        let spec = CommandSpec { folder: folder.to_owned(), ..spec };
        let plan = self.write_plan(SandboxSetup::Full, profile, &spec, None, None);
        let args = ["confine", plan.to_str().unwrap()];
        read_output(build_command(self.who, &attack, &args, self.folder.path()))
    }

    /// Runs many attacks in one sandbox, each in its own process, and returns what each printed, or
    /// how it ended.
    pub(crate) fn attempt_all(&self, setup: SandboxSetup, all: &[&str]) -> Vec<String> {
        self.attempt_all_under(setup, &self.profile(setup), all)
    }

    pub(crate) fn attempt_all_under(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        all: &[&str],
    ) -> Vec<String> {
        let attack = self.path("attack");
        let line = |words: &&str| {
            let words = self.expand_placeholders(words);
            format!("{} try {words} 2>/dev/null || echo exit $?\n", attack.display())
        };
        let script: String = all.iter().map(line).collect();
        let output = self.run(setup, profile, "sh", &["-c", &script]);
        // What the shell prints about a killed process is not an answer.
        let output = output.split("\nstderr: ").next().unwrap_or_default();
        output.lines().map(str::to_owned).collect()
    }

    /// Runs one attack in a network that it shares with a `server`, which is another attack.
    pub(crate) fn attempt_with_server(
        &self,
        setup: SandboxSetup,
        server: &[&str],
        words: &[&str],
    ) -> String {
        let mut profile = self.profile(setup);
        profile.network = NetworkAccess::Loopback;
        let attack = self.path("attack");
        let spec = |words: &[&str]| {
            let words = words.iter().map(|word| self.expand_placeholders(word));
            let words: Vec<String> = std::iter::once("try".to_owned()).chain(words).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.command_spec(attack.to_str().unwrap(), &words)
        };
        let plan = self.write_plan(setup, &profile, &spec(words), Some(&spec(server)), None);
        let args = ["confine", plan.to_str().unwrap()];
        read_output(build_command(self.who, &attack, &args, self.folder.path()))
    }

    /// Runs a shell script in the workspace.
    pub(crate) fn run_shell(&self, profile: &SandboxProfile, script: &str) -> String {
        self.run(SandboxSetup::Full, profile, "sh", &["-c", script])
    }

    /// Starts a program and leaves it running.
    pub(crate) fn start(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        program: &str,
        args: &[&str],
    ) -> Child {
        self.command(setup, profile, program, args).spawn().unwrap()
    }

    pub(crate) fn run(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        program: &str,
        args: &[&str],
    ) -> String {
        read_output(self.command(setup, profile, program, args))
    }

    fn command(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        program: &str,
        args: &[&str],
    ) -> Command {
        if setup == SandboxSetup::Bare {
            return build_command(self.who, Path::new(program), args, &self.path("ws"));
        }
        let meanwhile = (setup == SandboxSetup::Prewarmed).then_some(&[][..]);
        let plan =
            self.write_plan(setup, profile, &self.command_spec(program, args), None, meanwhile);
        let args = ["confine", plan.to_str().unwrap()];
        build_command(self.who, &self.path("attack"), &args, self.folder.path())
    }

    /// Runs one attack after something changed on the host while a sandbox was prewarmed, in its
    /// own mount namespace if possible. Returns what it printed, and whether the sandbox was
    /// reused.
    pub(crate) fn attempt_after(
        &self,
        profile: &SandboxProfile,
        meanwhile: &[&str],
        words: &[&str],
    ) -> (String, String) {
        let filled =
            |words: &[&str]| words.iter().map(|word| self.expand_placeholders(word)).collect();
        let (meanwhile, words): (Vec<String>, Vec<String>) = (filled(meanwhile), filled(words));
        let words: Vec<&str> =
            std::iter::once("try").chain(words.iter().map(String::as_str)).collect();
        let attack = self.path("attack");
        let spec = self.command_spec(attack.to_str().unwrap(), &words);
        let plan = self.write_plan(SandboxSetup::Prewarmed, profile, &spec, None, Some(&meanwhile));
        let confine = [attack.to_str().unwrap(), "confine", plan.to_str().unwrap()];
        let answer = if is_root() && self.who == Attacker::Me {
            let own_net = meanwhile.first().is_some_and(|what| what == "churn");
            let view: &[&str] = if own_net { &["--net"] } else { &[] };
            let args = [&["--mount", "--propagation", "shared"], view, &confine].concat();
            read_output(build_command(self.who, Path::new("unshare"), &args, self.folder.path()))
        } else {
            read_output(build_command(self.who, &attack, &confine[1..], self.folder.path()))
        };
        (answer, self.last_sandbox_reuse())
    }

    /// Whether the sandbox of the last attack was prewarmed.
    pub(crate) fn last_sandbox_reuse(&self) -> String {
        let last = self.plans.load(Ordering::Relaxed) - 1;
        fs::read_to_string(self.path(&format!("plan{last}.reuse"))).unwrap_or_default()
    }

    fn command_spec(&self, program: &str, args: &[&str]) -> CommandSpec {
        CommandSpec {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            folder: self.path("ws"),
            environment: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), self.path("ws").into()),
            ],
        }
    }

    fn write_plan(
        &self,
        setup: SandboxSetup,
        profile: &SandboxProfile,
        command: &CommandSpec,
        server: Option<&CommandSpec>,
        meanwhile: Option<&[String]>,
    ) -> PathBuf {
        let plan = json!({
            "profile": profile,
            "command": command,
            "server": server,
            "meanwhile": meanwhile,
            "layers": match setup {
                SandboxSetup::Bare | SandboxSetup::Full | SandboxSetup::Prewarmed => LayerSelection::All,
                SandboxSetup::Mounts => LayerSelection::WithoutLandlock,
                SandboxSetup::Direct => LayerSelection::WithoutBubblewrap,
            },
        });
        let number = self.plans.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("plan{number}"));
        fs::write(&path, plan.to_string()).unwrap();
        path
    }

    fn expand_placeholders(&self, word: &str) -> String {
        let root = self.folder.path().to_str().unwrap();
        let door = self.doors.tmp.path().to_str().unwrap();
        word.replace('$', root).replace('%', &self.victim.id().to_string()).replace('^', door)
    }
}

impl Drop for AttackLab {
    fn drop(&mut self) {
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
    }
}

/// Starts the process to attack, and waits until it has executed its program: until then it is the
/// shell, and the process that started it.
fn start_victim(mut command: Command) -> Child {
    let mut victim = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    victim
}

/// What a command printed, and how it ended if it failed.
fn read_output(mut command: Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !errors.is_empty() {
        text = format!("{text}\nstderr: {}", errors.trim_end());
    }
    match output.status.code() {
        Some(0) => text,
        code => format!("{text}\nexit {code:?}").trim_start().to_owned(),
    }
}

/// A command whose environment contains a secret, with descriptors that it should not pass on.
fn build_command(who: Attacker, program: &Path, args: &[&str], folder: &Path) -> Command {
    let mut command = match who {
        Attacker::Me => Command::new("sh"),
        Attacker::Nobody => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh"]);
            command
        }
    };
    command
        .args(["-c", "exec \"$0\" \"$@\" 4</etc/passwd 5</etc 6>/dev/null 7</etc/passwd 9<&0"])
        .arg(program)
        .args(args)
        .current_dir(folder)
        .env("SECRET", "worth something")
        .stdin(Stdio::null());
    command
}

/// Copies a program in a separate process: otherwise a process that another thread forks meanwhile
/// could hold a descriptor for writing, and a file that is open for writing cannot be executed.
pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}

fn chown_to_nobody(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            chown_to_nobody(&entry.unwrap().path());
        }
    }
}

/// The program that attacks: an example, which `cargo test` builds beside the tests.
pub(crate) fn find_attack_program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/attack");
    assert!(
        program.exists(),
        "`{}` is missing: build it with `cargo build -p zero-sandbox --example attack`",
        program.display()
    );
    program
}
