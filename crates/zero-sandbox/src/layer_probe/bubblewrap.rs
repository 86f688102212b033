//! Whether bubblewrap is there and may do what we ask of it.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::MissingLayer;
use super::kernel_info::{KernelInfo, NamespaceObstacle};
use crate::confinement::residue;

/// Where it may be. Not along `PATH`: a folder there may be one that children write to.
const CANDIDATE_PATHS: &[&str] = &[
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/run/wrappers/bin/bwrap",
];

/// How long one try may take.
const TRY_MAX: Duration = Duration::from_secs(30);

/// How much of what it says about a failure is read.
const ERROR_BYTES_MAX: u64 = 4096;

/// The namespaces that every child gets, whatever its network.
const NAMESPACES: &[&str] =
    &["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];

/// A bubblewrap that works.
#[derive(Clone, Debug)]
pub(crate) struct BubblewrapProgram {
    path: PathBuf,
    users: UserNamespaceMode,
    sizes: TmpfsSizeSupport,
    queues: MessageQueueSupport,
}

/// Whether a child's queues of messages can be seen, as a folder. A kernel without such queues has
/// none, and a bubblewrap before version 0.1.8 does not know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageQueueSupport {
    Supported,
    Unsupported,
}

/// Whether it can bound a folder in memory. It can from version 0.7 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TmpfsSizeSupport {
    Bounded,
    Unbounded,
}

/// Whether it makes a namespace of users. Root can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserNamespaceMode {
    Own,
    Shared,
}

impl BubblewrapProgram {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments that make a namespace of users, where one is needed.
    pub(crate) fn user_namespace_args(&self) -> &'static [&'static str] {
        match self.users {
            UserNamespaceMode::Own => &["--unshare-user"],
            UserNamespaceMode::Shared => &[],
        }
    }

    /// The arguments that every child's begin with.
    pub(crate) fn base_args(&self) -> impl Iterator<Item = &'static str> {
        let rest = &["--as-pid-1", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"];
        let fresh = &["--dev", "/dev", "--proc", "/proc"];
        self.user_namespace_args().iter().chain(NAMESPACES).chain(rest).chain(fresh).copied()
    }

    /// The arguments that give every child a folder for shared memory which holds so much.
    pub(crate) fn shared_memory_args(&self, bytes: u64) -> Vec<String> {
        // Nothing at all means no bound, and the most is what it takes.
        let bytes = bytes.clamp(4096, i64::MAX.unsigned_abs()).to_string();
        match self.sizes {
            TmpfsSizeSupport::Bounded => {
                ["--perms", "0755", "--size", &bytes, "--tmpfs", "/dev/shm"]
                    .map(str::to_owned)
                    .to_vec()
            }
            TmpfsSizeSupport::Unbounded => Vec::new(),
        }
    }

    /// The arguments that show every child its queues of messages.
    pub(crate) fn message_queue_args(&self) -> &'static [&'static str] {
        match self.queues {
            MessageQueueSupport::Supported => &["--mqueue", residue::MESSAGE_QUEUES],
            MessageQueueSupport::Unsupported => &[],
        }
    }

    pub(super) fn describe(&self) -> String {
        let path = self.path.display();
        let version = self.version().unwrap_or_else(|| "unknown".to_owned());
        match self.users {
            UserNamespaceMode::Own => {
                format!("`{path}`, version {version}, works, with users of its own")
            }
            UserNamespaceMode::Shared => {
                format!("`{path}`, version {version}, works, for root only")
            }
        }
    }

    /// Its version, as it says. Only for people, so it is asked for only then.
    #[expect(clippy::disallowed_methods, reason = "this is where children are started")]
    fn version(&self) -> Option<String> {
        let asked = Command::new(&self.path)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let said = asked.ok()?.stdout;
        parse_version(&String::from_utf8_lossy(&said)).map(str::to_owned)
    }
}

/// The version in `bubblewrap 0.8.0`.
fn parse_version(said: &str) -> Option<&str> {
    said.split_whitespace().nth(1)
}

/// Looks for it and tries it.
pub(super) fn probe() -> Result<BubblewrapProgram, MissingLayer> {
    let Some(path) = CANDIDATE_PATHS.iter().map(Path::new).find(|place| place.exists()) else {
        return Err(MissingLayer {
            why: "bubblewrap is not installed".to_owned(),
            fix: Some("install the package `bubblewrap`".to_owned()),
        });
    };
    let path = check_trusted(path)?;
    let (users, sizes, queues) =
        (UserNamespaceMode::Own, TmpfsSizeSupport::Bounded, MessageQueueSupport::Supported);
    let mut own = BubblewrapProgram { path, users, sizes, queues };
    let mut tried = try_run(&own);
    if tried.as_ref().is_err_and(|words| words.contains("--size")) {
        own.sizes = TmpfsSizeSupport::Unbounded;
        tried = try_run(&own);
    }
    if tried.as_ref().is_err_and(|words| words.contains("mqueue")) {
        own.queues = MessageQueueSupport::Unsupported;
        tried = try_run(&own);
    }
    let words = match tried {
        Ok(()) => return Ok(own),
        Err(words) => words,
    };
    let shared = BubblewrapProgram { users: UserNamespaceMode::Shared, ..own };
    if rustix::process::geteuid().is_root() && try_run(&shared).is_ok() {
        return Ok(shared);
    }
    Err(explain_failure(&words, &shared.path))
}

/// Refuses a program that somebody other than root could have put there.
fn check_trusted(path: &Path) -> Result<PathBuf, MissingLayer> {
    let real = path.canonicalize().ok();
    let sound = real.filter(|real| {
        real.metadata().is_ok_and(|facts| facts.uid() == 0 && facts.mode() & 0o022 == 0)
    });
    sound.ok_or_else(|| MissingLayer {
        why: format!("`{}` could be changed by others than root", path.display()),
        fix: Some("reinstall the package `bubblewrap`".to_owned()),
    })
}

/// Runs nothing in the namespaces we use. What it said when that failed.
#[expect(clippy::disallowed_methods, reason = "this is where children are started")]
fn try_run(bubblewrap: &BubblewrapProgram) -> Result<(), String> {
    let mut child = Command::new(bubblewrap.path())
        .args(bubblewrap.base_args())
        .args(bubblewrap.shared_memory_args(0))
        .args(bubblewrap.message_queue_args())
        .args([
            "--unshare-net",
            "--perms",
            "0755",
            "--tmpfs",
            "/tmp",
            "--chdir",
            "/",
            "/bin/sh",
            "-c",
            ":",
        ])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + TRY_MAX;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(None) => {
                let stopped = child.kill().and_then(|()| child.wait());
                drop(stopped);
                return Err(format!("it did not finish within {} s", TRY_MAX.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        let read = stderr.take(ERROR_BYTES_MAX).read_to_string(&mut words);
        drop(read);
    }
    Err(words.trim().to_owned())
}

/// What stands in the way, and what would help.
fn explain_failure(words: &str, path: &Path) -> MissingLayer {
    let (why, fix) = failure_reason(words, &KernelInfo::read());
    let said = if words.is_empty() { String::new() } else { format!(" (it said: {words})") };
    MissingLayer { why: format!("`{}` does not work: {why}{said}", path.display()), fix }
}

fn failure_reason(words: &str, kernel: &KernelInfo) -> (String, Option<String>) {
    let (why, fix) = if let Some(NamespaceObstacle { why, fix }) = kernel.obstacle() {
        (why, fix)
    } else if words.contains("setuid") || words.contains("capabilities") {
        (
            "it is installed with privileges that it does not accept",
            "chmod u-s the program, or reinstall the package `bubblewrap`",
        )
    } else {
        return ("it may not make the namespaces".to_owned(), None);
    };
    (why.to_owned(), Some(fix.to_owned()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: Option<(&str, &str)>, words: &str, expected: &str) {
        let root = tempfile::tempdir().unwrap();
        if let Some((file, text)) = file {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (why, fix) = failure_reason(words, &KernelInfo::read_from(root.path()));
        let all = format!("{why}: {}", fix.unwrap_or_default());
        assert!(all.contains(expected), "{all}");
    }

    #[test]
    fn bubblewrap_failure_names_obstacle() {
        let apparmor = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
        check(Some((apparmor, "1")), "", "apparmor_restrict_unprivileged_userns=0");
        check(Some((".dockerenv", "")), "Can't mount proc", "--security-opt");
        check(None, "Unexpected capabilities but not setuid", "privileges");
        check(None, "No permissions", "may not make the namespaces");
    }

    #[test]
    fn version_is_parsed_after_name() {
        assert_eq!(parse_version("bubblewrap 0.8.0\n"), Some("0.8.0"));
        assert_eq!(parse_version("bubblewrap"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn program_writable_by_others_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bwrap");
        std::fs::write(&path, "").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, open).unwrap();
        assert!(check_trusted(&path).is_err());
    }
}
