//! Resolves a path to what it denotes: follows links one by one, applies `..` after links, and uses
//! names as they are on disk.
//!
//! The result is only a name, and a name can change its meaning at any time. So callers open the
//! canonical name with links forbidden (see [`crate::open_beneath`]): if a link was put there
//! meanwhile, opening fails instead of leading to a file that was not authorized.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

/// Most links in one path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Longest path in bytes, as in the kernel.
pub const PATH_BYTES_MAX: usize = 4096;

/// The result of [`canonicalize`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalPath {
    /// The part that exists, without links.
    pub existing: PathBuf,
    /// The names that would have to be created below it, outermost first; empty if the whole path
    /// exists.
    pub missing: Vec<OsString>,
}

impl CanonicalPath {
    /// The whole path, whether it exists or not.
    pub(crate) fn into_path(self) -> PathBuf {
        let mut path = self.existing;
        path.extend(self.missing);
        path
    }
}

/// Why a path cannot be resolved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalPathError {
    /// The path leads through more than 40 links, usually in a loop.
    #[error("more than {LINKS_MAX} links follow each other")]
    TooManyLinks,
    /// A link of the kernel, such as `/proc/self/root`, whose target is not what it says.
    #[error("a link under `/proc` points elsewhere than it says")]
    MagicLink,
    /// `..` after a folder that does not exist.
    #[error("`..` follows a folder that does not exist")]
    DotsBelowMissing,
    /// A system call failed.
    #[error("{0}")]
    System(Errno),
}

/// Whether the last component is followed if it is a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalLinkMode {
    /// Follow it: the path means the link's target.
    Follow,
    /// Keep it: the path means the link itself.
    Keep,
}

/// Resolves `below`, which may be absolute, starting in `start`, which must be canonical.
pub fn canonicalize(
    start: &Path,
    below: &Path,
    last: FinalLinkMode,
) -> Result<CanonicalPath, CanonicalPathError> {
    canonicalize_with(start, below, last, |_| {})
}

/// The same, and calls `follow` with the canonical path of each link that is followed.
pub(crate) fn canonicalize_with(
    start: &Path,
    below: &Path,
    last: FinalLinkMode,
    mut follow: impl FnMut(PathBuf),
) -> Result<CanonicalPath, CanonicalPathError> {
    let mut here = start.to_path_buf();
    let mut todo: VecDeque<OsString> = VecDeque::new();
    prepend_components(&mut here, &mut todo, below);
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let (name, stat) = match find_entry(&here, &name) {
            Ok(found) => found,
            Err(Errno::NOENT) => return with_missing_tail(here, name, todo),
            Err(errno) => return Err(CanonicalPathError::System(errno)),
        };
        let next = here.join(&name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if last == FinalLinkMode::Follow || !todo.is_empty() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(CanonicalPathError::TooManyLinks);
                }
                let target = read_link(&here, &next)?;
                follow(next);
                prepend_components(&mut here, &mut todo, &target);
            }
            FileType::Directory => here = next,
            _ if todo.is_empty() => here = next,
            _ => return Err(CanonicalPathError::System(Errno::NOTDIR)),
        }
    }
    Ok(CanonicalPath { existing: here, missing: Vec::new() })
}

/// An absolute path as if no file existed: `..` takes the name before it away.
pub(crate) fn normalize(absolute: &Path) -> CanonicalPath {
    let mut missing = Vec::new();
    for component in absolute.components() {
        match component {
            Component::Normal(name) => missing.push(name.to_owned()),
            Component::ParentDir => drop(missing.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    CanonicalPath { existing: PathBuf::from("/"), missing }
}

fn with_missing_tail(
    here: PathBuf,
    name: OsString,
    todo: VecDeque<OsString>,
) -> Result<CanonicalPath, CanonicalPathError> {
    let missing: Vec<OsString> = std::iter::once(name).chain(todo).collect();
    if missing.iter().any(|name| name == "..") {
        return Err(CanonicalPathError::DotsBelowMissing);
    }
    Ok(CanonicalPath { existing: here, missing })
}

/// Puts the components of `path` in front of the remaining ones; an absolute path starts again from
/// the root.
fn prepend_components(here: &mut PathBuf, todo: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::RootDir => *here = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// Finds `name` in `folder`, and its spelling on disk.
fn find_entry(folder: &Path, name: &OsStr) -> Result<(OsString, Stat), Errno> {
    match rustix::fs::lstat(folder.join(name)) {
        Ok(stat) => Ok((find_name_on_disk(folder, name, &stat), stat)),
        Err(Errno::NOENT) => {
            let twin = find_unicode_equivalent(folder, name).ok_or(Errno::NOENT)?;
            let stat = rustix::fs::lstat(folder.join(&twin))?;
            Ok((twin, stat))
        }
        Err(errno) => Err(errno),
    }
}

fn read_link(folder: &Path, link: &Path) -> Result<PathBuf, CanonicalPathError> {
    if is_procfs(folder) {
        return Err(CanonicalPathError::MagicLink);
    }
    let target = rustix::fs::readlink(link, Vec::new()).map_err(CanonicalPathError::System)?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Whether `path` is in the kernel's process file system.
fn is_procfs(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

/// The spelling of a name on disk. In a case-insensitive folder, `.ENV` opens `.env`.
///
/// The name with its case swapped is looked up to find out: in a case-sensitive folder it does not
/// exist or is another file, and nothing more has to be checked.
fn find_name_on_disk(folder: &Path, name: &OsStr, stat: &Stat) -> OsString {
    let swapped: Vec<u8> = name.as_bytes().iter().map(|b| swap_case(*b)).collect();
    let same_file = swapped != name.as_bytes()
        && rustix::fs::lstat(folder.join(OsStr::from_bytes(&swapped)))
            .is_ok_and(|other| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino));
    if !same_file {
        return name.to_owned();
    }
    let mut found = None;
    for (entry, inode) in list_entries(folder) {
        if entry == name {
            return entry;
        }
        if inode == stat.st_ino && entry.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
            found = Some(entry);
        }
    }
    found.unwrap_or_else(|| name.to_owned())
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

/// The only entry that differs from `name` just in how its characters are composed. Such names are
/// equal in Unicode, and users cannot tell them apart.
fn find_unicode_equivalent(folder: &Path, name: &OsStr) -> Option<OsString> {
    let wanted = name.to_str().filter(|name| !name.is_ascii())?;
    let wanted = fold_unicode(wanted);
    let mut twins = list_entries(folder)
        .map(|(entry, _)| entry)
        .filter(|entry| entry.to_str().is_some_and(|e| fold_unicode(e) == wanted));
    let twin = twins.next()?;
    twins.next().is_none().then_some(twin)
}

fn fold_unicode(name: &str) -> String {
    name.nfc().collect()
}

fn list_entries(folder: &Path) -> impl Iterator<Item = (OsString, u64)> {
    let opened = rustix::fs::open(
        folder,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let listing = opened.and_then(rustix::fs::Dir::new).ok();
    listing
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| (OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(), entry.ino()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::symlink;

    struct LinkTreeFixture {
        temp: tempfile::TempDir,
    }

    impl LinkTreeFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path();
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            std::fs::write(root.join("a/b/file"), "").unwrap();
            symlink("a/b", root.join("short")).unwrap();
            symlink(root.join("a"), root.join("absolute")).unwrap();
            symlink("../../outside", root.join("a/out")).unwrap();
            symlink("loop", root.join("loop")).unwrap();
            symlink("a/new", root.join("dangling")).unwrap();
            symlink("/proc/self/root", root.join("magic")).unwrap();
            Self { temp }
        }

        #[track_caller]
        fn check(&self, path: &str, expected: &str) {
            let root = self.temp.path().canonicalize().unwrap();
            let shown = match canonicalize(&root, Path::new(path), FinalLinkMode::Follow) {
                Ok(found) => {
                    let mut path = found.existing.display().to_string();
                    path = path.replace(&root.display().to_string(), "ROOT");
                    path = path.replace(&root.parent().unwrap().display().to_string(), "UP");
                    for name in &found.missing {
                        path.push_str(&format!("+{}", name.display()));
                    }
                    path
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected, "{path}");
        }
    }

    #[test]
    fn canonical_path_matches_what_kernel_opens() {
        let tree = LinkTreeFixture::new();
        tree.check("a/b/file", "ROOT/a/b/file");
        tree.check("./a//b/../b/./file", "ROOT/a/b/file");
        tree.check("short/file", "ROOT/a/b/file");
        // `..` after a link leaves the link's target, not the folder that contains the link.
        tree.check("short/..", "ROOT/a");
        tree.check("absolute/b", "ROOT/a/b");
        tree.check("a/out", "UP+outside");
        tree.check("dangling", "ROOT/a+new");
        tree.check("a/x/y", "ROOT/a+x+y");
        tree.check("/", "/");
        tree.check("../../../../../../../../..", "/");
    }

    #[test]
    fn meaningless_paths_are_refused() {
        let tree = LinkTreeFixture::new();
        tree.check("loop", "more than 40 links follow each other");
        tree.check("magic/etc", "a link under `/proc` points elsewhere than it says");
        tree.check("none/../a", "`..` follows a folder that does not exist");
        tree.check("a/b/file/x", "Not a directory (os error 20)");
    }

    #[test]
    fn final_link_can_be_kept() {
        let tree = LinkTreeFixture::new();
        let root = tree.temp.path().canonicalize().unwrap();
        let kept = canonicalize(&root, Path::new("short"), FinalLinkMode::Keep).unwrap();
        assert_eq!(kept.existing, root.join("short"));
    }

    #[test]
    fn composed_and_decomposed_names_are_equal() {
        let tree = LinkTreeFixture::new();
        std::fs::write(tree.temp.path().join("cafe\u{301}.txt"), "").unwrap();
        tree.check("caf\u{e9}.txt", "ROOT/cafe\u{301}.txt");
    }

    #[test]
    fn case_matters_where_folder_is_case_sensitive() {
        let tree = LinkTreeFixture::new();
        std::fs::write(tree.temp.path().join("env"), "").unwrap();
        tree.check("ENV", "ROOT+ENV");
        // Two names of one file: each keeps its own.
        std::fs::hard_link(tree.temp.path().join("env"), tree.temp.path().join("ENV")).unwrap();
        tree.check("ENV", "ROOT/ENV");
        tree.check("env", "ROOT/env");
    }

    proptest::proptest! {
        #[test]
        fn the_answer_is_always_free_of_dots_and_links(
            parts in proptest::collection::vec(
                proptest::sample::select(vec!["a", "b", "..", ".", "short", "absolute", "out", "loop", "dangling", "file", "é", "magic"]),
                0..12,
            )
        ) {
            let tree = LinkTreeFixture::new();
            let root = tree.temp.path().canonicalize().unwrap();
            if let Ok(found) = canonicalize(&root, &parts.iter().collect::<PathBuf>(), FinalLinkMode::Follow) {
                proptest::prop_assert_eq!(&found.existing.canonicalize().unwrap(), &found.existing);
                proptest::prop_assert!(found.missing.iter().all(|name| name != ".." && name != "."));
            }
        }
    }
}
