//! Facts about the kernel and the environment that decide whether namespaces can be created.
//!
//! They are read from files below a folder, which tests can choose: no machine has all of these
//! obstacles.

use std::path::Path;

use super::LayerReport;
use crate::kernel_file;

/// Facts about the kernel, and the container that zero runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    release: Option<String>,
    /// AppArmor denies user namespaces to programs without a profile, as on Ubuntu.
    apparmor_restricts: bool,
    /// Only root may create user namespaces, as in older versions of Debian.
    clone_forbidden: bool,
    /// The number of user namespaces is limited to zero.
    none_allowed: bool,
    container: Option<ContainerKind>,
}

/// The kind of container that zero runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerKind {
    Docker,
    Podman,
    Kubernetes,
    Other,
}

impl ContainerKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Kubernetes => "Kubernetes",
            Self::Other => "unknown type",
        }
    }
}

/// What prevents namespaces, and what would help.
pub(crate) struct NamespaceObstacle {
    pub(crate) why: &'static str,
    pub(crate) fix: &'static str,
}

impl KernelInfo {
    /// Reads the facts of this machine.
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// Reads the facts of a machine whose files are in `root`.
    pub fn read_from(root: &Path) -> Self {
        let text = |name: &str| {
            let text = kernel_file::read(&root.join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        let knob = |name: &str| text(&format!("proc/sys/{name}"))?.parse::<u64>().ok();
        let exists = |name: &str| root.join(name).exists();
        let container = if exists(".dockerenv") {
            Some(ContainerKind::Docker)
        } else if exists("run/.containerenv") {
            Some(ContainerKind::Podman)
        } else if exists("var/run/secrets/kubernetes.io") {
            Some(ContainerKind::Kubernetes)
        } else {
            exists("run/systemd/container").then_some(ContainerKind::Other)
        };
        Self {
            release: text("proc/sys/kernel/osrelease").filter(|release| !release.is_empty()),
            apparmor_restricts: knob("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            clone_forbidden: knob("kernel/unprivileged_userns_clone") == Some(0),
            none_allowed: knob("user/max_user_namespaces") == Some(0),
            container,
        }
    }

    /// What prevents bubblewrap from creating its namespaces.
    pub(crate) fn obstacle(&self) -> Option<NamespaceObstacle> {
        let obstacle = |why, fix| Some(NamespaceObstacle { why, fix });
        if let Some(found) = self.user_namespace_obstacle() {
            return Some(found);
        }
        self.container?;
        obstacle(
            "this container does not allow namespaces or a new /proc",
            "start the container with `--security-opt seccomp=unconfined --security-opt \
             systempaths=unconfined`, or rely on the container and set `sandbox.weaker`",
        )
    }

    /// What prevents it from creating user namespaces.
    fn user_namespace_obstacle(&self) -> Option<NamespaceObstacle> {
        let (why, fix) = if self.none_allowed {
            (
                "the kernel does not allow user namespaces",
                "sysctl -w user.max_user_namespaces=15000",
            )
        } else if self.clone_forbidden {
            ("only root may create user namespaces", "sysctl -w kernel.unprivileged_userns_clone=1")
        } else if self.apparmor_restricts {
            (
                "AppArmor allows user namespaces only to programs with a profile for them",
                "install an AppArmor profile for bwrap that has the rule `userns,` (the package \
                 `apparmor-profiles` has one), or \
                 sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            )
        } else {
            return None;
        };
        Some(NamespaceObstacle { why, fix })
    }

    /// One row per fact, for `zero doctor`. A fact with `holds: false` matters only if bubblewrap
    /// does not work: bubblewrap may have its own permission.
    #[must_use]
    pub fn report(&self) -> Vec<LayerReport> {
        let fine = |name, why: String| LayerReport { name, holds: true, why, fix: None };
        let release = self.release.as_deref().map_or_else(
            || "could not read the version".to_owned(),
            |release| format!("Linux {release}"),
        );
        let users = match self.user_namespace_obstacle() {
            None => fine("user namespaces", "available".to_owned()),
            Some(NamespaceObstacle { why, fix }) => LayerReport {
                name: "user namespaces",
                holds: false,
                why: why.to_owned(),
                fix: Some(fix.to_owned()),
            },
        };
        let container = self.container.map_or_else(
            || "none detected".to_owned(),
            |kind| format!("{}, which may restrict commands further", kind.as_str()),
        );
        vec![fine("kernel", release), users, fine("container", container)]
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as a kernel would")]
mod tests {
    use super::*;

    /// Reads a machine with these files, and checks one row of its report.
    #[track_caller]
    fn check(files: &[(&str, &str)], name: &str, holds: bool, expected: &str) {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let report = KernelInfo::read_from(root.path()).report();
        let row = report.iter().find(|row| row.name == name).unwrap();
        let all = format!("{}: {}", row.why, row.fix.clone().unwrap_or_default());
        assert_eq!((row.holds, all.contains(expected)), (holds, true), "{files:?}: {all}");
    }

    const APPARMOR: &str = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    const CLONE: &str = "proc/sys/kernel/unprivileged_userns_clone";
    const MOST: &str = "proc/sys/user/max_user_namespaces";

    #[test]
    fn each_obstacle_is_reported_with_fix() {
        check(&[], "user namespaces", true, "available");
        check(&[(APPARMOR, "1\n")], "user namespaces", false, "AppArmor allows");
        check(
            &[(APPARMOR, "1\n")],
            "user namespaces",
            false,
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        );
        check(&[(CLONE, "0\n")], "user namespaces", false, "unprivileged_userns_clone=1");
        check(&[(MOST, "0\n")], "user namespaces", false, "user.max_user_namespaces=15000");
        check(&[(MOST, "0"), (APPARMOR, "1")], "user namespaces", false, "does not allow user");
        check(
            &[(APPARMOR, "0\n"), (CLONE, "1\n"), (MOST, "31000\n")],
            "user namespaces",
            true,
            "available",
        );
        check(&[(APPARMOR, "what")], "user namespaces", true, "available");
    }

    #[test]
    fn kernel_release_and_container_are_reported() {
        check(
            &[("proc/sys/kernel/osrelease", "6.8.0-31-generic\n")],
            "kernel",
            true,
            "Linux 6.8.0",
        );
        check(&[], "kernel", true, "could not read the version");
        check(&[], "container", true, "none detected");
        check(&[(".dockerenv", "")], "container", true, "Docker");
        check(&[("run/.containerenv", "")], "container", true, "Podman");
        check(&[("run/systemd/container", "lxc")], "container", true, "unknown type");
    }
}
