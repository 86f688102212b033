//! Finds bubblewrap, and tries whether it can create the namespaces that commands need.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::MissingLayer;
use super::kernel_info::{KernelInfo, NamespaceObstacle};
use crate::confinement::residue;

/// Where bubblewrap may be installed. `PATH` is not searched: it may contain a folder that commands
/// can write to.
const CANDIDATE_PATHS: &[&str] = &[
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/run/wrappers/bin/bwrap",
];

/// How long one attempt may take.
const TRY_MAX: Duration = Duration::from_secs(30);

/// How much of its error output is read.
const ERROR_BYTES_MAX: u64 = 4096;

/// The namespaces that every command gets, whatever its network.
const NAMESPACES: &[&str] =
    &["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];

/// A bubblewrap program that works, and what it supports.
#[derive(Clone, Debug)]
pub(crate) struct BubblewrapProgram {
    path: PathBuf,
    users: UserNamespaceMode,
    sizes: TmpfsSizeSupport,
    queues: MessageQueueSupport,
}

/// Whether a sandbox's message queues can be mounted as a folder. Needs a kernel with such queues
/// and bubblewrap 0.1.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageQueueSupport {
    Supported,
    Unsupported,
}

/// Whether the size of a folder in memory can be limited. Needs bubblewrap 0.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TmpfsSizeSupport {
    Bounded,
    Unbounded,
}

/// Whether it creates a user namespace. Root can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserNamespaceMode {
    Own,
    Shared,
}

impl BubblewrapProgram {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments that create a user namespace, if one is needed.
    pub(crate) fn user_namespace_args(&self) -> &'static [&'static str] {
        match self.users {
            UserNamespaceMode::Own => &["--unshare-user"],
            UserNamespaceMode::Shared => &[],
        }
    }

    /// The first arguments for every sandbox.
    pub(crate) fn base_args(&self) -> impl Iterator<Item = &'static str> {
        let rest = &["--as-pid-1", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"];
        let fresh = &["--dev", "/dev", "--proc", "/proc"];
        self.user_namespace_args().iter().chain(NAMESPACES).chain(rest).chain(fresh).copied()
    }

    /// The arguments that give a sandbox a shared memory folder of limited size.
    pub(crate) fn shared_memory_args(&self, bytes: u64) -> Vec<String> {
        // Zero would mean no limit, and bubblewrap parses a signed number.
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

    /// The arguments that mount the sandbox's message queues.
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
                format!("`{path}`, version {version}, works, with its own user namespace")
            }
            UserNamespaceMode::Shared => {
                format!("`{path}`, version {version}, works, for root only")
            }
        }
    }

    /// Its version. Read only when a report is shown.
    #[expect(clippy::disallowed_methods, reason = "this module starts bubblewrap itself")]
    fn version(&self) -> Option<String> {
        let probe_output = Command::new(&self.path)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let stdout = probe_output.ok()?.stdout;
        parse_version(&String::from_utf8_lossy(&stdout)).map(str::to_owned)
    }
}

/// Parses the version from `bubblewrap 0.8.0`.
fn parse_version(stdout: &str) -> Option<&str> {
    stdout.split_whitespace().nth(1)
}

/// Searches for bubblewrap and tries it.
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
    if tried.as_ref().is_err_and(|output| output.contains("--size")) {
        own.sizes = TmpfsSizeSupport::Unbounded;
        tried = try_run(&own);
    }
    if tried.as_ref().is_err_and(|output| output.contains("mqueue")) {
        own.queues = MessageQueueSupport::Unsupported;
        tried = try_run(&own);
    }
    let output = match tried {
        Ok(()) => return Ok(own),
        Err(output) => output,
    };
    let shared = BubblewrapProgram { users: UserNamespaceMode::Shared, ..own };
    if rustix::process::geteuid().is_root() && try_run(&shared).is_ok() {
        return Ok(shared);
    }
    Err(explain_failure(&output, &shared.path))
}

/// Refuses a program that a user other than root could have changed.
fn check_trusted(path: &Path) -> Result<PathBuf, MissingLayer> {
    let real = path.canonicalize().ok();
    let sound = real.filter(|real| {
        real.metadata().is_ok_and(|facts| facts.uid() == 0 && facts.mode() & 0o022 == 0)
    });
    sound.ok_or_else(|| MissingLayer {
        why: format!("`{}` can be changed by users other than root", path.display()),
        fix: Some("reinstall the package `bubblewrap`".to_owned()),
    })
}

/// Runs a no-op in the namespaces that commands get. Returns the error output if that fails.
#[expect(clippy::disallowed_methods, reason = "this module starts bubblewrap itself")]
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
                return Err(format!("timed out after {} s", TRY_MAX.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut output = String::new();
    if let Some(stderr) = child.stderr.take() {
        let read = stderr.take(ERROR_BYTES_MAX).read_to_string(&mut output);
        drop(read);
    }
    Err(output.trim().to_owned())
}

/// Explains why bubblewrap does not work, and what would help.
fn explain_failure(output: &str, path: &Path) -> MissingLayer {
    let (why, fix) = failure_reason(output, &KernelInfo::read());
    let quoted = if output.is_empty() { String::new() } else { format!(" (output: {output})") };
    MissingLayer { why: format!("`{}` does not work: {why}{quoted}", path.display()), fix }
}

fn failure_reason(output: &str, kernel: &KernelInfo) -> (String, Option<String>) {
    let (why, fix) = if let Some(NamespaceObstacle { why, fix }) = kernel.obstacle() {
        (why, fix)
    } else if output.contains("setuid") || output.contains("capabilities") {
        (
            "it has privileges that it does not accept",
            "chmod u-s the program, or reinstall the package `bubblewrap`",
        )
    } else {
        return ("it is not allowed to create the namespaces".to_owned(), None);
    };
    (why.to_owned(), Some(fix.to_owned()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: Option<(&str, &str)>, output: &str, expected: &str) {
        let root = tempfile::tempdir().unwrap();
        if let Some((file, text)) = file {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (why, fix) = failure_reason(output, &KernelInfo::read_from(root.path()));
        let all = format!("{why}: {}", fix.unwrap_or_default());
        assert!(all.contains(expected), "{all}");
    }

    #[test]
    fn bubblewrap_failure_names_obstacle() {
        let apparmor = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
        check(Some((apparmor, "1")), "", "apparmor_restrict_unprivileged_userns=0");
        check(Some((".dockerenv", "")), "Can't mount proc", "--security-opt");
        check(None, "Unexpected capabilities but not setuid", "privileges");
        check(None, "No permissions", "not allowed to create the namespaces");
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
