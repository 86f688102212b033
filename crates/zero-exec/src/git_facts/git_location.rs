//! Finds out where git looks for a repository.
//!
//! Git takes a folder for one by its contents, whatever its name. Two answers are given: what git
//! may use, which is inspected, and what git certainly uses, after which it looks no further up.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zero_sandbox::{FileType, path_survey};

/// Most bytes of a file that names a folder; git reads a `.git` file up to this size.
const POINTER_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of the file that names the current branch or commit.
const HEAD_BYTES_MAX: u64 = 4_096;
/// The shortest name of a commit.
const COMMIT_DIGITS_MIN: usize = 40;

/// What git may take for the repository of a folder.
#[derive(Debug, Default)]
pub(crate) struct RepositoryLocation {
    /// The folders with its configuration: its own, and the common one of a worktree.
    pub(crate) git_folders: Vec<PathBuf>,
    /// Files that name a folder in a way that cannot be followed here.
    pub(crate) unknown_pointers: Vec<PathBuf>,
    /// Whether git uses one of these, so that folders further up do not matter.
    pub(super) is_certain: bool,
}

/// Where a file that names a folder leads.
pub(crate) enum PointerTarget {
    /// The file does not exist.
    Missing,
    /// To this path, with links not resolved.
    Folder(PathBuf),
    /// It is too large, no file, or malformed.
    Unknown,
}

impl RepositoryLocation {
    /// What git may find in `folder` itself; `None` if there is nothing.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        let mut found = Self::default();
        let git = folder.join(".git");
        match path_survey::file_type(&git) {
            Some(FileType::Directory) => found.add(git),
            None => {}
            // Git does not look further, even if it cannot follow the file.
            Some(_) => {
                found.is_certain = true;
                match read_pointer(&git, b"gitdir: ") {
                    PointerTarget::Folder(own) => found.add(own),
                    PointerTarget::Missing | PointerTarget::Unknown => {
                        found.unknown_pointers.push(git);
                    }
                }
            }
        }
        if !found.is_certain && may_be_git_folder(folder) {
            found.add(folder.to_owned());
        }
        (!found.git_folders.is_empty() || !found.unknown_pointers.is_empty()).then_some(found)
    }

    fn add(&mut self, git: PathBuf) {
        let pointer = git.join("commondir");
        match read_pointer(&pointer, b"") {
            PointerTarget::Missing => self.is_certain |= is_git_folder(&git, &git),
            PointerTarget::Folder(common) => {
                self.is_certain |= is_git_folder(&git, &common);
                self.git_folders.push(common);
            }
            PointerTarget::Unknown => self.unknown_pointers.push(pointer),
        }
        self.git_folders.insert(0, git);
    }
}

/// Whether git may take a folder for the folder of a repository: its objects and references are in
/// it, or in another folder that it names.
pub(crate) fn may_be_git_folder(folder: &Path) -> bool {
    let has = |name: &str| path_survey::exists(&folder.join(name));
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

/// Whether git certainly takes a folder for that of a repository whose objects are in `common`.
fn is_git_folder(own: &Path, common: &Path) -> bool {
    let is_folder = |name: &str| {
        path_survey::file_type(&common.join(name)) == Some(FileType::Directory)
            && path_survey::can_open(&common.join(name))
    };
    let names_commit = |head: &[u8]| {
        let branch = head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii_start);
        branch.is_some_and(|branch| branch.starts_with(b"refs/"))
            || head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() >= COMMIT_DIGITS_MIN
    };
    let head = path_survey::read_small_file(&own.join("HEAD"), HEAD_BYTES_MAX);
    head.is_some_and(|head| names_commit(&head)) && is_folder("objects") && is_folder("refs")
}

/// Reads a file that names a folder, relative to its own folder, as git does: only line ends are
/// removed, so a space may belong to the name.
pub(crate) fn read_pointer(file: &Path, prefix: &[u8]) -> PointerTarget {
    if !path_survey::exists(file) {
        return PointerTarget::Missing;
    }
    let target = path_survey::read_small_file(file, POINTER_BYTES_MAX).and_then(|content| {
        let mut name = content.strip_prefix(prefix)?;
        while let [start @ .., b'\n' | b'\r'] = name {
            name = start;
        }
        let is_path = !name.is_empty() && !name.contains(&0);
        is_path.then(|| Some(file.parent()?.join(OsStr::from_bytes(name)))).flatten()
    });
    target.map_or(PointerTarget::Unknown, PointerTarget::Folder)
}

/// The folder with the objects and settings of a repository: that of a linked worktree names the one
/// of its repository.
pub(crate) fn find_common_folder(git: &Path) -> PathBuf {
    let named = match read_pointer(&git.join("commondir"), b"") {
        PointerTarget::Folder(named) => path_survey::canonicalize(&named),
        PointerTarget::Missing | PointerTarget::Unknown => None,
    };
    named.unwrap_or_else(|| git.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    struct LocationFixture {
        temp: tempfile::TempDir,
    }

    impl LocationFixture {
        /// Creates files; a name that ends in `/` is a folder.
        fn new(files: &[(&str, &str)]) -> Self {
            let fixture = Self { temp: tempfile::tempdir().unwrap() };
            for (name, text) in files {
                let path = fixture.temp.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                match name.ends_with('/') {
                    true => std::fs::create_dir_all(path).unwrap(),
                    false => std::fs::write(path, text).unwrap(),
                }
            }
            fixture
        }

        #[track_caller]
        fn check(&self, folders: &[&str], unknown: &[&str], is_certain: bool) {
            let found = RepositoryLocation::find(self.temp.path()).unwrap_or_default();
            let paths = |names: &[&str]| -> Vec<PathBuf> {
                names.iter().map(|name| self.temp.path().join(name)).collect()
            };
            assert_eq!(found.git_folders, paths(folders));
            assert_eq!(found.unknown_pointers, paths(unknown));
            assert_eq!(found.is_certain, is_certain);
        }
    }

    const HEAD: (&str, &str) = ("HEAD", "ref: refs/heads/main\n");

    #[test]
    fn every_layout_is_found() {
        LocationFixture::new(&[("file", "")]).check(&[], &[], false);
        LocationFixture::new(&[HEAD, ("refs/", "")]).check(&[], &[], false);
        LocationFixture::new(&[HEAD, ("refs/", ""), ("objects/", "")]).check(&[""], &[], true);
        LocationFixture::new(&[HEAD, ("commondir", "c\n")]).check(&["", "c"], &[], false);
        LocationFixture::new(&[HEAD, ("commondir", "c "), ("c /refs/", ""), ("c /objects/", "")])
            .check(&["", "c "], &[], true);
        LocationFixture::new(&[(".git", "gitdir: a b \r\n")]).check(&["a b "], &[], true);
    }

    #[test]
    fn malformed_repository_hides_no_other() {
        let bare = [HEAD, ("refs/", ""), ("objects/", "")];
        LocationFixture::new(&[&bare[..], &[(".git/", "")]].concat()).check(
            &["", ".git"],
            &[],
            true,
        );
        let git = [(".git/HEAD", "none"), (".git/refs/", ""), (".git/objects/", "")];
        LocationFixture::new(&git).check(&[".git"], &[], false);
    }

    #[test]
    fn pointer_that_cannot_be_followed_is_reported() {
        let pad = |count: usize| format!("gitdir: x{}", "\n".repeat(count));
        LocationFixture::new(&[(".git", &pad(5_000))]).check(&["x"], &[], true);
        LocationFixture::new(&[(".git", &pad(1 << 20))]).check(&[], &[".git"], true);
        LocationFixture::new(&[(".git", "gitdir:x")]).check(&[], &[".git"], true);
        LocationFixture::new(&[HEAD, ("commondir", "\n")]).check(&[""], &["commondir"], false);
    }
}
