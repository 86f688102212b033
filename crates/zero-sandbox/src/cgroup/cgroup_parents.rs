//! Finds the folders in which control groups may be created.
//!
//! Version 1 has a hierarchy per controller, and a group may be created directly below ours.
//! Version 2 has one hierarchy, and a group with processes cannot delegate controllers: the new
//! group goes below the nearest ancestor that already delegates them. The groups that a process
//! leaves on the way up must not have tighter limits than the command will have.

use std::path::{Path, PathBuf};

use crate::kernel_file;
use crate::profile::ProcessLimits;

/// Most levels to search above our own group.
const LEVELS_MAX: usize = 8;

/// The version of a control group hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    V1,
    V2,
}

/// The folders in which groups may be created, per controller.
#[derive(Debug, Default)]
pub(crate) struct CgroupParents {
    memory: Option<CgroupParent>,
    cpu: Option<CgroupParent>,
    processes: Option<CgroupParent>,
    io: Option<CgroupParent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupParent {
    version: CgroupVersion,
    /// New groups are created in it.
    parent: PathBuf,
    /// The groups that a process leaves when it moves from ours into a new one.
    left: Vec<PathBuf>,
}

impl CgroupParents {
    /// Finds the folders for this process.
    pub(crate) fn find() -> Self {
        let read = |path| kernel_file::read(Path::new(path)).unwrap_or_default();
        Self::find_in(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn find_in(mounts: &str, memberships: &str) -> Self {
        let place = |controller: &str| {
            find_v2_parent(mounts, memberships, controller)
                .or_else(|| find_v1_parent(mounts, memberships, controller))
        };
        let io = find_v2_parent(mounts, memberships, "io")
            .or_else(|| find_v1_parent(mounts, memberships, "blkio"));
        Self { memory: place("memory"), cpu: place("cpu"), processes: place("pids"), io }
    }

    pub(crate) fn memory_parent(&self, limits: &ProcessLimits) -> Option<(CgroupVersion, &Path)> {
        let tightest = |folder: &Path| read_limit(folder, "memory.max");
        self.memory.as_ref()?.path_unless_limited(tightest, limits.memory_bytes)
    }

    pub(crate) fn cpu_parent(&self, limits: &ProcessLimits) -> Option<(CgroupVersion, &Path)> {
        let tightest = |folder: &Path| {
            let text = kernel_file::read(&folder.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
            quota.saturating_mul(100).checked_div(period)
        };
        self.cpu.as_ref()?.path_unless_limited(tightest, limits.cpu_percent.into())
    }

    pub(crate) fn processes_parent(
        &self,
        limits: &ProcessLimits,
    ) -> Option<(CgroupVersion, &Path)> {
        let tightest = |folder: &Path| read_limit(folder, "pids.max");
        self.processes.as_ref()?.path_unless_limited(tightest, limits.processes)
    }

    /// Where the use of disks can be limited. A process must not escape a limit that it has, whatever
    /// its figure: limits are per disk.
    pub(crate) fn io_parent(&self) -> Option<(CgroupVersion, &Path)> {
        let has_limit = |folder: &Path| {
            let text = kernel_file::read(&folder.join("io.max")).ok()?;
            (!text.trim().is_empty()).then_some(0)
        };
        self.io.as_ref()?.path_unless_limited(has_limit, u64::MAX)
    }

    /// Folders of version 1 for groups that every command has. Few commands have a limited use of
    /// disks, and each group costs time.
    pub(crate) fn v1_parents_to_join(&self) -> impl Iterator<Item = &Path> {
        let usual = [&self.memory, &self.cpu, &self.processes];
        self.v1_parents().filter(move |path| {
            usual.iter().filter_map(|place| place.as_ref()).any(|place| place.parent == *path)
        })
    }

    /// Folders of version 1 in which groups may be created, each once.
    pub(crate) fn v1_parents(&self) -> impl Iterator<Item = &Path> {
        let places = [&self.memory, &self.cpu, &self.processes, &self.io];
        let is_v1 = |path: &&Path| {
            let mut of = places.iter().filter_map(|place| place.as_ref());
            of.any(|place| place.version == CgroupVersion::V1 && place.parent == *path)
        };
        self.parents().into_iter().filter(move |path| is_v1(path)).collect::<Vec<_>>().into_iter()
    }

    /// All folders in which groups may be created, each once.
    pub(crate) fn parents(&self) -> Vec<&Path> {
        let mut parents: Vec<&Path> = [&self.memory, &self.cpu, &self.processes, &self.io]
            .into_iter()
            .flatten()
            .map(|place| place.parent.as_path())
            .collect();
        parents.sort_unstable();
        parents.dedup();
        parents
    }
}

impl CgroupParent {
    /// This folder, unless a process that moves there would escape a limit tighter than `wanted`.
    fn path_unless_limited(
        &self,
        limit: impl Fn(&Path) -> Option<u64>,
        required_bytes: u64,
    ) -> Option<(CgroupVersion, &Path)> {
        let is_tighter =
            |folder: &PathBuf| limit(folder).is_some_and(|limit| limit < required_bytes);
        let escapes = self.left.iter().any(is_tighter);
        (!escapes).then_some((self.version, &self.parent))
    }
}

/// Reads a limit from a file; `None` if there is no limit.
fn read_limit(folder: &Path, file: &str) -> Option<u64> {
    kernel_file::read_number(&folder.join(file))
}

/// The memory that the groups of this process allow it, in bytes; `None` without a limit.
pub(crate) fn own_memory_limit() -> Option<u64> {
    let read = |path| kernel_file::read(Path::new(path)).unwrap_or_default();
    find_memory_limit(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
}

fn find_memory_limit(mounts: &str, memberships: &str) -> Option<u64> {
    let mount = |is_wanted: &dyn Fn(&CgroupMount<'_>) -> bool| {
        mounts.lines().filter_map(CgroupMount::parse).find(|mount| is_wanted(mount))
    };
    let v2 = memberships.lines().find_map(|line| line.strip_prefix("0::")).and_then(|own| {
        let mount = mount(&|mount| mount.kind == "cgroup2")?;
        let folder = mount.resolve_group_path(own)?;
        let groups = folder.ancestors().take_while(|folder| folder.starts_with(mount.point()));
        groups.filter_map(|folder| read_limit(folder, "memory.max")).min()
    });
    let is_memory = |list: &str| list.split(',').any(|name| name == "memory");
    let own = memberships.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().filter(|list| is_memory(list)).and(parts.next())
    });
    let v1 = own.and_then(|own| {
        let mount = mount(&|mount| mount.kind == "cgroup" && is_memory(mount.options))?;
        let stat = mount.resolve_group_path(own)?.join("memory.stat");
        kernel_file::read_counter(&stat, "hierarchical_memory_limit")
    });
    [v2, v1].into_iter().flatten().min()
}

/// Our own group of version 1 for a controller, if groups may be created in it.
fn find_v1_parent(mounts: &str, memberships: &str, controller: &str) -> Option<CgroupParent> {
    let names = |list: &str| list.split(',').any(|name| name == controller);
    let own = memberships.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().filter(|list| names(list)).and(parts.next())
    })?;
    let mount = mounts.lines().filter_map(CgroupMount::parse);
    let mount = mount.filter(|mount| mount.kind == "cgroup").find(|mount| names(mount.options))?;
    let parent = mount.resolve_group_path(own)?;
    // Without a hierarchy, usage in a group below does not count in ours, so the limit would be
    // escaped.
    let counts_below = kernel_file::read_number(&parent.join("memory.use_hierarchy")) != Some(0);
    let place = CgroupParent { version: CgroupVersion::V1, parent, left: Vec::new() };
    (counts_below && is_writable(&place.parent)).then_some(place)
}

/// The nearest group of version 2 that delegates a controller, if groups may be created in it.
fn find_v2_parent(mounts: &str, memberships: &str, controller: &str) -> Option<CgroupParent> {
    let own = memberships.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount =
        mounts.lines().filter_map(CgroupMount::parse).find(|mount| mount.kind == "cgroup2")?;
    let mut left = Vec::new();
    for folder in mount.resolve_group_path(own)?.ancestors().take(LEVELS_MAX) {
        if !folder.starts_with(mount.point()) || !is_writable(folder) {
            return None;
        }
        let shared = kernel_file::read(&folder.join("cgroup.subtree_control")).ok()?;
        if shared.split_whitespace().any(|name| name == controller) {
            return Some(CgroupParent {
                version: CgroupVersion::V2,
                parent: folder.to_owned(),
                left,
            });
        }
        left.push(folder.to_owned());
    }
    None
}

/// Whether groups may be created in a folder and our processes moved below it.
fn is_writable(folder: &Path) -> bool {
    let may = |path: &Path| {
        let access = rustix::fs::Access::WRITE_OK;
        rustix::fs::accessat(rustix::fs::CWD, path, access, rustix::fs::AtFlags::EACCESS).is_ok()
    };
    may(folder) && may(&folder.join("cgroup.procs"))
}

/// A line of `/proc/self/mountinfo`.
struct CgroupMount<'a> {
    /// The part of the file system that is mounted.
    root: String,
    point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut system = system.split(' ');
        Some(Self {
            root: unescape(place.next()?),
            point: unescape(place.next()?),
            kind: system.next()?,
            options: system.nth(1)?,
        })
    }

    fn point(&self) -> &Path {
        Path::new(&self.point)
    }

    /// The path of the group that the kernel calls `name`.
    fn resolve_group_path(&self, name: &str) -> Option<PathBuf> {
        let below = Path::new(name).strip_prefix(&self.root).ok()?;
        // A group above the root of our view has no path here.
        let is_plain =
            below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_plain.then(|| self.point().join(below))
    }
}

/// Decodes the escapes that the kernel uses for blanks in mount points.
fn unescape(name: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(name.to_owned(), |name, (code, text)| name.replace(code, text))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up trees that look like groups")]
    use super::*;

    /// A tree of groups in a temporary folder, given as files and their contents.
    struct CgroupTreeFixture(tempfile::TempDir);

    impl CgroupTreeFixture {
        fn with_files(rows: &[(&str, &str)]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            for (file, text) in rows {
                let path = temp.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path.parent().unwrap().join("cgroup.procs"), "").unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(temp)
        }

        /// Checks where groups would be created, relative to the top of the tree.
        #[track_caller]
        fn check(&self, kind: &str, root: &str, membership: &str, expected: Option<&str>) {
            let top = self.0.path().display();
            let mounts = format!("41 31 0:38 {root} {top} rw,relatime - {kind} none rw,memory");
            let places = CgroupParents::find_in(&mounts, membership);
            let limits = ProcessLimits { memory_bytes: 1000, ..ProcessLimits::default() };
            let found =
                places.memory_parent(&limits).map(|(_, path)| path.strip_prefix(self.0.path()));
            let expected = expected.map(|path| Ok(Path::new(path)));
            assert_eq!(found, expected, "{kind} {root} {membership}");
        }
    }

    #[test]
    fn v2_uses_nearest_group_that_delegates_memory() {
        let control = "cgroup.subtree_control";
        let tree = CgroupTreeFixture::with_files(&[
            (control, "cpu memory pids"),
            (&format!("user/{control}"), "memory pids"),
            (&format!("user/shell/{control}"), ""),
            (&format!("user/limited/{control}"), ""),
            ("user/limited/memory.max", "999\n"),
            (&format!("user/roomy/{control}"), ""),
            ("user/roomy/memory.max", "1000\n"),
            (&format!("user/free/{control}"), ""),
            ("user/free/memory.max", "max\n"),
        ]);
        tree.check("cgroup2", "/", "0::/user/shell", Some("user"));
        tree.check("cgroup2", "/", "0::/user", Some("user"));
        tree.check("cgroup2", "/", "0::/", Some(""));
        tree.check("cgroup2", "/", "0::/user/limited", None);
        tree.check("cgroup2", "/", "0::/user/roomy", Some("user"));
        tree.check("cgroup2", "/", "0::/user/free", Some("user"));
        tree.check("cgroup2", "/container", "0::/container/user/shell", Some("user"));
        tree.check("cgroup2", "/container", "0::/user/shell", None);
        tree.check("cgroup2", "/", "0::/../other", None);
        tree.check("cgroup2", "/", "0::/not-there", None);
        tree.check("cgroup2", "/", "4:memory:/user", None);
    }

    #[test]
    fn v1_uses_group_below_our_own() {
        let tree = CgroupTreeFixture::with_files(&[
            ("job/memory.use_hierarchy", "1\n"),
            ("flat/memory.use_hierarchy", "0\n"),
        ]);
        tree.check("cgroup", "/", "4:memory:/job", Some("job"));
        tree.check("cgroup", "/", "4:cpu,memory:/job", Some("job"));
        tree.check("cgroup", "/", "4:memory:/flat", None);
        tree.check("cgroup", "/", "4:cpu:/job", None);
        tree.check("cgroup", "/", "0::/job", None);
    }

    #[test]
    fn memory_limit_is_the_tightest_above() {
        let tree = CgroupTreeFixture::with_files(&[
            ("memory.max", "max\n"),
            ("slice/memory.max", "700\n"),
            ("slice/shell/memory.max", "900\n"),
            ("job/memory.stat", "cache 1\nhierarchical_memory_limit 800\n"),
        ]);
        let top = tree.0.path().display();
        let mounts = format!(
            "41 31 0:38 / {top} rw - cgroup2 none rw\n42 31 0:39 / {top} rw - cgroup none rw,memory"
        );
        for (membership, expected) in [
            ("0::/slice/shell", Some(700)),
            ("0::/", None),
            ("4:memory:/job\n0::/", Some(800)),
            ("4:cpu:/job\n0::/", None),
            ("0::/../elsewhere", None),
        ] {
            assert_eq!(find_memory_limit(&mounts, membership), expected, "{membership}");
        }
    }

    #[test]
    fn hybrid_hierarchy_uses_version_with_controller() {
        let tree = CgroupTreeFixture::with_files(&[
            ("unified/cgroup.subtree_control", ""),
            ("v1/memory.stat", ""),
        ]);
        let top = tree.0.path().display();
        let mounts = format!(
            "41 31 0:38 / {top}/unified rw - cgroup2 none rw\n42 31 0:39 / {top}/v1 rw - cgroup none rw,memory"
        );
        let places = CgroupParents::find_in(&mounts, "4:memory:/\n0::/\n");
        let found = places.memory_parent(&ProcessLimits::default()).unwrap();
        assert_eq!(found, (CgroupVersion::V1, tree.0.path().join("v1").as_path()));
    }
}
