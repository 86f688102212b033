//! Whether bubblewrap is there and may do what we ask of it.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Absent;

/// Where it may be. Not along `PATH`: a folder there may be one that children write to.
const PLACES: &[&str] = &[
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/run/wrappers/bin/bwrap",
];

/// How long one try may take.
const TRY_MAX: Duration = Duration::from_secs(5);

/// How much of what it says about a failure is read.
const WORDS_BYTES_MAX: u64 = 4096;

/// The namespaces that every child gets, whatever its network.
const NAMESPACES: &[&str] =
    &["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];

/// A bubblewrap that works.
#[derive(Clone, Debug)]
pub(crate) struct Bubblewrap {
    path: PathBuf,
    users: Users,
}

/// Whether it makes a namespace of users. Root can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Own,
    Shared,
}

impl Bubblewrap {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments that make a namespace of users, where one is needed.
    pub(crate) fn users(&self) -> &'static [&'static str] {
        match self.users {
            Users::Own => &["--unshare-user"],
            Users::Shared => &[],
        }
    }

    /// The arguments that every child's begin with.
    pub(crate) fn base(&self) -> impl Iterator<Item = &'static str> {
        let rest = &["--as-pid-1", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"];
        let fresh = &["--dev", "/dev", "--proc", "/proc"];
        self.users().iter().chain(NAMESPACES).chain(rest).chain(fresh).copied()
    }

    pub(super) fn found(&self) -> String {
        let path = self.path.display();
        match self.users {
            Users::Own => format!("`{path}` works, with users of its own"),
            Users::Shared => format!("`{path}` works, for root only"),
        }
    }
}

/// Looks for it and tries it.
pub(super) fn probe() -> Result<Bubblewrap, Absent> {
    let Some(path) = PLACES.iter().map(Path::new).find(|place| place.exists()) else {
        return Err(Absent {
            why: "bubblewrap is not installed".to_owned(),
            fix: Some("install the package `bubblewrap`".to_owned()),
        });
    };
    let path = trusted(path)?;
    let own = Bubblewrap { path, users: Users::Own };
    let words = match attempt(&own) {
        Ok(()) => return Ok(own),
        Err(words) => words,
    };
    let shared = Bubblewrap { users: Users::Shared, ..own };
    if rustix::process::geteuid().is_root() && attempt(&shared).is_ok() {
        return Ok(shared);
    }
    Err(explain(&words, &shared.path))
}

/// Refuses a program that somebody other than root could have put there.
fn trusted(path: &Path) -> Result<PathBuf, Absent> {
    let real = path.canonicalize().ok();
    let sound = real.filter(|real| {
        real.metadata().is_ok_and(|facts| facts.uid() == 0 && facts.mode() & 0o022 == 0)
    });
    sound.ok_or_else(|| Absent {
        why: format!("`{}` could be changed by others than root", path.display()),
        fix: Some("reinstall the package `bubblewrap`".to_owned()),
    })
}

/// Runs nothing in the namespaces we use. What it said when that failed.
#[expect(clippy::disallowed_methods, reason = "this is where children are started")]
fn attempt(bubblewrap: &Bubblewrap) -> Result<(), String> {
    let mut child = Command::new(bubblewrap.path())
        .args(bubblewrap.base())
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
        let read = stderr.take(WORDS_BYTES_MAX).read_to_string(&mut words);
        drop(read);
    }
    Err(words.trim().to_owned())
}

/// What stands in the way, and what would help.
fn explain(words: &str, path: &Path) -> Absent {
    let knobs = Knobs::read();
    let (why, fix) = reason(words, &knobs);
    let said = if words.is_empty() { String::new() } else { format!(" (it said: {words})") };
    Absent { why: format!("`{}` does not work: {why}{said}", path.display()), fix }
}

/// The kernel's settings that matter, and where we are.
struct Knobs {
    apparmor_restricts: bool,
    clone_forbidden: bool,
    none_allowed: bool,
    in_container: bool,
}

impl Knobs {
    fn read() -> Self {
        Self {
            apparmor_restricts: knob("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            clone_forbidden: knob("kernel/unprivileged_userns_clone") == Some(0),
            none_allowed: knob("user/max_user_namespaces") == Some(0),
            in_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|mark| Path::new(mark).exists()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's settings are no person's file")]
fn knob(name: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

fn reason(words: &str, knobs: &Knobs) -> (String, Option<String>) {
    let (why, fix) = if knobs.none_allowed {
        ("the kernel allows no user namespaces", "sysctl -w user.max_user_namespaces=15000")
    } else if knobs.clone_forbidden {
        ("the kernel keeps user namespaces to root", "sysctl -w kernel.unprivileged_userns_clone=1")
    } else if knobs.apparmor_restricts {
        (
            "AppArmor keeps user namespaces from programs without a profile for them",
            "install an AppArmor profile for bwrap that has the rule `userns,` (the package \
             `apparmor-profiles` has one), or \
             sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
    } else if knobs.in_container {
        (
            "this container does not allow namespaces or a new /proc",
            "start the container with `--security-opt seccomp=unconfined --security-opt \
             systempaths=unconfined`, or rely on the container and weaken the profile",
        )
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
    fn check(knobs: [bool; 4], words: &str, expected: &str) {
        let [apparmor_restricts, clone_forbidden, none_allowed, in_container] = knobs;
        let knobs = Knobs { apparmor_restricts, clone_forbidden, none_allowed, in_container };
        let (why, fix) = reason(words, &knobs);
        let all = format!("{why}: {}", fix.unwrap_or_default());
        assert!(all.contains(expected), "{all}");
    }

    #[test]
    fn a_failure_names_what_stands_in_the_way() {
        check([true, false, false, false], "", "apparmor_restrict_unprivileged_userns=0");
        check([false, true, false, false], "", "unprivileged_userns_clone=1");
        check([false, false, true, true], "", "max_user_namespaces");
        check([false, false, false, true], "Can't mount proc", "--security-opt");
        check([false; 4], "Unexpected capabilities but not setuid", "privileges");
        check([false; 4], "No permissions", "may not make the namespaces");
    }

    #[test]
    fn a_program_others_could_change_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bwrap");
        std::fs::write(&path, "").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, open).unwrap();
        assert!(trusted(&path).is_err());
    }
}
