//! The temporary folder that the commands of a session have of their own, as policy sees it.
//!
//! The sandbox mounts a folder of the session at `/tmp`. A path below `/tmp` in a command line therefore
//! does not mean the machine's file of that name, and a link in it is followed from there. What the
//! sandbox shows of the machine's `/tmp` after all, such as a workspace in it, is not private, and
//! neither is anything else beneath the same first name: it cannot be told apart for certain.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use zero_policy::FileSearchOutcome;
use zero_policy::path::normalize_lexically;
use zero_policy::program::FileAccess;
use zero_policy::rule::escape_glob;
use zero_sandbox::{FileType, path_survey};

use super::glob_expansion;

/// Where commands have their temporary folder.
pub(crate) const TEMP: &str = "/tmp";
/// Most links in one path, as in the kernel.
const LINKS_MAX: usize = 40;

/// The temporary folder that the commands of a session have of their own.
#[derive(Debug)]
pub(crate) struct PrivateTemp {
    /// The folder that is mounted; it may not exist yet.
    folder: PathBuf,
    /// The first names beneath `/tmp` of what the sandbox shows of the machine.
    shown: BTreeSet<OsString>,
}

impl PrivateTemp {
    /// The folder of a session. `shown` are paths of the machine that its commands may see. `None` if
    /// the machine's own temporary folder is not where that of commands is.
    pub(crate) fn new<'p>(folder: PathBuf, shown: impl Iterator<Item = &'p Path>) -> Option<Self> {
        let temp = Path::new(TEMP);
        let mut names = BTreeSet::new();
        for path in shown.filter(|path| path.is_absolute()) {
            let canonical = path_survey::canonicalize(path);
            for path in [Some(path), canonical.as_deref()].into_iter().flatten() {
                // All of it is shown.
                if temp.starts_with(path) {
                    return None;
                }
                names.extend(first_name(path).map(OsStr::to_owned));
            }
        }
        let is_plain = path_survey::canonicalize(temp).is_some_and(|canonical| canonical == temp);
        is_plain.then_some(Self { folder, shown: names })
    }

    /// Whether a path is the folder or in it.
    fn has(&self, path: &Path) -> bool {
        path == Path::new(TEMP) || first_name(path).is_some_and(|name| !self.shown.contains(name))
    }

    /// Where something that a command sees is on the machine.
    pub(crate) fn to_host(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(TEMP) {
            Ok(below) if self.has(path) => self.folder.join(below),
            _ => path.to_owned(),
        }
    }

    /// Where a command sees something that is in this folder on the machine.
    pub(crate) fn to_command(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.folder);
        below.map_or_else(|_| path.to_owned(), |below| Path::new(TEMP).join(below))
    }

    /// Whether something exists in the private folder, possibly a link.
    fn holds(&self, path: &Path) -> bool {
        path == Path::new(TEMP) || path_survey::exists(&self.to_host(path))
    }

    /// Whether a command that accesses this path, as [`PrivateTemp::canonicalize`] returned it, reaches
    /// nothing but its private file. What only the machine has is shown to a command that may read it.
    pub(crate) fn is_private(&self, path: &Path, access: FileAccess) -> bool {
        let is_shown = || access == FileAccess::Read && !self.holds(path);
        self.has(path) && !(is_shown() && path_survey::exists(path))
    }

    /// The path that a command means, with its links resolved as the command sees them. `None` if it
    /// cannot be resolved.
    pub(crate) fn canonicalize(&self, absolute: &Path, access: FileAccess) -> Option<PathBuf> {
        let on_host = path_survey::canonicalize(absolute);
        let is_below = |path: &Path| path.starts_with(TEMP);
        let written = normalize_lexically(absolute);
        if !is_below(&written) && !on_host.as_deref().is_some_and(is_below) {
            return on_host;
        }
        let found = self.resolve(absolute)?;
        // A command that may read what only the machine has is shown it.
        let is_shown = access == FileAccess::Read && self.has(&found) && !self.holds(&found);
        on_host.filter(|_| is_shown && path_survey::exists(&found)).or(Some(found))
    }

    fn resolve(&self, absolute: &Path) -> Option<PathBuf> {
        let mut here = PathBuf::from("/");
        let mut todo = VecDeque::new();
        prepend(&mut here, &mut todo, absolute);
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            let on_host = self.to_host(&next);
            if path_survey::is_link(&on_host) {
                links += 1;
                // The kernel's links do not lead where they say.
                if links > LINKS_MAX || here.starts_with("/proc") {
                    return None;
                }
                prepend(&mut here, &mut todo, &path_survey::read_link(&on_host)?);
                continue;
            }
            match path_survey::file_type(&on_host) {
                Some(FileType::Directory) => here = next,
                // The folder is made with the first command.
                None if next == Path::new(TEMP) => here = next,
                _ if todo.is_empty() => here = next,
                None if path_survey::is_absent(&on_host)
                    && !todo.iter().any(|name| name == "..") =>
                {
                    here = next;
                    here.extend(todo.drain(..));
                }
                _ => return None,
            }
        }
        Some(here)
    }

    /// The files that a pattern of a command matches, if it begins in the folder: those in it, and
    /// those of the machine, which a command may see if it may read them.
    pub(crate) fn expand_glob(&self, pattern: &str, most: usize) -> Option<Option<Vec<PathBuf>>> {
        let below = pattern.strip_prefix(TEMP)?.strip_prefix('/')?;
        let first = below.split('/').next()?.replace('\\', "");
        if self.shown.contains(OsStr::new(&first)) {
            return None;
        }
        let folder = self.folder.to_str()?;
        let own = glob_expansion::expand(&format!("{}/{below}", escape_glob(folder)), most);
        let of_host = glob_expansion::expand(pattern, most);
        let (Some(own), Some(of_host)) = (own, of_host) else { return Some(None) };
        let found: BTreeSet<PathBuf> =
            own.iter().map(|path| self.to_command(path)).chain(of_host).collect();
        Some((found.len() <= most).then(|| found.into_iter().collect()))
    }

    /// Where a folder that a command sees is on the machine, if it is private.
    pub(crate) fn search_root(&self, folder: &Path) -> Option<PathBuf> {
        (self.has(folder) && self.holds(folder)).then(|| self.to_host(folder))
    }

    /// What a search on the machine found, as a command calls it.
    pub(crate) fn rename_found(&self, outcome: FileSearchOutcome) -> FileSearchOutcome {
        match outcome {
            FileSearchOutcome::Found(path) => FileSearchOutcome::Found(self.to_command(&path)),
            other => other,
        }
    }
}

/// The first name below `/tmp`.
fn first_name(path: &Path) -> Option<&OsStr> {
    match path.strip_prefix(TEMP).ok()?.components().next()? {
        Component::Normal(name) => Some(name),
        _ => None,
    }
}

/// Puts the components of `path` in front of the remaining ones; an absolute path starts again from
/// the root.
fn prepend(here: &mut PathBuf, todo: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::RootDir => *here = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use FileAccess::{Delete, Read, Write};

    use super::*;

    /// A private folder with files, a machine with a folder of this test in `/tmp`, and a workspace
    /// beneath another name there.
    struct Rig {
        _folder: tempfile::TempDir,
        machine: tempfile::TempDir,
        workspace: tempfile::TempDir,
        temp: PrivateTemp,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir_in("/var/tmp").unwrap();
            let [machine, workspace] = [(); 2].map(|()| tempfile::tempdir_in("/tmp").unwrap());
            let shown = [workspace.path().join("w")];
            let shown = shown.iter().map(PathBuf::as_path);
            let temp = PrivateTemp::new(folder.path().to_owned(), shown).unwrap();
            Self { _folder: folder, machine, workspace, temp }
        }

        fn own(&self, path: &str) -> PathBuf {
            self.temp.to_host(&Path::new(TEMP).join(path))
        }

        /// How a path is judged: its target, and whether it is private.
        #[track_caller]
        fn check(
            &self,
            path: impl AsRef<Path>,
            access: FileAccess,
            expected: Option<(&str, bool)>,
        ) {
            let path = path.as_ref();
            let found = self.temp.canonicalize(path, access);
            let found = found.map(|path| {
                let is_private = self.temp.is_private(&path, access);
                (path.to_str().unwrap().to_owned(), is_private)
            });
            let expected = expected.map(|(path, is_private)| (path.to_owned(), is_private));
            assert_eq!(found, expected, "{path:?} {access:?}");
        }
    }

    #[test]
    fn file_of_session_is_private() {
        let rig = Rig::new();
        for access in [Read, Write, Delete] {
            rig.check("/tmp", access, Some(("/tmp", true)));
            rig.check(
                "/tmp/none-of-the-machine/a",
                access,
                Some(("/tmp/none-of-the-machine/a", true)),
            );
            rig.check("/tmp/../tmp/./none-here", access, Some(("/tmp/none-here", true)));
        }
        rig.check("/tmpx/a", Write, Some(("/tmpx/a", false)));
    }

    #[test]
    fn path_that_leaves_the_folder_is_not_private() {
        let rig = Rig::new();
        rig.check("/tmp/../etc/passwd", Write, Some(("/etc/passwd", false)));
        rig.check("/tmp/none/../../etc/passwd", Write, Some(("/etc/passwd", false)));
        fs::create_dir(rig.own("d")).unwrap();
        rig.check("/tmp/d/../../etc/passwd", Write, Some(("/etc/passwd", false)));
        for (name, target) in [
            ("out", "/etc"),
            ("up", "../etc"),
            ("back", "/etc/../tmp/d"),
            ("chain", "/tmp/out"),
            ("loop", "/tmp/loop"),
            ("kernel", "/proc/self/root"),
        ] {
            symlink(target, rig.own(name)).unwrap();
        }
        rig.check("/tmp/out/passwd", Write, Some(("/etc/passwd", false)));
        rig.check("/tmp/up/passwd", Read, Some(("/etc/passwd", false)));
        rig.check("/tmp/chain/passwd", Read, Some(("/etc/passwd", false)));
        rig.check("/tmp/back/a", Write, Some(("/tmp/d/a", true)));
        rig.check("/tmp/loop/a", Write, None);
        rig.check("/tmp/kernel/etc/passwd", Read, None);
        symlink(rig.workspace.path().join("w"), rig.own("work")).unwrap();
        let file = rig.workspace.path().join("w/a");
        rig.check("/tmp/work/a", Write, Some((file.to_str().unwrap(), false)));
    }

    #[test]
    fn file_that_only_the_machine_has_is_not_read_unasked() {
        let rig = Rig::new();
        let file = rig.machine.path().join("log");
        fs::write(&file, "").unwrap();
        let shown = file.to_str().unwrap();
        rig.check(&file, Read, Some((shown, false)));
        // A command that writes makes a file of its own.
        rig.check(&file, Write, Some((shown, true)));
        let own = rig.temp.to_host(&file);
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(own, "").unwrap();
        rig.check(&file, Read, Some((shown, true)));
    }

    #[test]
    fn what_is_beside_a_shown_folder_is_not_private() {
        let rig = Rig::new();
        for path in ["", "w", "w/a", "beside"] {
            let path = rig.workspace.path().join(path);
            let path = path.to_str().unwrap().trim_end_matches('/');
            rig.check(path, Write, Some((path, false)));
        }
        let home = PrivateTemp::new(PathBuf::from("/none"), [Path::new("/tmp")].into_iter());
        assert!(home.is_none(), "all of the machine's folder is shown");
    }

    #[test]
    fn pattern_matches_files_of_session_and_machine() {
        let rig = Rig::new();
        fs::write(rig.own("one.x-zero-test"), "").unwrap();
        let found = rig.temp.expand_glob("/tmp/*.x-zero-test", 5).unwrap();
        assert_eq!(found, Some(vec![PathBuf::from("/tmp/one.x-zero-test")]));
        let name = rig.machine.path().file_name().unwrap().to_str().unwrap();
        fs::write(rig.machine.path().join("a"), "").unwrap();
        let found = rig.temp.expand_glob(&format!("/tmp/{name}/*"), 5).unwrap();
        assert_eq!(found, Some(vec![rig.machine.path().join("a")]));
        let shown = rig.workspace.path().join("*");
        assert_eq!(rig.temp.expand_glob(shown.to_str().unwrap(), 5), None);
        assert_eq!(rig.temp.expand_glob("/w/*", 5), None);
    }
}
